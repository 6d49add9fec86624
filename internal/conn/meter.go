package conn

import "time"

// A Meter is told what goes over one connection. Its methods are called without a lock
// held, from any goroutine; they must not block.
type Meter interface {
	// Sent: a request or token was written whole, its length included.
	Sent(bytes int)
	// Received: an answer was read whole, so long after its request was written.
	Received(bytes int, latency time.Duration)
	// Throttled: an answer said for how long the broker throttles this client, which
	// mostly is 0.
	Throttled(time.Duration)
	// Authenticated: the two sides accepted each other by TLS and SASL, or again by
	// SASL, or did not.
	Authenticated(again bool, took time.Duration, ok bool)
	// Closed: the connection was closed. It is the last call, but for one that is
	// under way.
	Closed()
}

// noMeter is the Meter of those who measure nothing.
type noMeter struct{}

func (noMeter) Sent(int)                                {}
func (noMeter) Received(int, time.Duration)             {}
func (noMeter) Throttled(time.Duration)                 {}
func (noMeter) Authenticated(bool, time.Duration, bool) {}
func (noMeter) Closed()                                 {}

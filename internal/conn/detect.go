package conn

import "github.com/kafkaconsumer/kafka/protocol"

// A probe is a request by which a broker shows what it is.
type probe int8

const (
	probeVersions   probe = iota // ApiVersions, which brokers have since 0.10
	probeGroups                  // ListGroups v0, since 0.9
	probeFinder                  // FindCoordinator v0, since 0.8.2
	probeOffsets                 // OffsetFetch v0, since 0.8.1
	probeTopics                  // Metadata v0, which all have
	probeVersionsAt              // ApiVersions again, on a connection that has just worked
)

// olderBrokers are the probes for brokers without ApiVersions, newest first, and what
// it means when they are answered.
var olderBrokers = map[probe]protocol.Release{
	probeGroups:  mustRelease("0.9"),
	probeFinder:  mustRelease("0.8.2"),
	probeOffsets: mustRelease("0.8.1"),
	probeTopics:  mustRelease("0.8.0"),
}

func mustRelease(s string) protocol.Release {
	r, err := protocol.ParseRelease(s)
	if err != nil {
		panic(err)
	}
	return r
}

// A verdict is what became of a probe and of the canary behind it: a Metadata request
// that every broker answers, and answers after the probe if it knows the probe.
type verdict int8

const (
	failed   verdict = iota // nothing came in time, or nothing that a broker would say
	answered                // the probe was; and, where it was sent, the canary
	skipped                 // the canary was answered, and the probe before it was not
	closed                  // the connection was closed before both were answered
)

// A ruling is what to do next.
type ruling int8

const (
	giveUp    ruling = iota // nothing is known; the connection is of no use
	askAnew                 // send the next probe, on a new connection
	askHere                 // send the next probe, on the same connection
	isModern                // the broker said what it supports
	isOld                   // it is of the release that was found, and the connection works
	isOldAnew               // likewise, but a new connection is needed
)

// A detection finds out what a broker is, by what it knows: it says which request to
// send next and what the answers mean.
//
// A closed connection proves little: a TLS listener, a SASL listener, a proxy or a
// broker with too many clients close too. So nobody is called old who did not answer an
// old broker's requests, and who does not close on ApiVersions a second time, on the
// very connection on which it answered. A broker that skips ApiVersions but answers the
// request behind it, as 0.9 does, has shown that it does not know it. Silence proves
// nothing at all.
//
// When 0.9 swallows what one client sent, it may lose what another one sent in the same
// moment (KAFKA-3547): so what is skipped of the older requests is sent a second time.
type detection struct {
	next  probe
	found protocol.Release // answered to its probe, and, with isOld, the result
	// unaware: it was seen that the broker does not know ApiVersions.
	unaware bool
	again   bool // next was skipped once
	// mayBeOld: the broker may be older than 0.10. Otherwise ApiVersions is all that is
	// sent.
	mayBeOld bool
}

// take takes in what became of the probe next.
func (d *detection) take(v verdict) ruling {
	switch {
	case v == failed:
		return giveUp
	case d.next == probeVersions:
		return d.takeVersions(v)
	case d.next == probeVersionsAt:
		return d.takeSecond(v)
	case v == answered:
		d.found = olderBrokers[d.next]
		if d.unaware {
			return isOld
		}
		d.next = probeVersionsAt
		return askHere
	case v == skipped && !d.again:
		d.again = true
		return askAnew
	case d.next == probeTopics:
		return giveUp
	}
	d.next, d.again = d.next+1, false
	return askAnew
}

func (d *detection) takeVersions(v verdict) ruling {
	switch {
	case v == answered:
		return isModern
	case !d.mayBeOld:
		return giveUp
	}
	d.unaware = v == skipped
	d.next = probeGroups
	return askAnew
}

// takeSecond is for ApiVersions on a connection that has just worked.
func (d *detection) takeSecond(v verdict) ruling {
	if v == answered {
		return isModern
	}
	return isOldAnew
}

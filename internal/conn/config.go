package conn

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a Config's zero values stand for.
const (
	defaultMaxInFlight    = 5
	defaultRequestTimeout = 30 * time.Second
	defaultSetupTimeout   = 10 * time.Second
	defaultMaxFrame       = 100 << 20
)

// A Config says how to connect. It is not changed by this package and must not
// be changed while a connection made from it exists.
type Config struct {
	// ClientID stands in the header of each request.
	ClientID string
	// SoftwareName and SoftwareVersion are told to brokers of 2.4 and newer
	// (KIP-511); characters that are not allowed there are replaced.
	SoftwareName, SoftwareVersion string

	// Dialer opens a connection to the host's name, unresolved. It must return
	// when its context ends. Nil: names are resolved by LookupHost at each dial
	// and all addresses are tried in turn.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// LookupHost resolves a name. Nil: net.DefaultResolver.LookupHost.
	LookupHost func(ctx context.Context, host string) ([]string, error)
	// CanonicalBootstrap resolves the host of a node with a negative id, which is a
	// bootstrap server, even when there is a Dialer, and puts in its place the name
	// that LookupAddr finds for each address.
	CanonicalBootstrap bool
	// LookupAddr returns the names of an address. Nil: net.DefaultResolver.LookupAddr.
	LookupAddr func(ctx context.Context, addr string) ([]string, error)
	// Control is called on each socket before it connects; see net.Dialer.
	// It is not used with a Dialer.
	Control func(network, address string, c syscall.RawConn) error
	// ReceiveBufferBytes and SendBufferBytes are SO_RCVBUF and SO_SNDBUF. Zero
	// or less: as the system has it. They are not used with a Dialer.
	ReceiveBufferBytes, SendBufferBytes int

	// TLS returns the configuration to connect to a host with; its ServerName
	// is filled in when empty. Nil: no TLS.
	TLS func(host string) *tls.Config
	// Auth authenticates each new connection. Nil: none.
	Auth Authenticator

	// MaxInFlight is how many requests of one Mux may be unanswered. Zero: 5.
	MaxInFlight int
	// RequestTimeout bounds the wait for an answer, from the write of its
	// request. Zero: 30 s.
	RequestTimeout time.Duration
	// FetchMaxWait is how long a broker may hold what is sent by Send.
	FetchMaxWait time.Duration
	// SetupTimeout bounds a dial: name lookup, TCP, TLS, SASL and ApiVersions.
	// Zero: 10 s.
	SetupTimeout time.Duration
	// ProbeTimeout bounds the time to find out what a broker supports, from the
	// first question on. Zero: only SetupTimeout does.
	ProbeTimeout time.Duration
	// MaxIdle is the time after which an unused connection is closed. Zero or
	// less: never.
	MaxIdle time.Duration
	// ReconnectBackoff and ReconnectBackoffMax pace a Broker's attempts; see
	// Backoff.
	ReconnectBackoff, ReconnectBackoffMax time.Duration

	// MaxFrame is the largest answer accepted, in bytes. Zero: 100 MiB.
	MaxFrame int32
	// Clamp is the newest release to behave as. The zero value: no limit, and a
	// broker that does not know ApiVersions is asked what brokers before 0.10 know.
	// Below 0.10 the broker is not asked for its versions, because it would not
	// answer; the release's own are used.
	Clamp protocol.Release
	// Releases remembers what old brokers are; those of one cluster share it. Nil:
	// one for this configuration alone.
	Releases *Releases

	// Meter is called for each connection when it is open, before anything goes over
	// it, and again, with the Meter that it had, when it turns out to lead to another
	// node: the one returned is told what comes. It must not block. Nil: nothing is
	// measured.
	Meter func(node int32, was Meter) Meter

	// Logger gets what happens to connections. Nil: slog.Default().
	Logger *slog.Logger
}

// An Authenticator proves who the client is on a new connection, and again
// before the lifetime that it returned is over. Zero lifetime: for ever. host
// is the broker's name as it was dialled. An error of rt must be returned as it
// is or wrapped; every other error means that authentication failed.
type Authenticator interface {
	Authenticate(ctx context.Context, host string, rt Exchange) (lifetime time.Duration, err error)
}

// An Exchange sends the messages of an Authenticator.
type Exchange interface {
	// Versions tells what the broker supports.
	Versions() *protocol.Versions
	// Do sends a SaslHandshake or SaslAuthenticate request in the highest common
	// version and returns the answer to it.
	Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	// Token sends a token with nothing but its length before it, as after
	// SaslHandshake version 0, and returns the token that comes back.
	Token(ctx context.Context, token []byte) ([]byte, error)
	// LastToken sends a token in the same way, to which no answer comes: brokers
	// that read raw tokens say nothing to the last one of GSSAPI.
	LastToken(ctx context.Context, token []byte) error
}

// filled returns a copy with the defaults in place of zero values.
func (c *Config) filled() *Config {
	f := *c
	if f.MaxInFlight <= 0 {
		f.MaxInFlight = defaultMaxInFlight
	}
	if f.RequestTimeout <= 0 {
		f.RequestTimeout = defaultRequestTimeout
	}
	if f.SetupTimeout <= 0 {
		f.SetupTimeout = defaultSetupTimeout
	}
	if f.MaxFrame <= 0 {
		f.MaxFrame = defaultMaxFrame
	}
	if f.LookupHost == nil {
		f.LookupHost = net.DefaultResolver.LookupHost
	}
	if f.LookupAddr == nil {
		f.LookupAddr = net.DefaultResolver.LookupAddr
	}
	if f.Releases == nil {
		f.Releases = NewReleases()
	}
	if f.Logger == nil {
		f.Logger = slog.Default()
	}
	return &f
}

// Limit wraps req so that no version outside lowest to highest is chosen for
// it.
func Limit(req kmsg.Request, lowest, highest int16) kmsg.Request {
	return &limited{Request: req, lowest: lowest, highest: highest}
}

type limited struct {
	kmsg.Request
	lowest, highest int16
}

func (l *limited) MinVersion() int16 { return l.lowest }
func (l *limited) MaxVersion() int16 { return min(l.highest, l.Request.MaxVersion()) }

// versionRange returns the versions of req that this client can send.
func versionRange(req kmsg.Request) (lowest, highest int16) {
	if m, ok := req.(interface{ MinVersion() int16 }); ok {
		lowest = m.MinVersion()
	}
	return lowest, req.MaxVersion()
}

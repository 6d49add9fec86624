package kafka

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// A SecurityProtocol is a pair of transport and authentication.
type SecurityProtocol string

// The security protocols.
const (
	SecurityPlaintext     SecurityProtocol = "PLAINTEXT"
	SecuritySSL           SecurityProtocol = "SSL"
	SecuritySASLPlaintext SecurityProtocol = "SASL_PLAINTEXT"
	SecuritySASLSSL       SecurityProtocol = "SASL_SSL"
)

// A SASLClient authenticates connections by one SASL mechanism. It is the seam by
// which mechanisms that need heavy dependencies plug in. It must be safe for
// concurrent use: several connections authenticate at once.
type SASLClient interface {
	// Mechanism is the mechanism's registered name, such as "GSSAPI".
	Mechanism() string
	// Start begins an exchange with a broker, host being the name or address that
	// was dialled. It returns the client's first message, nil for none.
	Start(ctx context.Context, host string) (session SASLSession, first []byte, err error)
}

// A SASLSession is one running exchange. It is used by one goroutine.
type SASLSession interface {
	// Next takes a message of the server and returns the answer to it, and whether
	// the client considers the exchange complete: a nil answer then sends nothing,
	// another is the last message, to which a broker that reads raw tokens (see
	// SaslHandshake version 0) says nothing.
	// An error ends the connection, after the answer beside it, if any, was sent.
	// It must hold no secret, and the server's text only escaped.
	Next(ctx context.Context, server []byte) (answer []byte, done bool, err error)
}

// A KerberosClient is a SASLClient that takes Config.SASLKerberosServiceName and
// Config.SASLKerberosDomainName.
type KerberosClient interface {
	SASLClient
	// WithKerberosNames returns a client for brokers with the principal
	// service/domain. An empty service means the client's own choice (kafka), an
	// empty domain the host that is dialled.
	WithKerberosNames(service, domain string) SASLClient
}

// A TokenProvider gives tokens for OAUTHBEARER (KIP-255). It must be safe for
// concurrent use.
type TokenProvider interface {
	// Token returns a token that is valid now. It is called for each connection,
	// and again before a session ends that the broker bounds (KIP-368), so it
	// should cache. The error must hold no secret.
	Token(ctx context.Context) (Token, error)
}

// A Token is an OAuth bearer token.
type Token struct {
	Value      string            `json:"-"` // the compact serialization that the broker gets; never printed
	Lifetime   time.Time         // when it ends; zero means unknown
	Extensions map[string]string // SASL extensions (KIP-342)
}

// String hides the token's value and its extensions.
func (t Token) String() string { return "kafka.Token{(hidden)}" }

// Format writes the same text as String for every verb.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// GoString hides the token's value.
func (t Token) GoString() string { return t.String() }

// LogValue returns the same text as String.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

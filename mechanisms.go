package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/kafkaconsumer/kafka/internal/sasl"
)

// The mechanisms that Config.SASLMechanism may name.
const (
	mechanismPlain       = "PLAIN"
	mechanismGSSAPI      = "GSSAPI"
	mechanismOAuthBearer = "OAUTHBEARER"
)

// gssapiImport is where the client for GSSAPI is.
const gssapiImport = "github.com/kafkaconsumer/kafka/contrib/gssapi"

// saslClient returns what authenticates connections, nil for nothing.
func saslClient(c *Config) SASLClient {
	switch {
	case c.SecurityProtocol != SecuritySASLPlaintext && c.SecurityProtocol != SecuritySASLSSL:
		return nil
	case c.SASL != nil:
		return withKerberosNames(c)
	case c.SASLMechanism == mechanismOAuthBearer:
		return &oauthClient{provider: c.SASLOAuthTokenProvider}
	default:
		return &passwordClient{mechanism: c.SASLMechanism, username: c.SASLUsername, password: c.SASLPassword}
	}
}

// withKerberosNames tells Config.SASL the names of the brokers' principal, if there
// are any; validate has seen to it that it takes them.
func withKerberosNames(c *Config) SASLClient {
	if k, ok := c.SASL.(KerberosClient); ok && (c.SASLKerberosServiceName != "" || c.SASLKerberosDomainName != "") {
		return k.WithKerberosNames(c.SASLKerberosServiceName, c.SASLKerberosDomainName)
	}
	return c.SASL
}

// A passwordClient authenticates by PLAIN or SCRAM.
type passwordClient struct{ mechanism, username, password string }

func (p *passwordClient) Mechanism() string { return p.mechanism }

func (p *passwordClient) Start(context.Context, string) (SASLSession, []byte, error) {
	if p.mechanism == mechanismPlain {
		session, first := sasl.Plain(p.username, p.password)
		return session, first, nil
	}
	return sasl.Scram(p.mechanism, p.username, p.password)
}

// An oauthClient authenticates by OAUTHBEARER.
type oauthClient struct{ provider TokenProvider }

func (o *oauthClient) Mechanism() string { return mechanismOAuthBearer }

func (o *oauthClient) Start(ctx context.Context, _ string) (SASLSession, []byte, error) {
	token, err := o.provider.Token(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !token.Lifetime.IsZero() && !time.Now().Before(token.Lifetime) {
		return nil, nil, errors.New("OAUTHBEARER: the token that SASLOAuthTokenProvider gave has expired at " +
			token.Lifetime.UTC().Format(time.RFC3339))
	}
	session, first, err := sasl.OAuthBearer(token.Value, token.Extensions)
	return oauthSession{session, token.Lifetime}, first, err
}

// An oauthSession knows when its token ends.
type oauthSession struct {
	sasl.Session
	end time.Time
}

func (s oauthSession) expiry() time.Time { return s.end }

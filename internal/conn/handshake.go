package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// reauthEarliest to reauthLatest is when, as a part of its lifetime, an
	// authentication is renewed (KIP-368).
	reauthEarliest, reauthLatest = 0.85, 0.95
	// minSession is the time within which brokers refuse to authenticate a
	// connection again.
	minSession = time.Second
)

func (l *Link) startTLS(ctx context.Context) error {
	if l.cfg.TLS == nil {
		return nil
	}
	host := strings.TrimSuffix(l.addr.Host, ".")
	tlsConfig := l.cfg.TLS(host)
	if tlsConfig.ServerName == "" {
		tlsConfig = tlsConfig.Clone()
		tlsConfig.ServerName = host
	}
	conn := tls.Client(l.raw, tlsConfig)
	if err := conn.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			return l.newError(OpTLS, ctxError(ctx))
		}
		return l.tlsError(err)
	}
	l.conn = conn
	return nil
}

func (l *Link) tlsError(err error) error {
	if isTLSRefusal(err) {
		l.meter().Authenticated(false, time.Since(l.opened), false)
		return &AuthError{Node: l.Node(), Addr: l.addr, Op: OpTLS, Err: tlsHint(err)}
	}
	return l.newError(OpTLS, tlsHint(err))
}

// softwareField makes of s what brokers accept as software name or version,
// which refuse the connection otherwise (KIP-511): letters, digits, dots and
// hyphens, a letter or digit at both ends.
func softwareField(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		}
		return '-'
	}, s)
	if s = strings.Trim(s, "-."); s == "" {
		return "unknown"
	}
	return s
}

// authenticate proves who we are, at the start and again before the session
// ends.
func (l *Link) authenticate(ctx context.Context) (err error) {
	if l.cfg.Auth == nil {
		return nil
	}
	l.renewAt, err = l.authenticateBy(ctx, exchange{l})
	return err
}

// noteAuthenticated measures an authentication that ended in one way or the other.
func (l *Link) noteAuthenticated(again bool, began time.Time, err error) {
	if _, refused := errors.AsType[*AuthError](err); err == nil || refused {
		l.meter().Authenticated(again, time.Since(began), !refused)
	}
}

// authenticateBy runs one authentication and returns when to renew it; zero means
// never. Its failure is that of the link.
func (l *Link) authenticateBy(ctx context.Context, rt Exchange) (renewAt time.Time, err error) {
	lifetime, err := l.cfg.Auth.Authenticate(ctx, l.addr.Host, rt)
	if err == nil {
		if lifetime > 0 {
			part := reauthEarliest + (reauthLatest-reauthEarliest)*rand.Float64()
			renewAt = time.Now().Add(max(minSession, time.Duration(part*float64(lifetime))))
		}
		return renewAt, nil
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		err = l.newError(OpSASL, saslHint(e.Err))
	case ctx.Err() != nil:
		err = l.newError(OpSASL, ctxError(ctx))
	default:
		err = &AuthError{Node: l.Node(), Addr: l.addr, Op: OpSASL, Err: err}
	}
	_ = l.failWith(err) // err says more than what closed the link first
	return time.Time{}, err
}

func saslHint(err error) error {
	if isHangUp(err) {
		return &hintError{err, "the broker closed the connection during authentication: brokers older than 1.0 do so when the credentials are wrong"}
	}
	return err
}

// exchange is a Link as its Authenticator sees it.
type exchange struct{ l *Link }

func (x exchange) Versions() *protocol.Versions { return x.l.versions }

func (x exchange) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if err := x.l.pick(req); err != nil {
		return nil, err
	}
	return x.l.roundTrip(ctx, req, x.l.cfg.RequestTimeout)
}

func (x exchange) Token(ctx context.Context, token []byte) ([]byte, error) {
	return x.l.token(ctx, token)
}

func (x exchange) LastToken(ctx context.Context, token []byte) error {
	return x.l.within(ctx, x.l.cfg.RequestTimeout, awaited{what: "sending of a SASL token", key: noKey}, func() error {
		return x.l.writeToken(token)
	})
}

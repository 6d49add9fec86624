package conn

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxAPIVersions is the newest ApiVersions request sent: version 5 makes the
	// broker compare cluster and node ids, which nobody here asks for.
	maxAPIVersions = 4
	// reauthEarliest to reauthLatest is when, as a part of its lifetime, an
	// authentication is renewed (KIP-368).
	reauthEarliest, reauthLatest = 0.85, 0.95
	// minSession is the time within which brokers refuse to authenticate a
	// connection again.
	minSession = time.Second
)

// release0100 is the first release that answers ApiVersions.
var release0100, _ = protocol.ParseRelease("0.10.0")

// setup makes a Link of an open connection, or closes it.
func setup(ctx context.Context, cfg *Config, node int32, addr Addr, raw net.Conn, hooks linkHooks) (*Link, error) {
	l := newLink(cfg, node, addr, raw, hooks)
	if err := l.handshake(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Link) handshake(ctx context.Context) error {
	if err := l.startTLS(ctx); err != nil {
		return err
	}
	l.reader = protocol.NewReader(l.conn, readBufferBytes)
	l.reader.SetMax(l.cfg.MaxFrame)
	if err := l.negotiate(ctx); err != nil {
		return err
	}
	return l.authenticate(ctx)
}

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
		return &AuthError{Node: l.node, Addr: l.addr, Op: OpTLS, Err: tlsHint(err)}
	}
	return l.newError(OpTLS, tlsHint(err))
}

// negotiate learns what the broker supports.
func (l *Link) negotiate(ctx context.Context) error {
	clamp := l.cfg.Clamp
	if clamp != (protocol.Release{}) && clamp.Less(release0100) {
		l.versions = protocol.NewVersions(clamp.Ranges(), clamp)
		return nil
	}
	ranges, err := l.askVersions(ctx)
	if err == nil {
		l.versions = protocol.NewVersions(ranges, clamp)
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		err = e.Err
	}
	if l.cfg.TLS != nil && isAlert(err) {
		// With TLS 1.3 the broker's opinion of our certificate comes only now.
		return l.tlsError(err)
	}
	return l.newError(OpAPIVersions, apiVersionsHint(err, l.cfg.TLS != nil))
}

// askVersions sends ApiVersions in the highest version that may be understood,
// and again in the one that the broker's refusal names. Before 2.4 a broker
// refuses with an empty list, which stands for version 0.
func (l *Link) askVersions(ctx context.Context) (map[int16]protocol.VersionRange, error) {
	if timeout := l.cfg.ProbeTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, &timeoutError{"answer to ApiVersions", timeout})
		defer cancel()
	}
	version := int16(maxAPIVersions)
	if l.cfg.Clamp != (protocol.Release{}) {
		top, _ := l.cfg.Clamp.MaxVersion(protocol.KeyApiVersions)
		version = min(version, top)
	}
	resp, err := l.apiVersions(ctx, version)
	if err != nil {
		return nil, err
	}
	if code := protocol.ErrorCode(resp.ErrorCode); code == protocol.UnsupportedVersion && version > 0 {
		version = min(version-1, supportedVersion(resp))
		if resp, err = l.apiVersions(ctx, version); err != nil {
			return nil, err
		}
	}
	if code := protocol.ErrorCode(resp.ErrorCode); code != protocol.None {
		return nil, fmt.Errorf("the broker answers ApiVersions version %d with %w", version, code)
	}
	ranges := make(map[int16]protocol.VersionRange, len(resp.ApiKeys))
	for _, key := range resp.ApiKeys {
		ranges[key.ApiKey] = protocol.VersionRange{Min: key.MinVersion, Max: key.MaxVersion}
	}
	return ranges, nil
}

// supportedVersion returns the version to repeat a refused ApiVersions in.
func supportedVersion(resp *kmsg.ApiVersionsResponse) int16 {
	for _, key := range resp.ApiKeys {
		if key.ApiKey == protocol.KeyApiVersions {
			return max(key.MaxVersion, 0)
		}
	}
	return 0
}

func (l *Link) apiVersions(ctx context.Context, version int16) (*kmsg.ApiVersionsResponse, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(version)
	req.ClientSoftwareName = softwareField(l.cfg.SoftwareName)
	req.ClientSoftwareVersion = softwareField(l.cfg.SoftwareVersion)
	body, err := l.exchangeBody(ctx, req, l.cfg.SetupTimeout)
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(version)
	// A refusal has the layout of version 0, whatever was asked (KIP-511).
	if len(body) >= 2 && protocol.ErrorCode(binary.BigEndian.Uint16(body)) == protocol.UnsupportedVersion {
		resp.SetVersion(0)
	}
	if _, err := decode(resp, body); err != nil {
		return nil, err
	}
	return resp, nil
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
		err = &AuthError{Node: l.node, Addr: l.addr, Op: OpSASL, Err: err}
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
	return x.l.within(ctx, x.l.cfg.RequestTimeout, "sending of a SASL token", func() error {
		return x.l.writeToken(token)
	})
}

package conn

import (
	"context"
	"errors"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// renewal is where a Mux stands with its authentication. Mux.mu guards it.
type renewal struct {
	at      time.Time // when it is due; zero: never
	last    time.Time // when the session began
	running bool
	queue   []*call // the renewal's own requests, which go before all others
}

// renewFirstLocked tells whether the authentication must be renewed before c is
// written, and begins with that when all that was written is answered. A
// request that the broker may hold for longer than the session lasts, such as
// JoinGroup, gets a fresh one: later the connection would be busy.
func (m *Mux) renewFirstLocked(c *call, now time.Time) bool {
	r := &m.renewal
	if r.at.IsZero() {
		return false
	}
	long := c.timeout > m.link.cfg.RequestTimeout && now.Sub(r.last) >= minSession
	if now.Before(r.at) && !(long && now.Add(c.timeout).After(r.at)) {
		return false
	}
	if len(m.inFlight) == 0 {
		r.running = true
		m.start(m.renew)
	}
	return true
}

// renew is the goroutine that renews the authentication. The writer starts it,
// the end of the mux or SetupTimeout stops it, Close awaits it.
func (m *Mux) renew() {
	limit := m.link.cfg.SetupTimeout
	ctx, cancel := context.WithTimeoutCause(m.ctx, limit, &timeoutError{"renewed authentication", limit})
	defer cancel()
	began := time.Now()
	at, err := m.link.authenticateBy(ctx, renewalExchange{m})
	m.link.noteAuthenticated(true, began, err)
	if err != nil {
		m.end(err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.renewal = renewal{at: at, last: now}
	m.noteIdleLocked(now)
	m.wakeWriter()
}

// renewalExchange is a Mux as its Authenticator sees it.
type renewalExchange struct{ m *Mux }

func (x renewalExchange) Versions() *protocol.Versions { return x.m.link.versions }

func (x renewalExchange) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	m := x.m
	if err := m.link.pick(req); err != nil {
		return nil, err
	}
	c := &call{resp: req.ResponseKind(), timeout: m.link.cfg.RequestTimeout, outcome: make(chan outcome, 1)}
	c.frame, c.header = m.link.encode(nil, req)
	m.mu.Lock()
	if m.err != nil {
		defer m.mu.Unlock()
		return nil, m.err
	}
	m.renewal.queue = append(m.renewal.queue, c)
	m.wakeWriter()
	m.mu.Unlock()
	select {
	case o := <-c.outcome:
		return o.resp, o.err
	case <-ctx.Done():
		return nil, ctxError(ctx)
	}
}

// errRaw: brokers that take raw tokens never say when a session ends.
var errRaw = errors.New("a session of raw tokens cannot be renewed")

func (x renewalExchange) Token(context.Context, []byte) ([]byte, error) { return nil, errRaw }
func (x renewalExchange) LastToken(context.Context, []byte) error       { return errRaw }

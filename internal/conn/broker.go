package conn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Role is what one of a broker's connections is for. A broker answers one
// request of a connection at a time, so that requests which wait for each
// other's answers must not share one.
type Role int

const (
	// Control is for all that is answered at once.
	Control Role = iota
	// Group is for JoinGroup and SyncGroup, which the broker holds.
	Group
	// Fetch is for the long poll.
	Fetch
	// Side is for fetches while the long poll is held.
	Side
)

// shared is how many roles, the first ones, have a Mux.
const shared = 2

// String returns the role's name.
func (r Role) String() string {
	switch r {
	case Control:
		return "control"
	case Group:
		return "group"
	case Fetch:
		return "fetch"
	case Side:
		return "side"
	}
	return fmt.Sprintf("role %d", int(r))
}

// maxResends bounds how often a request of which nothing was written moves to
// another connection.
const maxResends = 3

// A Broker holds the connections to one node and opens them when they are
// used. After a failure it waits, longer after each one in a row, before it
// tries again, whatever the connection is for. Its methods may be called from
// any goroutine.
type Broker struct {
	cfg  *Config
	node atomic.Int32

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // dials, and the goroutines of the muxes

	mu         sync.Mutex
	addr       Addr
	slots      [shared]slot
	links      map[*Link]struct{} // all that are open
	versions   *protocol.Versions
	failures   int       // in a row
	failedAt   time.Time // the last one
	retryAt    time.Time
	lastErr    error // of the last failure; nil after a success
	authLogged bool
	closed     bool
}

// slot is the connection of a shared role: at most one of the two is set.
type slot struct {
	mux  *Mux
	dial *attempt
}

// attempt is a dial that any number of goroutines wait for.
type attempt struct {
	done chan struct{}
	mux  *Mux  // set before done is closed
	err  error // likewise
}

// NewBroker returns the connections to a node, none of them open yet. node is
// -1 for a bootstrap server. It must be closed.
func NewBroker(cfg *Config, node int32, addr Addr) *Broker {
	b := &Broker{cfg: cfg.filled(), addr: addr, links: make(map[*Link]struct{})}
	b.node.Store(node)
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	return b
}

// Node returns the broker's id, or -1 for a bootstrap server.
func (b *Broker) Node() int32 { return b.node.Load() }

// Become makes the connections to a bootstrap server those to a node, which it turned
// out to be. With CanonicalBootstrap, which gives a server other names than its node has,
// it does nothing and returns false.
func (b *Broker) Become(node int32) bool {
	if b.cfg.CanonicalBootstrap {
		return false
	}
	b.node.Store(node)
	return true
}

// Identify has open connections take note of what Become said. It must be called without
// a lock held.
func (b *Broker) Identify() {
	b.mu.Lock()
	links := slices.Collect(maps.Keys(b.links))
	b.mu.Unlock()
	for _, l := range links {
		l.become(b.Node())
	}
}

// IsOpen tells whether the connection of a shared role is open.
func (b *Broker) IsOpen(role Role) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	mux := b.slots[role].mux
	return mux != nil && mux.Err() == nil
}

// Open waits until the connection of a shared role is open; see Do.
func (b *Broker) Open(ctx context.Context, role Role) error {
	_, err := b.mux(ctx, role)
	return err
}

// Addr returns where new connections go.
func (b *Broker) Addr() Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addr
}

// SetAddr changes where new connections go. A new address is tried without
// waiting for the backoff of the old one; open connections stay.
func (b *Broker) SetAddr(addr Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.addr != addr {
		b.addr = addr
		b.failures, b.retryAt, b.lastErr = 0, time.Time{}, nil
	}
}

// Versions returns what the broker supported when the last connection to it
// was made, and false before the first.
func (b *Broker) Versions() (*protocol.Versions, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.versions, b.versions != nil
}

// Err returns why the last connection failed, or nil when none has since one
// worked.
func (b *Broker) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastErr
}

// Connected tells whether a connection is open.
func (b *Broker) Connected() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.links) > 0
}

// Do sends req over the connection of role, [Control] or [Group], which it
// opens if there is none, waiting for a backoff that lasts. It is bounded by
// ctx and, from the write on, by Config.RequestTimeout. The errors are those of
// [Mux.Do] and [Dial]; a broker that failed to authenticate fails with the same
// *[AuthError] until its backoff is over.
func (b *Broker) Do(ctx context.Context, role Role, req kmsg.Request) (kmsg.Response, error) {
	return b.DoTimeout(ctx, role, req, 0)
}

// DoTimeout is Do with another bound than Config.RequestTimeout; zero means that one.
func (b *Broker) DoTimeout(ctx context.Context, role Role, req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	if role < 0 || role >= shared {
		return nil, fmt.Errorf("the %s connection takes no single requests", role)
	}
	for resend := 0; ; resend++ {
		mux, err := b.mux(ctx, role)
		if err != nil {
			return nil, err
		}
		resp, err := mux.DoTimeout(ctx, req, timeout)
		var unsent *unsentError
		if err == nil || !errors.As(err, &unsent) || resend == maxResends {
			return resp, err
		}
	}
}

// mux returns the open connection of a shared role, or waits for one.
func (b *Broker) mux(ctx context.Context, role Role) (*Mux, error) {
	b.mu.Lock()
	s := &b.slots[role]
	if mux := s.mux; mux != nil && mux.Err() == nil {
		b.mu.Unlock()
		return mux, nil
	}
	if err := b.refusedLocked(); err != nil {
		s.mux = nil
		b.mu.Unlock()
		return nil, err
	}
	dial := b.dialLocked(role)
	b.mu.Unlock()
	select {
	case <-dial.done:
		return dial.mux, dial.err
	case <-ctx.Done():
		return nil, b.waitError(ctx)
	}
}

// dialLocked returns the dial of a shared role, which it starts if there is none.
func (b *Broker) dialLocked(role Role) *attempt {
	s := &b.slots[role]
	s.mux = nil
	if s.dial == nil {
		s.dial = &attempt{done: make(chan struct{})}
		b.wg.Add(1)
		go b.connect(role, s.dial)
	}
	return s.dial
}

// Warm begins to open the connection of a shared role if there is none, for requests
// that are about to come.
func (b *Broker) Warm(role Role) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mux := b.slots[role].mux; (mux == nil || mux.Err() != nil) && b.refusedLocked() == nil {
		b.dialLocked(role)
	}
}

// refusedLocked returns why no connection may be asked for now.
func (b *Broker) refusedLocked() error {
	if b.closed {
		return &Error{Node: b.Node(), Addr: b.addr, Op: OpClose, Err: ErrClosed}
	}
	var auth *AuthError
	if errors.As(b.lastErr, &auth) && time.Now().Before(b.retryAt) {
		return b.lastErr
	}
	return nil
}

// waitError says why ctx ended without a connection.
func (b *Broker) waitError(ctx context.Context) error {
	if last := b.Err(); last != nil {
		return fmt.Errorf("%w; the connection before failed: %w", ctxError(ctx), last)
	}
	return &Error{Node: b.Node(), Addr: b.Addr(), Op: OpDial, Err: ctxError(ctx)}
}

// connect is the goroutine of a dial. mux starts it; it ends by itself, or with
// the broker, and is awaited by Close. That its waiters went away does not stop
// it: the connection is kept for the next one.
func (b *Broker) connect(role Role, dial *attempt) {
	defer b.wg.Done()
	link, err := b.dial(b.ctx)
	if err == nil {
		dial.mux = newMux(link, &b.wg)
	}
	dial.err = err
	b.mu.Lock()
	b.slots[role] = slot{mux: dial.mux}
	b.mu.Unlock()
	close(dial.done)
}

// Link opens a connection for [Fetch] or [Side], which belongs to its caller,
// who closes it. It is bounded by ctx and Config.SetupTimeout; a backoff that
// lasts is waited for. The errors are those of [Dial]. Close closes the link
// too.
func (b *Broker) Link(ctx context.Context, role Role) (*Link, error) {
	if role < shared {
		return nil, fmt.Errorf("the %s connection is shared", role)
	}
	b.mu.Lock()
	if err := b.refusedLocked(); err != nil {
		b.mu.Unlock()
		return nil, err
	}
	b.wg.Add(1)
	b.mu.Unlock()
	defer b.wg.Done()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(b.ctx, func() { cancel(ErrClosed) })
	defer stop()
	return b.dial(ctx)
}

// dial waits for the end of the backoff and opens a connection.
func (b *Broker) dial(ctx context.Context) (*Link, error) {
	if err := b.awaitBackoff(ctx); err != nil {
		return nil, err
	}
	addr, began := b.Addr(), time.Now()
	link, err := dial(ctx, b.cfg, b.Node(), addr, linkHooks{proved: b.linkProved, dead: b.linkDead})
	switch {
	case err == nil:
		return b.keep(link)
	case b.ctx.Err() != nil:
		return nil, &Error{Node: b.Node(), Addr: addr, Op: OpClose, Err: ErrClosed}
	case ctx.Err() == nil && addr == b.Addr():
		// Otherwise the caller gave up, or the broker has moved meanwhile, and
		// nothing is known to be at fault.
		b.noteFailure(err, began)
	}
	return nil, err
}

// keep notes a connection that is ready.
func (b *Broker) keep(link *Link) (*Link, error) {
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.versions = link.Versions()
		// One that died already was reported before it stood here.
		if link.Err() == nil {
			b.links[link] = struct{}{}
		}
	}
	b.mu.Unlock()
	if closed {
		link.Close()
		return nil, link.Err()
	}
	link.become(b.Node())
	return link, nil
}

// awaitBackoff waits until the next attempt may be made. Another one may fail
// meanwhile, which makes the wait longer.
func (b *Broker) awaitBackoff(ctx context.Context) error {
	for {
		b.mu.Lock()
		wait := time.Until(b.retryAt)
		b.mu.Unlock()
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if b.ctx.Err() != nil {
				return &Error{Node: b.Node(), Addr: b.Addr(), Op: OpClose, Err: ErrClosed}
			}
			return b.waitError(ctx)
		}
	}
}

// noteFailure counts the failure of something that began at a time. Several
// connections that fail together count once.
func (b *Broker) noteFailure(err error, began time.Time) {
	var auth *AuthError
	refused := errors.As(err, &auth)
	b.mu.Lock()
	now := time.Now()
	if b.lastErr == nil || began.After(b.failedAt) {
		b.failures++
	}
	wait := Backoff{Base: b.cfg.ReconnectBackoff, Max: b.cfg.ReconnectBackoffMax}.Delay(b.failures)
	if refused {
		// The same attempt will fail the same way: no hurry.
		wait = max(wait, b.cfg.ReconnectBackoffMax)
	}
	b.failedAt, b.lastErr = now, err
	b.retryAt = now.Add(wait)
	failures, logged := b.failures, b.authLogged
	b.authLogged = logged || refused
	b.mu.Unlock()
	b.logFailure(err, refused && !logged, failures, wait)
}

// logFailure is loud about what waits for the user to act, says once that a
// broker cannot be reached, and keeps the rest for debugging.
func (b *Broker) logFailure(err error, refused bool, failures int, wait time.Duration) {
	level := slog.LevelDebug
	switch {
	case refused:
		level = slog.LevelError
	case failures == 1:
		level = slog.LevelWarn
	}
	b.cfg.Logger.Log(context.Background(), level, "kafka: connection failed",
		"node", b.Node(), "addr", b.Addr().String(), "error", err, "failures", failures, "retry_in", wait)
}

// linkProved is called when a connection has answered its first request.
func (b *Broker) linkProved() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.lastErr, b.authLogged = 0, nil, false
}

// linkDead is called when a connection was closed, by whatever side.
func (b *Broker) linkDead(l *Link, err error) {
	b.mu.Lock()
	_, open := b.links[l]
	delete(b.links, l)
	b.mu.Unlock()
	if open && !isRetired(err) {
		if !l.fellSilent(err) {
			b.cfg.Releases.forget(l.where, l.opened)
		}
		b.noteFailure(err, l.opened)
	}
}

// Close closes all connections, fails what is unanswered with [ErrClosed] and
// returns when every goroutine of the broker has ended. Callers of Link must
// not hold a lock that they need to return from its Link's methods.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closed = true
	links := make([]*Link, 0, len(b.links))
	for l := range b.links {
		links = append(links, l)
	}
	b.mu.Unlock()
	b.cancel(ErrClosed)
	for _, l := range links {
		l.Close()
	}
	b.wg.Wait()
}

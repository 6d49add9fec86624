package conn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Mux pipelines the requests of any number of goroutines over one Link: they
// are written in the order in which they came, at most Config.MaxInFlight are
// unanswered, and the answers come in the same order. When one is not answered
// in time, or an answer belongs to no request, the connection is closed and
// everything on it fails with the reason.
//
// The authentication of a session that ends is renewed on the same connection
// (KIP-368): what is unanswered is answered first, what comes meanwhile waits
// and keeps its order.
type Mux struct {
	link  *Link
	wake  chan struct{} // of the writer; capacity 1
	wg    sync.WaitGroup
	owner *sync.WaitGroup // awaits the goroutines too

	ctx    context.Context // ends with the mux, for renewals
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	queue    []*call // not written yet
	renewal  renewal
	inFlight []*call // written or being written, oldest first
	canary   *call   // to be written next; nil: none
	throttle time.Time
	idle     time.Time // since when nothing is waiting
	timer    *time.Timer
	err      error // why the mux ended
	done     chan struct{}
}

// call is one request of a Mux.
type call struct {
	header   answerHeader
	frame    []byte
	resp     kmsg.Response
	timeout  time.Duration
	written  time.Time // when it is about to be; the deadline counts from then
	deadline time.Time
	outcome  chan outcome

	canary    bool // see lost.go; nobody has waited for the answer
	abandoned bool // nobody waits for the answer any more; guarded by Mux.mu
}

type outcome struct {
	resp kmsg.Response
	err  error
}

// NewMux starts a Mux over l, which belongs to it from then on. It must be
// closed.
func NewMux(l *Link) *Mux { return newMux(l, new(sync.WaitGroup)) }

// newMux starts a Mux whose goroutines its owner awaits too.
func newMux(l *Link, owner *sync.WaitGroup) *Mux {
	// The mux has its own idea of what is idle and late.
	l.disarm()
	m := &Mux{link: l, wake: make(chan struct{}, 1), owner: owner, done: make(chan struct{}), idle: time.Now()}
	m.ctx, m.cancel = context.WithCancelCause(context.Background())
	m.renewal = renewal{at: l.renewAt, last: m.idle}
	m.mu.Lock()
	m.timer = time.AfterFunc(time.Hour, m.onTimer)
	m.scheduleLocked(m.idle)
	m.mu.Unlock()
	m.start(m.read)
	m.start(m.write)
	return m
}

// start runs a goroutine that the mux and its owner await.
func (m *Mux) start(run func()) {
	m.owner.Add(1)
	m.wg.Go(func() {
		defer m.owner.Done()
		run()
	})
}

// Link returns the link below; it must not be used for requests.
func (m *Mux) Link() *Link { return m.link }

// Done is closed when the mux has ended.
func (m *Mux) Done() <-chan struct{} { return m.done }

// Err returns why the mux ended, or nil.
func (m *Mux) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Close closes the connection, fails what is unanswered with [ErrClosed] and
// returns when the goroutines of the mux have ended.
func (m *Mux) Close() {
	m.end(m.link.fail(OpClose, ErrClosed))
	m.wg.Wait()
}

// Do sends req in the highest common version and returns the answer. It is
// bounded by ctx, whose end abandons this answer only, and, from the write on,
// by Config.RequestTimeout. The errors are those of [Link.Do].
func (m *Mux) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return m.DoTimeout(ctx, req, 0)
}

// DoTimeout is Do with another bound than Config.RequestTimeout, for requests
// that the broker holds, such as JoinGroup; zero means that one.
func (m *Mux) DoTimeout(ctx context.Context, req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	if err := m.link.pick(req); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctxError(ctx)
	}
	if timeout <= 0 {
		timeout = m.link.patience()
	}
	c := &call{resp: req.ResponseKind(), timeout: timeout, outcome: make(chan outcome, 1)}
	// It is encoded here, so that req belongs to its caller again when this
	// returns early.
	c.frame, c.header = m.link.encode(nil, req)
	if err := m.enqueue(c); err != nil {
		return nil, &unsentError{err}
	}
	select {
	case o := <-c.outcome:
		return o.resp, o.err
	case <-ctx.Done():
		m.abandon(c)
		return nil, ctxError(ctx)
	}
}

func (m *Mux) enqueue(c *call) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.queue = append(m.queue, c)
	m.scheduleLocked(time.Now())
	m.wakeWriter()
	return nil
}

// abandon takes a call out of the queue, if it still waits there. Otherwise
// its answer will be read and dropped.
func (m *Mux) abandon(c *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.abandoned = true
	for i, queued := range m.queue {
		if queued == c {
			m.queue = append(m.queue[:i], m.queue[i+1:]...)
			m.noteIdleLocked(time.Now())
			return
		}
	}
}

func (m *Mux) wakeWriter() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// write is the goroutine that writes requests. newMux starts it, end stops it,
// Close awaits it.
func (m *Mux) write() {
	for {
		c := m.next()
		if c == nil {
			select {
			case <-m.wake:
			case <-m.done:
				return
			}
			continue
		}
		if _, err := m.link.conn.Write(c.frame); err != nil {
			m.end(m.link.fail(OpWrite, err))
			return
		}
		m.link.meter().Sent(len(c.frame))
	}
}

// next moves the first call of the queue to those in flight, if it may be
// written now. It counts as in flight before it is written, because its answer
// may be here before Write returns.
func (m *Mux) next() *call {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if c := m.canary; c != nil && m.err == nil {
		m.canary = nil
		return m.sendLocked(c, now)
	}
	queue := &m.queue
	if m.renewal.running {
		queue = &m.renewal.queue
	}
	if m.err != nil || len(*queue) == 0 || len(m.inFlight) >= m.link.cfg.MaxInFlight || now.Before(m.throttle) {
		return nil
	}
	c := (*queue)[0]
	if !m.renewal.running && m.renewFirstLocked(c, now) {
		return nil
	}
	(*queue)[0] = nil
	*queue = (*queue)[1:]
	return m.sendLocked(c, now)
}

func (m *Mux) sendLocked(c *call, now time.Time) *call {
	if c.written = now; c.deadline.IsZero() { // else it is sent again
		c.deadline = now.Add(c.timeout)
	}
	m.inFlight = append(m.inFlight, c)
	m.scheduleLocked(now)
	return c
}

// read is the goroutine that reads answers. newMux starts it, closing the link
// stops it, Close awaits it.
func (m *Mux) read() {
	for {
		if err := m.readAnswer(); err != nil {
			m.end(m.link.fail(OpRead, err))
			return
		}
	}
}

func (m *Mux) readAnswer() error {
	id, err := m.link.readID()
	if err != nil {
		if c := m.oldest(); c != nil {
			err = m.link.explainHangUp(c.header.key, err)
		}
		return err
	}
	m.takeLost(id)
	c := m.oldest()
	if c == nil {
		return fmt.Errorf("%w: %d, and no request is unanswered", ErrOutOfOrder, id)
	}
	if err := m.link.checkHeader(c.header, id); err != nil {
		return err
	}
	body, err := m.link.readBody(c.header.key)
	if err != nil {
		return m.link.explainHangUp(c.header.key, err)
	}
	m.link.noteReceived(c.written)
	resp, err := decode(c.resp, body)
	if err == nil {
		m.link.noteAnswer()
	}
	if m.complete(m.throttleOf(resp, err)) {
		c.outcome <- outcome{resp, err}
	}
	return nil
}

func (m *Mux) oldest() *call {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.inFlight) == 0 {
		return nil
	}
	return m.inFlight[0]
}

// throttleOf returns how long to hold back the connection after an answer.
func (m *Mux) throttleOf(resp kmsg.Response, err error) time.Duration {
	if err != nil {
		return 0
	}
	told, wait, ok := throttleOf(resp)
	if ok {
		m.link.meter().Throttled(told)
	}
	if !wait {
		return 0
	}
	return told
}

// complete takes the oldest call off those in flight; no other is sent before wait is
// over. It returns false when the mux ended meanwhile and has told the call so.
func (m *Mux) complete(wait time.Duration) bool {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return false
	}
	m.inFlight[0] = nil
	m.inFlight = m.inFlight[1:]
	if wait > 0 {
		m.throttle = now.Add(min(wait, m.link.cfg.RequestTimeout))
	}
	m.noteIdleLocked(now)
	m.wakeWriter()
	return true
}

func (m *Mux) noteIdleLocked(now time.Time) {
	if len(m.inFlight) == 0 && len(m.queue) == 0 {
		m.idle = now
	}
	m.scheduleLocked(now)
}

// scheduleLocked sets the timer to the next time at which something is to be
// done: an answer is late, a throttle is over, or the connection is idle for too
// long.
func (m *Mux) scheduleLocked(now time.Time) {
	if m.err != nil {
		return
	}
	var next time.Time
	consider := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, c := range m.inFlight {
		consider(c.deadline)
	}
	if late := m.lateLocked(); !late.IsZero() {
		consider(late)
	}
	if len(m.queue) > 0 && now.Before(m.throttle) {
		consider(m.throttle)
	}
	if len(m.inFlight) == 0 && len(m.queue) == 0 && !m.renewal.running && m.link.cfg.MaxIdle > 0 {
		consider(m.idle.Add(m.link.cfg.MaxIdle))
	}
	if next.IsZero() {
		m.timer.Stop()
		return
	}
	m.timer.Reset(next.Sub(now))
}

// onTimer does what is due.
func (m *Mux) onTimer() {
	m.mu.Lock()
	now := time.Now()
	due := m.dueLocked(now)
	if m.err != nil || due == nil {
		m.suspectLocked(now)
		m.scheduleLocked(now)
		m.wakeWriter()
		m.mu.Unlock()
		return
	}
	// It ends under the same lock that found it idle: a call that comes now is
	// refused before anything of it is written.
	rest := m.endLocked(due)
	m.mu.Unlock()
	_ = m.link.failWith(due)
	rest.fail()
}

// dueLocked returns why the mux has to end now, if it has to.
func (m *Mux) dueLocked(now time.Time) *Error {
	for _, c := range m.inFlight {
		if !now.Before(c.deadline) {
			what := "answer to " + protocol.APIName(c.header.key)
			return m.link.newError(OpTimeout, &timeoutError{what, c.timeout})
		}
	}
	if len(m.inFlight) == 0 && len(m.queue) == 0 && !m.renewal.running && m.link.cfg.MaxIdle > 0 &&
		!now.Before(m.idle.Add(m.link.cfg.MaxIdle)) {
		return m.link.newError(OpClose, ErrIdle)
	}
	return nil
}

// end makes the mux refuse calls and fails those that it has. The link is
// closed already.
func (m *Mux) end(err error) {
	m.mu.Lock()
	if m.err != nil {
		m.mu.Unlock()
		return
	}
	rest := m.endLocked(err)
	m.mu.Unlock()
	rest.fail()
}

func (m *Mux) endLocked(err error) leftover {
	m.err = err
	rest := leftover{unanswered: append(m.inFlight, m.renewal.queue...), unsent: m.queue, err: err}
	m.queue, m.inFlight, m.renewal.queue = nil, nil, nil
	m.cancel(err)
	m.timer.Stop()
	close(m.done)
	return rest
}

// leftover are the calls of a mux that ended.
type leftover struct {
	unanswered, unsent []*call
	err                error
}

func (r leftover) fail() {
	for _, c := range r.unanswered {
		c.outcome <- outcome{err: r.err}
	}
	for _, c := range r.unsent {
		c.outcome <- outcome{err: &unsentError{r.err}}
	}
}

// isRetired tells whether this side gave a connection up without a fault of
// the broker's: a caller's context may have ended early.
func isRetired(err error) bool {
	return errors.Is(err, ErrIdle) || errors.Is(err, ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/fetch"
	"github.com/kafkaconsumer/kafka/protocol"
)

// A fetchLoop fetches from one broker. It owns its connection, except while it is lent.
type fetchLoop struct {
	f      *fetcher
	broker int32
	kick   chan struct{}
	idle   bool // waits for kick; guarded by fetcher.mu
	resp   protocol.FetchResponse
	link   *conn.Link

	version   int16 // of Fetch
	versioned bool  // it is known for the link

	asked *fetch.Session // whose request is on its way, nil: none is
	began time.Time      // when the last request was made

	back       chan struct{} // tells a loop that was lent to go on by itself
	alone      bool          // there was no other loop when the last request was sent
	light      bool          // the last answer had something, and left nothing to be decoded by others
	unlendable bool          // nobody else may wait on the connection

	hasSide   bool // runSide runs; guarded by fetcher.mu
	sideKick  chan struct{}
	hasty     int       // answers in a row that brought nothing and did not wait for anything
	strikes   int       // sessions in a row that the broker did not take
	throttled time.Time // until when Fetch is throttled; guarded by fetcher.mu
}

func newFetchLoop(f *fetcher, broker int32) *fetchLoop {
	return &fetchLoop{f: f, broker: broker, kick: make(chan struct{}, 1), sideKick: make(chan struct{}, 1), back: make(chan struct{}, 1)}
}

// prepare sets what is the same in all requests.
func (f *fetcher) prepare(q *fetch.Request) {
	q.Wire.MaxWaitMillis = int32(f.cfg.FetchMaxWait.Milliseconds())
	q.Wire.MinBytes = f.cfg.FetchMinBytes
	q.Wire.IsolationLevel = int8(f.cfg.IsolationLevel)
	q.Wire.Rack = f.cfg.ClientRack
}

// run fetches until the broker leads nothing any more or the fetcher is closed.
func (l *fetchLoop) run() {
	defer l.disconnect()
	// Meanwhile it becomes known where to begin.
	if err := l.connect(); err != nil {
		l.failed(err)
	}
	for l.ask() {
		l.lend()
		if l.asked != nil {
			l.takeIn()
		}
		l.slowDown()
	}
}

// ask sends the next request. It returns false when the loop has to end.
func (l *fetchLoop) ask() bool {
	for l.asked == nil {
		s := l.awaitHunger()
		if s == nil {
			return false
		}
		if err := l.connect(); err != nil {
			l.failed(err)
			continue
		}
		l.send(s, time.Now())
	}
	return true
}

// send sends the session's next request if there is something to ask for.
func (l *fetchLoop) send(s *fetch.Session, now time.Time) {
	l.f.prepare(&s.Request)
	l.began = now
	ok := l.f.acquire().Plan(s, l.version, now)
	l.alone = len(l.f.loops) == 1
	l.f.release()
	if !ok {
		return
	}
	q := &s.Request
	err := l.link.Send(protocol.KeyFetch, q.Version, q.Version >= fetchFlexibleVersion,
		func(dst []byte) []byte { return q.Wire.AppendTo(dst, q.Version) })
	if err != nil {
		l.lost(s, err)
		return
	}
	l.asked = s
}

// lost deals with an answer that does not come.
func (l *fetchLoop) lost(s *fetch.Session, err error) {
	l.f.log.Debug("fetch failed", "broker", l.broker, "error", err)
	l.f.acquire().Discard(s)
	l.f.release()
	l.hasty = 0
	l.failed(err)
}

// awaitHunger waits until there is something to ask the broker for, and returns its
// session. It returns nil when the loop has to end.
func (l *fetchLoop) awaitHunger() *fetch.Session {
	for {
		l.f.mu.Lock()
		s := l.f.table.Session(l.broker)
		if l.f.ctx.Err() != nil || s == nil {
			delete(l.f.loops, l.broker)
			l.f.table.Leave(l.broker)
			l.f.mu.Unlock()
			kick(l.sideKick) // it ends with this loop
			return nil
		}
		hungry, retry := l.f.table.Hungry(s, time.Now())
		l.idle = !hungry
		reconnect := hungry && s.TakeReconnect()
		l.f.mu.Unlock()
		if reconnect {
			l.disconnect()
		}
		if hungry {
			return s
		}
		l.sleep(retry)
	}
}

// sleep waits for kick, for the time retry unless it is zero, or for the end.
func (l *fetchLoop) sleep(retry time.Time) { sleepUntil(l.f.ctx, l.kick, retry) }

func sleepUntil(ctx context.Context, kick <-chan struct{}, retry time.Time) {
	var due <-chan time.Time
	if !retry.IsZero() {
		left := time.Until(retry)
		if left <= 0 {
			return
		}
		timer := time.NewTimer(left)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-kick:
	case <-due:
	case <-ctx.Done():
	}
}

// connect makes the loop's connection if there is none, and sees which version of Fetch to
// use on it.
func (l *fetchLoop) connect() error {
	link, err := l.f.linkTo(l.broker, conn.Fetch, l.link)
	if link != l.link {
		l.link, l.versioned = link, false
	}
	if err != nil || l.versioned {
		return err
	}
	l.unlendable = !link.CanAwait()
	l.version, err = l.f.pickVersion(link)
	l.versioned = err == nil
	return err
}

// linkTo returns link if it is sound, or a new one.
func (f *fetcher) linkTo(id int32, role conn.Role, link *conn.Link) (*conn.Link, error) {
	if link != nil && link.Err() == nil {
		return link, nil
	}
	broker, ok := f.cluster.Broker(id)
	if !ok {
		return nil, &cluster.UnknownNodeError{Node: id}
	}
	link, err := broker.Link(f.ctx, role)
	if err == nil {
		link.CloseWith(f.ctx)
	}
	return link, err
}

// pickVersion returns the version of Fetch to use. With a broker that does not know
// transactions, or must be taken for one, records of aborted ones could not be told.
func (f *fetcher) pickVersion(link *conn.Link) (int16, error) {
	if f.cfg.IsolationLevel == ReadUncommitted {
		version, err := link.Versions().Pick(protocol.KeyFetch, protocol.FetchMinVersion, protocol.FetchMaxVersion)
		return version, ofBroker(err, link.Node())
	}
	version, err := link.Versions().Pick(protocol.KeyFetch, fetchCommittedVersion, protocol.FetchMaxVersion)
	return version, needing(ofBroker(err, link.Node()), "as ReadCommitted needs Kafka 0.11")
}

// ofBroker names the broker in an *UnsupportedVersionError.
func ofBroker(err error, node int32) error {
	if old, ok := errors.AsType[*UnsupportedVersionError](err); ok {
		old.Broker = node
	}
	return err
}

func (l *fetchLoop) disconnect() {
	if l.link != nil {
		l.link.Close()
		l.link = nil
	}
}

// failed tells the table that the broker cannot be asked now, and waits.
func (l *fetchLoop) failed(err error) {
	if l.f.ctx.Err() != nil {
		return
	}
	l.f.acquire().BrokerFailed(l.broker, err, isFinalError(err), time.Now())
	l.f.release()
	l.f.cluster.Refresh()
}

// isFinalError tells whether an error of a connection is one that the application
// must hear of at once.
func isFinalError(err error) bool {
	_, auth := errors.AsType[*conn.AuthError](err)
	_, version := errors.AsType[*protocol.UnsupportedVersionError](err)
	return auth || version
}

// takeIn reads the answer to the request that is on its way, and takes it in.
func (l *fetchLoop) takeIn() {
	s := l.asked
	l.asked = nil
	err := l.link.Receive(func(r *protocol.Reader) error { return fetch.ReadAnswer(&s.Request, &l.resp, r) })
	if err != nil {
		l.lost(s, err)
		return
	}
	now := time.Now()
	l.f.measureAnswer(&s.Request, &l.resp, l.link, now)
	atOnce := l.resp.ThrottleMillis == 0 && s.IsEmpty() && now.Sub(l.began) < l.f.cfg.FetchMaxWait/2
	table := l.f.acquire()
	sound := table.Apply(s, &l.resp, now)
	if atOnce && sound {
		l.hasty++
	} else {
		l.hasty = 0
	}
	throttle, wait := throttleOfFetch(s.Version, &l.resp)
	if wait {
		l.throttled = now.Add(throttle)
	}
	l.light = table.HasLittleUndecoded()
	if l.light {
		l.f.decodeHere()
	}
	l.f.release()
	l.link.Throttle(throttle, wait)
	if sound {
		l.strikes = 0
	} else {
		l.f.log.Debug("fetch session ended", "broker", l.broker, "error", l.resp.ErrorCode)
		l.refused(l.resp.ErrorCode)
	}
}

// slowDown keeps a broker that answers at once, with nothing, from being asked all the
// time: it should hold a request for FetchMaxWait instead.
func (l *fetchLoop) slowDown() {
	if l.isHasty() {
		l.sleep(time.Now().Add(l.f.cfg.FetchMaxWait))
	}
}

func (l *fetchLoop) isHasty() bool {
	const patience = 10
	return l.hasty > patience
}

// refused waits after an answer that says that nothing was fetched, unless a new
// session is all that it takes.
func (l *fetchLoop) refused(code protocol.ErrorCode) {
	switch code {
	case protocol.FetchSessionIDNotFound, protocol.InvalidFetchSessionEpoch, protocol.FetchSessionTopicIDError:
		if l.strikes++; l.strikes <= 1 {
			return
		}
	}
	l.failed(&BrokerError{Broker: l.broker, API: "Fetch", Code: code})
}

// stream sends a request and reads its answer.
func (f *fetcher) stream(link *conn.Link, q *fetch.Request, resp *protocol.FetchResponse) error {
	return link.Stream(f.ctx, protocol.KeyFetch, q.Version, q.Version >= fetchFlexibleVersion,
		func(dst []byte) []byte { return q.Wire.AppendTo(dst, q.Version) },
		func(r *protocol.Reader) error { return fetch.ReadAnswer(q, resp, r) }, 0)
}

// measureAnswer notes an answer that was read, before it is applied.
func (f *fetcher) measureAnswer(q *fetch.Request, resp *protocol.FetchResponse, link *conn.Link, now time.Time) {
	throttled, _ := throttleOfFetch(q.Version, resp)
	f.metrics.Answered(link.Took(), throttled, now)
	f.metrics.Brought(q.Brought(now), now)
}

// throttleOfFetch returns for how long the broker throttles this client, and whether
// that is for the client to wait.
func throttleOfFetch(version int16, resp *protocol.FetchResponse) (told time.Duration, wait bool) {
	return time.Duration(max(resp.ThrottleMillis, 0)) * time.Millisecond, version >= fetchThrottleVersion
}

const (
	fetchFlexibleVersion  = 12
	fetchCommittedVersion = 4
	fetchThrottleVersion  = 8 // from here on the client has to hold back (KIP-219)
)

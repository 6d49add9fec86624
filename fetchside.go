package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/fetch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// runSide fetches what becomes fetchable while the broker holds the loop's request: a
// seek, a resume or an assignment need not wait for that. It ends with the loop.
func (l *fetchLoop) runSide() {
	side := &sideLoop{l: l}
	defer side.disconnect()
	for l.f.ctx.Err() == nil {
		retry, ended := side.fetch()
		if ended {
			return
		}
		sleepUntil(l.f.ctx, l.sideKick, retry)
	}
}

// A sideLoop is the state of a fetchLoop's side connection.
type sideLoop struct {
	l    *fetchLoop
	req  fetch.Request
	resp protocol.FetchResponse
	link *conn.Link
}

// sideRetry is how long to wait after a side connection could not be made.
const sideRetry = 500 * time.Millisecond

// fetch sends one request if there is something to ask for, and tells when to look
// again; zero means when kicked.
func (side *sideLoop) fetch() (retry time.Time, ended bool) {
	f, l := side.l.f, side.l
	f.mu.Lock()
	s := f.table.Session(l.broker)
	if f.loops[l.broker] != l || s == nil {
		l.hasSide = false
		f.mu.Unlock()
		return time.Time{}, true
	}
	wanted, due := f.table.WantsSide(s, time.Now())
	throttled := l.throttled
	f.mu.Unlock()
	if !wanted {
		return due, false
	}
	if time.Now().Before(throttled) {
		return throttled, false
	}
	var err error
	if side.link, err = f.linkTo(l.broker, conn.Side, side.link); err != nil {
		return time.Now().Add(sideRetry), false
	}
	version, err := f.pickVersion(side.link)
	if err != nil {
		return time.Time{}, false
	}
	f.prepare(&side.req)
	f.mu.Lock()
	ok, retry := f.table.PlanSide(&side.req, s, version, time.Now())
	unlocated := f.table.TakeUnlocated()
	f.mu.Unlock()
	if unlocated {
		f.kickLookups()
	}
	if !ok {
		return retry, false
	}
	side.exchange()
	return time.Now(), false
}

// exchange sends the request and takes its answer in.
func (side *sideLoop) exchange() {
	f := side.l.f
	err := f.stream(side.link, &side.req, &side.resp)
	if err == nil {
		f.measureAnswer(&side.req, &side.resp, side.link, time.Now())
	}
	table := f.acquire()
	defer f.release()
	if err != nil || side.resp.ErrorCode != protocol.None {
		table.DiscardSide(&side.req, time.Now())
		return
	}
	table.ApplySide(&side.req, &side.resp, time.Now())
	side.link.Throttle(throttleOfFetch(side.req.Version, &side.resp))
}

func (side *sideLoop) disconnect() {
	if side.link != nil {
		side.link.Close()
	}
}

// closeSessions has brokers forget this consumer's fetch sessions. It is asked for
// on the control connections, since a fetch connection may be held by a long poll.
func (f *fetcher) closeSessions(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeSessionsWithin)
	defer cancel()
	var wg sync.WaitGroup
	f.mu.Lock()
	open := f.table.OpenSessions()
	f.mu.Unlock()
	for broker, id := range open {
		broker, ok := f.cluster.Broker(broker)
		if !ok || !broker.Connected() {
			continue
		}
		wg.Go(func() {
			req := kmsg.NewPtrFetchRequest()
			req.SessionID, req.SessionEpoch = id, -1
			if _, err := broker.Do(ctx, conn.Control, conn.Limit(req, fetchSessionVersion, protocol.FetchMaxVersion)); err != nil {
				f.log.Debug("fetch session not closed", "broker", broker.Node(), "error", err)
			}
		})
	}
	wg.Wait()
}

const (
	closeSessionsWithin = time.Second
	fetchSessionVersion = 7
)

package kafka

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafkaconsumer/kafka/internal/fetch"
)

// A lending lets the application's goroutine, while it waits for records, read the answer
// to a Fetch itself. To wake it after another goroutine has read the answer is about a fifth
// of all that a record costs where records come one by one: for each the runtime wakes a
// second thread and puts it to sleep again.
//
// A fetch loop whose request is on its way offers itself and pauses. The reader of records
// borrows it, waits on its connection, takes a small answer in, sends the next request, and
// leaves the loop as it found it. The loop goes on by itself when the reader gives it back,
// since there is more to do than that, or when nobody borrowed it for long. Only one loop
// can be waited on, so nothing is lent where there are more.
type lending struct {
	most   time.Duration // how long a loop stays lent while nobody has borrowed it
	wanted atomic.Bool   // a reader waits for records and had nothing to borrow

	mu       sync.Mutex
	loop     *fetchLoop // that is lent, nil for none
	borrowed bool       // a reader has it
	waits    bool       // and waits on its connection
	timer    *time.Timer
	ticking  bool // the timer runs

	until time.Time       // when waiting on the connection of loop ends, zero for never
	ended <-chan struct{} // what watch was called for last, nil for nothing
	stop  func() bool     // ends that

	glanced int // how often in a row nothing came in a glance; belongs to who has borrowed a loop
}

// lentFor is how long a loop stays lent, at most, while nobody has borrowed it. One answer
// waits in the connection meanwhile. A shorter time would cost a consumer without records
// more than it does besides, since the timer is started by each Poll that ends.
const lentFor = 2 * time.Second

// promptly is within which time an application comes back for more that is lent a loop.
// One that works for longer gets more by what is fetched meanwhile.
const promptly = 10 * time.Millisecond

// glance is a time in which a reader may not have begun to read before its own time was
// over, or it was woken. It would not find what has come then, however often it looked:
// after so many glances in a row the loop goes on by itself.
const (
	glance  = time.Millisecond
	glances = 10
)

// offer lends a loop if somebody waits for records, who is to be told.
func (g *lending) offer(l *fetchLoop) bool {
	if !g.wanted.Swap(false) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loop, g.borrowed = l, false
	g.tick()
	return true
}

// tick has the loop taken back in a while. The timer is let run out while the loop is
// borrowed, since that happens for each record and the timer's end only now and then.
func (g *lending) tick() {
	switch {
	case g.ticking:
		return
	case g.timer == nil:
		g.timer = time.AfterFunc(g.most, g.ticked)
	default:
		g.timer.Reset(g.most)
	}
	g.ticking = true
}

func (g *lending) ticked() {
	g.mu.Lock()
	g.ticking = false
	g.mu.Unlock()
	g.takeBack()
}

// takeBack lets a lent loop go on by itself unless it is borrowed.
func (g *lending) takeBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.loop != nil && !g.borrowed {
		g.end()
	}
}

func (g *lending) end() {
	if l := g.loop; !g.until.IsZero() && l.link != nil {
		_ = l.link.AwaitUntil(time.Time{}) // it was possible before
	}
	kick(g.loop.back)
	g.loop, g.borrowed, g.until = nil, false, time.Time{}
}

// borrow returns the loop that is lent, or nil; the next one is wanted then.
func (g *lending) borrow() *fetchLoop {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.loop == nil {
		g.wanted.Store(true)
		return nil
	}
	g.borrowed = true
	return g.loop
}

// decline is for a reader that borrows nothing: what was lent goes on by itself.
func (g *lending) decline() {
	g.wanted.Store(false)
	g.takeBack()
}

// await waits until the answer to a borrowed loop's request comes, see Link.Await, and
// returns false when the time until comes before, zero being never, or something for
// woken, or when it cannot wait like that.
func (g *lending) await(l *fetchLoop, until time.Time, woken <-chan struct{}) (came bool) {
	for g.beginWait(l, until) {
		if len(woken) == 0 {
			came = l.link.Await()
		}
		g.endWait()
		if came || len(woken) > 0 || !until.IsZero() && !time.Now().Before(until) {
			return came
		}
	}
	return false
}

// beginWait makes the connection wait until then, or, as that costs something for each
// record, for a shorter time that was set before. It returns false if it cannot.
func (g *lending) beginWait(l *fetchLoop, until time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until.IsZero() || !until.IsZero() && until.Before(g.until) || !time.Now().Before(g.until) {
		if l.link.AwaitUntil(until) != nil {
			l.unlendable = true
			return false
		}
		g.until = until
	}
	g.waits = true
	return true
}

func (g *lending) endWait() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits = false
}

// interrupt ends await.
func (g *lending) interrupt() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waits {
		g.until = time.Unix(1, 0)
		_ = g.loop.link.AwaitUntil(g.until) // what fails has failed in await too
	}
}

// watch has wake called when ctx ends, from now on until it is called with another: calls
// with the same ctx follow each other mostly. It is for who has borrowed a loop.
func (g *lending) watch(ctx context.Context, wake func()) {
	ended := ctx.Done()
	g.mu.Lock()
	same := ended == g.ended
	g.mu.Unlock()
	switch {
	case same:
	case ended == nil:
		g.watchInstead(nil, nil)
	default:
		g.watchInstead(ended, context.AfterFunc(ctx, wake))
	}
}

func (g *lending) watchInstead(ended <-chan struct{}, stop func() bool) {
	g.mu.Lock()
	stop, g.stop = g.stop, stop
	g.ended = ended
	g.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// close lets go of what watch was called for. No loop is left to borrow.
func (g *lending) close() { g.watchInstead(nil, nil) }

// leave ends the borrowing; the loop's request is on its way. With lent it stays lent,
// unless ctx, that of the loop, has ended.
func (g *lending) leave(ctx context.Context, lent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if lent && ctx.Err() == nil {
		g.borrowed = false
		g.tick()
		return
	}
	g.end()
}

// lend offers the loop, whose request is on its way, to the reader of records, and returns
// when it is to go on by itself. The answer may have been taken in then.
func (l *fetchLoop) lend() {
	if !l.lendable() || !l.f.lending.offer(l) {
		return
	}
	l.f.hooks.wake()
	select {
	case <-l.back:
	case <-l.f.ctx.Done():
		l.f.lending.takeBack()
		<-l.back // a reader that has borrowed it sees that the connection is closed
	}
}

// lendable tells whether the loop has nothing to do but what a borrower does.
func (l *fetchLoop) lendable() bool { return l.asked != nil && l.alone && l.light && !l.unlendable }

// goOn takes the answer of a borrowed loop in, which await has waited for, sends the next
// request, and ends the borrowing. It waits for nothing: a large answer of which the
// beginning has come is left to the loop, since the reader of records does not wait for
// longer than it was told.
func (l *fetchLoop) goOn() {
	if !l.link.HasWhole() {
		l.f.lending.leave(l.f.ctx, false)
		return
	}
	l.takeIn()
	now := time.Now()
	if s := l.hungry(now); s != nil {
		l.send(s, now)
	}
	l.f.lending.leave(l.f.ctx, l.lendable())
}

// hungry returns the session if there is something to ask for, and nothing to wait for
// before.
func (l *fetchLoop) hungry(now time.Time) *fetch.Session {
	if l.asked != nil || l.link == nil || !l.link.IsReady() || l.isHasty() {
		return nil
	}
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	s := l.f.table.Session(l.broker)
	if s == nil {
		return nil
	}
	if hungry, _ := l.f.table.Hungry(s, now); !hungry || s.WantsReconnect() {
		return nil
	}
	return s
}

// mayFind tells whether a reader that has waited for so long, in vain, is to try again.
func (g *lending) mayFind(waited time.Duration) bool {
	if waited >= glance {
		g.glanced = 0
		return true
	}
	g.glanced = (g.glanced + 1) % glances
	return g.glanced > 0
}

// awaitAnswer is await on the connection of a borrowed loop.
func (c *Consumer) awaitAnswer(ctx context.Context, w *waiter, l *fetchLoop) (over bool, err error) {
	g := &c.fetcher.lending
	g.watch(ctx, c.fetcher.hooks.wake)
	began := time.Now()
	if g.await(l, w.until(), c.wake) {
		g.glanced = 0
		l.goOn()
	} else {
		g.leave(c.fetcher.ctx, l.lendable() && g.mayFind(time.Since(began)))
		over = w.isOver()
	}
	select { // by what woke it, or by what it has brought itself
	case <-c.wake:
		over = false
	default:
	}
	return over, ctx.Err()
}

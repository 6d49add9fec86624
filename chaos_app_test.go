package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync/atomic"
	"time"
)

// Where a partition is read from when that is not an offset.
const (
	fromCommitted int64 = -1 // or the beginning where nothing is committed
	fromAnywhere  int64 = -2
)

// A chaosPos is what an application knows of a partition that it reads.
type chaosPos struct {
	next        int64 // nothing before it comes, and nothing from it on is left out
	incarnation int
}

// A chaosApp is an application that does random things with a consumer, one after
// another, and checks what it gets.
type chaosApp struct {
	w   *chaosWorld
	id  int
	rng *rand.Rand
	c   *Consumer

	beside *besideApp     // nil: there is none
	last   TopicPartition // that a record came of
	inner  time.Duration  // that calls inside of the one that is measured took

	// Guarded by w.mu.
	pos    map[TopicPartition]chaosPos // of what it owns
	rounds int                         // changes of what is owned
}

func newChaosApp(w *chaosWorld, id int, rng *rand.Rand) *chaosApp {
	return &chaosApp{w: w, id: id, rng: rng, pos: map[TopicPartition]chaosPos{}}
}

func (a *chaosApp) note(format string, args ...any) {
	a.w.note("app %d: "+format, append([]any{a.id}, args...)...)
}

// within requires that fn returns within limit.
func (a *chaosApp) within(limit time.Duration, what string, fn func()) {
	before, began := a.inner, time.Now()
	a.inner = 0
	fn()
	d := time.Since(began)
	if d -= a.inner; d > limit+time.Millisecond {
		a.w.fail("app %d: %s took %v, not %v", a.id, what, d, limit)
	}
	a.inner = before + d + a.inner
}

func (a *chaosApp) timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

func (a *chaosApp) run() {
	for !a.w.settled.Load() && !a.w.failed.Load() {
		if a.c == nil && !a.open() {
			continue
		}
		if a.w.draining.Load() {
			a.drain()
		} else {
			a.act()
		}
	}
	if a.c != nil {
		a.close(true)
	}
}

func (a *chaosApp) open() bool {
	cfg := fast(a.w.b)
	cfg.RebalanceListener = RebalanceListener{OnAssigned: a.assigned, OnRevoked: a.revoked}
	cfg.OnEvent = func(e Event) { a.note("event: %v", e) }
	a.w.plan.change(&cfg)
	ctx, cancel := a.timeout(2 * time.Second)
	defer cancel()
	var err error
	a.within(2*time.Second, "NewConsumer", func() { a.c, err = NewConsumer(ctx, cfg) })
	if err != nil {
		a.note("NewConsumer: %v", err)
		time.Sleep(100 * time.Millisecond)
		a.c = nil
		return false
	}
	a.note("opened")
	a.begin()
	if a.w.plan.beside {
		a.beside = newBeside(a)
	}
	return true
}

// A besideApp calls what may be called from any goroutine and changes nothing that the
// app relies on.
type besideApp struct {
	stop chan struct{}
	done chan struct{}
}

func newBeside(a *chaosApp) *besideApp {
	b := &besideApp{stop: make(chan struct{}), done: make(chan struct{})}
	c, rng, tps := a.c, rand.New(rand.NewPCG(a.w.seed, 5)), a.w.partitions()
	go func() {
		defer close(b.done)
		for {
			select {
			case <-b.stop:
				return
			case <-time.After(time.Duration(1+rng.IntN(100)) * time.Millisecond):
			}
			tp := tps[rng.IntN(len(tps))]
			b.act(a, c, rng, tp)
		}
	}()
	return b
}

func (b *besideApp) act(a *chaosApp, c *Consumer, rng *rand.Rand, tp TopicPartition) {
	d := time.Duration(rng.IntN(200)) * time.Millisecond
	ctx, cancel := a.timeout(d)
	defer cancel()
	began := time.Now()
	what := rng.IntN(12)
	switch what {
	case 0:
		_ = c.Pause(tp)
	case 1, 2:
		_ = c.Resume(tp)
	case 3:
		_, _ = c.Position(ctx, tp)
	case 4:
		_ = c.Commit(ctx)
	case 5:
		_ = c.CommitAsync(nil, func(context.Context, map[TopicPartition]OffsetAndMetadata, error) {})
	case 6:
		_, _ = c.EndOffsets(ctx, tp)
	case 7:
		_, _ = c.Committed(ctx, tp)
	case 8:
		_, _ = c.Lag(tp)
		_, _ = c.Highwater(tp)
	case 9:
		_, _ = c.PartitionsForTopic(ctx, tp.Topic)
	case 10:
		_ = c.Subscription()
		_ = c.Assignment()
	case 11:
		_, _ = c.OffsetsForTimes(ctx, map[TopicPartition]time.Time{tp: time.Now().Add(-time.Second)})
	}
	if took := time.Since(began); took > d+time.Millisecond {
		a.w.fail("beside app %d: call %d took %v, not %v", a.id, what, took, d)
	}
}

func (b *besideApp) end() {
	if b != nil {
		close(b.stop)
		<-b.done
	}
}

// begin assigns or subscribes.
func (a *chaosApp) begin() {
	if a.w.plan.manual {
		a.assign()
		return
	}
	err := error(nil)
	if a.w.plan.pattern {
		err = a.c.SubscribePattern(regexp.MustCompile("[tu]"))
	} else {
		err = a.c.Subscribe([]string{"t", "u"})
	}
	if err != nil {
		a.w.fail("app %d: Subscribe: %v", a.id, err)
	}
}

func (a *chaosApp) assign() {
	tps := a.w.partitions()
	a.rng.Shuffle(len(tps), func(i, j int) { tps[i], tps[j] = tps[j], tps[i] })
	tps = tps[:1+a.rng.IntN(len(tps))]
	if a.w.draining.Load() {
		tps = a.w.partitions()
	}
	a.w.mu.Lock()
	old := a.pos
	a.pos = map[TopicPartition]chaosPos{}
	for _, tp := range tps {
		if p, ok := old[tp]; ok {
			a.pos[tp] = p
			continue
		}
		a.pos[tp] = a.w.newPos(tp)
	}
	a.w.mu.Unlock()
	a.last = TopicPartition{}
	a.note("Assign %v", tps)
	if err := a.c.Assign(tps...); err != nil {
		a.w.fail("app %d: Assign: %v", a.id, err)
	}
}

// newPos is where a partition that was assigned begins. Its caller holds w.mu.
func (w *chaosWorld) newPos(tp TopicPartition) chaosPos {
	p := chaosPos{incarnation: w.logs[tp].incarnation}
	switch {
	case w.plan.group && w.plan.seeks:
		p.next = fromAnywhere
	case w.plan.group:
		p.next = fromCommitted
	}
	return p
}

func (a *chaosApp) assigned(ctx context.Context, c *Consumer, tps []TopicPartition) error {
	a.note("assigned %v", tps)
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.rounds++
	for _, tp := range tps {
		a.pos[tp] = a.w.newPos(tp)
	}
	return nil
}

func (a *chaosApp) revoked(ctx context.Context, c *Consumer, tps []TopicPartition) error {
	a.note("revoked %v", tps)
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.rounds++
	if !a.w.plan.manual {
		for _, tp := range tps {
			delete(a.pos, tp)
		}
	}
	return nil
}

// got checks a record. Of one that a channel gave it is not known whether the
// partition was revoked meanwhile: rounds is their number when that may have been.
func (a *chaosApp) got(r Record, rounds int) {
	w := a.w
	w.mu.Lock()
	defer w.mu.Unlock()
	tp := r.TopicPartition()
	l := w.logs[tp]
	if a.last != tp { // a note of each run is enough
		a.last = tp
		w.noteLocked("app %d: got %v@%d", a.id, tp, r.Offset)
	}
	p, owned := a.pos[tp]
	overtaken := rounds >= 0 && rounds != a.rounds
	if !owned && !overtaken {
		w.failLocked("app %d: %v@%d is not owned", a.id, tp, r.Offset)
		return
	}
	i := l.from(r.Offset)
	if i == len(l.records) || l.records[i].value != string(r.Value) {
		if w.plan.recreate && p.incarnation < l.incarnation {
			return // the consumer has yet to learn of it
		}
		w.failLocked("app %d: %v@%d is %q, which the log does not hold", a.id, tp, r.Offset, r.Value)
		return
	}
	if t := l.records[i].txn; w.plan.readCommitted && t != nil && !t.committed {
		w.failLocked("app %d: %v@%d is of a transaction that is not committed", a.id, tp, r.Offset)
	}
	if p.incarnation < l.incarnation { // it begins anew
		p = chaosPos{next: 0, incarnation: l.incarnation}
	}
	next := p.next
	if overtaken {
		next = fromCommitted
		if w.plan.seeks {
			next = fromAnywhere
		}
	}
	switch {
	case next == fromAnywhere:
	case next == fromCommitted:
		if at := l.missed(0, r.Offset, w.plan.readCommitted, true); at >= 0 {
			w.failLocked("app %d: %v begins at %d, but %d was never delivered", a.id, tp, r.Offset, at)
		}
	case r.Offset < next:
		w.failLocked("app %d: %v@%d comes again, the position is %d", a.id, tp, r.Offset, next)
	default:
		if at := l.missed(next, r.Offset, w.plan.readCommitted, false); at >= 0 {
			w.failLocked("app %d: %v@%d comes where %d is next", a.id, tp, r.Offset, at)
		}
	}
	l.delivered[r.Offset] = true
	switch {
	case !overtaken:
		a.pos[tp] = chaosPos{next: r.Offset + 1, incarnation: l.incarnation}
	case owned:
		a.pos[tp] = chaosPos{next: next, incarnation: l.incarnation}
	}
}

// handle takes in an error of a reader. A partition at fault is sought to where it is.
func (a *chaosApp) handle(what string, err error, ctx context.Context) {
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		return
	}
	a.note("%s: %v", what, err)
	var de *DeserializationError
	if errors.As(err, &de) {
		a.got(de.Record, -1)
		return
	}
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrConcurrentPoll) || errors.Is(err, ErrNotSubscribed) {
		a.w.fail("app %d: %s: %v", a.id, what, err)
		return
	}
	for _, tp := range a.faulty() {
		a.w.mu.Lock()
		p, ok := a.pos[tp]
		a.w.mu.Unlock()
		at := max(a.w.b.CommittedOffset("g", tp.Topic, tp.Partition), 0)
		if ok && p.next >= 0 {
			at = p.next
		}
		ctx, cancel := a.timeout(0)
		if o, err := a.c.Position(ctx, tp); err == nil { // behind offsets that hold nothing, too
			at = o
		}
		cancel()
		_ = a.c.Seek(tp, at)
		if ok && a.w.plan.recreate { // which of the topics was it in?
			a.setPos(tp, fromAnywhere)
		}
		a.note("seek past a fault of %v at %d", tp, at)
	}
}

// faulty returns the partitions at fault.
func (a *chaosApp) faulty() []TopicPartition {
	a.c.fetcher.mu.Lock()
	defer a.c.fetcher.mu.Unlock()
	var tps []TopicPartition
	for _, f := range a.c.fetcher.table.Faults() {
		tps = append(tps, f.TP)
	}
	return tps
}

func (a *chaosApp) setPos(tp TopicPartition, next int64) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if _, ok := a.pos[tp]; ok {
		a.pos[tp] = chaosPos{next: next, incarnation: a.w.logs[tp].incarnation}
	}
}

// owned returns what the consumer says is assigned, and the application knows of.
func (a *chaosApp) owned() []TopicPartition {
	tps := a.c.Assignment()
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return slices.DeleteFunc(tps, func(tp TopicPartition) bool { _, ok := a.pos[tp]; return !ok })
}

func (a *chaosApp) one() (TopicPartition, bool) {
	tps := a.owned()
	if len(tps) == 0 {
		return TopicPartition{}, false
	}
	return tps[a.rng.IntN(len(tps))], true
}

// act does one thing.
func (a *chaosApp) act() {
	switch what := a.rng.IntN(24); what {
	case 0, 1, 2, 3, 4:
		a.poll(time.Duration(a.rng.IntN(300)) * time.Millisecond)
	case 5, 6:
		a.pollUntilCancelled()
	case 7:
		a.iterate()
	case 8, 9:
		a.receive()
	case 10:
		a.pollTyped()
	case 11:
		if tp, ok := a.one(); ok {
			a.note("Pause %v", tp)
			_ = a.c.Pause(tp)
		}
	case 12, 13:
		a.resume()
	case 14, 15:
		a.checkPosition()
	case 16, 17:
		a.commit()
	case 18:
		a.commitAsync()
	case 19, 20:
		a.seek()
	case 21:
		a.change()
	case 22:
		if a.rng.IntN(4) == 0 {
			a.close(a.rng.IntN(3) > 0)
		}
	case 23:
		if a.rng.IntN(10) == 0 && !a.w.plan.manual {
			a.note("sleeps")
			time.Sleep(time.Duration(a.rng.IntN(25)) * time.Second)
		}
	}
}

// resume ends all pauses. A partition may be lost meanwhile.
func (a *chaosApp) resume() {
	_ = a.c.Resume(a.c.Paused()...)
}

func (a *chaosApp) drain() {
	if len(a.c.Paused()) > 0 {
		a.resume()
	}
	for _, tp := range a.owned() {
		a.w.mu.Lock()
		p, owned := a.pos[tp]
		a.w.mu.Unlock()
		if owned && p.next < 0 {
			a.checkPositionOf(tp)
		}
	}
	switch a.rng.IntN(6) {
	case 0:
		a.iterate()
	case 1:
		a.receive()
	case 2:
		a.pollTyped()
	default:
		a.poll(time.Duration(a.rng.IntN(300)) * time.Millisecond)
	}
}

func (a *chaosApp) poll(timeout time.Duration) {
	a.note("Poll")
	a.last = TopicPartition{}
	ctx := context.Background()
	limit := timeout
	if a.rng.IntN(8) == 0 {
		limit = 0
		timeout = 0
	}
	var records *Records
	var err error
	n := 1 + a.rng.IntN(50)
	a.within(limit, fmt.Sprintf("Poll(%v)", timeout), func() { records, err = a.c.PollMax(ctx, timeout, n) })
	a.handle("Poll", err, ctx)
	if err != nil {
		return
	}
	if records.Len() > n {
		a.w.fail("app %d: %d records of %d", a.id, records.Len(), n)
	}
	for r := range records.All() {
		a.got(r, -1)
	}
	a.checkNext(records)
	if a.rng.IntN(2) == 0 {
		records.Release()
	}
}

// checkNext checks the positions behind the records.
func (a *chaosApp) checkNext(records *Records) {
	for tp, o := range records.NextOffsets() {
		a.compare("NextOffsets", tp, o.Offset)
	}
}

// compare requires that a position is behind what was delivered and before what was not.
func (a *chaosApp) compare(what string, tp TopicPartition, offset int64) {
	w := a.w
	w.mu.Lock()
	defer w.mu.Unlock()
	l, p := w.logs[tp], a.pos[tp]
	if p.next == fromCommitted && p.incarnation == l.incarnation {
		if at := l.missed(0, offset, w.plan.readCommitted, true); at >= 0 {
			w.failLocked("app %d: %s of %v is %d, but %d was never delivered", a.id, what, tp, offset, at)
		}
	}
	if p.next < 0 || p.incarnation < l.incarnation {
		return
	}
	if offset < p.next {
		w.failLocked("app %d: %s of %v is %d, not %d", a.id, what, tp, offset, p.next)
	}
	if at := l.missed(p.next, offset, w.plan.readCommitted, false); at >= 0 {
		w.failLocked("app %d: %s of %v is %d, but %d was not delivered", a.id, what, tp, offset, at)
	}
}

func (a *chaosApp) pollUntilCancelled() {
	a.note("Poll until cancelled")
	a.last = TopicPartition{}
	d := time.Duration(a.rng.IntN(400)) * time.Millisecond
	ctx, cancel := a.timeout(d)
	defer cancel()
	var records *Records
	var err error
	a.within(d, "Poll until cancelled", func() { records, err = a.c.Poll(ctx, -1) })
	a.handle("Poll", err, ctx)
	if err == nil {
		for r := range records.All() {
			a.got(r, -1)
		}
	}
}

func (a *chaosApp) pollTyped() {
	a.note("Typed.Poll")
	a.last = TopicPartition{}
	failing := DeserializerFunc[string](func(_ string, h Headers, data []byte) (string, error) {
		if h.r.Offset%13 == 5 {
			return "", errors.New("unlucky")
		}
		return string(data), nil
	})
	typed := Typed(a.c, Bytes, failing)
	for {
		ctx := context.Background()
		var records *TypedRecords[[]byte, string]
		var err error
		a.within(50*time.Millisecond, "Typed.Poll", func() { records, err = typed.Poll(ctx, 50*time.Millisecond) })
		a.handle("Typed.Poll", err, ctx)
		if err == nil {
			for r := range records.All() {
				a.got(r.Record, -1)
			}
			if typed.failed == nil {
				return
			}
		} else if typed.failed == nil {
			return
		}
	}
}

func (a *chaosApp) iterate() {
	a.note("Records")
	a.last = TopicPartition{}
	d := time.Duration(a.rng.IntN(400)) * time.Millisecond
	ctx, cancel := a.timeout(d)
	defer cancel()
	n := 1 + a.rng.IntN(60)
	records := a.c.Records(ctx)
	if a.rng.IntN(3) == 0 {
		a.note("until the end")
		records = a.c.RecordsUntilEnd(ctx)
	}
	a.within(d, "Records", func() {
		for r, err := range records {
			if err != nil {
				a.handle("Records", err, ctx)
				break
			}
			a.got(r, -1)
			if n--; n == 0 {
				break
			}
			if a.rng.IntN(20) == 0 {
				a.checkPosition()
			}
			if a.rng.IntN(30) == 0 {
				a.seek()
			}
		}
	})
}

func (a *chaosApp) receive() {
	a.note("Messages")
	a.last = TopicPartition{}
	d := time.Duration(a.rng.IntN(400)) * time.Millisecond
	ctx, cancel := a.timeout(d)
	defer cancel()
	n := 1 + a.rng.IntN(60)
	rounds := a.round()
	ch := a.c.Messages(ctx)
	a.within(d, "Messages", func() {
		for r := range ch {
			a.got(r, rounds)
			rounds = a.round()
			if n--; n == 0 {
				break
			}
			if a.rng.IntN(30) == 0 && a.w.plan.manual {
				a.seek()
			}
		}
		cancel()
		for r := range ch {
			a.got(r, rounds)
			rounds = a.round()
		}
	})
	a.handle("Messages", a.c.Err(), ctx)
}

func (a *chaosApp) round() int {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return a.rounds
}

func (a *chaosApp) checkPosition() {
	if tp, ok := a.one(); ok {
		a.checkPositionOf(tp)
	}
}

func (a *chaosApp) checkPositionOf(tp TopicPartition) {
	d := time.Duration(a.rng.IntN(300)) * time.Millisecond
	ctx, cancel := a.timeout(d)
	defer cancel()
	var offset int64
	var err error
	a.within(d, "Position", func() { offset, err = a.c.Position(ctx, tp) })
	if err != nil {
		a.note("Position of %v: %v", tp, err)
		if !errors.Is(err, ErrNotAssigned) {
			a.handle("Position", err, ctx)
		}
		return
	}
	a.compare("Position", tp, offset)
	a.w.mu.Lock()
	unknown := a.pos[tp].next < 0
	a.w.mu.Unlock()
	if unknown {
		a.setPos(tp, offset)
	}
}

func (a *chaosApp) commit() {
	if !a.w.plan.group {
		return
	}
	d := time.Duration(a.rng.IntN(600)) * time.Millisecond
	ctx, cancel := a.timeout(d)
	defer cancel()
	tps := a.owned()
	var err error
	a.within(d, "Commit", func() { err = a.c.Commit(ctx) })
	if err != nil {
		a.note("Commit: %v", err)
		return
	}
	still := a.owned()
	for _, tp := range tps {
		if !slices.Contains(still, tp) {
			continue
		}
		offset := a.w.b.CommittedOffset("g", tp.Topic, tp.Partition)
		a.w.mu.Lock()
		if next := a.pos[tp].next; next > 0 && offset < next {
			a.w.failLocked("app %d: Commit left %d committed of %v, not %d", a.id, offset, tp, next)
		}
		a.w.mu.Unlock()
	}
}

// commitAsync commits, and maybe closes before the commit is through. What was
// committed before the end without an error must be there then.
func (a *chaosApp) commitAsync() {
	if !a.w.plan.group {
		return
	}
	var failed atomic.Bool
	failed.Store(true)
	_ = a.c.CommitAsync(nil, func(_ context.Context, _ map[TopicPartition]OffsetAndMetadata, err error) {
		failed.Store(err != nil)
	})
	if a.rng.IntN(4) > 0 || a.beside != nil {
		return
	}
	want := map[TopicPartition]int64{}
	for _, tp := range a.owned() {
		a.w.mu.Lock()
		want[tp] = a.pos[tp].next
		a.w.mu.Unlock()
	}
	a.close(a.rng.IntN(2) == 0)
	if failed.Load() || a.w.plan.seeks {
		return
	}
	for tp, next := range want {
		if o := a.w.b.CommittedOffset("g", tp.Topic, tp.Partition); o < next {
			a.w.fail("app %d: %d of %v is committed after Close, not %d", a.id, o, tp, next)
		}
	}
}

func (a *chaosApp) seek() {
	tp, ok := a.one()
	if !ok || !a.w.plan.seeks || a.w.draining.Load() {
		return
	}
	end := a.w.b.EndOffset(tp.Topic, tp.Partition)
	var err error
	switch a.rng.IntN(4) {
	case 0:
		err = a.c.SeekToBeginning(tp)
		a.note("SeekToBeginning %v: %v", tp, err)
		a.setPos(tp, 0)
	case 1:
		err = a.c.SeekToEnd(tp)
		a.note("SeekToEnd %v: %v", tp, err)
		a.setPos(tp, fromAnywhere)
	default:
		offset := a.rng.Int64N(end + 1)
		err = a.c.Seek(tp, offset)
		a.note("Seek %v to %d: %v", tp, offset, err)
		a.setPos(tp, offset)
	}
	if err != nil && !errors.Is(err, ErrNotAssigned) {
		a.w.fail("app %d: seek: %v", a.id, err)
	}
}

// change changes what is assigned or subscribed to.
func (a *chaosApp) change() {
	switch a.rng.IntN(4) {
	case 0:
		d := time.Duration(200+a.rng.IntN(2000)) * time.Millisecond
		ctx, cancel := a.timeout(d)
		defer cancel()
		a.within(d, "Unsubscribe", func() { a.note("Unsubscribe: %v", a.c.Unsubscribe(ctx)) })
		a.w.mu.Lock()
		clear(a.pos)
		a.w.mu.Unlock()
		a.begin()
	case 1, 2:
		if a.w.plan.manual {
			a.assign()
		} else if a.rng.IntN(4) == 0 {
			a.note("EnforceRebalance: %v", a.c.EnforceRebalance("chaos"))
		}
	case 3:
		if tp, ok := a.one(); ok && a.w.plan.group {
			ctx, cancel := a.timeout(100 * time.Millisecond)
			defer cancel()
			a.within(100*time.Millisecond, "Committed", func() { _, _ = a.c.Committed(ctx, tp) })
		}
	}
}

func (a *chaosApp) close(commit bool) {
	d := time.Duration(500+a.rng.IntN(3000)) * time.Millisecond
	ctx, cancel := a.timeout(d)
	defer cancel()
	closing := a.c.Close
	if !commit {
		closing = a.c.CloseWithoutCommit
	}
	if a.rng.IntN(2) == 0 { // else calls go on while and after it closes
		a.beside.end()
		a.beside = nil
	}
	a.within(d, "Close", func() { a.note("Close: %v", closing(ctx)) })
	a.beside.end()
	a.beside = nil
	a.c = nil
	a.w.mu.Lock()
	clear(a.pos)
	a.rounds++
	a.w.mu.Unlock()
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafkaconsumer/kafka/internal/fetch"
)

// Commit commits the positions of all assigned partitions: the offsets behind the
// records handed over last. It waits for the answer and retries what can be
// retried, until ctx or DefaultAPITimeout ends it. Callbacks of earlier commits run
// before it returns. It may be called inside a callback with the callback's context.
//
// Errors: ErrNoGroup; a *CommitFailedError when this consumer is no longer the
// member that owned the partitions; a *BrokerError; *PartitionErrors, joined, for
// what was refused of single partitions.
func (c *Consumer) Commit(ctx context.Context) error {
	if err := c.groupCall(); err != nil {
		return err
	}
	what, err := c.positions(ctx)
	if err != nil {
		return err
	}
	return c.commit(ctx, what)
}

// CommitOffsets commits the given offsets, of partitions that with a subscription
// must be assigned (else ErrNotAssigned). An offset is that of the next record to
// read. Otherwise it is like Commit.
func (c *Consumer) CommitOffsets(ctx context.Context, offsets map[TopicPartition]OffsetAndMetadata) error {
	if err := c.groupCall(); err != nil {
		return err
	}
	if err := checkOffsets(offsets); err != nil {
		return err
	}
	return c.commit(ctx, c.commitmentTo(offsets))
}

func (c *Consumer) commit(ctx context.Context, what commitment) error {
	defer c.metrics.Client.Committing()()
	c.markDone(what)
	nested := c.nested(ctx)
	ctx, cancel := c.bound(ctx)
	defer cancel()
	err := c.orClosed(c.commitNow(what, func() error { return c.coord.commitSync(ctx, what) }))
	if !nested {
		err = errors.Join(err, c.runDueCallbacks(ctx))
	}
	return err
}

// markDone notes that the application commits offsets.
func (c *Consumer) markDone(what commitment) {
	c.fetcher.mu.Lock()
	defer c.fetcher.mu.Unlock()
	for tp, o := range what.offsets {
		c.fetcher.table.MarkDone(tp, o.Offset, what.topics[tp])
	}
}

// runDueCallbacks runs commit callbacks outside of Poll, unless whoever holds turn
// will run them.
func (c *Consumer) runDueCallbacks(ctx context.Context) error {
	select {
	case <-c.turn:
	default:
		return nil
	}
	c.runCommitCallbacks(ctx)
	c.turn <- struct{}{}
	return c.closeIfAsked()
}

// commitNow commits and notes what was stored.
func (c *Consumer) commitNow(what commitment, commit func() error) error {
	if len(what.offsets) == 0 {
		return nil
	}
	err := commit()
	c.noteCommitted(what, err)
	return publicError(err)
}

// noteCommitted remembers which offsets are stored, so that they are not committed
// automatically once more.
func (c *Consumer) noteCommitted(what commitment, err error) {
	failed := partitionErrors(err)
	c.fetcher.mu.Lock()
	defer c.fetcher.mu.Unlock()
	for tp, o := range what.offsets {
		if failed.of(tp) == nil {
			c.fetcher.table.MarkCommitted(tp, o.Offset, what.topics[tp])
		}
	}
}

// commitDone commits what is done and was not committed yet, before it is given up.
func (c *Consumer) commitDone(ctx context.Context) error {
	if c.auto.off.Load() {
		return nil
	}
	what := c.done()
	if len(what.offsets) == 0 {
		return nil
	}
	err := c.commitNow(what, func() error { return c.coord.commitLast(ctx, what) })
	if c.auto.off.Load() {
		return nil // just found to be of no use
	}
	c.tellOnCommit(what.offsets, err)
	return err
}

// CommitAsync commits offsets without waiting; nil means the positions of all
// assigned partitions. It is not retried: a later commit makes up for it. callback,
// or Config.OnCommit when it is nil, is told the result inside a later Poll, Commit,
// Close, iteration or channel receive, in the order of the commits.
//
// Errors: ErrNoGroup, ErrClosed, and those of offsets that cannot be.
func (c *Consumer) CommitAsync(offsets map[TopicPartition]OffsetAndMetadata,
	callback func(ctx context.Context, offsets map[TopicPartition]OffsetAndMetadata, err error),
) error {
	if err := c.groupCall(); err != nil {
		return err
	}
	if err := checkOffsets(offsets); err != nil {
		return err
	}
	var what commitment
	if offsets != nil {
		what = c.commitmentTo(offsets)
	} else {
		var err error
		if what, err = c.positions(context.Background()); err != nil {
			return err
		}
	}
	c.markDone(what)
	c.coord.commitUnawaited(what, func(err error) {
		c.noteCommitted(what, err)
		err = publicError(err)
		if callback == nil {
			c.tellOnCommit(what.offsets, err)
			return
		}
		c.callbacks.add(func(ctx context.Context) { callback(ctx, what.offsets, err) })
		c.disturb()
	})
	return nil
}

// tellOnCommit queues a call of Config.OnCommit.
func (c *Consumer) tellOnCommit(offsets map[TopicPartition]OffsetAndMetadata, err error) {
	if c.cfg.OnCommit == nil {
		return
	}
	c.callbacks.add(func(context.Context) { c.cfg.OnCommit(offsets, err) })
	c.disturb()
}

// Committed returns the group's committed offsets of the partitions; a partition
// without one is absent. It always asks the coordinator. What was found comes with
// the joined *PartitionErrors of the rest.
//
// Errors besides: ErrNoGroup, ErrClosed, and that of a ctx or DefaultAPITimeout which
// ended, with the reason.
func (c *Consumer) Committed(ctx context.Context, tps ...TopicPartition) (map[TopicPartition]OffsetAndMetadata, error) {
	if err := c.groupCall(); err != nil {
		return nil, err
	}
	defer c.metrics.Client.LookingUp()()
	ctx, cancel := c.bound(ctx)
	defer cancel()
	found, err := c.coord.committed(ctx, tps)
	return found, c.orClosed(publicError(err))
}

// committedOffsets is how the fetcher looks committed offsets up. Brokers that keep none
// have none.
func (c *Consumer) committedOffsets(ctx context.Context, tps []TopicPartition) (map[TopicPartition]OffsetAndMetadata, error) {
	found, err := c.coord.tryCommitted(ctx, tps)
	if isUnsupported(err) && c.coord.keepsNone.Load() {
		return nil, nil
	}
	return found, err
}

// stopAutoCommit ends automatic commits for want of anybody who keeps offsets.
func (c *Consumer) stopAutoCommit(reason error) {
	if !c.auto.off.Swap(true) {
		c.log.Warn("kafka: automatic commits are off, since brokers before 0.8.1 keep no offsets", "error", reason)
	}
}

// groupCall checks what every call that needs a group needs.
func (c *Consumer) groupCall() error {
	if c.coord == nil {
		return ErrNoGroup
	}
	select {
	case <-c.ctx.Done():
		return ErrClosed
	default:
		return nil
	}
}

func checkOffsets(offsets map[TopicPartition]OffsetAndMetadata) error {
	var errs []error
	for tp, o := range offsets {
		if o.Offset < 0 {
			errs = append(errs, &PartitionError{tp.Topic, tp.Partition, &ArgumentError{Argument: "offset", Value: fmt.Sprint(o.Offset), Reason: "must not be negative"}})
		}
	}
	return errors.Join(errs...)
}

// A commitment is what to commit, and which topics it is of: OffsetCommit names them,
// and a name may mean a new topic by the time the request is sent.
type commitment struct {
	offsets map[TopicPartition]OffsetAndMetadata
	topics  map[TopicPartition][16]byte // ids, as they were when the offsets were read; absent or zero: not known
	foreign []TopicPartition            // those among the offsets that a subscription without a group does not own
}

func commitmentOf(read map[TopicPartition]fetch.Offset) commitment {
	what := commitment{
		offsets: make(map[TopicPartition]OffsetAndMetadata, len(read)),
		topics:  make(map[TopicPartition][16]byte, len(read)),
	}
	for tp, o := range read {
		what.offsets[tp] = OffsetAndMetadata{Offset: o.Offset}.WithLeaderEpoch(o.Epoch)
		what.topics[tp] = o.TopicID
	}
	return what
}

// positions are what Commit commits.
func (c *Consumer) positions(ctx context.Context) (what commitment, err error) {
	err = c.onReader(ctx, func() {
		c.fetcher.mu.Lock()
		defer c.fetcher.mu.Unlock()
		what = commitmentOf(c.fetcher.table.Positions())
	})
	return what, err
}

// done is what the application is finished with and was not committed yet.
func (c *Consumer) done() commitment {
	c.fetcher.mu.Lock()
	defer c.fetcher.mu.Unlock()
	return commitmentOf(c.fetcher.table.Done())
}

// commitmentTo takes the application's offsets to be of the topics that are read now.
func (c *Consumer) commitmentTo(offsets map[TopicPartition]OffsetAndMetadata) commitment {
	c.mu.Lock()
	_, alone := c.member.(*solo)
	c.mu.Unlock()
	what := commitment{offsets: maps.Clone(offsets)}
	c.fetcher.mu.Lock()
	defer c.fetcher.mu.Unlock()
	what.topics = c.fetcher.table.TopicIDs(maps.Keys(offsets))
	if alone { // the coordinator knows nothing of what is owned then
		for tp := range offsets {
			if c.fetcher.table.Get(tp) == nil {
				what.foreign = append(what.foreign, tp)
			}
		}
	}
	return what
}

// An autoCommit says when to commit what is done.
type autoCommit struct {
	off      atomic.Bool
	interval time.Duration
	disturb  func() // has the application's goroutine look whether a commit is due

	armed atomic.Bool // the timer runs

	mu      sync.Mutex
	timer   *time.Timer
	due     bool
	running bool // a commit is under way
	stopped bool
}

// arm starts the interval, at whose end a commit is due, unless it has begun.
func (a *autoCommit) arm() {
	switch {
	case a.off.Load() || a.armed.Load():
	case a.interval <= 0:
		a.fire()
	default:
		a.startTimer()
	}
}

func (a *autoCommit) startTimer() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped || a.armed.Swap(true) {
		return
	}
	if a.timer == nil {
		a.timer = time.AfterFunc(a.interval, a.fire)
	} else {
		a.timer.Reset(a.interval)
	}
}

func (a *autoCommit) fire() {
	a.mu.Lock()
	a.due = true
	a.armed.Store(false)
	a.mu.Unlock()
	a.disturb()
}

// begin tells whether a commit is due, and notes that it is under way.
func (a *autoCommit) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.due || a.running {
		return false
	}
	a.due, a.running = false, true
	return true
}

func (a *autoCommit) finish() {
	a.mu.Lock()
	a.running = false
	due := a.due
	a.mu.Unlock()
	if due { // while the commit was under way
		a.disturb()
	}
}

func (a *autoCommit) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
	}
}

// commitAutomatically commits what is done if it is time to. A commit that fails is
// made again after the next interval.
func (c *Consumer) commitAutomatically() {
	if !c.auto.begin() {
		return
	}
	what := c.done()
	if len(what.offsets) == 0 {
		c.auto.finish()
		return
	}
	c.coord.commitUnawaited(what, func(err error) {
		c.noteCommitted(what, err)
		c.auto.finish()
		if c.auto.off.Load() {
			return // just found to be of no use
		}
		if err != nil {
			c.log.Warn("kafka: automatic commit failed", "error", err)
			c.auto.arm()
		}
		c.tellOnCommit(what.offsets, publicError(err))
	})
}

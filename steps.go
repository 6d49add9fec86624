package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka/internal/fetch"
	"github.com/kafkaconsumer/kafka/internal/subs"
)

// callbackKey marks the context of a callback of one consumer.
type callbackKey struct{ c *Consumer }

// nested tells whether ctx comes from a callback of this consumer that is running.
func (c *Consumer) nested(ctx context.Context) bool {
	running, _ := ctx.Value(callbackKey{c}).(*bool)
	return running != nil && *running
}

// callbackContext returns the context of a callback: that of the call that runs it
// without its end, bounded by limit. end is to be called behind the callback.
func (c *Consumer) callbackContext(ctx context.Context, limit time.Duration) (callback context.Context, end func()) {
	running := new(bool)
	*running = true
	callback = context.WithValue(context.WithoutCancel(ctx), callbackKey{c}, running)
	callback, cancel := context.WithTimeout(callback, limit)
	return callback, func() { *running = false; cancel() }
}

// attend does what is due on the application's goroutine: callbacks, steps of a
// rebalance, automatic commits. It returns what the application is to be told.
func (c *Consumer) attend(ctx context.Context, w *waiter) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.open(); err != nil {
		return err
	}
	var errs []error
	w.turnMissed = false
	if c.disturbed.Swap(false) {
		ok, err := c.takeTurn(ctx, w)
		if !ok {
			c.disturbed.Store(true)
			w.turnMissed = err == nil
			return err
		}
		err = c.doDuties(ctx, w)
		errs = append(errs, err)
	}
	if err := c.open(); err != nil {
		if w.channel == nil { // a callback may have closed the consumer: finish that
			errs = append(errs, c.closeIfAsked())
		}
		return errors.Join(append(errs, err)...)
	}
	c.mu.Lock()
	m, none, denied := c.member, c.sub.Kind() == subs.None, c.denied
	c.mu.Unlock()
	if none {
		errs = append(errs, ErrNotSubscribed)
	}
	if m != nil {
		errs = appendError(errs, m.takeError())
		c.tellDenied(denied)
	}
	errs = appendError(errs, c.problems.take())
	return errors.Join(errs...)
}

// appendError is append for what mostly is nil: a Poll without errors allocates
// nothing for them.
func appendError(errs []error, err error) []error {
	if err == nil {
		return errs
	}
	return append(errs, err)
}

// takeTurn waits for the right to run callbacks, within w and ctx.
func (c *Consumer) takeTurn(ctx context.Context, w *waiter) (bool, error) {
	select {
	case <-c.turn:
		return true, nil
	default:
	}
	due := w.due()
	for {
		select {
		case <-c.turn:
			return true, nil
		case question := <-w.questions():
			question()
		case <-due:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		case <-c.closing:
			return false, ErrClosed
		}
	}
}

// doDuties runs with turn held and gives it back.
func (c *Consumer) doDuties(ctx context.Context, w *waiter) error {
	defer func() { c.turn <- struct{}{} }()
	if w.channel != nil {
		w.channel.attending.Store(true)
		defer w.channel.attending.Store(false)
	}
	c.runCommitCallbacks(ctx)
	err := c.doSteps(ctx)
	c.commitAutomatically()
	return err
}

// doSteps takes the steps of a rebalance that are due, in order.
func (c *Consumer) doSteps(ctx context.Context) error {
	var errs []error
	for {
		m := c.currentMember()
		if m == nil || c.open() != nil {
			return errors.Join(errs...)
		}
		m.polled()
		st := m.nextStep()
		if st == nil {
			return errors.Join(errs...)
		}
		var err error
		switch st.kind {
		case stepRevoke:
			var done bool
			if done, err = c.revoke(ctx, st); !done {
				return errors.Join(append(errs, err)...)
			}
		case stepAssign:
			err = c.takeAssignment(ctx, st)
		case stepLost:
			c.lose(st.partitions)
			err = c.runListener(ctx, stepLost, st.partitions)
		}
		errs = append(errs, err)
		m.stepDone(st)
	}
}

// A revocation is a step that waits for commits, twice: for those so far and that
// of what is done, and for those that the listener asked for. After it nobody else
// would take them.
type revocation struct {
	step    *rebalanceStep
	end     time.Time     // when it must be over, as the rebalance does not wait for longer
	settled chan struct{} // closed when no commit is left to wait for
	told    bool          // the listener was called
}

// revoke keeps records of the step's partitions from being handed over, commits,
// tells the listener and gives the partitions up. It returns false when commits are
// on their way: they are waited for in the background, so that Poll keeps to its
// timeout.
func (c *Consumer) revoke(ctx context.Context, st *rebalanceStep) (done bool, err error) {
	r := c.revoking
	if r == nil || r.step != st {
		c.fetcher.acquire().Hold(st.partitions...)
		c.fetcher.release()
		r = &revocation{step: st, end: time.Now().Add(c.restOfRound())}
		c.revoking = r
		c.settleCommits(r)
	}
	if !r.isSettled() {
		return false, nil
	}
	if !r.told {
		r.told = true
		err = c.runListener(ctx, stepRevoke, st.partitions)
		c.settleCommits(r)
		if !r.isSettled() {
			return false, err
		}
	}
	c.revoking = nil
	table := c.fetcher.acquire()
	defer c.fetcher.release()
	clear(c.pausedBy)
	for _, tp := range table.Paused() {
		c.pausedBy[tp] = true
	}
	table.Remove(st.partitions...)
	return true, err
}

// restOfRound is how long the rebalance waits for what this consumer does.
func (c *Consumer) restOfRound() time.Duration {
	if c.coord == nil {
		return c.cfg.MaxPollInterval
	}
	return c.coord.restOfRound()
}

// rest is how long a revocation may still take: a moment at least, so that what the
// listener did at the last one may succeed.
func (c *Consumer) rest(r *revocation) time.Duration {
	return max(min(time.Until(r.end), c.restOfRound()), min(c.cfg.HeartbeatInterval, c.cfg.MaxPollInterval))
}

// settleCommits commits what is done, if that is to be committed automatically, and
// waits for all commits, in the background. Before the listener was told, it leaves it
// half of the time.
func (c *Consumer) settleCommits(r *revocation) {
	r.settled = make(chan struct{})
	automatic := !c.auto.off.Load() && !r.told
	if !automatic && (c.coord == nil || c.coord.commits.empty()) {
		close(r.settled)
		return
	}
	limit := c.rest(r)
	if !r.told {
		limit /= 2
	}
	c.wg.Go(func() {
		defer c.disturb()
		defer close(r.settled)
		ctx, cancel := context.WithTimeout(c.ctx, min(limit, c.cfg.RequestTimeout))
		defer cancel()
		if automatic {
			if err := c.commitDone(ctx); err != nil {
				c.log.Warn("kafka: commit before a revocation failed: records may come again", "error", err)
			}
		}
		if c.coord != nil {
			c.coord.flush(ctx)
		}
	})
}

// untold leaves out the partitions of which the listener was told while commits are
// still waited for.
func (c *Consumer) untold(tps []TopicPartition) []TopicPartition {
	if r := c.revoking; r != nil && r.told {
		return without(tps, r.step.partitions)
	}
	return tps
}

func (r *revocation) isSettled() bool {
	select {
	case <-r.settled:
		return true
	default:
		return false
	}
}

// lose drops partitions that were taken away.
func (c *Consumer) lose(tps []TopicPartition) {
	c.fetcher.acquire().Remove(tps...)
	c.fetcher.release()
	c.disturb()
}

// takeAssignment makes the step's partitions this consumer's own. Records of new
// ones are handed over once the listener returned.
func (c *Consumer) takeAssignment(ctx context.Context, st *rebalanceStep) error {
	table := c.fetcher.acquire()
	added, _ := table.Assign(st.assignment, c.coord != nil)
	c.fetcher.updateLeadersLocked()
	for _, tp := range added {
		if c.coord == nil && c.appeared(tp) { // with a group that matters where nothing is committed
			table.BeginAppeared(table.Get(tp))
		}
		if c.pausedBy[tp] { // it came back in the same rebalance
			table.SetPaused(table.Get(tp), true)
		}
	}
	clear(c.pausedBy)
	c.fetcher.release()
	err := c.runListener(ctx, stepAssign, st.partitions)
	c.fetcher.acquire().Release(added...)
	c.fetcher.release()
	c.begun.Store(true)
	return err
}

// runListener calls the listener's function for a step.
func (c *Consumer) runListener(ctx context.Context, kind stepKind, tps []TopicPartition) error {
	c.mu.Lock()
	l := c.listener
	c.mu.Unlock()
	name, fn := "OnRevoked", l.OnRevoked
	switch {
	case kind == stepAssign:
		name, fn = "OnAssigned", l.OnAssigned
	case kind == stepLost && l.OnLost != nil:
		name, fn = "OnLost", l.OnLost
	}
	if fn == nil {
		return nil
	}
	limit := c.restOfRound()
	if r := c.revoking; r != nil && kind == stepRevoke {
		limit = c.rest(r)
	}
	if deadline, ok := ctx.Deadline(); ok && c.open() != nil {
		limit = time.Until(deadline)
	}
	callback, end := c.callbackContext(ctx, limit)
	defer end()
	began := time.Now()
	err := fn(callback, c, tps)
	c.measureCallback(kind, began)
	if err != nil {
		return fmt.Errorf("kafka: rebalance listener %s: %w", name, err)
	}
	return nil
}

// A callbackQueue holds results of commits for callbacks to be told of, in order.
type callbackQueue struct {
	mu    sync.Mutex
	queue []func(context.Context)
}

func (q *callbackQueue) add(fn func(context.Context)) {
	q.mu.Lock()
	q.queue = append(q.queue, fn)
	q.mu.Unlock()
}

func (q *callbackQueue) next() func(context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return nil
	}
	fn := q.queue[0]
	q.queue = q.queue[1:]
	return fn
}

// runCommitCallbacks runs with turn held.
func (c *Consumer) runCommitCallbacks(ctx context.Context) {
	for fn := c.callbacks.next(); fn != nil; fn = c.callbacks.next() {
		callback, end := c.callbackContext(ctx, c.cfg.MaxPollInterval)
		fn(callback)
		end()
	}
}

// faultError makes the public error of a partition's fault.
func faultError(f fetch.Fault, cfg *Config) error {
	return &PartitionError{Topic: f.TP.Topic, Partition: f.TP.Partition, Err: publicFault(f, cfg)}
}

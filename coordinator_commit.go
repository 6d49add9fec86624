package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// commitQueue holds the commits that are not finished, in the order of the calls.
// One OffsetCommit is on its way at a time; what is called meanwhile goes out
// together with the next one, later offsets in place of earlier ones, so a commit
// never overtakes another.
type commitQueue struct {
	wake chan struct{} // there is something new; holds one

	sent map[TopicPartition]uint64 // the last call that was sent; belongs to commitLoop

	mu     sync.Mutex
	ended  bool
	lastID uint64
	calls  []*commitCall
}

// A commitCall is one call of commit or commitAsync.
type commitCall struct {
	id         uint64
	retries    bool // a sync commit
	last       bool // of what is given up: it does not wait for topics to appear
	memberID   string
	generation int32
	owned      map[TopicPartition]uint64 // which taking over of the partitions it is about
	deadline   time.Time                 // until which an async commit waits for the coordinator
	finish     func(err error)           // called once, by commitLoop or on its end
	ended      chan struct{}             // closed when it was finished, or its caller has gone

	topics map[TopicPartition][16]byte // ids of the topics that the offsets are of

	// The rest belongs to commitLoop.
	offsets   map[TopicPartition]OffsetAndMetadata // not committed yet
	failed    map[TopicPartition]error
	refused   error // the whole call
	unknown   map[TopicPartition]unknownAnswers
	failures  int
	notBefore time.Time
	cause     error // of the last try's failure; guarded by commitQueue.mu
}

// commitSync commits offsets and waits. Failures that may pass are retried until ctx
// ends; the error then wraps ctx's and the last failure. Partitions for which a
// later commit was sent meanwhile are left to that one, and those that do not exist
// are given up once metadata confirms it.
func (co *coordinator) commitSync(ctx context.Context, what commitment) error {
	return co.commitAndWait(ctx, what, false)
}

// commitLast is commitSync for a rebalance or the end of the consumer, which a topic that
// was deleted must not hold up: such a topic is given up after a few tries.
func (co *coordinator) commitLast(ctx context.Context, what commitment) error {
	return co.commitAndWait(ctx, what, true)
}

func (co *coordinator) commitAndWait(ctx context.Context, what commitment, last bool) error {
	done := make(chan error, 1)
	call := co.newCommit(what, func(err error) { done <- err })
	call.retries, call.last = true, last
	if !co.commits.add(call) {
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if !co.commits.remove(call) {
		return <-done // it ended at the same time, or is being finished now
	}
	close(call.ended)
	if cause := co.commits.causeOf(call); cause != nil {
		return co.groupError("OffsetCommit", fmt.Errorf("%w: %w", ctx.Err(), cause))
	}
	if last := co.lookup.lastError(); last != nil {
		return co.groupError("OffsetCommit", fmt.Errorf("%w: the coordinator is not known: %w", ctx.Err(), last))
	}
	return co.groupError("OffsetCommit", ctx.Err())
}

// commitUnawaited commits offsets without waiting and without a second try. done is
// called exactly once, in the order of the calls, and must not block: after close by
// the caller's goroutine, else by one of the coordinator's.
func (co *coordinator) commitUnawaited(what commitment, done func(error)) {
	call := co.newCommit(what, done)
	call.deadline = time.Now().Add(co.cfg.RequestTimeout)
	if !co.commits.add(call) {
		done(ErrClosed)
	}
}

// flush waits until the commits so far have ended, unless the coordinator is not
// known.
func (co *coordinator) flush(ctx context.Context) {
	if !co.lookup.get().known {
		return
	}
	for _, call := range co.commits.all() {
		select {
		case <-call.ended:
		case <-ctx.Done():
			return
		case <-co.ctx.Done():
			return
		}
	}
}

// newCommit decides what may be committed by this member.
func (co *coordinator) newCommit(what commitment, finish func(error)) *commitCall {
	now := co.now.Load()
	call := &commitCall{
		finish: finish, ended: make(chan struct{}), offsets: maps.Clone(what.offsets), failed: map[TopicPartition]error{},
		topics: idsOf(what, co.cl.Metadata()),
	}
	call.memberID, call.generation = now.committer()
	call.owned = now.owned
	for _, tp := range what.foreign {
		call.refuse(tp)
	}
	if !now.subscribed || co.alone.Load() {
		return call
	}
	if now.generation < 0 && len(what.offsets) > 0 {
		call.offsets = nil
		call.refused = co.groupError("", &CommitFailedError{
			Reason: "this consumer is not a member of its group now, others may own its partitions", Err: ErrNotAssigned,
		})
		return call
	}
	for tp := range call.offsets {
		if _, ok := now.owned[tp]; !ok {
			call.refuse(tp)
		}
	}
	return call
}

// refuse leaves out a partition that this consumer does not own.
func (call *commitCall) refuse(tp TopicPartition) {
	call.failed[tp] = ErrNotAssigned
	delete(call.offsets, tp)
}

// committer returns who commits: without a subscription, nobody in particular.
func (now *membership) committer() (memberID string, generation int32) {
	if !now.subscribed {
		return "", -1
	}
	return now.memberID, now.generation
}

// result is what the caller of a finished commit gets.
func (call *commitCall) result() error {
	return errors.Join(call.refused, joinPartitionErrors(call.failed))
}

func (q *commitQueue) add(call *commitCall) bool {
	q.mu.Lock()
	if q.ended {
		q.mu.Unlock()
		return false
	}
	q.lastID++
	call.id = q.lastID
	q.calls = append(q.calls, call)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// remove takes a call out and reports whether it was there; if not, it is finished
// or about to be.
func (q *commitQueue) remove(call *commitCall) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.calls)
	q.calls = slices.DeleteFunc(q.calls, func(c *commitCall) bool { return c == call })
	return len(q.calls) < n
}

func (q *commitQueue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.calls) == 0
}

func (q *commitQueue) causeOf(call *commitCall) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return call.cause
}

// due returns the calls to send now, in order, and when the next one will be due.
func (q *commitQueue) due(now time.Time) (calls []*commitCall, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	next = now.Add(time.Hour)
	for _, c := range q.calls {
		at := c.notBefore
		if !now.Before(at) {
			calls = append(calls, c)
			at = c.deadline
		}
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return calls, next
}

// finish ends a call, unless its caller has gone.
func (q *commitQueue) finish(call *commitCall, err error) {
	if q.remove(call) {
		call.finish(err)
		close(call.ended)
	}
}

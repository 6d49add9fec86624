package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitQueue holds the commits that are not finished, in the order of the calls.
// One OffsetCommit is on its way at a time; what is called meanwhile goes out
// together with the next one, later offsets in place of earlier ones, so a commit
// never overtakes another.
type commitQueue struct {
	wake chan struct{} // there is something new; holds one

	mu     sync.Mutex
	ended  bool
	lastID uint64
	calls  []*commitCall
}

// A commitCall is one call of commit or commitAsync.
type commitCall struct {
	id         uint64
	retries    bool // a sync commit
	memberID   string
	generation int32
	deadline   time.Time       // until which an async commit waits for the coordinator
	finish     func(err error) // called once, by commitLoop or on its end

	// The rest belongs to commitLoop.
	offsets   map[TopicPartition]OffsetAndMetadata // not committed yet
	failed    map[TopicPartition]error
	refused   error // the whole call
	failures  int
	notBefore time.Time
	cause     error // of the last try's failure; guarded by commitQueue.mu
}

// commit commits offsets and waits. Failures that may pass are retried until ctx
// ends; the error then wraps ctx's and the last failure. Partitions for which a
// later commit was sent meanwhile are left to that one.
func (co *coordinator) commit(ctx context.Context, offsets map[TopicPartition]OffsetAndMetadata) error {
	done := make(chan error, 1)
	call := co.newCommit(offsets, func(err error) { done <- err })
	call.retries = true
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
	if cause := co.commits.causeOf(call); cause != nil {
		return co.groupError("OffsetCommit", fmt.Errorf("%w: %w", ctx.Err(), cause))
	}
	if last := co.lookup.lastError(); last != nil {
		return co.groupError("OffsetCommit", fmt.Errorf("%w: the coordinator is not known: %w", ctx.Err(), last))
	}
	return co.groupError("OffsetCommit", ctx.Err())
}

// commitAsync commits offsets without waiting and without a second try. done is
// called exactly once, in the order of the calls, and must not block: after close by
// the caller's goroutine, else by one of the coordinator's.
func (co *coordinator) commitAsync(offsets map[TopicPartition]OffsetAndMetadata, done func(error)) {
	call := co.newCommit(offsets, done)
	call.deadline = time.Now().Add(co.cfg.RequestTimeout)
	if !co.commits.add(call) {
		done(ErrClosed)
	}
}

// flush waits until the commits so far have ended, unless the coordinator is not
// known. It leaves half of ctx's time to what comes after.
func (co *coordinator) flush(ctx context.Context) {
	if !co.lookup.get().known || co.commits.empty() {
		return
	}
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	_ = co.commit(ctx, nil)
}

// newCommit decides what of offsets may be committed by this member.
func (co *coordinator) newCommit(offsets map[TopicPartition]OffsetAndMetadata, finish func(error)) *commitCall {
	now := co.now.Load()
	call := &commitCall{
		finish: finish, memberID: now.memberID, generation: now.generation,
		offsets: maps.Clone(offsets), failed: map[TopicPartition]error{},
	}
	if !now.subscribed {
		call.memberID = ""
		return call
	}
	if now.generation < 0 && len(offsets) > 0 {
		call.offsets = nil
		call.refused = co.commitFailed(&CommitFailedError{
			Reason: "this consumer is not a member of its group now, others may own its partitions", Err: ErrNotAssigned,
		})
		return call
	}
	for tp := range call.offsets {
		if _, ok := now.owned[tp]; !ok {
			call.failed[tp] = ErrNotAssigned
			delete(call.offsets, tp)
		}
	}
	return call
}

func (co *coordinator) commitFailed(e *CommitFailedError) error { return co.groupError("", e) }

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
	}
}

// commitLoop sends commits. start starts it, the end of co.ctx stops it, close
// awaits it.
func (co *coordinator) commitLoop() {
	q := &co.commits
	defer co.endCommits()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for co.ctx.Err() == nil {
		now := time.Now()
		lookup := co.lookup.get()
		due, next := q.due(now)
		due = co.finishSettled(due, now, lookup)
		if len(due) > 0 && lookup.known {
			co.sendCommits(lookup.node, due)
			continue
		}
		if len(due) > 0 {
			co.post(message{event: group.CoordinatorNeeded{}})
		}
		timer.Reset(time.Until(next))
		select {
		case <-q.wake:
		case <-lookup.changed:
		case <-timer.C:
		case <-co.ctx.Done():
		}
	}
}

func (co *coordinator) endCommits() {
	q := &co.commits
	q.mu.Lock()
	q.ended = true
	calls := q.calls
	q.calls = nil
	q.mu.Unlock()
	for _, c := range calls {
		c.finish(ErrClosed)
	}
}

// finishSettled ends the calls that need no request, from the front so that they
// end in order, and those that cannot be sent. It returns the others.
func (co *coordinator) finishSettled(due []*commitCall, now time.Time, lookup lookupState) []*commitCall {
	for i, c := range due {
		switch {
		case len(c.offsets) == 0:
		case !lookup.known && lookup.refused != nil:
			c.refused = co.groupError("OffsetCommit", lookup.refused)
		case !lookup.known && !c.deadline.IsZero() && !now.Before(c.deadline):
			c.refused = co.groupError("OffsetCommit", fmt.Errorf("the coordinator was not found within %v: %w",
				co.cfg.RequestTimeout, firstError(co.lookup.lastError(), errNoCoordinator)))
		default:
			return due[i:]
		}
		co.commits.finish(c, c.result())
	}
	return nil
}

var errNoCoordinator = errors.New("no broker answered")

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// sendCommits sends calls in one request and takes the answer in.
func (co *coordinator) sendCommits(node int32, calls []*commitCall) {
	now := co.now.Load()
	memberID, generation := now.memberID, now.generation
	if !now.subscribed {
		memberID, generation = "", -1
	}
	// What was asked for in an older generation is void: the partitions have had
	// another chance to be owned by someone else.
	last := map[TopicPartition]uint64{}
	for _, c := range calls {
		if c.memberID != memberID || c.generation != generation {
			c.offsets, c.refused = nil, co.commitFailed(&CommitFailedError{
				Reason: "the group rebalanced before the commit could be sent", Err: ErrNotAssigned,
			})
		}
		for tp := range c.offsets {
			last[tp] = c.id
		}
	}
	var results map[TopicPartition]error
	var whole error
	if len(last) > 0 {
		co.supersede(calls, last)
		results, whole = co.sendCommit(node, memberID, generation, newest(calls, last))
	}
	for _, c := range calls {
		co.takeResults(c, results, whole, last)
	}
}

// supersede makes earlier calls leave out partitions of later ones, also those that
// wait for their next try.
func (co *coordinator) supersede(sent []*commitCall, last map[TopicPartition]uint64) {
	co.commits.mu.Lock()
	waiting := slices.Clone(co.commits.calls)
	co.commits.mu.Unlock()
	for _, c := range waiting {
		if slices.Contains(sent, c) || c.failures == 0 {
			continue
		}
		for tp := range c.offsets {
			if last[tp] > c.id {
				delete(c.offsets, tp)
			}
		}
	}
}

// newest returns the offsets to send: of each partition, those of the last call.
func newest(calls []*commitCall, last map[TopicPartition]uint64) map[TopicPartition]OffsetAndMetadata {
	out := make(map[TopicPartition]OffsetAndMetadata, len(last))
	for _, c := range calls {
		for tp, o := range c.offsets {
			if last[tp] == c.id {
				out[tp] = o
			}
		}
	}
	return out
}

// takeResults takes in what became of a call's partitions, or of the whole request,
// and ends the call when nothing is left to try.
func (co *coordinator) takeResults(c *commitCall, results map[TopicPartition]error, whole error, last map[TopicPartition]uint64) {
	var again error
	for tp := range c.offsets {
		err := firstError(whole, results[tp])
		switch {
		case err != nil && c.retries && !isFinalCommit(err):
			if last[tp] == c.id {
				again = err
				continue
			}
			// Left to the later commit.
		case err != nil && isAboutGroup(err):
			c.refused = co.groupError("", err)
		case err != nil:
			c.failed[tp] = co.groupError("", err)
		}
		delete(c.offsets, tp)
	}
	if len(c.offsets) == 0 {
		co.commits.finish(c, c.result())
		return
	}
	c.failures++
	c.notBefore = time.Now().Add(co.backoff(c.failures))
	co.commits.mu.Lock()
	c.cause = again
	co.commits.mu.Unlock()
}

// isFinalCommit reports errors that a retry of the commit will get again.
func isFinalCommit(err error) bool {
	var fenced *CommitFailedError
	return errors.As(err, &fenced) || refusesGroup(err)
}

// isAboutGroup reports errors that are the same for every partition of a commit.
func isAboutGroup(err error) bool {
	var fenced *CommitFailedError
	code, answered := answeredCode(err)
	if !answered || errors.As(err, &fenced) {
		return true
	}
	switch code {
	case protocol.GroupAuthorizationFailed, protocol.InvalidGroupID, protocol.NotCoordinator,
		protocol.CoordinatorNotAvailable, protocol.CoordinatorLoadInProgress:
		return true
	}
	return false
}

// sendCommit sends one OffsetCommit. It returns what became of each partition, or
// why all of it failed.
func (co *coordinator) sendCommit(node int32, memberID string, generation int32, offsets map[TopicPartition]OffsetAndMetadata) (map[TopicPartition]error, error) {
	ctx, cancel := context.WithTimeout(co.ctx, co.cfg.RequestTimeout+co.cfg.SocketConnectionSetupTimeout)
	defer cancel()
	ctx, stop := co.whileCoordinator(ctx, node)
	defer stop()
	resp, err := co.cl.Do(ctx, node, conn.Control, conn.Limit(co.commitRequest(memberID, generation, offsets), 2, 9))
	r, ok := resp.(*kmsg.OffsetCommitResponse)
	if err == nil && !ok {
		err = wrongAnswer(node, protocol.KeyOffsetCommit, resp)
	}
	switch {
	case co.ctx.Err() != nil:
		return nil, ErrClosed
	case err != nil && !refusesGroup(err):
		co.call(group.CoordinatorLost{Node: node, Err: err})
	}
	if err != nil {
		return nil, fmt.Errorf("OffsetCommit: %w", err)
	}
	results := make(map[TopicPartition]error, len(offsets))
	for tp := range offsets {
		results[tp] = fmt.Errorf("broker %d left the partition out of its answer: %w", node, protocol.UnknownServerError)
	}
	var worst error
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			tp := TopicPartition{Topic: t.Topic, Partition: p.Partition}
			if _, asked := offsets[tp]; asked {
				results[tp] = co.commitResult(answerError(node, "OffsetCommit", p.ErrorCode, nil))
				worst = firstError(results[tp], worst)
			}
		}
	}
	co.reactToCommit(node, memberID, generation, worst)
	return results, nil
}

func (co *coordinator) commitRequest(memberID string, generation int32, offsets map[TopicPartition]OffsetAndMetadata) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = co.cfg.GroupID, memberID, generation
	if memberID != "" {
		req.InstanceID = co.instanceID()
	}
	tps := slices.Collect(maps.Keys(offsets))
	sortPartitions(tps)
	for i := 0; i < len(tps); {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = tps[i].Topic
		for ; i < len(tps) && tps[i].Topic == t.Topic; i++ {
			o := offsets[tps[i]]
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.Metadata = tps[i].Partition, o.Offset, &o.Metadata
			p.LeaderEpoch, _ = o.LeaderEpoch()
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// commitResult gives the errors that tell about the membership their own type.
func (co *coordinator) commitResult(err error) error {
	reason := ""
	switch code, _ := answeredCode(err); code {
	case protocol.UnknownMemberID, protocol.IllegalGeneration, protocol.StaleMemberEpoch, protocol.FencedMemberEpoch:
		reason = "the group went on without this consumer, others may own its partitions"
		if !co.now.Load().subscribed {
			reason = "the group has members that subscribe, so it takes commits from them only"
		}
	case protocol.RebalanceInProgress:
		reason = "the group rebalances, and this consumer has yet to join again"
	case protocol.FencedInstanceID:
		reason = "another consumer with the same GroupInstanceID took this one's place"
	default:
		return err
	}
	return &CommitFailedError{Reason: reason, Err: err}
}

func answeredCode(err error) (code ErrorCode, ok bool) {
	ok = errors.As(err, &code)
	return code, ok
}

// reactToCommit tells the machine what an answer means for it.
func (co *coordinator) reactToCommit(node int32, memberID string, generation int32, err error) {
	var fenced *CommitFailedError
	switch code, _ := answeredCode(err); {
	case code == protocol.NotCoordinator, code == protocol.CoordinatorNotAvailable, code == protocol.RequestTimedOut:
		co.call(group.CoordinatorLost{Node: node, Err: err})
	case errors.As(err, &fenced) && generation >= 0:
		co.call(group.CommitRefused{MemberID: memberID, Generation: generation, Err: err})
	case co.doubted.Load():
		co.post(message{event: group.CoordinatorWorks{}})
	}
}

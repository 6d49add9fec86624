package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitMax is the newest version of OffsetCommit that we speak.
const commitMax = 10

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
		if len(due) > 0 && lookup.known && co.revise(lookup.node) == nil {
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
		close(c.ended)
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

// sendCommits sends what is due in one request and takes the answer in.
func (co *coordinator) sendCommits(node int32, due []*commitCall) {
	now := co.now.Load()
	for _, c := range due {
		co.renew(c, now)
	}
	md := co.cl.Metadata()
	for _, c := range co.commits.all() {
		co.leaveOutRecreated(c, md)
	}
	what, before := co.commits.newest(due)
	offsets := what.offsets
	var a commitAnswer
	if len(offsets) > 0 {
		co.sent.note(what)
		co.noteKept()
		a = co.sendCommit(node, now, what)
		co.sent.answered(what, a)
	}
	for _, c := range co.commits.all() {
		isDue := slices.Contains(due, c)
		co.commits.takeAnswer(co, c, offsets, a)
		switch {
		case len(c.offsets) == 0 && (isDue || c.failures > 0):
			co.commits.finish(c, c.result())
		case isDue:
			c.failures++
			c.notBefore = time.Now().Add(co.backoff(c.failures))
		}
	}
	co.commits.takeBack(before, a)
	co.commits.forgetSent()
}

// renew takes a commit over into the present generation: of partitions that this
// member has owned all the time, as cooperative ones do. The rest is void: others may
// have owned it meanwhile.
func (co *coordinator) renew(c *commitCall, now *membership) {
	memberID, generation := now.committer()
	if c.memberID == memberID && c.generation == generation {
		return
	}
	void := &CommitFailedError{Reason: "the group rebalanced before the commit could be sent", Err: ErrNotAssigned}
	same := c.memberID == memberID && c.generation >= 0 && generation >= 0
	for tp := range c.offsets {
		if taking, owns := now.owned[tp]; !same || !owns || taking != c.owned[tp] {
			c.failed[tp] = void
			delete(c.offsets, tp)
		}
	}
	if len(c.offsets) == 0 {
		c.refused = co.groupError("", void)
		maps.DeleteFunc(c.failed, func(_ TopicPartition, err error) bool { return err == error(void) })
	}
	c.generation = generation
}

// newest returns what to send: of each partition the offset of its last call, unless
// a still later one was sent before (decision 5); and which calls those before are.
func (q *commitQueue) newest(due []*commitCall) (what commitment, before map[TopicPartition]uint64) {
	what = commitment{offsets: map[TopicPartition]OffsetAndMetadata{}, topics: map[TopicPartition][16]byte{}}
	before = map[TopicPartition]uint64{}
	for _, c := range due {
		for tp, o := range c.offsets {
			last := q.sent[tp]
			if last > c.id {
				continue
			}
			if _, has := what.offsets[tp]; !has {
				before[tp] = last
			}
			q.sent[tp] = c.id
			what.offsets[tp], what.topics[tp] = o, c.topics[tp]
		}
	}
	return what, before
}

// takeBack forgets that calls were sent whose topic the coordinator did not know by its
// id, as one that has just started may not yet: an earlier call that is still tried must
// not be left out for their sake.
func (q *commitQueue) takeBack(before map[TopicPartition]uint64, a commitAnswer) {
	for tp, last := range before {
		if code, _ := answeredCode(a.of(tp)); code == protocol.UnknownTopicID {
			q.sent[tp] = last
		}
	}
}

// isNotStored reports answers by which a coordinator says that it wrote nothing. Others
// may come when it wrote and did not hear in time that followers have it.
func isNotStored(err error) bool {
	if isUnsupported(err) {
		return true
	}
	switch code, _ := answeredCode(err); code {
	case protocol.UnknownTopicID, protocol.UnknownTopicOrPartition, protocol.TopicAuthorizationFailed,
		protocol.GroupAuthorizationFailed, protocol.OffsetMetadataTooLarge, protocol.InvalidCommitOffsetSize,
		protocol.CoordinatorLoadInProgress, protocol.InvalidGroupID, protocol.RebalanceInProgress,
		protocol.UnknownMemberID, protocol.IllegalGeneration, protocol.FencedInstanceID,
		protocol.StaleMemberEpoch, protocol.FencedMemberEpoch:
		return true
	}
	return false
}

// forgetSent forgets which commits were sent when none is left that could be sent
// after them.
func (q *commitQueue) forgetSent() {
	if q.empty() {
		clear(q.sent)
	}
}

// takeAnswer takes in what became of a call's partitions: of those that went out for
// it, and of those that a later call took over.
func (q *commitQueue) takeAnswer(co *coordinator, c *commitCall, offsets map[TopicPartition]OffsetAndMetadata, a commitAnswer) {
	var again error
	for tp := range c.offsets {
		_, asked := offsets[tp]
		err := a.of(tp)
		if asked {
			c.noteUnknown(tp, err)
		}
		switch {
		case q.sent[tp] < c.id:
			continue // it came in after the request went out
		case !asked && q.waits(tp, q.sent[tp]):
			continue
		case !asked:
			err = fmt.Errorf("a later commit of the partition failed: %w", firstError(q.causeOf(c), errNotAnswered))
			c.failed[tp] = co.groupError("", err)
		case err != nil && co.isWorthAnotherTry(c, tp, err):
			again = err
			continue
		case err != nil && isAboutGroup(err):
			c.refused = co.groupError("", err)
		case err != nil:
			c.failed[tp] = co.groupError("", nameUnknown(err))
		}
		delete(c.offsets, tp)
	}
	if again != nil {
		q.mu.Lock()
		c.cause = again
		q.mu.Unlock()
	}
}

var errNotAnswered = errors.New("it was given up")

// waits reports whether a call that has a partition still to be committed is there.
func (q *commitQueue) waits(tp TopicPartition, id uint64) bool {
	return slices.ContainsFunc(q.all(), func(c *commitCall) bool {
		_, has := c.offsets[tp]
		return c.id == id && has
	})
}

func (q *commitQueue) all() []*commitCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.calls)
}

// An overtakenError says that a commit came to the coordinator in the midst of a round
// which this member takes part in and keeps its partitions over: it can be sent again
// in the generation that comes of it.
type overtakenError struct{ err error }

func (e *overtakenError) Error() string {
	return "the group rebalanced while the commit was on its way: " + e.err.Error()
}

func (e *overtakenError) Unwrap() error { return e.err }

func isOvertaken(err error) bool {
	var overtaken *overtakenError
	return errors.As(err, &overtaken)
}

// isWorthAnotherTry: an async commit is tried again only where that makes it right.
func (co *coordinator) isWorthAnotherTry(call *commitCall, tp TopicPartition, err error) bool {
	code, _ := answeredCode(err)
	switch {
	case isOvertaken(err):
		return call.mayWait()
	case code == protocol.UnknownTopicID: // metadata will tell whether the topic was created again
		return call.mayWait() && !co.isGone(call, tp, err)
	default:
		return call.retries && !isFinalCommit(err) && !co.isGone(call, tp, err)
	}
}

// goneAfter is how many answers in a row must say that a topic does not exist: a
// broker that has just started may not know it yet.
const goneAfter = 3

// goneFor is how long they must have said so when nothing is about to end. Metadata is
// confirmed by answers so far apart too.
const goneFor = time.Second

// unknownAnswers counts the answers that a partition does not exist.
type unknownAnswers struct {
	count int
	since time.Time
}

// noteUnknown takes in an answer about one partition.
func (call *commitCall) noteUnknown(tp TopicPartition, err error) {
	if !saysUnknown(err) {
		return
	}
	if call.unknown == nil {
		call.unknown = map[TopicPartition]unknownAnswers{}
	}
	u := call.unknown[tp]
	if u.count == 0 {
		u.since = time.Now()
	}
	u.count++
	call.unknown[tp] = u
}

// saysUnknown reports answers that a topic, by its name or id, does not exist.
func saysUnknown(err error) bool {
	code, _ := answeredCode(err)
	return code == protocol.UnknownTopicOrPartition || code == protocol.UnknownTopicID
}

// isGone reports that a commit is not worth another try since its partition does not
// exist: the coordinator said so again and again, and metadata, which is asked for
// anew, agrees. Metadata of a topic that nothing is read from is not kept; the
// coordinator's word is enough there, as it is when a rebalance or Close waits.
func (co *coordinator) isGone(call *commitCall, tp TopicPartition, err error) bool {
	if !saysUnknown(err) {
		return false
	}
	u := call.unknown[tp]
	if call.last {
		return call.failures+1 >= goneAfter
	}
	co.cl.Refresh()
	return u.count >= goneAfter && time.Since(u.since) >= goneFor && !exists(co.cl.Metadata(), tp)
}

// exists reports that a partition is in the metadata, and its topic is not confirmed to
// be gone.
func exists(md *cluster.Metadata, tp TopicPartition) bool {
	t := md.Topic(tp.Topic)
	if t == nil {
		return false
	}
	if t.Err == protocol.UnknownTopicOrPartition {
		return !t.UnknownConfirmed()
	}
	return t.Err != protocol.None || int(tp.Partition) < len(t.Partitions)
}

// mayWait: a sync commit waits as long as its caller, an async one for a while.
func (call *commitCall) mayWait() bool {
	return call.retries || time.Now().Before(call.deadline)
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

// commitAnswer is what became of a request: of each partition, or of all of it.
type commitAnswer struct {
	whole error
	each  map[TopicPartition]error
}

func (a commitAnswer) of(tp TopicPartition) error { return firstError(a.whole, a.each[tp]) }

// sendCommit sends one OffsetCommit.
func (co *coordinator) sendCommit(node int32, as *membership, what commitment) commitAnswer {
	memberID, generation := as.committer()
	ctx, cancel := context.WithTimeout(co.ctx, co.cfg.RequestTimeout+co.cfg.SocketConnectionSetupTimeout)
	defer cancel()
	ctx, stop := co.whileCoordinator(ctx, node)
	defer stop()
	req := co.commitRequest(memberID, generation, what)
	lowest, highest := co.commitVersions()
	names, whole := namesOf(req)
	if !whole {
		highest = min(highest, commitByName)
	}
	began := time.Now()
	resp, err := co.cl.Do(ctx, node, conn.Control, conn.Limit(req, lowest, highest))
	noteTime(co.metrics.Committed, began, err)
	r, ok := resp.(*kmsg.OffsetCommitResponse)
	if err == nil && !ok {
		err = wrongAnswer(node, protocol.KeyOffsetCommit, resp)
	}
	switch {
	case co.ctx.Err() != nil:
		return commitAnswer{whole: ErrClosed}
	case err != nil && !refusesGroup(err):
		co.call(group.CoordinatorLost{Node: node, Err: err})
	}
	if err != nil {
		return commitAnswer{whole: fmt.Errorf("OffsetCommit: %w", co.explainCommit(node, err))}
	}
	a, worst := co.readCommit(node, as, what, names, r)
	co.reactToCommit(node, memberID, generation, worst)
	return a
}

// readCommit returns what became of each partition, and an error of one of them.
func (co *coordinator) readCommit(node int32, as *membership, what commitment, names topicNames, r *kmsg.OffsetCommitResponse) (a commitAnswer, worst error) {
	a.each = make(map[TopicPartition]error, len(what.offsets))
	for tp := range what.offsets {
		a.each[tp] = fmt.Errorf("broker %d left the partition out of its answer: %w", node, protocol.UnknownServerError)
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			tp := TopicPartition{Topic: names.of(t.Topic, t.TopicID), Partition: p.Partition}
			if _, asked := what.offsets[tp]; asked {
				a.each[tp] = co.commitResult(as, answerError(node, "OffsetCommit", p.ErrorCode, nil))
				worst = firstError(a.each[tp], worst)
			}
			if ErrorCode(p.ErrorCode) == protocol.UnknownTopicID {
				co.cl.Refresh()
			}
		}
	}
	return a, worst
}

// commitVersions are the versions of OffsetCommit that will do.
func (co *coordinator) commitVersions() (lowest, highest int16) {
	if co.cfg.GroupInstanceID != "" {
		return 7, commitMax
	}
	return co.offsetStore().versions(commitMax)
}

func (co *coordinator) commitRequest(memberID string, generation int32, what commitment) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = co.cfg.GroupID, memberID, generation
	if memberID != "" {
		req.InstanceID = co.instanceID()
	}
	tps := slices.Collect(maps.Keys(what.offsets))
	sortPartitions(tps)
	for _, tp := range tps {
		o := what.offsets[tp]
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = tp.Partition, o.Offset, &o.Metadata
		p.LeaderEpoch, _ = o.LeaderEpoch()
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != tp.Topic || req.Topics[n-1].TopicID != what.topics[tp] {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = tp.Topic, what.topics[tp]
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// commitResult gives the errors that tell about the membership their own type.
func (co *coordinator) commitResult(as *membership, err error) error {
	reason := ""
	code, _ := answeredCode(err)
	if (code == protocol.IllegalGeneration || code == protocol.RebalanceInProgress) && co.overtaken(as) {
		return &overtakenError{err}
	}
	switch code {
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

// overtaken reports whether this member's own round was running when a commit was
// sent, or has led on since.
func (co *coordinator) overtaken(as *membership) bool {
	now := co.now.Load()
	return as.generation >= 0 && now.generation >= 0 && now.memberID == as.memberID &&
		(as.inRound() || now.inRound() || now.generation != as.generation)
}

func (now *membership) inRound() bool {
	return now.state == group.Joining || now.state == group.Syncing
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

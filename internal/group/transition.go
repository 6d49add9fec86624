package group

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

func (m *Classic) becomeUnjoined() {
	m.state = Unjoined
	if m.WantsPoll() {
		m.do(Wake{})
	}
}

func (m *Classic) becomeRevoking() {
	revoked := m.handover.owned
	if m.cfg.Cooperative {
		revoked = m.foreign(revoked)
	}
	if len(revoked) == 0 {
		m.becomeJoining()
		return
	}
	m.state = Revoking
	m.hand(Revoke, revoked, nil)
}

func (m *Classic) becomeJoining() {
	m.state = Joining
	m.stopHeartbeats()
	m.tryJoin()
}

// tryJoin sends JoinGroup as soon as nothing stands in the way: what does calls it
// again.
func (m *Classic) tryJoin() {
	if m.request != 0 || m.backoff || !m.needCoordinator() {
		return
	}
	if m.rejoin != "" {
		m.reason, m.rejoin = m.rejoin, ""
	}
	m.request, m.requestNode = m.nextSeq(), m.lookup.node
	join := SendJoin{
		Seq: m.request, MemberID: m.member, Topics: m.topics,
		Owned: slices.Clone(m.handover.kept()), Generation: m.claim.generation, Reason: m.reason,
	}
	m.claimed, m.awaited = join.Owned, false
	m.do(join)
	m.do(Arm{Timer: ProbeTimer, After: m.answerTimeout()})
}

func (m *Classic) becomeSyncing(a JoinAnswered) {
	m.state = Syncing
	m.member, m.generation, m.protocol, m.leader = a.MemberID, a.Generation, a.Protocol, a.Leader
	m.lookup.works()
	m.crowd.joined(a)
	m.startHeartbeats()
	if len(m.handover.kept()) > 0 && !m.claim.honoured(a.Generation) {
		m.do(Fenced{MemberID: m.member, Err: errMissed})
		m.lose()
	}
	if m.cfg.Cooperative {
		// An eager member has nothing to claim, and a static one that comes back with
		// the very same subscription causes no rebalance.
		m.claim.join(a.Generation, m.requestNode)
	}
	if !a.Leader {
		m.sendSync(nil)
		return
	}
	m.request = m.nextSeq()
	m.do(RunAssignor{
		Seq: m.request, Generation: m.generation, Protocol: m.protocol, Members: a.Members, WatchOnly: a.SkipAssignment,
	})
}

func (m *Classic) sendSync(assignments []MemberAssignment) {
	m.request, m.requestNode = m.nextSeq(), m.lookup.node
	m.do(SendSync{
		Seq: m.request, MemberID: m.member, Generation: m.generation,
		Protocol: m.protocol, Assignments: assignments,
	})
}

// becomeReleasing takes the assignment in.
func (m *Classic) becomeReleasing(a SyncAnswered) {
	m.state = Releasing
	m.failures, m.reason = 0, ""
	m.synced, m.target = m.seq, slices.Clone(a.Assignment)
	m.claim.sync()
	m.crowd.own = len(a.Assignment)
	m.recovered()
	m.beatEarly()
	if len(without(m.claimed, m.target)) > 0 {
		// Also when that was lost since: nobody has it before a round without the claim.
		m.rejoin = "partitions were given up that others wait for"
	}
	m.release()
}

func (m *Classic) becomeAssigning() {
	m.state = Assigning
	added := without(m.target, m.handover.owned)
	m.hand(Assign, added, m.target)
	m.target = nil
}

func (m *Classic) becomeStable() {
	m.state = Stable
	if m.rejoin != "" {
		m.do(Wake{})
	}
}

// becomeFailed: no new try can help.
func (m *Classic) becomeFailed(err error) {
	if code, _ := codeOf(err); code == protocol.FencedInstanceID {
		m.do(Fenced{MemberID: m.member, Err: err})
	}
	m.forget(false)
	m.lose()
	m.state, m.told = Failed, true
	m.do(Fail{Err: err, Terminal: true})
}

func (m *Classic) recovered() {
	if m.told || m.lookup.told {
		m.told, m.lookup.told = false, false
		m.do(Recovered{})
	}
}

// leave gives the subscription up. The application has already revoked what it
// owned, so nothing is handed to it.
func (m *Classic) leave(reason string) {
	if m.state == Leaving {
		return
	}
	m.topics, m.subscribed, m.rejoin, m.leaveReason = nil, false, "", reason
	m.cancelRequest()
	m.stopHeartbeats()
	m.dropSteps()
	m.target = nil
	m.recovered()
	m.failures = 0
	if m.cfg.InstanceID != "" || m.member == "" {
		m.becomeLeft(nil)
		return
	}
	m.state = Leaving
	m.tryLeave()
}

func (m *Classic) tryLeave() {
	if m.request == 0 && m.needCoordinator() {
		m.sendLeave(m.leaveReason)
	}
}

func (m *Classic) sendLeave(reason string) {
	m.request = m.nextSeq()
	m.do(SendLeave{Seq: m.request, MemberID: m.member, Reason: reason})
}

func (m *Classic) becomeLeft(err error) {
	m.forget(m.cfg.InstanceID != "")
	m.do(Left{Err: err})
	m.becomeUnjoined()
}

// expire leaves the group as the application does not poll (KIP-62). Without
// heartbeats a static member's place is kept until the session ends (KIP-345).
func (m *Classic) expire() {
	m.do(Expired{})
	m.rejoin = "the application polls again"
	if m.cfg.InstanceID == "" && m.lookup.state == found {
		m.cancelRequest()
		m.sendLeave("the application did not poll within max.poll.interval.ms")
		m.request = 0
	}
	m.forget(m.cfg.InstanceID != "")
	m.lose()
	m.becomeUnjoined()
}

// refuse stops joining for a while because of an error that may heal by itself or
// by an administrator's doing.
func (m *Classic) refuse(err error) {
	m.forget(true)
	m.lose()
	m.told = true
	m.do(Fail{Err: err})
	m.retryAfter(max(m.cfg.RetryBackoffMax, time.Millisecond))
	m.becomeUnjoined()
}

// forget ends the membership in this generation.
func (m *Classic) forget(keepMember bool) {
	m.cancelRequest()
	m.stopHeartbeats()
	m.generation, m.protocol, m.leader, m.awaited = -1, "", false, false
	m.claim, m.target = noClaim, nil
	if !keepMember {
		m.member = ""
	}
}

func (m *Classic) cancelRequest() {
	if m.request != 0 {
		m.do(Cancel{Seq: m.request})
		m.request = 0
		m.stopProbe()
	}
	if m.backoff {
		m.backoff = false
		m.do(Disarm{Timer: RetryTimer})
	}
}

func (m *Classic) joinAnswered(a JoinAnswered) {
	m.stopProbe()
	switch {
	case a.Err != nil:
		m.joinFailed(a)
	case a.MemberID == "" || a.Generation < 0:
		m.refuse(fmt.Errorf("the coordinator answered JoinGroup with member %q, generation %d", a.MemberID, a.Generation))
	case !slices.Contains(m.cfg.Protocols, a.Protocol):
		m.becomeFailed(fmt.Errorf("the coordinator chose the assignor %q, which this consumer did not offer: %w",
			a.Protocol, protocol.InconsistentGroupProtocol))
	default:
		m.becomeSyncing(a)
	}
}

func (m *Classic) joinFailed(a JoinAnswered) {
	code, _ := codeOf(a.Err)
	if code == protocol.MemberIDRequired && a.MemberID != "" && len(m.handover.kept()) == 0 {
		m.member = a.MemberID // KIP-394
		m.lookup.works()
		m.retryJoin(a.Err)
		return
	}
	m.roundFailed(a.Err)
}

func (m *Classic) syncAnswered(a SyncAnswered) {
	switch {
	case a.Err != nil:
		m.becomeJoiningAgain()
		m.roundFailed(a.Err)
	case len(m.foreign(a.Assignment)) == 0:
		m.lookup.works()
		m.becomeReleasing(a)
	default:
		m.claim.sync()
		m.becomeJoiningAgain()
		m.rejoin = errForeign.Error()
		m.retryJoin(errForeign)
	}
}

// becomeJoiningAgain begins the round anew without asking the application, which
// owns nothing or keeps what it owns.
func (m *Classic) becomeJoiningAgain() {
	m.state = Joining
	m.stopHeartbeats()
}

// foreign returns the partitions whose topics are not subscribed to.
func (m *Classic) foreign(tps []TopicPartition) []TopicPartition {
	return slices.DeleteFunc(slices.Clone(tps), func(tp TopicPartition) bool {
		_, ok := slices.BinarySearch(m.topics, tp.Topic)
		return ok
	})
}

// roundFailed decides what a failed JoinGroup or SyncGroup means. The state is
// Joining.
func (m *Classic) roundFailed(err error) {
	code, answered := codeOf(err)
	switch {
	case !answered && isFinal(err):
		m.becomeFailed(err)
	case !answered && isLocal(err):
		m.refuse(err)
	case !answered, isNotCoordinator(code):
		if m.requestNode == m.lookup.node {
			m.coordinatorLost(err)
		}
		m.tryJoin()
	case len(m.handover.kept()) > 0 && (code == protocol.UnknownMemberID || code == protocol.MemberIDRequired):
		m.fenced(err, protocol.UnknownMemberID)
	case len(m.handover.kept()) > 0 && code == protocol.IllegalGeneration:
		m.fenced(err, code)
	case code == protocol.UnknownMemberID:
		m.member, m.generation = "", -1
		m.retryJoin(err)
	case code == protocol.IllegalGeneration:
		m.generation = -1
		m.retryJoin(err)
	case code == protocol.RebalanceInProgress:
		m.retryJoin(err)
	case code == protocol.CoordinatorLoadInProgress:
		m.failures++
		m.retryJoin(err)
	case isTerminal(code):
		m.becomeFailed(err)
	default:
		m.refuse(err)
	}
}

// retryJoin joins again: the first time at once, then after a time that grows.
func (m *Classic) retryJoin(err error) {
	m.failures++
	if m.failures == 1 {
		m.tryJoin()
		return
	}
	m.told = true
	m.do(Retrying{Operation: "JoinGroup", Err: err})
	m.retryAfter(m.backoffAfter(m.failures - 1))
}

func (m *Classic) retryAfter(d time.Duration) {
	m.backoff = true
	m.do(Arm{Timer: RetryTimer, After: d, Vary: true})
}

// backoffAfter is the wait after the nth failure in a row (KIP-580).
func (m *Classic) backoffAfter(n int) time.Duration {
	limit := max(m.cfg.RetryBackoffMax, time.Millisecond)
	d := min(max(m.cfg.RetryBackoff, time.Millisecond), limit)
	for ; n > 1 && d < limit; n-- {
		d *= 2
	}
	return min(d, limit)
}

var errForeign = errors.New("the assignment has topics that this member does not subscribe to")

func codeOf(err error) (code protocol.ErrorCode, ok bool) {
	ok = errors.As(err, &code)
	return code, ok
}

func isNotCoordinator(code protocol.ErrorCode) bool {
	return code == protocol.NotCoordinator || code == protocol.CoordinatorNotAvailable
}

// isTerminal reports codes that the same configuration will always get.
func isTerminal(code protocol.ErrorCode) bool {
	switch code {
	case protocol.FencedInstanceID, protocol.InconsistentGroupProtocol, protocol.InvalidSessionTimeout,
		protocol.InvalidGroupID, protocol.UnsupportedVersion:
		return true
	}
	return false
}

// isFinal reports errors from before anything was sent.
func isFinal(err error) bool {
	var unsupported *protocol.UnsupportedVersionError
	return errors.As(err, &unsupported)
}

// isLocal reports errors that have nothing to do with reaching the coordinator.
func isLocal(err error) bool {
	var blob *BlobError
	return errors.As(err, &blob)
}

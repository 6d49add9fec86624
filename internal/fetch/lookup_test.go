package fetch

import (
	"errors"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// unlocated is a rig whose partition 0 has no position yet.
func unlocated(t *testing.T, byGroup bool, policy Policy) *rig {
	r := newRig(t, func(l *Limits) { l.Policy = func() Policy { return policy } })
	r.table.Assign([]protocol.TopicPartition{tpOf(0)}, byGroup)
	r.table.Release(tpOf(0))
	r.lead(1, 5, tpOf(0))
	return r
}

// committed takes the one look-up for a committed offset.
func (r *rig) committed() Lookup {
	r.t.Helper()
	lookups, _ := r.table.WantCommitted(r.now)
	require.Len(r.t, lookups, 1)
	return lookups[0]
}

// reset takes the one look-up by time.
func (r *rig) reset() Lookup {
	r.t.Helper()
	lookups, _ := r.table.WantResets(r.now)
	require.Len(r.t, lookups, 1)
	return lookups[0]
}

func TestCommittedOffsetIsThePosition(t *testing.T) {
	r := unlocated(t, true, TimeEarliest)
	r.idle(1)
	r.table.CommittedFound(r.committed(), 40, 3)
	s := r.plan(1, newest)
	require.Equal(t, map[int32]int64{0: 40}, asked(&s.Request))
	require.EqualValues(t, 3, s.Wire.Topics[0].Partitions[0].LastFetchedEpoch)
	require.Empty(t, r.table.Done(), "it is committed already")
	require.Empty(t, r.table.TakeReports())
}

func TestNoCommittedOffsetFollowsThePolicy(t *testing.T) {
	for _, policy := range []Policy{TimeEarliest, TimeLatest, 12345} {
		r := unlocated(t, true, policy)
		r.table.CommittedNone(r.committed(), false)
		l := r.reset()
		require.Equal(t, policy, l.Timestamp)
		r.table.ResetFound(l, 7, 5)
		require.EqualValues(t, 7, r.position(0))
		reports := reportsOf(r.table.TakeReports(), ReportReset)
		require.Len(t, reports, 1)
		require.EqualValues(t, -1, reports[0].From)
		require.EqualValues(t, 7, r.table.Done()[tpOf(0)].Offset, "a position set by a reset is committed too")
	}
	r := unlocated(t, true, PolicyNone)
	r.table.CommittedNone(r.committed(), false)
	missing, ok := errors.AsType[*NoPositionError](r.fault())
	require.True(t, ok)
	require.False(t, missing.OutOfRange)
}

func TestFailedLookUpIsTriedAgainAndNeverTakenForNone(t *testing.T) {
	r := unlocated(t, true, TimeLatest)
	r.table.LookupsFailed([]FailedLookup{{r.committed(), protocol.CoordinatorNotAvailable}}, r.now)
	lookups, retry := r.table.WantCommitted(r.now)
	require.Empty(t, lookups)
	require.Equal(t, r.now.Add(100*time.Millisecond), retry)
	require.ErrorIs(t, r.table.Waiting(r.p(0)), protocol.CoordinatorNotAvailable)
	r.now = retry
	r.table.LookupRefused(r.committed(), protocol.GroupAuthorizationFailed, r.now)
	require.Len(t, reportsOf(r.table.TakeReports(), ReportError), 1)
	lookups, _ = r.table.WantResets(r.now)
	require.Empty(t, lookups)
	_, r.now = r.table.WantCommitted(r.now)
	r.table.CommittedFound(r.committed(), 3, -1)
	require.EqualValues(t, 3, r.position(0))
}

// Backoffs vary, but partitions that failed together are asked for together.
func TestLookUpsThatFailTogetherAreTriedAgainTogether(t *testing.T) {
	varying := time.Duration(0)
	r := newRig(t, func(l *Limits) {
		l.Backoff = func(int) time.Duration { varying += time.Millisecond; return varying }
	})
	r.table.Assign([]protocol.TopicPartition{tpOf(0), tpOf(1), tpOf(2)}, true)
	lookups, _ := r.table.WantCommitted(r.now)
	require.Len(t, lookups, 3)
	var failed []FailedLookup
	for _, l := range lookups {
		failed = append(failed, FailedLookup{l, protocol.CoordinatorNotAvailable})
	}
	r.table.LookupsFailed(failed, r.now)
	_, retry := r.table.WantCommitted(r.now)
	again, _ := r.table.WantCommitted(retry)
	require.Len(t, again, 3)
}

func TestDurationWithNothingThatYoungStartsAtTheEnd(t *testing.T) {
	r := unlocated(t, false, 5000)
	l := r.reset()
	require.EqualValues(t, 5000, l.Timestamp)
	r.table.ResetFound(l, -1, -1)
	l = r.reset()
	require.Equal(t, TimeLatest, l.Timestamp)
	r.table.ResetFound(l, 90, 5)
	require.EqualValues(t, 90, r.position(0))
}

func TestPartitionThatAppearedStartsAtItsBeginning(t *testing.T) {
	r := unlocated(t, true, TimeLatest)
	r.table.CommittedNone(r.committed(), true)
	l := r.reset()
	require.Equal(t, TimeEarliest, l.Timestamp)
	r.table.ResetFound(l, 0, 0)
	require.EqualValues(t, 0, r.position(0))
}

func TestPartitionThatAppearedWithALogThatBeginsLaterFollowsThePolicy(t *testing.T) {
	r := unlocated(t, true, TimeLatest)
	r.table.CommittedNone(r.committed(), true)
	r.table.ResetFound(r.reset(), 50, 0)
	l := r.reset()
	require.Equal(t, TimeLatest, l.Timestamp, "it may be older than the subscription")
	r.table.ResetFound(l, 80, 0)
	require.EqualValues(t, 80, r.position(0))
}

func TestPartitionThatComesBackStartsWhereItDidFirst(t *testing.T) {
	r := unlocated(t, true, TimeLatest)
	again := func(id [16]byte) {
		r.table.Assign(nil, true)
		r.table.Assign([]protocol.TopicPartition{tpOf(0)}, true)
		r.table.UpdateLeaders(func(protocol.TopicPartition) Leader {
			return Leader{Known: true, Broker: 1, Epoch: 5, TopicID: id}
		})
		r.table.CommittedNone(r.committed(), false)
	}
	r.table.CommittedNone(r.committed(), false)
	r.table.ResetFound(r.reset(), 30, 5)
	again(idOf("t"))
	require.EqualValues(t, 30, r.position(0), "not by the policy: what came since would be lost")
	again([16]byte{9})
	require.Equal(t, TimeLatest, r.reset().Timestamp, "another topic of that name")
	again(idOf("t"))
	r.table.ForgetStarts()
	again(idOf("t"))
	require.Equal(t, TimeLatest, r.reset().Timestamp)
}

func TestSeekVoidsLookUps(t *testing.T) {
	r := unlocated(t, true, TimeLatest)
	l := r.committed()
	r.table.Seek(r.p(0), 5, -1)
	r.table.CommittedFound(l, 40, -1)
	r.table.CommittedNone(l, false)
	r.table.LookupRefused(l, protocol.GroupAuthorizationFailed, r.now)
	require.EqualValues(t, 5, r.position(0))
	require.Empty(t, r.table.TakeReports())

	r.table.SeekByTime(r.p(0), 777)
	l = r.reset()
	require.EqualValues(t, 777, l.Timestamp)
	r.table.SeekByTime(r.p(0), TimeEarliest)
	r.table.ResetFound(l, 99, -1)
	r.table.ResetFound(r.reset(), 2, -1)
	require.EqualValues(t, 2, r.position(0))
	require.Empty(t, reportsOf(r.table.TakeReports(), ReportReset), "the application asked for it")
}

func TestRecreatedTopicWhoseLogBeginsLaterFollowsThePolicy(t *testing.T) {
	r := unlocated(t, false, TimeLatest)
	r.table.ResetFound(r.reset(), 30, 5)
	r.table.UpdateLeaders(func(protocol.TopicPartition) Leader {
		return Leader{Known: true, Broker: 1, Epoch: 0, TopicID: [16]byte{9}}
	})
	require.Empty(t, r.table.Positions(), "the old position is neither used nor committed")
	require.Empty(t, r.table.Done())
	r.table.ResetFound(r.reset(), 12, 0)
	require.Equal(t, TimeLatest, r.reset().Timestamp)
}

func TestOffsetsOfADeletedTopicAreNotCountedForTheNewOne(t *testing.T) {
	r := unlocated(t, false, TimeLatest)
	r.table.ResetFound(r.reset(), 30, 5)
	old := r.table.Positions()[tpOf(0)]
	require.Equal(t, r.p(0).topicID, old.TopicID)
	r.table.UpdateLeaders(func(protocol.TopicPartition) Leader {
		return Leader{Known: true, Broker: 1, Epoch: 0, TopicID: [16]byte{9}}
	})
	r.table.Seek(r.p(0), 30, -1)
	r.table.MarkCommitted(tpOf(0), 30, old.TopicID)
	require.Equal(t, Offset{30, -1, [16]byte{9}}, r.table.Done()[tpOf(0)])
	r.table.MarkCommitted(tpOf(0), 30, [16]byte{9})
	require.Empty(t, r.table.Done())
}

func TestLagIsToTheEndOfWhatMayBeRead(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	_, known := r.table.Lag(r.p(0))
	require.False(t, known)
	r.fetch(ans{hw: 100, records: v2(0, 10)})
	require.Len(t, r.drain(), 10)
	lag, _ := r.table.Lag(r.p(0))
	require.EqualValues(t, 90, lag)
	r.table.Seek(r.p(0), 50, -1)
	lag, _ = r.table.Lag(r.p(0))
	require.EqualValues(t, 50, lag)
	r.table.Seek(r.p(0), 500, -1)
	lag, _ = r.table.Lag(r.p(0))
	require.Zero(t, lag, "never negative")
}

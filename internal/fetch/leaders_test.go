package fetch

import (
	"fmt"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

func inEpoch(epoch int32) func(*batch.V2) { return func(b *batch.V2) { b.LeaderEpoch = epoch } }

func TestLeaderMoveTouchesThatPartitionAlone(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	r.fetch(ans{records: v2(0, 10)}, ans{partition: 1, records: v2(0, 10)})
	s := r.plan(1, newest)
	r.lead(2, 6, tpOf(0))
	require.Equal(t, []int32{1, 2}, r.table.NewBrokers())

	moved := r.plan(2, newest)
	require.Equal(t, map[int32]int64{0: 10}, asked(&moved.Request), "nothing read is dropped")
	require.EqualValues(t, 6, moved.Wire.Topics[0].Partitions[0].CurrentLeaderEpoch)
	r.answer(s, ans{records: v2(10, 5)}, ans{partition: 1, records: v2(10, 5)})
	r.answer(moved, ans{records: v2(10, 7, inEpoch(6))})
	require.ElementsMatch(t, append(names(0, 0, 16), names(1, 0, 14)...), r.drain(), "late answers of the old leader are void")
	next := r.plan(1, newest)
	require.Equal(t, map[int32]int64{1: 15}, asked(&next.Request))
	require.Equal(t, []int32{0}, forgotten(&next.Request))
}

func TestLeaderMoveKeepsWhatIsBeingDecoded(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.ReadCommitted = true })
	r.assign(1)
	aborted := batch.Producer{ID: 9}
	txn := func(base int64) []byte {
		return v2(base, 3, func(b *batch.V2) { b.Producer, b.Transactional = &aborted, true })
	}
	marker := batch.Marker(6, aborted, false)
	marker.LeaderEpoch = 5
	var records []byte
	for _, b := range [][]byte{txn(0), txn(3), marker.Bytes(), v2(7, 3)} {
		records = append(records, b...)
	}
	r.fetch(ans{records: records, aborted: []protocol.AbortedTxn{{ProducerID: 9, FirstOffset: 0}}})
	task, ok := r.table.NextDecode()
	require.True(t, ok)
	r.lead(2, 6, tpOf(0))
	task.Run()
	r.table.DecodeDone(&task)
	require.Equal(t, names(0, 7, 9), r.drain(), "the aborted records stay hidden")
	require.Equal(t, map[int32]int64{0: 10}, asked(&r.plan(2, newest).Request))
}

func TestNoLeaderIsAskedForNothing(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: v2(0, 10)})
	r.lead(-1, 6, tpOf(0))
	require.Nil(t, r.table.Session(1))
	r.lead(1, 7, tpOf(0))
	require.Equal(t, map[int32]int64{0: 10}, asked(&r.plan(1, newest).Request))
	require.Equal(t, names(0, 0, 9), r.drain())
}

func TestAnswersTellNewerLeaders(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{code: protocol.NotLeaderOrFollower, leader: &protocol.LeaderIDEpoch{ID: 2, Epoch: 6}})
	reports := reportsOf(r.table.TakeReports(), ReportLeader)
	require.Len(t, reports, 1)
	require.Equal(t, protocol.LeaderIDEpoch{ID: 2, Epoch: 6}, reports[0].Leader)
	r.now = r.now.Add(time.Second)
	r.fetch(ans{code: protocol.NotLeaderOrFollower, leader: &protocol.LeaderIDEpoch{ID: 2, Epoch: 5}})
	require.Empty(t, reportsOf(r.table.TakeReports(), ReportLeader), "of an epoch that is not newer")
}

func TestFollowerIsFetchedFromForItsLease(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.ReplicaLease = time.Minute })
	r.assign(2)
	r.fetch(ans{replica: 2}, ans{partition: 1})
	require.Equal(t, map[int32]int64{0: 0}, asked(&r.plan(2, newest).Request))
	follower := r.table.Session(2)
	require.EqualValues(t, -1, follower.Wire.Topics[0].Partitions[0].CurrentLeaderEpoch, "it may not know of it yet")
	r.answer(follower, ans{records: v2(0, 10)})
	r.now = r.now.Add(59 * time.Second)
	r.answer(r.plan(2, newest))
	r.now = r.now.Add(time.Second)
	require.False(t, r.table.Plan(r.table.Session(2), newest, r.now), "a follower that tells nothing does not keep it")
	require.Equal(t, map[int32]int64{0: 10}, asked(&r.plan(1, newest).Request))
}

func TestFollowerThatFailsIsNotAskedInTurnsWithTheLeader(t *testing.T) {
	for name, fail := range map[string]func(r *rig){
		"out of range": func(r *rig) { r.answer(r.plan(2, newest), ans{code: protocol.OffsetOutOfRange}) },
		"an error":     func(r *rig) { r.answer(r.plan(2, newest), ans{code: protocol.ReplicaNotAvailable}) },
		"has less of the log": func(r *rig) {
			r.answer(r.plan(2, newest), ans{diverging: &protocol.EpochEndOffset{Epoch: 5, EndOffset: 0}})
		},
		"not reached": func(r *rig) {
			s := r.plan(2, newest)
			r.table.Discard(s)
			r.table.BrokerFailed(2, protocol.NetworkException, false, r.now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.assign(1)
			told := func(s *Session) bool { return s.Wire.Rack != "" }
			plan := func() *Session {
				s := r.table.Session(1)
				s.Wire.Rack = "here"
				return r.plan(1, newest)
			}
			for i := range 3 {
				s := plan()
				require.True(t, told(s))
				r.answer(s, ans{replica: 2})
				fail(r)
				for range 1 << i {
					s = plan()
					require.Equal(t, map[int32]int64{0: int64(r.p(0).fetchOffset)}, asked(&s.Request))
					require.False(t, told(s), "the leader has to serve it")
					r.answer(s, ans{records: v2(r.p(0).fetchOffset, 1)})
					r.decode()
					r.now = r.now.Add(time.Second)
				}
			}
			require.Equal(t, names(0, 0, 6), r.drain())
			require.Empty(t, reportsOf(r.table.TakeReports(), ReportReset))
		})
	}
}

// A new leader does not know at first how far its followers have come. Records that it sends
// may lie behind what it says is the end, so that headers are not relied on; with the epoch
// of those before they would seem to be gone from its log.
func TestRecordsBehindTheHighWatermarkHaveTheirEpoch(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: v2(0, 5)})
	r.lead(2, 6, tpOf(0))
	r.answer(r.plan(2, newest), ans{hw: 5, records: v2(5, 10, func(b *batch.V2) { b.LeaderEpoch = 6 })})
	require.Equal(t, names(0, 0, 14), r.drain())
	s := r.plan(2, newest)
	require.Equal(t, map[int32]int64{0: 15}, asked(&s.Request))
	require.EqualValues(t, 6, s.Wire.Topics[0].Partitions[0].LastFetchedEpoch)
}

func TestFollowerIsLeftWhenTheLeaderChanges(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{replica: 2})
	r.lead(3, 6, tpOf(0))
	require.Nil(t, r.table.Session(2))
	require.Equal(t, map[int32]int64{0: 0}, asked(&r.plan(3, newest).Request))
}

func TestDamageReadFromAFollowerIsFetchedFromTheLeader(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{replica: 2})
	r.answer(r.plan(2, newest), ans{records: v2(0, 3, func(b *batch.V2) { b.CRC = new(uint32) })})
	r.decode()
	require.Nil(t, r.table.Session(2))
	s := r.table.Session(1)
	s.Wire.Rack = "here"
	r.answer(r.plan(1, newest), ans{records: v2(0, 3)})
	require.Empty(t, s.Wire.Rack, "or it would name the follower again")
	require.Equal(t, names(0, 0, 2), r.drain())
	require.Empty(t, r.table.Faults())
}

func TestBrokerThatFailsIsTriedAgainLater(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	s := r.plan(1, newest)
	r.table.Discard(s)
	r.table.BrokerFailed(1, protocol.SaslAuthenticationFailed, true, r.now)
	require.Len(t, reportsOf(r.table.TakeReports(), ReportError), 1, "once, not for each partition")
	r.idle(1)
	_, retry := r.table.Hungry(s, r.now)
	require.Equal(t, r.now.Add(100*time.Millisecond), retry)
	r.lead(2, 6, tpOf(0))
	require.Equal(t, map[int32]int64{0: 0}, asked(&r.plan(2, newest).Request), "another broker need not wait")
}

func TestPositionIsCheckedWithTheNewLeader(t *testing.T) {
	for name, tc := range map[string]struct {
		end    protocol.EpochEndOffset
		policy Policy
		want   func(r *rig)
	}{
		"its log goes on": {protocol.EpochEndOffset{Epoch: 5, EndOffset: 10}, TimeEarliest, func(r *rig) {
			require.Equal(t, map[int32]int64{0: 10}, asked(&r.plan(2, 11).Request))
			require.Equal(t, names(0, 4, 9), r.drain())
		}},
		"its log ends in what is buffered": {protocol.EpochEndOffset{Epoch: 5, EndOffset: 7}, TimeEarliest, func(r *rig) {
			require.Empty(t, r.drain(), "records that are gone")
			require.Equal(t, map[int32]int64{0: 4}, asked(&r.plan(2, 11).Request))
			require.Empty(t, reportsOf(r.table.TakeReports(), ReportReset))
		}},
		"its log ends before the position": {protocol.EpochEndOffset{Epoch: 4, EndOffset: 2}, TimeLatest, func(r *rig) {
			require.Equal(t, map[int32]int64{0: 2}, asked(&r.plan(2, 11).Request))
			require.Equal(t, int64(2), reportsOf(r.table.TakeReports(), ReportReset)[0].To)
		}},
		"and there is no policy": {protocol.EpochEndOffset{Epoch: 4, EndOffset: 2}, PolicyNone, func(r *rig) {
			truncation := new(TruncationError)
			require.ErrorAs(t, r.fault(), &truncation)
			require.Equal(t, TruncationError{Offset: 4, Divergent: 2, Epoch: 4, Known: true}, *truncation)
			require.EqualValues(t, 4, r.position(0))
		}},
		"it knows nothing of the epoch": {protocol.EpochEndOffset{Epoch: -1, EndOffset: -1}, PolicyNone, func(r *rig) {
			truncation := new(TruncationError)
			require.ErrorAs(t, r.fault(), &truncation)
			require.False(t, truncation.Known)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(l *Limits) { l.Policy = func() Policy { return tc.policy } })
			r.assign(1)
			r.answer(r.plan(1, 11), ans{records: v2(0, 10)})
			r.decode()
			require.Equal(t, names(0, 0, 3), r.take(4))
			r.lead(2, 6, tpOf(0))
			require.False(t, r.table.Plan(r.table.Session(2), 11, r.now), "not before the leader was asked")
			lookups, _ := r.table.WantValidations(r.now)
			require.Len(t, lookups, 1)
			require.EqualValues(t, 5, lookups[0].Epoch)
			require.EqualValues(t, 6, lookups[0].Leader)
			r.table.Validated(lookups[0], tc.end, r.now)
			tc.want(r)
		})
	}
}

func TestCheckOfAPositionIsVoidAfterASeekOrAnotherLeader(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.answer(r.plan(1, 11), ans{records: v2(0, 10)})
	r.decode()
	r.lead(2, 6, tpOf(0))
	old, _ := r.table.WantValidations(r.now)
	r.lead(3, 7, tpOf(0))
	r.table.Validated(old[0], protocol.EpochEndOffset{Epoch: 4, EndOffset: 2}, r.now)
	require.Empty(t, r.table.TakeReports())
	newer, _ := r.table.WantValidations(r.now)
	require.Len(t, newer, 1)
	require.EqualValues(t, 7, newer[0].Leader)
	r.table.Seek(r.p(0), 3, -1)
	r.table.Validated(newer[0], protocol.EpochEndOffset{Epoch: 4, EndOffset: 2}, r.now)
	require.Equal(t, map[int32]int64{0: 3}, asked(&r.plan(3, 11).Request))
}

func TestPositionWithAnEpochIsChecked(t *testing.T) {
	for _, version := range []int16{8, 9, 11, 12} {
		r := newRig(t)
		r.assign(1)
		r.table.Seek(r.p(0), 10, 3)
		planned := r.table.Plan(r.table.Session(1), version, r.now)
		lookups, _ := r.table.WantValidations(r.now)
		require.Equal(t, version == 8 || version == 12, planned, "version %d", version)
		if !planned {
			require.Len(t, lookups, 1)
			require.EqualValues(t, 3, lookups[0].Epoch)
		}
	}
}

func TestCheckWaitsForWhatIsBeingDecoded(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.answer(r.plan(1, 11), ans{records: v2(0, 10)})
	r.lead(2, 6, tpOf(0))
	lookups, _ := r.table.WantValidations(r.now)
	require.Empty(t, lookups)
	r.table.TakeUnlocated()
	r.decode()
	require.True(t, r.table.TakeUnlocated(), "else nobody would look again")
	lookups, _ = r.table.WantValidations(r.now)
	require.Len(t, lookups, 1)
}

// Another member may have committed what it read of a leader that is not known here yet.
func TestALeaderOfAnOlderEpochThanThePositionIsNotBelievedAtOnce(t *testing.T) {
	for _, version := range []int16{11, newest} {
		t.Run(fmt.Sprintf("Fetch v%d", version), func(t *testing.T) {
			setUp := func() (r *rig, refuse func()) {
				r = newRig(t)
				r.table.Assign([]protocol.TopicPartition{tpOf(0)}, true)
				r.table.Release(tpOf(0))
				r.lead(1, 4, tpOf(0))
				lookups, _ := r.table.WantCommitted(r.now)
				r.table.CommittedFound(lookups[0], 1500, 5)
				return r, func() {
					if s := r.table.Session(1); r.table.Plan(s, version, r.now) {
						r.answer(s, ans{code: protocol.OffsetOutOfRange})
						return
					}
					lookups, _ := r.table.WantValidations(r.now)
					require.Len(t, lookups, 1)
					r.table.Validated(lookups[0], protocol.EpochEndOffset{Epoch: -1, EndOffset: -1}, r.now)
				}
			}
			r, refuse := setUp()
			refuse()
			require.Len(t, reportsOf(r.table.TakeReports(), ReportStaleMetadata), 1)
			require.EqualValues(t, 1500, r.position(0))
			r.lead(2, 5, tpOf(0))
			r.now = r.now.Add(time.Second)
			lookups, _ := r.table.WantValidations(r.now)
			for _, l := range lookups {
				r.table.Validated(l, protocol.EpochEndOffset{Epoch: 5, EndOffset: 1600}, r.now)
			}
			require.Equal(t, map[int32]int64{0: 1500}, asked(&r.plan(2, version).Request))

			r, refuse = setUp() // a cluster that was built anew stays like that
			resets := 0
			for range 7 {
				refuse()
				wanted, _ := r.table.WantResets(r.now)
				resets += len(wanted)
				r.now = r.now.Add(2 * time.Second)
			}
			require.Equal(t, 1, resets)
		})
	}
}

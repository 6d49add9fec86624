package fetch

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

func TestSessionTellsOnlyWhatChanged(t *testing.T) {
	r := newRig(t)
	r.assign(3)
	s := r.plan(1, newest)
	require.EqualValues(t, 0, s.Wire.SessionID)
	require.EqualValues(t, 0, s.Wire.SessionEpoch)
	r.answer(s, ans{records: v2(0, 10)}, ans{partition: 1}, ans{partition: 2})

	s = r.plan(1, newest)
	require.EqualValues(t, 77, s.Wire.SessionID)
	require.EqualValues(t, 1, s.Wire.SessionEpoch)
	require.Equal(t, map[int32]int64{0: 10}, asked(&s.Request))
	require.EqualValues(t, 5, s.Wire.Topics[0].Partitions[0].LastFetchedEpoch)
	r.answer(s)

	s = r.plan(1, newest)
	require.EqualValues(t, 2, s.Wire.SessionEpoch)
	require.Empty(t, s.Wire.Topics)
	require.Empty(t, s.Wire.Forgotten)
	r.answer(s)

	r.table.Assign([]protocol.TopicPartition{tpOf(0), tpOf(1), tpOf(3)}, false)
	r.table.Release(tpOf(3))
	r.lead(1, 5, tpOf(3))
	r.table.Seek(r.p(3), 40, -1)
	r.table.SetPaused(r.p(1), true)
	s = r.plan(1, newest)
	require.Equal(t, map[int32]int64{3: 40}, asked(&s.Request))
	require.Equal(t, []int32{1, 2}, forgotten(&s.Request))
	require.Equal(t, idOf("t"), s.Wire.Forgotten[0].ID)
	r.answer(s, ans{partition: 2, records: v2(0, 5)}, ans{partition: 3})
	require.Equal(t, names(0, 0, 9), r.drain(), "what was let go yields nothing")
}

func TestSessionOfAnErrorIsMadeAnewWithAllPartitions(t *testing.T) {
	for _, tc := range []struct {
		code protocol.ErrorCode
		id   int32
	}{
		{protocol.FetchSessionIDNotFound, 0},
		{protocol.InvalidFetchSessionEpoch, 77},
		{protocol.FetchSessionTopicIDError, 77},
	} {
		t.Run(tc.code.Name(), func(t *testing.T) {
			r := newRig(t)
			r.assign(2)
			r.fetch(ans{records: v2(0, 10)}, ans{partition: 1})
			s := r.plan(1, newest)
			require.False(t, r.answerTop(s, top{code: tc.code, session: -1}, ans{records: v2(10, 10)}))
			s = r.plan(1, newest)
			require.Equal(t, tc.id, s.Wire.SessionID)
			require.Zero(t, s.Wire.SessionEpoch)
			require.Equal(t, map[int32]int64{0: 10, 1: 0}, asked(&s.Request))
			r.answerTop(s, top{session: 78}, ans{}, ans{partition: 1})
			s = r.plan(1, newest)
			require.EqualValues(t, 78, s.Wire.SessionID)
			require.EqualValues(t, 1, s.Wire.SessionEpoch)
			require.Empty(t, asked(&s.Request))
			require.Equal(t, names(0, 0, 9), r.drain())
		})
	}
}

func TestSessionIsMadeAnewAfterADisconnect(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	r.fetch(ans{records: v2(0, 10)}, ans{partition: 1})
	s := r.plan(1, newest)
	r.table.Discard(s)
	s = r.plan(1, newest)
	require.EqualValues(t, 77, s.Wire.SessionID)
	require.Zero(t, s.Wire.SessionEpoch)
	require.Equal(t, map[int32]int64{0: 10, 1: 0}, asked(&s.Request))
}

func TestBrokerThatKeepsNoSessionIsAskedForEverythingEachTime(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	for i := range int64(3) {
		s := r.plan(1, newest)
		require.Zero(t, s.Wire.SessionID)
		require.Equal(t, map[int32]int64{0: 10 * i, 1: 0}, asked(&s.Request))
		r.answerTop(s, top{session: -1}, ans{records: v2(10*i, 10)}, ans{partition: 1})
	}
	require.Empty(t, r.table.OpenSessions())
}

func TestRequestsWithoutSessions(t *testing.T) {
	for _, version := range []int16{4, 6, newest} {
		r := newRig(t, func(l *Limits) { l.NoSessions = true })
		r.assign(3)
		first := make(map[int32]bool)
		for range 3 {
			s := r.plan(1, version)
			require.Len(t, asked(&s.Request), 3)
			first[s.Wire.Topics[0].Partitions[0].Partition] = true
			require.Zero(t, s.Wire.SessionID)
			require.EqualValues(t, -1, s.Wire.SessionEpoch)
			require.Empty(t, s.Wire.Forgotten)
			r.answerTop(s, top{session: -1})
		}
		require.Len(t, first, 3, "each is the first once")
	}
}

func TestSessionEpochsWrapAround(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{})
	s := r.table.Session(1)
	s.epoch = math.MaxInt32
	r.fetch()
	require.EqualValues(t, 1, r.plan(1, newest).Wire.SessionEpoch)
}

func TestPartitionThatLeavesAndComesBackIsNotForgotten(t *testing.T) {
	for _, version := range []int16{11, newest} {
		r := newRig(t)
		r.assign(2)
		r.answer(r.plan(1, version), ans{}, ans{partition: 1})
		s := r.plan(1, version)
		r.lead(2, 6, tpOf(0))
		r.lead(1, 7, tpOf(0))
		r.answer(s)
		if version < divergingVersion {
			r.table.Validated(Lookup{TP: tpOf(0), p: r.p(0), voided: r.p(0).voided, Leader: 7}, protocol.EpochEndOffset{EndOffset: 9}, r.now)
		}
		s = r.plan(1, version)
		require.Contains(t, asked(&s.Request), int32(0))
		require.Empty(t, forgotten(&s.Request), "brokers forget after they added")
	}
}

func TestTopicCreatedAgainReplacesTheOldOneInTheSession(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	r.fetch(ans{records: v2(0, 10)}, ans{partition: 1})
	require.Equal(t, names(0, 0, 9), r.drain())
	s := r.plan(1, newest)
	again := [16]byte{1, 2, 3}
	r.table.UpdateLeaders(func(tp protocol.TopicPartition) Leader {
		return Leader{Known: tp == tpOf(0), Broker: 1, Epoch: 0, TopicID: again}
	})
	lookups, _ := r.table.WantResets(r.now)
	require.Len(t, lookups, 1)
	require.Equal(t, TimeEarliest, lookups[0].Timestamp)
	r.table.ResetFound(lookups[0], 0, 0)
	r.answer(s, ans{hw: 20, records: v2(10, 10)})
	require.Empty(t, r.drain(), "of the old topic")
	require.Len(t, reportsOf(r.table.TakeReports(), ReportRecreated), 1)

	s = r.plan(1, newest)
	require.Len(t, s.Wire.Topics, 1)
	require.Equal(t, again, s.Wire.Topics[0].ID)
	require.Equal(t, map[int32]int64{0: 0}, asked(&s.Request))
	require.Len(t, s.Wire.Forgotten, 1)
	require.Equal(t, idOf("t"), s.Wire.Forgotten[0].ID)
	r.answer(s, ans{id: again, records: v2(0, 3, inEpoch(0))})
	require.Equal(t, names(0, 0, 2), r.drain())
}

func TestOpenSessionsAreThoseThatBrokersKeep(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	require.Empty(t, r.table.OpenSessions())
	r.fetch(ans{})
	require.Equal(t, map[int32]int32{1: 77}, r.table.OpenSessions())
}

func TestAnswersForNobodyAreSkipped(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{partition: 9, records: v2(0, 3)}, ans{topic: "other", records: v2(0, 3)},
		ans{records: v2(0, 3)}, ans{records: v2(0, 3)})
	require.Equal(t, names(0, 0, 2), r.drain(), "and a second answer for the same partition")
}

// idleRound returns a function that plans and applies a request of idle partitions.
func idleRound(t *testing.T, partitions int32) func() {
	r := newRig(t)
	r.assign(partitions)
	s := r.plan(1, newest)
	r.answer(s)
	resp := r.read(&r.plan(1, newest).Request, top{}, nil)
	r.table.Apply(s, resp, r.now)
	round := func() {
		require.True(t, r.table.Plan(s, newest, r.now))
		r.table.Apply(s, resp, r.now)
	}
	round()
	return round
}

// An idle partition costs nothing.
func TestRequestOfTenThousandIdlePartitionsAllocatesNothing(t *testing.T) {
	many, few := idleRound(t, 10_000), idleRound(t, 10)
	require.LessOrEqual(t, testing.AllocsPerRun(50, many), 4.0)

	// The shortest of many times tells what a round takes when nothing comes between.
	shortest := func(round func()) time.Duration {
		least := time.Hour
		for range 500 {
			began := time.Now()
			round()
			least = min(least, time.Since(began))
		}
		return least
	}
	require.Less(t, shortest(many), 10*shortest(few)+20*time.Microsecond, "it does not look at each of them")
}

func TestSideRequestAsksForWhatBecameFetchableDuringALongPoll(t *testing.T) {
	for name, tc := range map[string]struct {
		before, during func(r *rig)
	}{
		"by a seek": {func(*rig) {}, func(r *rig) { r.table.Seek(r.p(0), 7, -1) }},
		"by a resume": {
			func(r *rig) { r.table.SetPaused(r.p(0), true) },
			func(r *rig) { r.table.SetPaused(r.p(0), false) },
		},
		"by an assignment": {
			func(r *rig) { r.table.Remove(tpOf(0)) },
			func(r *rig) {
				r.table.Assign([]protocol.TopicPartition{tpOf(0), tpOf(1)}, false)
				r.table.Release(tpOf(0))
				r.lead(1, 5, tpOf(0))
				r.table.Seek(r.p(0), 7, -1)
			},
		},
		"by a new leader": {
			func(r *rig) { r.lead(2, 6, tpOf(0)) },
			func(r *rig) { r.lead(1, 7, tpOf(0)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.assign(2)
			tc.before(r)
			s := r.plan(1, newest)
			var side Request
			r.now = r.now.Add(longPoll)
			ok, _ := r.table.PlanSide(&side, s, newest, r.now)
			require.False(t, ok)
			tc.during(r)
			ok, _ = r.table.PlanSide(&side, s, newest, r.now)
			require.True(t, ok)
			require.Equal(t, []int32{0}, keysOf(asked(&side)))
			require.Zero(t, side.Wire.SessionID)
			require.EqualValues(t, -1, side.Wire.SessionEpoch)
			require.Zero(t, side.Wire.MaxWaitMillis)
			require.EqualValues(t, mib, side.Wire.MaxBytes)
			other := Request{}
			ok, _ = r.table.PlanSide(&other, s, newest, r.now)
			require.False(t, ok, "a partition is in one request at a time")

			r.answer(s)
			require.NotContains(t, asked(&r.plan(1, newest).Request), int32(0), "its side answer is not in")
			from := r.p(0).fetchOffset
			resp := r.read(&side, top{session: -1}, []ans{{records: v2(from, 10)}})
			require.Zero(t, resp.SessionID)
			r.table.ApplySide(&side, resp, r.now)
			r.answer(s)
			require.Equal(t, map[int32]int64{0: from + 10}, asked(&r.plan(1, newest).Request))
			require.Equal(t, names(0, from, from+9), r.drain())
		})
	}
}

func keysOf(m map[int32]int64) (keys []int32) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func TestSideRequestsAreRepeatedUntilTheLongPollIsBack(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	s := r.plan(1, newest)
	r.now = r.now.Add(longPoll)
	r.table.Seek(r.p(0), 7, -1)
	var side Request
	round := func(records []byte) time.Duration {
		ok, _ := r.table.PlanSide(&side, s, newest, r.now)
		require.True(t, ok)
		resp := r.read(&side, top{session: -1}, []ans{{records: records}})
		r.table.ApplySide(&side, resp, r.now)
		wanted, retry := r.table.WantsSide(s, r.now)
		if wanted {
			return 0
		}
		wait := retry.Sub(r.now)
		r.now = retry
		return wait
	}
	require.Zero(t, round(v2(7, 3)), "at once while it brings records")
	var waits []time.Duration
	for range 6 {
		waits = append(waits, round(nil)/time.Millisecond)
	}
	require.Equal(t, []time.Duration{50, 100, 200, 400, 500, 500}, waits)
	require.Zero(t, round(v2(10, 3)))
	require.EqualValues(t, 50*time.Millisecond, round(nil))
	r.answer(s)
	wanted, _ := r.table.WantsSide(s, r.now)
	require.False(t, wanted)
	require.Equal(t, map[int32]int64{0: 13}, asked(&r.plan(1, newest).Request))
}

// The long poll asks for it still, so that both would bring the same records.
func TestPauseAndResumeWithinOneLongPollAsksNothingBesideIt(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	s := r.plan(1, newest)
	r.now = r.now.Add(time.Second)
	r.table.SetPaused(r.p(0), true)
	r.table.SetPaused(r.p(0), false)
	wanted, _ := r.table.WantsSide(s, r.now)
	require.False(t, wanted)
	r.answer(s, ans{records: v2(0, 10)})
	require.Equal(t, names(0, 0, 9), r.drain())
}

func TestPartitionThatTheApplicationDrainedDoesNotWaitForALongPoll(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxPartitionFetchBytes = 1000 })
	r.assign(2)
	r.fetch(ans{records: v2(0, 10, large(1000))})
	s := r.plan(1, newest)
	require.Equal(t, []int32{0}, forgotten(&s.Request))
	require.Len(t, r.drain(), 10)
	r.now = r.now.Add(longPoll)
	wanted, _ := r.table.WantsSide(s, r.now)
	require.True(t, wanted)
}

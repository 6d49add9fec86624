package fetch

import (
	"testing"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// handingOver is a rig with offsets 0 to 19, of which an iterator has handed over 0 to 4.
func handingOver(t *testing.T) (*rig, *Live) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: v2(0, 20)})
	r.decode()
	cuts := r.table.Take(1000, nil)
	require.Len(t, cuts, 1)
	live := r.table.SetLive(cuts[0])
	live.Yielded.Store(4)
	r.table.TakeDisturbed()
	return r, live
}

// What is being handed over may be gone from the log, and something else be there.
func TestTruncationEndsWhatIsBeingHandedOver(t *testing.T) {
	for name, tc := range map[string]struct {
		end  int64
		from int64
	}{
		"behind the position":                     {10, 5},
		"before it: what is gone is told of once": {3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r, live := handingOver(t)
			r.lead(2, 6, tpOf(0))
			r.answer(r.plan(2, newest), ans{diverging: &protocol.EpochEndOffset{Epoch: 5, EndOffset: tc.end}})
			require.True(t, r.table.TakeDisturbed())
			require.False(t, r.table.LiveValid())
			live.Yielded.Store(19) // even if it goes on
			r.table.EndLive()
			s := r.plan(2, newest)
			require.Equal(t, map[int32]int64{0: tc.from}, asked(&s.Request))
			r.answer(s, ans{records: append(v2(0, int(tc.end)), v2(tc.end, 30, inEpoch(6))...)})
			require.Equal(t, names(0, tc.from, tc.end+29), r.drain())
		})
	}
}

func TestWhatIsDroppedWhilePausedIsNotHandedOver(t *testing.T) {
	r, _ := handingOver(t)
	r.table.SetPaused(r.p(0), true)
	r.table.dropPaused()
	r.table.SetPaused(r.p(0), false)
	require.True(t, r.table.TakeDisturbed())
	require.False(t, r.table.LiveValid())
	r.table.EndLive()
	r.fetch(ans{records: v2(0, 20)})
	require.Equal(t, names(0, 5, 19), r.drain())
}

// A check of the position waits for what is not decoded yet.
func TestCheckOfThePositionGoesOnWhenWhatItWaitedForIsDropped(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.answer(r.plan(1, 11), ans{records: v2(0, 10)})
	r.table.SetPaused(r.p(0), true)
	r.lead(1, 6, tpOf(0))
	r.table.TakeUnlocated()
	lookups, _ := r.table.WantValidations(r.now)
	require.Empty(t, lookups)
	r.table.dropPaused()
	require.True(t, r.table.TakeUnlocated())
	lookups, _ = r.table.WantValidations(r.now)
	require.Len(t, lookups, 1)
}

// The memory that endpoints are read into is used again while nobody holds the table.
func TestEndpointsAreThoseOfTheirAnswer(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	s := r.plan(1, newest)
	resp := r.read(&s.Request, top{}, nil)
	resp.NodeEndpoints = append(resp.NodeEndpoints, protocol.NodeEndpoint{NodeID: 9, Host: "old"})
	r.table.Apply(s, resp, r.now)
	r.table.Seek(r.p(0), 0, -1)
	s = r.plan(1, newest)
	r.now = r.now.Add(longPoll)
	r.table.Seek(r.p(0), 7, -1)
	var side Request
	ok, _ := r.table.PlanSide(&side, s, newest, r.now)
	require.True(t, ok)
	beside := r.read(&side, top{session: -1}, []ans{{
		code: protocol.NotLeaderOrFollower, leader: &protocol.LeaderIDEpoch{ID: 9, Epoch: 7},
	}})
	beside.NodeEndpoints = append(beside.NodeEndpoints, protocol.NodeEndpoint{NodeID: 9, Host: "new"})
	r.table.ApplySide(&side, beside, r.now)
	reports := reportsOf(r.table.TakeReports(), ReportLeader)
	require.Len(t, reports, 1)
	require.Equal(t, "new", reports[0].Endpoint.Host)
}

func TestEpochBehindOffsetsThatHoldNothingIsUnknown(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: v2(0, 10)})
	r.drain()
	r.lead(1, 7, tpOf(0))
	p := r.p(0)
	p.vacant = vacancy{refetched: p.refetched, from: 10, end: 20}
	p.highWatermark, p.lastStable = 20, 20
	lookups, _ := r.table.WantVacancies(r.now)
	r.table.VacancyAnswered(lookups[0], 0)
	damaged := v2(20, 5, inEpoch(7))
	damaged[70] ^= 1
	s := r.plan(1, newest)
	require.EqualValues(t, -1, s.Wire.Topics[0].Partitions[0].LastFetchedEpoch)
	r.answer(s, ans{records: damaged})
	r.drain()
	require.Empty(t, asked(&r.plan(1, newest).Request), "the same is asked again, of a session that knows it")
	require.EqualValues(t, 20, p.fetchOffset)
}

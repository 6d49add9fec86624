package fetch

import (
	"testing"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// Messages of the old formats have no checksum over their offsets, and no header tells
// that a set goes back.
func TestOldMessagesThatGoBackComeOnce(t *testing.T) {
	var set []byte
	for _, offset := range []int64{0, 1, 2, 1, 2, 3, 0, 4} {
		m := batch.Message{Magic: 1, Offset: offset, Value: []byte("v")}
		set = append(set, m.Bytes()...)
	}
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: set})
	r.decode()
	r.decode()
	require.Equal(t, names(0, 0, 4), r.drain())
}

// A broker that keeps no session for us gets the whole list each time, and gives what
// comes first in it.
func TestPartitionsTakeTurnsInFullRequests(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.FetchMaxBytes = 1000 })
	r.assign(3)
	first := map[int32]int{}
	for i := range 9 {
		s := r.plan(1, newest)
		require.Len(t, asked(&s.Request), 3)
		p := s.Wire.Topics[0].Partitions[0].Partition
		first[p]++
		r.answerTop(s, top{session: -1}, ans{partition: p, records: v2(r.p(p).fetchOffset, 1)})
		require.Len(t, r.drain(), 1, "round %d", i)
	}
	require.Equal(t, map[int32]int{0: 3, 1: 3, 2: 3}, first)
}

// Whatever a look-up was about, its end makes way for the next.
func TestLookUpsDoNotHoldUpEachOther(t *testing.T) {
	vacant := func(r *rig, version int16) Lookup {
		for range 3 {
			r.answer(r.plan(1, version), ans{hw: 30})
		}
		lookups, _ := r.table.WantVacancies(r.now)
		require.Len(r.t, lookups, 1)
		return lookups[0]
	}
	t.Run("the leader moves meanwhile", func(t *testing.T) {
		r := newRig(t)
		r.assign(1)
		r.answer(r.plan(1, 11), ans{records: v2(0, 3)})
		r.drain()
		l := vacant(r, 11)
		r.lead(2, 6, tpOf(0))
		validations, _ := r.table.WantValidations(r.now)
		require.Empty(t, validations)
		r.table.TakeUnlocated()
		r.table.VacancyAnswered(l, 0)
		require.True(t, r.table.TakeUnlocated(), "the loops sleep until they are told")
		validations, _ = r.table.WantValidations(r.now)
		require.Len(t, validations, 1)
	})
	t.Run("the log was truncated meanwhile", func(t *testing.T) {
		r := newRig(t)
		r.assign(1)
		r.table.Seek(r.p(0), 7, -1)
		l := vacant(r, newest)
		r.fetch(ans{hw: 30, diverging: &protocol.EpochEndOffset{Epoch: 4, EndOffset: 3}})
		r.table.VacancyAnswered(l, 0)
		for range 3 {
			r.fetch(ans{hw: 30})
		}
		lookups, _ := r.table.WantVacancies(r.now)
		require.Len(t, lookups, 1)
	})
}

// Offsets that hold nothing end where the log does, though it may have become shorter.
func TestVacancyOfALogThatBecameShorter(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	for range 3 {
		r.fetch(ans{hw: 30})
	}
	lookups, _ := r.table.WantVacancies(r.now)
	require.Len(t, lookups, 1)
	r.fetch(ans{hw: 20})
	r.table.VacancyAnswered(lookups[0], 0)
	r.drain()
	require.EqualValues(t, 0, r.position(0))
}

// A partition whose backoff ends within a long poll is asked for beside it then.
func TestBackoffThatEndsWithinALongPoll(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	r.fetch(ans{code: protocol.UnknownServerError})
	r.table.TakeStirred()
	s := r.plan(1, newest)
	require.True(t, r.table.TakeStirred(), "who asks beside it has to know when")
	wanted, retry := r.table.WantsSide(s, r.now)
	require.False(t, wanted)
	require.False(t, retry.IsZero())
}

// A session tells of what has changed since it told last, whoever listened then.
func TestTheEndOfALogIsToldToWhoDoesNotKnowIt(t *testing.T) {
	ends := []ans{{hw: 30}, {partition: 1, hw: 30}}
	assign := func(r *rig) {
		r.assign(2)
		r.table.Seek(r.p(0), 30, -1)
		r.table.Seek(r.p(1), 30, -1)
	}
	for name, miss := range map[string]func(r *rig){
		"a partition that was assigned anew": func(r *rig) {
			r.fetch(ends...)
			s := r.plan(1, newest)
			r.table.Remove(tpOf(0))
			assign(r)
			r.answer(s)
			s = r.plan(1, newest)
			require.Equal(t, map[int32]int64{0: 30}, asked(&s.Request))
			require.Empty(t, forgotten(&s.Request))
			r.answer(s)
		},
		"an answer that came too late": func(r *rig) {
			s := r.plan(1, newest)
			r.table.Seek(r.p(0), 29, -1)
			r.answer(s, ends...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			assign(r)
			miss(r)
			_, known := r.table.Highwater(r.p(0))
			require.False(t, known)
			s := r.plan(1, newest)
			require.Zero(t, s.Wire.SessionEpoch, "a new session tells all")
			r.answer(s, ends...)
			_, known = r.table.Highwater(r.p(0))
			require.True(t, known)
			require.NotZero(t, r.plan(1, newest).Wire.SessionEpoch)
		})
	}
}

// Brokers that lead nothing any more take no room from others.
func TestBrokerThatLeadsNothingTakesNoRoom(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxBufferedBytes = 2 * mib })
	r.assign(2)
	r.fetch()
	r.lead(2, 6, tpOf(0), tpOf(1))
	require.EqualValues(t, 2*mib, r.plan(2, newest).Wire.MaxBytes)
}

// A broker that came to lead again is asked for what it leads now, and for nothing that it
// led before.
func TestBrokerThatLeadsAgain(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	r.fetch()
	r.lead(2, 6, tpOf(0), tpOf(1))
	r.table.Leave(1)
	require.Empty(t, r.table.sessions[1].members)
	require.Equal(t, map[int32]int32{1: 77}, r.table.OpenSessions())
	r.lead(1, 7, tpOf(1))
	s := r.plan(1, newest)
	require.Equal(t, map[int32]int64{1: 0}, asked(&s.Request))
	require.Zero(t, s.Wire.SessionEpoch)
	r.table.Leave(1)
	r.answer(s, ans{partition: 1, records: v2(0, 3)})
	require.Equal(t, names(1, 0, 2), r.drain(), "what leads is not left")
}

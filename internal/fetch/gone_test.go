package fetch

import (
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

func TestOffsetsThatCompactionTookAwayArePassedOver(t *testing.T) {
	empty := ans{hw: 30}
	for name, test := range map[string]struct {
		answers []ans
		want    int64
	}{
		"three empty answers":                         {[]ans{empty, empty, empty}, 30},
		"two empty answers":                           {[]ans{empty, empty}, 0},
		"one empty answer":                            {[]ans{empty}, 0},
		"an empty answer and a refusal":               {[]ans{empty, {code: protocol.UnknownTopicOrPartition}}, 0},
		"an empty answer and a divergence":            {[]ans{empty, {hw: 30, diverging: &protocol.EpochEndOffset{Epoch: 4, EndOffset: 9}}}, 0},
		"an empty answer and a follower":              {[]ans{empty, {hw: 30, replica: 2}}, 0},
		"empty answers with a refusal between":        {[]ans{empty, {code: protocol.UnknownServerError}, empty, empty}, 0},
		"empty answers, the second has grown":         {[]ans{empty, {hw: 40}, {hw: 40}}, 30},
		"two empty answers at the end, and the limit": {[]ans{{hw: none}, {hw: none}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.assign(1)
			for _, a := range test.answers {
				r.fetch(a)
				r.now = r.now.Add(time.Minute)
				lookups, _ := r.table.WantVacancies(r.now)
				for _, l := range lookups {
					r.table.VacancyAnswered(l, 0)
				}
			}
			r.drain()
			require.Equal(t, test.want, r.position(0))
		})
	}
}

// Old brokers are asked for a few partitions at a time.
func TestPartitionThatWasNotAskedForIsNotPassedOver(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.FetchMaxBytes = l.MaxPartitionFetchBytes })
	r.assign(2)
	s := r.plan(1, 2)
	require.Len(t, asked(&s.Request), 1)
	r.answer(s, ans{partition: 0, hw: 30})
	s = r.plan(1, 2)
	require.NotContains(t, asked(&s.Request), int32(0))
	r.answer(s, ans{partition: 1, hw: 30})
	r.drain()
	require.EqualValues(t, 0, r.position(0))
}

// What answers tell of others in between says nothing of it either.
func TestOffsetsAreGoneThoughOthersAreAskedForInBetween(t *testing.T) {
	r := newRig(t, func(l *Limits) {
		l.FetchMaxBytes, l.MaxFrameBytes = l.MaxPartitionFetchBytes, l.MaxPartitionFetchBytes+frameMargin
	})
	r.assign(2)
	for i := range 8 {
		s := r.plan(1, 2)
		for partition := range asked(&s.Request) {
			a := ans{partition: partition, hw: 30}
			if partition == 1 {
				a = ans{partition: 1, hw: int64(i + 1), records: v2(int64(i), 1)}
			}
			r.answer(s, a)
		}
		r.pass()
		r.drain()
	}
	require.EqualValues(t, 30, r.position(0))
}

// A broker whose session has gone wrong gives nothing although there is something.
func TestRecordsThatASessionHidesAreNotPassedOver(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	r.fetch(ans{hw: 30})
	r.fetch()
	s := r.plan(1, newest)
	require.Zero(t, s.Wire.SessionEpoch, "a new session")
	require.Equal(t, map[int32]int64{0: 0, 1: 0}, asked(&s.Request))
	r.answer(s, ans{hw: 30, records: v2(0, 30)}, ans{partition: 1, hw: none})
	lookups, _ := r.table.WantVacancies(r.now)
	require.Empty(t, lookups)
	require.Equal(t, names(0, 0, 29), r.drain())
}

func TestWithoutSessionsTwoEmptyAnswersAreEnough(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.NoSessions = true })
	r.assign(1)
	r.fetch(ans{hw: 30})
	r.fetch(ans{hw: 30})
	r.pass()
	r.drain()
	require.EqualValues(t, 30, r.position(0))
}

// Brokers of 3.x leave out a batch that an old Fetch has no room for; older ones cut it.
func TestEmptyAnswerToAnOldFetchMayMeanThatMoreRoomIsNeeded(t *testing.T) {
	for _, later := range []bool{false, true} {
		r := newRig(t, func(l *Limits) { l.MaxFrameBytes = 100 * mib })
		r.assign(1)
		var sizes []int32
		for range 6 {
			s := r.plan(1, 2)
			sizes = append(sizes, s.Wire.Topics[0].Partitions[0].MaxBytes)
			if later && len(sizes) == 3 {
				r.answer(s, ans{hw: 30, records: batch.Message{Offset: 29, Value: make([]byte, 10*mib)}.Bytes()})
				break
			}
			r.answer(s, ans{hw: 30})
			r.pass()
		}
		if later {
			require.Equal(t, []int32{mib, 8 * mib, 64 * mib}, sizes)
			require.Equal(t, []string{"0/29"}, r.drain())
		} else {
			const most = 100*mib - frameMargin
			require.Equal(t, []int32{mib, 8 * mib, 64 * mib, most, most}, sizes[:5], "until no batch can be larger")
			r.drain()
			require.EqualValues(t, 30, r.position(0), "there is nothing")
		}
		require.EqualValues(t, mib, r.plan(1, 2).Wire.Topics[0].Partitions[0].MaxBytes)
	}
}

//go:build unix

package soak

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at is a time of these tests, in seconds.
func at(seconds float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func TestARecordMayComeAgainAfterAKillOrALossOnly(t *testing.T) {
	l := newLedger(2, stuck)
	deliver := func(member string, partition int32, when float64) {
		l.deliver(member, partition, 0, valueOf(partition, 0), at(when))
	}
	deliver("a", 0, 1)
	l.kill("a", at(2))
	deliver("b", 0, 3)
	require.Equal(t, 1, l.duplicates)
	require.Empty(t, l.repeats)
	deliver("c", 0, 4)
	require.Equal(t, []repeat{{0, 0, delivery{"b", at(3)}, delivery{"c", at(4)}}}, l.repeats, "b was not killed")

	deliver("b", 1, 5)
	l.lose("b", []int32{1}, at(6))
	deliver("c", 1, 7)
	l.excuseLosses()
	require.Equal(t, 2, l.duplicates)
	require.Len(t, l.repeats, 1)
	require.Empty(t, l.faults)
}

func TestALossIsToldOfLaterThanTheNextOwnerConsumes(t *testing.T) {
	l := newLedger(1, stuck)
	for i, member := range []string{"a", "b", "c"} {
		l.deliver(member, 0, 0, valueOf(0, 0), at(float64(10*i)))
	}
	l.lose("a", []int32{0}, at(11))
	l.lose("b", []int32{0}, at(40))
	l.excuseLosses()
	require.Equal(t, 1, l.duplicates)
	require.Equal(t, []repeat{{0, 0, delivery{"b", at(10)}, delivery{"c", at(20)}}}, l.repeats, "b lost it for another reason")
}

func TestWhoConsumedFirstIsToldByTheTimes(t *testing.T) {
	l := newLedger(1, stuck)
	l.deliver("b", 0, 0, valueOf(0, 0), at(2))
	l.deliver("a", 0, 0, valueOf(0, 0), at(1)) // its output is read later
	l.deliver("c", 0, 0, valueOf(0, 0), at(3))
	require.Equal(t, []repeat{
		{0, 0, delivery{"a", at(1)}, delivery{"b", at(2)}},
		{0, 0, delivery{"b", at(2)}, delivery{"c", at(3)}},
	}, l.repeats)
}

func TestRecordsThatNobodyConsumedAreMissing(t *testing.T) {
	l := newLedger(1, stuck)
	l.deliver("a", 0, 1, valueOf(0, 1), at(1)) // before the producer had its answer
	l.produce(0, 3, at(1))
	require.Equal(t, 2, l.missing())
	l.deliver("a", 0, 0, valueOf(0, 0), at(2))
	l.deliver("a", 0, 2, valueOf(0, 2), at(2))
	require.Zero(t, l.missing())
	require.Equal(t, 3, l.of("a"))
	l.deliver("a", 0, 3, valueOf(0, 2), at(2))
	require.Len(t, l.faults, 1, "another record's value")
}

func TestAStandstillCountsFromTheLastKill(t *testing.T) {
	l := newLedger(1, stuck)
	l.produce(0, 1, at(1))
	l.deliver("a", 0, 0, valueOf(0, 0), at(2))
	require.Equal(t, time.Second, l.standstill)
	l.produce(0, 1, at(20))
	l.kill("a", at(26))
	l.deliver("b", 0, 1, valueOf(0, 1), at(30))
	require.Equal(t, 4*time.Second, l.standstill)
	require.Equal(t, 10*time.Second, l.outage)
	require.Empty(t, l.faults)
	l.produce(0, 2, at(40))
	l.own("kafka-python-1", []int32{0})
	l.deliver("kafka-python-1", 0, 2, valueOf(0, 2), at(60))
	require.Len(t, l.foreign, 1)
	l.own("ours-1", []int32{0})
	l.deliver("ours-1", 0, 3, valueOf(0, 3), at(80))
	require.Len(t, l.faults, 1, "a standstill of ours")
}

func TestCommitsThatGoBackwardAreSeen(t *testing.T) {
	l := &commitLog{history: map[place][]commit{}}
	p := place{"g", 0}
	l.add(p, commit{5, at(1)})
	l.add(p, commit{5, at(2)})
	l.add(place{"h", 0}, commit{1, at(2)})
	require.Empty(t, l.takeBackward())
	l.add(p, commit{4, at(3)})
	require.Len(t, l.takeBackward(), 1)
	require.Empty(t, l.takeBackward())
	require.True(t, l.committed(p, 4, at(1.5)))
	require.False(t, l.committed(p, 4, at(1)), "not by then")
	require.False(t, l.committed(p, 5, at(4)))
	require.True(t, l.reached("g", []int64{4, 0}))
	require.Equal(t, 3, l.of("g"))
}

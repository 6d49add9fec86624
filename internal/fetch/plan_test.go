package fetch

import (
	"slices"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

func TestFirstRequestAsksForEverything(t *testing.T) {
	r := newRig(t)
	r.assign(3)
	s := r.plan(1, newest)
	require.Equal(t, map[int32]int64{0: 0, 1: 0, 2: 0}, asked(&s.Request))
	require.EqualValues(t, 16, s.Version)
	p := s.Wire.Topics[0].Partitions[0]
	require.EqualValues(t, 5, p.CurrentLeaderEpoch)
	require.EqualValues(t, -1, p.LastFetchedEpoch)
	require.EqualValues(t, mib, p.MaxBytes)
	require.EqualValues(t, 3*mib, s.Wire.MaxBytes, "not more than the partitions may have")
	require.Equal(t, idOf("t"), s.Wire.Topics[0].ID)
}

func TestRoomIsReservedUntilTheAnswerIsApplied(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxBufferedBytes = 4 * mib })
	tps := []protocol.TopicPartition{tpOf(0), tpOf(1), tpOf(2), tpOf(3)}
	r.table.Assign(tps, false)
	r.table.Release(tps...)
	r.lead(1, 5, tpOf(0), tpOf(1))
	r.lead(2, 5, tpOf(2), tpOf(3))
	for _, tp := range tps {
		r.table.Seek(r.table.Get(tp), 0, -1)
	}
	first := r.plan(1, newest)
	require.EqualValues(t, 2*mib, first.Wire.MaxBytes, "half, for two brokers have something to fetch")
	second := r.plan(2, newest)
	require.EqualValues(t, 2*mib, second.Wire.MaxBytes, "all that is left")
	require.Zero(t, r.table.room())
	r.answer(first)
	r.table.Discard(second)
	require.EqualValues(t, 4*mib, r.table.room())
}

func TestNothingIsAskedForWithoutRoom(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxBufferedBytes = 1500 })
	r.assign(2)
	s := r.plan(1, newest)
	require.EqualValues(t, 1500, s.Wire.MaxBytes)
	r.answer(s, ans{records: v2(0, 100)})
	require.Negative(t, r.table.room())
	r.idle(1)
	require.Equal(t, names(0, 0, 99), r.drain())
	require.True(t, r.table.TakeStirred())
	require.Equal(t, map[int32]int64{0: 100}, asked(&r.plan(1, newest).Request), "incremental: partition 1 did not change")
}

func TestPartitionThatHoldsItsShareIsLeftOutUntilHalfIsDrained(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxPartitionFetchBytes = 10_000 })
	r.assign(2)
	r.fetch(ans{records: slices.Concat(v2(0, 10, large(1000)), v2(10, 10, large(1000)))})
	s := r.plan(1, newest)
	require.Equal(t, []int32{0}, forgotten(&s.Request), "20 kB are twice what one answer may hold of it")
	require.Empty(t, asked(&s.Request))
	r.answer(s)
	r.decode()

	require.Len(t, r.take(10), 10)
	require.Len(t, r.take(9), 9)
	r.table.skipAllEmpty()
	s = r.plan(1, newest)
	require.Equal(t, r.p(0).bytes > 10_000, len(asked(&s.Request)) == 0)
	r.answer(s)
	require.Len(t, r.take(1), 1)
	require.Equal(t, map[int32]int64{0: 20}, asked(&r.plan(1, newest).Request))
}

// large makes the records of a batch so many bytes long.
func large(size int) func(*batch.V2) {
	return func(b *batch.V2) { b.Records = numbered(len(b.Records), size) }
}

func TestShareIsAtLeastOneBatch(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxBufferedBytes = 100_000 })
	r.assign(50) // 2 kB each
	r.fetch(ans{records: v2(0, 10, large(1000))})
	require.True(t, r.p(0).full)
	require.NotContains(t, asked(&r.plan(1, newest).Request), int32(0))
	require.Equal(t, names(0, 0, 9), r.drain())
	require.False(t, r.p(0).full)
}

func TestRequestsNameTopicsByIDOnlyWhenAllHaveOne(t *testing.T) {
	r := newRig(t)
	tps := []protocol.TopicPartition{{Topic: "a"}, {Topic: "b"}}
	r.table.Assign(tps, false)
	r.table.Release(tps...)
	lead := func(id [16]byte) {
		r.table.UpdateLeaders(func(tp protocol.TopicPartition) Leader {
			l := Leader{Known: true, Broker: 1, Epoch: 5, TopicID: idOf(tp.Topic)}
			if tp.Topic == "b" {
				l.TopicID = id
			}
			return l
		})
	}
	lead([16]byte{})
	for _, tp := range tps {
		r.table.Seek(r.table.Get(tp), 7, -1)
	}
	s := r.plan(1, newest)
	require.EqualValues(t, 12, s.Version)
	require.Len(t, s.Wire.Topics, 2)
	r.answer(s, ans{topic: "a"}, ans{topic: "b"})
	require.EqualValues(t, 12, r.plan(1, newest).Version)
	r.answer(s)

	lead(idOf("b"))
	s = r.plan(1, newest)
	require.EqualValues(t, 16, s.Version)
	require.Zero(t, s.Wire.SessionEpoch, "a change of naming needs a new session")
	require.Len(t, s.Wire.Topics, 2)
	for _, topic := range s.Wire.Topics {
		require.Equal(t, idOf(topic.Name), topic.ID)
	}
}

func TestBelowVersion3RequestsAskForNoMoreThanFits(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.FetchMaxBytes = 3 * mib })
	r.assign(8)
	count := make(map[int32]int)
	for range 8 {
		s := r.plan(1, 2)
		require.Len(t, asked(&s.Request), 3)
		for partition := range asked(&s.Request) {
			count[partition]++
		}
		r.answer(s)
	}
	for partition := range int32(8) {
		require.Equal(t, 3, count[partition], "partition %d has its turn", partition)
	}
}

func TestBelowVersion3RequestsStayWithinRoom(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxBufferedBytes = 2 * mib })
	r.assign(8)
	s := r.plan(1, 2)
	require.Len(t, asked(&s.Request), 2, "an answer has no other cap")
	require.Zero(t, r.table.room())
	r.answer(s)

	r = newRig(t, func(l *Limits) { l.MaxBufferedBytes = mib / 2 })
	r.assign(2)
	s = r.plan(1, 2)
	require.Len(t, asked(&s.Request), 1, "always one")
}

func TestVersionsBelow3GrowAPartitionWhoseMessageDoesNotFit(t *testing.T) {
	for _, cut := range []int{300_000, 40, 17, 16, 5} {
		r := newRig(t, func(l *Limits) { l.MaxPartitionFetchBytes = int32(cut) })
		r.assign(1)
		message := batch.Message{Value: make([]byte, 400_000)}.Bytes()
		for range 40 {
			s := r.plan(1, 2)
			size := int(s.Wire.Topics[0].Partitions[0].MaxBytes)
			r.answer(s, ans{records: message[:min(len(message), size)]})
			if size >= len(message) {
				break
			}
		}
		require.Equal(t, names(0, 0, 0), r.drain(), "first cut after %d bytes", cut)
	}
}

func TestMessageThatNoAnswerCanHoldIsAnError(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxFrameBytes = 2 * mib })
	r.assign(1)
	s := r.plan(1, 2)
	r.answer(s, ans{records: batch.Message{Value: make([]byte, 3*mib)}.Bytes()[:mib]})
	require.ErrorAs(t, r.fault(), new(*SizeError))
	require.Zero(t, r.position(0))
	r.idle(1)
}

func TestRetriesWaitForTheirBackoff(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	r.fetch(ans{code: protocol.NotLeaderOrFollower}, ans{partition: 1})
	require.NotEmpty(t, reportsOf(r.table.TakeReports(), ReportStaleMetadata))
	s := r.plan(1, newest)
	require.Equal(t, []int32{0}, forgotten(&s.Request))
	r.answer(s)
	_, retry := r.table.Hungry(s, r.now)
	require.Equal(t, r.now.Add(100*time.Millisecond), retry)
	r.now = retry
	s = r.plan(1, newest)
	require.Equal(t, map[int32]int64{0: 0}, asked(&s.Request))
	r.answer(s, ans{code: protocol.NotLeaderOrFollower})
	r.plan(1, newest)
	_, retry = r.table.Hungry(s, r.now)
	require.Equal(t, r.now.Add(200*time.Millisecond), retry)
}

package fetch

import (
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/metrics"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// withMetrics has what is handed over measured.
func withMetrics(l *Limits) {
	l.Metrics = &metrics.New(metrics.Windows{Samples: 2, Length: time.Hour}, "me", false, time.Now).Fetch
}

// told returns how long ago the end of partition 0's log was told, in seconds.
func (r *rig) told() float64 {
	for _, s := range r.table.States(r.now) {
		if s.Partition == r.p(0).meter.to {
			return s.Told.Seconds()
		}
	}
	r.t.Fatal("partition 0 is not assigned")
	return 0
}

func (r *rig) wait(d time.Duration) { r.now = r.now.Add(d) }

func TestTheEndOfALogIsAsOldAsTheLastAnswerThatCouldTellIt(t *testing.T) {
	r := newRig(t, withMetrics)
	r.assign(2)
	require.Negative(t, r.told(), "nothing was told")
	s := r.plan(1, newest)
	r.wait(time.Second)
	require.Negative(t, r.told())
	r.answer(s, ans{partition: 0, hw: 7}, ans{partition: 1})
	require.Zero(t, r.told())
	r.wait(time.Second)
	require.EqualValues(t, 1, r.told())

	s = r.plan(1, newest)
	r.answer(s, ans{partition: 1, hw: 9})
	require.Zero(t, r.told(), "it has not changed, else the session's answer would have said so")

	s = r.plan(1, newest)
	r.table.Discard(s)
	r.wait(time.Second)
	require.EqualValues(t, 1, r.told(), "no answer came")
}

func TestAnAnswerToARequestWithoutThePartitionTellsNothingOfIt(t *testing.T) {
	r := newRig(t, withMetrics)
	r.assign(2)
	r.fetch(ans{partition: 0}, ans{partition: 1})
	r.wait(time.Minute)
	r.fetch() // it has not changed
	r.table.SetPaused(r.p(0), true)
	r.wait(time.Second)
	r.fetch()
	require.EqualValues(t, 1, r.told(), "it left the session")
	r.wait(time.Second)
	s := r.plan(1, newest)
	r.table.SetPaused(r.p(0), false)
	r.wait(time.Second)
	r.answer(s)
	require.EqualValues(t, 3, r.told(), "it will come back with the next request")
	s = r.plan(1, newest)
	require.EqualValues(t, 3, r.told())
	r.wait(time.Second)
	r.answer(s)
	require.Zero(t, r.told())
}

func TestARefusalTellsNothingOfTheEnd(t *testing.T) {
	r := newRig(t, withMetrics)
	r.assign(2)
	r.fetch(ans{partition: 0}, ans{partition: 1})
	for i := range 5 {
		r.wait(time.Second)
		r.fetch(ans{partition: 0, code: protocol.NotLeaderOrFollower})
		require.EqualValues(t, i+1, r.told())
	}
}

func TestAPartitionThatMovesKeepsWhenItsEndWasTold(t *testing.T) {
	r := newRig(t, withMetrics)
	r.assign(2)
	r.fetch(ans{partition: 0}, ans{partition: 1})
	r.wait(time.Second)
	r.fetch()
	r.lead(2, 6, tpOf(0))
	require.Zero(t, r.told())
	r.wait(time.Second)
	r.fetch()
	require.EqualValues(t, 1, r.told(), "the old leader's answers are not about it any more")
}

func TestAgeIsThatOfTheRecordAtThePosition(t *testing.T) {
	r := newRig(t, withMetrics)
	r.assign(1)
	age := func() float64 { return r.table.States(r.now)[0].Age.Seconds() }
	require.Negative(t, age())
	stamped := v2(0, 4, func(b *batch.V2) {
		for i := range b.Records {
			b.Records[i].Timestamp = r.now.Add(time.Duration(i-10) * time.Second)
		}
	})
	r.fetch(ans{hw: 5, records: stamped})
	require.Negative(t, age(), "the record is not decoded, and none was before it")
	r.decode()
	for _, want := range []float64{10, 9, 8, 7} {
		require.Equal(t, want, age())
		require.Len(t, r.take(1), 1)
	}
	require.Equal(t, 7.0, age(), "the next one is not here, and hardly older than the one before")
	r.fetch(ans{hw: 5, records: v2(4, 1, func(b *batch.V2) { b.Records[0].Timestamp = r.now.Add(time.Hour) })})
	r.decode()
	require.Zero(t, age(), "the producer's clock is ahead")
	r.take(1)
	r.wait(time.Hour)
	require.Zero(t, age(), "there is none")
	r.table.Seek(r.p(0), 1, -1)
	require.Negative(t, age())
}

// readyCuts returns cuts of partitions, each with so many records.
func (r *rig) readyCuts(partitions int32, each int) []Cut {
	r.assign(partitions)
	var answers []ans
	for p := range partitions {
		answers = append(answers, ans{partition: p, records: v2(0, each)})
	}
	r.fetch(answers...)
	r.decode()
	cuts := r.table.Take(int(partitions)*each, nil)
	require.Len(r.t, cuts, int(partitions))
	return cuts
}

// measureCuts does all that is done for metrics when cuts are handed over.
func (r *rig) measureCuts(cuts []Cut) {
	for i := range cuts {
		r.table.countHandedOver(cuts[i].p, &cuts[i], cuts[i].Len())
	}
	r.table.Measure(time.Now())
}

func TestMeasuringAllocatesNothing(t *testing.T) {
	r := newRig(t, withMetrics)
	cuts := r.readyCuts(10, 50)
	r.measureCuts(cuts)
	require.Zero(t, testing.AllocsPerRun(100, func() { r.measureCuts(cuts) }))
}

// What a Poll of 500 records pays, the default: it must be at most 2 ns for each record.
// An iterator pays it for each cut, and nothing for each record.
func BenchmarkMeasuring(b *testing.B) {
	for name, partitions := range map[string]int32{"one partition": 1, "ten partitions": 10} {
		b.Run(name, func(b *testing.B) {
			const records = 500
			r := newRig(b, withMetrics)
			cuts := r.readyCuts(partitions, records/int(partitions))
			for b.Loop() {
				r.measureCuts(cuts)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
		})
	}
}

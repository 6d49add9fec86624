package fetch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// large batches of one partition: each more than may be decoded ahead.
func bigBatches(from, n int64) (records []byte) {
	for i := range n {
		records = append(records, v2(from+10*i, 10, large(60_000))...)
	}
	return records
}

func TestDecodingRunsOneBatchAhead(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: bigBatches(0, 3)})
	r.decode()
	require.True(t, r.p(0).undecoded())
	require.Equal(t, names(0, 0, 9), r.take(100))
	r.decode()
	require.Equal(t, names(0, 10, 19), r.take(100))
	r.decode()
	require.Equal(t, names(0, 20, 29), r.take(100))
	require.Zero(t, r.table.buffered)
}

func TestDecodingWaitsForRoomUnlessNothingIsReady(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxBufferedBytes = 1000 })
	r.assign(3)
	r.fetch(ans{records: v2(0, 10, large(100))}, ans{partition: 1, records: v2(0, 10, large(100))},
		ans{partition: 2, records: v2(0, 10, large(100))})
	task, ok := r.table.NextDecode()
	require.True(t, ok, "nothing is there for the application: its head passes")
	task.Run()
	r.table.DecodeDone(&task)
	_, ok = r.table.NextDecode()
	require.False(t, ok, "no room, and the application has something")
	require.Equal(t, names(0, 0, 9), r.take(100))
	require.True(t, r.table.HasUndecoded())
	r.decode()
	require.Equal(t, names(1, 0, 9), r.take(100), "first come, first served")
	r.decode()
	require.Equal(t, names(2, 0, 9), r.take(100))
}

func TestPausedPartitionsMakeRoomFirst(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxBufferedBytes = 3000 })
	r.assign(2)
	r.fetch(ans{records: v2(0, 10, large(400))}, ans{partition: 1})
	r.decode()
	require.Equal(t, names(0, 0, 2), r.take(3))
	r.table.SetPaused(r.p(0), true)
	require.LessOrEqual(t, r.table.room(), int64(0))

	s := r.table.Session(1)
	hungry, _ := r.table.Hungry(s, r.now)
	require.True(t, hungry)
	r.plan(1, newest)
	require.Zero(t, r.table.buffered)
	r.answer(s, ans{partition: 1, records: v2(0, 5)})
	require.Equal(t, names(1, 0, 4), r.drain())

	r.table.SetPaused(r.p(0), false)
	require.EqualValues(t, 3, r.position(0))
	require.Equal(t, int64(3), asked(&r.plan(1, newest).Request)[0], "it is fetched again from the position")
	r.answer(s, ans{records: v2(0, 10, large(400))})
	require.Equal(t, names(0, 3, 9), r.drain())
}

func TestPausedPartitionKeepsWhatWasFetchedAsLongAsThereIsRoom(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	r.fetch(ans{records: slices.Concat(v2(0, 10), v2(10, 10))}, ans{partition: 1})
	r.decode()
	r.table.SetPaused(r.p(0), true)
	s := r.plan(1, newest)
	require.Equal(t, []int32{0}, forgotten(&s.Request))
	require.Empty(t, r.take(100))
	r.answer(s)
	r.table.SetPaused(r.p(0), false)
	require.Equal(t, names(0, 0, 19), r.drain())
	require.Equal(t, map[int32]int64{0: 20}, asked(&r.plan(1, newest).Request))
}

// The records before a fault go with the paused partition's batches, so the fault has to
// wait for them.
func TestFaultOfAPausedPartitionWhoseRecordsWereDroppedComesAgainBehindThem(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxBufferedBytes = 3000 })
	r.assign(2)
	damaged := v2(10, 2, func(b *batch.V2) { b.Attributes = new(int16(7)) })
	records := slices.Concat(v2(0, 10, large(400)), damaged)
	r.fetch(ans{records: records}, ans{partition: 1})
	r.decode()
	r.table.SetPaused(r.p(0), true)
	r.answer(r.plan(1, newest))
	r.table.SetPaused(r.p(0), false)
	require.Empty(t, r.table.Faults())
	require.Equal(t, int64(0), asked(&r.plan(1, newest).Request)[0])
	r.answer(r.table.Session(1), ans{records: records})
	require.Equal(t, names(0, 0, 9), r.drain())
	require.Error(t, r.fault())
}

func TestTakeIsFair(t *testing.T) {
	for name, tc := range map[string]struct {
		have  []int
		limit int
		least []int
	}{
		"an equal share":                {[]int{100, 100, 100, 100}, 40, []int{10, 10, 10, 10}},
		"more where others lack":        {[]int{2, 100, 3, 100}, 40, []int{2, 10, 3, 10}},
		"all there is":                  {[]int{5, 6, 7, 8}, 100, []int{5, 6, 7, 8}},
		"fewer records than partitions": {[]int{9, 9, 9, 9}, 2, []int{1, 1, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.assign(4)
			var answers []ans
			for i, n := range tc.have {
				answers = append(answers, ans{partition: int32(i), records: v2(0, n)})
			}
			r.fetch(answers...)
			r.decode()
			got := make([]int, 4)
			cuts := r.table.Take(tc.limit, nil)
			for _, c := range cuts {
				got[c.TP().Partition] += c.Len()
			}
			sum := 0
			for i := range got {
				sum += got[i]
				require.GreaterOrEqual(t, got[i], tc.least[i], "%v", got)
			}
			require.Equal(t, min(tc.limit, tc.have[0]+tc.have[1]+tc.have[2]+tc.have[3]), sum)
		})
	}
}

func TestEachPartitionHasItsTurn(t *testing.T) {
	r := newRig(t)
	r.assign(3)
	r.fetch(ans{records: v2(0, 10)}, ans{partition: 1, records: v2(0, 10)}, ans{partition: 2, records: v2(0, 10)})
	r.decode()
	var got []string
	for range 6 {
		got = append(got, r.take(1)...)
	}
	require.Equal(t, []string{"0/0", "1/0", "2/0", "0/1", "1/1", "2/1"}, got)
}

func TestTakeGoesOnInTheNextSegment(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	gzip := func(b *batch.V2) { b.Codec = batch.Gzip }
	r.fetch(ans{records: slices.Concat(v2(0, 5), v2(5, 5, gzip), v2(10, 5))})
	r.decode()
	require.Equal(t, names(0, 0, 6), r.take(7))
	require.EqualValues(t, 7, r.position(0))
	require.Equal(t, names(0, 7, 14), r.take(100))
}

func TestSeekVoidsWhatWasTaken(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: v2(0, 10)})
	r.decode()
	cuts := r.table.Take(5, nil)
	r.table.Seek(r.p(0), 3, -1)
	require.False(t, r.table.HandOver(&cuts[0], 5))
	require.EqualValues(t, 3, r.position(0))
	require.Empty(t, r.take(10))
	require.Zero(t, r.table.buffered)
}

func TestWhatIsDoneFollowsTheApplicationsComingBack(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: slices.Concat(v2(0, 10), v2(10, 5, func(b *batch.V2) { b.Records, b.LastOffsetDelta = nil, new(int32(4)) }))})
	r.decode()
	require.Len(t, r.take(4), 4)
	require.EqualValues(t, 0, r.table.Done()[tpOf(0)].Offset)
	r.table.CameBack()
	require.EqualValues(t, 4, r.table.Done()[tpOf(0)].Offset)
	require.Len(t, r.take(6), 6)
	require.EqualValues(t, 15, r.position(0), "behind offsets that hold nothing")
	require.EqualValues(t, 4, r.table.Done()[tpOf(0)].Offset)
	r.table.CameBack()
	require.Equal(t, Offset{15, 5, idOf("t")}, r.table.Done()[tpOf(0)])
	r.table.MarkCommitted(tpOf(0), 15, idOf("t"))
	require.Empty(t, r.table.Done())
}

func TestRecordsHandedOverOneByOneAreDoneWithTheNext(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: v2(0, 10)})
	r.decode()
	live := r.table.SetLive(r.table.Take(10, nil)[0])
	done := func() int64 { return r.table.Done()[tpOf(0)].Offset }
	require.EqualValues(t, 0, r.position(0))
	for i := range int64(9) {
		live.Yielded.Store(i)
		require.EqualValues(t, i+1, r.position(0))
		require.EqualValues(t, i, done())
	}
	require.True(t, r.table.LiveValid())
	r.table.EndLive()
	require.Equal(t, []string{"0/9"}, r.take(10))
	require.EqualValues(t, 8, done())
	r.table.CameBack()
	require.EqualValues(t, 10, done())
}

func TestSeekAndLossEndWhatIsLive(t *testing.T) {
	for name, do := range map[string]func(r *rig){
		"seek":  func(r *rig) { r.table.Seek(r.p(0), 2, -1) },
		"pause": func(r *rig) { r.table.SetPaused(r.p(0), true) },
		"hold":  func(r *rig) { r.table.Hold(tpOf(0)) },
		"loss":  func(r *rig) { r.table.Remove(tpOf(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.assign(1)
			r.fetch(ans{records: v2(0, 10)})
			r.decode()
			live := r.table.SetLive(r.table.Take(10, nil)[0])
			live.Yielded.Store(4)
			do(r)
			require.False(t, r.table.LiveValid())
			switch name {
			case "seek":
				require.EqualValues(t, 2, r.position(0))
			case "pause", "hold":
				require.EqualValues(t, 5, r.position(0))
			}
		})
	}
}

// At most 65,536 records are indexed at a time.
func TestBatchOfVeryManyRecords(t *testing.T) {
	const n = 150_000
	for _, codec := range []batch.Codec{batch.None, batch.Gzip} {
		t.Run(fmt.Sprint(codec), func(t *testing.T) {
			r := newRig(t)
			r.assign(1)
			r.fetch(ans{hw: n + 5, records: slices.Concat(
				v2(0, n, func(b *batch.V2) { b.Codec, b.Records = codec, numbered(n, 0) }), v2(n, 5))})
			r.decode()
			next := int64(0)
			for next < n+5 {
				r.decode()
				cuts := r.table.Take(10_000, nil)
				require.NotEmpty(t, cuts)
				for i := range cuts {
					c := &cuts[i]
					for k := c.From; k < c.To; k++ {
						require.Equal(t, next, c.Seg.Offset(k))
						next++
					}
					require.True(t, r.table.HandOver(c, c.Len()))
				}
				require.Equal(t, next, r.position(0))
			}
			require.Zero(t, r.table.buffered)
			require.Zero(t, r.p(0).ahead)
		})
	}
}

func TestMemoryIsCountedUntilTheLastRecordIsHandedOver(t *testing.T) {
	for _, codec := range []batch.Codec{batch.None, batch.LZ4} {
		r := newRig(t)
		r.assign(1)
		records := v2(0, 100, large(1000), func(b *batch.V2) { b.Codec = codec })
		r.fetch(ans{records: records})
		require.EqualValues(t, len(records), r.table.buffered)
		r.decode()
		require.GreaterOrEqual(t, r.table.buffered, int64(100_000))
		require.Less(t, r.table.buffered, int64(115_000))
		require.Len(t, r.take(99), 99)
		require.GreaterOrEqual(t, r.table.buffered, int64(100_000))
		require.Len(t, r.take(1), 1)
		require.Zero(t, r.table.buffered)
	}
}

func TestRunsOfBatchesShareABuffer(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	var records []byte
	for i := range int64(40) {
		records = append(records, v2(10*i, 10, large(10_000))...)
	}
	records = append(records, v2(400, 10, large(70_000))...)
	records = append(records, v2(410, 10, func(b *batch.V2) { b.Codec = batch.Gzip })...)
	r.fetch(ans{records: records})
	chunks := r.p(0).chunks.all()
	for _, c := range chunks[:len(chunks)-2] {
		require.LessOrEqual(t, len(c.data), pieceSize)
	}
	require.Len(t, chunks, 8+2)
	require.Greater(t, len(chunks[8].data), pieceSize, "a large batch alone")
	require.True(t, chunks[9].compressed)
}

func TestReadCommittedHidesAbortedRecords(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.ReadCommitted = true })
	r.assign(1)
	bad, good := batch.Producer{ID: 1}, batch.Producer{ID: 2}
	txn := func(base int64, p *batch.Producer) []byte {
		return v2(base, 2, func(b *batch.V2) { b.Producer, b.Transactional = p, true })
	}
	mark := func(base int64, p batch.Producer, commit bool) []byte {
		m := batch.Marker(base, p, commit)
		m.LeaderEpoch = 5
		return m.Bytes()
	}
	r.fetch(ans{hw: 30, lso: 9, records: slices.Concat(txn(0, &bad), txn(2, &good), txn(4, &bad), mark(6, good, true), mark(7, bad, false), txn(8, &bad)[:20]),
		aborted: []protocol.AbortedTxn{{ProducerID: 1, FirstOffset: 0}}})
	require.Equal(t, names(0, 2, 3), r.drain())
	require.EqualValues(t, 8, r.position(0))
	lag, known := r.table.Lag(r.p(0))
	require.True(t, known)
	require.EqualValues(t, 1, lag, "to the last stable offset")
}

// So little is decoded on the spot that waking another goroutine would take longer.
func TestLittleToDecode(t *testing.T) {
	few, compressed := v2(0, 3), v2(0, 3, func(b *batch.V2) { b.Codec = batch.Gzip })
	for name, c := range map[string]struct {
		answers []ans
		little  bool
	}{
		"nothing":       {nil, false},
		"a few records": {[]ans{{records: few}, {partition: 1, records: few}}, true},
		"compressed":    {[]ans{{records: few}, {partition: 1, records: compressed}}, false},
		"many":          {[]ans{{records: v2(0, 10, large(900))}, {partition: 1, records: v2(0, 10, large(900))}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.assign(2)
			r.fetch(c.answers...)
			require.Equal(t, c.little, r.table.HasLittleUndecoded())
		})
	}
}

package fetch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

func TestNextFetchIsKnownBeforeDecoding(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: slices.Concat(v2(0, 10), v2(10, 5, func(b *batch.V2) { b.LastOffsetDelta = new(int32(20)) }), v2(31, 2)[:40])})
	require.Equal(t, map[int32]int64{0: 31}, asked(&r.plan(1, newest).Request), "behind the last whole batch")
	require.Zero(t, r.position(0))
}

func withBase(b []byte, base int64) []byte {
	b = slices.Clone(b)
	binary.BigEndian.PutUint64(b, uint64(base))
	return b
}

func withEpoch(b []byte, epoch int32) []byte {
	b = slices.Clone(b)
	binary.BigEndian.PutUint32(b[12:], uint32(epoch))
	return b
}

// What the checksum does not cover and what it does, damaged once and for ever.
func TestDamagedHeadersNeverSkipRepeatOrReset(t *testing.T) {
	good := [][]byte{v2(0, 10), v2(10, 10), v2(20, 10)}
	set := func(at int, value ...byte) func([]byte) []byte {
		return func(b []byte) []byte {
			b = slices.Clone(b)
			copy(b[at:], value)
			return b
		}
	}
	damages := map[string]func([]byte) []byte{
		"a base offset beyond the log":           func(b []byte) []byte { return withBase(b, 1<<40) },
		"a base offset of the batch before":      func(b []byte) []byte { return withBase(b, 3) },
		"a negative base offset":                 func(b []byte) []byte { return withBase(b, -7) },
		"the largest base offset":                func(b []byte) []byte { return withBase(b, math.MaxInt64) },
		"a length beyond the answer":             set(8, 0x00, 0x10),
		"a length below a header":                set(8, 0, 0, 0, 3),
		"a negative length":                      set(8, 0xff),
		"another magic":                          set(16, 1),
		"an unknown magic":                       set(16, 9),
		"a wrong checksum":                       set(17, 1, 2, 3, 4),
		"a last offset beyond the log":           set(23, 0x00, 0x7f),
		"a negative last offset":                 set(23, 0xff),
		"a last offset before the one asked for": set(26, 0),
		"another codec":                          set(22, 1),
		"a control bit":                          set(22, 1<<5),
		"a record count":                         set(57, 0x70),
	}
	for name, damage := range damages {
		for at := range good {
			if at == 0 && name == "a base offset of the batch before" {
				continue // there is none
			}
			damaged := slices.Clone(good)
			damaged[at] = damage(good[at])
			t.Run(fmt.Sprintf("%s of batch %d, once", name, at), func(t *testing.T) {
				damagedOnce(t, good, damaged, at)
			})
			t.Run(fmt.Sprintf("%s of batch %d", name, at), func(t *testing.T) {
				damagedForEver(t, damaged, at)
			})
		}
	}
}

func damagedOnce(t *testing.T, good, damaged [][]byte, at int) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{hw: 30, records: slices.Concat(damaged...)})
	r.decode()
	require.Equal(t, map[int32]int64{0: int64(10 * at)}, r.next(), "it is fetched once more")
	require.Empty(t, r.table.Faults())
	r.answer(r.table.Session(1), ans{hw: 30, records: slices.Concat(good[at:]...)})
	require.Equal(t, names(0, 0, 29), r.drain())
	require.Empty(t, reportsOf(r.table.TakeReports(), ReportReset))
	require.EqualValues(t, 30, r.position(0))
}

func damagedForEver(t *testing.T, damaged [][]byte, at int) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{hw: 30, records: slices.Concat(damaged...)})
	r.decode()
	before := int64(10 * at)
	for range 2 { // a length that is wrong makes a batch that was cut, at first
		require.Empty(t, r.table.Faults())
		require.Equal(t, map[int32]int64{0: before}, r.next())
		r.answer(r.table.Session(1), ans{hw: 30, records: slices.Concat(damaged[at:]...)})
		if r.decode(); r.p(0).tail.kind == tailFault {
			break
		}
	}
	require.Equal(t, names(0, 0, before-1), r.drain(), "those before it come first")
	require.ErrorIs(t, r.fault(), protocol.ErrCorrupt)
	require.Equal(t, before, r.position(0))
	fault, ok := errors.AsType[*protocol.BatchError](r.fault())
	require.True(t, ok)
	require.LessOrEqual(t, fault.BaseOffset, int64(30))
	require.LessOrEqual(t, fault.Next, int64(31), "no one shall seek there")
	r.idle(1)
	require.Empty(t, reportsOf(r.table.TakeReports(), ReportReset))
	r.table.Seek(r.p(0), 30, -1)
	require.Equal(t, map[int32]int64{0: 30}, asked(&r.plan(1, newest).Request))
}

// next plans a request, with waits where an error asks for it, and returns where the
// broker is to read the only partition, whether it has to be told so or knows.
func (r *rig) next() map[int32]int64 {
	r.t.Helper()
	for range 5 {
		if s := r.table.Session(1); r.table.Plan(s, newest, r.now) {
			for _, m := range s.members {
				return map[int32]int64{m.tp.Partition: m.wire.FetchOffset}
			}
		}
		r.now = r.now.Add(time.Second)
	}
	require.Fail(r.t, "nothing is asked for")
	return nil
}

func TestEpochThatCannotBeIsNotAskedFor(t *testing.T) {
	for epoch, want := range map[int32]int32{5: 5, 6: -1, 99: -1, 4: 5, -1: 5, math.MinInt32: 5} {
		r := newRig(t)
		r.assign(1)
		r.fetch(ans{records: slices.Concat(v2(0, 5), withEpoch(v2(5, 5), epoch))})
		s := r.plan(1, newest)
		require.Equal(t, want, s.Wire.Topics[0].Partitions[0].LastFetchedEpoch, "after epoch %d", epoch)
	}
}

func TestWrapperWithoutOffsetWaitsForItsDecoding(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	wrapper := batch.Wrapper{Magic: 0, Codec: batch.Gzip, Offset: new(int64), Messages: []batch.Message{
		{Offset: 0, Value: []byte("a")}, {Offset: 1, Value: []byte("b")}, {Offset: 2, Value: []byte("c")},
	}}
	r.answer(r.plan(1, 10), ans{records: wrapper.Bytes()}, ans{partition: 1})
	s := r.plan(1, 10)
	require.Empty(t, asked(&s.Request))
	require.Equal(t, []int32{0}, forgotten(&s.Request))
	r.answer(s)
	r.decode()
	require.Equal(t, map[int32]int64{0: 3}, asked(&r.plan(1, 10).Request), "nobody polled")
	require.Equal(t, names(0, 0, 2), r.drain())
	require.Empty(t, r.table.Faults())
}

// A high watermark that was told before the records were found says nothing of them.
func TestRecordsBehindAnOlderHighWatermarkWaitForTheirDecoding(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	r.fetch(ans{hw: none, records: v2(0, 10)}, ans{partition: 1})
	require.Empty(t, asked(&r.plan(1, newest).Request))
	r.answer(r.table.Session(1))
	r.decode()
	require.Equal(t, map[int32]int64{0: 10}, asked(&r.plan(1, newest).Request))
	require.Equal(t, names(0, 0, 9), r.drain())
}

func TestErrorAtASpeculativeOffsetIsActedOnOnlyAfterDecoding(t *testing.T) {
	diverging := &protocol.EpochEndOffset{Epoch: 4, EndOffset: 0}
	for name, a := range map[string]ans{
		"out of range": {code: protocol.OffsetOutOfRange},
		"a divergence": {diverging: diverging},
		"corrupt":      {code: protocol.CorruptMessage},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.assign(1)
			r.fetch(ans{records: v2(0, 10, func(b *batch.V2) { b.LastOffsetDelta = new(int32(500)) })})
			s := r.plan(1, newest)
			require.Equal(t, map[int32]int64{0: 501}, asked(&s.Request))
			r.answer(s, a)
			require.False(t, r.table.Plan(s, newest, r.now))
			require.Empty(t, r.table.TakeReports())
			r.decode()
			require.Equal(t, map[int32]int64{0: 501}, asked(&r.plan(1, newest).Request), "asked again, now for sure")
			require.Equal(t, names(0, 0, 9), r.take(100))
		})
	}
}

func TestErrorBehindADamagedBatchIsForgotten(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	damaged := slices.Clone(v2(0, 10))
	damaged[25] = 1 // last offset delta
	r.fetch(ans{records: damaged})
	s := r.plan(1, newest)
	require.Equal(t, map[int32]int64{0: 266}, asked(&s.Request))
	r.answer(s, ans{code: protocol.OffsetOutOfRange})
	r.decode()
	require.Equal(t, map[int32]int64{0: 0}, asked(&r.plan(1, newest).Request))
	r.answer(s, ans{records: v2(0, 10)})
	require.Equal(t, names(0, 0, 9), r.drain())
	require.Empty(t, r.table.TakeReports())
}

// A decoding that a seek made void ends late.
func TestErrorDuringAVoidDecodingIsActedOnInTheEnd(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: v2(0, 10)})
	task, ok := r.table.NextDecode()
	require.True(t, ok)
	r.table.Seek(r.p(0), 5000, -1)
	r.fetch(ans{code: protocol.OffsetOutOfRange})
	task.Run()
	r.table.DecodeDone(&task)
	r.fetch(ans{code: protocol.OffsetOutOfRange})
	lookups, _ := r.table.WantResets(r.now)
	require.Len(t, lookups, 1)
}

func TestWhatWillBeTheSameAgainIsAFaultAtOnce(t *testing.T) {
	for name, b := range map[string][]byte{
		"an unknown codec": v2(3, 2, func(b *batch.V2) { b.Attributes = new(int16(7)) }),
		"a batch too large": v2(3, 2, func(b *batch.V2) {
			b.Codec, b.Payload = batch.Gzip, make([]byte, 4*mib)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(l *Limits) { l.MaxBatchBytes = mib })
			r.assign(1)
			r.fetch(ans{records: slices.Concat(v2(0, 3), b, v2(5, 3))})
			require.Equal(t, names(0, 0, 2), r.drain())
			fault, ok := errors.AsType[*protocol.BatchError](r.fault())
			require.True(t, ok)
			require.EqualValues(t, 3, fault.BaseOffset)
			next, known := fault.NextOffset()
			require.True(t, known)
			require.EqualValues(t, 5, next)
			require.EqualValues(t, 3, r.position(0))
			r.idle(1)
			_, told := r.table.NewFault()
			require.True(t, told)
			_, told = r.table.NewFault()
			require.False(t, told, "once")
		})
	}
}

func TestBatchesThatMakeNoProgressAreAnError(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.table.Seek(r.p(0), 10, -1)
	for range 2 {
		require.Empty(t, r.table.Faults())
		require.Equal(t, map[int32]int64{0: 10}, r.next())
		r.answer(r.table.Session(1), ans{records: v2(0, 5)})
		require.Empty(t, r.drain())
	}
	require.ErrorIs(t, r.fault(), protocol.ErrCorrupt)
	require.EqualValues(t, 10, r.position(0))
}

func TestFirstBatchOfAnAnswerThatIsCutIsAnError(t *testing.T) {
	for _, n := range []int{1, 16, 17, 60, 100} {
		r := newRig(t)
		r.assign(1)
		for range 2 {
			require.Empty(t, r.table.Faults())
			require.Equal(t, map[int32]int64{0: 0}, r.next())
			r.answer(r.table.Session(1), ans{records: v2(0, 10)[:n]})
			r.decode()
		}
		require.ErrorIs(t, r.fault(), protocol.ErrCorrupt, "after %d bytes", n)
		r.idle(1)
	}
}

func TestBatchCutBehindAnotherPartitionsRecordsComesLater(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	for i := range int64(4) {
		r.fetch(ans{partition: 1, records: v2(10*i, 10)}, ans{records: v2(0, 10)[:50]})
		require.Equal(t, names(1, 10*i, 10*i+9), r.drain())
	}
	r.fetch(ans{records: v2(0, 10)})
	require.Equal(t, names(0, 0, 9), r.drain())
}

func TestOutOfRangeWaitsForTheRecordsBeforeIt(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: v2(0, 10)})
	r.decode()
	r.fetch(ans{code: protocol.OffsetOutOfRange})
	require.Empty(t, r.table.TakeReports())
	lookups, _ := r.table.WantResets(r.now)
	require.Empty(t, lookups)
	require.Equal(t, names(0, 0, 9), r.drain())
	lookups, _ = r.table.WantResets(r.now)
	require.Len(t, lookups, 1)
	r.table.ResetFound(lookups[0], 3, 5)
	report := reportsOf(r.table.TakeReports(), ReportReset)[0]
	require.Equal(t, "offset 10 is out of range", report.Reason)
	require.EqualValues(t, 3, report.To)
	require.EqualValues(t, 10, report.From)
}

func TestOutOfRangeWithoutAPolicyKeepsThePosition(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.Policy = func() Policy { return PolicyNone } })
	r.assign(1)
	r.table.Seek(r.p(0), 400, -1)
	r.fetch(ans{code: protocol.OffsetOutOfRange})
	missing, ok := errors.AsType[*NoPositionError](r.fault())
	require.True(t, ok)
	require.Equal(t, NoPositionError{OutOfRange: true, Offset: 400}, *missing)
	require.EqualValues(t, 400, r.position(0))
}

func TestDivergence(t *testing.T) {
	end := &protocol.EpochEndOffset{Epoch: 4, EndOffset: 6}
	setUp := func(policy Policy, handedOver int) *rig {
		r := newRig(t, func(l *Limits) { l.Policy = func() Policy { return policy } })
		r.assign(1)
		r.fetch(ans{records: v2(0, 10)})
		r.decode()
		require.Len(t, r.take(handedOver), handedOver)
		r.fetch(ans{diverging: end})
		return r
	}
	t.Run("in what is buffered", func(t *testing.T) {
		r := setUp(PolicyNone, 4)
		require.Empty(t, r.table.Faults())
		s := r.plan(1, newest)
		require.Equal(t, map[int32]int64{0: 4}, asked(&s.Request))
		require.EqualValues(t, 4, s.Wire.Topics[0].Partitions[0].LastFetchedEpoch)
		require.Empty(t, r.drain())
		require.Empty(t, reportsOf(r.table.TakeReports(), ReportReset))
	})
	t.Run("before the position, with a policy", func(t *testing.T) {
		r := setUp(TimeLatest, 8)
		require.Equal(t, map[int32]int64{0: 6}, asked(&r.plan(1, newest).Request))
		report := reportsOf(r.table.TakeReports(), ReportReset)[0]
		require.EqualValues(t, 8, report.From)
		require.EqualValues(t, 6, report.To)
	})
	t.Run("before the position, without one", func(t *testing.T) {
		r := setUp(PolicyNone, 8)
		truncation, ok := errors.AsType[*TruncationError](r.fault())
		require.True(t, ok)
		require.Equal(t, TruncationError{Offset: 8, Divergent: 6, Epoch: 4, Known: true}, *truncation)
		require.EqualValues(t, 8, r.position(0))
		r.idle(1)
	})
}

// A broker that refuses the offsets it told of itself.
func TestResetsInARowWait(t *testing.T) {
	for name, a := range map[string]ans{
		"out of range": {code: protocol.OffsetOutOfRange},
		"a divergence": {diverging: &protocol.EpochEndOffset{Epoch: 4, EndOffset: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.assign(1)
			began, requests := r.now, 0
			for r.now.Before(began.Add(10 * time.Second)) {
				if s := r.table.Session(1); r.table.Plan(s, newest, r.now) {
					requests++
					r.answer(s, a)
				}
				lookups, retry := r.table.WantResets(r.now)
				for _, l := range lookups {
					r.table.ResetFound(l, 0, 5)
				}
				if hungry, due := r.table.Hungry(r.table.Session(1), r.now); len(lookups) == 0 && !hungry {
					if retry.IsZero() {
						retry = due
					}
					require.False(t, retry.IsZero())
					r.now = retry
				}
			}
			require.Less(t, requests, 25)
		})
	}
}

func TestEpochOfAClusterThatWasBuiltAnewIsNotAskedFor(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{records: v2(0, 5)})
	r.lead(1, 0, tpOf(0))
	s := r.plan(1, newest)
	require.EqualValues(t, -1, s.Wire.Topics[0].Partitions[0].LastFetchedEpoch)
	require.EqualValues(t, 0, s.Wire.Topics[0].Partitions[0].CurrentLeaderEpoch)
}

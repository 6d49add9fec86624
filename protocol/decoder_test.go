package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

const noLimit = 1 << 30

func TestBatchesOfEveryFormatInOneAnswer(t *testing.T) {
	var inner [][]byte
	for i, r := range numbered(2, 3) {
		r.offset = int64(i)
		inner = append(inner, message(1, 0, r))
	}
	want := numbered(0, 12)
	want[0].timestamp, want[1].timestamp = -1, -1
	src := bytes.Join([][]byte{
		message(0, 0, want[0]),
		message(0, 0, want[1]),
		wrapper(1, CodecGzip, 0, 4, 0, inner...),
		batch{base: 5, recs: want[5:8]}.encode(),
		batch{base: 8, codec: CodecLZ4, recs: want[8:10]}.encode(),
		batch{base: 10, codec: CodecZstd, recs: want[10:12]}.encode(),
		batch{base: 12, recs: numbered(12, 3)}.encode()[:40],
	}, nil)
	segs, left, err := decodeAll(new(Decoder), src, noLimit)
	require.NoError(t, err)
	require.Len(t, left, 40)
	requireRecs(t, want, allRecs(segs))
	require.Len(t, segs, 4, "compressed and uncompressed batches share no segment")
	require.Equal(t, []int64{2, 5, 8, 12}, nextOffsets(segs))
	require.Equal(t, []bool{true, false, true, false}, aliasing(segs))
}

func nextOffsets(segs []*Segment) (out []int64) {
	for _, s := range segs {
		out = append(out, s.NextOffset())
	}
	return out
}

func aliasing(segs []*Segment) (out []bool) {
	for _, s := range segs {
		out = append(out, s.AliasesSource())
	}
	return out
}

func TestPositionPassesWhatHoldsNoRecord(t *testing.T) {
	gap := numbered(15, 3)
	tests := []struct {
		name string
		src  [][]byte
		want []rec
		next int64
	}{
		{
			"a batch whose records were all compacted away",
			[][]byte{
				batch{recs: numbered(0, 5)}.encode(),
				batch{base: 5, lastDelta: 4}.encode(),
				batch{base: 10, recs: numbered(10, 5)}.encode(),
			},
			append(numbered(0, 5), numbered(10, 5)...), 15,
		},
		{"such a batch alone", [][]byte{batch{base: 5, lastDelta: 4}.encode()}, nil, 10},
		{"such a batch with the codec that it had", [][]byte{batch{base: 5, lastDelta: 4, codec: CodecLZ4}.encode()}, nil, 10},
		{"a batch whose last records were compacted away", [][]byte{batch{base: 15, recs: gap, lastDelta: 4}.encode()}, gap, 20},
		{"a control batch", [][]byte{marker(7, 1, 0)}, nil, 8},
		{"a compressed control batch between plain ones", [][]byte{
			batch{recs: numbered(0, 2)}.encode(),
			batch{base: 2, codec: CodecGzip, attributes: controlBit, recs: markerRecs(2, 0)}.encode(),
			batch{base: 3, recs: numbered(3, 1)}.encode(),
		}, append(numbered(0, 2), numbered(3, 1)...), 4},
		{"a control batch between compressed ones", [][]byte{
			batch{codec: CodecZstd, recs: numbered(0, 2)}.encode(),
			marker(2, 1, 0),
			batch{base: 3, codec: CodecSnappy, recs: numbered(3, 1)}.encode(),
		}, append(numbered(0, 2), numbered(3, 1)...), 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := bytes.Join(tt.src, nil)
			s, n, err := new(Decoder).Decode(src, noLimit)
			require.NoError(t, err)
			require.Equal(t, len(src), n)
			requireRecs(t, tt.want, recsOf(s))
			require.Equal(t, tt.next, s.NextOffset())
		})
	}
}

func markerRecs(offset int64, kind uint16) []rec {
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	return []rec{{offset: offset, key: key, value: []byte{0, 0, 0, 0, 0, 9}}}
}

// marker is the control batch that ends a transaction: kind 0 aborts it.
func marker(offset, producer int64, kind uint16) []byte {
	return batch{base: offset, producer: producer, attributes: controlBit | transactionalBit, recs: markerRecs(offset, kind)}.encode()
}

func transactional(base, producer int64, n int) []byte {
	return batch{base: base, producer: producer, attributes: transactionalBit, recs: numbered(base, n)}.encode()
}

func TestReadCommitted(t *testing.T) {
	log := bytes.Join([][]byte{
		transactional(0, 1, 2),
		transactional(2, 2, 2),
		marker(4, 1, 0),
		transactional(5, 1, 2),
		marker(7, 2, 1),
		marker(8, 1, 0),
		batch{base: 9, producer: 1, recs: numbered(9, 1)}.encode(), // idempotent, not transactional
		transactional(10, 1, 1),
		marker(11, 1, 0),
	}, nil)
	tests := []struct {
		name    string
		decoder Decoder
		aborted []AbortedTxn
		want    []int64
	}{
		{"uncommitted reads take no notice of the list", Decoder{}, []AbortedTxn{{1, 0}, {2, 2}, {1, 10}}, []int64{0, 1, 2, 3, 5, 6, 9, 10}},
		{"no list means none aborted", Decoder{ReadCommitted: true}, nil, []int64{0, 1, 2, 3, 5, 6, 9, 10}},
		{"a transaction ends with its marker", Decoder{ReadCommitted: true}, []AbortedTxn{{1, 0}}, []int64{2, 3, 5, 6, 9, 10}},
		{"lists come in any order", Decoder{ReadCommitted: true}, []AbortedTxn{{1, 10}, {2, 2}, {1, 0}}, []int64{5, 6, 9}},
		{"a first offset inside a batch", Decoder{ReadCommitted: true}, []AbortedTxn{{2, 3}}, []int64{0, 1, 5, 6, 9, 10}},
		{"what the producer wrote outside of transactions stays", Decoder{ReadCommitted: true}, []AbortedTxn{{1, 9}}, []int64{0, 1, 2, 3, 5, 6, 9}},
		{"a commit marker aborts nothing", Decoder{ReadCommitted: true}, []AbortedTxn{{2, 0}, {1, 10}}, []int64{0, 1, 5, 6, 9}},
		{"a first offset behind the marker", Decoder{ReadCommitted: true}, []AbortedTxn{{1, 5}}, []int64{0, 1, 2, 3, 9, 10}},
	}
	for _, tt := range tests {
		for _, limit := range []int{1, noLimit} {
			t.Run(fmt.Sprintf("%s, limit %d", tt.name, limit), func(t *testing.T) {
				d := tt.decoder
				aborted := append([]AbortedTxn(nil), tt.aborted...)
				d.BeginAnswer(aborted)
				clear(aborted) // was copied
				segs, left, err := decodeAll(&d, log, limit)
				require.NoError(t, err)
				require.Empty(t, left)
				var got []int64
				for _, r := range allRecs(segs) {
					got = append(got, r.offset)
				}
				require.Equal(t, tt.want, got)
				require.Equal(t, int64(12), segs[len(segs)-1].NextOffset())
			})
		}
	}
}

func TestProducerStateEndsWithItsAnswer(t *testing.T) {
	d := Decoder{ReadCommitted: true}
	d.BeginAnswer([]AbortedTxn{{1, 0}})
	s, _, err := d.Decode(transactional(0, 1, 2), noLimit)
	require.NoError(t, err)
	require.Zero(t, s.Len())

	d.BeginAnswer(nil)
	s, _, err = d.Decode(transactional(2, 1, 2), noLimit)
	require.NoError(t, err)
	require.Equal(t, 2, s.Len())

	d.BeginAnswer([]AbortedTxn{{1, 0}})
	d.Reset()
	s, _, err = d.Decode(transactional(2, 1, 2), noLimit)
	require.NoError(t, err)
	require.Equal(t, 2, s.Len())
}

func TestAbortedBatchesAreNotDecompressed(t *testing.T) {
	d := Decoder{ReadCommitted: true}
	d.BeginAnswer([]AbortedTxn{{1, 0}})
	src := batch{producer: 1, attributes: transactionalBit, codec: CodecZstd, lastDelta: 3, compressed: []byte("no zstd")}.encode()
	s, n, err := d.Decode(src, noLimit)
	require.NoError(t, err)
	require.Equal(t, len(src), n)
	require.Equal(t, int64(4), s.NextOffset())
}

func TestTimestamps(t *testing.T) {
	r := rec{timestamp: 70}
	stamped := r
	stamped.timestamp = 90
	tests := []struct {
		name string
		src  []byte
		want int64
		kind TimestampType
	}{
		{"v2 create time", batch{baseStamp: 50, maxStamp: 90, recs: []rec{r}}.encode(), 70, CreateTime},
		{"v2 before the base", batch{baseStamp: 80, maxStamp: 90, recs: []rec{r}}.encode(), 70, CreateTime},
		{"v2 log append time", batch{attributes: logAppendTimeBit, baseStamp: 50, maxStamp: 90, recs: []rec{r}}.encode(), 90, LogAppendTime},
		{"v2 with a delete horizon as base", batch{attributes: 0x40, baseStamp: 5000, maxStamp: 90, recs: []rec{r}}.encode(), 70, CreateTime},
		{"v2 far from the base", batch{baseStamp: math.MinInt64, recs: []rec{r}}.encode(), 70, CreateTime},
		{"v1 create time", message(1, 0, r), 70, CreateTime},
		{"v1 log append time", message(1, logAppendTimeBit, r), 70, LogAppendTime},
		{"v1 wrapper leaves create times alone", wrapper(1, CodecGzip, 0, 1, 90, message(1, 0, r)), 70, CreateTime},
		{"v1 wrapper's log append time is everyone's", wrapper(1, CodecGzip, logAppendTimeBit, 1, 90, message(1, 0, r)), 90, LogAppendTime},
		{"v0 has none", message(0, 0, r), -1, NoTimestamp},
		{"v0 wrapper has none", wrapper(0, CodecGzip, 0, 0, 0, message(0, 0, r)), -1, NoTimestamp},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _, err := new(Decoder).Decode(tt.src, noLimit)
			require.NoError(t, err)
			require.Equal(t, 1, s.Len())
			require.Equal(t, tt.want, s.Timestamp(0))
			require.Equal(t, tt.kind, s.TimestampType(0))
		})
	}
}

func TestOffsetsInsideWrappers(t *testing.T) {
	set := func(magic int8, offsets ...int64) (out [][]byte) {
		for _, o := range offsets {
			out = append(out, message(magic, 0, rec{offset: o}))
		}
		return out
	}
	tests := []struct {
		name   string
		magic  int8
		offset int64
		inner  []int64
		want   []int64
		next   int64
	}{
		{"v1 are relative to the last", 1, 12, []int64{0, 1, 2}, []int64{10, 11, 12}, 13},
		{"v1 compacted in front", 1, 12, []int64{5, 7}, []int64{10, 12}, 13},
		{"v1 absolute ones come out the same", 1, 12, []int64{11, 12}, []int64{11, 12}, 13},
		{"v1 under an offset of 0", 1, 0, []int64{0, 1, 2}, []int64{0, 1, 2}, 3},
		{"v0 are absolute", 0, 12, []int64{10, 11, 12}, []int64{10, 11, 12}, 13},
		{"v0 compacted at the end", 0, 12, []int64{7, 10}, []int64{7, 10}, 13},
		{"v0 under an offset of 0", 0, 0, []int64{10, 11}, []int64{10, 11}, 12},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := wrapper(tt.magic, CodecSnappy, 0, tt.offset, 0, set(tt.magic, tt.inner...)...)
			h, err := ParseBatchHeader(src)
			require.NoError(t, err)
			s, _, err := new(Decoder).Decode(src, noLimit)
			require.NoError(t, err)
			var got []int64
			for i := range s.Len() {
				got = append(got, s.Offset(i))
			}
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.next, s.NextOffset())
			if tt.offset == 0 {
				require.Equal(t, int64(-1), h.NextOffset, "the header cannot tell")
			} else {
				require.Equal(t, tt.next, h.NextOffset)
			}
		})
	}
}

func TestMessageChecksums(t *testing.T) {
	r := rec{offset: 3, key: []byte("k"), value: []byte("v")}
	for magic := range int8(2) {
		plain := message(magic, 0, r)
		want := binary.BigEndian.Uint32(plain[12:])
		for _, src := range [][]byte{plain, wrapper(magic, CodecLZ4, 0, 3, 0, plain)} {
			s, _, err := new(Decoder).Decode(src, noLimit)
			require.NoError(t, err)
			got, ok := s.Checksum(0)
			require.True(t, ok)
			require.Equal(t, want, got)
			require.Equal(t, int32(-1), s.LeaderEpoch(0))
		}
	}
	s, _, err := new(Decoder).Decode(batch{epoch: 5, recs: []rec{r}, base: 3}.encode(), noLimit)
	require.NoError(t, err)
	_, ok := s.Checksum(0)
	require.False(t, ok)
	require.Equal(t, int32(5), s.LeaderEpoch(0))
	require.Equal(t, int32(5), s.LastEpoch())
}

func TestManyHeaders(t *testing.T) {
	want := []rec{{}, {}, {value: []byte("after")}}
	for i := range 2000 {
		want[0].headers = append(want[0].headers, recHeader{fmt.Appendf(nil, "key%d", i%3), []byte{0xc3, 0x28}})
	}
	big := bytes.Repeat([]byte("x"), 70<<10) // beyond what an index entry measures
	want[1].headers = []recHeader{{[]byte("a"), big}, {[]byte(""), nil}, {[]byte("a"), []byte{}}}
	s, _, err := new(Decoder).Decode(batch{recs: want}.encode(), noLimit)
	require.NoError(t, err)
	requireRecs(t, want, recsOf(s))
	require.Equal(t, []int{2000, 3, 0}, []int{s.HeaderCount(0), s.HeaderCount(1), s.HeaderCount(2)})
	requireSlicesCapped(t, s)
	n := 0
	for key, value := range s.Headers(1).All() {
		require.Equal(t, want[1].headers[n], recHeader{[]byte(key), value})
		n++
	}
	require.Equal(t, 3, n)
	require.Nil(t, s.HeaderBytes(2))
}

func TestLimitStopsBetweenBatches(t *testing.T) {
	one := batch{recs: numbered(0, 10)}.encode()
	for _, codec := range []Codec{CodecNone, CodecLZ4} {
		var src []byte
		for i := range 6 {
			src = append(src, batch{base: int64(10 * i), codec: codec, recs: numbered(int64(10*i), 10)}.encode()...)
		}
		tests := []struct {
			name  string
			limit int
			segs  int
		}{
			{"no room at all takes one batch", 0, 6},
			{"nor does a negative one", -5, 6},
			{"room for two", 2*len(one) + 5, 3},
			{"room for all", noLimit, 1},
		}
		for _, tt := range tests {
			t.Run(codec.String()+": "+tt.name, func(t *testing.T) {
				limit := tt.limit
				if codec != CodecNone && limit > 0 && limit < noLimit {
					limit = (len(one) - 61) + 1 // decompressed bytes, reached by the second
				}
				segs, left, err := decodeAll(new(Decoder), src, limit)
				require.NoError(t, err)
				require.Empty(t, left)
				require.Len(t, segs, tt.segs)
				requireRecs(t, numbered(0, 60), allRecs(segs))
			})
		}
	}
}

func TestSegmentsHoldOffsetsInOrder(t *testing.T) {
	src := bytes.Join([][]byte{
		batch{base: 10, recs: numbered(10, 2)}.encode(),
		batch{base: 5, recs: numbered(5, 2)}.encode(),
	}, nil)
	segs, _, err := decodeAll(new(Decoder), src, noLimit)
	require.NoError(t, err)
	require.Equal(t, []int64{12, 7}, nextOffsets(segs))
}

func TestSearch(t *testing.T) {
	recs := numbered(10, 4)
	recs[3].offset = 20
	s, _, err := new(Decoder).Decode(batch{base: 10, recs: recs}.encode(), noLimit)
	require.NoError(t, err)
	for offset, want := range map[int64]int{0: 0, 10: 0, 11: 1, 13: 3, 20: 3, 21: 4} {
		require.Equal(t, want, s.Search(offset), "offset %d", offset)
	}
}

func TestBatchesFarApartShareASegment(t *testing.T) {
	far := int64(1) << 40
	src := bytes.Join([][]byte{
		batch{recs: numbered(0, 2)}.encode(),
		batch{base: far, epoch: 3, recs: numbered(far, 2)}.encode(),
		message(1, 0, rec{offset: 2 * far}),
	}, nil)
	s, n, err := new(Decoder).Decode(src, noLimit)
	require.NoError(t, err)
	require.Equal(t, len(src), n)
	requireRecs(t, append(append(numbered(0, 2), numbered(far, 2)...), rec{offset: 2 * far}), recsOf(s))
	require.Equal(t, []int32{0, 0, 3, 3, -1}, []int32{s.LeaderEpoch(0), s.LeaderEpoch(1), s.LeaderEpoch(2), s.LeaderEpoch(3), s.LeaderEpoch(4)})
}

func TestMoreRecordsThanAnIndexHolds(t *testing.T) {
	const n = 2*maxIndexedRecords + 10
	recs := numbered(5, n)
	var inner [][]byte
	for _, r := range recs {
		inner = append(inner, message(1, 0, r))
	}
	for name, src := range map[string][]byte{
		"plain":      batch{base: 5, epoch: 4, recs: recs}.encode(),
		"compressed": batch{base: 5, epoch: 4, codec: CodecLZ4, recs: recs}.encode(),
		"wrapper":    wrapper(1, CodecSnappy, 0, 5+n-1, 0, inner...),
	} {
		t.Run(name, func(t *testing.T) {
			src = append(src, batch{base: 5 + n, recs: numbered(5+n, 1)}.encode()...)
			segs, left, err := decodeAll(new(Decoder), src, noLimit)
			require.NoError(t, err)
			require.Empty(t, left)
			require.Len(t, segs, 2)
			first := segs[0]
			more := first.More()
			require.Equal(t, maxIndexedRecords, first.Len())
			require.Equal(t, maxIndexedRecords, more.Len())
			require.Equal(t, 10, more.More().Len())
			require.Nil(t, more.More().More())
			require.Equal(t, first.Offset(first.Len()-1)+1, first.NextOffset())
			require.Equal(t, int64(5+n), more.More().NextOffset())
			require.Equal(t, first.LastEpoch(), more.LastEpoch())
			requireRecs(t, recs, recsOf(first))
		})
	}
}

func TestIndexIsNotOverfilledByManyBatches(t *testing.T) {
	var src []byte
	const each = 30000
	for i := range 4 {
		src = append(src, batch{base: int64(i * each), recs: numbered(int64(i*each), each)}.encode()...)
	}
	segs, left, err := decodeAll(new(Decoder), src, noLimit)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, []int64{2 * each, 4 * each}, nextOffsets(segs))
	requireRecs(t, numbered(0, 4*each), allRecs(segs))
}

func TestReleaseHandsMemoryOn(t *testing.T) {
	src := batch{codec: CodecLZ4, recs: numbered(0, 1000)}.encode()
	var d Decoder
	for range 50 {
		a, _, err := d.Decode(src, noLimit)
		require.NoError(t, err)
		b, _, err := d.Decode(src, noLimit)
		require.NoError(t, err)
		a.Release()
		a.Release() // harmless
		require.Zero(t, a.Len())
		c, _, err := d.Decode(src, noLimit)
		require.NoError(t, err)
		requireRecs(t, numbered(0, 1000), recsOf(b))
		requireRecs(t, numbered(0, 1000), recsOf(c))
		b.Release()
		c.Release()
	}
}

func TestReleaseWaitsForMore(t *testing.T) {
	src := batch{codec: CodecSnappy, recs: numbered(0, maxIndexedRecords+5)}.encode()
	others := numbered(0, maxIndexedRecords+5) // which fit into the same bytes
	for i := range others {
		others[i].value = []byte("not mine")
	}
	var d Decoder
	first, _, err := d.Decode(src, noLimit)
	require.NoError(t, err)
	more := first.More()
	first.Release()
	other, _, err := d.Decode(batch{codec: CodecSnappy, recs: others}.encode(), noLimit)
	require.NoError(t, err)
	requireRecs(t, numbered(maxIndexedRecords, 5), recsOf(more))
	more.Release()
	other.Release()
}

func TestSizeCountsWhatASegmentHolds(t *testing.T) {
	const records = 100
	plain := batch{recs: numbered(0, records)}.encode()
	index := int64(records * entrySize)
	s, _, err := new(Decoder).Decode(plain, noLimit)
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.Size(), index)
	require.LessOrEqual(t, s.Size(), 2*index)

	s, _, err = new(Decoder).Decode(batch{codec: CodecGzip, recs: numbered(0, records)}.encode(), noLimit)
	require.NoError(t, err)
	data := int64(len(plain) - v2RecordsAt)
	require.GreaterOrEqual(t, s.Size(), index+data)
	require.LessOrEqual(t, s.Size(), 2*(index+data))

	s, _, err = new(Decoder).Decode(marker(7, 1, 0), noLimit)
	require.NoError(t, err)
	require.Zero(t, s.Size())
	require.False(t, s.AliasesSource())
}

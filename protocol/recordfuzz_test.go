package protocol

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// requireSound checks what a decoder promises whatever it was given.
func requireSound(t *testing.T, src []byte, segs []*Segment, left []byte, err error) {
	t.Helper()
	for _, s := range segs {
		for ; s != nil; s = s.More() {
			last := int64(-1)
			for i := range s.Len() {
				require.GreaterOrEqual(t, s.Offset(i), last)
				last = s.Offset(i)
				_, _, _ = s.Key(i), s.Value(i), s.HeaderBytes(i)
				_, _ = s.Checksum(i)
				it := s.Headers(i)
				n := it.Left()
				require.Equal(t, n, s.HeaderCount(i))
				for range n {
					_, _, ok := it.Next()
					require.True(t, ok)
				}
			}
			require.Greater(t, s.NextOffset(), last)
			require.LessOrEqual(t, s.Len(), maxIndexedRecords)
		}
	}
	if err != nil {
		var fault *BatchError
		require.ErrorAs(t, err, &fault)
	} else if len(left) >= MinBatchPeek {
		h, err := ParseBatchHeader(left)
		require.NoError(t, err)
		require.Greater(t, h.Size, len(left), "only a cut batch is left alone")
	}
	require.LessOrEqual(t, len(left), len(src))
}

// FuzzDecode skips checksums, so that changed bytes reach the parsers.
func FuzzDecode(f *testing.F) {
	for _, file := range goldenFiles(f) {
		raw, err := os.ReadFile(file)
		require.NoError(f, err)
		if len(raw) < 1500 {
			f.Add(raw, uint8(len(raw)))
		}
	}
	f.Add(marker(3, 1, 0), uint8(1))
	f.Add(append(transactional(0, 1, 3), marker(3, 1, 0)...), uint8(3))
	f.Add(batch{recs: []rec{{headers: []recHeader{{[]byte("k"), nil}, {[]byte("k"), []byte("v")}}}}}.encode(), uint8(3))
	f.Fuzz(func(t *testing.T, src []byte, limit uint8) {
		d := Decoder{SkipCRC: true, ReadCommitted: limit&1 != 0, MaxBatchBytes: 1 << 20}
		d.BeginAnswer([]AbortedTxn{{1, 0}})
		segs, left, err := decodeAll(&d, src, int(limit)*64)
		requireSound(t, src, segs, left, err)
	})
}

// FuzzRecords compares the two ways to read a record, and both with kmsg.
func FuzzRecords(f *testing.F) {
	f.Add(batch{recs: numbered(0, 5)}.encode()[v2RecordsAt:], uint8(5))
	f.Add(batch{recs: goldenRecs(2, 8, 0, 0)}.encode()[v2RecordsAt:], uint8(8))
	f.Add([]byte{12, 0, 0, 0, 1, 1, 0}, uint8(1))
	f.Fuzz(func(t *testing.T, payload []byte, n uint8) {
		fast := recordWalk{data: payload, end: len(payload), last: 1 << 20, stamp: 7}
		slow := fast
		got, want := make([]entry, n), make([]entry, n)
		errFast := fast.index(got)
		var errSlow error
		for i := 0; i < len(want) && errSlow == nil; i++ {
			errSlow = slow.one(&want[i])
		}
		require.Equal(t, errSlow, errFast)
		if errSlow != nil {
			return
		}
		require.Equal(t, want, got)
		require.Equal(t, slow, fast)
		pos := 0
		for i := range got {
			length, start := varint32(payload, pos)
			pos = start + length
			requireKmsgRecord(t, payload[start-varintLen(length):pos], &got[i], payload)
		}
	})
}

func varintLen(n int) int { return len(binary.AppendVarint(nil, int64(n))) }

func requireKmsgRecord(t *testing.T, raw []byte, e *entry, data []byte) {
	t.Helper()
	s := Segment{data: data, index: []entry{*e}, runs: []run{{magic: 2}}}
	length, pos := binary.Varint(raw)
	if pos <= 0 || int(length) != len(raw)-pos {
		return // not the shortest way to write the length
	}
	var k kmsg.Record
	require.NoError(t, k.ReadFrom(raw))
	requireSameRecord(t, &k, &s, 0, 7)
}

func requireSameRecord(t *testing.T, k *kmsg.Record, s *Segment, i int, stamp int64) {
	t.Helper()
	require.Equal(t, int64(k.OffsetDelta), s.Offset(i)-s.runs[s.index[i].run].base)
	require.Equal(t, stamp+k.TimestampDelta64, s.Timestamp(i))
	require.Equal(t, k.Key, s.Key(i))
	require.Equal(t, k.Value, s.Value(i))
	require.Equal(t, len(k.Headers), s.HeaderCount(i))
	it := s.Headers(i)
	for _, h := range k.Headers {
		key, value, ok := it.Next()
		require.True(t, ok)
		require.Equal(t, h.Key, string(key))
		require.Equal(t, h.Value, value)
	}
}

// randomBytes is null, empty or of a length around where varints grow.
func randomBytes(r *rand.Rand) []byte {
	lengths := []int{-1, 0, 1, 10, 62, 63, 64, 65, 500, 8190, 8191, 8192, 8193}
	n := lengths[r.IntN(len(lengths))]
	if n < 0 {
		return nil
	}
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

func randomBatch(r *rand.Rand) *kmsg.RecordBatch {
	k := &kmsg.RecordBatch{Magic: 2, PartitionLeaderEpoch: r.Int32N(9), FirstOffset: r.Int64N(1 << 50), FirstTimestamp: r.Int64N(1 << 42), ProducerID: -1}
	deltas := []int32{1, 1, 1, 2, 70, 9000, 1 << 21}
	offset := r.Int32N(3)
	k.NumRecords = 1 + r.Int32N(40)
	for range k.NumRecords {
		rec := kmsg.Record{OffsetDelta: offset, Key: randomBytes(r), Value: randomBytes(r)}
		rec.TimestampDelta64 = []int64{0, 1, -1, 63, 64, 9000, -9000, 1 << 21, 1 << 40, -1 << 40}[r.IntN(10)]
		for range r.IntN(3) * r.IntN(3) {
			rec.Headers = append(rec.Headers, kmsg.Header{Key: string(randomBytes(r)), Value: randomBytes(r)})
		}
		one := rec.AppendTo(nil)
		rec.Length = int32(len(one) - 1)
		k.Records = append(k.Records, rec.AppendTo(nil)...)
		k.LastOffsetDelta = offset
		offset += deltas[r.IntN(len(deltas))]
	}
	return k
}

// kmsg reads what it wrote itself in its own way: an oracle.
func TestRecordsAreWhatKmsgReads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		k := randomBatch(r)
		k.Length = int32(49 + len(k.Records))
		raw := fixCRC(k.AppendTo(nil))
		var again kmsg.RecordBatch
		require.NoError(t, again.ReadFrom(raw))
		s, n, err := new(Decoder).Decode(raw, noLimit)
		require.NoError(t, err)
		require.Equal(t, len(raw), n)
		require.Equal(t, int(again.NumRecords), s.Len())
		require.Equal(t, again.PartitionLeaderEpoch, s.LastEpoch())
		require.Equal(t, again.FirstOffset+int64(again.LastOffsetDelta)+1, s.NextOffset())
		rest := again.Records
		for i := range s.Len() {
			length, m := binary.Varint(rest)
			var rec kmsg.Record
			require.NoError(t, rec.ReadFrom(rest[:m+int(length)]))
			requireSameRecord(t, &rec, s, i, again.FirstTimestamp)
			rest = rest[m+int(length):]
		}
		require.Empty(t, rest)
	}
}

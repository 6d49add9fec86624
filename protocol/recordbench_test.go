package protocol

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchLog is half a megabyte or so of batches of 64 KiB with JSON-like
// records, and how many records that is.
func benchLog(size, headers int, codec Codec) (log []byte, records int) {
	r := rand.New(rand.NewPCG(3, 4))
	perBatch := max(1, 64<<10/(size+12+24*headers))
	for records < 8*perBatch {
		b := batch{base: int64(records), codec: codec}
		for i := range perBatch {
			one := rec{offset: b.base + int64(i), timestamp: int64(i / 16), key: fmt.Appendf(nil, "key-%06d", i), value: benchValue(r, size)}
			for h := range headers {
				one.headers = append(one.headers, recHeader{fmt.Appendf(nil, "header-%d", h), []byte("some value")})
			}
			b.recs = append(b.recs, one)
		}
		log = append(log, b.encode()...)
		records += perBatch
	}
	return log, records
}

func benchValue(r *rand.Rand, size int) []byte {
	var out []byte
	for len(out) < size {
		out = fmt.Appendf(out, `{"id":%d,"name":"user-%d","active":true},`, r.IntN(1e9), r.IntN(1000))
	}
	return out[:size]
}

func BenchmarkDecode(b *testing.B) {
	for _, codec := range []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd} {
		for _, size := range []int{10, 100, 1 << 10} {
			for _, headers := range []int{0, 2} {
				log, records := benchLog(size, headers, codec)
				for _, release := range []bool{false, true} {
					name := fmt.Sprintf("%v/%dB/%dheaders/release=%v", codec, size, headers, release)
					b.Run(name, func(b *testing.B) { benchDecode(b, log, records, release) })
				}
			}
		}
	}
}

func BenchmarkDecodeOneRecordBatches(b *testing.B) {
	var log []byte
	const records = 3000
	for i := range records {
		log = append(log, batch{base: int64(i), recs: []rec{{offset: int64(i), value: bytes.Repeat([]byte("v"), 100)}}}.encode()...)
	}
	benchDecode(b, log, records, false)
}

func benchDecode(b *testing.B, log []byte, records int, release bool) {
	var d Decoder
	b.ReportAllocs()
	b.SetBytes(int64(len(log)))
	var sum int
	for b.Loop() {
		for src := log; len(src) > 0; {
			s, n, err := d.Decode(src, 512<<10)
			if err != nil || n == 0 {
				b.Fatal(n, err)
			}
			sum += s.Len()
			src = src[n:]
			if release {
				s.Release()
			}
		}
	}
	require.Equal(b, b.N*records, sum)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sum), "ns/record")
}

// BenchmarkSegment reads every record the way that a consumer does.
func BenchmarkSegment(b *testing.B) {
	log, _ := benchLog(100, 2, CodecNone)
	s, _, err := new(Decoder).Decode(log, noLimit)
	require.NoError(b, err)
	var sum int64
	for b.Loop() {
		for i := range s.Len() {
			sum += s.Offset(i) + s.Timestamp(i) + int64(len(s.Key(i))+len(s.Value(i))+len(s.HeaderBytes(i))) + int64(s.LeaderEpoch(i))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.Len()), "ns/record")
}

// The cost of a segment must not depend on how many records it holds.
func TestDecodeAllocatesPerCallNotPerRecord(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector lets pools drop what they are given")
	}
	oneRecordBatches := func(n int) (out []byte) {
		for i := range n {
			out = append(out, batch{base: int64(i), recs: numbered(int64(i), 1)}.encode()...)
		}
		return out
	}
	messages := func(n int) (out []byte) {
		for _, r := range numbered(0, n) {
			out = append(out, message(1, 0, r)...)
		}
		return out
	}
	set := func(n int) []byte {
		return wrapper(1, CodecLZ4, 0, int64(n-1), 0, messages(n))
	}
	v2 := func(codec Codec) func(n int) []byte {
		return func(n int) []byte { return batch{codec: codec, recs: numbered(0, n)}.encode() }
	}
	for name, encode := range map[string]func(int) []byte{
		"v2": v2(CodecNone), "v2 gzip": v2(CodecGzip), "v2 snappy": v2(CodecSnappy), "v2 lz4": v2(CodecLZ4), "v2 zstd": v2(CodecZstd),
		"batches of one record": oneRecordBatches, "v1 messages": messages, "v1 wrapper": set,
	} {
		t.Run(name, func(t *testing.T) {
			few, many := decodeAllocs(t, encode(10)), decodeAllocs(t, encode(10000))
			require.Equal(t, few, many)
			require.LessOrEqual(t, many, 6.0)
		})
	}
}

func decodeAllocs(t *testing.T, src []byte) float64 {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	var d Decoder
	return testing.AllocsPerRun(50, func() {
		s, n, err := d.Decode(src, noLimit)
		if err != nil || n != len(src) || s.Len() == 0 {
			t.Error(n, err)
		}
	})
}

package protocol

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goldenDir = "../testdata/records"

// goldenRecs are the records that testdata/records/generate.py writes.
func goldenRecs(magic, count int, base int64, scale int) []rec {
	out := make([]rec, count)
	for i := range out {
		r := rec{offset: base + int64(i), timestamp: -1}
		if magic > 0 {
			r.timestamp = 1600000000000 + 13*int64(i)
		}
		if i%7 != 3 {
			r.key = fmt.Appendf(nil, "key-%d", i)
		}
		switch i % 5 {
		case 4:
		case 3:
			r.value = []byte{}
		default:
			r.value = bytes.Repeat(fmt.Appendf(nil, "value-%d ", i), 1+i*scale)
		}
		if magic == 2 {
			r.headers = goldenHeaders(i)
		}
		out[i] = r
	}
	return out
}

func goldenHeaders(i int) []recHeader {
	if i == 6 {
		return []recHeader{{[]byte{}, []byte("no key")}, {[]byte("键"), []byte("chinese")}, {[]byte("键"), []byte("again")}}
	}
	var out []recHeader
	for n := range i % 4 {
		value := [][]byte{nil, {}, {0xc3, 0x28}, []byte("plain")}[(i+n)%4]
		out = append(out, recHeader{fmt.Appendf(nil, "h%d", n), value})
	}
	return out
}

func goldenFiles(t testing.TB) []string {
	files, err := filepath.Glob(goldenDir + "/*.bin")
	require.NoError(t, err)
	require.Greater(t, len(files), 30)
	return files
}

func goldenWant(name string) []rec {
	count, base, scale := 25, int64(100), 0
	if strings.HasSuffix(name, "offset-0.bin") {
		base = 0
	}
	for _, big := range []string{"lz4-", "chunks", "zstd-"} {
		if strings.Contains(name, big) {
			count, scale = 60, 10
		}
	}
	return goldenRecs(int(name[1]-'0'), count, base, scale)
}

func TestGoldenBatches(t *testing.T) {
	for _, file := range goldenFiles(t) {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			src := bytes.Clone(raw)
			s, n, err := new(Decoder).Decode(src, 1<<20)
			require.NoError(t, err)
			require.Equal(t, len(raw), n)
			if !strings.Contains(name, "-none") {
				clear(src) // a compressed batch does not refer to its source
				require.False(t, s.AliasesSource())
			}
			want := goldenWant(name)
			requireRecs(t, want, recsOf(s))
			require.Equal(t, want[len(want)-1].offset+1, s.NextOffset())
			requireSlicesCapped(t, s)
		})
	}
}

func requireSlicesCapped(t *testing.T, s *Segment) {
	t.Helper()
	for i := range s.Len() {
		require.Equal(t, len(s.Key(i)), cap(s.Key(i)))
		require.Equal(t, len(s.Value(i)), cap(s.Value(i)))
		require.Equal(t, len(s.HeaderBytes(i)), cap(s.HeaderBytes(i)))
	}
}

// A response may end anywhere: what is whole is decoded, the rest left alone.
func TestGoldenBatchesCutAtEveryByte(t *testing.T) {
	for _, file := range goldenFiles(t) {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		whole := batchEnds(t, raw)
		step := 1 + len(raw)/1000
		for cut := 0; cut < len(raw); cut += step {
			s, n, err := new(Decoder).Decode(raw[:cut:cut], 1<<20)
			require.NoError(t, err)
			require.Equal(t, whole[cut], n, "%s cut to %d", file, cut)
			require.Equal(t, n == 0, s == nil)
		}
	}
}

// batchEnds tells for each length how many bytes of whole batches it holds.
func batchEnds(t *testing.T, raw []byte) []int {
	out := make([]int, len(raw)+1)
	for end := 0; end < len(raw); {
		h, err := ParseBatchHeader(raw[end:])
		require.NoError(t, err)
		end += h.Size
		for i := end; i < len(out); i++ {
			out[i] = end
		}
	}
	return out
}

// A flipped bit is seen by the checksum, or lies in a field that it does not
// cover: offset, leader epoch, or a length that then says the batch is cut.
func TestGoldenBatchesWithEachByteFlipped(t *testing.T) {
	for _, file := range goldenFiles(t) {
		name := filepath.Base(file)
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		h, err := ParseBatchHeader(raw)
		require.NoError(t, err)
		step := 1 + len(raw)/1000 // every byte of the small ones
		for i := 0; i < h.Size; i += step {
			for _, bit := range []byte{0x01, 0x80} {
				src := bytes.Clone(raw[:h.Size])
				src[i] ^= bit
				s, n, err := new(Decoder).Decode(src, 1<<20)
				covered := i >= 16 || h.Magic < 2 && i >= 12
				var fault *BatchError
				switch {
				case i == 16: // an unknown format, or one whose fields stand elsewhere
					require.Error(t, err, name)
				case i >= 8 && i < 12:
					require.Zero(t, n, name)
				case covered:
					require.ErrorAs(t, err, &fault, "%s byte %d", name, i)
					require.ErrorIs(t, err, ErrCorrupt)
					require.Zero(t, n)
					require.Nil(t, s)
				case err == nil:
					require.Equal(t, h.Size, n)
				}
				_, _, _ = (&Decoder{SkipCRC: true}).Decode(src, 1<<20)
			}
		}
	}
}

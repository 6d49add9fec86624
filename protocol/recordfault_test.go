package protocol

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

// payloadOf is a v2 batch of one record with these bytes and a good checksum.
func payloadOf(payload ...byte) []byte {
	return batch{base: 10, lastDelta: 5, payload: payload, count: func(int) int32 { return 1 }}.encode()
}

func withCount(n int32) []byte {
	return batch{base: 10, recs: numbered(10, 3), count: func(int) int32 { return n }}.encode()
}

// patch overwrites bytes of a batch and fixes its checksum.
func patch(raw []byte, at int, b ...byte) []byte {
	raw = bytes.Clone(raw)
	copy(raw[at:], b)
	return fixCRC(raw)
}

func compressedBytes(codec Codec, b []byte) []byte {
	return batch{base: 10, codec: codec, recs: numbered(10, 3), compressed: b}.encode()
}

func repeated(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

func TestFaultyBatches(t *testing.T) {
	plain := message(1, 0, rec{offset: 4, key: []byte("k"), value: []byte("v")})
	v2 := batch{base: 10, recs: numbered(10, 3)}.encode()
	zeros := compressWith(CodecGzip, nil)
	tests := []struct {
		name string
		src  []byte
		want error
	}{
		{"record count -1", withCount(-1), ErrCorrupt},
		{"record count 2^31-1", withCount(math.MaxInt32), ErrCorrupt},
		{"fewer records than the count", withCount(4), ErrCorrupt},
		{"more records than the count", withCount(2), ErrCorrupt},
		{"records in a batch of count 0", withCount(0), ErrCorrupt},
		{"last offset delta negative", patch(v2, 23, 0x80), ErrCorrupt},
		{"last offset delta below the records'", patch(v2, 26, 1), ErrCorrupt},
		{"offset beyond 63 bits", patch(v2, 0, 0x7f, 255, 255, 255, 255, 255, 255, 254), ErrCorrupt},
		{"offset negative", patch(v2, 0, 0x80), ErrCorrupt},
		{"length below the header's size", patch(v2, 8, 0, 0, 0, 48), ErrCorrupt},
		{"length negative", patch(v2, 8, 0xff), ErrCorrupt},
		{"magic 3", patch(v2, 16, 3), ErrCorrupt},
		{"magic -1", patch(v2, 16, 255), ErrCorrupt},
		{"crc", append(bytes.Clone(v2[:len(v2)-1]), v2[len(v2)-1]^1), ErrCorrupt},
		{"codec 5", batch{base: 10, codec: 5, recs: numbered(10, 3)}.encode(), ErrCodec},

		{"record longer than the batch", payloadOf(0x7e, 0, 0, 0, 1, 1, 0), ErrCorrupt},
		{"record of negative length", payloadOf(1, 0, 0, 0, 1, 1, 0), ErrCorrupt},
		{"record of length 0", payloadOf(0, 0, 0, 0, 1, 1, 0), ErrCorrupt},
		{"record ending before its headers", payloadOf(10, 0, 0, 0, 1, 1, 0), ErrCorrupt},
		{"bytes behind the headers", payloadOf(14, 0, 0, 0, 1, 1, 0, 0), ErrCorrupt},
		{
			"a record inside another",
			batch{base: 10, lastDelta: 5, payload: []byte{26, 0, 0, 0, 1, 1, 0, 12, 0, 0, 0, 1, 1, 0}, count: func(int) int32 { return 2 }}.encode(),
			ErrCorrupt,
		},
		{"key length -2", payloadOf(12, 0, 0, 0, 3, 1, 0), ErrCorrupt},
		{"key beyond the record", payloadOf(12, 0, 0, 0, 0x7e, 1, 0), ErrCorrupt},
		{"value length -2", payloadOf(12, 0, 0, 0, 1, 3, 0), ErrCorrupt},
		{"value beyond the record", payloadOf(12, 0, 0, 0, 1, 2, 0), ErrCorrupt},
		{"offset delta negative", payloadOf(12, 0, 0, 1, 1, 1, 0), ErrCorrupt},
		{"offset delta beyond the last", payloadOf(12, 0, 0, 12, 1, 1, 0), ErrCorrupt},
		{"header count -1", payloadOf(12, 0, 0, 0, 1, 1, 1), ErrCorrupt},
		{"header count 10^9", payloadOf(append([]byte{20, 0, 0, 0, 1, 1}, 0x80, 0xa8, 0xd6, 0xb9, 7)...), ErrCorrupt},
		{"header key null", payloadOf(16, 0, 0, 0, 1, 1, 2, 1, 1), ErrCorrupt},
		{"header value beyond the record", payloadOf(16, 0, 0, 0, 1, 1, 2, 0, 2), ErrCorrupt},
		{"timestamp of 11 bytes", payloadOf(append(append([]byte{34, 0}, repeated(0x80, 10)...), 0, 0, 1, 1, 0, 0, 0)...), ErrCorrupt},
		{"length of 6 bytes", payloadOf(append([]byte{0x8c, 0x80, 0x80, 0x80, 0x80, 0}, 0, 0, 0, 1, 1, 0)...), ErrCorrupt},
		{"offset going back", batch{base: 10, lastDelta: 5, payload: []byte{12, 0, 0, 2, 1, 1, 0, 12, 0, 0, 0, 1, 1, 0}, count: func(int) int32 { return 2 }}.encode(), ErrCorrupt},
		{"control record without a type", batch{attributes: controlBit, recs: []rec{{key: []byte{0, 0}}}}.encode(), ErrCorrupt},
		{"control record with a null key", batch{attributes: controlBit, recs: []rec{{}}}.encode(), ErrCorrupt},

		{"decompressed size 0 with records", compressedBytes(CodecGzip, zeros), ErrCorrupt},
		{"nothing to decompress", compressedBytes(CodecZstd, []byte{}), ErrCorrupt},
		{"gzip that is none", compressedBytes(CodecGzip, []byte("no gzip at all")), ErrCorrupt},
		{"gzip followed by rubbish", compressedBytes(CodecGzip, append(compressWith(CodecGzip, []byte("abc")), "rubbish"...)), ErrCorrupt},
		{"gzip cut", compressedBytes(CodecGzip, compressWith(CodecGzip, repeated(1, 999))[:20]), ErrCorrupt},
		{"zstd that is none", compressedBytes(CodecZstd, []byte("no zstd at all")), ErrCorrupt},
		{"zstd cut", compressedBytes(CodecZstd, compressWith(CodecZstd, repeated(1, 999))[:15]), ErrCorrupt},
		{"zstd claiming more than its blocks hold", compressedBytes(CodecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}), ErrCorrupt},
		{"snappy claiming 4 GiB", compressedBytes(CodecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}), ErrCorrupt},
		{"xerial header cut", compressedBytes(CodecSnappy, xerial(nil, 1)[:12]), ErrCorrupt},
		{"xerial chunk running past the end", compressedBytes(CodecSnappy, append(xerial(nil, 1), 0, 0, 1, 0, 1)), ErrCorrupt},
		{"xerial chunk length of 2^32-1", compressedBytes(CodecSnappy, append(xerial(nil, 1), 255, 255, 255, 255, 1)), ErrCorrupt},
		{"xerial with bytes behind its chunks", compressedBytes(CodecSnappy, append(xerial([]byte("abc"), 9), 0)), ErrCorrupt},

		{"message crc", patchNoCRC(plain, len(plain)-1, 'w'), ErrCorrupt},
		{"message length below the header's size", patch(plain, 8, 0, 0, 0, 21), ErrCorrupt},
		{"message key length -2", patch(plain, 26, 255, 255, 255, 254), ErrCorrupt},
		{"message key beyond its end", patch(plain, 26, 0, 0, 0, 3), ErrCorrupt},
		{"message key of 2^31-1 bytes", patch(plain, 26, 127, 255, 255, 255), ErrCorrupt},
		{"message value too short", patch(plain, 31, 0, 0, 0, 0), ErrCorrupt},
		{"message value too long", patch(plain, 31, 127, 255, 255, 255), ErrCorrupt},
		{"message value length -2", patch(message(1, 0, rec{offset: 4}), 30, 255, 255, 255, 254), ErrCorrupt},
		{"message value null with bytes behind", patch(plain, 31, 255, 255, 255, 255), ErrCorrupt},
		{"wrapper in a wrapper", wrapper(1, CodecGzip, 0, 4, 0, wrapper(1, CodecGzip, 0, 4, 0, plain)), ErrCorrupt},
		{"wrapper with a null value", message(1, byte(CodecGzip), rec{offset: 4}), ErrCorrupt},
		{"wrapper of nothing", wrapper(1, CodecGzip, 0, 4, 0), ErrCorrupt},
		{"wrapper around another format", wrapper(0, CodecGzip, 0, 4, 0, plain), ErrCorrupt},
		{"wrapper with a cut message", wrapper(1, CodecGzip, 0, 4, 0, plain, plain[:30]), ErrCorrupt},
		{"wrapper with rubbish behind", wrapper(1, CodecGzip, 0, 4, 0, plain, plain[:3]), ErrCorrupt},
		{"wrapper whose message has a bad crc", wrapper(1, CodecGzip, 0, 4, 0, patchNoCRC(plain, len(plain)-1, 'w')), ErrCorrupt},
		{"wrapper with offsets going back", wrapper(1, CodecGzip, 0, 9, 0, plain, message(1, 0, rec{offset: 3})), ErrCorrupt},
		{"wrapper with a negative offset inside", wrapper(1, CodecGzip, 0, 9, 0, message(1, 0, rec{offset: -1})), ErrCorrupt},
		{"wrapper with an offset of 2^63-1 inside", wrapper(0, CodecGzip, 0, 9, 0, message(0, 0, rec{offset: math.MaxInt64})), ErrCorrupt},
		{"wrapper whose offset is too small", wrapper(1, CodecGzip, 0, 3, 0, plain), ErrCorrupt},
		{"zstd in v0", wrapper(0, CodecZstd, 0, 4, 0, message(0, 0, rec{})), ErrCodec},
		{"zstd in v1", wrapper(1, CodecZstd, 0, 4, 0, plain), ErrCodec},
		{"codec 7 in v1", message(1, 7, rec{offset: 4, value: []byte("v")}), ErrCodec},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// With bytes behind it, a record is read in the straight way first.
			before, behind := batch{recs: numbered(0, 2)}.encode(), batch{base: 20, recs: numbered(20, 2)}.encode()
			var d Decoder
			segs, left, err := decodeAll(&d, bytes.Join([][]byte{before, tt.src, behind}, nil), noLimit)
			var fault *BatchError
			require.ErrorAs(t, err, &fault)
			require.ErrorIs(t, err, tt.want)
			require.Len(t, left, len(tt.src)+len(behind), "the error is about the batch at src[n:]")
			require.Len(t, segs, 1)
			requireRecs(t, numbered(0, 2), recsOf(segs[0]))
			require.Equal(t, int64(2), segs[0].NextOffset())
			require.Equal(t, int64(binary.BigEndian.Uint64(tt.src)), fault.BaseOffset)
			if next, ok := fault.NextOffset(); ok {
				require.Greater(t, next, fault.BaseOffset)
			}

			s, n, err := d.Decode(tt.src, noLimit)
			require.Nil(t, s)
			require.Zero(t, n)
			require.ErrorIs(t, err, tt.want)
		})
	}
}

func patchNoCRC(raw []byte, at int, b ...byte) []byte {
	raw = bytes.Clone(raw)
	copy(raw[at:], b)
	return raw
}

func TestFaultTellsTheOffsetBehindTheBatch(t *testing.T) {
	src := batch{base: 40, lastDelta: 9, recs: numbered(40, 3)}.encode()
	src[len(src)-1] ^= 1
	_, _, err := new(Decoder).Decode(src, noLimit)
	var fault *BatchError
	require.ErrorAs(t, err, &fault)
	next, ok := fault.NextOffset()
	require.True(t, ok)
	require.Equal(t, int64(50), next)
	require.ErrorContains(t, err, "offset 40")

	_, _, err = new(Decoder).Decode(wrapper(1, CodecGzip, 0, 0, 0), noLimit)
	require.ErrorAs(t, err, &fault)
	_, ok = fault.NextOffset()
	require.False(t, ok, "a wrapper with offset 0 cannot tell")
}

func TestSkippedChecksums(t *testing.T) {
	v2 := batch{recs: numbered(0, 3)}.encode()
	v2[17] ^= 1
	v1 := message(1, 0, numbered(3, 1)[0])
	v1[12] ^= 1
	segs, left, err := decodeAll(&Decoder{SkipCRC: true}, append(v2, v1...), noLimit)
	require.NoError(t, err)
	require.Empty(t, left)
	requireRecs(t, numbered(0, 4), allRecs(segs))
}

// heapGrowth is how much f allocates.
func heapGrowth(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestDecompressionBombs(t *testing.T) {
	const limit = 1 << 20
	bomb := repeated(0, 64<<20)
	raw := snappy.Encode(nil, bomb)
	tests := []struct {
		name string
		src  []byte
	}{
		{"gzip", compressedBytes(CodecGzip, compressWith(CodecGzip, bomb))},
		{"zstd", compressedBytes(CodecZstd, compressWith(CodecZstd, bomb))},
		{"lz4", compressedBytes(CodecLZ4, compressWith(CodecLZ4, bomb))},
		{"snappy chunks", compressedBytes(CodecSnappy, compressWith(CodecSnappy, bomb))},
		{"snappy", compressedBytes(CodecSnappy, raw)},
		{"gzip in v1", wrapper(1, CodecGzip, 0, 4, 0, bomb)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Decoder{MaxBatchBytes: limit}
			if len(tt.src) > limit {
				d.MaxBatchBytes = len(tt.src) + limit
			}
			var err error
			growth := heapGrowth(func() { _, _, err = d.Decode(tt.src, noLimit) })
			require.ErrorIs(t, err, ErrTooLarge)
			require.Less(t, growth, uint64(6*d.MaxBatchBytes+4<<20))
		})
	}
}

func TestBatchBytesAreBounded(t *testing.T) {
	recs := numbered(0, 1000)
	for _, codec := range []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd} {
		src := batch{codec: codec, recs: recs}.encode()
		need := len(batch{recs: recs}.encode()) - v2RecordsAt + 1000*entrySize
		s, _, err := (&Decoder{MaxBatchBytes: need}).Decode(src, noLimit)
		require.NoError(t, err, codec)
		requireRecs(t, recs, recsOf(s))
		_, _, err = (&Decoder{MaxBatchBytes: need - 1}).Decode(src, noLimit)
		require.ErrorIs(t, err, ErrTooLarge, codec)
		_, _, err = (&Decoder{MaxBatchBytes: 500}).Decode(src, noLimit)
		require.ErrorIs(t, err, ErrTooLarge, codec)
	}
	_, n, err := (&Decoder{MaxBatchBytes: 1000}).Decode(batch{recs: recs}.encode()[:100], noLimit)
	require.ErrorIs(t, err, ErrTooLarge, "a cut batch that would be too large whole")
	require.Zero(t, n)
}

func TestHostileCountsDoNotAllocate(t *testing.T) {
	for name, src := range map[string][]byte{
		"records":         withCount(math.MaxInt32),
		"headers":         payloadOf(append([]byte{20, 0, 0, 0, 1, 1}, 0x80, 0xa8, 0xd6, 0xb9, 7)...),
		"snappy size":     compressedBytes(CodecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}),
		"gzip size":       compressedBytes(CodecGzip, append(compressWith(CodecGzip, []byte("abc"))[:20], 255, 255, 255, 255)),
		"zstd frame size": compressedBytes(CodecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0}),
		"lz4 block size":  compressedBytes(CodecLZ4, append(compressWith(CodecLZ4, nil)[:7], 255, 255, 255, 127)),
	} {
		growth := heapGrowth(func() {
			_, _, err := new(Decoder).Decode(src, noLimit)
			require.ErrorIs(t, err, ErrCorrupt, name)
		})
		require.Less(t, growth, uint64(1<<20), name)
	}
}

// B23
func TestLZ4HeaderChecksums(t *testing.T) {
	right := compressWith(CodecLZ4, message(0, 0, rec{value: []byte("v")}))
	wrong := bytes.Clone(right)
	end := 6
	if right[4]&lz4ContentSize != 0 {
		end += 8
	}
	wrong[end] = lz4HeaderChecksum(wrong[:end]) // KAFKA-3160
	require.NotEqual(t, right[end], wrong[end])
	neither := bytes.Clone(right)
	neither[end] = right[end] + 1
	require.NotEqual(t, wrong[end], neither[end])

	for _, tt := range []struct {
		name  string
		frame []byte
		magic int8
		ok    bool
	}{
		{"v0 over magic and descriptor", wrong, 0, true},
		{"v0 right", right, 0, true},
		{"v0 neither", neither, 0, false},
		{"v1 over magic and descriptor", wrong, 1, false},
		{"v1 right", right, 1, true},
		{"v2 over magic and descriptor", wrong, 2, false},
		{"v2 right", right, 2, true},
	} {
		out, err := unlz4(nil, tt.frame, tt.magic, 1<<20)
		if !tt.ok {
			require.ErrorIs(t, err, ErrCorrupt, tt.name)
			continue
		}
		require.NoError(t, err, tt.name)
		require.Equal(t, message(0, 0, rec{value: []byte("v")}), out, tt.name)
	}
}

func TestLZ4FramesCutAnywhere(t *testing.T) {
	var frame bytes.Buffer
	w := lz4.NewWriter(&frame)
	require.NoError(t, w.Apply(lz4.BlockChecksumOption(true), lz4.SizeOption(3000), lz4.ChecksumOption(true)))
	want := bytes.Repeat([]byte("some lz4 text. "), 200)
	_, err := w.Write(want)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	out, err := unlz4([]byte("before"), frame.Bytes(), 2, 3000)
	require.NoError(t, err)
	require.Equal(t, "before"+string(want), string(out))
	for cut := range frame.Len() {
		_, err := unlz4(nil, frame.Bytes()[:cut], 2, 1<<20)
		require.ErrorIs(t, err, ErrCorrupt, "cut to %d", cut)
	}
	out, err = unlz4(nil, bytes.Repeat(frame.Bytes(), 2), 2, 6000)
	require.NoError(t, err)
	require.Len(t, out, 6000)
	claiming := bytes.Clone(frame.Bytes())
	claiming[6]++ // the content's size
	claiming[14] = lz4HeaderChecksum(claiming[4:14])
	_, err = unlz4(nil, claiming, 2, 1<<20)
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = unlz4(nil, frame.Bytes(), 2, 2999)
	require.ErrorIs(t, err, ErrTooLarge)
}

func TestSnappyBlockThatBeginsLikeAFrame(t *testing.T) {
	want := bytes.Repeat([]byte{7}, 0x102) // its length is written 82 02
	block := snappy.Encode(nil, want)
	require.Equal(t, byte(0x82), block[0])
	out, err := unsnappy(nil, block, 1<<20)
	require.NoError(t, err)
	require.Equal(t, want, out)
}

func TestCodecNames(t *testing.T) {
	for codec, want := range map[Codec]string{CodecNone: "none", CodecGzip: "gzip", CodecSnappy: "snappy", CodecLZ4: "lz4", CodecZstd: "zstd", 6: "codec 6"} {
		require.Equal(t, want, codec.String())
	}
	require.Equal(t, "LogAppendTime CreateTime NoTimestampType", LogAppendTime.String()+" "+CreateTime.String()+" "+NoTimestamp.String())
}

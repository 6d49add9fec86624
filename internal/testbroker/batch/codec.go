package batch

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// A Codec is a compression codec by its number in the attributes.
type Codec int8

// The codecs that Kafka knows.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// String returns the codec's name in Kafka's configuration.
func (c Codec) String() string {
	if c < None || c > Zstd {
		return fmt.Sprintf("codec(%d)", int8(c))
	}
	return [...]string{"none", "gzip", "snappy", "lz4", "zstd"}[c]
}

// Compress compresses as Kafka's Java producer does for v2 batches; an unknown
// codec leaves data as it is.
func (c Codec) Compress(data []byte) []byte { return c.compressor(2)(data) }

func (c Codec) compressor(magic int8) func([]byte) []byte {
	switch c {
	case Gzip:
		return CompressGzip
	case Snappy:
		return func(b []byte) []byte { return CompressXerial(b, 32<<10, binary.BigEndian) }
	case LZ4:
		if magic == 0 {
			return func(b []byte) []byte { return LZ4WrongHeaderChecksum(CompressLZ4(b)) }
		}
		return func(b []byte) []byte { return CompressLZ4(b) }
	case Zstd:
		return CompressZstd
	}
	return func(b []byte) []byte { return b }
}

// CompressGzip returns data as one gzip member.
func CompressGzip(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	must(w.Write(data))
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// CompressSnappy returns data as one raw snappy block.
func CompressSnappy(data []byte) []byte { return snappy.Encode(nil, data) }

// CompressXerial returns data in snappy-java's framing, in chunks of so many
// bytes. The byte order is that of the two version fields: Java writes them big
// endian, some brokers little endian.
func CompressXerial(data []byte, chunk int, versions binary.AppendByteOrder) []byte {
	out := []byte("\x82SNAPPY\x00")
	out = versions.AppendUint32(out, 1)
	out = versions.AppendUint32(out, 1)
	for len(data) > 0 {
		n := min(chunk, len(data))
		block := snappy.Encode(nil, data[:n])
		out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
		out = append(out, block...)
		data = data[n:]
	}
	return out
}

// CompressLZ4 returns data as one LZ4 frame with a right header checksum.
func CompressLZ4(data []byte, opts ...lz4.Option) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(append([]lz4.Option{lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)}, opts...)...); err != nil {
		panic(err)
	}
	must(w.Write(data))
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// LZ4WrongHeaderChecksum changes a frame's header checksum into the one that
// Kafka's clients wrote into format 0: taken over the magic number as well
// (KAFKA-3160).
func LZ4WrongHeaderChecksum(frame []byte) []byte {
	out := bytes.Clone(frame)
	end := 6
	if out[4]&(1<<3) != 0 { // the content size is there
		end += 8
	}
	out[end] = byte(xxh32(out[:end]) >> 8)
	return out
}

// xxh32 is XXH32 with seed 0 for less than 16 bytes, which a frame header is.
func xxh32(b []byte) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	h := uint32(p5) + uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}

// CompressZstd returns data as one zstd frame.
func CompressZstd(data []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer func() { _ = w.Close() }()
	return w.EncodeAll(data, nil)
}

func must(_ int, err error) {
	if err != nil {
		panic(err)
	}
}

package protocol

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

// The encoders of this file are for tests: they write what they are told,
// faults included, and fix the checksums.

type recHeader struct {
	key, value []byte
}

// rec is one record, as an encoder takes it and as a segment gives it.
type rec struct {
	offset     int64
	timestamp  int64
	key, value []byte
	headers    []recHeader
}

// batch is a v2 batch. Its zero value has no records and is valid.
type batch struct {
	base       int64
	epoch      int32
	codec      Codec
	attributes int16 // besides the codec
	producer   int64
	lastDelta  int32 // 0: that of the last record
	maxStamp   int64
	baseStamp  int64
	count      func(n int) int32 // nil: n
	recs       []rec
	payload    []byte // instead of encoded recs
	compressed []byte // instead of compressed payload
}

func (b batch) encode() []byte {
	payload := b.payload
	if payload == nil {
		for _, r := range b.recs {
			payload = appendRec(payload, r, b.base, b.baseStamp)
		}
	}
	if b.compressed != nil {
		payload = b.compressed
	} else if len(payload) > 0 {
		payload = compressWith(b.codec, payload)
	}
	lastDelta := b.lastDelta
	if n := len(b.recs); n > 0 && lastDelta == 0 {
		lastDelta = int32(b.recs[n-1].offset - b.base)
	}
	count := int32(len(b.recs))
	if b.count != nil {
		count = b.count(len(b.recs))
	}
	out := binary.BigEndian.AppendUint64(nil, uint64(b.base))
	out = binary.BigEndian.AppendUint32(out, uint32(49+len(payload)))
	out = binary.BigEndian.AppendUint32(out, uint32(b.epoch))
	out = append(out, 2, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint16(out, uint16(b.attributes)|uint16(b.codec))
	out = binary.BigEndian.AppendUint32(out, uint32(lastDelta))
	out = binary.BigEndian.AppendUint64(out, uint64(b.baseStamp))
	out = binary.BigEndian.AppendUint64(out, uint64(b.maxStamp))
	out = binary.BigEndian.AppendUint64(out, uint64(b.producer))
	out = append(out, 0, 0, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(count))
	return fixCRC(append(out, payload...))
}

// fixCRC sets the checksum of the batch or message raw.
func fixCRC(raw []byte) []byte {
	if raw[16] < 2 {
		binary.BigEndian.PutUint32(raw[12:], crc32.ChecksumIEEE(raw[16:]))
	} else {
		binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return raw
}

func appendRec(dst []byte, r rec, base, baseStamp int64) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, r.timestamp-baseStamp)
	body = binary.AppendVarint(body, r.offset-base)
	body = appendVarBytes(body, r.key)
	body = appendVarBytes(body, r.value)
	body = binary.AppendVarint(body, int64(len(r.headers)))
	for _, h := range r.headers {
		body = appendVarBytes(body, h.key)
		body = appendVarBytes(body, h.value)
	}
	return append(binary.AppendVarint(dst, int64(len(body))), body...)
}

func appendVarBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

// message is one message of format v0 or v1.
func message(magic int8, attributes byte, r rec) []byte {
	out := binary.BigEndian.AppendUint64(nil, uint64(r.offset))
	out = append(out, 0, 0, 0, 0, 0, 0, 0, 0, byte(magic), attributes)
	if magic == 1 {
		out = binary.BigEndian.AppendUint64(out, uint64(r.timestamp))
	}
	for _, b := range [][]byte{r.key, r.value} {
		n := int32(len(b))
		if b == nil {
			n = -1
		}
		out = append(binary.BigEndian.AppendUint32(out, uint32(n)), b...)
	}
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	return fixCRC(out)
}

// wrapper is a compressed message set with the given offset and timestamp.
func wrapper(magic int8, codec Codec, attributes byte, offset, timestamp int64, inner ...[]byte) []byte {
	value := compressWith(codec, bytes.Join(inner, nil))
	return message(magic, attributes|byte(codec), rec{offset: offset, timestamp: timestamp, value: value})
}

func compressWith(codec Codec, b []byte) []byte {
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case CodecGzip:
		w = gzip.NewWriter(&out)
	case CodecSnappy:
		return xerial(b, 32<<10)
	case CodecLZ4:
		w = lz4.NewWriter(&out)
	case CodecZstd:
		w, _ = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	default:
		return b
	}
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func xerial(b []byte, chunk int) []byte {
	out := []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}
	for part := range slices.Chunk(b, chunk) {
		block := snappy.Encode(nil, part)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
	}
	return out
}

// recsOf reads all records out of a segment, and what follows in More.
func recsOf(s *Segment) []rec {
	var out []rec
	for ; s != nil; s = s.More() {
		for i := range s.Len() {
			r := rec{offset: s.Offset(i), timestamp: s.Timestamp(i), key: s.Key(i), value: s.Value(i)}
			it := s.Headers(i)
			for {
				key, value, ok := it.Next()
				if !ok {
					break
				}
				r.headers = append(r.headers, recHeader{key, value})
			}
			out = append(out, r)
		}
	}
	return out
}

// numbered returns n records with offsets from base on.
func numbered(base int64, n int) []rec {
	out := make([]rec, n)
	for i := range out {
		offset := base + int64(i)
		out[i] = rec{offset: offset, timestamp: 1000 + offset, key: []byte{byte(offset)}, value: binary.BigEndian.AppendUint64(nil, uint64(offset))}
	}
	return out
}

// decodeAll decodes src segment by segment, until nothing more comes.
func decodeAll(d *Decoder, src []byte, limit int) (segs []*Segment, left []byte, err error) {
	for {
		s, n, err := d.Decode(src, limit)
		if s != nil {
			segs = append(segs, s)
		}
		src = src[n:]
		if err != nil || n == 0 {
			return segs, src, err
		}
	}
}

// requireRecs tells the first difference only: a comparison of thousands of
// records at length takes minutes.
func requireRecs(t *testing.T, want, got []rec) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		if !reflect.DeepEqual(want[i], got[i]) {
			require.Equal(t, want[i], got[i], "record %d", i)
		}
	}
	require.Equal(t, len(want), len(got))
}

func allRecs(segs []*Segment) []rec {
	var out []rec
	for _, s := range segs {
		out = append(out, recsOf(s)...)
	}
	return out
}

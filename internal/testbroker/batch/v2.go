// Package batch builds Kafka record batches (v2) and message sets (v0, v1), right
// ones and, on purpose, wrong ones: every field can be overridden, and the CRC is
// computed over what results, so that only the field in question is wrong.
//
// A field of pointer type overrides what would be written; nil means the right
// value. With new(expr) that reads well: batch.V2{Count: new(int32(-1)), …}.
package batch

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// A Header is a record header. A nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// A Record is one record of a v2 batch. Nil Key and Value are null.
type Record struct {
	Key, Value []byte
	Headers    []Header
	Timestamp  time.Time // zero: the Unix epoch

	OffsetDelta    *int64 // nil: the one before plus 1, as in a batch without gaps
	TimestampDelta *int64
	Length         *int64
	KeyLength      *int64
	ValueLength    *int64
	HeaderCount    *int64
	Attributes     int8
	Raw            []byte // the whole record, length included, instead of all above but OffsetDelta
}

// A Producer is what an idempotent or transactional batch says of its producer.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32
}

// V2 is a record batch of format 2.
type V2 struct {
	BaseOffset    int64
	LeaderEpoch   int32
	Codec         Codec
	Producer      *Producer // nil: none (-1)
	Transactional bool
	Control       bool
	LogAppendTime *time.Time // set: the timestamps are log append times, and this is it
	Records       []Record

	Length          *int32
	Magic           *int8
	CRC             *uint32
	Attributes      *int16
	LastOffsetDelta *int32 // also right after compaction removed the last records
	FirstTimestamp  *int64
	MaxTimestamp    *int64
	Count           *int32
	Payload         []byte              // the records as bytes before compression
	Compress        func([]byte) []byte // instead of Codec's own, which still goes into the attributes
}

// Deltas returns the offset deltas of the records.
func (b V2) Deltas() []int64 {
	deltas := make([]int64, len(b.Records))
	delta := int64(-1)
	for i := range b.Records {
		delta = or(b.Records[i].OffsetDelta, delta+1)
		deltas[i] = delta
	}
	return deltas
}

// LastOffset returns the last offset that the header tells.
func (b V2) LastOffset() int64 { return b.BaseOffset + int64(b.lastDelta()) }

func (b V2) lastDelta() int32 {
	if b.LastOffsetDelta != nil {
		return *b.LastOffsetDelta
	}
	if len(b.Records) == 0 {
		return 0
	}
	deltas := b.Deltas()
	return int32(deltas[len(deltas)-1])
}

func or[T any](override *T, right T) T {
	if override != nil {
		return *override
	}
	return right
}

// Bytes encodes the batch.
func (b V2) Bytes() []byte {
	first, maxTime := b.times()
	payload := b.Payload
	if payload == nil {
		for i, delta := range b.Deltas() {
			r := &b.Records[i]
			payload = r.append(payload, delta, r.millis()-first)
		}
	}
	if b.Compress != nil {
		payload = b.Compress(payload)
	} else {
		payload = b.Codec.Compress(payload)
	}
	producer := or(b.Producer, Producer{-1, -1, -1})

	be := binary.BigEndian
	out := be.AppendUint64(nil, uint64(b.BaseOffset))
	out = be.AppendUint32(out, uint32(or(b.Length, int32(49+len(payload)))))
	out = be.AppendUint32(out, uint32(b.LeaderEpoch))
	out = append(out, byte(or(b.Magic, 2)))
	out = be.AppendUint32(out, 0)
	crcFrom := len(out)
	out = be.AppendUint16(out, uint16(or(b.Attributes, b.attributes())))
	out = be.AppendUint32(out, uint32(b.lastDelta()))
	out = be.AppendUint64(out, uint64(or(b.FirstTimestamp, first)))
	out = be.AppendUint64(out, uint64(or(b.MaxTimestamp, maxTime)))
	out = be.AppendUint64(out, uint64(producer.ID))
	out = be.AppendUint16(out, uint16(producer.Epoch))
	out = be.AppendUint32(out, uint32(producer.Sequence))
	out = be.AppendUint32(out, uint32(or(b.Count, int32(len(b.Records)))))
	out = append(out, payload...)
	sum := crc32.Checksum(out[crcFrom:], crc32.MakeTable(crc32.Castagnoli))
	be.PutUint32(out[crcFrom-4:], or(b.CRC, sum))
	return out
}

func (b V2) attributes() int16 {
	a := int16(b.Codec)
	if b.LogAppendTime != nil {
		a |= 1 << 3
	}
	if b.Transactional {
		a |= 1 << 4
	}
	if b.Control {
		a |= 1 << 5
	}
	return a
}

func (b V2) times() (first, maxTime int64) {
	maxTime = -1
	for i := range b.Records {
		t := b.Records[i].millis()
		if i == 0 {
			first = t
		}
		maxTime = max(maxTime, t)
	}
	if b.LogAppendTime != nil {
		maxTime = b.LogAppendTime.UnixMilli()
	}
	return first, maxTime
}

func (r *Record) millis() int64 {
	if r.Timestamp.IsZero() {
		return 0
	}
	return r.Timestamp.UnixMilli()
}

func (r *Record) append(dst []byte, offsetDelta, timeDelta int64) []byte {
	if r.Raw != nil {
		return append(dst, r.Raw...)
	}
	body := []byte{byte(r.Attributes)}
	body = binary.AppendVarint(body, or(r.TimestampDelta, timeDelta))
	body = binary.AppendVarint(body, offsetDelta)
	body = appendBytes(body, r.Key, r.KeyLength)
	body = appendBytes(body, r.Value, r.ValueLength)
	body = binary.AppendVarint(body, or(r.HeaderCount, int64(len(r.Headers))))
	for _, h := range r.Headers {
		body = binary.AppendVarint(body, int64(len(h.Key)))
		body = append(body, h.Key...)
		body = appendBytes(body, h.Value, nil)
	}
	dst = binary.AppendVarint(dst, or(r.Length, int64(len(body))))
	return append(dst, body...)
}

func appendBytes(dst, b []byte, length *int64) []byte {
	right := int64(len(b))
	if b == nil {
		right = -1
	}
	return append(binary.AppendVarint(dst, or(length, right)), b...)
}

// Marker returns the control batch that ends a producer's transaction.
func Marker(baseOffset int64, producer Producer, commit bool) V2 {
	kind := byte(0)
	if commit {
		kind = 1
	}
	producer.Sequence = -1
	return V2{
		BaseOffset: baseOffset, Producer: &producer, Transactional: true, Control: true,
		Records: []Record{{
			Key:   []byte{0, 0, 0, kind},
			Value: []byte{0, 0, 0, 0, 0, 0}, // version, coordinator epoch
		}},
	}
}

package kafka

import (
	"bytes"
	"iter"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A TimestampType says what a record's timestamp means.
type TimestampType = protocol.TimestampType

// The timestamp types.
const (
	// NoTimestamp: the record was stored in message format v0 (before Kafka
	// 0.10), which has none.
	NoTimestamp = protocol.NoTimestamp
	// CreateTime: the producer's time.
	CreateTime = protocol.CreateTime
	// LogAppendTime: the broker's time.
	LogAppendTime = protocol.LogAppendTime
)

// A Record is one record of a partition.
//
// Key and Value are nil when the record has none (null), and empty but not nil
// when they are empty. Unless Records.Release is called, a record stays valid for
// as long as it is kept; it keeps its batch in memory, which Clone avoids.
// The bytes belong to the batch: they must not be written to.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte
	Value     []byte

	seg *protocol.Segment // what the record was cut from; nil for a Record made by hand
	i   int
}

func makeRecord(tp TopicPartition, seg *protocol.Segment, i int) Record {
	r := Record{Topic: tp.Topic, Partition: tp.Partition, seg: seg, i: i}
	r.Offset, r.Key, r.Value = seg.Fields(i)
	return r
}

// TopicPartition returns the record's partition.
func (r Record) TopicPartition() TopicPartition {
	return TopicPartition{Topic: r.Topic, Partition: r.Partition}
}

// Timestamp returns the record's time, to the millisecond; the zero Time when it
// has none.
func (r Record) Timestamp() time.Time {
	if r.seg == nil || r.seg.TimestampType(r.i) == NoTimestamp || r.seg.Timestamp(r.i) < 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.seg.Timestamp(r.i))
}

// TimestampType returns what Timestamp means.
func (r Record) TimestampType() TimestampType {
	if r.seg == nil {
		return NoTimestamp
	}
	return r.seg.TimestampType(r.i)
}

// LeaderEpoch returns the epoch of the leader that wrote the record (KIP-320);
// false when it is unknown, as in message formats v0 and v1.
func (r Record) LeaderEpoch() (int32, bool) {
	if r.seg == nil {
		return -1, false
	}
	epoch := r.seg.LeaderEpoch(r.i)
	return epoch, epoch >= 0
}

// Checksum returns the record's CRC32; false for message format v2, whose records
// have none of their own.
func (r Record) Checksum() (uint32, bool) {
	if r.seg == nil {
		return 0, false
	}
	return r.seg.Checksum(r.i)
}

// SerializedKeySize returns the length of Key in bytes, -1 for null.
func (r Record) SerializedKeySize() int { return sizeOrNull(r.Key) }

// SerializedValueSize returns the length of Value in bytes, -1 for null.
func (r Record) SerializedValueSize() int { return sizeOrNull(r.Value) }

func sizeOrNull(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

// SerializedHeaderSize returns the length of all header keys and values together
// in bytes, -1 when there are no headers.
func (r Record) SerializedHeaderSize() int {
	it := r.headers()
	if it.Left() == 0 {
		return -1
	}
	n := 0
	for key, value := range it.All() {
		n += len(key) + len(value)
	}
	return n
}

// Headers ranges over the record's headers in the order in which they were
// written. Values alias the record.
func (r Record) Headers() iter.Seq[Header] {
	return func(yield func(Header) bool) {
		for key, value := range r.headers().All() {
			if !yield(Header{Key: key, Value: value}) {
				return
			}
		}
	}
}

// Header returns the value of the last header with the key; false when there is
// none. The value is nil when it is null.
func (r Record) Header(key string) (value []byte, ok bool) {
	it := r.headers()
	for k, v, more := it.Next(); more; k, v, more = it.Next() {
		if string(k) == key {
			value, ok = v, true
		}
	}
	return value, ok
}

func (r Record) headers() protocol.HeaderIter {
	if r.seg == nil {
		return protocol.HeaderIter{}
	}
	return r.seg.Headers(r.i)
}

// Clone returns a copy that keeps nothing but the record itself in memory, and
// that Records.Release does not touch.
func (r Record) Clone() Record {
	if r.seg == nil {
		r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
		return r
	}
	return makeRecord(r.TopicPartition(), r.seg.Clone(r.i), 0)
}

// A Header is one header of a record. Value is nil when it is null.
type Header struct {
	Key   string
	Value []byte
}

// Headers are a record's headers, in the order in which they were written, keys
// possibly repeated.
type Headers struct{ r Record }

// Len returns the number of headers.
func (h Headers) Len() int {
	it := h.r.headers()
	return it.Left()
}

// All ranges over the headers in order.
func (h Headers) All() iter.Seq[Header] { return h.r.Headers() }

// Last returns the value of the last header with the key; false when there is
// none. The value is nil when it is null.
func (h Headers) Last(key string) ([]byte, bool) { return h.r.Header(key) }

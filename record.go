package kafka

import (
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
	i   int32
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
func (h Headers) Len() int { return h.r.headerCount() }

// All ranges over the headers in order.
func (h Headers) All() iter.Seq[Header] { return h.r.Headers() }

// Last returns the value of the last header with the key; false when there is
// none. The value may be nil.
func (h Headers) Last(key string) ([]byte, bool) { return h.r.Header(key) }

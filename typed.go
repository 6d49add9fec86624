package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/kafkaconsumer/kafka/internal/fetch"
)

// A Deserializer makes a T of a record's key or value. data is nil for null. It is
// valid until Records.Release and must not be changed or, in general, kept; see the
// Deserializer at hand. It must be safe for concurrent use if the consumer is used so,
// and must not call the consumer whose records it decodes.
type Deserializer[T any] interface {
	Deserialize(topic string, headers Headers, data []byte) (T, error)
}

// A DeserializerFunc is a function that is a Deserializer.
type DeserializerFunc[T any] func(topic string, headers Headers, data []byte) (T, error)

// Deserialize calls f.
func (f DeserializerFunc[T]) Deserialize(topic string, headers Headers, data []byte) (T, error) {
	return f(topic, headers, data)
}

// String copies the bytes into a string; null is "".
var String Deserializer[string] = DeserializerFunc[string](func(_ string, _ Headers, data []byte) (string, error) {
	return string(data), nil
})

// Bytes returns the bytes themselves, which belong to the record; null is nil.
var Bytes Deserializer[[]byte] = DeserializerFunc[[]byte](func(_ string, _ Headers, data []byte) ([]byte, error) {
	return data, nil
})

// Int32 reads a big-endian integer of 4 bytes, as Kafka's IntegerSerializer writes
// it; null is 0.
var Int32 Deserializer[int32] = DeserializerFunc[int32](func(_ string, _ Headers, data []byte) (int32, error) {
	if data == nil {
		return 0, nil
	}
	if len(data) != 4 {
		return 0, fmt.Errorf("an int32 has 4 bytes, not %d", len(data))
	}
	return int32(binary.BigEndian.Uint32(data)), nil
})

// Int64 reads a big-endian integer of 8 bytes, as Kafka's LongSerializer writes it;
// null is 0.
var Int64 Deserializer[int64] = DeserializerFunc[int64](func(_ string, _ Headers, data []byte) (int64, error) {
	if data == nil {
		return 0, nil
	}
	if len(data) != 8 {
		return 0, fmt.Errorf("an int64 has 8 bytes, not %d", len(data))
	}
	return int64(binary.BigEndian.Uint64(data)), nil
})

// JSON decodes JSON into a T, copying; null is T's zero value. Anything behind the
// JSON value is an error.
func JSON[T any]() Deserializer[T] {
	return DeserializerFunc[T](func(_ string, _ Headers, data []byte) (v T, _ error) {
		if data == nil {
			return v, nil
		}
		return v, json.Unmarshal(data, &v)
	})
}

// A TypedRecord is a record with its key and value decoded. The raw bytes are
// Record.Key and Record.Value.
type TypedRecord[K, V any] struct {
	Record
	Key   K
	Value V
}

// TypedRecords are the records that one Poll of a TypedConsumer returned. A nil
// *TypedRecords, which comes beside an error, is empty.
type TypedRecords[K, V any] struct {
	raw     *Records
	records []TypedRecord[K, V]
}

// Len returns the number of records.
func (r *TypedRecords[K, V]) Len() int {
	if r == nil {
		return 0
	}
	return len(r.records)
}

// At returns record i, counted from 0.
func (r *TypedRecords[K, V]) At(i int) TypedRecord[K, V] {
	r.raw.checkReleased("At")
	return r.records[i]
}

// All ranges over the records, partition by partition. It panics after Release.
func (r *TypedRecords[K, V]) All() iter.Seq[TypedRecord[K, V]] {
	return func(yield func(TypedRecord[K, V]) bool) {
		if r == nil {
			return
		}
		r.raw.checkReleased("All")
		for _, rec := range r.records {
			if !yield(rec) {
				return
			}
		}
	}
}

// NextOffsets is Records.NextOffsets.
func (r *TypedRecords[K, V]) NextOffsets() map[TopicPartition]OffsetAndMetadata {
	if r == nil {
		return nil
	}
	return r.raw.NextOffsets()
}

// Release is Records.Release.
func (r *TypedRecords[K, V]) Release() {
	if r != nil {
		r.raw.Release()
		r.records = nil
	}
}

// A TypedConsumer reads the records of a Consumer decoded. A record that does not
// decode counts as handed over: the position is behind it, and reading goes on there.
// Everything else is done with the Consumer itself.
type TypedConsumer[K, V any] struct {
	c     *Consumer
	key   Deserializer[K]
	value Deserializer[V]

	failed error // what the next Poll returns; belongs to who reads
}

// Typed returns a TypedConsumer that reads from c.
func Typed[K, V any](c *Consumer, key Deserializer[K], value Deserializer[V]) *TypedConsumer[K, V] {
	return &TypedConsumer[K, V]{c: c, key: key, value: value}
}

// Consumer returns the Consumer underneath.
func (t *TypedConsumer[K, V]) Consumer() *Consumer { return t.c }

// decode decodes one record.
func (t *TypedConsumer[K, V]) decode(r Record) (TypedRecord[K, V], error) {
	out := TypedRecord[K, V]{Record: r}
	var err error
	if out.Key, err = t.key.Deserialize(r.Topic, Headers{r}, r.Key); err != nil {
		return out, deserializationError(r, true, r.Key, err)
	}
	if out.Value, err = t.value.Deserialize(r.Topic, Headers{r}, r.Value); err != nil {
		return out, deserializationError(r, false, r.Value, err)
	}
	return out, nil
}

func deserializationError(r Record, isKey bool, data []byte, err error) *DeserializationError {
	return &DeserializationError{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, IsKey: isKey,
		Data: bytes.Clone(data), Record: r.Clone(), Err: err,
	}
}

// Poll is Consumer.Poll with the records decoded. When one does not decode, the
// records before it are returned, the next Poll returns its *DeserializationError, a
// *PartitionError too, and the one after goes on behind it.
func (t *TypedConsumer[K, V]) Poll(ctx context.Context, timeout time.Duration) (*TypedRecords[K, V], error) {
	c := t.c
	if err := c.beginReading(ctx, "TypedConsumer.Poll"); err != nil {
		return nil, err
	}
	defer c.endReading()
	if err := t.failed; err != nil {
		t.failed = nil
		c.cameBack()
		return nil, err
	}
	var out *TypedRecords[K, V]
	raw, err := c.poll(ctx, timeout, func() (_ *Records, err error) {
		if out, err = t.take(c.cfg.MaxPollRecords); out == nil || err != nil {
			return nil, err
		}
		return out.raw, nil
	})
	if err != nil {
		return nil, err
	}
	if out == nil {
		out = &TypedRecords[K, V]{raw: raw}
	}
	return out, nil
}

// take decodes what is there and hands over what decoded, and the record that did
// not. Nothing is locked while a Deserializer runs; what a seek or a loss voided
// meanwhile is left out.
func (t *TypedConsumer[K, V]) take(limit int) (*TypedRecords[K, V], error) {
	c := t.c
	table := c.fetcher.acquire()
	cuts, err := c.peek(table, limit, nil)
	c.fetcher.release()
	if err != nil || len(cuts) == 0 {
		return nil, err
	}
	decoded := make([][]TypedRecord[K, V], len(cuts))
	failed := -1 // index of the cut whose record behind those decoded failed
	for i := range cuts {
		if decoded[i], err = t.decodeCut(&cuts[i]); err != nil {
			failed = i
			releaseCuts(cuts[i+1:])
			cuts = cuts[:i+1]
			break
		}
	}
	out := &TypedRecords[K, V]{}
	table = c.fetcher.acquire()
	defer c.fetcher.release()
	handed := newCutList()
	for i := range cuts {
		n := len(decoded[i])
		if i == failed {
			n++
		}
		if table.HandOver(&cuts[i], n) {
			out.records = append(out.records, decoded[i]...)
			handed.cuts = append(handed.cuts, cuts[i])
			continue
		}
		cuts[i].Release()
		if i == failed {
			err = nil
		}
	}
	if len(out.records) == 0 {
		releaseCuts(handed.cuts)
		handed.recycle()
		return nil, err
	}
	t.failed = err
	out.raw = newRecords(table, handed)
	return out, nil
}

// decodeCut decodes records up to the first that fails.
func (t *TypedConsumer[K, V]) decodeCut(cut *fetch.Cut) ([]TypedRecord[K, V], error) {
	records := make([]TypedRecord[K, V], 0, cut.Len())
	for i := cut.From; i < cut.To; i++ {
		r, err := t.decode(makeRecord(cut.TP(), cut.Seg, i))
		if err != nil {
			return records, err
		}
		records = append(records, r)
	}
	return records, nil
}

// Records is Consumer.Records with the records decoded. One that does not decode
// yields its *DeserializationError, and the loop may go on behind it.
func (t *TypedConsumer[K, V]) Records(ctx context.Context) iter.Seq2[TypedRecord[K, V], error] {
	return func(yield func(TypedRecord[K, V], error) bool) {
		for r, err := range t.c.Records(ctx) {
			out := TypedRecord[K, V]{Record: r}
			if err == nil {
				out, err = t.decode(r)
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

// Messages is Consumer.Messages with the records decoded. One that does not decode
// closes the channel; Err tells, and a new channel goes on behind it.
func (t *TypedConsumer[K, V]) Messages(ctx context.Context) <-chan TypedRecord[K, V] {
	return openChannel(ctx, t.c, "TypedConsumer.Messages", t.c.setErr, t.decode)
}

// Err is Consumer.Err.
func (t *TypedConsumer[K, V]) Err() error { return t.c.Err() }

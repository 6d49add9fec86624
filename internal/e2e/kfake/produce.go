package kfake

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

var codecs = map[string]kgo.CompressionCodec{
	"":       kgo.NoCompression(),
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// anyPartition in a record's Partition lets the partitioner choose.
const anyPartition = -1

// Produce writes records, waits for the answers and gives the places in the
// order of the records. Of the properties it heeds compression.type.
func (c *Cluster) Produce(t testing.TB, properties map[string]string, records ...outside.Record) []outside.Position {
	t.Helper()
	codec, ok := codecs[properties["compression.type"]]
	if !ok {
		t.Fatalf("kfake: no codec %q", properties["compression.type"])
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(partitioner()),
		kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(0))
	must(t, "produce", err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	sent := make([]*kgo.Record, len(records))
	for i, r := range records {
		sent[i] = toKgo(r)
	}
	must(t, "produce", client.ProduceSync(ctx, sent...).FirstErr())
	out := make([]outside.Position, len(sent))
	for i, r := range sent {
		out[i] = outside.Position{Partition: r.Partition, Offset: r.Offset}
	}
	return out
}

func toKgo(r outside.Record) *kgo.Record {
	out := &kgo.Record{Topic: r.Topic, Partition: anyPartition, Key: r.Key, Value: r.Value}
	if r.Partition != nil {
		out.Partition = *r.Partition
	}
	if r.Timestamp != nil {
		out.Timestamp = time.UnixMilli(*r.Timestamp)
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}

// partitioner takes the partition of a record where it has one, and hashes
// the key as Java's producer does where it has none.
func partitioner() kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
		keyed := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
		return func(r *kgo.Record, n int) int {
			if r.Partition != anyPartition {
				return int(r.Partition)
			}
			return keyed.Partition(r, n)
		}
	})
}

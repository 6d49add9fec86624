package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafkaconsumer/kafka/bench/clients"
	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/protocol"
)

const (
	kafkaPartitions = 6
	// kafkaBytes is about how much is produced for a workload.
	kafkaBytes  = 600 << 20
	kafkaValues = 4096 // different ones
)

// openKafka starts a Kafka and fills a topic.
func openKafka(version string, w *workload) (src *source, err error) {
	t := &starter{}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
			t.cleanUp()
		}
	}()
	cluster := broker.Start(t, version)
	src = &source{
		job:   clients.Job{Brokers: cluster.Bootstrap(), Topic: "bench", Partitions: kafkaPartitions},
		close: t.cleanUp,
	}
	if src.total, err = fill(src.job, w); err != nil {
		t.cleanUp()
		return nil, err
	}
	return src, nil
}

// A starter is the testing.TB that package broker wants.
type starter struct {
	testing.TB
	cleanups []func()
}

func (t *starter) Helper()                      {}
func (t *starter) Cleanup(f func())             { t.cleanups = append(t.cleanups, f) }
func (t *starter) Failed() bool                 { return false }
func (t *starter) Logf(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }
func (t *starter) Fatalf(format string, a ...any) {
	panic(fmt.Sprintf(format, a...))
}
func (t *starter) Errorf(format string, a ...any) { t.Logf(format, a...) }
func (t *starter) Skip(a ...any)                  { panic(fmt.Sprint(a...)) }
func (t *starter) Skipf(format string, a ...any)  { panic(fmt.Sprintf(format, a...)) }
func (t *starter) Fatal(a ...any)                 { panic(fmt.Sprint(a...)) }
func (t *starter) Log(a ...any)                   { fmt.Fprintln(os.Stderr, a...) }

func (t *starter) cleanUp() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
	t.cleanups = nil
}

var kgoCodecs = map[protocol.Codec]kgo.CompressionCodec{
	protocol.CodecNone: kgo.NoCompression(), protocol.CodecGzip: kgo.GzipCompression(), protocol.CodecSnappy: kgo.SnappyCompression(),
	protocol.CodecLZ4: kgo.Lz4Compression(), protocol.CodecZstd: kgo.ZstdCompression(),
}

// fill creates the topic and produces to it, and returns the number of records.
func fill(job clients.Job, w *workload) (int64, error) {
	c, err := kgo.NewClient(
		kgo.SeedBrokers(job.Brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(64<<10),
		kgo.ProducerBatchCompression(kgoCodecs[w.Serve.Codec]),
		kgo.MaxBufferedRecords(1<<18),
	)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ctx := context.Background()
	if err := createTopic(ctx, c, job); err != nil {
		return 0, err
	}
	rnd := rand.NewChaCha8([32]byte{'f', 'i', 'l', 'l'})
	values := make([][]byte, kafkaValues)
	for i := range values {
		values[i] = w.Serve.NewValue(rnd)
	}
	total := int64(kafkaBytes / (w.Serve.Value + 20))
	var once sync.Once
	var failed error
	for i := range total {
		v := values[i%kafkaValues]
		r := &kgo.Record{Topic: job.Topic, Partition: int32(i / 512 % kafkaPartitions), Key: v[:10], Value: v}
		c.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				once.Do(func() { failed = err })
			}
		})
	}
	err = c.Flush(ctx)
	return total, errors.Join(failed, err)
}

func createTopic(ctx context.Context, c *kgo.Client, job clients.Job) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = job.Topic, int32(job.Partitions), 1
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		return err
	}
	if code := resp.Topics[0].ErrorCode; code != 0 {
		return fmt.Errorf("create topic: %w", protocol.ErrorCode(code))
	}
	return nil
}

package clients

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/kafkaconsumer/kafka"
)

func newKafka(ctx context.Context, job Job) (*kafka.Consumer, error) {
	c, err := kafka.NewConsumer(ctx, kafka.Config{
		BootstrapServers: job.Brokers,
		AutoOffsetReset:  kafka.ResetEarliest,
		MetadataMaxAge:   job.MetadataMaxAge,
		Logger:           slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return nil, err
	}
	var tps []kafka.TopicPartition
	for i := range job.Partitions {
		tps = append(tps, kafka.TopicPartition{Topic: job.Topic, Partition: int32(i)})
	}
	return c, c.Assign(tps...)
}

func runKafka(ctx context.Context, job Job, m *Meter) error { return pollKafka(ctx, job, m, false) }

func runKafkaRelease(ctx context.Context, job Job, m *Meter) error {
	return pollKafka(ctx, job, m, true)
}

func pollKafka(ctx context.Context, job Job, m *Meter, release bool) error {
	c, err := newKafka(ctx, job)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	t := tally{m: m, job: &job}
	for {
		records, err := c.Poll(ctx, time.Second)
		if err != nil {
			return ended(ctx, err)
		}
		for r := range records.All() {
			t.add(r.Key, r.Value)
		}
		t.flush()
		if release {
			records.Release()
		}
	}
}

func runKafkaIterator(ctx context.Context, job Job, m *Meter) error {
	c, err := newKafka(ctx, job)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	t := tally{m: m, job: &job}
	for r, err := range c.Records(ctx) {
		if err != nil {
			return ended(ctx, err)
		}
		t.add(r.Key, r.Value)
		t.flushSome()
	}
	return nil
}

// ended is nil for an error that comes from ctx's end.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

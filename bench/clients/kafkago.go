package clients

import (
	"context"
	"sync"

	"github.com/segmentio/kafka-go"
)

func runKafkaGo(ctx context.Context, job Job, m *Meter) error {
	var wg sync.WaitGroup
	errs := make(chan error, job.Partitions)
	for i := range job.Partitions {
		wg.Go(func() { errs <- readKafkaGo(ctx, job, m, i) })
	}
	wg.Wait()
	for range job.Partitions {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func readKafkaGo(ctx context.Context, job Job, m *Meter, partition int) error {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: job.Brokers, Topic: job.Topic, Partition: partition,
		MaxBytes: 1 << 20, MaxWait: fetchMaxWait, // KafkaConsumer's defaults
	})
	if err := r.SetOffset(kafka.FirstOffset); err != nil {
		return err
	}
	t := tally{m: m, job: &job}
	for {
		msg, err := r.ReadMessage(ctx)
		if err != nil {
			return ended(ctx, err)
		}
		t.add(msg.Key, msg.Value)
		t.flushSome()
	}
}

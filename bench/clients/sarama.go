package clients

import (
	"context"
	"sync"

	"github.com/IBM/sarama"
)

func runSarama(ctx context.Context, job Job, m *Meter) error {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V3_6_0_0
	cfg.Consumer.MaxWaitTime = fetchMaxWait
	c, err := sarama.NewConsumer(job.Brokers, cfg)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for i := range job.Partitions {
		p, err := c.ConsumePartition(job.Topic, int32(i), sarama.OffsetOldest)
		if err != nil {
			return err
		}
		wg.Go(func() {
			t := tally{m: m, job: &job}
			for {
				select {
				case r := <-p.Messages():
					t.add(r.Key, r.Value)
					t.flushSome()
				case <-ctx.Done():
					return
				}
			}
		})
	}
	wg.Wait()
	return nil // the process ends; closing would wait for the broker
}

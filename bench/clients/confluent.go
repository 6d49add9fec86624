//go:build confluent

package clients

import (
	"context"
	"strings"

	confluent "github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func init() {
	All["confluent"] = runConfluent
	Members["confluent"] = Member{[]string{Range, Cooperative}, joinConfluent}
}

func joinConfluent(ctx context.Context, job GroupJob, seen func(int32, int64)) error {
	strategy := map[string]string{Range: "range", Cooperative: "cooperative-sticky"}[job.Protocol]
	c, err := confluent.NewConsumer(&confluent.ConfigMap{
		"bootstrap.servers": strings.Join(job.Brokers, ","), "group.id": job.Group, "auto.offset.reset": "earliest",
		"partition.assignment.strategy": strategy,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Subscribe(job.Topic, nil); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if m, ok := c.Poll(100).(*confluent.Message); ok {
			seen(m.TopicPartition.Partition, int64(m.TopicPartition.Offset))
		}
	}
	return nil
}

func runConfluent(ctx context.Context, job Job, m *Meter) error {
	c, err := confluent.NewConsumer(&confluent.ConfigMap{
		"bootstrap.servers":  strings.Join(job.Brokers, ","),
		"group.id":           "bench",
		"enable.auto.commit": false,
		"auto.offset.reset":  "earliest",
	})
	if err != nil {
		return err
	}
	var parts []confluent.TopicPartition
	for i := range job.Partitions {
		parts = append(parts, confluent.TopicPartition{
			Topic: &job.Topic, Partition: int32(i), Offset: confluent.OffsetBeginning,
		})
	}
	if err := c.Assign(parts); err != nil {
		return err
	}
	t := tally{m: m, job: &job}
	for ctx.Err() == nil {
		if msg, ok := c.Poll(100).(*confluent.Message); ok {
			t.add(msg.Key, msg.Value)
			t.flushSome()
		}
	}
	return nil
}

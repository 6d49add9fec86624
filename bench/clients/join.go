package clients

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/IBM/sarama"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/assignors"
)

func joinKafka(ctx context.Context, job GroupJob, seen func(int32, int64)) error {
	strategy := map[string]assignors.Assignor{Range: assignors.Range{}, Cooperative: assignors.CooperativeSticky{}}[job.Protocol]
	c, err := kafka.NewConsumer(ctx, kafka.Config{
		BootstrapServers: job.Brokers, GroupID: job.Group, Topics: []string{job.Topic}, AutoOffsetReset: kafka.ResetEarliest,
		PartitionAssignmentStrategy: []assignors.Assignor{strategy},
		Logger:                      slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	for {
		records, err := c.Poll(ctx, time.Second)
		if err != nil {
			return ended(ctx, err)
		}
		for r := range records.All() {
			seen(r.Partition, r.Offset)
		}
	}
}

func joinFranz(ctx context.Context, job GroupJob, seen func(int32, int64)) error {
	balancer := map[string]kgo.GroupBalancer{Range: kgo.RangeBalancer(), Cooperative: kgo.CooperativeStickyBalancer()}[job.Protocol]
	c, err := kgo.NewClient(kgo.SeedBrokers(job.Brokers...), kgo.ConsumerGroup(job.Group), kgo.ConsumeTopics(job.Topic),
		kgo.Balancers(balancer), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(fetchMaxWait))
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return ended(ctx, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { seen(r.Partition, r.Offset) })
	}
}

// A saramaMember is sarama's handler of a session.
type saramaMember struct{ seen func(int32, int64) }

func (saramaMember) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m saramaMember) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for r := range claim.Messages() {
		m.seen(r.Partition, r.Offset)
		s.MarkMessage(r, "")
	}
	return nil
}

func joinSarama(ctx context.Context, job GroupJob, seen func(int32, int64)) error {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V3_6_0_0
	cfg.Consumer.MaxWaitTime = fetchMaxWait
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	cfg.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	g, err := sarama.NewConsumerGroup(job.Brokers, job.Group, cfg)
	if err != nil {
		return err
	}
	defer g.Close()
	for {
		if err := g.Consume(ctx, []string{job.Topic}, saramaMember{seen}); err != nil || ctx.Err() != nil {
			return ended(ctx, err)
		}
	}
}

func joinKafkaGo(ctx context.Context, job GroupJob, seen func(int32, int64)) error {
	r := kafkago.NewReader(kafkago.ReaderConfig{
		Brokers: job.Brokers, GroupID: job.Group, Topic: job.Topic, StartOffset: kafkago.FirstOffset, MaxWait: fetchMaxWait,
		GroupBalancers: []kafkago.GroupBalancer{kafkago.RangeGroupBalancer{}}, CommitInterval: time.Second,
	})
	for {
		msg, err := r.ReadMessage(ctx)
		if err != nil {
			return errors.Join(ended(ctx, err), r.Close())
		}
		seen(int32(msg.Partition), msg.Offset)
	}
}

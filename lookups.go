package kafka

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/fetch"
	"github.com/kafkaconsumer/kafka/protocol"
)

// BeginningOffsets returns the offsets of the first records of the partitions, which
// need not be assigned. What was found comes with the joined *PartitionErrors of the
// rest. Positions do not change.
func (c *Consumer) BeginningOffsets(ctx context.Context, tps ...TopicPartition) (map[TopicPartition]int64, error) {
	return c.endsOfLogs(ctx, tps, fetch.TimeEarliest)
}

// EndOffsets returns the offsets behind the last records of the partitions, under
// ReadCommitted behind the last stable ones. Otherwise it is like BeginningOffsets.
func (c *Consumer) EndOffsets(ctx context.Context, tps ...TopicPartition) (map[TopicPartition]int64, error) {
	return c.endsOfLogs(ctx, tps, fetch.TimeLatest)
}

func (c *Consumer) endsOfLogs(ctx context.Context, tps []TopicPartition, timestamp int64) (map[TopicPartition]int64, error) {
	spec := make(map[TopicPartition]int64, len(tps))
	for _, tp := range tps {
		spec[tp] = timestamp
	}
	listed, err := c.listOffsets(ctx, spec)
	offsets := make(map[TopicPartition]int64, len(listed))
	for tp, o := range listed {
		offsets[tp] = o.Offset
	}
	return offsets, err
}

// OffsetsForTimes returns for each partition the first offset whose record is not
// older than the time given for it; a partition without such a record is absent. The
// partitions need not be assigned. What was found comes with the joined
// *PartitionErrors of the rest. It needs Kafka 0.10.1, else an
// *UnsupportedVersionError. Times before 1970 are refused.
func (c *Consumer) OffsetsForTimes(ctx context.Context, times map[TopicPartition]time.Time) (map[TopicPartition]OffsetAndTimestamp, error) {
	spec := make(map[TopicPartition]int64, len(times))
	var errs []error
	for tp, t := range times {
		ms := t.UnixMilli()
		if ms < 0 {
			errs = append(errs, &PartitionError{tp.Topic, tp.Partition, &ArgumentError{Argument: "time", Value: t.String(), Reason: "must not be before 1970"}})
		}
		spec[tp] = ms
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	listed, err := c.listOffsets(ctx, spec)
	found := make(map[TopicPartition]OffsetAndTimestamp, len(listed))
	for tp, o := range listed {
		if o.Offset < 0 {
			continue
		}
		ot := OffsetAndTimestamp{Offset: o.Offset, epochPlusOne: max(o.LeaderEpoch, -1) + 1}
		if o.Timestamp >= 0 {
			ot.Timestamp = time.UnixMilli(o.Timestamp)
		}
		found[tp] = ot
	}
	return found, err
}

func (c *Consumer) listOffsets(ctx context.Context, spec map[TopicPartition]int64) (map[TopicPartition]cluster.ListedOffset, error) {
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	found, failed := c.cluster.ListOffsets(ctx, spec, int8(c.cfg.IsolationLevel))
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	var errs []error
	for tp, err := range failed {
		errs = append(errs, &PartitionError{tp.Topic, tp.Partition, publicError(err)})
	}
	return found, errors.Join(errs...)
}

// PartitionsForTopic returns the numbers of the topic's partitions, in order. It
// asks a broker. A topic that does not exist gives none and no error.
func (c *Consumer) PartitionsForTopic(ctx context.Context, topic string) ([]int32, error) {
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	t, err := c.cluster.TopicMetadata(ctx, topic)
	if err != nil {
		return nil, c.orClosed(publicError(err))
	}
	switch {
	case t == nil || t.Err == protocol.UnknownTopicOrPartition:
		return nil, nil
	case t.Err != protocol.None && !t.Err.Retriable():
		return nil, &BrokerError{Broker: -1, API: "Metadata", Code: t.Err, Message: topic}
	}
	numbers := make([]int32, len(t.Partitions))
	for i := range numbers {
		numbers[i] = int32(i)
	}
	return numbers, nil
}

// Topics returns the names of all topics that this consumer may see, sorted. It asks
// a broker. Internal topics are left out unless IncludeInternalTopics is set.
func (c *Consumer) Topics(ctx context.Context) ([]string, error) {
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	md, err := c.cluster.AllTopics(ctx)
	if err != nil {
		return nil, c.orClosed(publicError(err))
	}
	var names []string
	for name, t := range md.Topics {
		if !t.Internal || c.cfg.IncludeInternalTopics {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

package kafka

import (
	"context"
	"fmt"
	"errors"
	"iter"
	"regexp"
	"time"
)

// A Consumer reads records from Kafka, alone or as a member of a group.
//
// Its methods may be called from any goroutine. One Poll, one iteration or one
// channel at a time reads records; a second one gets ErrConcurrentPoll. Blocking
// methods other than Poll, Records and Messages are bounded by
// Config.DefaultAPITimeout when their context has no deadline. After Close every
// method returns ErrClosed.
type Consumer struct {
}

func unsupported(name string) error {
	return fmt.Errorf("kafka: %s: %w", name, errors.ErrUnsupported)
}

func NewConsumer(ctx context.Context, cfg Config) (*Consumer, error) { return nil, unsupported("NewConsumer") }

func (c *Consumer) Poll(ctx context.Context, timeout time.Duration) (*Records, error) { return nil, unsupported("") }
func (c *Consumer) PollMax(ctx context.Context, timeout time.Duration, maxRecords int) (*Records, error) { return nil, unsupported("") }
func (c *Consumer) Records(ctx context.Context) iter.Seq2[Record, error] { return nil }
func (c *Consumer) RecordsUntilEnd(ctx context.Context) iter.Seq2[Record, error] { return nil }
func (c *Consumer) Messages(ctx context.Context) <-chan Record { return nil }
func (c *Consumer) Err() error { return unsupported("") }
func (c *Consumer) Subscribe(topics []string, opts ...SubscribeOption) error { return unsupported("") }
func (c *Consumer) SubscribePattern(pattern *regexp.Regexp, opts ...SubscribeOption) error { return unsupported("") }
func (c *Consumer) Assign(tps ...TopicPartition) error { return unsupported("") }
func (c *Consumer) Unsubscribe(ctx context.Context) error { return unsupported("") }
func (c *Consumer) Subscription() []string { return nil }
func (c *Consumer) Assignment() []TopicPartition { return nil }
func (c *Consumer) Pause(tps ...TopicPartition) error { return unsupported("") }
func (c *Consumer) Resume(tps ...TopicPartition) error { return unsupported("") }
func (c *Consumer) Paused() []TopicPartition { return nil }
func (c *Consumer) Seek(tp TopicPartition, offset int64) error { return unsupported("") }
func (c *Consumer) SeekTo(tp TopicPartition, o OffsetAndMetadata) error { return unsupported("") }
func (c *Consumer) SeekToBeginning(tps ...TopicPartition) error { return unsupported("") }
func (c *Consumer) SeekToEnd(tps ...TopicPartition) error { return unsupported("") }
func (c *Consumer) SeekToTime(ctx context.Context, t time.Time, tps ...TopicPartition) error { return unsupported("") }
func (c *Consumer) Position(ctx context.Context, tp TopicPartition) (int64, error) { return 0, unsupported("") }
func (c *Consumer) Commit(ctx context.Context) error { return unsupported("") }
func (c *Consumer) CommitOffsets(ctx context.Context, offsets map[TopicPartition]OffsetAndMetadata) error { return unsupported("") }
func (c *Consumer) CommitAsync(offsets map[TopicPartition]OffsetAndMetadata, callback func(ctx context.Context, offsets map[TopicPartition]OffsetAndMetadata, err error)) error { return unsupported("") }
func (c *Consumer) Committed(ctx context.Context, tps ...TopicPartition) (map[TopicPartition]OffsetAndMetadata, error) { return nil, unsupported("") }
func (c *Consumer) BeginningOffsets(ctx context.Context, tps ...TopicPartition) (map[TopicPartition]int64, error) { return nil, unsupported("") }
func (c *Consumer) EndOffsets(ctx context.Context, tps ...TopicPartition) (map[TopicPartition]int64, error) { return nil, unsupported("") }
func (c *Consumer) OffsetsForTimes(ctx context.Context, times map[TopicPartition]time.Time) (map[TopicPartition]OffsetAndTimestamp, error) { return nil, unsupported("") }
func (c *Consumer) PartitionsForTopic(ctx context.Context, topic string) ([]int32, error) { return nil, unsupported("") }
func (c *Consumer) Topics(ctx context.Context) ([]string, error) { return nil, unsupported("") }
func (c *Consumer) Highwater(tp TopicPartition) (int64, bool) { return 0, false }
func (c *Consumer) Lag(tp TopicPartition) (int64, bool) { return 0, false }
func (c *Consumer) Metrics() ([]Metric, error) { return nil, unsupported("Metrics") }
func (c *Consumer) Health() (Health, error) { return Health{}, unsupported("Health") }
func (c *Consumer) BootstrapConnected() bool { return false }
func (c *Consumer) BrokerVersion() string { return "" }
func (c *Consumer) GroupMetadata() (GroupMetadata, error) { return GroupMetadata{}, unsupported("GroupMetadata") }
func (c *Consumer) EnforceRebalance(reason string) error { return unsupported("EnforceRebalance") }
func (c *Consumer) Close(ctx context.Context) error { return unsupported("Close") }
func (c *Consumer) CloseWithoutCommit(ctx context.Context) error { return unsupported("") }

// Records of one Poll.
type Records struct{}

func (r *Records) Len() int { return 0 }
func (r *Records) All() iter.Seq[Record] { return nil }
func (r *Records) At(i int) Record { return Record{} }
func (r *Records) Partitions() []TopicPartition { return nil }
func (r *Records) Partition(tp TopicPartition) iter.Seq[Record] { return nil }
func (r *Records) NextOffsets() map[TopicPartition]OffsetAndMetadata { return nil }
func (r *Records) Release() {}

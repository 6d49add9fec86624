//go:build unix

package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

// patience bounds every wait of these tests.
const patience = consume.Patience

// newConsumer makes a consumer of the target that reads from the beginning
// unless cfg says otherwise. It is closed with the test.
func newConsumer(t *testing.T, target *Target, cfg kafka.Config) *kafka.Consumer {
	t.Helper()
	if cfg.AutoOffsetReset == (kafka.OffsetReset{}) {
		cfg.AutoOffsetReset = kafka.ResetEarliest
	}
	return openConsumer(t, target, cfg)
}

// openConsumer is newConsumer that leaves cfg.AutoOffsetReset as it is.
func openConsumer(t *testing.T, target *Target, cfg kafka.Config) *kafka.Consumer {
	t.Helper()
	if cfg.BootstrapServers == nil {
		cfg.BootstrapServers = target.Bootstrap
	}
	return consume.Open(t, cfg)
}

func TestProduceConsume(t *testing.T) {
	ForEachBroker(t, func(t *testing.T, target *Target) {
		const partitions, n = 3, 999
		topic, group := target.Topic(t, partitions), target.Unique(t)
		target.Fill(t, topic, partitions, n)
		c := newConsumer(t, target, kafka.Config{GroupID: group, Topics: []string{topic}})

		records := consume.Poll(t, c, n)
		require.Len(t, records, n)
		slices.SortStableFunc(records, func(a, b kafka.Record) int { return cmp.Compare(a.Partition, b.Partition) })
		for i, r := range records {
			p, offset := i/(n/partitions), i%(n/partitions)
			require.Equal(t, [2]int64{int64(p), int64(offset)}, [2]int64{int64(r.Partition), r.Offset})
			require.Equal(t, fmt.Sprint(p), string(r.Key))
			require.Equal(t, fmt.Sprint(offset*partitions+p), string(r.Value))
		}
		require.Len(t, target.DescribeGroup(t, group).Members, 1)

		require.NoError(t, c.Commit(t.Context()))
		for tp, o := range target.Committed(t, group) {
			require.Equal(t, int64(n/partitions), o.Offset, "of %v", tp)
		}
		require.Len(t, target.Committed(t, group), partitions)
		consume.Close(t, c)
		require.Empty(t, target.DescribeGroup(t, group).Members, "the member left")
	})
}

func TestConsumeByAssignmentWithoutAGroup(t *testing.T) {
	ForEachBroker(t, func(t *testing.T, target *Target) {
		topic := target.Topic(t, 2)
		target.Fill(t, topic, 2, 10)
		c := newConsumer(t, target, kafka.Config{})
		tp := kafka.TopicPartition{Topic: topic, Partition: 1}
		require.NoError(t, c.Assign(tp))
		require.NoError(t, c.Seek(tp, 3))
		records := consume.Poll(t, c, 2)
		require.Len(t, records, 2)
		require.Equal(t, int64(3), records[0].Offset)
		position, err := c.Position(t.Context(), tp)
		require.NoError(t, err)
		require.Equal(t, int64(5), position)
	})
}

func TestEveryCodecWithHeadersAndNulls(t *testing.T) {
	ForEachBroker(t, func(t *testing.T, target *Target) {
		topic := target.Topic(t, 1)
		partition, millis := int32(0), int64(1_700_000_000_123)
		codecs := []string{"none", "gzip", "snappy", "lz4", "zstd"}
		for _, codec := range codecs {
			target.Produce(t, map[string]string{"compression.type": codec},
				outside.Record{Topic: topic, Partition: &partition, Value: []byte(codec), Timestamp: &millis,
					Headers: []outside.Header{{Key: "h", Value: []byte("1")}, {Key: "null"}}},
				outside.Record{Topic: topic, Partition: &partition, Key: []byte{}, Timestamp: &millis})
		}
		c := newConsumer(t, target, kafka.Config{})
		require.NoError(t, c.Assign(kafka.TopicPartition{Topic: topic}))
		records := consume.Poll(t, c, 2*len(codecs))
		for i, codec := range codecs {
			r := records[2*i]
			require.Nil(t, r.Key)
			require.Equal(t, codec, string(r.Value))
			require.Equal(t, millis, r.Timestamp().UnixMilli())
			require.Equal(t, []kafka.Header{{Key: "h", Value: []byte("1")}, {Key: "null"}}, slices.Collect(r.Headers()))

			tombstone := records[2*i+1]
			require.NotNil(t, tombstone.Key)
			require.Empty(t, tombstone.Key)
			require.Nil(t, tombstone.Value)
		}
	})
}

func TestReadCommittedSeesNoAbortedAndNoOpenTransaction(t *testing.T) {
	ForEachRelease(t, func(t *testing.T, target *Target) {
		topic, id := target.Topic(t, 1), target.Unique(t)
		aborted := target.Java.Begin(t, id, nil)
		aborted.Produce(t, outside.To(topic, 0, "", "aborted"))
		aborted.Abort(t)
		target.Produce(t, nil, outside.To(topic, 0, "", "plain"))
		open := target.Java.Begin(t, id, nil)
		open.Produce(t, outside.To(topic, 0, "", "open"))
		target.Produce(t, nil, outside.To(topic, 0, "", "behind"))

		c := newConsumer(t, target, kafka.Config{IsolationLevel: kafka.ReadCommitted})
		require.NoError(t, c.Assign(kafka.TopicPartition{Topic: topic}))
		require.Equal(t, []string{"plain"}, consume.Values(consume.Poll(t, c, 1)))
		recs, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		require.Zero(t, recs.Len(), "nothing behind the open transaction")
		open.Commit(t)
		require.Equal(t, []string{"open", "behind"}, consume.Values(consume.Poll(t, c, 2)))
	})
}

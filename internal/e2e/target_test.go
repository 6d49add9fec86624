//go:build unix

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

func TestMain(m *testing.M) { proc.Main(m) }

func TestTargetsTellWhatWasPutIn(t *testing.T) {
	ForEachBroker(t, func(t *testing.T, target *Target) {
		topic, group := target.Topic(t, 2), target.Unique(t)
		target.Fill(t, topic, 2, 5)
		require.Equal(t, map[int32]int64{0: 3, 1: 2}, target.EndOffsets(t, topic))
		target.DeleteRecords(t, topic, 0, 1)
		require.Equal(t, map[int32]int64{0: 1, 1: 0}, target.BeginningOffsets(t, topic))

		for _, codec := range []string{"gzip", "snappy", "lz4", "zstd"} {
			target.Produce(t, map[string]string{"compression.type": codec}, outside.To(topic, 1, "", codec))
		}
		require.Equal(t, map[int32]int64{0: 3, 1: 6}, target.EndOffsets(t, topic))

		require.Empty(t, target.Committed(t, group))
		tp := outside.TopicPartition{Topic: topic, Partition: 1}
		target.SetCommitted(t, group, outside.Offset{TopicPartition: tp, Offset: 2, Metadata: "m"})
		require.Equal(t, map[outside.TopicPartition]outside.Offset{tp: {TopicPartition: tp, Offset: 2, Metadata: "m", LeaderEpoch: -1}},
			target.Committed(t, group))
		require.Equal(t, "Empty", target.DescribeGroup(t, group).State)
		target.AddPartitions(t, topic, 3)
		target.DeleteTopic(t, topic)
	})
}

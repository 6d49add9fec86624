//go:build unix

package e2e

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/peer"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
	"github.com/kafkaconsumer/kafka/internal/e2e/python"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Most tests wait for brokers, not for the processor.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	proc.Main(m)
}

// What the tests of the library rely on is tested here without the library.

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

func TestTransactionsOfTheJavaProducer(t *testing.T) {
	ForEachRelease(t, func(t *testing.T, target *Target) {
		topic, id := target.Topic(t, 1), target.Unique(t)
		aborted := target.Java.Begin(t, id, nil)
		aborted.Produce(t, outside.To(topic, 0, "k", "aborted"))
		aborted.Abort(t)
		committed := target.Java.Begin(t, id, nil)
		positions := committed.Produce(t, outside.To(topic, 0, "k", "committed"))
		committed.Commit(t)
		require.Equal(t, []outside.Position{{Partition: 0, Offset: 2}}, positions, "the abort marker takes an offset")
		// The coordinator answers before the marker of the commit is written.
		waitFor(t, "the marker", func() bool { return target.EndOffsets(t, topic)[0] == 4 })
	})
}

func TestConsoleConsumerConsumesInAGroup(t *testing.T) {
	ForEachRelease(t, func(t *testing.T, target *Target) {
		topic, group := target.Topic(t, 1), target.Unique(t)
		target.Fill(t, topic, 1, 3)
		p := java.ConsoleConsumer(t, target.Real, group, topic, nil)
		p.WaitRecords(t, 3)
		require.Equal(t, peer.Record{Partition: 0, Offset: 2, Key: "0", Value: "2"}, p.Records()[2])
		require.Len(t, target.DescribeGroup(t, group).Members, 1)
		p.Stop()
		require.Equal(t, int64(3), target.Committed(t, group)[outside.TopicPartition{Topic: topic}].Offset)
	})
}

func TestKafkaPythonProducesAndConsumesInAGroup(t *testing.T) {
	ForEachRelease(t, func(t *testing.T, target *Target) {
		topic, group := target.Topic(t, 2), target.Unique(t)
		key, value := "k", "v"
		require.Equal(t, []int64{0},
			python.Produce(t, target.Bootstrap, nil, python.Record{Topic: topic, Partition: 1, Key: &key, Value: &value}))

		p := python.Consumer(t, target.Bootstrap, group, topic, nil)
		p.WaitRecords(t, 1)
		records := p.Records()
		require.Positive(t, records[0].At, "when it came")
		records[0].At = 0
		require.Equal(t, []peer.Record{{Topic: topic, Partition: 1, Offset: 0, Key: "k", Value: "v"}}, records)
		p.Wait(t, patience, "both partitions", func(p *peer.Consumer) bool { return len(p.Assigned()) == 2 })
		p.Stop()
		require.Equal(t, int64(1), target.Committed(t, group)[outside.TopicPartition{Topic: topic, Partition: 1}].Offset)
		require.Empty(t, target.DescribeGroup(t, group).Members, "it left")
	})
}

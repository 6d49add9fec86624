//go:build unix

package java_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/peer"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

func TestMain(m *testing.M) { proc.Main(m) }

func TestDriverProducesAndAdministers(t *testing.T) {
	broker.Prestart(t, "4.4.0", "3.9.2")
	for _, version := range []string{"4.4.0", "3.9.2"} {
		t.Run(version, func(t *testing.T) {
			c := broker.Shared(t, version)
			d := java.For(t, c)
			topic := "driver"
			d.CreateTopic(t, topic, 2, nil)
			require.Equal(t, []outside.Position{{Partition: 0, Offset: 0}, {Partition: 0, Offset: 1}},
				d.Produce(t, map[string]string{"compression.type": "zstd"}, outside.To(topic, 0, "k", "v1"), outside.To(topic, 0, "k", "v2")))

			aborted := d.Begin(t, "tx", nil)
			aborted.Produce(t, outside.To(topic, 1, "k", "aborted"))
			aborted.Abort(t)
			committed := d.Begin(t, "tx", nil)
			committed.Produce(t, outside.To(topic, 1, "k", "committed"))
			committed.Commit(t)
			require.Equal(t, map[int32]int64{0: 2, 1: 4}, d.EndOffsets(t, topic), "each marker takes an offset")
			d.DeleteRecords(t, topic, 0, 1)
			require.Equal(t, map[int32]int64{0: 1, 1: 0}, d.BeginningOffsets(t, topic))

			tp := outside.TopicPartition{Topic: topic, Partition: 1}
			d.SetCommitted(t, "g", outside.Offset{TopicPartition: tp, Offset: 2, Metadata: "m"})
			require.Equal(t, map[outside.TopicPartition]outside.Offset{tp: {TopicPartition: tp, Offset: 2, Metadata: "m", LeaderEpoch: -1}},
				d.Committed(t, "g"))
			require.Equal(t, "Empty", d.DescribeGroup(t, "g").State)
			d.AddPartitions(t, topic, 3)
			require.Eventually(t, func() bool { return len(d.DescribeTopic(t, topic).Partitions) == 3 }, 10*time.Second, 100*time.Millisecond)
			d.DeleteTopic(t, topic)
		})
	}
}

func TestConsoleConsumerConsumesInAGroup(t *testing.T) {
	for _, version := range []string{"4.4.0", "3.9.2"} {
		t.Run(version, func(t *testing.T) {
			c := broker.Shared(t, version)
			d := java.For(t, c)
			d.CreateTopic(t, "console", 1, nil)
			for i := range 3 {
				d.Produce(t, nil, outside.To("console", 0, "k", fmt.Sprint(i)))
			}
			p := java.ConsoleConsumer(t, c, "console-group", "console", nil)
			p.WaitRecords(t, 3)
			require.Equal(t, peer.Record{Partition: 0, Offset: 2, Key: "k", Value: "2"}, p.Records()[2])
			require.Len(t, d.DescribeGroup(t, "console-group").Members, 1)
			p.Stop()
			require.Equal(t, int64(3), d.Committed(t, "console-group")[outside.TopicPartition{Topic: "console"}].Offset)
		})
	}
}

//go:build unix

package python_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/peer"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
	"github.com/kafkaconsumer/kafka/internal/e2e/python"
)

func TestMain(m *testing.M) { proc.Main(m) }

func TestKafkaPythonProducesAndConsumesInAGroup(t *testing.T) {
	c := broker.Shared(t, "4.4.0")
	d := java.For(t, c)
	d.CreateTopic(t, "py", 2, nil)
	key, value := "k", "v"
	require.Equal(t, []int64{0}, python.Produce(t, c.Bootstrap(), nil, python.Record{Topic: "py", Partition: 1, Key: &key, Value: &value}))

	p := python.Consumer(t, c.Bootstrap(), "py-group", "py", nil)
	p.WaitRecords(t, 1)
	require.Equal(t, []peer.Record{{Topic: "py", Partition: 1, Offset: 0, Key: "k", Value: "v"}}, p.Records())
	p.Wait(t, 10*time.Second, "both partitions", func(p *peer.Consumer) bool { return len(p.Assigned()) == 2 })
	p.Stop()
	require.Equal(t, int64(1), d.Committed(t, "py-group")[outside.TopicPartition{Topic: "py", Partition: 1}].Offset)
	require.Empty(t, d.DescribeGroup(t, "py-group").Members, "it left")
}

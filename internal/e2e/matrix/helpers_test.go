//go:build unix

package matrix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
)

// patience bounds every wait of these tests.
const patience = consume.Patience

// open makes a consumer of the cluster that reads from the beginning, unless cfg
// says otherwise, and commits by itself only if it says so. It is closed with the
// test.
func (e *env) open(t *testing.T, cfg kafka.Config) *kafka.Consumer {
	t.Helper()
	if cfg.BootstrapServers == nil {
		cfg.BootstrapServers = e.cluster.Bootstrap()
	}
	if cfg.AutoOffsetReset == (kafka.OffsetReset{}) {
		cfg.AutoOffsetReset = kafka.ResetEarliest
	}
	cfg.DisableAutoCommit = cfg.AutoCommitInterval == 0
	return consume.Open(t, cfg)
}

// assigned is open with partitions assigned by hand.
func (e *env) assigned(t *testing.T, cfg kafka.Config, tps ...kafka.TopicPartition) *kafka.Consumer {
	t.Helper()
	c := e.open(t, cfg)
	require.NoError(t, c.Assign(tps...))
	return c
}

// nothing requires that nothing more comes.
func nothing(t *testing.T, c *kafka.Consumer) {
	t.Helper()
	records, err := c.Poll(t.Context(), 200*time.Millisecond)
	require.NoError(t, err)
	require.Zero(t, records.Len())
}

func partitions(topic string, n int32) []kafka.TopicPartition {
	var out []kafka.TopicPartition
	for p := range n {
		out = append(out, kafka.TopicPartition{Topic: topic, Partition: p})
	}
	return out
}

// byPartition gives the offsets of records by their partition, in the order in
// which they came.
func byPartition(records []kafka.Record) map[kafka.TopicPartition][]int64 {
	out := map[kafka.TopicPartition][]int64{}
	for _, r := range records {
		out[r.TopicPartition()] = append(out[r.TopicPartition()], r.Offset)
	}
	return out
}

//go:build unix

package matrix

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
)

// patience bounds every wait of these tests.
const patience = 60 * time.Second

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
	cfg.APIVersionAutoTimeout = 20 * time.Second // on a busy machine brokers take their time
	cfg.DisableAutoCommit = cfg.AutoCommitInterval == 0
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil)) // shown with the test, when it fails
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := kafka.NewConsumer(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { closeNow(t, c) })
	return c
}

// assigned is open with partitions assigned by hand.
func (e *env) assigned(t *testing.T, cfg kafka.Config, tps ...kafka.TopicPartition) *kafka.Consumer {
	t.Helper()
	c := e.open(t, cfg)
	require.NoError(t, c.Assign(tps...))
	return c
}

func closeNow(t *testing.T, c *kafka.Consumer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, c.Close(ctx))
}

// poll polls until n records came, and gives them as they came.
func poll(t *testing.T, c *kafka.Consumer, n int) []kafka.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []kafka.Record
	for len(got) < n {
		records, err := c.Poll(ctx, time.Second)
		require.NoError(t, err, "after %d of %d records", len(got), n)
		got = slices.AppendSeq(got, records.All())
	}
	return got
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

func span(from, to int64) []int64 {
	var out []int64
	for o := from; o < to; o++ {
		out = append(out, o)
	}
	return out
}

func values(records []kafka.Record) []string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	return out
}

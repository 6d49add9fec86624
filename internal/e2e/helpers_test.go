//go:build unix

package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

// API keys by which proxies tell connections apart.
const (
	keyFetch     = 1
	keyMetadata  = 3
	keyJoinGroup = 11
	keyHeartbeat = 12
)

// Bounds of the settings that caseConfig gives.
const (
	requestTimeout = 3 * time.Second
	sessionTimeout = 6 * time.Second
	maxAge         = time.Second
	backoffMax     = 500 * time.Millisecond
)

// caseConfig has short timeouts and no automatic commits.
func caseConfig() kafka.Config {
	return kafka.Config{
		RequestTimeout: requestTimeout, SessionTimeout: sessionTimeout, HeartbeatInterval: heartbeat, MetadataMaxAge: maxAge,
		RetryBackoff: 50 * time.Millisecond, RetryBackoffMax: backoffMax, ReconnectBackoffMax: backoffMax,
		MaxPollInterval: 30 * time.Second, AutoOffsetReset: kafka.ResetEarliest, DisableAutoCommit: true,
	}
}

// faultConfig is caseConfig that gives a broker which swallows all the time that it has
// by default.
func faultConfig() kafka.Config {
	cfg := caseConfig()
	cfg.APIVersionAutoTimeout = 2 * time.Second
	return cfg
}

// ForEachReleaseAtOnce is ForEachRelease for tests that mostly wait: they run
// beside each other and beside other such tests.
func ForEachReleaseAtOnce(t *testing.T, test func(t *testing.T, target *Target)) {
	t.Helper()
	t.Parallel()
	ForEachRelease(t, func(t *testing.T, target *Target) {
		t.Parallel()
		test(t, target)
	})
}

// pollInTime polls for d and requires each Poll to keep to its timeout. It
// gives the records and the errors that came.
func pollInTime(t *testing.T, c *kafka.Consumer, d time.Duration) (records []kafka.Record, errs []error) {
	t.Helper()
	return pollUntil(t, c, d, func([]kafka.Record) bool { return false })
}

// pollUntil is pollInTime that ends before d is over when enough says so.
func pollUntil(t *testing.T, c *kafka.Consumer, d time.Duration, enough func([]kafka.Record) bool) (records []kafka.Record, errs []error) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end) && !enough(records); {
		began := time.Now()
		got, err := c.Poll(t.Context(), 500*time.Millisecond)
		require.LessOrEqual(t, time.Since(began), 500*time.Millisecond+pollSlack, "a Poll of 500 ms")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		records = slices.AppendSeq(records, got.All())
	}
	return records, errs
}

// pollOffsets polls until n records came, within d, and gives their offsets.
func pollOffsets(t *testing.T, c *kafka.Consumer, n int, d time.Duration) []int64 {
	t.Helper()
	records, errs := pollUntil(t, c, d, func(got []kafka.Record) bool { return len(got) >= n })
	require.Len(t, records, n, "records within %v; errors: %v", d, errs)
	return consume.Offsets(records)
}

// appendTo produces n records to one partition of a topic.
func appendTo(t testing.TB, target *Target, topic string, partition int32, n int) {
	t.Helper()
	records := make([]outside.Record, n)
	for i := range records {
		records[i] = outside.To(topic, partition, "k", "v")
	}
	target.Produce(t, nil, records...)
}

func position(t *testing.T, c *kafka.Consumer, tp kafka.TopicPartition) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o, err := c.Position(ctx, tp)
	require.NoError(t, err)
	return o
}

func endOffset(t *testing.T, c *kafka.Consumer, tp kafka.TopicPartition) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ends, err := c.EndOffsets(ctx, tp)
	require.NoError(t, err)
	return ends[tp]
}

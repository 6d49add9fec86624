//go:build unix

package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

// openTransaction fills partition 0 of a new topic with 90 records and 10 more
// of a transaction that it leaves open.
func openTransaction(t *testing.T, target *Target) (kafka.TopicPartition, *java.Transaction) {
	t.Helper()
	topic := target.Topic(t, 1)
	appendTo(t, target, topic, 0, 90)
	open := target.Java.Begin(t, target.Unique(t), nil)
	var records []outside.Record
	for range 10 {
		records = append(records, outside.To(topic, 0, "k", "in the transaction"))
	}
	open.Produce(t, records...)
	return kafka.TopicPartition{Topic: topic}, open
}

func assigned(t *testing.T, target *Target, cfg kafka.Config, tps ...kafka.TopicPartition) *kafka.Consumer {
	t.Helper()
	c := openConsumer(t, target, cfg)
	require.NoError(t, c.Assign(tps...))
	return c
}

// waitLag polls until the lag is known and as wanted; records that come are
// given back.
func waitLag(t *testing.T, c *kafka.Consumer, tp kafka.TopicPartition, want int64) []kafka.Record {
	t.Helper()
	lag := int64(-1)
	records, errs := pollUntil(t, c, patience, func([]kafka.Record) bool {
		now, ok := c.Lag(tp)
		if ok {
			require.GreaterOrEqual(t, now, int64(0))
			lag = now
		}
		return ok && now == want
	})
	require.Empty(t, errs)
	require.Equal(t, want, lag)
	return records
}

// B54
func TestEndOffsetsHeedTheIsolationLevel(t *testing.T) {
	ForEachReleaseAtOnce(t, func(t *testing.T, target *Target) {
		tp, open := openTransaction(t, target)
		cfg := caseConfig()
		cfg.IsolationLevel = kafka.ReadCommitted
		seeker := assigned(t, target, cfg, tp)
		require.Equal(t, int64(90), endOffset(t, seeker, tp))
		require.NoError(t, seeker.SeekToEnd())
		require.Equal(t, int64(90), position(t, seeker, tp))
		cfg.AutoOffsetReset = kafka.ResetLatest
		latest := assigned(t, target, cfg, tp)
		require.Equal(t, int64(90), position(t, latest, tp))
		require.Empty(t, waitLag(t, latest, tp, 0))

		uncommitted := assigned(t, target, caseConfig(), tp)
		require.Equal(t, int64(100), endOffset(t, uncommitted, tp))
		require.Equal(t, consume.Span(0, 100), pollOffsets(t, uncommitted, 100, patience))

		open.Commit(t)
		waitFor(t, "the marker", func() bool { return endOffset(t, seeker, tp) == 101 })
		for _, c := range []*kafka.Consumer{seeker, latest} {
			require.Equal(t, consume.Span(90, 100), pollOffsets(t, c, 10, patience))
			require.Empty(t, waitLag(t, c, tp, 0))
			require.Equal(t, int64(101), position(t, c, tp))
		}
	})
}

// B60
func TestLagIsMeasuredToWhatMayBeRead(t *testing.T) {
	ForEachReleaseAtOnce(t, func(t *testing.T, target *Target) {
		tp, open := openTransaction(t, target)
		cfg := caseConfig()
		cfg.IsolationLevel, cfg.MaxPollRecords = kafka.ReadCommitted, 40
		c := assigned(t, target, cfg, tp)
		require.Equal(t, consume.Span(0, 40), pollOffsets(t, c, 40, patience))
		lag, ok := c.Lag(tp)
		require.True(t, ok)
		require.Equal(t, int64(50), lag, "up to the last stable offset")
		require.Equal(t, consume.Span(40, 90), pollOffsets(t, c, 50, patience))
		require.Empty(t, waitLag(t, c, tp, 0))

		require.NoError(t, c.Pause(tp))
		open.Commit(t)
		waitFor(t, "the marker", func() bool { return endOffset(t, c, tp) == 101 })
		appendTo(t, target, tp.Topic, 0, 100)
		got, errs := pollInTime(t, c, time.Second)
		require.Empty(t, got)
		require.Empty(t, errs)
		require.NoError(t, c.Seek(tp, 40))
		if lag, ok := c.Lag(tp); ok { // as old as the last fetch, whose end was 90 or a later one
			require.Contains(t, []int64{50, 61, 161}, lag)
		}
		require.NoError(t, c.Resume(tp))
		require.Equal(t, consume.Span(40, 80), pollOffsets(t, c, 40, patience))
		lag, ok = c.Lag(tp)
		require.True(t, ok)
		require.Equal(t, int64(201-80), lag, "right at the next fetch")

		target.DeleteRecords(t, tp.Topic, 0, 150)
		require.NoError(t, c.Seek(tp, 10))
		if lag, ok := c.Lag(tp); ok {
			require.Equal(t, int64(191), lag)
		}
		require.Equal(t, consume.Span(150, 190), pollOffsets(t, c, 40, patience))
		lag, _ = c.Lag(tp)
		require.Equal(t, int64(201-190), lag)
	})
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

// fast are the settings that tests begin with: what users have, only quicker.
func fast(b *testbroker.Cluster) Config {
	return Config{
		BootstrapServers: b.Addrs(),
		Dialer:           b.Dial,
		RequestTimeout:   3 * time.Second,
		SessionTimeout:   6 * time.Second, HeartbeatInterval: 500 * time.Millisecond,
		MetadataMaxAge: time.Second, RetryBackoff: 50 * time.Millisecond,
		MaxPollInterval: 30 * time.Second,
		AutoOffsetReset: ResetEarliest, DisableAutoCommit: true,
		FetchMaxWait: 100 * time.Millisecond,
		Logger:       slog.New(slog.DiscardHandler),
	}
}

// patient gives cfg bounds for a test by the real clock, which a machine that has much
// else to do keeps to as well.
func patient(cfg Config) Config {
	const long = 30 * time.Second
	cfg.RequestTimeout, cfg.SessionTimeout, cfg.MaxPollInterval = long, long, 10*long
	cfg.APIVersionAutoTimeout, cfg.SocketConnectionSetupTimeout = long, long
	return cfg
}

// open returns a consumer that is closed with the test.
func openConsumer(t testing.TB, cfg Config) *Consumer {
	t.Helper()
	c, err := NewConsumer(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// produce writes n records whose values are their offsets.
func produce(b *testbroker.Cluster, topic string, partition int32, n int) {
	for range n {
		next := b.EndOffset(topic, partition)
		b.Produce(topic, partition, testbroker.Record{Value: fmt.Append(nil, next)})
	}
}

// pollN polls until n records came.
func pollN(t *testing.T, c *Consumer, n int) []Record {
	t.Helper()
	var got []Record
	deadline := time.Now().Add(20 * time.Second)
	for len(got) < n {
		require.True(t, time.Now().Before(deadline), "%d of %d records came", len(got), n)
		records, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		for r := range records.All() {
			got = append(got, r)
		}
	}
	return got
}

func offsetsOf(records []Record) []int64 {
	out := make([]int64, len(records))
	for i, r := range records {
		out[i] = r.Offset
	}
	return out
}

// span returns the numbers from first to last.
func span(first, last int64) []int64 {
	var out []int64
	for i := first; i <= last; i++ {
		out = append(out, i)
	}
	return out
}

// errorsAs is errors.As where the answer decides what to check.
func errorsAs(err error, target any) bool { return errors.As(err, target) }

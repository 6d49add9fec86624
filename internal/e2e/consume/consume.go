// Package consume has what suites do with a consumer of the library: open it, poll
// until enough came, close it, each within a bound, and look at what came.
package consume

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
)

// Patience bounds each wait.
const Patience = 2 * time.Minute

// Open makes a consumer that is closed with the test. Without a Logger in cfg its
// log is shown with the test, when it fails. Without an APIVersionAutoTimeout it has
// one for a busy machine, on which brokers take their time.
func Open(t *testing.T, cfg kafka.Config) *kafka.Consumer {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	cfg.APIVersionAutoTimeout = cmp.Or(cfg.APIVersionAutoTimeout, 20*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	c, err := kafka.NewConsumer(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { Close(t, c) })
	return c
}

// Close closes a consumer, which may be closed already.
func Close(t *testing.T, c *kafka.Consumer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	require.NoError(t, c.Close(ctx))
}

// Poll polls until n records came, and gives them as they came.
func Poll(t *testing.T, c *kafka.Consumer, n int) []kafka.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var got []kafka.Record
	for len(got) < n {
		records, err := c.Poll(ctx, time.Second)
		require.NoError(t, err, "after %d of %d records", len(got), n)
		got = slices.AppendSeq(got, records.All())
	}
	return got
}

// Offsets gives the offsets of records.
func Offsets(records []kafka.Record) []int64 {
	var out []int64
	for _, r := range records {
		out = append(out, r.Offset)
	}
	return out
}

// Values gives the values of records.
func Values(records []kafka.Record) []string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	return out
}

// Span gives the offsets from one up to another, which is not among them.
func Span(from, to int64) []int64 {
	var out []int64
	for o := from; o < to; o++ {
		out = append(out, o)
	}
	return out
}

//go:build linux

package matrix

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
)

// B40: the newest release, and the one that neither answers nor closes when it is asked
// for its version. Nothing else may run meanwhile, since all of the process is counted.
func TestConsumersThatWereClosedLeaveNothing(t *testing.T) {
	const times, atOnce, tolerance = 100, 10, 2
	for _, release := range []string{"4.4.0", "0.9.0.1"} {
		t.Run(release, func(t *testing.T) {
			e := start(t, release)
			topic := e.topic(t, "left", 1, nil)
			e.fill(t, topic, 0, 1, 0)
			require.NoError(t, e.openAndClose(t, topic)) // what the process keeps for good is there now
			files, goroutines := openFiles(t), runtime.NumGoroutine()
			for range times / atOnce {
				errs := make([]error, atOnce)
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() { errs[i] = e.openAndClose(t, topic) })
				}
				wg.Wait()
				require.NoError(t, errors.Join(errs...))
			}
			require.Eventually(t, func() bool {
				return openFiles(t) <= files+tolerance && runtime.NumGoroutine() <= goroutines+tolerance+1 // Eventually has one itself
			}, patience, 50*time.Millisecond, "of %d files and %d goroutines before", files, goroutines)
		})
	}
}

// openAndClose reads a record of a group's by a consumer of its own.
func (e *env) openAndClose(t *testing.T, topic string) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := kafka.NewConsumer(ctx, kafka.Config{
		BootstrapServers: e.cluster.Bootstrap(), GroupID: "left", AutoOffsetReset: kafka.ResetEarliest, DisableAutoCommit: true,
		APIVersionAutoTimeout: 20 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if err = c.Assign(kafka.TopicPartition{Topic: topic}); err == nil {
		var got *kafka.Records
		if got, err = c.Poll(ctx, -1); err == nil && got.Len() != 1 {
			err = fmt.Errorf("%d records", got.Len())
		}
	}
	return errors.Join(err, c.Close(ctx))
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

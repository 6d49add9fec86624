//go:build unix

package kafka

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

// cpuTime is how long the process has run on all cores.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// requireQuiet requires that waiting costs less than 10 % of a core.
func requireQuiet(t *testing.T, wait func()) {
	t.Helper()
	runtime.GC() // and none for what tests before this one left
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before, began := cpuTime(t), time.Now()
	wait()
	used, took := cpuTime(t)-before, time.Since(began)
	require.Less(t, used, took/10, "CPU in %v", took)
}

// B48
func TestWaitingCostsNoCPU(t *testing.T) {
	for _, group := range []string{"g", ""} {
		for _, o := range append(outages[:2:2], struct {
			name       string
			away, back func(*testbroker.Cluster)
			groupOnly  bool
		}{"idle", func(*testbroker.Cluster) {}, nil, false}) {
			t.Run(fmt.Sprintf("%s, group %q", o.name, group), func(t *testing.T) {
				realTime(t, 10, func(t *testing.T, b *testbroker.Cluster) {
					cfg := patient(fast(b))
					cfg.GroupID, cfg.DisableAutoCommit, cfg.AutoCommitInterval = group, false, 100*time.Millisecond
					cfg.Topics = []string{"t"}
					c := openConsumer(t, cfg)
					defer func() {
						ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
						defer cancel()
						_ = c.Close(ctx)
					}()
					produce(b, "t", 0, 1)
					pollN(t, c, 1)
					o.away(b)
					requireQuiet(t, func() {
						for range 2 {
							_, _ = c.Poll(t.Context(), 250*time.Millisecond)
						}
					})
					requireQuiet(t, func() {
						ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
						defer cancel()
						for range c.Messages(ctx) {
						}
					})
				})
			})
		}
	}
}

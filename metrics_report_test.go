package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

// A hearer is a MetricReporter that keeps what it is told.
type hearer struct {
	start time.Time
	delay time.Duration // of each call

	mu    sync.Mutex
	heard []heard
}

type heard struct {
	at    time.Duration
	what  string // "changed", "removed", "closed"
	name  string
	value float64
}

func newHearer() *hearer { return &hearer{start: time.Now()} }

func (h *hearer) MetricChanged(m Metric)     { h.hear("changed", shortName(m.Name), m.Value) }
func (h *hearer) MetricRemoved(n MetricName) { h.hear("removed", shortName(n), 0) }
func (h *hearer) Close()                     { h.hear("closed", "", 0) }

func (h *hearer) hear(what, name string, value float64) {
	time.Sleep(h.delay)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, heard{time.Since(h.start).Round(time.Millisecond), what, name, value})
}

// about returns what was heard of one metric.
func (h *hearer) about(name string) (lines []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.heard {
		if c.name == name {
			lines = append(lines, strings.TrimSuffix(fmt.Sprintf("%v %s %v", c.at, c.what, c.value), " 0"))
		}
	}
	return lines
}

func (h *hearer) all() []heard {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.heard)
}

func TestReportersHearOfWhatAppearsChangesAndGoes(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		h := newHearer()
		cfg := fast(b)
		cfg.MetricReporters, cfg.MetricsSampleWindow = []MetricReporter{h}, 10*time.Second
		c := openConsumer(t, cfg)
		time.Sleep(1500 * time.Millisecond)
		require.NoError(t, c.Assign(tp0))
		time.Sleep(10 * time.Second)
		produceWide(b, "t", 0, 30)
		pollN(t, c, 30)
		time.Sleep(10 * time.Second)
		require.NoError(t, c.Assign(TopicPartition{Topic: "t", Partition: 1}))
		time.Sleep(10 * time.Second)
		require.NoError(t, c.Close(t.Context()))

		require.Equal(t, []string{
			"0s changed", "20s changed 30", // at the end of a window only
			"31.5s removed",
		}, h.about("records-consumed-total"))
		require.Equal(t, []string{"2s changed", "20s changed 30", "22s removed"}, h.about("records-lead{partition=0,topic=t}"))
		require.Equal(t, []string{"22s changed", "31.5s removed"}, h.about("records-lag{partition=1,topic=t}"))
		require.Equal(t, []string{"0s changed NaN", "31.5s removed"}, h.about("reauthentication-latency-avg"), "NaN is no change of NaN")
	})
}

func TestReportersHearTheLastValuesAtTheEnd(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		h, other := newHearer(), newHearer()
		cfg := fast(b)
		cfg.MetricReporters = []MetricReporter{h, other}
		produceWide(b, "t", 0, 30)
		c := reader(t, cfg, tp0)
		pollN(t, c, 30)
		require.NoError(t, c.Close(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		for _, h := range []*hearer{h, other} {
			all := h.all()
			require.Equal(t, "closed", all[len(all)-1].what)
			present := map[string]float64{}
			removed := false
			for _, c := range all[:len(all)-1] {
				switch c.what {
				case "changed":
					require.False(t, removed, "what goes, goes last")
					present[c.name] = c.value
				case "removed":
					if !removed {
						require.EqualValues(t, 30, present["records-consumed-total{topic=t}"])
						require.Zero(t, present["connection-count"])
					}
					removed = true
					require.Contains(t, present, c.name)
					delete(present, c.name)
				default:
					t.Errorf("%q came before the end", c.what)
				}
			}
			require.Empty(t, present)
		}
	})
}

func TestASlowReporterKeepsNobodyWaiting(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		slow, other := newHearer(), newHearer()
		slow.delay = time.Minute
		cfg := fast(b)
		cfg.MetricReporters = []MetricReporter{slow, other}
		produceWide(b, "t", 0, 30)
		c := openConsumer(t, cfg)
		synctest.Wait() // the reporters have looked
		require.NoError(t, c.Assign(tp0))
		pollN(t, c, 30)
		time.Sleep(31 * time.Second)
		require.Less(t, time.Since(slow.start), 32*time.Second, "reading waits for no reporter")
		require.Equal(t, []string{"0s changed", "30s changed 30"}, other.about("records-consumed-total"))

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		require.NoError(t, c.Close(ctx))
		require.Equal(t, 5*time.Second, time.Since(began), "Close gives up with its context")
		all := other.all()
		require.Equal(t, "closed", all[len(all)-1].what)
		require.Equal(t, began.Sub(other.start).Round(time.Millisecond), all[len(all)-1].at)
		synctest.Wait()
		time.Sleep(24 * time.Hour) // what is left to tell ends some time
	})
}

func TestReportersMayCallTheConsumer(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		var c *Consumer
		ready := make(chan struct{})
		calls := callingReporter(func() {
			<-ready
			_, _ = c.Metrics()
			_, _ = c.Lag(tp0)
			_ = c.Assignment()
		})
		cfg := fast(b)
		cfg.MetricReporters = []MetricReporter{calls}
		c = reader(t, cfg, tp0)
		close(ready)
		time.Sleep(time.Minute)
		require.NoError(t, c.Close(t.Context()))
	})
}

type callingReporter func()

func (f callingReporter) MetricChanged(Metric)     { f() }
func (f callingReporter) MetricRemoved(MetricName) { f() }
func (f callingReporter) Close()                   { f() }

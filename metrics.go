package kafka

import (
	"time"

	"github.com/kafkaconsumer/kafka/internal/metrics"
)

// A MetricName identifies a metric: its group and name are those of kafka-python
// and Java, the tags tell what it is about (client-id, node-id, topic, partition).
type MetricName struct {
	Group string
	Name  string
	Tags  string // "key=value" pairs, sorted by key, joined by commas; values as they are
}

// A Metric is a measured value. NaN stands for what is not known: an average or a
// maximum when nothing was measured in the windows, or the lag of a partition of which
// nothing was fetched yet.
type Metric struct {
	Name  MetricName
	Value float64
}

// A MetricReporter is told of each metric that appears, changes and goes. Each reporter
// is called on a goroutine of its own, one call at a time, without a lock held: it may
// take its time and may call the consumer, but not wait for Close.
type MetricReporter interface {
	// MetricChanged is called with a metric that appears, within a second, and with
	// each one whose value is another one than the last time, every MetricsSampleWindow
	// and when the consumer is closed.
	MetricChanged(Metric)
	// MetricRemoved is called when a metric goes, within a second, and for each one that
	// is left when the consumer is closed.
	MetricRemoved(MetricName)
	// Close is called once, as the last call, when the consumer is closed. Close of the
	// consumer waits for it as long as its context lasts.
	Close()
}

// Metrics returns what the consumer measures: all metrics that there are now, sorted by
// group, name and tags. Rates, averages, maxima and minima are over the last
// MetricsNumSamples windows of MetricsSampleWindow, of which the newest has only begun;
// names that end in -total count from the beginning. docs/metrics.md lists them all.
//
// The metrics of a partition are there while it is assigned. Those of a topic without
// assigned partitions, and of a broker without a connection, go when all windows are
// over. Metrics of the group are there when GroupID is set.
//
// To look changes nothing and waits for nobody. The error is ErrClosed.
func (c *Consumer) Metrics() ([]Metric, error) {
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	return c.measured(time.Now()), nil
}

func (c *Consumer) measured(now time.Time) []Metric {
	c.fetcher.mu.Lock()
	partitions := c.fetcher.table.States(now)
	c.fetcher.mu.Unlock()
	values := c.metrics.Collect(partitions, now)
	list := make([]Metric, len(values))
	for i, v := range values {
		list[i] = Metric{Name: MetricName{Group: v.Group, Name: v.Name, Tags: v.Tags}, Value: v.Value}
	}
	return list
}

// newMetrics returns what a consumer of cfg, which has its defaults, measures with.
func newMetrics(cfg *Config) *metrics.Set {
	windows := metrics.Windows{Samples: cfg.MetricsNumSamples, Length: cfg.MetricsSampleWindow}
	return metrics.New(windows, cfg.ClientID, cfg.GroupID != "", time.Now)
}

// measureCallback notes how long a function of the rebalance listener took.
func (c *Consumer) measureCallback(kind stepKind, began time.Time) {
	note := c.metrics.Group.Revoked
	switch kind {
	case stepAssign:
		note = c.metrics.Group.Assigned
	case stepLost:
		note = c.metrics.Group.Lost
	}
	noteTime(note, began, nil)
}

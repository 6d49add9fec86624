package kafka

import (
	"context"
	"time"
)

// reporters tells the MetricReporters. Each has a goroutine of its own, so that a slow
// one keeps nobody else waiting.
type reporters struct {
	c    *Consumer
	stop chan struct{} // closed by close
	all  []*report
}

// A report is what one reporter was told. It belongs to its goroutine.
type report struct {
	c     *Consumer
	to    MetricReporter
	told  map[MetricName]toldValue
	looks int
	ended chan struct{} // closed when the goroutine has ended
}

type toldValue struct {
	value float64
	look  int // when the metric was there last
}

// reportPeriod is how often a reporter's goroutine looks for metrics that came or went.
const reportPeriod = time.Second

func newReporters(c *Consumer) *reporters {
	r := &reporters{c: c, stop: make(chan struct{})}
	for _, to := range c.cfg.MetricReporters {
		r.all = append(r.all, &report{c: c, to: to, told: make(map[MetricName]toldValue), ended: make(chan struct{})})
	}
	return r
}

// start starts the goroutines; close ends them.
func (r *reporters) start() {
	for _, report := range r.all {
		go report.run(r.stop)
	}
}

// close tells the reporters that all metrics go, and awaits that as long as ctx lasts: a
// reporter may hang.
func (r *reporters) close(ctx context.Context) {
	close(r.stop)
	for _, report := range r.all {
		select {
		case <-report.ended:
		case <-ctx.Done():
		}
	}
}

// run is the goroutine of one reporter. start starts it, close stops and awaits it.
func (r *report) run(stop <-chan struct{}) {
	defer close(r.ended)
	window := r.c.cfg.MetricsSampleWindow
	ticker := time.NewTicker(min(window, reportPeriod))
	defer ticker.Stop()
	changes := r.c.metrics.Changes()
	now := time.Now()
	r.tell(now, true)
	due := now.Add(window)
	for {
		select {
		case <-ticker.C:
		case <-stop:
			r.tell(time.Now(), true)
			r.end()
			return
		}
		now = time.Now()
		over, before := !now.Before(due), changes
		if over {
			due = now.Add(window)
		}
		if changes = r.c.metrics.Changes(); over || changes != before {
			r.tell(now, over)
		}
	}
}

// tell tells of metrics that appeared or went, and, with values, of new values.
func (r *report) tell(now time.Time, values bool) {
	r.looks++
	for _, m := range r.c.measured(now) {
		last, told := r.told[m.Name]
		if !told || values && !sameValue(m.Value, last.value) {
			last.value = m.Value
			r.to.MetricChanged(m)
		}
		last.look = r.looks
		r.told[m.Name] = last
	}
	r.forget(func(t toldValue) bool { return t.look < r.looks })
}

// sameValue is == for which a number that is not known does not change.
func sameValue(a, b float64) bool { return a == b || a != a && b != b }

// forget tells that metrics are gone.
func (r *report) forget(gone func(toldValue) bool) {
	for name, t := range r.told {
		if gone(t) {
			delete(r.told, name)
			r.to.MetricRemoved(name)
		}
	}
}

// end tells that the consumer is closed.
func (r *report) end() {
	r.forget(func(toldValue) bool { return true })
	r.to.Close()
}

package metrics

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Windows say over which time the values of a sensor count: over so many windows, the
// newest of which may have only begun. The arithmetic is that of kafka-python, and of
// Java 2.8: a window begins with the first value that comes when the one before
// is over, and counts as long as it began less than Samples times Length ago.
type Windows struct {
	Samples int           // at least 1
	Length  time.Duration // of each, positive
}

// span is for how long a window counts.
func (w *Windows) span() time.Duration { return time.Duration(w.Samples) * w.Length }

// A Sensor adds values up. Its methods may be called from any goroutine. Record takes
// no lock, except for the first value of a window.
type Sensor struct {
	windows    *Windows
	current    atomic.Pointer[window]
	sum, count atomic.Int64 // of all values ever

	mu   sync.Mutex
	kept []*window // at most Samples, oldest first; the last one is current
}

// A window is what was recorded from its start on. Its sum is the growth of the
// sensor's, so that a value costs nothing for it.
type window struct {
	start              time.Time
	sumThen, countThen int64 // of the sensor when the window began
	smallest, greatest atomic.Int64
}

// newSensor returns a Sensor that has seen nothing.
func newSensor(w *Windows) *Sensor { return &Sensor{windows: w} }

// Record adds a value.
func (s *Sensor) Record(value int64, now time.Time) {
	w := s.current.Load()
	if w == nil || now.Sub(w.start) >= s.windows.Length {
		w = s.begin(now)
	}
	s.sum.Add(value)
	s.count.Add(1)
	for old := w.greatest.Load(); value > old && !w.greatest.CompareAndSwap(old, value); {
		old = w.greatest.Load()
	}
	for old := w.smallest.Load(); value < old && !w.smallest.CompareAndSwap(old, value); {
		old = w.smallest.Load()
	}
}

// begin begins a window, unless another goroutine just did.
func (s *Sensor) begin(now time.Time) *window {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.current.Load(); w != nil && now.Sub(w.start) < s.windows.Length {
		return w
	}
	w := &window{start: now, sumThen: s.sum.Load(), countThen: s.count.Load()}
	w.smallest.Store(math.MaxInt64)
	w.greatest.Store(math.MinInt64)
	if len(s.kept) == s.windows.Samples {
		s.kept = append(s.kept[:0], s.kept[1:]...)
	}
	s.kept = append(s.kept, w)
	s.current.Store(w)
	return w
}

// A Reading is what a Sensor's windows hold at a time. To look changes nothing.
type Reading struct {
	sum, count         int64
	smallest, greatest int64
	elapsed            time.Duration // what rates are divided by
}

// Read returns what the windows hold now.
func (s *Sensor) Read(now time.Time) Reading {
	r := Reading{smallest: math.MaxInt64, greatest: math.MinInt64}
	s.mu.Lock()
	defer s.mu.Unlock()
	live := s.kept
	for len(live) > 0 && now.Sub(live[0].start) >= s.windows.span() {
		live = live[1:]
	}
	if len(live) > 0 {
		oldest := live[0]
		r.sum, r.count = s.sum.Load()-oldest.sumThen, s.count.Load()-oldest.countThen
		r.elapsed = now.Sub(oldest.start)
	}
	for _, w := range live {
		r.smallest = min(r.smallest, w.smallest.Load())
		r.greatest = max(r.greatest, w.greatest.Load())
	}
	// All windows but one count as whole, so that the first values are not taken for a
	// high rate.
	if whole := s.windows.Samples - 1 - int(r.elapsed/s.windows.Length); whole > 0 {
		r.elapsed += time.Duration(whole) * s.windows.Length
	}
	return r
}

// Rate returns the values' sum per second.
func (r Reading) Rate() float64 { return r.perSecond(r.sum) }

// CountRate returns the number of values per second.
func (r Reading) CountRate() float64 { return r.perSecond(r.count) }

func (r Reading) perSecond(n int64) float64 {
	if r.elapsed <= 0 {
		return 0
	}
	return float64(n) / r.elapsed.Seconds()
}

// Avg returns the values' average, NaN without any.
func (r Reading) Avg() float64 { return r.orNaN(float64(r.sum) / float64(r.count)) }

// Max returns the greatest value, NaN without any.
func (r Reading) Max() float64 { return r.orNaN(float64(r.greatest)) }

// Min returns the smallest value, NaN without any.
func (r Reading) Min() float64 { return r.orNaN(float64(r.smallest)) }

func (r Reading) orNaN(v float64) float64 {
	if r.count == 0 {
		return math.NaN()
	}
	return v
}

// Sum returns the sum of all values ever recorded.
func (s *Sensor) Sum() float64 { return float64(s.sum.Load()) }

// Count returns how many values were ever recorded.
func (s *Sensor) Count() float64 { return float64(s.count.Load()) }

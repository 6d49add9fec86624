package metrics

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A vector is what kafka-python's statistics make of a sequence of values; see
// testdata/python_vectors.py. A null is what they have no number for.
type vector struct {
	Samples int
	Window  int64
	Records [][2]int64
	At      int64

	Rate, CountRate, Avg, Max, Min, Total *float64
}

func (v *vector) time(ms int64) time.Time { return time.UnixMilli(ms) }

func TestSensorsComputeWhatKafkaPythonDoes(t *testing.T) {
	b, err := os.ReadFile("testdata/kafka-python-3.0.12-vectors.jsonl")
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(b)) {
		var v vector
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		s := newSensor(&Windows{Samples: v.Samples, Length: time.Duration(v.Window) * time.Millisecond})
		for _, r := range v.Records {
			s.Record(r[1], v.time(r[0]))
		}
		for range 2 { // a look changes nothing
			r := s.Read(v.time(v.At))
			near(t, orZero(v.Rate), r.Rate(), "rate", line)
			near(t, orZero(v.CountRate), r.CountRate(), "rate of the count", line)
			if v.Max != nil { // else kafka-python's average of nothing is 0, and Java's and ours NaN
				near(t, v.Avg, r.Avg(), "average", line)
			}
			near(t, v.Max, r.Max(), "maximum", line)
			near(t, v.Min, r.Min(), "minimum", line)
		}
		near(t, v.Total, s.Sum(), "total", line)
		require.EqualValues(t, len(v.Records), s.Count(), line)
		n++
	}
	require.Equal(t, 300, n)
}

func orZero(v *float64) *float64 {
	if v == nil {
		return new(float64)
	}
	return v
}

func near(t *testing.T, want *float64, got float64, what, line string) {
	t.Helper()
	if want == nil {
		require.True(t, math.IsNaN(got), "%s is %v instead of NaN for %s", what, got, line)
		return
	}
	require.InDelta(t, *want, got, 1e-9*(1+math.Abs(*want)), "%s for %s", what, line)
}

func TestSensorsLoseNothingThatManyGoroutinesRecord(t *testing.T) {
	const goroutines, each = 8, 9_999
	s := newSensor(&Windows{Samples: 3, Length: time.Hour})
	start := time.UnixMilli(0)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				s.Record(int64(g*each+i), start.Add(time.Duration(i/(each/3))*time.Hour))
				if i%100 == 0 {
					_ = s.Read(start)
				}
			}
		})
	}
	wg.Wait()
	r := s.Read(start.Add(2 * time.Hour))
	const n = goroutines * each
	require.EqualValues(t, n, s.Count())
	require.EqualValues(t, n*(n-1)/2, s.Sum())
	require.EqualValues(t, n, r.count)
	require.EqualValues(t, n*(n-1)/2, r.sum)
	require.EqualValues(t, 0, r.Min())
	require.EqualValues(t, n-1, r.Max())
}

func TestARecordedValueAllocatesNothing(t *testing.T) {
	s := newSensor(&Windows{Samples: 2, Length: time.Hour})
	now := time.Now()
	s.Record(1, now)
	require.Zero(t, testing.AllocsPerRun(1000, func() { s.Record(7, now) }))
}

func BenchmarkRecord(b *testing.B) {
	s := newSensor(&Windows{Samples: 2, Length: time.Hour})
	now := time.Now()
	for b.Loop() {
		s.Record(7, now)
	}
}

package conn

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoffDoublesUpToItsMaximum(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name      string
		base, max time.Duration
		want      []time.Duration // after 0, 1, 2, … failures, without jitter
	}{
		{"the usual", 50 * ms, 1000 * ms, []time.Duration{0, 50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1000 * ms, 1000 * ms}},
		{"no wait", 0, 1000 * ms, []time.Duration{0, 0, 0}},
		{"negative is no wait", -1, 1000 * ms, []time.Duration{0, 0, 0}},
		{"no growth without a maximum", 50 * ms, 0, []time.Duration{0, 50 * ms, 50 * ms}},
		{"maximum below the base", 50 * ms, 20 * ms, []time.Duration{0, 20 * ms, 20 * ms}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for failures, want := range tc.want {
				require.Equal(t, want, Backoff{tc.base, tc.max}.delay(failures, 0.5), "%d failures", failures)
			}
		})
	}
}

func TestBackoffJitter(t *testing.T) {
	b := Backoff{100 * time.Millisecond, time.Second}
	require.Equal(t, 160*time.Millisecond, b.delay(2, 0))
	require.InDelta(t, float64(240*time.Millisecond), float64(b.delay(2, math.Nextafter(1, 0))), float64(time.Microsecond))
	require.Equal(t, 800*time.Millisecond, b.delay(20, 0))
	require.Equal(t, time.Second, b.delay(20, 0.99), "jitter does not go beyond the maximum")

	seen := make(map[time.Duration]bool)
	for range 100 {
		d := b.Delay(1)
		require.GreaterOrEqual(t, d, 80*time.Millisecond)
		require.LessOrEqual(t, d, 120*time.Millisecond)
		seen[d] = true
	}
	require.Greater(t, len(seen), 10)
}

func TestBackoffDoesNotOverflow(t *testing.T) {
	require.Equal(t, time.Duration(math.MaxInt64), Backoff{time.Hour, math.MaxInt64}.delay(math.MaxInt, 0.999))
}

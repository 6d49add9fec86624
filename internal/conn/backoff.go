package conn

import (
	"math/rand/v2"
	"time"
)

// jitter is how much a backoff varies, so that clients that failed together do
// not come back together (KIP-580).
const jitter = 0.2

// A Backoff says how long to wait after failures in a row: Base after the
// first, twice as long after each further one, at most Max, all ±20 % but never
// above Max. Base <= 0 means no wait; Max <= 0 means no growth. It holds no
// state: its user counts failures and starts anew after a success.
type Backoff struct {
	Base, Max time.Duration
}

// Delay returns the wait after the given number of failures in a row, with
// jitter. It is 0 for no failures.
func (b Backoff) Delay(failures int) time.Duration {
	return b.delay(failures, rand.Float64())
}

// delay is Delay with the random number, in [0, 1), from outside.
func (b Backoff) delay(failures int, random float64) time.Duration {
	if failures <= 0 || b.Base <= 0 {
		return 0
	}
	longest := b.Max
	if longest <= 0 {
		longest = b.Base
	}
	d := min(b.Base, longest)
	for i := 1; i < failures && d < longest; i++ {
		// Half of the rest is compared, because doubling could overflow.
		if d > longest/2 {
			d = longest
		} else {
			d *= 2
		}
	}
	if varied := float64(d) * (1 - jitter + 2*jitter*random); varied < float64(longest) {
		return time.Duration(varied)
	}
	return longest
}

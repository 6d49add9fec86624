//go:build !race

package fetch

import (
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// Under the race detector pools drop some of what they are given.

// What a fetch allocates does not depend on how many records it brings: a segment and its
// lease for each 512 KiB, the one small chunk at the end, and queues that Seek drops.
func TestFetchHardlyAllocates(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	defer recycling.Store(recycling.Swap(true))
	for batches, limit := range map[int]float64{1: 5, 20: 11} {
		t.Run(fmt.Sprint(batches, " batches"), func(t *testing.T) {
			round := newRound(t, numberedBatches(batches, 500), true)
			round()
			require.LessOrEqual(t, testing.AllocsPerRun(100, round), limit)
		})
	}
}

//go:build !race

package kafka

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
)

// Under the race detector pools drop some of what they are given.

// With Release a Poll allocates less than once, however many records it returns.
func TestPollHardlyAllocatesWithRelease(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	const perPoll, polls = 100, 100
	b := testbroker.New(t)
	b.CreateTopic("t", 1)
	b.Produce("t", 0, numberedRecords((polls+10)*perPoll)...)
	cfg := patient(fast(b))
	cfg.MetadataMaxAge, cfg.FetchMaxWait = time.Hour, 20*time.Second // nothing else is done, however long it takes
	c := openConsumer(t, cfg)
	require.NoError(t, c.Assign(tp0))
	poll := func() {
		records, err := c.PollMax(t.Context(), time.Minute, perPoll)
		if err != nil || records.Len() != perPoll {
			t.Error(records.Len(), err)
		}
		for r := range records.All() {
			if len(r.Value) == 0 {
				t.Error(r)
			}
		}
		records.Release()
	}
	poll()
	require.Less(t, testing.AllocsPerRun(polls, poll), 1.0)
}

package kafka

import (
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/stretchr/testify/require"
)

// B54
func TestEndOfALogWithAnOpenTransaction(t *testing.T) {
	for _, tc := range []struct {
		isolation  IsolationLevel
		open, done int64
	}{{ReadCommitted, 90, 101}, {ReadUncommitted, 100, 101}} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			b.AppendBatch("t", 0, batch.V2{Records: make([]batch.Record, 90)})
			producer := batch.Producer{ID: 7}
			b.AppendBatch("t", 0, batch.V2{Producer: &producer, Transactional: true, Records: make([]batch.Record, 10)})
			cfg := fast(b)
			cfg.IsolationLevel, cfg.AutoOffsetReset = tc.isolation, ResetLatest
			c := reader(t, cfg, tp0)
			end := func() int64 {
				ends, err := c.EndOffsets(t.Context(), tp0)
				require.NoError(t, err)
				return ends[tp0]
			}
			lag := func() int64 {
				n, known := c.Lag(tp0)
				require.True(t, known)
				return n
			}
			require.Equal(t, tc.open, position(t, c, tp0), "latest")
			require.Equal(t, tc.open, end())
			require.NoError(t, c.Seek(tp0, 50))
			require.Len(t, pollExactly(t, c, 10), 10)
			require.Equal(t, tc.open-60, lag())
			require.NoError(t, c.SeekToEnd(tp0))
			require.Equal(t, tc.open, position(t, c, tp0))
			records, err := c.Poll(t.Context(), 300*time.Millisecond)
			require.NoError(t, err)
			require.Zero(t, records.Len())
			require.Zero(t, lag())

			b.AppendBatch("t", 0, batch.Marker(0, producer, true))
			if tc.isolation == ReadCommitted {
				require.Equal(t, span(90, 99), offsetsOf(pollN(t, c, 10)))
			}
			untilPosition(t, c, tp0, 101)
			require.Equal(t, tc.done, end())
			require.Zero(t, lag())
			require.NoError(t, c.Seek(tp0, 80))
			require.NoError(t, c.SeekToEnd())
			require.Equal(t, tc.done, position(t, c, tp0))
		})
	}
}

package kafka

import (
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// B04 (d): compaction has taken the last offsets of the log away.
func TestOffsetsThatCompactionTookArePassedOver(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		b.Append("t", 0, nil, 29)
		c := reader(t, fast(b), tp0)
		require.Equal(t, span(0, 4), offsetsOf(pollN(t, c, 5)))
		readUntilPosition(t, c, 30)
		lag, known := c.Lag(tp0)
		require.True(t, known)
		require.Zero(t, lag)
	})
}

// An answer is empty too while it waits for tiered storage.
func TestOffsetsInTieredStorageAreNotPassedOver(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		b.Append("t", 0, nil, 29)
		b.On(keyListOffsets).Edit(func(r testbroker.Request, resp kmsg.Response) {
			for _, topic := range r.Message.(*kmsg.ListOffsetsRequest).Topics {
				if topic.Partitions[0].Timestamp == -4 {
					resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset = 20
				}
			}
		})
		c := reader(t, fast(b), tp0)
		pollN(t, c, 5)
		for range 20 {
			records, err := c.Poll(t.Context(), time.Second)
			require.NoError(t, err)
			require.Zero(t, records.Len())
			require.EqualValues(t, 5, position(t, c, tp0))
		}
	})
}

func readUntilPosition(t *testing.T, c *Consumer, offset int64) {
	t.Helper()
	for range 50 {
		_, err := c.Poll(t.Context(), 200*time.Millisecond)
		require.NoError(t, err)
		if position(t, c, tp0) == offset {
			return
		}
	}
	require.Equal(t, offset, position(t, c, tp0))
}

package kafka

import (
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
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

// convert has brokers answer an old Fetch as those of 3.x do when they must convert what
// they send: a batch that was cut does not come at all.
func convert(b *testbroker.Cluster) {
	b.On(keyFetch).Edit(func(_ testbroker.Request, resp kmsg.Response) {
		for i := range resp.(*kmsg.FetchResponse).Topics {
			for j := range resp.(*kmsg.FetchResponse).Topics[i].Partitions {
				p := &resp.(*kmsg.FetchResponse).Topics[i].Partitions[j]
				var h protocol.BatchHeader
				if len(p.RecordBatches) < protocol.MinBatchPeek || h.Parse(p.RecordBatches) == nil && h.Size > len(p.RecordBatches) {
					p.RecordBatches = nil
				}
			}
		}
	})
}

// With an old Fetch a batch that no answer has room for looks like offsets that compaction
// took away. It is never passed over.
func TestABatchThatANewBrokerHidesFromAnOldFetchIsAnError(t *testing.T) {
	for _, release := range []string{"0.9.0", "0.10.0"} {
		t.Run(release, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
				convert(b)
				produceOld(b, "t", 0, 2)
				b.Append("t", 0, batch.Message{Offset: 2, Value: make([]byte, 5<<20)}.Bytes(), 2)
				produceOld(b, "t", 0, 2)
				produceOld(b, "t", 1, 5)
				c := reader(t, changed(b, func(cfg *Config) {
					cfg.APIVersion = release
					cfg.MaxPartitionFetchBytes, cfg.FetchMaxBytes, cfg.ReceiveMessageMaxBytes = 100_000, 1_000_000, 3_000_000
				}), inTopic(0), inTopic(1))
				require.Len(t, pollN(t, c, 7), 7)
				_, err := c.Poll(t.Context(), 10*time.Second)
				var large *BatchTooLargeError
				require.ErrorAs(t, err, &large)
				require.EqualValues(t, 2, large.BatchOffset)
				_, known := large.NextOffset()
				require.False(t, known, "nothing tells where it ends")
				require.ErrorContains(t, err, "seems to be larger")
				require.ErrorContains(t, err, "APIVersion")
				require.EqualValues(t, 2, position(t, c, inTopic(0)))

				produceOld(b, "t", 1, 3)
				require.Len(t, pollPast(t, c, 3), 3, "the other partition goes on")
				require.NoError(t, c.Seek(inTopic(0), 3))
				require.Equal(t, span(3, 4), offsetsOf(pollPast(t, c, 2)))
			})
		})
	}
}

// A broker that was found to be old would have cut the batch.
func TestOffsetsThatCompactionTookArePassedOverOnOldBrokers(t *testing.T) {
	oldBubble(t, "0.10.0", 1, func(t *testing.T, b *testbroker.Cluster) {
		produceOld(b, "t", 0, 5)
		b.Append("t", 0, nil, 29)
		c := reader(t, fast(b), tp0)
		require.Equal(t, span(0, 4), offsetsOf(pollN(t, c, 5)))
		readUntilPosition(t, c, 30)
	})
}

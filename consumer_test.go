package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/leakcheck"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestAssignedPartitionIsReadInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("orders", 1)
		produce(b, "orders", 0, 10)
		c := openConsumer(t, fast(b))
		require.NoError(t, c.Assign(TopicPartition{Topic: "orders"}))
		require.Equal(t, span(0, 9), offsetsOf(pollN(t, c, 10)))
		p, err := c.Position(t.Context(), TopicPartition{Topic: "orders"})
		require.NoError(t, err)
		require.EqualValues(t, 10, p)
	})
}

func TestGroupReadsAndCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("orders", 3)
		for p := range int32(3) {
			produce(b, "orders", p, 10)
		}
		cfg := fast(b)
		cfg.GroupID, cfg.Topics = "g", []string{"orders"}
		c := openConsumer(t, cfg)
		pollN(t, c, 30)
		require.NoError(t, c.Commit(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		c2 := openConsumer(t, cfg)
		records, err := c2.Poll(t.Context(), 2*time.Second)
		require.NoError(t, err)
		require.Zero(t, records.Len())
		for p := range int32(3) {
			pos, err := c2.Position(t.Context(), TopicPartition{Topic: "orders", Partition: p})
			require.NoError(t, err)
			require.EqualValues(t, 10, pos)
		}
	})
}

func TestIteratorAndChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("orders", 1)
		produce(b, "orders", 0, 20)
		c := openConsumer(t, fast(b))
		require.NoError(t, c.Assign(TopicPartition{Topic: "orders"}))
		var got []int64
		for r, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			got = append(got, r.Offset)
			pos, err := c.Position(t.Context(), r.TopicPartition())
			require.NoError(t, err)
			require.Equal(t, r.Offset+1, pos)
			if len(got) == 10 {
				break
			}
		}
		require.Equal(t, span(0, 9), got)
		for r := range c.Messages(t.Context()) {
			got = append(got, r.Offset)
			pos, err := c.Position(t.Context(), r.TopicPartition())
			require.NoError(t, err)
			require.Equal(t, r.Offset+1, pos)
			if len(got) == 20 {
				require.NoError(t, c.Close(t.Context()))
			}
		}
		require.NoError(t, c.Err())
		require.Equal(t, span(0, 19), got)
	})
}

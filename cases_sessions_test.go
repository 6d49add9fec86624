package kafka

import (
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

// B41
func TestPartitionThatLeftAndCameBackIsFetched(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		other := TopicPartition{Topic: "t", Partition: 1}
		produce(b, "t", 0, 5)
		c := reader(t, fast(b), tp0, other)
		pollN(t, c, 5)
		time.Sleep(time.Second)
		require.NoError(t, c.Assign(other))
		require.NoError(t, c.Assign(tp0)) // within one long poll
		require.Len(t, pollN(t, c, 5), 5)
		b.ForgetRequests()
		time.Sleep(time.Second)
		require.Less(t, b.Count(keyFetch), 30, "one long poll after the other")
		produce(b, "t", 0, 1)
		require.Len(t, pollN(t, c, 1), 1)
	})
}

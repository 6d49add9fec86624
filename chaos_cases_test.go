package kafka

import (
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the chaos tests, and readers who meant no good, found.

func TestBrokerThatDoesNotWaitIsNotAskedAllTheTime(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		cfg := fast(b)
		cfg.DisableFetchSessions = true
		c := reader(t, cfg, tp0)
		pollN(t, c, 3)
		atOnce := func(r testbroker.Request) bool {
			r.Message.(*kmsg.FetchRequest).MaxWaitMillis = 0
			return true
		}
		b.On(protocol.KeyFetch).When(atOnce).Edit(func(testbroker.Request, kmsg.Response) { time.Sleep(time.Millisecond) })
		b.ForgetRequests()
		_, err := c.Poll(t.Context(), 2*time.Second)
		require.NoError(t, err)
		require.Less(t, b.Count(protocol.KeyFetch), 60)
	})
}

func TestLeaderThatKnowsNoEndOfItsLog(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		rule := b.On(protocol.KeyListOffsets).Edit(func(_ testbroker.Request, resp kmsg.Response) {
			resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset = -1
			time.Sleep(time.Millisecond)
		})
		c := reader(t, fast(b), tp0)
		_, err := c.Poll(t.Context(), 5*time.Second)
		require.NoError(t, err)
		require.Less(t, b.Count(protocol.KeyListOffsets), 20)
		rule.Remove()
		pollN(t, c, 3)
	})
}

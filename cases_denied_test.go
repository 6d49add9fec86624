package kafka

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A denied topic is told at once to a Poll that waits, then at most once per
// RetryBackoffMax, until it is allowed; the others are read meanwhile.
func TestDeniedTopicsAreTold(t *testing.T) {
	for _, group := range []string{"", "readers"} {
		t.Run("group "+group, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				b.CreateTopic("open", 1)
				b.CreateTopic("hidden", 1)
				var denied atomic.Bool
				denied.Store(true)
				b.On(keyMetadata).Edit(func(_ testbroker.Request, resp kmsg.Response) {
					topics := resp.(*kmsg.MetadataResponse).Topics
					for i := range topics {
						if denied.Load() && *topics[i].Topic == "hidden" {
							topics[i].ErrorCode, topics[i].Partitions = int16(protocol.TopicAuthorizationFailed), nil
						}
					}
				})
				cfg := fast(b)
				cfg.GroupID, cfg.RetryBackoffMax = group, 200*time.Millisecond
				c := openConsumer(t, cfg)
				require.NoError(t, c.Subscribe([]string{"open", "hidden"}))
				var told []time.Time
				for end := time.Now().Add(time.Second); time.Now().Before(end); {
					if _, err := c.Poll(t.Context(), 50*time.Millisecond); err != nil {
						require.ErrorIs(t, err, protocol.TopicAuthorizationFailed)
						require.ErrorContains(t, err, "hidden")
						told = append(told, time.Now())
					}
				}
				require.GreaterOrEqual(t, len(told), 2, "it stands")
				require.LessOrEqual(t, len(told), 6)

				denied.Store(false)
				produce(b, "open", 0, 1)
				produce(b, "hidden", 0, 1)
				topics := map[string]bool{}
				for end := time.Now().Add(10 * time.Second); len(topics) < 2; {
					require.True(t, time.Now().Before(end), "only %v came", topics)
					records, err := c.Poll(t.Context(), 100*time.Millisecond)
					if err != nil { // told before it was allowed
						require.ErrorIs(t, err, protocol.TopicAuthorizationFailed)
						continue
					}
					for r := range records.All() {
						topics[r.Topic] = true
					}
				}
			})
		})
	}
}

package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

func TestTopicThatDoesNotExistIsToldOfOnce(t *testing.T) {
	for name, begin := range map[string]func(*testing.T, *Consumer) error{
		"subscribed": func(_ *testing.T, c *Consumer) error { return c.Subscribe([]string{"t", "nowhere"}) },
		"assigned":   func(_ *testing.T, c *Consumer) error { return c.Assign(tp0, TopicPartition{Topic: "nowhere"}) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				var log logBuffer
				events := make(chan Event, 100)
				cfg := fast(b)
				cfg.Logger = log.logger()
				cfg.OnEvent = func(e Event) { events <- e }
				c := openConsumer(t, cfg)
				require.NoError(t, begin(t, c))
				produce(b, "t", 0, 3)
				pollN(t, c, 3)
				for range 30 {
					_, err := c.Poll(t.Context(), time.Second)
					require.NoError(t, err, "it may come to be")
				}
				require.Equal(t, 1, strings.Count(log.String(), "topic does not exist"))
				require.Contains(t, log.String(), "nowhere")
				var told []EventRetrying
				for len(events) > 0 {
					if e, ok := (<-events).(EventRetrying); ok {
						told = append(told, e)
					}
				}
				require.Len(t, told, 1)
				require.ErrorContains(t, told[0].Err, "nowhere")

				b.CreateTopic("nowhere", 1)
				produce(b, "nowhere", 0, 2)
				pollN(t, c, 2)
			})
		})
	}
}

//go:build unix

package broker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

func TestMain(m *testing.M) { proc.Main(m) }

func TestSharedClusterServesProduceAndFetch(t *testing.T) {
	for _, version := range []string{"4.4.0", "3.9.2"} {
		t.Run(version, func(t *testing.T) {
			c := broker.Shared(t, version)
			require.Same(t, c, broker.Shared(t, version))
			roundTrip(t, c.Bootstrap())
		})
	}
}

func TestKilledAndPausedNodesComeBack(t *testing.T) {
	c := broker.Start(t, "4.4.0", broker.Nodes(2))
	roundTrip(t, c.Bootstrap())

	c.Kill(2)
	c.Restart(t, 2)
	c.Pause(1)
	c.Continue(1)
	roundTrip(t, c.Bootstrap())
}

func roundTrip(t *testing.T, addrs []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	topic := "t" + time.Now().Format("150405.000000")
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer cl.Close()
	require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("hello")}).FirstErr())
	records := cl.PollFetches(ctx).Records()
	require.Len(t, records, 1)
	require.Equal(t, "hello", string(records[0].Value))
}

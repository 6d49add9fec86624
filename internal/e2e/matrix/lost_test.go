//go:build unix

package matrix

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/logbuffer"
)

// KAFKA-3547: what a consumer sends may be lost in the moment in which another client asks
// a broker of 0.9 for its version.
func TestWhat09LosesHoldsUpNothingForLong(t *testing.T) {
	const release = "0.9.0.1"
	t.Run(release, func(t *testing.T) {
		e := start(t, release)
		topic := e.topic(t, "lost", 1, nil)
		var log logbuffer.Buffer
		c := e.assigned(t, kafka.Config{
			GroupID: "lost", APIVersion: "0.9", FetchMaxWait: 20 * time.Millisecond, RequestTimeout: 12 * time.Second,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}, partitions(topic, 1)...)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		e.askForTheVersionAgainAndAgain(t)
		noticed := func() bool { // that a request was lost, or that the broker fell silent
			return strings.Contains(log.String(), "has lost a request") || strings.Contains(log.String(), "within 3")
		}
		for i := int64(0); !noticed(); i++ {
			require.NoError(t, c.CommitOffsets(ctx, map[kafka.TopicPartition]kafka.OffsetAndMetadata{{Topic: topic}: {Offset: i}}))
			nothing(t, c)
		}
		require.NotContains(t, log.String(), "within 12s", "the time that brokers have otherwise")
	})
}

// askForTheVersionAgainAndAgain sends ApiVersions on new connections for as long as the test runs.
func (e *env) askForTheVersionAgainAndAgain(t *testing.T) {
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				nc, err := net.Dial("tcp", e.cluster.Bootstrap()[0])
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = nc.Write(frame)
				time.Sleep(10 * time.Millisecond)
				nc.Close()
			}
		})
	}
}

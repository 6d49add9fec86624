package kafka

import (
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// committedInOrder are the offsets of a partition that OffsetCommit requests had.
func committedInOrder(b *testbroker.Cluster, partition int32) (offsets []int64) {
	for _, r := range b.Requests(protocol.KeyOffsetCommit) {
		for _, topic := range r.Message.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range topic.Partitions {
				if p.Partition == partition {
					offsets = append(offsets, p.Offset)
				}
			}
		}
	}
	return offsets
}

// Whatever commits at the same time, a position that was read later is not sent before
// one that was read earlier.
func TestCommitsAtTheSameTimeNeverGoBackward(t *testing.T) {
	realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 1000)
		c := joiner(t, b, func(cfg *Config) {
			autoCommitting(cfg)
			cfg.AutoCommitInterval = time.Microsecond
		})
		pollN(t, c, 1)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 100 {
					if i%2 == 0 {
						_ = c.CommitAsync(nil, nil)
					} else {
						_ = c.Commit(t.Context())
					}
				}
			})
		}
		stop := make(chan struct{})
		go func() { wg.Wait(); close(stop) }()
		for reading := true; reading; {
			select {
			case <-stop:
				reading = false
			default:
				_, err := c.PollMax(t.Context(), 0, 1)
				require.NoError(t, err)
				if b.EndOffset("t", 0)-position(t, c, inTopic(0)) < 10 {
					produce(b, "t", 0, 100)
				}
			}
		}
		sent := committedInOrder(b, 0)
		require.Greater(t, len(sent), 100)
		require.IsNonDecreasing(t, sent)
	})
}

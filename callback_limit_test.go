package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

// A callback may take what is left until the group goes on without its member, so that
// one which heeds its context is never what loses the partitions.
func TestACallbackMayTakeWhatIsLeftOfTheRebalance(t *testing.T) {
	for _, tt := range []struct {
		release       string
		worked, limit time.Duration
	}{
		{"", 20 * time.Second, 30 * time.Second},
		{"0.9", 3 * time.Second, 6 * time.Second},
	} {
		t.Run("release "+tt.release, func(t *testing.T) {
			versions := testbroker.DefaultVersions()
			if tt.release != "" {
				versions = testbroker.OldVersions(tt.release)
			}
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
				left := map[string][]time.Duration{}
				note := func(what string) func(context.Context, *Consumer, []TopicPartition) error {
					return func(ctx context.Context, _ *Consumer, _ []TopicPartition) error {
						end, ok := ctx.Deadline()
						require.True(t, ok)
						left[what] = append(left[what], time.Until(end))
						if what == "revoked" {
							<-ctx.Done() // it takes all the time that it has
						}
						return nil
					}
				}
				old := func(cfg *Config) { cfg.APIVersion = tt.release }
				c := joiner(t, b, func(cfg *Config) {
					old(cfg)
					cfg.RebalanceListener = RebalanceListener{OnRevoked: note("revoked"), OnAssigned: note("assigned"), OnLost: note("lost")}
				})
				_, err := c.Poll(t.Context(), time.Second)
				require.NoError(t, err)
				require.Equal(t, []time.Duration{30 * time.Second}, left["assigned"], "nobody waits for this member")

				other := joiner(t, b, old)
				joined := beside(func() error { _, err := other.Poll(t.Context(), time.Minute); return err })
				time.Sleep(tt.worked)
				_, err = c.Poll(t.Context(), 2*time.Second)
				require.NoError(t, err)
				require.Len(t, left["revoked"], 1)
				atMost := tt.limit - tt.worked
				require.LessOrEqual(t, left["revoked"][0], atMost)
				require.Greater(t, left["revoked"][0], atMost-time.Second, "but for a heartbeat")
				_, err = c.Poll(t.Context(), time.Second)
				require.NoError(t, err)
				require.Empty(t, left["lost"])
				require.Len(t, c.Assignment(), 1, "it joined in time")
				require.NoError(t, other.Close(t.Context()))
				<-joined
			}, testbroker.WithVersions(versions))
		})
	}
}

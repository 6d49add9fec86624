package kafka

import (
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAutoCommitIntervalIsBetweenCommits(t *testing.T) {
	for interval, want := range map[time.Duration]int{0: 4, time.Second: 20, -1: 200, time.Hour: 0} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			cfg := fast(b)
			cfg.GroupID, cfg.Topics, cfg.DisableAutoCommit, cfg.AutoCommitInterval = "g", []string{"t"}, false, interval
			c := openConsumer(t, cfg)
			produce(b, "t", 0, 1)
			pollN(t, c, 1)
			b.ForgetRequests()
			for range 200 { // 20 s
				produce(b, "t", 0, 1)
				pollN(t, c, 1)
				time.Sleep(100 * time.Millisecond)
			}
			require.InDelta(t, want, b.Count(keyOffsetCommit), float64(want)/10+1, "%v", interval)
		})
	}
}

func TestHeartbeatIntervalIsBetweenHeartbeats(t *testing.T) {
	for interval, want := range map[time.Duration]int{0: 20, time.Second: 60, 5 * time.Second: 12} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			cfg := fast(b)
			cfg.GroupID, cfg.Topics, cfg.HeartbeatInterval = "g", []string{"t"}, interval
			c := openConsumer(t, cfg)
			quiet := func(d time.Duration) {
				_, err := c.Poll(t.Context(), d)
				require.NoError(t, err)
			}
			quiet(20 * time.Second) // those of decision 15 are over
			b.ForgetRequests()
			quiet(time.Minute)
			require.InDelta(t, want, b.Count(keyHeartbeat), 2, "%v", interval)
		})
	}
}

func TestTheGroupIsToldOfTimeoutsAndStrategies(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		cfg := fast(b)
		cfg.GroupID, cfg.Topics = "g", []string{"t"}
		cfg.SessionTimeout, cfg.MaxPollInterval = 7*time.Second, 90*time.Second
		c := openConsumer(t, cfg)
		_, err := c.Poll(t.Context(), 5*time.Second)
		require.NoError(t, err)
		join := b.Requests(keyJoinGroup)[0].Message.(*kmsg.JoinGroupRequest)
		require.Equal(t, "g", join.Group)
		require.EqualValues(t, 7000, join.SessionTimeoutMillis)
		require.EqualValues(t, 90000, join.RebalanceTimeoutMillis)
		require.Equal(t, "range", join.Protocols[0].Name)
		require.Equal(t, "roundrobin", join.Protocols[1].Name)
	})
}

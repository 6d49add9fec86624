package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// TestChaos disturbs a group of four members for two minutes and then requires that
// they share the topic again, each partition read by exactly one.
func TestChaos(t *testing.T) {
	for seed := range uint64(12) {
		strategy := []assignors.Assignor{assignors.Range{}, assignors.CooperativeSticky{}, assignors.Sticky{}}[seed%3]
		t.Run(fmt.Sprint("seed ", seed, " ", strategy.Name()), func(t *testing.T) {
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				rng := rand.New(rand.NewPCG(seed, 7))
				var members []*testMember
				for range 4 {
					// Members that were forgotten while they joined hold a rebalance up for as
					// long as MaxPollInterval.
					m := newTestMember(t, tb, func(c *Config) {
						c.MaxPollInterval = 20 * time.Second
						c.PartitionAssignmentStrategy = []assignors.Assignor{strategy}
					})
					members = append(members, m.subscribe("t").run())
				}
				var rules []*testbroker.Rule
				for range 120 {
					rules = append(rules, disturb(t, tb, members, rng))
					time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
				}
				for _, r := range rules {
					if r != nil {
						r.Remove()
					}
				}
				tb.StartNode(1)
				tb.StartNode(2)
				tb.MoveCoordinator("g", 2)
				for _, m := range members {
					m.subscribe("t")
					if m.stop == nil {
						m.run()
					}
				}
				eventually(t, time.Minute, "every partition has one owner", func() bool { return sharedFairly(members) })
				time.Sleep(20 * time.Second)
				require.True(t, sharedFairly(members), "and that stays so")
				for _, m := range members {
					for _, tp := range m.owns() {
						require.NoError(t, m.co.commit(timeoutOf(t, 5*time.Second), offsets(tp, 1000000)))
					}
				}
			}, testbroker.WithNodes(2))
		})
	}
}

// disturb does something bad, and returns the rule that does so from now on, if any.
func disturb(t *testing.T, tb *testbroker.Cluster, members []*testMember, rng *rand.Rand) *testbroker.Rule {
	m := members[rng.IntN(len(members))]
	node := int32(1 + rng.IntN(2))
	switch rng.IntN(12) {
	case 0:
		tb.CutConns(node)
	case 1:
		tb.MoveCoordinator("g", node)
	case 2:
		if g := tb.Group("g"); len(g.Members) > 0 {
			tb.KickMember("g", g.Members[rng.IntN(len(g.Members))])
		}
	case 3:
		tb.Rebalance("g")
	case 4:
		m.halt()
		_ = m.co.leave(timeoutOf(t, 2*time.Second), "chaos")
		m.mu.Lock()
		m.owned = nil
		m.mu.Unlock()
		m.subscribe("t").run()
	case 5:
		tb.StopNode(node)
		time.AfterFunc(time.Second, func() { tb.StartNode(node) })
	case 6:
		key := []int16{protocol.KeyJoinGroup, protocol.KeySyncGroup, protocol.KeyHeartbeat, protocol.KeyOffsetCommit}[rng.IntN(4)]
		code := []ErrorCode{
			protocol.NotCoordinator, protocol.CoordinatorLoadInProgress, protocol.UnknownMemberID, protocol.IllegalGeneration,
			protocol.RebalanceInProgress, protocol.UnknownServerError, protocol.GroupAuthorizationFailed,
		}[rng.IntN(7)]
		return tb.On(key).Times(1 + rng.IntN(3)).Fail(int16(code))
	case 7:
		m.co.enforceRebalance("chaos")
	case 8:
		return tb.On(protocol.KeyJoinGroup).Once().Delay(5 * time.Second)
	default:
		for _, tp := range m.owns() {
			m.co.commitAsync(offsets(tp, rng.Int64N(100)), func(error) {})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, _ = m.co.committed(ctx, []TopicPartition{tp})
			cancel()
		}
	}
	return nil
}

func sharedFairly(members []*testMember) bool {
	owners := map[TopicPartition]int{}
	for _, m := range members {
		if m.co.now.Load().state != group.Stable || len(m.owns()) != 1 {
			return false
		}
		owners[m.owns()[0]]++
	}
	return len(owners) == 4
}

package kafka

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

func shortSession(c *Config) {
	c.SessionTimeout, c.HeartbeatInterval = 6*time.Second, 500*time.Millisecond
}

// freeze lets a node answer nothing that is about groups, as a stopped process does.
func freeze(tb *testbroker.Cluster, node int32) (thaw func()) {
	var rules []*testbroker.Rule
	for _, key := range []int16{
		protocol.KeyHeartbeat, protocol.KeyJoinGroup, protocol.KeySyncGroup, protocol.KeyOffsetCommit,
		protocol.KeyOffsetFetch, protocol.KeyFindCoordinator, protocol.KeyMetadata,
	} {
		rules = append(rules, tb.On(key).Node(node).Drop())
	}
	return func() {
		for _, r := range rules {
			r.Remove()
		}
	}
}

func TestAFrozenCoordinatorThatMovesKeepsTheMember(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.MoveCoordinator("g", 1)
		m := newTestMember(t, tb, shortSession).subscribe("t").run()
		m.awaitOwned(4)
		time.Sleep(10 * time.Second)
		id := m.co.groupMetadata().MemberID
		tb.ForgetRequests()
		freeze(tb, 1)
		tb.MoveCoordinator("g", 2)
		took := eventually(t, 10*time.Second, "heartbeats at the new coordinator", func() bool {
			return slices.ContainsFunc(tb.Requests(protocol.KeyHeartbeat), func(r testbroker.Request) bool { return r.Node == 2 })
		})
		require.Less(t, took, 4*time.Second, "a heartbeat's interval, a third of the session, and a look-up")
		require.NoError(t, m.co.commit(timeoutOf(t, 5*time.Second), offsets(inTopic(0), 3)))
		time.Sleep(20 * time.Second)
		require.Equal(t, id, m.co.groupMetadata().MemberID)
		require.Zero(t, tb.Count(protocol.KeyJoinGroup))
		require.Equal(t, []string{"assign [t-0 t-1 t-2 t-3]"}, m.steps())
	}, testbroker.WithNodes(2))
}

// MaxPollInterval is five minutes, and so is what a coordinator may hold a JoinGroup.
func TestAJoinThatIsHeldByAFrozenCoordinatorGoesOnAtTheNextOne(t *testing.T) {
	for _, strategy := range []func(*Config){func(*Config) {}, cooperative} {
		groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
			tb.MoveCoordinator("g", 1)
			m := newTestMember(t, tb, func(c *Config) { shortSession(c); strategy(c) }).subscribe("t").run()
			m.awaitOwned(4)
			id := m.co.groupMetadata().MemberID
			thaw := freeze(tb, 1)
			m.co.enforceRebalance("again")
			time.Sleep(time.Second)
			require.True(t, m.co.rebalancing())
			tb.MoveCoordinator("g", 2)
			took := eventually(t, 20*time.Second, "joined", func() bool { return !m.co.rebalancing() })
			require.Less(t, took, 6*time.Second)
			require.Equal(t, id, m.co.groupMetadata().MemberID)
			require.Empty(t, m.lostSoFar())
			thaw()
			time.Sleep(20 * time.Second)
			m.awaitOwned(4)
		}, testbroker.WithNodes(2))
	}
}

// A connection that swallows everything, while new ones work.
func TestAJoinOnADeadConnectionIsSentAgainOnANewOne(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, func(c *Config) { shortSession(c); cooperative(c) }).subscribe("t").run()
		m.awaitOwned(4)
		var dead []int
		for _, r := range tb.Requests(testbroker.AnyKey) {
			dead = append(dead, r.Conn)
		}
		tb.On(testbroker.AnyKey).When(func(r testbroker.Request) bool { return slices.Contains(dead, r.Conn) }).Drop()
		m.co.enforceRebalance("again")
		generation := m.co.groupMetadata().GenerationID
		took := eventually(t, 20*time.Second, "joined", func() bool { return m.co.groupMetadata().GenerationID > generation })
		require.Less(t, took, 6*time.Second)
		require.Empty(t, m.lostSoFar())
		m.awaitOwned(4)
	})
}

func TestAHeldJoinIsLeftInPeaceWhileTheCoordinatorLives(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, func(c *Config) { shortSession(c); cooperative(c) }).subscribe("t").run()
		m.awaitOwned(4)
		held := tb.On(protocol.KeyJoinGroup).HoldRequest()
		m.co.enforceRebalance("again")
		require.True(t, held.WaitHeld(1, time.Second))
		tb.ForgetRequests()
		time.Sleep(time.Minute)
		require.Zero(t, tb.Count(protocol.KeyJoinGroup))
		require.InDelta(t, 30, tb.Count(protocol.KeyHeartbeat), 2, "it is asked every 2 s whether it lives")
		require.Zero(t, tb.Count(protocol.KeyFindCoordinator))
		held.Remove()
		m.awaitOwned(4)
		require.Empty(t, m.lostSoFar())
	})
}

// Never backward: a commit that waits for a silent coordinator does not undo one that
// was made after it.
func TestACommitThatWaitsIsBoundedAndNeverGoesBackward(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.MoveCoordinator("g", 1)
		m := newTestMember(t, tb, shortSession).subscribe("t").run()
		m.awaitOwned(4)
		freeze(tb, 1)
		began := time.Now()
		err := m.co.commit(timeoutOf(t, time.Second), offsets(inTopic(0), 5))
		require.Error(t, err)
		require.Equal(t, time.Second, time.Since(began).Round(10*time.Millisecond))
		done := make(chan error, 2)
		go func() { done <- m.co.commit(timeoutOf(t, 30*time.Second), offsets(inTopic(0), 6)) }()
		time.Sleep(100 * time.Millisecond)
		go func() { done <- m.co.commit(timeoutOf(t, 30*time.Second), offsets(inTopic(0), 7)) }()
		time.Sleep(100 * time.Millisecond)
		tb.MoveCoordinator("g", 2)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.Equal(t, int64(7), tb.CommittedOffset("g", "t", 0))
		time.Sleep(10 * time.Second)
		require.Equal(t, int64(7), tb.CommittedOffset("g", "t", 0))
	}, testbroker.WithNodes(2))
}

func TestTheCoordinatorIsLookedUpWhenTheConsumerIsMade(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil)
		eventually(t, 100*time.Millisecond, "looked up", func() bool { return tb.Count(protocol.KeyFindCoordinator) == 1 })
		m.subscribe("t")
		time.Sleep(time.Second)
		began := time.Now()
		m.run()
		m.awaitOwned(4)
		require.Less(t, time.Since(began), 100*time.Millisecond, "nothing waits for a timer")
		require.Equal(t, 1, tb.Count(protocol.KeyFindCoordinator))
	})
}

// The first group of a cluster: its offsets topic is being made.
func TestACoordinatorThatIsNotThereYetIsAskedForAtShortIntervals(t *testing.T) {
	for _, wait := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				tb.MoveCoordinator("g", 0)
				began := time.Now()
				time.AfterFunc(wait, func() { tb.MoveCoordinator("g", 1) })
				m := newTestMember(t, tb, nil).subscribe("t").run()
				m.awaitOwned(4)
				require.Less(t, time.Since(began), wait+150*time.Millisecond)
				require.Empty(t, m.errors())
			})
		})
	}
}

package kafka

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func withAssignors(list ...assignors.Assignor) func(*Config) {
	return func(c *Config) { c.PartitionAssignmentStrategy = list }
}

func cooperative(c *Config) { withAssignors(assignors.CooperativeSticky{})(c) }

// subscriptionsIn returns what the JoinGroup requests so far said.
func subscriptionsIn(t *testing.T, tb *testbroker.Cluster) []group.Subscription {
	var out []group.Subscription
	for _, r := range tb.Requests(protocol.KeyJoinGroup) {
		s, err := group.DecodeSubscription(r.Message.(*kmsg.JoinGroupRequest).Protocols[0].Metadata)
		require.NoError(t, err)
		out = append(out, s)
	}
	return out
}

func TestACooperativeMemberGivesUpOnlyWhatMoves(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		a := newTestMember(t, tb, func(c *Config) { cooperative(c); c.ClientRack = "r1" }).subscribe("t").run()
		a.awaitOwned(4)
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"assign [t-0 t-1 t-2 t-3]"}, a.steps())
		b := newTestMember(t, tb, cooperative).subscribe("t").run()
		b.awaitOwned(2)
		a.awaitOwned(2)
		moved := b.owns()
		require.Equal(t, []string{
			"assign [t-0 t-1 t-2 t-3]", fmt.Sprint("revoke ", moved), "assign []", "assign []",
		}, a.steps(), "two rounds, and nothing that stays is touched")
		// The second round may begin before the first one got to this member.
		require.Equal(t, fmt.Sprint("assign ", moved), b.steps()[len(b.steps())-1])
		require.LessOrEqual(t, len(b.steps()), 2)
		require.Empty(t, a.lostSoFar())

		joins := subscriptionsIn(t, tb)
		require.Equal(t, "r1", joins[0].Rack)
		require.Len(t, joins, 7, "two for an id, one for the first round, and two for each of the others")
		requests := tb.Requests(protocol.KeyJoinGroup)
		require.Contains(t, *requests[5].Message.(*kmsg.JoinGroupRequest).Reason, "given up")
		require.Len(t, joins[4].Owned, 4)
		require.Equal(t, int32(1), joins[4].Generation)
		require.Equal(t, a.owns(), joins[5].Owned)
		require.Equal(t, int32(2), joins[5].Generation)

		b.halt()
		require.NoError(t, b.co.leave(t.Context(), "unsubscribed"))
		a.awaitOwned(4)
		require.Equal(t, fmt.Sprint("assign ", moved), a.steps()[4], "what comes back, and no revocation before")
	})
}

// A moved partition stands still from the end of its revocation until its new owner
// has it.
func TestAMovedPartitionStandsStillForLessThanAQuarterOfASecond(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		a := newTestMember(t, tb, cooperative).subscribe("t").run()
		a.awaitOwned(4)
		time.Sleep(10 * time.Second)
		for range 5 {
			b := newTestMember(t, tb, cooperative).subscribe("t").run()
			eventually(t, 20*time.Second, "revoked", func() bool { return len(a.owns()) == 2 })
			require.Less(t, eventually(t, 20*time.Second, "taken over", func() bool { return len(b.owns()) == 2 }), 260*time.Millisecond)
			time.Sleep(10 * time.Second)
			b.halt()
			require.NoError(t, b.co.leave(t.Context(), "unsubscribed"))
			a.awaitOwned(4)
			time.Sleep(10 * time.Second)
		}
	})
}

func TestEarlyHeartbeatsAreFewAndEnd(t *testing.T) {
	// One and a half intervals of 3 s hold 22 heartbeats 200 ms apart.
	for _, tt := range []struct {
		name        string
		partitions  int
		change      func(*Config)
		least, most int // in the first 10 s
	}{
		{"of the leader of a small group", 4, nil, 20, 32},
		{"with eager rebalances too", 4, withAssignors(assignors.Range{}), 20, 32},
		{"not more often than the interval", 4, func(c *Config) { c.HeartbeatInterval = 100 * time.Millisecond }, 90, 105},
	} {
		t.Run(tt.name, func(t *testing.T) {
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				m := newTestMember(t, tb, func(c *Config) {
					cooperative(c)
					if tt.change != nil {
						tt.change(c)
					}
				}).subscribe("t").run()
				m.awaitOwned(4)
				time.Sleep(10 * time.Second)
				require.GreaterOrEqual(t, tb.Count(protocol.KeyHeartbeat), tt.least)
				require.LessOrEqual(t, tb.Count(protocol.KeyHeartbeat), tt.most)
				tb.ForgetRequests()
				time.Sleep(30 * time.Second)
				if m.co.cfg.HeartbeatInterval == 3*time.Second {
					require.InDelta(t, 10, tb.Count(protocol.KeyHeartbeat), 1, "then the normal interval")
				}
			})
		})
	}
	t.Run("none when throttled", func(t *testing.T) {
		groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
			tb.On(protocol.KeyHeartbeat).Edit(func(_ testbroker.Request, resp kmsg.Response) {
				resp.(*kmsg.HeartbeatResponse).ThrottleMillis = 10
			})
			m := newTestMember(t, tb, cooperative).subscribe("t").run()
			m.awaitOwned(4)
			time.Sleep(10 * time.Second)
			require.LessOrEqual(t, tb.Count(protocol.KeyHeartbeat), 5)
		})
	})
	t.Run("none with too many members", func(t *testing.T) {
		groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
			tb.CreateTopic("big", 202)
			a := newTestMember(t, tb, giveAllToFirst)
			a.subscribe("big").run()
			a.awaitOwned(202)
			b := newTestMember(t, tb, giveAllToFirst).subscribe("big")
			b.co.cl.SetInterest([]string{"big"}, false)
			time.Sleep(time.Second)
			b.run()
			eventually(t, 20*time.Second, "stable", func() bool { return b.co.now.Load().state == group.Stable })
			time.Sleep(10 * time.Second)
			tb.ForgetRequests()
			a.co.enforceRebalance("again")
			eventually(t, 20*time.Second, "again", func() bool { return len(b.steps()) > 1 })
			time.Sleep(9 * time.Second)
			early := 0
			for _, r := range tb.Requests(protocol.KeyHeartbeat) {
				if r.Message.(*kmsg.HeartbeatRequest).MemberID == b.co.groupMetadata().MemberID {
					early++
				}
			}
			require.LessOrEqual(t, early, 5, "a member without partitions cannot know how many there are")
		})
	})
}

// firstAssignor gives all to the member that comes first.
type firstAssignor struct{}

func (firstAssignor) Name() string { return "first" }

func (firstAssignor) Protocols() []assignors.Protocol {
	return []assignors.Protocol{assignors.Cooperative, assignors.Eager}
}

func (firstAssignor) Assign(in assignors.Input) (assignors.Assignment, error) {
	var all []TopicPartition
	for topic, ps := range in.Topics {
		for _, p := range ps {
			all = append(all, TopicPartition{Topic: topic, Partition: p.ID})
		}
	}
	return assignors.Assignment{in.Members[0].ID: {Partitions: all}}, nil
}

func giveAllToFirst(c *Config) { withAssignors(firstAssignor{})(c) }

func TestAnAssignorThatMovesAPartitionAtOnceIsHeldBack(t *testing.T) {
	members := []assignors.Member{
		{ID: "a", Owned: []TopicPartition{inTopic(0), inTopic(1)}, Generation: 5},
		{ID: "b", Owned: []TopicPartition{inTopic(2), inTopic(3)}, Generation: 5},
		{ID: "c", Owned: []TopicPartition{inTopic(3)}, Generation: 5},
		{ID: "d", Owned: []TopicPartition{inTopic(0), inTopic(4)}, Generation: 4},
		{ID: "e", Owned: []TopicPartition{inTopic(5)}, Generation: -1},
		{ID: "f", Generation: 7},
	}
	require.Equal(t, map[TopicPartition]string{
		inTopic(0): "a", inTopic(1): "a", inTopic(2): "b", inTopic(3): "", inTopic(4): "d", inTopic(5): "e",
	}, claimsOf(members), "the newest counts, of two like it none, and an older one as long as nobody disputes it")

	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		var ms []*testMember
		for range 3 {
			ms = append(ms, newTestMember(t, tb, giveAllToFirst).subscribe("t").run())
			time.Sleep(10 * time.Second)
		}
		total := 0
		for _, m := range ms {
			total += len(m.owns())
		}
		require.Equal(t, 4, total)
	})
}

func TestCommitsGoOnOverACooperativeRebalance(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		a := newTestMember(t, tb, cooperative).subscribe("t").run()
		a.awaitOwned(4)
		held := tb.On(protocol.KeyJoinGroup).When(func(r testbroker.Request) bool {
			return r.Message.(*kmsg.JoinGroupRequest).MemberID == a.co.groupMetadata().MemberID
		}).Hold()
		synced := tb.On(protocol.KeySyncGroup).HoldRequest()
		b := newTestMember(t, tb, cooperative).subscribe("t").run()
		require.True(t, held.WaitHeld(1, 10*time.Second))
		// The coordinator has ended the round of joining, and this member does not know.
		done := make(chan error, 2)
		go func() { done <- a.co.commit(timeoutOf(t, 10*time.Second), offsets(inTopic(0), 11)) }()
		a.co.commitAsync(offsets(inTopic(1), 12), func(err error) { done <- err })
		time.Sleep(300 * time.Millisecond)
		require.Empty(t, done)
		held.Release()
		time.Sleep(300 * time.Millisecond)
		require.Empty(t, done, "the coordinator takes no commits before the SyncGroup")
		synced.Release()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.Equal(t, int64(11), tb.CommittedOffset("g", "t", 0))
		require.Equal(t, int64(12), tb.CommittedOffset("g", "t", 1))
		b.awaitOwned(2)
		a.awaitOwned(2)
		require.Empty(t, a.errors())
		require.Equal(t, []string{"assign [t-0 t-1 t-2 t-3]", fmt.Sprint("revoke ", b.owns()), "assign []", "assign []"}, a.steps())
	})
}

func TestAMemberThatIsThrownOutWhileItJoinsLosesWhatItKept(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, cooperative).subscribe("t").run()
		m.awaitOwned(4)
		tb.On(protocol.KeyJoinGroup).Once().Fail(int16(protocol.UnknownMemberID))
		m.co.enforceRebalance("again")
		eventually(t, time.Second, "lost", func() bool { return len(m.lostSoFar()) == 4 })
		m.awaitOwned(4)
		require.Equal(t, []string{"assign [t-0 t-1 t-2 t-3]", "lost [t-0 t-1 t-2 t-3]", "assign [t-0 t-1 t-2 t-3]"}, m.steps())
		require.IsType(t, EventMemberFenced{}, m.eventsSoFar()[0])
		joins := subscriptionsIn(t, tb)
		require.Len(t, joins[2].Owned, 4)
		require.Empty(t, joins[3].Owned, "what is lost is not claimed")
	})
}

// A live group changes from eager to cooperative rebalances: each member is restarted
// with both strategies listed, and then with the cooperative one alone (KIP-429).
func TestMigrationFromEagerToCooperative(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		lists := [][]assignors.Assignor{
			{assignors.Range{}},
			{assignors.CooperativeSticky{}, assignors.Range{}},
			{assignors.CooperativeSticky{}},
		}
		var members []*testMember
		for range 3 {
			members = append(members, newTestMember(t, tb, withAssignors(lists[0]...)).subscribe("t").run())
		}
		for _, list := range lists[1:] {
			for i := range members {
				members[i].halt()
				members[i].co.close(timeoutOf(t, time.Second), "restarted")
				members[i] = newTestMember(t, tb, withAssignors(list...)).subscribe("t").run()
				eventually(t, 30*time.Second, "all owned", func() bool { return ownedOnce(members, 4) })
			}
		}
		require.Equal(t, "cooperative-sticky", tb.Group("g").Protocol)
		time.Sleep(10 * time.Second)
		for _, m := range members {
			require.Empty(t, m.errors())
			require.Empty(t, m.lostSoFar())
			m.mu.Lock()
			m.log = nil
			m.mu.Unlock()
		}
		newTestMember(t, tb, withAssignors(lists[2]...)).subscribe("t").run().awaitOwned(1)
		revoked := 0
		for _, m := range members {
			revoked += len(slices.DeleteFunc(m.steps(), func(s string) bool { return s[:6] != "revoke" }))
		}
		require.Equal(t, 1, revoked)
	})
}

func ownedOnce(members []*testMember, n int) bool {
	owners := map[TopicPartition]int{}
	for _, m := range members {
		if m.co.now.Load().state != group.Stable {
			return false
		}
		for _, tp := range m.owns() {
			owners[tp]++
			if owners[tp] > 1 {
				return false
			}
		}
	}
	return len(owners) == n
}

func TestMembersWithoutACommonStrategyAreToldSo(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		newTestMember(t, tb, withAssignors(assignors.Range{})).subscribe("t").run().awaitOwned(4)
		m := newTestMember(t, tb, cooperative).subscribe("t").run()
		time.Sleep(time.Second)
		require.NotEmpty(t, m.errors())
		require.ErrorIs(t, m.errors()[0], protocol.InconsistentGroupProtocol)
	})
}

func TestASubscriptionThatDropsATopicGivesUpThatTopicOnly(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.CreateTopic("u", 2)
		m := newTestMember(t, tb, cooperative).subscribe("t", "u").run()
		m.awaitOwned(6)
		m.subscribe("t")
		m.awaitOwned(4)
		require.Equal(t, []string{"assign [t-0 t-1 t-2 t-3 u-0 u-1]", "revoke [u-0 u-1]", "assign []"}, m.steps())
	})
}

func TestAStuckApplicationLosesWhatItKeepsWhileJoining(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		short := func(c *Config) { cooperative(c); c.MaxPollInterval = 20 * time.Second }
		a := newTestMember(t, tb, short).subscribe("t").run()
		a.awaitOwned(4)
		held := tb.On(protocol.KeyJoinGroup).HoldRequest()
		a.co.enforceRebalance("again")
		require.True(t, held.WaitHeld(1, 5*time.Second))
		a.halt()
		eventually(t, 22*time.Second, "left", func() bool { return tb.Count(protocol.KeyLeaveGroup) == 1 })
		require.Len(t, a.lostSoFar(), 4)
		held.Remove()
		a.run()
		a.awaitOwned(4)
		var late *PollIntervalError
		require.ErrorAs(t, a.errors()[0], &late)
		require.Equal(t, "lost [t-0 t-1 t-2 t-3]", a.steps()[1])
	})
}

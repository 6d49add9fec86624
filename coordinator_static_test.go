package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func static(id string, more ...func(*Config)) func(*Config) {
	return func(c *Config) {
		c.GroupInstanceID = id
		c.SessionTimeout = 45 * time.Second
		for _, change := range more {
			change(c)
		}
	}
}

// restart closes a member and starts another one with the same configuration.
func (m *testMember) restart(tb *testbroker.Cluster, change func(*Config)) *testMember {
	m.t.Helper()
	m.halt()
	m.co.close(timeoutOf(m.t, time.Second), "restarted")
	return newTestMember(m.t, tb, change).subscribe("t").run()
}

func TestAStaticMemberComesBackWithoutARebalance(t *testing.T) {
	for _, strategy := range []assignors.Assignor{assignors.Range{}, assignors.CooperativeSticky{}} {
		t.Run(strategy.Name(), func(t *testing.T) {
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				a := newTestMember(t, tb, static("i1", withAssignors(strategy))).subscribe("t").run()
				a.awaitOwned(4)
				b := newTestMember(t, tb, static("i2", withAssignors(strategy))).subscribe("t").run()
				b.awaitOwned(2)
				a.awaitOwned(2)
				time.Sleep(10 * time.Second)
				owned, before := a.owns(), tb.Group("g")
				for range 3 {
					a = a.restart(tb, static("i1", withAssignors(strategy)))
					if strategy.Name() == "range" {
						a.awaitOwned(2)
						require.Equal(t, owned, a.owns())
						require.Equal(t, before.Generation, tb.Group("g").Generation)
						require.Len(t, b.steps(), 1)
						continue
					}
					// What it says of itself is not what it said before, as it owns nothing now.
					eventually(t, 30*time.Second, "all owned", func() bool { return ownedOnce([]*testMember{a, b}, 4) })
				}
				require.Zero(t, tb.Count(protocol.KeyLeaveGroup))
				require.Len(t, tb.Group("g").Members, 2)
				require.Empty(t, b.lostSoFar())
				require.Equal(t, "i1", a.co.groupMetadata().GroupInstanceID)
			})
		})
	}
}

func TestAStaticMemberSaysWhoItIsInEveryRequest(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, static("i1")).subscribe("t").run()
		m.awaitOwned(4)
		require.NoError(t, m.co.commit(t.Context(), offsets(inTopic(0), 1)))
		time.Sleep(time.Second)
		for key, id := range map[int16]func(kmsg.Request) *string{
			protocol.KeyJoinGroup:    func(r kmsg.Request) *string { return r.(*kmsg.JoinGroupRequest).InstanceID },
			protocol.KeySyncGroup:    func(r kmsg.Request) *string { return r.(*kmsg.SyncGroupRequest).InstanceID },
			protocol.KeyHeartbeat:    func(r kmsg.Request) *string { return r.(*kmsg.HeartbeatRequest).InstanceID },
			protocol.KeyOffsetCommit: func(r kmsg.Request) *string { return r.(*kmsg.OffsetCommitRequest).InstanceID },
		} {
			requests := tb.Requests(key)
			require.NotEmpty(t, requests, protocol.APIName(key))
			for _, r := range requests {
				require.NotNil(t, id(r.Message), protocol.APIName(key))
				require.Equal(t, "i1", *id(r.Message), protocol.APIName(key))
			}
		}
	})
}

func TestAStaticMemberThatIsReplacedIsFencedForGood(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		a := newTestMember(t, tb, static("i1")).subscribe("t").run()
		a.awaitOwned(4)
		b := newTestMember(t, tb, static("i1")).subscribe("t").run()
		b.awaitOwned(4)
		eventually(t, 5*time.Second, "fenced", func() bool { return len(a.errors()) > 0 })
		require.ErrorIs(t, a.errors()[0], protocol.FencedInstanceID)
		require.Len(t, a.lostSoFar(), 4)
		eventually(t, time.Second, "lost", func() bool { return len(a.owns()) == 0 })
		fenced := 0
		for _, ev := range a.eventsSoFar() {
			if ev, ok := ev.(EventMemberFenced); ok {
				fenced++
				require.ErrorIs(t, ev.Err, protocol.FencedInstanceID)
			}
		}
		require.Equal(t, 1, fenced)
		var failed *CommitFailedError
		require.ErrorAs(t, a.co.commit(t.Context(), offsets(inTopic(0), 5)), &failed)
		tb.ForgetRequests()
		n := len(a.errors())
		time.Sleep(time.Minute)
		require.Zero(t, tb.Count(protocol.KeyJoinGroup), "terminal: the two do not throw each other out in turns")
		require.Greater(t, len(a.errors()), n)
		require.Len(t, b.owns(), 4)
		a.halt()
		require.NoError(t, a.co.leave(t.Context(), "unsubscribed"))
		require.NoError(t, a.co.takeError())
	})
}

func TestACommitIsFencedToo(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		a := newTestMember(t, tb, static("i1", func(c *Config) { c.HeartbeatInterval = 40 * time.Second })).subscribe("t").run()
		a.awaitOwned(4)
		tb.On(protocol.KeyOffsetCommit).Once().Fail(int16(protocol.FencedInstanceID))
		err := a.co.commit(t.Context(), offsets(inTopic(0), 1))
		var failed *CommitFailedError
		require.ErrorAs(t, err, &failed)
		require.Contains(t, failed.Reason, "GroupInstanceID")
		eventually(t, time.Second, "terminal", func() bool { return len(a.errors()) > 0 })
		require.ErrorIs(t, a.errors()[0], protocol.FencedInstanceID)
	})
}

func TestABrokerBefore23HasNoStaticMembers(t *testing.T) {
	table := testbroker.DefaultVersions()
	table[protocol.KeyJoinGroup] = testbroker.VersionRange{Max: 4}
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, static("i1")).subscribe("t").run()
		time.Sleep(5 * time.Second)
		require.NotEmpty(t, m.errors())
		var old *UnsupportedVersionError
		require.ErrorAs(t, m.errors()[0], &old)
		require.Equal(t, "JoinGroup", old.API)
		require.Contains(t, old.Error(), "GroupInstanceID")
		require.Zero(t, tb.Count(protocol.KeyJoinGroup), "a member without its instance id would be another one")
	}, testbroker.WithVersions(table))
}

// KIP-814.
func TestAStaticLeaderThatComesBackWatchesTheGroupsTopics(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		quick := func(c *Config) { c.MetadataMaxAge = 2 * time.Second }
		a := newTestMember(t, tb, static("i1", quick)).subscribe("t").run()
		a.awaitOwned(4)
		tb.ForgetRequests()
		a = a.restart(tb, static("i1", quick))
		a.awaitOwned(4)
		synced := tb.Requests(protocol.KeySyncGroup)
		require.Len(t, synced, 1)
		require.Empty(t, synced[0].Message.(*kmsg.SyncGroupRequest).GroupAssignment, "the assignment stands")
		tb.AddPartitions("t", 6)
		a.awaitOwned(6)
	})
}

func TestAStuckStaticMemberKeepsItsPlaceUntilItsSessionEnds(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, static("i1", func(c *Config) { c.MaxPollInterval = 20 * time.Second })).subscribe("t").run()
		m.awaitOwned(4)
		id := m.co.groupMetadata().MemberID
		m.halt()
		time.Sleep(30 * time.Second)
		require.Len(t, m.lostSoFar(), 4)
		require.Zero(t, tb.Count(protocol.KeyLeaveGroup))
		require.Equal(t, []string{id}, tb.Group("g").Members)
		m.run()
		m.awaitOwned(4)
		require.Equal(t, id, m.co.groupMetadata().MemberID)
		m.halt()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m.co.close(ctx, "closed")
		require.Zero(t, tb.Count(protocol.KeyLeaveGroup))
	})
}

package testbroker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func joinRequest(group, memberID string) *kmsg.JoinGroupRequest {
	return &kmsg.JoinGroupRequest{
		Group: group, MemberID: memberID, ProtocolType: "consumer",
		SessionTimeoutMillis: 10_000, RebalanceTimeoutMillis: 60_000,
		Protocols: []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("meta")}},
	}
}

func commitRequest(group, memberID string, generation int32, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 7, new("note")
	return &kmsg.OffsetCommitRequest{
		Group: group, MemberID: memberID, Generation: generation, RetentionTimeMillis: -1,
		Topics: []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}},
	}
}

// offsetFetchRequest asks in both layouts.
func offsetFetchRequest(group, topic string, partition int32) *kmsg.OffsetFetchRequest {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{partition}}}
	return &kmsg.OffsetFetchRequest{
		Group: group, Groups: []kmsg.OffsetFetchRequestGroup{g},
		Topics: []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition}}},
	}
}

// join joins with the highest version and comes back with the id it is given.
func (cl *client) join(group string) *kmsg.JoinGroupResponse {
	cl.t.Helper()
	resp := ask[*kmsg.JoinGroupResponse](cl, 9, joinRequest(group, ""))
	require.Equal(cl.t, codeMemberIDRequired, resp.ErrorCode)
	return ask[*kmsg.JoinGroupResponse](cl, 9, joinRequest(group, resp.MemberID))
}

func (cl *client) sync(join *kmsg.JoinGroupResponse, group string) *kmsg.SyncGroupResponse {
	cl.t.Helper()
	req := &kmsg.SyncGroupRequest{Group: group, Generation: join.Generation, MemberID: join.MemberID, ProtocolType: join.ProtocolType, Protocol: join.Protocol}
	for _, m := range join.Members {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte("for " + m.MemberID)})
	}
	return ask[*kmsg.SyncGroupResponse](cl, 5, req)
}

func (cl *client) heartbeat(join *kmsg.JoinGroupResponse, group string) int16 {
	cl.t.Helper()
	return ask[*kmsg.HeartbeatResponse](cl, 4, &kmsg.HeartbeatRequest{Group: group, Generation: join.Generation, MemberID: join.MemberID}).ErrorCode
}

// async runs f on a goroutine of its own and gives its result.
func async[T any](f func() T) <-chan T {
	done := make(chan T, 1)
	go func() { done <- f() }()
	return done
}

func TestGroupOfOneMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		cl := dial(t, c, 1)
		join := cl.join("g")
		require.Zero(t, join.ErrorCode)
		require.Equal(t, int32(1), join.Generation)
		require.Equal(t, join.MemberID, join.LeaderID)
		require.Equal(t, "range", *join.Protocol)
		require.Equal(t, "meta", string(join.Members[0].ProtocolMetadata))
		require.Equal(t, "CompletingRebalance", c.Group("g").State)
		require.Equal(t, "for "+join.MemberID, string(cl.sync(join, "g").MemberAssignment))
		require.Equal(t, "Stable", c.Group("g").State)
		require.Zero(t, cl.heartbeat(join, "g"))

		leave := &kmsg.LeaveGroupRequest{Group: "g", MemberID: join.MemberID, Members: []kmsg.LeaveGroupRequestMember{{MemberID: join.MemberID}}}
		require.Zero(t, ask[*kmsg.LeaveGroupResponse](cl, 5, leave).Members[0].ErrorCode)
		require.Equal(t, "Empty", c.Group("g").State)
		require.Equal(t, codeUnknownMemberID, ask[*kmsg.LeaveGroupResponse](cl, 2, leave).ErrorCode)
		require.Equal(t, codeUnknownMemberID, cl.heartbeat(join, "g"))
	})
}

func TestGroupRebalancesWhenASecondMemberJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		first, second := dial(t, c, 1), dial(t, c, 1)
		join1 := first.join("g")
		first.sync(join1, "g")

		joining := async(func() *kmsg.JoinGroupResponse { return second.join("g") })
		require.True(t, c.WaitGroup("g", time.Minute, func(g GroupState) bool { return g.State == "PreparingRebalance" }))
		require.Equal(t, codeRebalanceInProgress, first.heartbeat(join1, "g"))
		require.Zero(t, ask[*kmsg.OffsetFetchResponse](first, 7, offsetFetchRequest("g", "t", 0)).ErrorCode)

		again := ask[*kmsg.JoinGroupResponse](first, 9, joinRequest("g", join1.MemberID))
		join2 := <-joining
		require.Equal(t, int32(2), again.Generation)
		require.Equal(t, int32(2), join2.Generation)
		require.Equal(t, join1.MemberID, join2.LeaderID)
		require.Len(t, again.Members, 2)
		require.Empty(t, join2.Members, "only the leader is told of the members")

		syncing := async(func() *kmsg.SyncGroupResponse { return second.sync(join2, "g") })
		synctest.Wait()
		require.Equal(t, codeIllegalGeneration, first.heartbeat(join1, "g"))
		first.sync(again, "g")
		require.Equal(t, "for "+join2.MemberID, string((<-syncing).MemberAssignment))
	})
}

func TestGroupGoesOnWithoutAMemberThatDoesNotRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		first, second := dial(t, c, 1), dial(t, c, 1)
		join1 := first.join("g")
		first.sync(join1, "g")
		start := time.Now()
		joining := async(func() *kmsg.JoinGroupResponse { return second.join("g") })
		for range 15 { // it lives on, but does not join
			time.Sleep(4 * time.Second)
			first.heartbeat(join1, "g")
		}
		join2 := <-joining
		require.Equal(t, 60*time.Second, time.Since(start).Round(time.Second))
		require.Equal(t, join2.MemberID, join2.LeaderID)
		require.Equal(t, codeUnknownMemberID, first.heartbeat(join1, "g"))
	})
}

func TestGroupRemovesAMemberWhoseSessionExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		cl := dial(t, c, 1)
		join := cl.join("g")
		cl.sync(join, "g")
		for range 3 {
			time.Sleep(9 * time.Second)
			require.Zero(t, cl.heartbeat(join, "g"))
		}
		time.Sleep(11 * time.Second)
		require.Equal(t, GroupState{State: "Empty", Generation: 2}, c.Group("g"))
	})
}

func TestGroupWaitsForAMemberThatWasGivenAnID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		first, second := dial(t, c, 1), dial(t, c, 1)
		pending := ask[*kmsg.JoinGroupResponse](first, 9, joinRequest("g", ""))
		require.Equal(t, codeMemberIDRequired, pending.ErrorCode)
		start := time.Now()
		join := second.join("g")
		require.Zero(t, join.ErrorCode)
		require.Equal(t, 10*time.Second, time.Since(start), "its session timeout")
		late := ask[*kmsg.JoinGroupResponse](first, 9, joinRequest("g", pending.MemberID))
		require.Equal(t, codeUnknownMemberID, late.ErrorCode)
	})
}

func TestGroupWaitsForMoreMembersAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, WithInitialRebalanceDelay(3*time.Second))
		var joins []<-chan *kmsg.JoinGroupResponse
		for range 3 {
			cl := dial(t, c, 1)
			joins = append(joins, async(func() *kmsg.JoinGroupResponse { return ask[*kmsg.JoinGroupResponse](cl, 3, joinRequest("g", "")) }))
		}
		start := time.Now()
		for _, join := range joins {
			require.Equal(t, int32(1), (<-join).Generation)
		}
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Len(t, c.Group("g").Members, 3)
	})
}

func TestStaticMemberTakesOverWithoutARebalance(t *testing.T) {
	for version, wantLeader := range map[int16]string{8: "old", 9: "new"} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			c := New(t)
			cl := dial(t, c, 1)
			req := joinRequest("g", "")
			req.InstanceID = new("one")
			join := ask[*kmsg.JoinGroupResponse](cl, version, req)
			require.Zero(t, join.ErrorCode)
			cl.sync(join, "g")

			again := ask[*kmsg.JoinGroupResponse](cl, version, req)
			require.Zero(t, again.ErrorCode)
			require.Equal(t, join.Generation, again.Generation)
			require.NotEqual(t, join.MemberID, again.MemberID)
			require.Equal(t, map[string]string{"old": join.MemberID, "new": again.MemberID}[wantLeader], again.LeaderID)
			require.Equal(t, version >= 9, again.SkipAssignment)
			again.Members = nil
			require.Equal(t, "for "+join.MemberID, string(cl.sync(again, "g").MemberAssignment))

			old := &kmsg.HeartbeatRequest{Group: "g", Generation: join.Generation, MemberID: join.MemberID, InstanceID: new("one")}
			require.Equal(t, codeFencedInstanceID, ask[*kmsg.HeartbeatResponse](cl, 4, old).ErrorCode)
		})
	}
}

func TestJoinErrors(t *testing.T) {
	c := New(t, WithSessionTimeouts(time.Second, time.Minute))
	cl := dial(t, c, 1)
	join := cl.join("g")
	cl.sync(join, "g")
	for _, tc := range []struct {
		name   string
		change func(*kmsg.JoinGroupRequest)
		code   int16
	}{
		{"no group id", func(r *kmsg.JoinGroupRequest) { r.Group = "" }, codeInvalidGroupID},
		{"a session too short", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 10 }, codeInvalidSessionTimeout},
		{"a session too long", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 100_000 }, codeInvalidSessionTimeout},
		{"an unknown member", func(r *kmsg.JoinGroupRequest) { r.MemberID = "who" }, codeUnknownMemberID},
		{"no protocol in common", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "other" }, codeInconsistentGroupProtocol},
		{"another kind of group", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" }, codeInconsistentGroupProtocol},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := joinRequest("g", "")
			tc.change(req)
			require.Equal(t, tc.code, ask[*kmsg.JoinGroupResponse](cl, 9, req).ErrorCode)
		})
	}
}

func TestCoordinatorMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, WithNodes(2))
		c.MoveCoordinator("g", 1)
		one, two := dial(t, c, 1), dial(t, c, 2)
		find := &kmsg.FindCoordinatorRequest{CoordinatorKey: "g", CoordinatorKeys: []string{"g"}}
		require.Equal(t, int32(1), ask[*kmsg.FindCoordinatorResponse](two, 3, find).NodeID)
		join := one.join("g")
		one.sync(join, "g")

		joining := async(func() *kmsg.JoinGroupResponse { return dial(t, c, 1).join("g") })
		synctest.Wait()
		c.MoveCoordinator("g", 2)
		require.Equal(t, codeNotCoordinator, (<-joining).ErrorCode)
		require.Equal(t, codeNotCoordinator, one.heartbeat(join, "g"))
		require.Equal(t, codeRebalanceInProgress, two.heartbeat(join, "g"))
		co := ask[*kmsg.FindCoordinatorResponse](one, 6, find).Coordinators[0]
		require.Equal(t, int32(2), co.NodeID)
		require.Equal(t, "node2.test", co.Host)

		c.MoveCoordinator("g", 0)
		require.Equal(t, codeCoordinatorNotAvailable, ask[*kmsg.FindCoordinatorResponse](one, 0, find).ErrorCode)
		require.Equal(t, codeNotCoordinator, two.heartbeat(join, "g"))
	})
}

func TestKickedMembersAreUnknownAndRebalanceMakesAllRejoin(t *testing.T) {
	c := New(t)
	cl := dial(t, c, 1)
	join := cl.join("g")
	cl.sync(join, "g")
	c.Rebalance("g")
	require.Equal(t, codeRebalanceInProgress, cl.heartbeat(join, "g"))
	c.KickMember("g", join.MemberID)
	require.Equal(t, codeUnknownMemberID, cl.heartbeat(join, "g"))
}

func TestCommittedOffsetsInEveryVersion(t *testing.T) {
	for version := int16(0); version <= 9; version++ {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			c := New(t)
			c.CreateTopic("orders", 2)
			cl := dial(t, c, 1)
			fetch := func(partition int32) (offset int64, epoch int32, metadata string, code int16) {
				resp := ask[*kmsg.OffsetFetchResponse](cl, version, offsetFetchRequest("g", "orders", partition))
				if version >= 8 {
					require.Equal(t, "g", resp.Groups[0].Group)
					p := resp.Groups[0].Topics[0].Partitions[0]
					return p.Offset, p.LeaderEpoch, *p.Metadata, p.ErrorCode
				}
				p := resp.Topics[0].Partitions[0]
				return p.Offset, p.LeaderEpoch, *p.Metadata, p.ErrorCode
			}
			offset, _, _, code := fetch(0)
			require.Equal(t, int64(-1), offset)
			require.Equal(t, map[bool]int16{true: codeUnknownTopic}[version == 0], code)

			commit := ask[*kmsg.OffsetCommitResponse](cl, version, commitRequest("g", "", -1, "orders", 0, 42))
			require.Zero(t, commit.Topics[0].Partitions[0].ErrorCode)
			commit = ask[*kmsg.OffsetCommitResponse](cl, version, commitRequest("g", "", -1, "gone", 0, 42))
			require.Equal(t, codeUnknownTopic, commit.Topics[0].Partitions[0].ErrorCode)

			offset, epoch, metadata, code := fetch(0)
			require.Equal(t, int64(42), offset)
			require.Zero(t, code)
			require.Equal(t, "note", metadata)
			if version >= 6 {
				require.Equal(t, int32(7), epoch)
			}
			kafka, zooKeeper := int64(42), int64(-1)
			if version == 0 {
				kafka, zooKeeper = zooKeeper, kafka
			}
			require.Equal(t, kafka, c.CommittedOffset("g", "orders", 0))
			require.Equal(t, zooKeeper, c.CommittedInZooKeeper("g", "orders", 0))
			require.Equal(t, int64(-1), c.CommittedOffset("g", "orders", 1))
		})
	}
}

func TestAllCommittedOffsetsOfAGroup(t *testing.T) {
	c := New(t)
	c.SetCommitted("g", "orders", 1, CommittedOffset{Offset: 5, LeaderEpoch: -1})
	c.SetCommitted("g", "bills", 0, CommittedOffset{Offset: 6, LeaderEpoch: -1})
	cl := dial(t, c, 1)
	resp := ask[*kmsg.OffsetFetchResponse](cl, 2, &kmsg.OffsetFetchRequest{Group: "g"})
	require.Len(t, resp.Topics, 2)
	require.Equal(t, int64(6), resp.Topics[0].Partitions[0].Offset)
	resp = ask[*kmsg.OffsetFetchResponse](cl, 8, &kmsg.OffsetFetchRequest{Groups: []kmsg.OffsetFetchRequestGroup{{Group: "g"}, {Group: "h"}}})
	require.Len(t, resp.Groups[0].Topics, 2)
	require.Empty(t, resp.Groups[1].Topics)
	c.DropCommitted("g", "orders")
	require.Equal(t, int64(-1), c.CommittedOffset("g", "orders", 1))
	require.Equal(t, int64(6), c.CommittedOffset("g", "bills", 0))
}

func TestCommitsAreCheckedAgainstTheGroup(t *testing.T) {
	c := New(t)
	c.CreateTopic("orders", 1)
	cl := dial(t, c, 1)
	join := cl.join("g")
	commit := func(member string, generation int32) int16 {
		return ask[*kmsg.OffsetCommitResponse](cl, 9, commitRequest("g", member, generation, "orders", 0, 1)).Topics[0].Partitions[0].ErrorCode
	}
	require.Equal(t, codeRebalanceInProgress, commit(join.MemberID, 1), "before the sync")
	cl.sync(join, "g")
	require.Equal(t, codeUnknownMemberID, commit("", -1))
	require.Equal(t, codeUnknownMemberID, commit("who", 1))
	require.Equal(t, codeIllegalGeneration, commit(join.MemberID, 2))
	require.Zero(t, commit(join.MemberID, 1))
}

func TestStaticMembersLeaveByInstance(t *testing.T) {
	c := New(t)
	cl := dial(t, c, 1)
	req := joinRequest("g", "")
	req.InstanceID = new("one")
	join := ask[*kmsg.JoinGroupResponse](cl, 9, req)
	cl.sync(join, "g")
	req.MemberID = "another"
	require.Equal(t, codeFencedInstanceID, ask[*kmsg.JoinGroupResponse](cl, 9, req).ErrorCode)
	req.InstanceID = new("two")
	require.Equal(t, codeUnknownMemberID, ask[*kmsg.JoinGroupResponse](cl, 9, req).ErrorCode)

	req.MemberID, req.InstanceID, req.Protocols[0].Metadata = "", new("one"), []byte("changed")
	again := ask[*kmsg.JoinGroupResponse](cl, 9, req)
	require.Equal(t, join.Generation+1, again.Generation, "a changed subscription rebalances")

	leave := func(instance string) int16 {
		r := &kmsg.LeaveGroupRequest{Group: "g", Members: []kmsg.LeaveGroupRequestMember{{InstanceID: &instance}}}
		return ask[*kmsg.LeaveGroupResponse](cl, 5, r).Members[0].ErrorCode
	}
	require.Equal(t, codeUnknownMemberID, leave("two"))
	require.Zero(t, leave("one"))
	require.Equal(t, "Empty", c.Group("g").State)
}

func TestAMemberThatOnlyHasAnIDMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		one, two := dial(t, c, 1), dial(t, c, 1)
		pending := ask[*kmsg.JoinGroupResponse](one, 9, joinRequest("g", ""))
		joining := async(func() *kmsg.JoinGroupResponse { return two.join("g") })
		synctest.Wait()
		start := time.Now()
		leave := &kmsg.LeaveGroupRequest{Group: "g", Members: []kmsg.LeaveGroupRequestMember{{MemberID: pending.MemberID}}}
		require.Zero(t, ask[*kmsg.LeaveGroupResponse](one, 5, leave).Members[0].ErrorCode)
		require.Equal(t, int32(1), (<-joining).Generation)
		require.Zero(t, time.Since(start))
	})
}

func TestALostJoinAnswerIsGivenAgain(t *testing.T) {
	c := New(t)
	cl := dial(t, c, 1)
	join := cl.join("g")
	again := ask[*kmsg.JoinGroupResponse](cl, 9, joinRequest("g", join.MemberID))
	require.Equal(t, join.Generation, again.Generation)
	require.Equal(t, join.Members, again.Members)
	cl.sync(join, "g")
	third := ask[*kmsg.JoinGroupResponse](cl, 9, joinRequest("g", join.MemberID))
	require.Equal(t, join.Generation+1, third.Generation, "a leader that rejoins wants a rebalance")
}

func TestAStaticMemberStaysUntilItsSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		one, two := dial(t, c, 1), dial(t, c, 1)
		static := joinRequest("g", "")
		static.InstanceID, static.SessionTimeoutMillis, static.RebalanceTimeoutMillis = new("one"), 60_000, 5_000
		join := ask[*kmsg.JoinGroupResponse](one, 9, static)
		one.sync(join, "g")
		start := time.Now()
		second := joinRequest("g", "")
		second.RebalanceTimeoutMillis = 5_000
		next := ask[*kmsg.JoinGroupResponse](two, 3, second)
		require.Equal(t, 5*time.Second, time.Since(start), "the rebalance timeout")
		require.Len(t, next.Members, 2, "it did not rejoin, but is still a member")
		require.Equal(t, next.MemberID, next.LeaderID)
	})
}

func TestInJoinVersion0TheSessionTimeoutBoundsTheRebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		one, two := dial(t, c, 1), dial(t, c, 1)
		join := ask[*kmsg.JoinGroupResponse](one, 0, joinRequest("g", ""))
		one.sync(join, "g")
		start := time.Now()
		joining := async(func() *kmsg.JoinGroupResponse { return ask[*kmsg.JoinGroupResponse](two, 0, joinRequest("g", "")) })
		time.Sleep(6 * time.Second)
		one.heartbeat(join, "g")
		require.Equal(t, int32(2), (<-joining).Generation)
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

func TestANewRebalanceFailsTheSyncsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, WithInitialRebalanceDelay(time.Second))
		leader, follower := dial(t, c, 1), dial(t, c, 1)
		joining := async(func() *kmsg.JoinGroupResponse { return ask[*kmsg.JoinGroupResponse](leader, 3, joinRequest("g", "")) })
		synctest.Wait()
		join := ask[*kmsg.JoinGroupResponse](follower, 3, joinRequest("g", ""))
		require.Equal(t, (<-joining).MemberID, join.LeaderID)
		syncing := async(func() *kmsg.SyncGroupResponse { return follower.sync(join, "g") })
		synctest.Wait()
		c.Rebalance("g")
		require.Equal(t, codeRebalanceInProgress, (<-syncing).ErrorCode)
	})
}

func TestCommitMetadataIsBounded(t *testing.T) {
	c := New(t)
	c.CreateTopic("orders", 1)
	req := commitRequest("g", "", -1, "orders", 0, 1)
	req.Topics[0].Partitions[0].Metadata = new(string(make([]byte, maxOffsetMetadata+1)))
	resp := ask[*kmsg.OffsetCommitResponse](dial(t, c, 1), 9, req)
	require.Equal(t, codeOffsetMetadataTooLarge, resp.Topics[0].Partitions[0].ErrorCode)
}

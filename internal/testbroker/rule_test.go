package testbroker

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func heartbeatCode(cl *client) int16 {
	cl.t.Helper()
	return ask[*kmsg.HeartbeatResponse](cl, 4, &kmsg.HeartbeatRequest{Group: "g"}).ErrorCode
}

func TestRulesLineUpAsASequence(t *testing.T) {
	c := New(t, WithNodes(2))
	c.MoveCoordinator("g", 1)
	cl := dial(t, c, 1)
	c.On(keyHeartbeat).Once().Fail(90)
	two := c.On(keyHeartbeat).Times(2).Fail(91)
	c.On(keyHeartbeat).After(1).Once().Fail(92)
	c.On(keyHeartbeat).Node(2).Fail(93)
	c.On(keyMetadata).Fail(94)
	var got []int16
	for range 6 {
		got = append(got, heartbeatCode(cl))
	}
	require.Equal(t, []int16{90, 91, 91, codeUnknownMemberID, 92, codeUnknownMemberID}, got)
	require.Equal(t, 2, two.Used())
	require.Equal(t, int16(93), heartbeatCode(dial(t, c, 2)))
}

func TestRuleWhenAndRemove(t *testing.T) {
	c := New(t)
	cl := dial(t, c, 1)
	r := c.On(AnyKey).When(func(r Request) bool { return r.Version == 4 && r.Key == keyHeartbeat }).Fail(90)
	require.Equal(t, int16(90), heartbeatCode(cl))
	require.Equal(t, codeUnknownMemberID, ask[*kmsg.HeartbeatResponse](cl, 3, &kmsg.HeartbeatRequest{Group: "g"}).ErrorCode)
	r.Remove()
	require.Equal(t, codeUnknownMemberID, heartbeatCode(cl))
}

func TestHeldAnswersAreThoseOfTheTimeOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, cl, id := orders(t)
		c.ProduceValues("orders", 0, "a")
		held := c.On(keyFetch).Once().Hold()
		answer := async(func() *kmsg.FetchResponse { return ask[*kmsg.FetchResponse](cl, 12, fetchRequest(id, 0, 0)) })
		require.True(t, held.WaitHeld(1, time.Minute))
		c.ProduceValues("orders", 0, "b")
		require.False(t, held.WaitHeld(2, time.Second))
		held.Release()
		require.Equal(t, int64(1), only(t, <-answer).HighWatermark)

		kept := c.On(keyFetch).Once().HoldRequest()
		answer = async(func() *kmsg.FetchResponse { return ask[*kmsg.FetchResponse](cl, 12, fetchRequest(id, 0, 0)) })
		require.True(t, kept.WaitHeld(1, time.Minute))
		c.ProduceValues("orders", 0, "c")
		kept.Release()
		require.Equal(t, int64(3), only(t, <-answer).HighWatermark)
	})
}

func TestAHeldRequestCanStillBeGivenAnotherAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, cl, id := orders(t)
		held := c.On(keyFetch).Once().Hold()
		answer := async(func() *kmsg.FetchResponse { return ask[*kmsg.FetchResponse](cl, 12, fetchRequest(id, 0, 0)) })
		require.True(t, held.WaitHeld(1, time.Minute))
		held.Fail(codeOffsetOutOfRange)
		held.Release()
		require.Equal(t, codeOffsetOutOfRange, only(t, <-answer).ErrorCode)
	})
}

func TestRuleDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		cl := dial(t, c, 1)
		c.On(keyHeartbeat).Delay(3 * time.Second).Fail(90)
		start := time.Now()
		require.Equal(t, int16(90), heartbeatCode(cl))
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

func TestRulesThatReplaceTheAnswer(t *testing.T) {
	c := New(t, WithNodes(2))
	cl := dial(t, c, 1)
	c.On(keyMetadata).Node(1).Once().Edit(func(_ Request, resp kmsg.Response) { resp.(*kmsg.MetadataResponse).ControllerID = 99 })
	require.Equal(t, int32(99), ask[*kmsg.MetadataResponse](cl, 9, kmsg.NewPtrMetadataRequest()).ControllerID)

	c.On(keyMetadata).Once().Reply(func(req kmsg.Request) kmsg.Response {
		require.Equal(t, int16(9), req.GetVersion())
		resp := kmsg.NewPtrMetadataResponse()
		resp.ClusterID = new("other")
		return resp
	})
	require.Equal(t, "other", *ask[*kmsg.MetadataResponse](cl, 9, kmsg.NewPtrMetadataRequest()).ClusterID)

	c.On(keyHeartbeat).Once().Raw(func(r Request) []byte { return FrameBody(r, []byte{0, 0, 0, 0, 0, 77, 0}) })
	require.Equal(t, int16(77), heartbeatCode(cl))

	c.On(keyHeartbeat).Once().Close()
	_, err := cl.try(kmsg.NewPtrHeartbeatRequest())
	require.ErrorIs(t, err, io.EOF)
}

func TestRulesThatLeaveTheClientWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		cl := dial(t, c, 1)
		c.On(keyHeartbeat).Once().Drop()
		cl.send(kmsg.NewPtrHeartbeatRequest())
		require.Len(t, ask[*kmsg.MetadataResponse](cl, 9, kmsg.NewPtrMetadataRequest()).Brokers, 1, "the connection lives on")

		whole := len(Frame(Request{Key: keyMetadata, Version: 9}, c.metadata(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse)))
		c.On(keyMetadata).Once().ReplyHalf()
		req := kmsg.NewPtrMetadataRequest()
		req.SetVersion(9)
		cl.send(req)
		require.NoError(t, cl.nc.SetReadDeadline(time.Now().Add(time.Minute)))
		got, err := io.ReadAll(cl.nc)
		require.ErrorContains(t, err, "timeout")
		require.Len(t, got, whole/2)
		cl.send(req)
		synctest.Wait()
		require.Equal(t, 2, c.Count(keyMetadata), "what comes then is swallowed")
	})
}

func TestRulesThatCutOrTrickleTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		cl := dial(t, c, 1)
		c.On(keyHeartbeat).Once().Trickle(1, time.Second)
		start := time.Now()
		require.Equal(t, codeUnknownMemberID, heartbeatCode(cl))
		require.Equal(t, 15*time.Second, time.Since(start), "an answer of 16 bytes")

		c.On(keyHeartbeat).Once().CutAnswer(6)
		cl.send(&kmsg.HeartbeatRequest{Version: 4, Group: "g"})
		got, err := io.ReadAll(cl.nc)
		require.NoError(t, err)
		require.Len(t, got, 6)
	})
}

func TestFailReachesEveryAPI(t *testing.T) {
	c := New(t)
	c.CreateTopic("orders", 1)
	c.On(AnyKey).Fail(88)
	cl := dial(t, c, 1)
	id := c.TopicID("orders")
	metadata := &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{Topic: new("orders")}}}
	leave := &kmsg.LeaveGroupRequest{Group: "g"}
	require.Equal(t, int16(88), only(t, ask[*kmsg.FetchResponse](cl, 16, fetchRequest(id, 0, 0))).ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.ListOffsetsResponse](cl, 8, listRequest("orders", 0, -1)).Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.MetadataResponse](cl, 12, metadata).Topics[0].ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.OffsetCommitResponse](cl, 9, commitRequest("g", "", -1, "orders", 0, 1)).Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.OffsetFetchResponse](cl, 1, offsetFetchRequest("g", "orders", 0)).Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.OffsetFetchResponse](cl, 7, offsetFetchRequest("g", "orders", 0)).ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.OffsetFetchResponse](cl, 9, offsetFetchRequest("g", "orders", 0)).Groups[0].ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.FindCoordinatorResponse](cl, 6, &kmsg.FindCoordinatorRequest{CoordinatorKeys: []string{"g"}}).Coordinators[0].ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.FindCoordinatorResponse](cl, 3, &kmsg.FindCoordinatorRequest{CoordinatorKey: "g"}).ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.JoinGroupResponse](cl, 9, joinRequest("g", "")).ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.SyncGroupResponse](cl, 5, &kmsg.SyncGroupRequest{Group: "g"}).ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.LeaveGroupResponse](cl, 5, leave).ErrorCode)
	require.Equal(t, int16(88), heartbeatCode(cl))
	epoch := &kmsg.OffsetForLeaderEpochRequest{Topics: []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "orders", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{}}}}}
	require.Equal(t, int16(88), ask[*kmsg.OffsetForLeaderEpochResponse](cl, 4, epoch).Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, int16(88), ask[*kmsg.SASLHandshakeResponse](cl, 1, kmsg.NewPtrSASLHandshakeRequest()).ErrorCode)
}

func TestAFailedFetchOfASessionAnswersForItsPartitions(t *testing.T) {
	c, cl, id := orders(t)
	req := fetchRequest(id, 0, 0)
	req.SessionEpoch = 0
	session := ask[*kmsg.FetchResponse](cl, 12, req).SessionID
	next := func(epoch int32) *kmsg.FetchRequest {
		r := fetchRequest(id, 0, 0)
		r.SessionID, r.SessionEpoch, r.Topics = session, epoch, nil
		return r
	}
	c.On(keyFetch).Once().Fail(codeNotLeader)
	require.Equal(t, codeNotLeader, only(t, ask[*kmsg.FetchResponse](cl, 12, next(1))).ErrorCode)
	require.Zero(t, only(t, ask[*kmsg.FetchResponse](cl, 12, next(2))).ErrorCode, "the recovery is news")
}

func TestFreezingAlsoSilencesAnAnswerThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		cl := dial(t, c, 1)
		held := c.On(keyHeartbeat).Hold()
		cl.send(kmsg.NewPtrHeartbeatRequest())
		require.True(t, held.WaitUsed(1, time.Minute))
		c.FreezeConns(1)
		held.Release()
		require.NoError(t, cl.nc.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := cl.nc.Read(make([]byte, 1))
		require.ErrorContains(t, err, "timeout")
	})
}

func TestRawTokensFollowAHandshake(t *testing.T) {
	c := New(t)
	cl := dial(t, c, 1)
	var got []string
	c.On(17).Reply(func(kmsg.Request) kmsg.Response {
		resp := kmsg.NewPtrSASLHandshakeResponse()
		resp.SupportedMechanisms = []string{"PLAIN"}
		return resp
	}).ThenTokens(func(token []byte) ([]byte, bool) {
		got = append(got, string(token))
		return []byte{}, len(got) == 2
	})
	handshake := ask[*kmsg.SASLHandshakeResponse](cl, 0, &kmsg.SASLHandshakeRequest{Mechanism: "PLAIN"})
	require.Equal(t, []string{"PLAIN"}, handshake.SupportedMechanisms)
	for _, token := range []string{"first", "second"} {
		_, err := cl.nc.Write(append([]byte{0, 0, 0, byte(len(token))}, token...))
		require.NoError(t, err)
		length := make([]byte, 4)
		_, err = io.ReadFull(cl.nc, length)
		require.NoError(t, err)
		require.Equal(t, make([]byte, 4), length)
	}
	require.Equal(t, []string{"first", "second"}, got)
	require.Len(t, ask[*kmsg.MetadataResponse](cl, 9, kmsg.NewPtrMetadataRequest()).Brokers, 1)
	require.Equal(t, 2, c.Count(AnyKey), "tokens are no requests")
}

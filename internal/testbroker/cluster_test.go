package testbroker

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestEveryVersionOfEveryAPIIsAnswered(t *testing.T) {
	c := New(t)
	c.CreateTopic("orders", 1)
	c.ProduceValues("orders", 0, "a", "b")
	id := c.TopicID("orders")
	table := DefaultVersions()
	for key, versions := range table {
		for version := versions.Min; version <= versions.Max; version++ {
			cl := dial(t, c, 1)
			req := exampleRequest(key, version, id)
			req.SetVersion(version)
			resp, err := cl.try(req)
			require.NoError(t, err, "%s v%d", kmsg.NameForKey(key), version)
			require.Equal(t, version, resp.GetVersion())
			require.NotNil(t, c.Requests(key)[len(c.Requests(key))-1].Message)
		}
	}
}

func exampleRequest(key, version int16, id [16]byte) kmsg.Request {
	switch key {
	case keyFetch:
		return fetchRequest(id, 0, 0)
	case keyListOffsets:
		return listRequest("orders", 0, -2)
	case keyFindCoordinator:
		return &kmsg.FindCoordinatorRequest{CoordinatorKey: "g", CoordinatorKeys: []string{"g", "h"}}
	case keyOffsetCommit:
		return commitRequest("g", "", -1, "orders", 0, 1)
	case keyOffsetFetch:
		return offsetFetchRequest("g", "orders", 0)
	case keyJoinGroup:
		r := joinRequest(fmt.Sprint("versions", version), "")
		if version >= 5 {
			r.InstanceID = new("instance")
		}
		return r
	}
	return kmsg.RequestForKey(key)
}

func TestApiVersionsTellsTheNodesOwnTable(t *testing.T) {
	c := New(t, WithNodes(2))
	c.SetVersions(2, map[int16]VersionRange{keyApiVersions: {0, 2}, 999: {3, 7}})
	resp := ask[*kmsg.ApiVersionsResponse](dial(t, c, 1), 3, kmsg.NewPtrApiVersionsRequest())
	require.Len(t, resp.ApiKeys, len(DefaultVersions()))

	cl := dial(t, c, 2)
	resp = ask[*kmsg.ApiVersionsResponse](cl, 2, kmsg.NewPtrApiVersionsRequest())
	require.Equal(t, int16(999), resp.ApiKeys[1].ApiKey)
	require.Equal(t, int16(7), resp.ApiKeys[1].MaxVersion)
	_, err := cl.try(kmsg.NewPtrMetadataRequest())
	require.Error(t, err, "an API outside the table closes the connection")
}

func TestApiVersionsAboveTheMaximumIsAnsweredInVersion0(t *testing.T) {
	for _, tc := range []struct {
		name string
		max  int16
		keys int
	}{
		{"a broker since 2.4 tells its range", 3, 1},
		{"an older one tells nothing", 2, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := New(t, WithVersions(map[int16]VersionRange{keyApiVersions: {0, tc.max}, keyFetch: {0, 4}}))
			cl := dial(t, c, 1)
			req := kmsg.NewPtrApiVersionsRequest()
			req.SetVersion(4)
			cl.send(req)
			req.SetVersion(0)
			resp, err := cl.receive(req)
			require.NoError(t, err)
			v := resp.(*kmsg.ApiVersionsResponse)
			require.Equal(t, codeUnsupportedVersion, v.ErrorCode)
			require.Len(t, v.ApiKeys, tc.keys)
		})
	}
}

func TestMetadataOfTopics(t *testing.T) {
	c := New(t, WithNodes(2), WithRack(2, "b"))
	c.CreateTopic("orders", 3)
	c.SetLeader("orders", 0, 2)
	c.SetLeader("orders", 1, -1)
	name := func(s string) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{Topic: &s} }
	cl := dial(t, c, 1)

	resp := ask[*kmsg.MetadataResponse](cl, 12, &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{
		name("orders"), name("gone"), name("bad name"), {TopicID: c.TopicID("orders")}, {TopicID: [16]byte{1}},
	}})
	require.Equal(t, "testbroker", *resp.ClusterID)
	require.Equal(t, "b", *resp.Brokers[1].Rack)
	codes := make([]int16, len(resp.Topics))
	for i, topic := range resp.Topics {
		codes[i] = topic.ErrorCode
	}
	require.Equal(t, []int16{0, codeUnknownTopic, codeInvalidTopic, 0, codeUnknownTopicID}, codes)
	orders := resp.Topics[0]
	require.Equal(t, c.TopicID("orders"), orders.TopicID)
	require.Equal(t, int32(2), orders.Partitions[0].Leader)
	require.Equal(t, int32(1), orders.Partitions[0].LeaderEpoch)
	require.Equal(t, codeLeaderNotAvailable, orders.Partitions[1].ErrorCode)
	require.Equal(t, []int32{1, 2}, orders.Partitions[2].Replicas)

	old := c.TopicID("orders")
	c.DeleteTopic("orders")
	c.CreateTopic("orders", 1)
	require.NotEqual(t, old, c.TopicID("orders"))
	resp = ask[*kmsg.MetadataResponse](cl, 1, &kmsg.MetadataRequest{})
	require.Len(t, resp.Topics, 1)
	require.Len(t, resp.Topics[0].Partitions, 1)
}

func TestMetadataCreatesTopicsOnlyWhenTold(t *testing.T) {
	c := New(t, WithAutoCreate(2))
	cl := dial(t, c, 1)
	req := &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{Topic: new("new")}}}
	resp := ask[*kmsg.MetadataResponse](cl, 4, req)
	require.Equal(t, codeUnknownTopic, resp.Topics[0].ErrorCode)
	resp = ask[*kmsg.MetadataResponse](cl, 3, req)
	require.Zero(t, resp.Topics[0].ErrorCode)
	require.Len(t, resp.Topics[0].Partitions, 2)
}

func TestStoppedNodesRefuseAndComeBack(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		opts := []Option{}
		if tcp {
			opts = append(opts, WithTCP())
		}
		c := New(t, opts...)
		cl := dial(t, c, 1)
		addr := c.Addr(1)
		c.StopNode(1)
		_, err := cl.nc.Read(make([]byte, 1))
		require.Error(t, err)
		_, err = c.Dial(t.Context(), "tcp", addr)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		c.StartNode(1)
		require.Equal(t, addr, c.Addr(1))
		ask[*kmsg.ApiVersionsResponse](dial(t, c, 1), 0, kmsg.NewPtrApiVersionsRequest())
	}
}

func TestFrozenConnectionsStaySilentWhileNewOnesWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		old := dial(t, c, 1)
		c.FreezeConns(1)
		require.NoError(t, old.nc.SetReadDeadline(time.Now().Add(time.Hour)))
		_, err := old.try(kmsg.NewPtrApiVersionsRequest())
		require.ErrorContains(t, err, "timeout")
		ask[*kmsg.ApiVersionsResponse](dial(t, c, 1), 0, kmsg.NewPtrApiVersionsRequest())
		require.Equal(t, 1, c.Count(AnyKey))
		require.Equal(t, 2, c.Conns(1))
		c.CutConns(1)
		synctest.Wait()
		require.Zero(t, c.Conns(1))
	})
}

func TestConnectionsAreWrapped(t *testing.T) {
	var wrapped []int32
	c := New(t, WithNodes(2), WithConnWrapper(func(node int32, nc net.Conn) net.Conn {
		wrapped = append(wrapped, node)
		return shifted{nc}
	}))
	cl := dial(t, c, 2)
	cl.nc = shifted{cl.nc}
	ask[*kmsg.ApiVersionsResponse](cl, 0, kmsg.NewPtrApiVersionsRequest())
	require.Equal(t, []int32{2}, wrapped)
}

// shifted is a cipher that both ends must know.
type shifted struct{ net.Conn }

func (s shifted) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	for i := range p[:n] {
		p[i]--
	}
	return n, err
}

func (s shifted) Write(p []byte) (int, error) {
	out := make([]byte, len(p))
	for i := range p {
		out[i] = p[i] + 1
	}
	return s.Conn.Write(out)
}

func TestHangingDialsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		c.HangDials(1, true)
		start := time.Now()
		_, err := c.Dial(ctxWithTimeout(t, 7*time.Second), "tcp", c.Addr(1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 7*time.Second, time.Since(start))
		c.HangDials(1, false)
		ask[*kmsg.ApiVersionsResponse](dial(t, c, 1), 0, kmsg.NewPtrApiVersionsRequest())
	})
}

func TestWaitRequestSeesWhatArrivesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		cl := dial(t, c, 1)
		require.False(t, c.WaitRequest(keyMetadata, 1, time.Second))
		go func() {
			time.Sleep(time.Second)
			cl.send(kmsg.NewPtrMetadataRequest())
		}()
		require.True(t, c.WaitRequest(keyMetadata, 1, time.Minute))
		r := c.Requests(keyMetadata)[0]
		require.Equal(t, int32(1), r.Node)
		require.Equal(t, "tester", r.ClientID)
		require.IsType(t, &kmsg.MetadataRequest{}, r.Message)
		c.ForgetRequests()
		require.Zero(t, c.Count(AnyKey))
	})
}

func TestCloseEndsLongPollsAndHeldAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(nil)
		c.CreateTopic("orders", 1)
		c.On(keyMetadata).Hold()
		polling, held := dial(t, c, 1), dial(t, c, 1)
		req := fetchRequest(c.TopicID("orders"), 0, 3600_000)
		req.SetVersion(12)
		polling.send(req)
		held.send(kmsg.NewPtrMetadataRequest())
		synctest.Wait()
		c.Close()
		_, err := polling.nc.Read(make([]byte, 1))
		require.Error(t, err)
		_, err = held.nc.Read(make([]byte, 1))
		require.Error(t, err)
		c.Close()
	})
}

func TestARequestWaitsForTheOneBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, cl, id := orders(t)
		start := time.Now()
		poll := fetchRequest(id, 0, 500)
		poll.SetVersion(12)
		cl.send(poll)
		metadata := kmsg.NewPtrMetadataRequest()
		cl.correlation = 0 // both carry 1
		cl.send(metadata)
		synctest.Wait()
		require.Equal(t, 1, c.Count(keyMetadata), "it is read and logged at once")
		resp, err := cl.receive(poll)
		require.NoError(t, err)
		require.IsType(t, &kmsg.FetchResponse{}, resp)
		require.Equal(t, 500*time.Millisecond, time.Since(start))
		_, err = cl.receive(metadata)
		require.NoError(t, err)
	})
}

func TestNodesListenOnLoopback(t *testing.T) {
	c := New(t, WithNodes(2), WithTCP())
	c.CreateTopic("orders", 1)
	c.AddPartitions("orders", 3)
	for _, addr := range c.Addrs() {
		nc, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		cl := &client{t: t, nc: nc}
		resp := ask[*kmsg.MetadataResponse](cl, 9, kmsg.NewPtrMetadataRequest())
		require.Equal(t, c.Addr(2), net.JoinHostPort(resp.Brokers[1].Host, fmt.Sprint(resp.Brokers[1].Port)))
		require.Len(t, resp.Topics[0].Partitions, 3)
		require.NoError(t, nc.Close())
	}
}

func TestMalformedRequestsCloseTheConnection(t *testing.T) {
	for name, frame := range map[string]string{
		"an HTTP request":             "GET / HTTP/1.1\r\n\r\n",
		"a negative length":           "\xff\xff\xff\xff",
		"a client id beyond the end":  "\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\x7f\xff",
		"tags beyond the end":         "\x00\x00\x00\x0c\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\xff\xff",
		"a body that does not decode": "\x00\x00\x00\x0a\x00\x01\x00\x0c\x00\x00\x00\x01\xff\xff",
		"an unknown API":              "\x00\x00\x00\x0a\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New(t)
				cl := dial(t, c, 1)
				_, err := cl.nc.Write([]byte(frame))
				require.NoError(t, err)
				_, err = cl.nc.Read(make([]byte, 1))
				require.Error(t, err)
			})
		})
	}
}

func FuzzRequestParse(f *testing.F) {
	f.Add([]byte("\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\x00\x02a\x02b\x00"))
	f.Add([]byte("\x00\x01\x00\x10\x00\x00\x00\x01\xff\xff\x02\x00\x01x\x01\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		r := Request{Frame: frame}
		if r.parse() != nil {
			require.Nil(t, r.Message)
		}
	})
}

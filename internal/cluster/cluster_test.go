package cluster

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/leakcheck"
	"github.com/kafkaconsumer/kafka/internal/logbuffer"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func testConfig(t *testing.T, dial dialer, servers ...string) Config {
	addrs, err := conn.ParseServers(servers)
	require.NoError(t, err)
	return Config{
		Conn: conn.Config{
			ClientID: "test", Dialer: dial, ReconnectBackoff: 20 * time.Millisecond, ReconnectBackoffMax: time.Second,
			SetupTimeout: 10 * time.Second, RequestTimeout: 30 * time.Second, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		},
		Bootstrap:    addrs,
		RetryBackoff: 50 * time.Millisecond,
	}
}

// inBubble runs a test in a synctest bubble, which also fails when a goroutine
// outlives it.
func inBubble(t *testing.T, test func(t *testing.T)) { synctest.Test(t, test) }

// start returns a cluster that is connected to tb and interested in topics.
func start(t *testing.T, tb *testbroker.Cluster, change func(*Config), topics ...string) *Cluster {
	cfg := testConfig(t, tb.Dial, tb.Addrs()...)
	if change != nil {
		change(&cfg)
	}
	c := New(cfg)
	t.Cleanup(c.Close)
	c.SetInterest(topics, false)
	require.NoError(t, c.Bootstrap(t.Context()))
	return c
}

func tp(topic string, partition int32) protocol.TopicPartition {
	return protocol.TopicPartition{Topic: topic, Partition: partition}
}

func leaderOf(c *Cluster, topic string, partition int32) int32 {
	p, _ := c.Metadata().Partition(tp(topic, partition))
	return p.Leader
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for a snapshot that satisfies cond, by Changed.
func eventually(t *testing.T, c *Cluster, d time.Duration, cond func(*Metadata) bool) {
	t.Helper()
	timeout := time.After(d)
	for {
		changed := c.Changed()
		if cond(c.Metadata()) {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("not within %v", d)
		}
	}
}

func TestBootstrapLearnsTheCluster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(3), testbroker.WithRack(2, "east"))
		tb.CreateTopic("orders", 3)
		tb.CreateTopic("others", 1)
		c := start(t, tb, nil, "orders")
		m := c.Metadata()
		require.Equal(t, "testbroker", m.ClusterID)
		require.Equal(t, int32(1), m.Controller)
		require.Equal(t, []int32{1, 2, 3}, slices.Sorted(maps.Keys(m.Brokers)))
		require.Equal(t, BrokerInfo{Addr: conn.Addr{Host: "node2.test", Port: 9092}, Rack: "east"}, m.Brokers[2])
		require.Nil(t, m.Topic("others"), "only topics of the interest set are kept")
		require.Equal(t, tb.TopicID("orders"), m.Topic("orders").ID)
		require.Equal(t, int32(2), leaderOf(c, "orders", 1))
		b, ok := c.Broker(3)
		require.True(t, ok)
		require.Equal(t, "node3.test:9092", b.Addr().String())
		_, ok = c.Broker(4)
		require.False(t, ok)
		v, ok := c.Versions()
		require.True(t, ok)
		require.NotNil(t, v)
	})
}

func TestBootstrapFailsWithEachAddressesOwnReason(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
			switch addr {
			case "hole:9092":
				<-ctx.Done()
				return nil, ctx.Err()
			case "gone:9092":
				return nil, errors.New("connection refused")
			}
			return nil, errors.New("no such host")
		}
		c := New(testConfig(t, dial, "hole", "gone", "nowhere"))
		defer c.Close()
		began := time.Now()
		err := c.Bootstrap(within(t, 3*time.Second))
		require.Equal(t, 3*time.Second, time.Since(began))
		require.ErrorContains(t, err, "gone:9092: dial: connection refused")
		require.ErrorContains(t, err, "nowhere:9092: dial: no such host")
		require.ErrorContains(t, err, "hole:9092: dial: context deadline exceeded")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		c = New(testConfig(t, dial, "gone", "nowhere"))
		defer c.Close()
		began = time.Now()
		require.Error(t, c.Bootstrap(within(t, 3*time.Second)))
		require.Less(t, time.Since(began), 100*time.Millisecond, "when all have failed there is nothing to wait for")
	})
}

func TestBootstrapIsNotHeldUpByDeadAddresses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(4))
		for id := int32(1); id <= 3; id++ {
			tb.HangDials(id, true)
		}
		began := time.Now()
		start(t, tb, nil)
		require.LessOrEqual(t, time.Since(began), time.Second)
		synctest.Wait()
		for id := int32(1); id <= 3; id++ {
			require.Zero(t, tb.Conns(id), "bootstrap connections are closed once brokers are known")
		}
		require.Equal(t, 1, tb.Conns(4), "but for one that turned out to be a broker's")

		for range 10 {
			c := New(testConfig(t, tb.Dial, tb.Addrs()...))
			require.NoError(t, c.Bootstrap(within(t, 400*time.Millisecond)), "every address has its chance")
			c.Close()
		}
	})
}

type authenticator func() error

func (a authenticator) Authenticate(context.Context, string, conn.Exchange) (time.Duration, error) {
	return 0, a()
}

func TestRefusalsEndTheWaitAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t)
		var denied atomic.Bool
		c := start(t, tb, func(cfg *Config) {
			cfg.Conn.Auth = authenticator(func() error {
				if denied.Load() {
					return errors.New("wrong password")
				}
				return nil
			})
		})
		denied.Store(true)
		tb.CutConns(1)
		err := c.RefreshAndWait(within(t, 10*time.Second))
		require.ErrorAs(t, err, new(*conn.AuthError))
		require.ErrorContains(t, err, "wrong password")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		_, err = c.TopicMetadata(within(t, 10*time.Second), "t")
		require.ErrorContains(t, err, "wrong password")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestMetadataIsRefreshedOnAge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(2))
		tb.CreateTopic("orders", 1)
		c := start(t, tb, func(cfg *Config) { cfg.MetadataMaxAge = time.Minute }, "orders")
		time.Sleep(59 * time.Second)
		tb.AddPartitions("orders", 2)
		require.Len(t, c.Metadata().Topic("orders").Partitions, 1)
		require.Equal(t, 1, tb.Count(protocol.KeyMetadata))
		time.Sleep(2 * time.Second)
		require.Len(t, c.Metadata().Topic("orders").Partitions, 2)
		require.True(t, c.Metadata().Topic("orders").Appeared(1))
		time.Sleep(10 * time.Minute)
		require.Equal(t, 12, tb.Count(protocol.KeyMetadata), "one a minute, and none besides")
	})
}

func TestRefreshIsCoalescedAndBacksOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t)
		tb.CreateTopic("orders", 1)
		c := start(t, tb, nil, "orders")
		time.Sleep(time.Minute)
		tb.ForgetRequests()
		for range 5000 { // for five seconds
			c.Refresh()
			time.Sleep(time.Millisecond)
		}
		count := tb.Count(protocol.KeyMetadata)
		require.GreaterOrEqual(t, count, 6)
		require.LessOrEqual(t, count, 15)

		time.Sleep(time.Minute)
		tb.SetLeader("orders", 0, -1)
		began := time.Now()
		require.NoError(t, c.RefreshAndWait(t.Context()))
		require.Less(t, time.Since(began), 10*time.Millisecond, "after a quiet time a refresh begins at once")
		require.Equal(t, NoNode, leaderOf(c, "orders", 0))
		tb.SetLeader("orders", 0, 1)
		eventually(t, c, 2*time.Second, func(*Metadata) bool { return leaderOf(c, "orders", 0) == 1 })
	})
}

// B19: a topic that does not exist costs few metadata requests.
func TestUnknownTopicsAreSurfacedAndAskedForWithBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(2))
		tb.CreateTopic("live", 1)
		c := start(t, tb, nil, "live", "gone")
		require.Equal(t, protocol.UnknownTopicOrPartition, c.Metadata().Topic("gone").Err)
		require.False(t, c.Metadata().Topic("gone").UnknownConfirmed())
		time.Sleep(5 * time.Second)
		require.LessOrEqual(t, tb.Count(protocol.KeyMetadata), 15)
		gone := c.Metadata().Topic("gone")
		require.True(t, gone.UnknownConfirmed())
		_, answers, _ := gone.UnknownSince()
		require.Equal(t, tb.Count(protocol.KeyMetadata), answers)
		require.Equal(t, protocol.None, c.Metadata().Topic("live").Err)

		tb.CreateTopic("gone", 2)
		eventually(t, c, 1500*time.Millisecond, func(m *Metadata) bool { return m.Topic("gone").Err == protocol.None })
		require.True(t, c.Metadata().Topic("gone").Appeared(0))
		count := tb.Count(protocol.KeyMetadata)
		time.Sleep(time.Minute)
		require.Equal(t, count, tb.Count(protocol.KeyMetadata), "once all is known nothing is asked")
	})
}

func TestInterestIsServedAtOnceAndForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t)
		tb.CreateTopic("a", 1)
		tb.CreateTopic("b", 1)
		c := start(t, tb, nil, "a", "missing")
		time.Sleep(10 * time.Second)
		began := time.Now()
		c.SetInterest([]string{"b"}, false)
		require.Nil(t, c.Metadata().Topic("a"))
		eventually(t, c, time.Second, func(m *Metadata) bool { return m.Topic("b") != nil })
		require.Less(t, time.Since(began), 10*time.Millisecond, "a new topic does not wait for the backoff of another")
		c.SetInterest([]string{"b"}, true)
		eventually(t, c, time.Second, func(m *Metadata) bool { return m.Topic("a") != nil })
		require.Nil(t, c.Metadata().Topic("missing"))
		c.SetInterest(nil, false)
		require.Empty(t, c.Metadata().Topics)
	})
}

// B03, first case: a broker that lags behind does not win.
func TestOldEpochsOfALaggingBrokerAreIgnored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(2))
		tb.CreateTopic("t", 1)
		tb.SetLeaderEpoch("t", 0, 5)
		c := start(t, tb, nil, "t")
		require.Equal(t, int32(1), leaderOf(c, "t", 0))
		tb.SetLeader("t", 0, 2) // epoch 6
		require.NoError(t, c.RefreshAndWait(t.Context()))
		tb.On(protocol.KeyMetadata).Times(3).Edit(func(_ testbroker.Request, resp kmsg.Response) {
			p := &resp.(*kmsg.MetadataResponse).Topics[0].Partitions[0]
			p.Leader, p.LeaderEpoch = 1, 4
		})
		count := tb.Count(protocol.KeyMetadata)
		require.NoError(t, c.RefreshAndWait(t.Context()))
		require.Equal(t, int32(2), leaderOf(c, "t", 0))
		time.Sleep(3 * time.Second)
		require.Equal(t, int32(2), leaderOf(c, "t", 0))
		require.Equal(t, count+4, tb.Count(protocol.KeyMetadata), "it asks until the answers agree, and no longer")
	})
}

// B03, second case: the cluster was rebuilt, its epochs begin anew.
func TestOldEpochsThatStayAreAccepted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(2))
		tb.CreateTopic("t", 1)
		tb.SetLeader("t", 0, 2)
		withoutID := func(_ testbroker.Request, resp kmsg.Response) {
			resp.(*kmsg.MetadataResponse).Topics[0].TopicID = [16]byte{}
		}
		tb.On(protocol.KeyMetadata).Edit(withoutID)
		c := start(t, tb, nil, "t")
		tb.DeleteTopic("t")
		tb.CreateTopic("t", 1)
		require.NoError(t, c.RefreshAndWait(t.Context()))
		require.Equal(t, int32(2), leaderOf(c, "t", 0))
		eventually(t, c, 3*time.Second, func(*Metadata) bool { return leaderOf(c, "t", 0) == 1 })
	})
}

func TestLeaderHintsAreTakenWhenNewer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(2))
		tb.CreateTopic("t", 1)
		tb.SetLeaderEpoch("t", 0, 5)
		c := start(t, tb, nil, "t")
		changed := c.Changed()
		require.False(t, c.UpdateLeader(tp("t", 0), 2, 5, nil), "the epoch is not newer")
		require.False(t, c.UpdateLeader(tp("t", 1), 2, 9, nil), "there is no such partition")
		require.False(t, c.UpdateLeader(tp("t", 0), 7, 9, nil), "nobody knows where the leader is")
		require.Equal(t, int32(1), leaderOf(c, "t", 0))
		require.True(t, c.UpdateLeader(tp("t", 0), 2, 6, nil))
		require.Equal(t, int32(2), leaderOf(c, "t", 0))
		<-changed
		require.True(t, c.UpdateLeader(tp("t", 0), 7, 7, &BrokerInfo{Addr: conn.Addr{Host: "new", Port: 1}}))
		b, ok := c.Broker(7)
		require.True(t, ok)
		require.Equal(t, "new:1", b.Addr().String())
	})
}

func TestNodesFollowTheMetadata(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(3))
		c := start(t, tb, nil)
		gone, _ := c.Broker(3)
		tb.On(protocol.KeyMetadata).Edit(func(_ testbroker.Request, resp kmsg.Response) {
			m := resp.(*kmsg.MetadataResponse)
			m.Brokers = m.Brokers[:2]
			m.Brokers[1].Host = "moved.test"
		})
		require.NoError(t, c.RefreshAndWait(t.Context()))
		_, ok := c.Broker(3)
		require.False(t, ok)
		_, err := gone.Do(t.Context(), conn.Control, question{}.request())
		require.ErrorIs(t, err, conn.ErrClosed, "the connections of a broker that vanished are closed")
		b, _ := c.Broker(2)
		require.Equal(t, "moved.test:9092", b.Addr().String())
		_, err = c.Do(t.Context(), 3, conn.Control, question{}.request())
		var unknown *UnknownNodeError
		require.ErrorAs(t, err, &unknown)
	})
}

// KIP-899: the whole cluster moved to other ports.
func TestRebootstrapWhenNoKnownBrokerAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		old, fresh := testbroker.New(t, testbroker.WithNodes(2)), testbroker.New(t, testbroker.WithNodes(2))
		old.CreateTopic("t", 1)
		fresh.CreateTopic("t", 2)
		fresh.On(protocol.KeyMetadata).Edit(func(_ testbroker.Request, resp kmsg.Response) {
			for i := range resp.(*kmsg.MetadataResponse).Brokers {
				resp.(*kmsg.MetadataResponse).Brokers[i].Port = 9192
			}
		})
		var mu sync.Mutex
		boot := old
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			server := boot
			mu.Unlock()
			switch addr {
			case "boot:9092":
				return server.Dial(ctx, network, "node1.test:9092")
			case "node1.test:9192", "node2.test:9192":
				return fresh.Dial(ctx, network, addr[:11]+"9092")
			}
			return old.Dial(ctx, network, addr)
		}
		var log logbuffer.Buffer
		cfg := testConfig(t, dial, "boot")
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c := New(cfg)
		t.Cleanup(c.Close)
		c.SetInterest([]string{"t"}, false)
		require.NoError(t, c.Bootstrap(t.Context()))

		old.StopNode(1)
		old.StopNode(2)
		ctx := within(t, 3*time.Second)
		require.ErrorIs(t, c.RefreshAndWait(ctx), context.DeadlineExceeded)
		since, err := c.RefreshError()
		require.Error(t, err)
		require.Greater(t, time.Since(since), 2*time.Second, "since the first that failed")
		mu.Lock()
		boot = fresh
		mu.Unlock()
		require.NoError(t, c.RefreshAndWait(within(t, 3*time.Second)))
		_, err = c.RefreshError()
		require.NoError(t, err)
		require.Equal(t, int32(9192), c.Metadata().Brokers[2].Addr.Port)
		require.Equal(t, fresh.TopicID("t"), c.Metadata().Topic("t").ID)
		found, errs := c.ListOffsets(within(t, time.Second), map[protocol.TopicPartition]int64{tp("t", 1): Latest}, 0)
		require.Empty(t, errs)
		require.Contains(t, found, tp("t", 1))
		require.Equal(t, 1, strings.Count(log.String(), "cannot be refreshed"), "one outage is told once")
	})
}

// KIP-1102: brokers can send a client back to its bootstrap servers.
func TestRebootstrapWhenABrokerAsksForIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		table := testbroker.DefaultVersions()
		table[protocol.KeyMetadata] = testbroker.VersionRange{Min: 0, Max: 13}
		tb := testbroker.New(t, testbroker.WithNodes(2), testbroker.WithVersions(table))
		c := start(t, tb, nil)
		require.NoError(t, c.RefreshAndWait(t.Context()))
		before, _ := c.Broker(1)
		tb.On(protocol.KeyMetadata).Times(2).Edit(func(_ testbroker.Request, resp kmsg.Response) {
			m := resp.(*kmsg.MetadataResponse)
			m.ErrorCode, m.Brokers = int16(protocol.RebootstrapRequired), nil
		})
		require.NoError(t, c.RefreshAndWait(t.Context()))
		after, ok := c.Broker(1)
		require.True(t, ok)
		require.NotSame(t, before, after, "known brokers are dropped")
	})
}

func TestABrokerThatDoesNotAnswerHoldsUpNoRefresh(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(3))
		c := start(t, tb, nil)
		for range 3 {
			require.NoError(t, c.RefreshAndWait(t.Context()))
		}
		tb.FreezeConns(1)
		tb.FreezeConns(2)
		tb.FreezeConns(3)
		tb.HangDials(1, true)
		tb.HangDials(2, true)
		require.NoError(t, c.RefreshAndWait(within(t, 6*time.Second)))
	})
}

func TestCloseEndsWhatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t)
		tb.CreateTopic("t", 1)
		c := start(t, tb, nil, "t")
		tb.On(testbroker.AnyKey).Drop()
		var wg sync.WaitGroup
		wg.Go(func() { require.ErrorIs(t, c.RefreshAndWait(t.Context()), ErrClosed) })
		wg.Go(func() { _, err := c.FindCoordinator(t.Context(), "g"); require.ErrorIs(t, err, ErrClosed) })
		wg.Go(func() { _, err := c.TopicMetadata(t.Context(), "x"); require.ErrorIs(t, err, ErrClosed) })
		wg.Go(func() {
			_, errs := c.ListOffsets(t.Context(), map[protocol.TopicPartition]int64{tp("t", 0): Latest}, 0)
			require.ErrorIs(t, errs[tp("t", 0)], ErrClosed)
		})
		time.Sleep(time.Second)
		began := time.Now()
		c.Close()
		wg.Wait()
		require.Zero(t, time.Since(began))
		_, err := c.Do(t.Context(), 1, conn.Control, question{}.request())
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, c.Bootstrap(t.Context()), ErrClosed)
		c.Close()
	})
}

func TestDoAnyFallsBackToOtherBrokers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(2))
		c := start(t, tb, nil)
		tb.StopNode(1)
		for range 4 {
			resp, err := c.DoAny(within(t, 5*time.Second), question{all: true}.request())
			require.NoError(t, err)
			require.IsType(t, &kmsg.MetadataResponse{}, resp)
		}
		tb.StopNode(2)
		_, err := c.DoAny(within(t, 5*time.Second), question{all: true}.request())
		require.ErrorContains(t, err, "broker 1 at node1.test:9092")
		require.ErrorContains(t, err, "broker 2 at node2.test:9092")
	})
}

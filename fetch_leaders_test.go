package kafka

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// steadily produces a record every 20 ms until n are there.
func steadily(b *testbroker.Cluster, n int) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			produce(b, "t", 0, 1)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return done
}

// requireEach polls until n records came: each once, in order.
func requireEach(t *testing.T, c *Consumer, n int64) {
	t.Helper()
	require.Equal(t, span(0, n-1), offsetsOf(pollN(t, c, int(n))))
	require.Equal(t, n, position(t, c, tp0))
}

// Whatever happens to the leader: no record is lost, none comes twice.
func TestRecordsGoOnThroughTroubleOfTheLeader(t *testing.T) {
	for name, trouble := range map[string]func(b *testbroker.Cluster){
		"it moves": func(b *testbroker.Cluster) {
			for i := range int32(8) {
				time.Sleep(400 * time.Millisecond)
				b.SetLeader("t", 0, (i+1)%2+1)
			}
		},
		"its connections are cut": func(b *testbroker.Cluster) {
			for range 8 {
				time.Sleep(300 * time.Millisecond)
				b.CutConns(1)
			}
		},
		"it restarts": func(b *testbroker.Cluster) {
			for range 3 {
				time.Sleep(500 * time.Millisecond)
				b.StopNode(1)
				time.Sleep(400 * time.Millisecond)
				b.StartNode(1)
			}
		},
		"it dies and another leads": func(b *testbroker.Cluster) {
			time.Sleep(500 * time.Millisecond)
			b.StopNode(1)
			b.SetLeader("t", 0, 2)
		},
		"it falls silent and another leads": func(b *testbroker.Cluster) {
			time.Sleep(500 * time.Millisecond)
			b.FreezeConns(1)
			b.HangDials(1, true)
			b.SetLeader("t", 0, 2)
		},
		"it falls silent for its connections": func(b *testbroker.Cluster) {
			time.Sleep(500 * time.Millisecond)
			b.FreezeConns(1)
		},
		"it leaves the partition without a leader": func(b *testbroker.Cluster) {
			time.Sleep(500 * time.Millisecond)
			b.SetLeader("t", 0, -1)
			time.Sleep(500 * time.Millisecond)
			b.SetLeader("t", 0, 2)
		},
		"it answers with errors": func(b *testbroker.Cluster) {
			for _, code := range []int16{6, 9, 56, 74, 75, 78, 3, 100, 103, -1, 5} {
				time.Sleep(100 * time.Millisecond)
				b.On(keyFetch).Times(2).Fail(code)
			}
		},
		"its answers are cut": func(b *testbroker.Cluster) {
			for i := range 10 {
				time.Sleep(200 * time.Millisecond)
				b.On(keyFetch).Once().CutAnswer(i * 13)
			}
		},
		"half of an answer comes": func(b *testbroker.Cluster) {
			time.Sleep(500 * time.Millisecond)
			b.On(keyFetch).Once().ReplyHalf()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				c := reader(t, fast(b), tp0)
				done := steadily(b, 300)
				go trouble(b)
				requireEach(t, c, 300)
				<-done
				began := time.Now()
				produce(b, "t", 0, 1)
				require.Len(t, pollN(t, c, 1), 1)
				require.Less(t, time.Since(began), 5*time.Second)
			}, testbroker.WithNodes(2))
		})
	}
}

// KIP-951
func TestLeaderHintIsFollowedAtOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		cfg := fast(b)
		cfg.MetadataMaxAge, cfg.RetryBackoff, cfg.RetryBackoffMax = time.Hour, 10*time.Second, 10*time.Second
		c := reader(t, cfg, tp0)
		pollN(t, c, 5)
		time.Sleep(time.Second)
		held := b.On(keyMetadata).Hold()
		defer held.Release()
		b.SetLeader("t", 0, 2)
		produce(b, "t", 0, 5)
		began := time.Now()
		require.Equal(t, span(5, 9), offsetsOf(pollN(t, c, 5)))
		require.Less(t, time.Since(began), 500*time.Millisecond, "metadata does not answer")
		last := b.Requests(keyFetch)
		require.EqualValues(t, 2, last[len(last)-1].Node)
	}, testbroker.WithNodes(2))
}

// B03
func TestOlderLeaderEpochIsNotFollowed(t *testing.T) {
	for _, code := range []int16{6, 74} {
		t.Run(fmt.Sprintf("code %d", code), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				b.SetLeaderEpoch("t", 0, 5)
				produce(b, "t", 0, 5)
				cfg := fast(b)
				c := reader(t, cfg, tp0)
				pollN(t, c, 5)
				b.SetLeader("t", 0, 2) // epoch 6
				produce(b, "t", 0, 5)
				b.On(keyFetch).Node(1).Fail(code)
				b.On(keyMetadata).After(1).Times(3).Edit(leaderIs(1, 4))
				began := time.Now()
				require.Equal(t, span(5, 9), offsetsOf(pollN(t, c, 5)))
				require.Less(t, time.Since(began), 3*time.Second)
				require.Less(t, b.Count(keyFetch)+b.Count(keyMetadata), 60)
				b.SetLeader("t", 0, 2)
				produce(b, "t", 0, 1)
				require.Len(t, pollN(t, c, 1), 1)
			}, testbroker.WithNodes(2))
		})
	}
}

func leaderIs(node, epoch int32) func(testbroker.Request, kmsg.Response) {
	return func(_ testbroker.Request, resp kmsg.Response) {
		for i := range resp.(*kmsg.MetadataResponse).Topics {
			for k := range resp.(*kmsg.MetadataResponse).Topics[i].Partitions {
				p := &resp.(*kmsg.MetadataResponse).Topics[i].Partitions[k]
				p.Leader, p.LeaderEpoch = node, epoch
			}
		}
	}
}

// B03: a cluster built anew, without topic ids.
func TestLeaderEpochThatStaysLowIsAcceptedInTheEnd(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.SetLeaderEpoch("t", 0, 5)
		produce(b, "t", 0, 5)
		c := reader(t, fast(b), tp0)
		pollN(t, c, 5)
		b.SetLeaderEpoch("t", 0, 0)
		produce(b, "t", 0, 5)
		require.Equal(t, span(5, 9), offsetsOf(pollN(t, c, 5)))
		require.Less(t, b.Count(keyFetch)+b.Count(keyMetadata), 300)
	}, testbroker.WithVersions(versionsUpTo(12, 9)))
}

// versionsUpTo are the versions of a broker with these highest ones of Fetch and
// Metadata.
func versionsUpTo(fetch, metadata int16) map[int16]testbroker.VersionRange {
	v := testbroker.DefaultVersions()
	v[keyFetch] = testbroker.VersionRange{Max: fetch}
	v[keyMetadata] = testbroker.VersionRange{Max: metadata}
	return v
}

func TestFollowerInTheRackIsFetchedFrom(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		cfg := fast(b)
		cfg.ClientRack, cfg.MetadataMaxAge = "near", 5*time.Second
		c := reader(t, cfg, tp0)
		require.Equal(t, span(0, 4), offsetsOf(pollN(t, c, 5)))
		b.ForgetRequests()
		produce(b, "t", 0, 5)
		require.Equal(t, span(5, 9), offsetsOf(pollN(t, c, 5)))
		require.True(t, onlyNode(b, 2))
		time.Sleep(20 * time.Second)
		leader := slices.DeleteFunc(b.Requests(keyFetch), func(r testbroker.Request) bool { return r.Node != 1 })
		require.GreaterOrEqual(t, len(leader), 2, "the leader is asked again when the lease is over")
		require.LessOrEqual(t, len(leader), 6)

		b.StopNode(2)
		began := time.Now()
		produce(b, "t", 0, 5)
		require.Equal(t, span(10, 14), offsetsOf(pollN(t, c, 5)), "the leader still names it")
		require.Less(t, time.Since(began), 2*time.Second)
		before := b.Count(keyFetch)
		time.Sleep(10 * time.Second)
		require.Less(t, b.Count(keyFetch)-before, 200, "no spin between the two")
		b.StartNode(2)
		time.Sleep(15 * time.Second)
		b.ForgetRequests()
		produce(b, "t", 0, 5)
		require.Equal(t, span(15, 19), offsetsOf(pollN(t, c, 5)))
		require.True(t, onlyNode(b, 2), "and comes back to it")
	}, testbroker.WithNodes(2), testbroker.WithRack(1, "far"), testbroker.WithRack(2, "near"))
}

func onlyNode(b *testbroker.Cluster, node int32) bool {
	return !slices.ContainsFunc(b.Requests(keyFetch), func(r testbroker.Request) bool { return r.Node != node })
}

func TestFollowerThatRefusesIsLeft(t *testing.T) {
	for _, code := range []int16{1, 6, 3, 9, 78} {
		t.Run(fmt.Sprintf("code %d", code), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 5)
				b.On(keyFetch).Node(2).Fail(code)
				var events fetchEvents
				cfg := fast(b)
				cfg.ClientRack, cfg.OnEvent = "near", events.add
				c := reader(t, cfg, tp0)
				require.Equal(t, span(0, 4), offsetsOf(pollN(t, c, 5)))
				before := b.Count(keyFetch)
				time.Sleep(10 * time.Second)
				require.Less(t, b.Count(keyFetch)-before, 200, "no spin between the two")
				produce(b, "t", 0, 5)
				require.Equal(t, span(5, 9), offsetsOf(pollN(t, c, 5)))
				require.Len(t, ofKind[EventPositionReset](&events), 1, "but for the start")
			}, testbroker.WithNodes(2), testbroker.WithRack(1, "far"), testbroker.WithRack(2, "near"))
		})
	}
}

// A leader that cannot be reached is noticed with the first dial that fails, so that who
// leads now is asked as soon as that.
func TestLeaderThatCannotBeReachedIsNoticedWithTheFirstDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const setup = 4 * time.Second
		b := testbroker.New(t, testbroker.WithNodes(2))
		b.CreateTopic("t", 1)
		produce(b, "t", 0, 10)
		b.SetLeader("t", 0, 1)
		cfg := fast(b)
		cfg.BootstrapServers = b.Addrs()[:1]
		cfg.MetadataMaxAge, cfg.SocketConnectionSetupTimeout = 5*time.Minute, setup
		c := openConsumer(t, cfg)
		require.NoError(t, c.Assign(tp0))
		pollN(t, c, 10)

		b.HangDials(2, true)
		b.SetLeader("t", 0, 2)
		_, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		b.SetLeader("t", 0, 1)
		produce(b, "t", 0, 1)
		began := time.Now()
		pollN(t, c, 1)
		require.Less(t, time.Since(began), setup)
	})
}

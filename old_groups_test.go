package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/logbuffer"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// oldBubble is bubble with brokers of an old release.
func oldBubble(t *testing.T, release string, partitions int32, test func(t *testing.T, b *testbroker.Cluster), opts ...testbroker.Option) {
	t.Helper()
	bubble(t, partitions, test, append(opts, testbroker.WithRelease(release))...)
}

// A logBuffer keeps what is logged.
type logBuffer struct{ logbuffer.Buffer }

// warnings counts the warnings that have text in them.
func (l *logBuffer) warnings(text string) (n int) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func requireUnsupported(t *testing.T, err error, api, need string) {
	t.Helper()
	var old *UnsupportedVersionError
	require.ErrorAs(t, err, &old)
	require.Equal(t, api, old.API)
	require.Contains(t, old.Need, need)
	require.Equal(t, "none", old.Has)
}

func TestBrokersOf080KeepNoOffsets(t *testing.T) {
	oldBubble(t, "0.8.0", 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		produce(b, "t", 1, 5)
		var log logBuffer
		c := joiner(t, b, func(cfg *Config) {
			autoCommitting(cfg)
			cfg.Logger = log.logger()
		})
		pollN(t, c, 10)
		require.Len(t, c.Assignment(), 2)
		requireUnsupported(t, c.Commit(t.Context()), "OffsetCommit", "Kafka 0.8.1")
		_, err := c.Committed(t.Context(), inTopic(0))
		requireUnsupported(t, err, "OffsetFetch", "Kafka 0.8.1")
		for range 5 {
			records, err := c.Poll(t.Context(), time.Second)
			require.NoError(t, err)
			require.Zero(t, records.Len())
		}
		require.Equal(t, 1, log.warnings("automatic commits are off"))
		require.Zero(t, log.warnings("automatic commit failed"))
		require.NoError(t, c.Close(t.Context()))
		require.Zero(t, b.Count(protocol.KeyOffsetCommit), "nothing was sent")
	})
}

func TestBrokersOf080WithoutALookUpBefore(t *testing.T) {
	oldBubble(t, "0.8.0", 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		var log logBuffer
		cfg := fast(b)
		cfg.GroupID, cfg.Logger = "g", log.logger()
		autoCommitting(&cfg)
		var told []error
		cfg.OnCommit = func(_ map[TopicPartition]OffsetAndMetadata, err error) { told = append(told, err) }
		c := openConsumer(t, cfg)
		require.NoError(t, c.Assign(inTopic(0)))
		require.NoError(t, c.Seek(inTopic(0), 0))
		pollN(t, c, 5)
		for range 3 {
			_, err := c.Poll(t.Context(), 300*time.Millisecond)
			require.NoError(t, err)
		}
		require.NoError(t, c.Close(t.Context()))
		require.Equal(t, 1, log.warnings("automatic commits are off"))
		require.Empty(t, told)
	})
}

// A consumer that reads alone for want of groups is no member that has yet to join.
func TestHealthWithoutGroups(t *testing.T) {
	for _, release := range []string{"0.8.0", "0.8.1", "0.8.2"} {
		t.Run(release, func(t *testing.T) {
			oldBubble(t, release, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 5)
				c := joiner(t, b, nil)
				pollN(t, c, 5)
				h, err := c.Health()
				require.NoError(t, err)
				require.Equal(t, HealthOK, h.State, h.Reason)
			})
		})
	}
}

func TestBrokersOf081KeepOffsetsInZooKeeper(t *testing.T) {
	oldBubble(t, "0.8.1", 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		produce(b, "t", 1, 5)
		c := joiner(t, b, nil)
		none, err := c.Committed(t.Context(), inTopic(0), inTopic(1))
		require.NoError(t, err, "error 3 says that there is none")
		require.Empty(t, none)
		pollN(t, c, 10)
		require.NoError(t, c.Commit(t.Context()))
		require.EqualValues(t, 5, b.CommittedInZooKeeper("g", "t", 0))
		require.EqualValues(t, 5, b.CommittedInZooKeeper("g", "t", 1))
		require.NoError(t, c.CommitOffsets(t.Context(), map[TopicPartition]OffsetAndMetadata{inTopic(1): {Offset: 2, Metadata: "note"}}))
		got, err := c.Committed(t.Context(), inTopic(1))
		require.NoError(t, err)
		require.Equal(t, map[TopicPartition]OffsetAndMetadata{inTopic(1): {Offset: 2, Metadata: "note"}}, got)
		require.NoError(t, c.Close(t.Context()))

		next := joiner(t, b, nil)
		require.Equal(t, span(2, 4), offsetsOf(pollN(t, next, 3)), "it goes on where the first one stopped")
	}, testbroker.WithNodes(3))
}

func TestOffsetsInZooKeeperByAnyBrokerThatWorks(t *testing.T) {
	oldBubble(t, "0.8.1", 1, func(t *testing.T, b *testbroker.Cluster) {
		b.SetLeader("t", 0, 3)
		produce(b, "t", 0, 5)
		c := joiner(t, b, nil)
		pollN(t, c, 5)
		require.NoError(t, c.Commit(t.Context()))
		asked := b.Requests(protocol.KeyOffsetCommit)[0].Node
		b.StopNode(asked)
		require.NoError(t, c.CommitOffsets(t.Context(), offsets(inTopic(0), 3)))
		require.EqualValues(t, 3, b.CommittedInZooKeeper("g", "t", 0))
	}, testbroker.WithNodes(3))
}

func TestAPIVersionChoosesWhereOffsetsAre(t *testing.T) {
	oldBubble(t, "0.8.2", 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		for _, release := range []string{"0.8.1", "0.8.2"} {
			c := joiner(t, b, func(cfg *Config) { cfg.APIVersion = release })
			pollN(t, c, 5)
			require.NoError(t, c.CommitOffsets(t.Context(), offsets(inTopic(0), map[string]int64{"0.8.1": 1, "0.8.2": 2}[release])))
			require.NoError(t, c.Close(t.Context()))
			require.Equal(t, release == "0.8.1", b.Count(protocol.KeyFindCoordinator) == 0)
		}
		require.EqualValues(t, 1, b.CommittedInZooKeeper("g", "t", 0))
		require.EqualValues(t, 2, b.CommittedOffset("g", "t", 0))
	})
}

func TestBrokersOf082KeepOffsetsAtTheCoordinator(t *testing.T) {
	oldBubble(t, "0.8.2", 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		b.MoveCoordinator("g", 2)
		c := joiner(t, b, autoCommitting)
		pollN(t, c, 5)
		_, err := c.Poll(t.Context(), 300*time.Millisecond)
		require.NoError(t, err)
		_, err = c.Poll(t.Context(), 300*time.Millisecond)
		require.NoError(t, err)
		require.EqualValues(t, 5, b.CommittedOffset("g", "t", 0))
		sent := b.Requests(protocol.KeyOffsetCommit)[0]
		require.EqualValues(t, 2, sent.Node)
		require.EqualValues(t, 1, sent.Version)
		req := sent.Message.(*kmsg.OffsetCommitRequest)
		require.Equal(t, int32(-1), req.Generation)
		require.Empty(t, req.MemberID)
		require.Equal(t, int64(-1), req.Topics[0].Partitions[0].Timestamp)

		err = c.CommitOffsets(t.Context(), map[TopicPartition]OffsetAndMetadata{inTopic(0): {Offset: 4}, inTopic(7): {Offset: 1}})
		require.ErrorIs(t, err, ErrNotAssigned)
		require.Contains(t, err.Error(), "t-7")
		require.EqualValues(t, 4, b.CommittedOffset("g", "t", 0), "what is owned is committed")
	}, testbroker.WithNodes(2))
}

func TestBelow09ASubscriptionIsNotShared(t *testing.T) {
	oldBubble(t, "0.8.2", 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		var log logBuffer
		var steps []string
		c := joiner(t, b, func(cfg *Config) {
			cfg.Topics, cfg.Logger = nil, log.logger()
			cfg.RebalanceListener = listenerThatNotes(&steps)
		})
		other := joiner(t, b, nil)
		require.NoError(t, c.SubscribePattern(regexp.MustCompile("t.*")))
		pollN(t, c, 3)
		pollN(t, other, 3)
		require.Len(t, c.Assignment(), 2)
		require.Len(t, other.Assignment(), 2, "each has all")
		require.Equal(t, 1, log.warnings("no groups"))
		requireUnsupported(t, c.EnforceRebalance("why not"), "JoinGroup", "Kafka 0.9")
		_, err := c.GroupMetadata()
		requireUnsupported(t, err, "JoinGroup", "Kafka 0.9")

		require.NoError(t, c.Commit(t.Context()))
		b.AddPartitions("t", 3)
		b.CreateTopic("t2", 1)
		produce(b, "t", 2, 2)
		produce(b, "t2", 0, 2)
		require.Len(t, pollN(t, c, 4), 4, "of the partition that was added and the topic that matches")
		require.Equal(t, []string{"assigned t-0 t-1", "assigned t-2 t2-0"}, steps)

		require.NoError(t, c.Commit(t.Context()))
		require.NoError(t, c.Unsubscribe(t.Context()))
		require.NoError(t, c.Subscribe([]string{"t"}))
		produce(b, "t", 0, 1)
		require.EqualValues(t, 3, pollN(t, c, 1)[0].Offset, "what was committed is not read again")
		require.Zero(t, b.Count(protocol.KeyJoinGroup))
	})
}

// listenerThatNotes writes down what a listener is told.
func listenerThatNotes(steps *[]string) RebalanceListener {
	return RebalanceListener{
		OnAssigned: noting(steps, "assigned"), OnRevoked: noting(steps, "revoked"), OnLost: noting(steps, "lost"),
	}
}

func noting(steps *[]string, what string) func(context.Context, *Consumer, []TopicPartition) error {
	return func(_ context.Context, _ *Consumer, tps []TopicPartition) error {
		text := what
		for _, tp := range tps {
			text += " " + tp.String()
		}
		*steps = append(*steps, text)
		return nil
	}
}

// In a cluster with several releases the group's coordinator decides, whoever was asked
// first.
func TestTheCoordinatorDecidesWhetherThereAreGroups(t *testing.T) {
	for coordinator, members := range map[int32]int{1: 0, 2: 2} {
		t.Run(fmt.Sprint("node ", coordinator), func(t *testing.T) {
			oldBubble(t, "0.8.2", 2, func(t *testing.T, b *testbroker.Cluster) {
				b.SetRelease(2, "0.9")
				b.MoveCoordinator("g", coordinator)
				for i, first := range b.Addrs() {
					c := joiner(t, b, func(cfg *Config) { cfg.BootstrapServers = []string{first} })
					eventually(t, 10*time.Second, "all partitions", func() bool {
						_, err := c.Poll(t.Context(), 100*time.Millisecond)
						require.NoError(t, err)
						return len(c.Assignment()) == 2 || len(b.Group("g").Members) == i+1
					})
				}
				require.Len(t, b.Group("g").Members, members)
			}, testbroker.WithNodes(2))
		})
	}
}

func TestStaticMembersNeed23(t *testing.T) {
	for _, release := range []string{"0.8.1", "0.8.2", "0.9", "0.10.0"} {
		t.Run(release, func(t *testing.T) {
			oldBubble(t, release, 1, func(t *testing.T, b *testbroker.Cluster) {
				c := joiner(t, b, func(cfg *Config) { cfg.GroupInstanceID = "i1" })
				_, err := c.Poll(t.Context(), time.Minute)
				var old *UnsupportedVersionError
				require.ErrorAs(t, err, &old)
				require.Equal(t, "JoinGroup", old.API)
				require.Contains(t, old.Need, "GroupInstanceID needs Kafka 2.3")
				require.Zero(t, b.Count(protocol.KeyJoinGroup), "nothing was sent")
			})
		})
	}
}

func TestGroupsOf09(t *testing.T) {
	oldBubble(t, "0.9", 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		produce(b, "t", 1, 3)
		var log logBuffer
		c := joiner(t, b, func(cfg *Config) { cfg.Logger = log.logger() })
		pollN(t, c, 6)
		require.NoError(t, c.Commit(t.Context()))
		commit := b.Requests(protocol.KeyOffsetCommit)[0]
		require.EqualValues(t, 2, commit.Version)
		require.Equal(t, int32(1), commit.Message.(*kmsg.OffsetCommitRequest).Generation)
		require.EqualValues(t, 3, b.CommittedOffset("g", "t", 1))
		meta, err := c.GroupMetadata()
		require.NoError(t, err)
		require.NotEmpty(t, meta.MemberID)

		other := joiner(t, b, nil)
		alternately(t, c, other, func() bool { return len(c.Assignment()) == 1 && len(other.Assignment()) == 1 })
		require.Equal(t, 1, log.warnings("session timeout only"), "told once")
		for _, join := range b.Requests(protocol.KeyJoinGroup) {
			require.Zero(t, join.Version)
		}
		require.NoError(t, other.Close(t.Context()))
		require.Len(t, b.Group("g").Members, 1, "it left")
	})
}

// alternately polls two consumers in turns until cond holds.
func alternately(t *testing.T, a, b *Consumer, cond func() bool) {
	t.Helper()
	for range 200 {
		if cond() {
			return
		}
		for _, c := range []*Consumer{a, b} {
			_, err := c.Poll(t.Context(), 50*time.Millisecond)
			require.NoError(t, err)
		}
	}
	require.Fail(t, "it did not come to that")
}

// On JoinGroup v0 a member that works on a batch for longer than the session timeout
// while others wait for it is left behind.
func TestARebalanceOf09WaitsForTheSessionTimeout(t *testing.T) {
	oldBubble(t, "0.9", 2, func(t *testing.T, b *testbroker.Cluster) {
		var steps []string
		c := joiner(t, b, func(cfg *Config) { cfg.RebalanceListener = listenerThatNotes(&steps) })
		_, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		require.Len(t, c.Assignment(), 2)
		other := joiner(t, b, nil)
		_, err = other.Poll(t.Context(), 10*time.Second)
		require.NoError(t, err)
		require.Len(t, other.Assignment(), 2, "after the session timeout of 6 s")
		synctest.Wait()
		_, err = c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		require.Equal(t, []string{"assigned t-0 t-1", "lost t-0 t-1"}, steps)
	})
}

func TestSessionTimeoutOutsideOfWhatTheBrokerAllows(t *testing.T) {
	oldBubble(t, "0.9", 1, func(t *testing.T, b *testbroker.Cluster) {
		c := joiner(t, b, func(cfg *Config) { cfg.SessionTimeout = 45 * time.Second })
		_, err := c.Poll(t.Context(), time.Minute)
		require.ErrorIs(t, err, protocol.InvalidSessionTimeout)
		require.Contains(t, err.Error(), "SessionTimeout is 45s")
		require.Contains(t, err.Error(), "group.max.session.timeout.ms (30s by default before Kafka 0.10.1")
	}, testbroker.WithSessionTimeouts(6*time.Second, 30*time.Second))
}

// Where offsets are kept is decided by what brokers can do, not by who answers first.
func TestABrokerThatIsAwayAtFirstDoesNotMakeZooKeeperKeepTheOffsets(t *testing.T) {
	oldBubble(t, "0.8.2", 2, func(t *testing.T, b *testbroker.Cluster) {
		b.SetRelease(1, "0.8.1")
		b.SetLeader("t", 0, 1)
		b.SetLeader("t", 1, 2)
		b.MoveCoordinator("g", 2)
		produce(b, "t", 0, 10)
		b.SetCommitted("g", "t", 0, testbroker.CommittedOffset{Offset: 7, LeaderEpoch: -1})
		b.StopNode(2)
		c := joiner(t, b, nil)
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			records, err := c.Poll(t.Context(), time.Second)
			require.True(t, err == nil || strings.Contains(err.Error(), "FindCoordinator"), err)
			require.Zero(t, records.Len())
		}
		b.StartNode(2)
		var got []int64
		for began := time.Now(); len(got) < 3; {
			require.Less(t, time.Since(began), 10*time.Second)
			records, err := c.Poll(t.Context(), time.Second)
			if err == nil { // the last failed look-up may be told once more
				got = append(got, offsetsOf(slices.Collect(records.All()))...)
			}
		}
		require.Equal(t, span(7, 9), got)
		require.NoError(t, c.Commit(t.Context()))
		require.EqualValues(t, 10, b.CommittedOffset("g", "t", 0))
		require.EqualValues(t, -1, b.CommittedInZooKeeper("g", "t", 0))
	}, testbroker.WithNodes(2))
}

// When a broker comes that knows coordinators, offsets go there, unless the group has some
// in ZooKeeper: those stay found.
func TestZooKeeperIsKeptToFromTheFirstOffsetOn(t *testing.T) {
	for name, kept := range map[string]bool{"nothing there": false, "an offset there": true} {
		t.Run(name, func(t *testing.T) {
			oldBubble(t, "0.8.1", 2, func(t *testing.T, b *testbroker.Cluster) {
				b.SetLeader("t", 0, 1)
				b.SetLeader("t", 1, 2)
				b.MoveCoordinator("g", 2)
				produce(b, "t", 0, 10)
				produce(b, "t", 1, 10)
				b.StopNode(2)
				gone := b.On(keyMetadata).Edit(func(_ testbroker.Request, resp kmsg.Response) {
					r := resp.(*kmsg.MetadataResponse)
					r.Brokers = slices.DeleteFunc(r.Brokers, func(n kmsg.MetadataResponseBroker) bool { return n.NodeID == 2 })
				})
				c := joiner(t, b, nil)
				pollN(t, c, 10)
				if kept {
					require.NoError(t, c.CommitOffsets(t.Context(), offsets(inTopic(0), 6)))
				}
				b.SetRelease(2, "0.8.2")
				b.StartNode(2)
				gone.Remove()
				pollN(t, c, 10)
				got, err := c.Committed(t.Context(), inTopic(0))
				require.NoError(t, err)
				if kept {
					require.EqualValues(t, 6, got[inTopic(0)].Offset)
				} else {
					require.Empty(t, got)
				}
				require.NoError(t, c.Commit(t.Context()))
				in := map[bool]int64{true: 10, false: -1}
				for p := range int32(2) {
					require.Equal(t, in[kept], b.CommittedInZooKeeper("g", "t", p))
					require.Equal(t, in[!kept], b.CommittedOffset("g", "t", p))
				}
			}, testbroker.WithNodes(2))
		})
	}
}

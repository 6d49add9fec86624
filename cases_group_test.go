package kafka

import (
	"context"
	"net"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupReader polls a consumer in the background and notes what it gets.
type groupReader struct {
	*Consumer
	stopPolling func()

	mu   sync.Mutex
	got  map[TopicPartition][]int64
	last time.Time // when records came last
	errs []error
}

func startReader(t *testing.T, c *Consumer, pause time.Duration) *groupReader {
	r := &groupReader{Consumer: c, got: map[TopicPartition][]int64{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	r.stopPolling = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(r.stopPolling)
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			records, err := c.Poll(ctx, 100*time.Millisecond)
			r.note(ctx, records, err)
			time.Sleep(pause)
		}
	}()
	return r
}

func (r *groupReader) note(ctx context.Context, records *Records, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			r.errs = append(r.errs, err)
		}
		return
	}
	for rec := range records.All() {
		r.got[rec.TopicPartition()] = append(r.got[rec.TopicPartition()], rec.Offset)
		r.last = time.Now()
	}
}

func (r *groupReader) of(tp TopicPartition) []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[tp])
}

func (r *groupReader) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.got)
}

func (r *groupReader) errors() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errs)
}

func (r *groupReader) awaitAssigned(t *testing.T, tps ...TopicPartition) {
	t.Helper()
	eventually(t, 20*time.Second, "assigned", func() bool { return slices.Equal(r.Assignment(), tps) })
}

var bothStrategies = map[string][]assignors.Assignor{
	"eager": {assignors.Range{}}, "cooperative": {assignors.CooperativeSticky{}},
}

// forBoth runs test with eager and with cooperative rebalances, in a bubble with a
// cluster that has topic t with 2 partitions of 100 records each.
func forBoth(t *testing.T, test func(t *testing.T, b *testbroker.Cluster, change func(*Config)), opts ...testbroker.Option) {
	for name, list := range bothStrategies {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := testbroker.New(t, opts...)
				b.CreateTopic("t", 2)
				produce(b, "t", 0, 100)
				produce(b, "t", 1, 100)
				test(t, b, func(c *Config) { c.PartitionAssignmentStrategy = list })
			})
		})
	}
}

// B02.
func TestAPauseFlagDoesNotOutliveTheLossOfThePartition(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		a := startReader(t, joiner(t, b, change), 10*time.Millisecond)
		eventually(t, 5*time.Second, "read", func() bool { return len(a.of(inTopic(0)))+len(a.of(inTopic(1))) == 200 })
		require.NoError(t, a.Pause(inTopic(0), inTopic(1)))
		other := joiner(t, b, change)
		second := startReader(t, other, 10*time.Millisecond)
		eventually(t, 20*time.Second, "moved", func() bool { return len(a.Assignment()) == 1 && len(second.Assignment()) == 1 })
		kept, moved := a.Assignment()[0], second.Assignment()[0]
		require.Equal(t, []TopicPartition{kept}, a.Paused(), "what stays keeps its flag")
		var pe *PartitionError
		require.ErrorAs(t, a.Pause(moved), &pe)
		require.ErrorIs(t, a.Pause(moved), ErrNotAssigned)
		require.ErrorIs(t, a.Resume(moved), ErrNotAssigned)

		second.stopPolling()
		require.NoError(t, other.Close(t.Context()))
		a.awaitAssigned(t, inTopic(0), inTopic(1))
		require.Equal(t, []TopicPartition{kept}, a.Paused())
		a.forget()
		produce(b, "t", 0, 1)
		produce(b, "t", 1, 1)
		eventually(t, 5*time.Second, "fetched", func() bool { return slices.Contains(a.of(moved), 100) })
		time.Sleep(time.Second)
		require.Empty(t, a.of(kept))
		require.Empty(t, a.errors())
	})
}

// Under eager rebalances each partition goes and, in the same rebalance, comes back.
func TestAPauseFlagSurvivesARebalance(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		a := startReader(t, joiner(t, b, change), 10*time.Millisecond)
		a.awaitAssigned(t, inTopic(0), inTopic(1))
		require.NoError(t, a.Pause(inTopic(1)))
		require.NoError(t, a.EnforceRebalance("again"))
		eventually(t, 5*time.Second, "rebalanced", func() bool { return b.Group("g").Generation == 2 && b.Group("g").State == "Stable" })
		a.awaitAssigned(t, inTopic(0), inTopic(1))
		require.Equal(t, []TopicPartition{inTopic(1)}, a.Paused())
	})
}

// B10.
func TestAFailedLookUpOfCommittedOffsetsIsNotTakenForNone(t *testing.T) {
	for name, disturb := range map[string]func(b *testbroker.Cluster){
		"the coordinator loads": func(b *testbroker.Cluster) {
			b.On(protocol.KeyOffsetFetch).Times(5).Fail(int16(protocol.CoordinatorLoadInProgress))
		},
		"not the coordinator": func(b *testbroker.Cluster) {
			b.On(protocol.KeyOffsetFetch).Times(2).Fail(int16(protocol.NotCoordinator))
		},
		"no answer in time": func(b *testbroker.Cluster) { b.On(protocol.KeyOffsetFetch).Times(2).Delay(4 * time.Second) },
		"unstable": func(b *testbroker.Cluster) {
			b.On(protocol.KeyOffsetFetch).Times(3).Edit(func(_ testbroker.Request, resp kmsg.Response) {
				for _, g := range resp.(*kmsg.OffsetFetchResponse).Groups {
					for _, topic := range g.Topics {
						for i := range topic.Partitions {
							topic.Partitions[i].ErrorCode, topic.Partitions[i].Offset = int16(protocol.UnstableOffsetCommit), -1
						}
					}
				}
			})
		},
		"cut": func(b *testbroker.Cluster) { b.On(protocol.KeyOffsetFetch).Once().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
				for p := range int32(2) {
					b.SetCommitted("g", "t", p, testbroker.CommittedOffset{Offset: 50})
				}
				disturb(b)
				a := joiner(t, b, change)
				first := map[TopicPartition]int64{}
				pollUntil(t, a, first, 2)
				disturb(b)
				other := startReader(t, joiner(t, b, change), 10*time.Millisecond)
				began := time.Now()
				for len(other.of(inTopic(0)))+len(other.of(inTopic(1))) == 0 {
					_, err := a.Poll(t.Context(), 10*time.Millisecond)
					require.NoError(t, err)
					require.Less(t, time.Since(began), 25*time.Second)
				}
				for tp, offset := range first {
					require.Equal(t, int64(50), offset, tp)
				}
				for _, tp := range []TopicPartition{inTopic(0), inTopic(1)} {
					if offsets := other.of(tp); len(offsets) > 0 {
						require.Equal(t, int64(50), offsets[0], tp)
					}
				}
				require.Zero(t, b.Count(protocol.KeyListOffsets))
			})
		})
	}
}

// pollUntil polls for 10 ms at a time until the first offsets of n partitions came.
func pollUntil(t *testing.T, c *Consumer, first map[TopicPartition]int64, n int) {
	began := time.Now()
	for len(first) < n {
		require.Less(t, time.Since(began), 25*time.Second)
		records, err := c.Poll(t.Context(), 10*time.Millisecond)
		require.NoError(t, err)
		for r := range records.All() {
			if _, seen := first[r.TopicPartition()]; !seen {
				first[r.TopicPartition()] = r.Offset
			}
		}
	}
}

// B11, with cooperative rebalances.
func TestNothingOfAPartitionIsHandedOutOnceItsRevocationBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("t", 2)
		produce(b, "t", 0, 5000)
		produce(b, "t", 1, 5000)
		change := func(c *Config) {
			c.PartitionAssignmentStrategy = bothStrategies["cooperative"]
			c.DisableAutoCommit, c.AutoCommitInterval = false, time.Second
			c.MaxPollRecords = 10
		}
		consumer := joiner(t, b, change)
		a := startReader(t, consumer, 5*time.Millisecond)
		eventually(t, 5*time.Second, "read", func() bool { return len(a.of(inTopic(0))) > 50 && len(a.of(inTopic(1))) > 50 })
		b.On(protocol.KeyOffsetCommit).Delay(2 * time.Second)
		second := startReader(t, joiner(t, b, change), 5*time.Millisecond)
		eventually(t, 20*time.Second, "moved", func() bool { return len(second.Assignment()) == 1 })
		moved := second.Assignment()[0]
		kept := inTopic(1 - moved.Partition)
		eventually(t, 5*time.Second, "read there", func() bool { return len(second.of(moved)) > 0 })
		handed := a.of(moved)
		require.Equal(t, span(0, int64(len(handed)-1)), handed)
		require.Equal(t, int64(len(handed)), second.of(moved)[0], "where the other one ended")
		flowed := a.of(kept)
		require.Equal(t, span(0, int64(len(flowed)-1)), flowed, "what stays flows on without a break")
		require.Greater(t, len(flowed), len(handed)+1000, "all the time")
		time.Sleep(time.Second)
		require.Len(t, a.of(moved), len(handed))
		require.Empty(t, a.errors())
	})
}

// B18.
func TestTheCoordinatorGoesAndAnotherOneComes(t *testing.T) {
	for name, stop := range map[string]func(*testbroker.Cluster){
		"killed": func(b *testbroker.Cluster) { b.StopNode(1) },
		"black hole": func(b *testbroker.Cluster) {
			b.FreezeConns(1)
			b.HangDials(1, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
				tellOnFailure(t, b)
				b.SetLeader("t", 0, 2)
				b.SetLeader("t", 1, 3)
				b.MoveCoordinator("g", 1)
				var mu sync.Mutex
				dials := 0
				c := joiner(t, b, func(c *Config) {
					change(c)
					c.SessionTimeout = 30 * time.Second
					c.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
						mu.Lock()
						if addr == b.Addr(1) {
							dials++
						}
						mu.Unlock()
						return b.Dial(ctx, network, addr)
					}
				})
				a := startReader(t, c, 10*time.Millisecond)
				eventually(t, 5*time.Second, "read", func() bool { return len(a.of(inTopic(0))) == 100 && len(a.of(inTopic(1))) == 100 })
				before, err := c.GroupMetadata()
				require.NoError(t, err)
				mu.Lock()
				dials = 0
				mu.Unlock()
				b.ForgetRequests()
				stop(b)
				b.MoveCoordinator("g", 0)
				produce(b, "t", 0, 10)
				time.Sleep(5 * time.Second)
				require.Len(t, a.of(inTopic(0)), 110, "healthy leaders are read meanwhile")
				b.On(protocol.KeyHeartbeat).Node(2).Times(2).Fail(int16(protocol.NotCoordinator))
				b.MoveCoordinator("g", 2)
				eventually(t, 3*time.Second, "heartbeats", func() bool { return lastHeartbeatWorked(b, 2) })
				produce(b, "t", 1, 10)
				eventually(t, 3*time.Second, "records", func() bool { return len(a.of(inTopic(1))) == 110 })
				require.NoError(t, c.Commit(t.Context()))
				require.Equal(t, int64(110), b.CommittedOffset("g", "t", 1))
				after, err := c.GroupMetadata()
				require.NoError(t, err)
				require.Equal(t, before, after)
				require.Zero(t, b.Count(protocol.KeyJoinGroup))
				require.LessOrEqual(t, len(a.errors()), 6, "told after RequestTimeout, then once per RetryBackoffMax")
				mu.Lock()
				require.Less(t, dials, 20, "they follow the reconnect backoff")
				mu.Unlock()
				require.Less(t, b.Count(protocol.KeyFindCoordinator), 20)
			}, testbroker.WithNodes(3))
		})
	}
}

// tellOnFailure logs what the cluster was asked for, if the test fails.
func tellOnFailure(t *testing.T, b *testbroker.Cluster) {
	began := time.Now()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, r := range b.Requests(testbroker.AnyKey) {
			t.Logf("%v: node %d, connection %d: %s v%d", r.Time.Sub(began), r.Node, r.Conn, protocol.APIName(r.Key), r.Version)
		}
	})
}

// lastHeartbeatWorked tells whether more heartbeats came to a node than the two that
// were refused.
func lastHeartbeatWorked(b *testbroker.Cluster, node int32) bool {
	n := 0
	for _, r := range b.Requests(protocol.KeyHeartbeat) {
		if r.Node == node {
			n++
		}
	}
	return n > 2
}

// B21, with the classic protocol.
func TestTopicsAndPartitionsThatComeAndGo(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		within := 3 * time.Second // MetadataMaxAge and 2 s
		c := joiner(t, b, func(c *Config) { change(c); c.Topics = nil })
		require.NoError(t, c.SubscribePattern(regexp.MustCompile(`p-.*`)))
		fixed := startReader(t, joiner(t, b, func(c *Config) { change(c); c.GroupID, c.Topics = "h", []string{"later"} }), 10*time.Millisecond)
		a := startReader(t, c, 10*time.Millisecond)
		time.Sleep(5 * time.Second)
		require.Empty(t, a.Assignment())
		p := func(name string, partition int32) TopicPartition {
			return TopicPartition{Topic: name, Partition: partition}
		}
		create := func(name string, partitions int32) {
			b.CreateTopic(name, partitions)
			for i := range partitions {
				produce(b, name, i, 3)
			}
		}
		whole := func(r *groupReader, tps ...TopicPartition) {
			t.Helper()
			eventually(t, within, "read from the beginning", func() bool {
				return !slices.ContainsFunc(tps, func(tp TopicPartition) bool { return !slices.Equal(r.of(tp), span(0, 2)) })
			})
			require.Equal(t, tps, r.Assignment())
		}
		create("p-1", 1)
		create("later", 1)
		create("not-p-1", 1)
		whole(a, p("p-1", 0))
		whole(fixed, p("later", 0))
		create("p-2", 1)
		eventually(t, within, "p-2", func() bool { return len(a.of(p("p-2", 0))) == 3 })
		a.forget()
		b.AddPartitions("p-1", 4)
		b.AddPartitions("later", 2)
		for i := range int32(3) {
			produce(b, "p-1", i+1, 3)
		}
		produce(b, "later", 1, 3)
		eventually(t, within, "growth", func() bool {
			return len(a.of(p("p-1", 1))) == 3 && len(a.of(p("p-1", 2))) == 3 && len(a.of(p("p-1", 3))) == 3 && len(fixed.of(p("later", 1))) >= 3
		})
		b.DeleteTopic("p-2")
		eventually(t, within, "gone", func() bool {
			return slices.Equal(a.Assignment(), []TopicPartition{p("p-1", 0), p("p-1", 1), p("p-1", 2), p("p-1", 3)})
		})
		create("q-1", 1)
		require.NoError(t, a.SubscribePattern(regexp.MustCompile(`q-.*`)))
		whole(a, p("q-1", 0))
		require.Equal(t, []string{"q-1"}, a.Subscription())
		require.Empty(t, fixed.errors())
	})
}

// Decision 5: with nothing committed, what comes back after an eager revocation is read
// again from where it was first started here, not by the policy; what stays goes on.
func TestWithoutACommitAPartitionResumesWhereItFirstStarted(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		a := startReader(t, joiner(t, b, func(c *Config) { change(c); c.AutoOffsetReset = ResetLatest }), 10*time.Millisecond)
		a.awaitAssigned(t, inTopic(0), inTopic(1))
		time.Sleep(time.Second)
		produce(b, "t", 0, 5)
		eventually(t, 5*time.Second, "read", func() bool { return len(a.of(inTopic(0))) == 5 })
		generation := b.Group("g").Generation
		require.NoError(t, a.EnforceRebalance("again"))
		eventually(t, 5*time.Second, "rebalanced", func() bool { return b.Group("g").Generation > generation })
		a.awaitAssigned(t, inTopic(0), inTopic(1))
		time.Sleep(time.Second)
		produce(b, "t", 0, 1)
		time.Sleep(time.Second)
		want := append(span(100, 104), span(100, 105)...)
		if a.coord.cooperative {
			want = span(100, 105)
		}
		require.Equal(t, want, a.of(inTopic(0)))
	})
}

// A partition whose position cannot be found yet holds up no other: its leader may have
// yet to learn that it is one, or a transaction may be about to commit its offset.
func TestPartitionsAreReadWhileTheLookUpOfAnotherFails(t *testing.T) {
	for name, disturb := range map[string]func(b *testbroker.Cluster) *testbroker.Rule{
		"ListOffsets": func(b *testbroker.Cluster) *testbroker.Rule {
			return b.On(protocol.KeyListOffsets).Edit(func(_ testbroker.Request, resp kmsg.Response) {
				for _, topic := range resp.(*kmsg.ListOffsetsResponse).Topics {
					for i := range topic.Partitions {
						if p := &topic.Partitions[i]; p.Partition == 1 {
							p.ErrorCode, p.Offset = int16(protocol.NotLeaderOrFollower), -1
						}
					}
				}
			})
		},
		"OffsetFetch": func(b *testbroker.Cluster) *testbroker.Rule {
			return b.On(protocol.KeyOffsetFetch).Edit(func(_ testbroker.Request, resp kmsg.Response) {
				for _, topic := range resp.(*kmsg.OffsetFetchResponse).Groups[0].Topics {
					for i := range topic.Partitions {
						if p := &topic.Partitions[i]; p.Partition == 1 {
							p.ErrorCode, p.Offset = int16(protocol.UnstableOffsetCommit), -1
						}
					}
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
				rule := disturb(b)
				began := time.Now()
				c := joiner(t, b, change)
				of := func(partition int32) {
					records := pollN(t, c, 100)
					require.Equal(t, span(0, 99), offsetsOf(records))
					require.Equal(t, partition, records[0].Partition)
				}
				of(0)
				require.Less(t, time.Since(began), c.cfg.RetryBackoff, "they need not wait for anything")
				rule.Remove()
				of(1)
			})
		})
	}
}

// Connections are opened while something else is waited for, and what does not depend on
// each other is asked side by side.
func TestAFreshGroupGetsItsFirstRecordInFewRoundTrips(t *testing.T) {
	// With brokers that take a while for each answer, one after the other: ApiVersions,
	// Metadata, FindCoordinator, JoinGroup twice (KIP-394), SyncGroup, OffsetFetch,
	// ListOffsets, Fetch.
	t.Run("brokers are slow", func(t *testing.T) {
		forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
			for key := range int16(protocol.KeyOffsetForLeaderEpoch) {
				b.On(key).Delay(10 * time.Millisecond)
			}
			began := time.Now()
			pollN(t, joiner(t, b, change), 1)
			require.Equal(t, 90*time.Millisecond, time.Since(began))
		})
	})
	// With a network that takes a while: a connection, ApiVersions, Metadata with
	// FindCoordinator, a connection and its ApiVersions while JoinGroup is answered,
	// JoinGroup again, SyncGroup, OffsetFetch, ListOffsets, Fetch.
	t.Run("brokers are far", func(t *testing.T) {
		forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
			began := time.Now()
			pollN(t, joiner(t, b, func(c *Config) {
				change(c)
				c.Dialer = far(b.Dial, 10*time.Millisecond)
			}), 1)
			require.Equal(t, 100*time.Millisecond, time.Since(began))
		})
	})
}

// The connection that NewConsumer made is used until there is another: that is no trouble.
func TestMembersStartWithoutAWarning(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		var log logBuffer
		cfg := fast(b)
		cfg.GroupID, cfg.Logger = "g", log.logger()
		c := openConsumer(t, cfg)
		require.NoError(t, c.Subscribe([]string{"t"}))
		pollN(t, c, 5)
		require.Zero(t, log.warnings(""))
	})
}

func TestPositionsThatCannotBeFoundAreToldOf(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		b.On(protocol.KeyOffsetFetch).Fail(int16(protocol.CoordinatorLoadInProgress))
		var events fetchEvents
		var within time.Duration
		c := joiner(t, b, func(cfg *Config) {
			change(cfg)
			cfg.OnEvent, within = events.add, cfg.RequestTimeout
		})
		startReader(t, c, 10*time.Millisecond)
		time.Sleep(within / 2)
		require.Empty(t, ofKind[EventRetrying](&events), "a coordinator that loads is nothing to be told of")
		time.Sleep(4 * within)
		told := ofKind[EventRetrying](&events)
		require.NotEmpty(t, told)
		require.LessOrEqual(t, len(told), 5, "and not more often than that, for all partitions together")
		require.ErrorIs(t, told[0].Err, protocol.CoordinatorLoadInProgress)
		var pe *PartitionError
		require.ErrorAs(t, told[0].Err, &pe)
		require.Equal(t, "t", pe.Topic)
	})
}

package kafka

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinReasons are the reasons that JoinGroup requests gave so far.
func joinReasons(b *testbroker.Cluster) []string {
	var out []string
	for _, r := range b.Requests(protocol.KeyJoinGroup) {
		if reason := r.Message.(*kmsg.JoinGroupRequest).Reason; reason != nil {
			out = append(out, *reason)
		}
	}
	return out
}

func TestACallbackThatFailsIsReportedAndPoisonsNothing(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		broken := errors.New("no database")
		failures := map[string]int{}
		fail := func(name string) func(context.Context, *Consumer, []TopicPartition) error {
			return func(context.Context, *Consumer, []TopicPartition) error {
				if failures[name]++; failures[name] == 1 {
					return broken
				}
				return nil
			}
		}
		c := joiner(t, b, func(c *Config) {
			change(c)
			c.RebalanceListener = RebalanceListener{OnAssigned: fail("OnAssigned"), OnRevoked: fail("OnRevoked"), OnLost: fail("OnLost")}
		})
		poll := func() error {
			for range 60 {
				if _, err := c.Poll(t.Context(), 100*time.Millisecond); err != nil {
					return err
				}
			}
			return nil
		}
		err := poll()
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, "OnAssigned")
		require.Len(t, c.Assignment(), 2, "the step is complete")
		require.NoError(t, poll(), "it comes once")

		other := startReader(t, joiner(t, b, change), 10*time.Millisecond)
		err = poll()
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, "OnRevoked")
		require.NoError(t, poll())
		eventually(t, time.Second, "shared", func() bool { return len(c.Assignment()) == 1 && len(other.Assignment()) == 1 })

		me, err := c.GroupMetadata()
		require.NoError(t, err)
		b.KickMember("g", me.MemberID)
		err = poll()
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, "OnLost")
		require.NoError(t, poll())
		eventually(t, time.Second, "shared again", func() bool { return len(c.Assignment()) == 1 && len(other.Assignment()) == 1 })
	})
}

func TestAnApplicationThatIsTooSlowIsToldHowSlowAndJoinsAgain(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		var lost, assigned int
		c := joiner(t, b, func(c *Config) {
			change(c)
			c.MaxPollInterval, c.SessionTimeout = 10*time.Second, 6*time.Second
			c.RebalanceListener = RebalanceListener{
				OnLost:     func(context.Context, *Consumer, []TopicPartition) error { lost++; return nil },
				OnAssigned: func(context.Context, *Consumer, []TopicPartition) error { assigned++; return nil },
			}
		})
		pollN(t, c, 200)
		require.NoError(t, c.Commit(t.Context()))
		time.Sleep(25 * time.Second)
		var failed *CommitFailedError
		require.ErrorAs(t, c.CommitOffsets(t.Context(), offsets(inTopic(0), 100)), &failed)
		_, err := c.Poll(t.Context(), 100*time.Millisecond)
		var late *PollIntervalError
		require.ErrorAs(t, err, &late)
		require.Equal(t, 10*time.Second, late.Interval)
		require.InDelta(t, 10*time.Second, late.Elapsed, float64(2*time.Second))
		produce(b, "t", 0, 5)
		require.Equal(t, span(100, 104), offsetsOf(pollN(t, c, 5)), "from what was committed")
		require.Equal(t, []int{1, 2}, []int{lost, assigned})
		require.Contains(t, joinReasons(b), "the application polls again")
	})
}

func TestACallbackThatIsTooSlow(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		for _, name := range []string{"OnAssigned", "OnRevoked"} {
			slow := true
			sleep := func(which string) func(context.Context, *Consumer, []TopicPartition) error {
				return func(ctx context.Context, _ *Consumer, _ []TopicPartition) error {
					if which == name && slow {
						slow = false
						<-ctx.Done() // bounded by the rebalance timeout
						time.Sleep(5 * time.Second)
					}
					return nil
				}
			}
			c := joiner(t, b, func(c *Config) {
				change(c)
				c.GroupID, c.MaxPollInterval = name, 10*time.Second
				c.RebalanceListener = RebalanceListener{OnAssigned: sleep("OnAssigned"), OnRevoked: sleep("OnRevoked"), OnLost: sleep("OnLost")}
			})
			if name == "OnRevoked" {
				pollN(t, c, 200)
				require.NoError(t, c.EnforceRebalance("again"))
				if c.coord.cooperative { // which revokes nothing without a second member
					startReader(t, joiner(t, b, func(c *Config) { change(c); c.GroupID = name }), 10*time.Millisecond)
				}
			}
			var late *PollIntervalError
			for range 300 {
				if _, err := c.Poll(t.Context(), 100*time.Millisecond); err != nil {
					require.ErrorAs(t, err, &late)
				}
			}
			require.NotNil(t, late, name)
			require.NotEmpty(t, c.Assignment())
			require.NoError(t, c.Commit(t.Context()))
			require.NoError(t, c.Close(t.Context()), "nor is anything left to report")
		}
	})
}

func TestCallbacksAreToldOfSetsAsTheProtocolSays(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		var calls []string
		var sets [][]TopicPartition
		note := func(name string) func(context.Context, *Consumer, []TopicPartition) error {
			return func(_ context.Context, _ *Consumer, tps []TopicPartition) error {
				calls, sets = append(calls, name), append(sets, tps)
				return nil
			}
		}
		c := joiner(t, b, func(c *Config) {
			change(c)
			c.RebalanceListener = RebalanceListener{OnAssigned: note("assigned"), OnRevoked: note("revoked"), OnLost: note("lost")}
		})
		pollN(t, c, 200)
		require.NoError(t, c.EnforceRebalance("again"))
		for range 20 {
			_, err := c.Poll(t.Context(), 100*time.Millisecond)
			require.NoError(t, err)
		}
		all := []TopicPartition{inTopic(0), inTopic(1)}
		if c.coord.cooperative {
			require.Equal(t, []string{"assigned", "assigned"}, calls)
			require.Equal(t, [][]TopicPartition{all, {}}, sets, "nothing is revoked, and nothing new comes")
		} else {
			require.Equal(t, []string{"assigned", "revoked", "assigned"}, calls)
			require.Equal(t, [][]TopicPartition{all, all, all}, sets)
		}
		require.NoError(t, c.Close(t.Context()))
		require.Equal(t, "revoked", calls[len(calls)-1])
		require.Equal(t, all, sets[len(sets)-1])
	})
}

func TestGroupMetadataBeforeInAndAfterAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("t", 2)
		produce(b, "t", 0, 1)
		var inCallback GroupMetadata
		c := joiner(t, b, func(c *Config) {
			c.GroupInstanceID = "i1"
			c.RebalanceListener.OnAssigned = func(_ context.Context, c *Consumer, _ []TopicPartition) (err error) {
				inCallback, err = c.GroupMetadata()
				return err
			}
		})
		none := GroupMetadata{GroupID: "g", GenerationID: -1, GroupInstanceID: "i1"}
		now, err := c.GroupMetadata()
		require.NoError(t, err)
		require.Equal(t, none, now)
		pollN(t, c, 1)
		now, err = c.GroupMetadata()
		require.NoError(t, err)
		require.Equal(t, now, inCallback)
		require.Equal(t, int32(1), now.GenerationID)
		require.Equal(t, b.Group("g").Members, []string{now.MemberID})
		require.NoError(t, c.Unsubscribe(t.Context()))
		now, err = c.GroupMetadata()
		require.NoError(t, err)
		require.Equal(t, int32(-1), now.GenerationID)
		require.NoError(t, c.Close(t.Context()))
		require.Zero(t, b.Count(protocol.KeyLeaveGroup), "a static member")
	})
}

func TestEnforceRebalanceGivesItsReason(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		c := joiner(t, b, func(c *Config) { change(c); c.Topics = nil })
		require.ErrorIs(t, c.EnforceRebalance("too soon"), ErrNotSubscribed)
		require.NoError(t, c.Subscribe([]string{"t"}))
		pollN(t, c, 200)
		b.ForgetRequests()
		require.NoError(t, c.EnforceRebalance("a host was added"))
		for range 10 {
			_, err := c.Poll(t.Context(), 100*time.Millisecond)
			require.NoError(t, err)
		}
		require.Equal(t, []string{"a host was added"}, joinReasons(b))
		require.Equal(t, int32(2), b.Group("g").Generation)
		require.NoError(t, c.Close(t.Context()))
		require.ErrorIs(t, c.EnforceRebalance("too late"), ErrClosed)
	})
}

// A fresh group: nothing waits for a timer, and what can be asked side by side is. Each
// request takes 10 ms, as does each new connection.
func TestTheFirstRecordOfAFreshGroupComesSoon(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		b.On(testbroker.AnyKey).Delay(10 * time.Millisecond)
		began := time.Now()
		c := joiner(t, b, change)
		pollN(t, c, 1)
		took := time.Since(began)
		for _, r := range b.Requests(testbroker.AnyKey) {
			t.Logf("%4d ms conn %d %s", r.Time.Sub(began).Milliseconds(), r.Conn, protocol.APIName(r.Key))
		}
		require.LessOrEqual(t, took, 120*time.Millisecond)
		require.Equal(t, 1, b.Count(protocol.KeyMetadata))
	})
}

func TestStaticConsumersKeepTheirPartitionsOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("t", 2)
		static := func(id string) func(*Config) { return func(c *Config) { c.GroupInstanceID = id } }
		first := startReader(t, joiner(t, b, static("one")), 10*time.Millisecond)
		second := startReader(t, joiner(t, b, static("two")), 10*time.Millisecond)
		eventually(t, 20*time.Second, "shared", func() bool { return len(first.Assignment()) == 1 && len(second.Assignment()) == 1 })
		owned := first.Assignment()
		generation := b.Group("g").Generation
		first.stopPolling()
		require.NoError(t, first.Close(t.Context()))
		produce(b, "t", owned[0].Partition, 5)
		first = startReader(t, joiner(t, b, static("one")), 10*time.Millisecond)
		eventually(t, 5*time.Second, "read", func() bool { return slices.Equal(first.of(owned[0]), span(0, 4)) })
		require.Equal(t, generation, b.Group("g").Generation)
		require.Len(t, b.Group("g").Members, 2)
	})
}

func TestADeletedTopicHoldsUpNeitherARebalanceNorClose(t *testing.T) {
	forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
		b.CreateTopic("u", 1)
		produce(b, "u", 0, 10)
		c := joiner(t, b, func(c *Config) {
			change(c)
			c.Topics, c.DisableAutoCommit, c.AutoCommitInterval = []string{"t", "u"}, false, time.Minute
			c.RequestTimeout, c.MetadataMaxAge = 20*time.Second, time.Minute
		})
		pollN(t, c, 210)
		b.DeleteTopic("u")
		b.ForgetRequests()
		require.NoError(t, c.EnforceRebalance("again"))
		began := time.Now()
		for b.Group("g").Generation < 2 {
			_, err := c.Poll(t.Context(), 10*time.Millisecond)
			require.NoError(t, err)
			require.Less(t, time.Since(began), 2*time.Second)
		}
		for range 100 {
			_, err := c.Poll(t.Context(), 10*time.Millisecond)
			require.NoError(t, err)
		}
		began = time.Now()
		_ = c.Close(t.Context())
		require.Less(t, time.Since(began), 2*time.Second)
		require.Equal(t, int64(100), b.CommittedOffset("g", "t", 0))
		require.Equal(t, int64(100), b.CommittedOffset("g", "t", 1))
	})
}

// A commit by the application waits a little longer, and says what was not stored.
func TestADeletedTopicHoldsUpNoCommit(t *testing.T) {
	u := TopicPartition{Topic: "u"}
	gone := func(t *testing.T, b *testbroker.Cluster, commit func() error) {
		began := time.Now()
		err := commit()
		require.GreaterOrEqual(t, time.Since(began), time.Second, "it may be about to appear")
		require.Less(t, time.Since(began), 4*time.Second)
		require.ErrorIs(t, err, protocol.UnknownTopicOrPartition)
		var at *PartitionError
		require.ErrorAs(t, err, &at)
		require.Equal(t, u, at.TopicPartition())
		require.NotContains(t, err.Error(), "t-")
		require.Equal(t, int64(100), b.CommittedOffset("g", "t", 0))
		require.Equal(t, int64(100), b.CommittedOffset("g", "t", 1))
	}
	for name, test := range map[string]func(*testing.T, *testbroker.Cluster, *Consumer, *RebalanceListener){
		"Commit": func(t *testing.T, b *testbroker.Cluster, c *Consumer, _ *RebalanceListener) {
			b.DeleteTopic("u")
			gone(t, b, func() error { return c.Commit(t.Context()) })
		},
		"CommitOffsets": func(t *testing.T, b *testbroker.Cluster, c *Consumer, _ *RebalanceListener) {
			b.DeleteTopic("u")
			gone(t, b, func() error {
				return c.CommitOffsets(t.Context(), map[TopicPartition]OffsetAndMetadata{
					inTopic(0): {Offset: 100}, inTopic(1): {Offset: 100}, u: {Offset: 10},
				})
			})
		},
		"Commit inside OnRevoked": func(t *testing.T, b *testbroker.Cluster, c *Consumer, l *RebalanceListener) {
			called := false
			l.OnRevoked = func(ctx context.Context, c *Consumer, _ []TopicPartition) error {
				called = true
				gone(t, b, func() error { return c.Commit(ctx) })
				return nil
			}
			b.DeleteTopic("u")
			require.NoError(t, c.Unsubscribe(t.Context()))
			require.True(t, called)
		},
	} {
		t.Run(name, func(t *testing.T) {
			forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
				b.CreateTopic("u", 1)
				produce(b, "u", 0, 10)
				var listener RebalanceListener
				c := joiner(t, b, func(c *Config) {
					change(c)
					c.Topics, c.MetadataMaxAge = []string{"t", "u"}, time.Minute
					c.RebalanceListener.OnRevoked = func(ctx context.Context, c *Consumer, tps []TopicPartition) error {
						if listener.OnRevoked == nil {
							return nil
						}
						return listener.OnRevoked(ctx, c, tps)
					}
				})
				pollN(t, c, 210)
				test(t, b, c, &listener)
			})
		})
	}
}

// Commits that do not get through, before the listener and of its own, and the listener
// itself share what the rebalance waits for: the member joins in time.
func TestARevocationKeepsToTheRebalanceTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		version string
		limit   time.Duration
	}{"MaxPollInterval": {"", 20 * time.Second}, "the session timeout on JoinGroup v0": {"0.9", 10 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			test := func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 10)
				var began, told time.Time
				var left time.Duration
				var lost []TopicPartition
				loading := b.On(protocol.KeyOffsetCommit).Fail(int16(protocol.CoordinatorLoadInProgress))
				c := joiner(t, b, func(cfg *Config) {
					cfg.DisableAutoCommit, cfg.AutoCommitInterval = false, time.Hour
					cfg.RequestTimeout, cfg.MaxPollInterval, cfg.SessionTimeout = 30*time.Second, 20*time.Second, 10*time.Second
					cfg.RebalanceListener.OnLost = func(_ context.Context, _ *Consumer, tps []TopicPartition) error {
						lost = tps
						return nil
					}
					cfg.RebalanceListener.OnRevoked = func(ctx context.Context, c *Consumer, _ []TopicPartition) error {
						end, _ := ctx.Deadline()
						told, left = time.Now(), end.Sub(began)
						loading.Remove()
						b.On(protocol.KeyOffsetCommit).Fail(int16(protocol.UnknownTopicID)) // tried again while it may pass
						return c.CommitAsync(offsets(tp0, 5), nil)
					}
				})
				pollN(t, c, 10)
				began = time.Now()
				b.Rebalance("g")
				joins := b.Count(protocol.KeyJoinGroup)
				for b.Count(protocol.KeyJoinGroup) == joins {
					require.Less(t, time.Since(began), tt.limit, "others do not wait for longer")
					polled := time.Now()
					_, err := c.Poll(t.Context(), 100*time.Millisecond)
					require.NoError(t, err)
					require.LessOrEqual(t, time.Since(polled), 150*time.Millisecond)
				}
				require.Greater(t, told.Sub(began), tt.limit/4, "it was tried for a while")
				require.LessOrEqual(t, left, tt.limit)
				require.Empty(t, lost)
			}
			if tt.version == "" {
				bubble(t, 1, test)
			} else {
				oldBubble(t, tt.version, 1, test)
			}
		})
	}
}

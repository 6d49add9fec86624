package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What Java's consumer promises of groups and commits, as far as no other test says it.

func TestAJoinMayTakeTheRebalanceTimeoutAndFiveSeconds(t *testing.T) {
	for _, tt := range []struct{ request, rebalance, want time.Duration }{
		{3 * time.Second, 20 * time.Second, 25 * time.Second},
		{40 * time.Second, 20 * time.Second, 40 * time.Second},
	} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			c := joiner(t, b, func(cfg *Config) { cfg.RequestTimeout, cfg.MaxPollInterval = tt.request, tt.rebalance })
			b.On(protocol.KeyJoinGroup).After(1).Once().Drop() // the first one gets the member id
			for deadline := time.Now().Add(time.Minute); len(c.Assignment()) == 0; {
				require.True(t, time.Now().Before(deadline))
				_, _ = c.Poll(t.Context(), time.Second)
			}
			joins := b.Requests(protocol.KeyJoinGroup)
			require.GreaterOrEqual(t, len(joins), 3)
			require.EqualValues(t, tt.rebalance.Milliseconds(), joins[1].Message.(*kmsg.JoinGroupRequest).RebalanceTimeoutMillis)
			require.InDelta(t, tt.want.Seconds(), joins[2].Time.Sub(joins[1].Time).Seconds(), 0.5)
		})
	}
}

func TestReasonsAreCutWhereBrokersWantIt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := joiner(t, b, nil)
		_, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		require.NoError(t, c.EnforceRebalance(strings.Repeat("ä", 200)))
		_, err = c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		joins := b.Requests(protocol.KeyJoinGroup)
		reason := *joins[len(joins)-1].Message.(*kmsg.JoinGroupRequest).Reason
		require.Equal(t, strings.Repeat("ä", 127), reason)
		require.True(t, utf8.ValidString(reason))
	})
}

// Whatever ends a Poll, the join that it began goes on and is not begun again.
func TestAJoinOutlivesThePollThatBeganIt(t *testing.T) {
	for name, stage := range map[string]struct {
		key   int16
		after int
	}{"member id": {protocol.KeyJoinGroup, 0}, "join": {protocol.KeyJoinGroup, 1}, "sync": {protocol.KeySyncGroup, 0}} {
		t.Run(name, func(t *testing.T) {
			for _, held := range []func(*testbroker.Rule) *testbroker.Rule{(*testbroker.Rule).Hold, (*testbroker.Rule).HoldRequest} {
				bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
					rule := held(b.On(stage.key).After(stage.after).Once())
					c := joiner(t, b, nil)
					for !rule.WaitHeld(1, 0) {
						_, err := c.Poll(t.Context(), 0)
						require.NoError(t, err)
						time.Sleep(10 * time.Millisecond)
					}
					ctx, cancel := context.WithCancel(t.Context())
					polled := beside(func() error { _, err := c.Poll(ctx, time.Minute); return err })
					synctest.Wait()
					cancel()
					require.ErrorIs(t, <-polled, context.Canceled)
					for range 3 {
						_, err := c.Poll(t.Context(), 100*time.Millisecond)
						require.NoError(t, err)
					}
					rule.Release()
					_, err := c.Poll(t.Context(), time.Second)
					require.NoError(t, err)
					require.Len(t, c.Assignment(), 1)
					require.Equal(t, 2, b.Count(protocol.KeyJoinGroup))
					require.Equal(t, 1, b.Count(protocol.KeySyncGroup))
				})
			}
		})
	}
}

// Java gives up at GROUP_MAX_SIZE_REACHED; here the next place that becomes free is taken.
func TestAFullGroupIsToldAndTriedAgain(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		full := b.On(protocol.KeyJoinGroup).Fail(int16(protocol.GroupMaxSizeReached))
		c := joiner(t, b, nil)
		_, err := c.Poll(t.Context(), time.Minute)
		require.ErrorIs(t, err, protocol.GroupMaxSizeReached)
		began, tries := time.Now(), b.Count(protocol.KeyJoinGroup)
		for time.Since(began) < 5*time.Second {
			_, err = c.Poll(t.Context(), time.Second)
			require.True(t, err == nil || errors.Is(err, protocol.GroupMaxSizeReached))
		}
		require.InDelta(t, 5, b.Count(protocol.KeyJoinGroup)-tries, 2, "once per RetryBackoffMax")
		full.Remove()
		eventually(t, 5*time.Second, "joined", func() bool {
			_, _ = c.Poll(t.Context(), 100*time.Millisecond)
			return len(c.Assignment()) == 1
		})
	})
}

func TestCommitErrorsAreRetriedOrToldAsJavaDoes(t *testing.T) {
	for _, tt := range []struct {
		code    ErrorCode
		retried bool
		lookUps int // of the coordinator
	}{
		{protocol.OffsetMetadataTooLarge, false, 0},
		{protocol.InvalidCommitOffsetSize, false, 0},
		{protocol.TopicAuthorizationFailed, false, 0},
		{protocol.GroupAuthorizationFailed, false, 0},
		{protocol.InvalidGroupID, false, 0},
		{protocol.CoordinatorLoadInProgress, true, 0},
		{protocol.UnknownTopicOrPartition, true, 0},
		{protocol.NotCoordinator, true, 1},
		{protocol.CoordinatorNotAvailable, true, 1},
		{protocol.RequestTimedOut, true, 1},
	} {
		t.Run(tt.code.Name(), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				cfg := fast(b)
				cfg.GroupID = "g"
				c := reader(t, cfg, inTopic(0))
				require.NoError(t, c.CommitOffsets(t.Context(), offsets(inTopic(0), 1)))
				synctest.Wait() // a look-up that another one overtook may still be on its way
				before := b.Count(protocol.KeyFindCoordinator)
				b.On(protocol.KeyOffsetCommit).Once().Fail(int16(tt.code))
				err := c.CommitOffsets(t.Context(), offsets(inTopic(0), 2))
				if tt.retried {
					require.NoError(t, err)
					require.EqualValues(t, 2, b.CommittedOffset("g", "t", 0))
					require.Equal(t, 3, b.Count(protocol.KeyOffsetCommit))
				} else {
					require.ErrorIs(t, err, tt.code)
					require.Equal(t, 2, b.Count(protocol.KeyOffsetCommit))
				}
				require.Equal(t, tt.lookUps, b.Count(protocol.KeyFindCoordinator)-before)
			})
		})
	}
}

func TestCommittedOffsetsAreAskedForAsStable(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := joiner(t, b, nil)
		_, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		asked := b.Requests(protocol.KeyOffsetFetch)
		require.NotEmpty(t, asked)
		for _, r := range asked {
			require.True(t, r.Message.(*kmsg.OffsetFetchRequest).RequireStable)
		}
	})
}

// An automatic commit that fails is made up for by the next, one at a time, and none is
// sent when there is nothing new.
func TestAnAutomaticCommitThatFailsIsMadeUpFor(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		var log logBuffer
		c := joiner(t, b, func(cfg *Config) {
			cfg.DisableAutoCommit, cfg.AutoCommitInterval = false, time.Second
			cfg.Logger = log.logger()
		})
		b.On(protocol.KeyOffsetCommit).Once().Fail(int16(protocol.CoordinatorLoadInProgress))
		slow := b.On(protocol.KeyOffsetCommit).Once().Hold()
		pollN(t, c, 5)
		for range 30 { // 3 s
			_, err := c.Poll(t.Context(), 100*time.Millisecond)
			require.NoError(t, err)
		}
		require.Equal(t, 1, log.warnings("automatic commit failed"))
		sent := b.Requests(protocol.KeyOffsetCommit)
		require.Len(t, sent, 2, "the second has no answer yet")
		require.InDelta(t, 1, sent[1].Time.Sub(sent[0].Time).Seconds(), 0.2)
		slow.Release()
		for range 50 {
			_, err := c.Poll(t.Context(), 100*time.Millisecond)
			require.NoError(t, err)
		}
		require.EqualValues(t, 5, b.CommittedOffset("g", "t", 0))
		require.Equal(t, 2, b.Count(protocol.KeyOffsetCommit), "nothing is committed twice")
	})
}

// A commit before a revocation is retried, and holds the rebalance up no longer than it must.
func TestTheCommitBeforeARevocationIsRetriedOrGivenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		rule      func(*testbroker.Rule)
		committed int64
		within    time.Duration
	}{
		"it succeeds at the third try": {func(r *testbroker.Rule) { r.Times(2).Fail(int16(protocol.CoordinatorLoadInProgress)) }, 5, time.Second},
		"it is refused":                {func(r *testbroker.Rule) { r.Fail(int16(protocol.TopicAuthorizationFailed)) }, -1, time.Second},
		"it gets no answer":            {func(r *testbroker.Rule) { r.Fail(int16(protocol.CoordinatorLoadInProgress)) }, -1, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 5)
				var steps []string
				c := joiner(t, b, func(cfg *Config) {
					cfg.DisableAutoCommit, cfg.AutoCommitInterval = false, time.Hour
					cfg.RebalanceListener = listenerThatNotes(&steps)
				})
				pollN(t, c, 5)
				_, err := c.Poll(t.Context(), 0)
				require.NoError(t, err)
				tt.rule(b.On(protocol.KeyOffsetCommit))
				joins, began := b.Count(protocol.KeyJoinGroup), time.Now()
				require.NoError(t, c.EnforceRebalance("to see"))
				for b.Count(protocol.KeyJoinGroup) == joins {
					_, err := c.Poll(t.Context(), 10*time.Millisecond)
					require.NoError(t, err)
				}
				require.Less(t, time.Since(began), tt.within)
				require.Equal(t, "revoked t-0", steps[1])
				require.Equal(t, tt.committed, b.CommittedOffset("g", "t", 0))
			})
		})
	}
}

func TestPartitionsThatAppearDuringARebalanceAreAssignedToo(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := joiner(t, b, func(cfg *Config) { cfg.MetadataMaxAge = 100 * time.Millisecond })
		sync := b.On(protocol.KeySyncGroup).Once().Hold()
		for !sync.WaitHeld(1, 0) {
			_, err := c.Poll(t.Context(), 10*time.Millisecond)
			require.NoError(t, err)
		}
		b.AddPartitions("t", 3)
		time.Sleep(500 * time.Millisecond)
		sync.Release()
		eventually(t, 5*time.Second, "all assigned", func() bool {
			_, err := c.Poll(t.Context(), 10*time.Millisecond)
			require.NoError(t, err)
			return len(c.Assignment()) == 3
		})
	})
}

// KIP-881: with racks, where the replicas are is part of what was assigned.
func TestReplicasThatMoveToOtherRacksAreAReasonToRebalance(t *testing.T) {
	for rack, rejoins := range map[string]int{"": 0, "r1": 1} {
		t.Run("rack "+rack, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				b.SetReplicas("t", 0, 1, 2)
				c := joiner(t, b, func(cfg *Config) { cfg.ClientRack, cfg.MetadataMaxAge = rack, 200*time.Millisecond })
				pollFor := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); {
						_, err := c.Poll(t.Context(), 100*time.Millisecond)
						require.NoError(t, err)
					}
				}
				pollFor(time.Second)
				generation := b.Group("g").Generation
				b.SetReplicas("t", 0, 2, 1)
				pollFor(time.Second)
				require.Equal(t, generation, b.Group("g").Generation, "the same racks")
				b.SetReplicas("t", 0, 1, 3)
				pollFor(time.Second)
				require.Equal(t, generation+int32(rejoins), b.Group("g").Generation)
			}, testbroker.WithNodes(3), testbroker.WithRack(1, "r1"), testbroker.WithRack(2, "r2"), testbroker.WithRack(3, "r3"))
		})
	}
}

func TestWhatTheCoordinatorSaysToALeavingMember(t *testing.T) {
	for code, told := range map[ErrorCode]bool{protocol.UnknownMemberID: false, protocol.GroupAuthorizationFailed: true} {
		t.Run(code.Name(), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				c := joiner(t, b, nil)
				_, err := c.Poll(t.Context(), time.Second)
				require.NoError(t, err)
				b.On(protocol.KeyLeaveGroup).Edit(func(_ testbroker.Request, resp kmsg.Response) {
					resp.(*kmsg.LeaveGroupResponse).Members[0].ErrorCode = int16(code)
				})
				err = c.Unsubscribe(t.Context())
				require.Equal(t, told, errors.Is(err, code), "%v", err)
				require.Equal(t, told, err != nil)
			})
		})
	}
}

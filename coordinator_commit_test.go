package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func committedOffset(tb *testbroker.Cluster, partition int32) int64 {
	return tb.CommittedOffset("g", "t", partition)
}

// timeoutOf returns a context that ends after d.
func timeoutOf(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestCommitAndCommitted(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		want := map[TopicPartition]OffsetAndMetadata{
			inTopic(0): OffsetAndMetadata{Offset: 5, Metadata: "note"}.WithLeaderEpoch(3),
			inTopic(2): {Offset: 0},
		}
		require.NoError(t, m.co.commit(timeoutOf(t, time.Second), want))
		got, err := m.co.committed(timeoutOf(t, time.Second), []TopicPartition{inTopic(0), inTopic(1), inTopic(2)})
		require.NoError(t, err)
		require.Equal(t, want, got, "a partition without committed offset is absent")

		err = m.co.commit(timeoutOf(t, time.Second), map[TopicPartition]OffsetAndMetadata{
			inTopic(0): {Offset: 6}, {Topic: "other", Partition: 1}: {Offset: 1},
		})
		require.ErrorIs(t, err, ErrNotAssigned)
		require.Contains(t, err.Error(), "other-1")
		require.Equal(t, int64(6), committedOffset(tb, 0), "what is owned is committed")
	})
}

func TestEveryVersionOfTheGroupRequests(t *testing.T) {
	for version := int16(0); version <= 9; version++ {
		t.Run(fmt.Sprint("up to ", version), func(t *testing.T) {
			table := testbroker.DefaultVersions()
			for _, key := range []int16{
				protocol.KeyJoinGroup, protocol.KeySyncGroup, protocol.KeyHeartbeat, protocol.KeyLeaveGroup,
				protocol.KeyFindCoordinator, protocol.KeyOffsetCommit, protocol.KeyOffsetFetch,
			} {
				r := table[key]
				r.Max = min(r.Max, version)
				table[key] = r
			}
			for key, lowest := range map[int16]int16{protocol.KeyOffsetCommit: 2, protocol.KeyOffsetFetch: 1} {
				r := table[key]
				r.Max = max(r.Max, lowest)
				table[key] = r
			}
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				m := newTestMember(t, tb, nil).subscribe("t").run()
				m.awaitOwned(4)
				time.Sleep(4 * time.Second)
				require.NoError(t, m.co.commit(timeoutOf(t, time.Second), offsets(inTopic(1), 8)))
				got, err := m.co.committed(timeoutOf(t, time.Second), []TopicPartition{inTopic(0), inTopic(1)})
				require.NoError(t, err)
				require.Len(t, got, 1)
				require.Equal(t, int64(8), got[inTopic(1)].Offset)
				m.halt()
				require.NoError(t, m.co.leave(timeoutOf(t, time.Second), "done"))
				require.Empty(t, tb.Group("g").Members)
				require.Empty(t, m.errors())
			}, testbroker.WithVersions(table))
		})
	}
}

func TestCommitsWithoutSubscription(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil)
		require.NoError(t, m.co.commit(timeoutOf(t, time.Second), offsets(inTopic(1), 8)))
		req := tb.Requests(protocol.KeyOffsetCommit)[0].Message.(*kmsg.OffsetCommitRequest)
		require.Equal(t, int32(-1), req.Generation)
		require.Empty(t, req.MemberID)
		require.Zero(t, tb.Count(protocol.KeyJoinGroup))

		other := newTestMember(t, tb, nil).subscribe("t").run()
		other.awaitOwned(4)
		err := m.co.commit(timeoutOf(t, time.Second), offsets(inTopic(1), 9))
		var failed *CommitFailedError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, protocol.UnknownMemberID)
		require.Contains(t, err.Error(), `group "g"`)
		require.Contains(t, err.Error(), "OffsetCommit")
		require.Contains(t, err.Error(), "broker 1")
	})
}

func TestSyncCommitIsRetriedUntilItsContextEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule func(*testbroker.Rule) *testbroker.Rule
		code ErrorCode
	}{
		{"the coordinator loads", func(r *testbroker.Rule) *testbroker.Rule {
			return r.Fail(int16(protocol.CoordinatorLoadInProgress))
		}, protocol.CoordinatorLoadInProgress},
		{"it is not the coordinator", func(r *testbroker.Rule) *testbroker.Rule { return r.Fail(int16(protocol.NotCoordinator)) }, protocol.NotCoordinator},
		{"the topic is not known yet", func(r *testbroker.Rule) *testbroker.Rule {
			return r.Fail(int16(protocol.UnknownTopicOrPartition))
		}, protocol.UnknownTopicOrPartition},
		{"the connection is cut", func(r *testbroker.Rule) *testbroker.Rule { return r.Close() }, protocol.None},
	} {
		t.Run(tt.name, func(t *testing.T) {
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				m := newTestMember(t, tb, nil).subscribe("t").run()
				m.awaitOwned(4)
				tt.rule(tb.On(protocol.KeyOffsetCommit).Times(3))
				require.NoError(t, m.co.commit(timeoutOf(t, 10*time.Second), offsets(inTopic(1), 8)))
				require.Equal(t, int64(8), committedOffset(tb, 1))

				rule := tt.rule(tb.On(protocol.KeyOffsetCommit))
				err := m.co.commit(timeoutOf(t, 10*time.Second), offsets(inTopic(1), 9))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				if tt.code != protocol.None {
					require.ErrorIs(t, err, tt.code)
				} else {
					require.Contains(t, err.Error(), "closed")
				}
				require.Less(t, rule.Used(), 30, "tries follow a backoff")
				rule.Remove()
				time.Sleep(5 * time.Second)
				require.Equal(t, int64(8), committedOffset(tb, 1), "a commit whose caller is gone is not sent any more")
			})
		})
	}
}

// Decision 5.
func TestARetryLeavesOutPartitionsOfALaterCommit(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		tb.On(protocol.KeyOffsetCommit).Once().Fail(int16(protocol.CoordinatorLoadInProgress))
		first := make(chan error, 1)
		go func() {
			first <- m.co.commit(timeoutOf(t, 10*time.Second), map[TopicPartition]OffsetAndMetadata{
				inTopic(0): {Offset: 1}, inTopic(1): {Offset: 1},
			})
		}()
		require.True(t, tb.WaitRequest(protocol.KeyOffsetCommit, 1, time.Second))
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, m.co.commit(timeoutOf(t, time.Second), offsets(inTopic(0), 2)))
		require.NoError(t, <-first)
		require.Equal(t, int64(2), committedOffset(tb, 0), "never backward")
		require.Equal(t, int64(1), committedOffset(tb, 1))
		requests := tb.Requests(protocol.KeyOffsetCommit)
		last := requests[len(requests)-1].Message.(*kmsg.OffsetCommitRequest)
		require.Len(t, last.Topics[0].Partitions, 1)
		require.Equal(t, int32(1), last.Topics[0].Partitions[0].Partition)
	})
}

func TestAsyncCommitsEndInOrderAndAreNotRetried(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		var mu sync.Mutex
		var ended []string
		note := func(name string) func(error) {
			return func(err error) {
				mu.Lock()
				defer mu.Unlock()
				code, _ := answeredCode(err)
				ended = append(ended, fmt.Sprint(name, " ", code.Name(), " ", errors.Is(err, ErrNotAssigned)))
			}
		}
		tb.On(protocol.KeyOffsetCommit).Once().Delay(time.Second).Fail(int16(protocol.NotCoordinator))
		m.co.commitAsync(offsets(inTopic(0), 1), note("a"))
		time.Sleep(time.Millisecond)
		m.co.commitAsync(offsets(inTopic(1), 2), note("b"))
		m.co.commitAsync(offsets(TopicPartition{Topic: "other"}, 3), note("c"))
		m.co.commitAsync(offsets(inTopic(0), 4), note("d"))
		require.NoError(t, m.co.commit(timeoutOf(t, 5*time.Second), nil), "an empty commit waits for the earlier ones")
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"a NOT_COORDINATOR false", "b NONE false", "c NONE true", "d NONE false"}, ended)
		require.Equal(t, int64(4), committedOffset(tb, 0))
		require.Equal(t, int64(2), committedOffset(tb, 1))
		require.Equal(t, 2, tb.Count(protocol.KeyFindCoordinator), "the coordinator was looked up again")
		require.Equal(t, 2, tb.Count(protocol.KeyOffsetCommit), "what waits goes out together")
	})
}

func TestACommitThatIsRefusedForTheGenerationMakesTheMemberJoinAgain(t *testing.T) {
	for _, code := range []ErrorCode{protocol.IllegalGeneration, protocol.UnknownMemberID, protocol.RebalanceInProgress} {
		t.Run(code.Name(), func(t *testing.T) {
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				m := newTestMember(t, tb, nil).subscribe("t").run()
				m.awaitOwned(4)
				before := m.co.groupMetadata()
				tb.On(protocol.KeyOffsetCommit).Once().Fail(int16(code))
				err := m.co.commit(timeoutOf(t, 5*time.Second), offsets(inTopic(0), 1))
				var failed *CommitFailedError
				require.ErrorAs(t, err, &failed)
				require.ErrorIs(t, err, code)
				require.Equal(t, 1, tb.Count(protocol.KeyOffsetCommit), "it is not retried")
				eventually(t, 15*time.Second, "joined again", func() bool {
					return m.co.groupMetadata().GenerationID > before.GenerationID && len(m.owns()) == 4
				})
				require.Equal(t, code == protocol.RebalanceInProgress, len(m.lostSoFar()) == 0)
			})
		})
	}
}

// Metadata of a topic that nothing is read from is not kept; a topic that is there, or
// appears in time, is waited for.
func TestACommitForATopicThatIsNotKnown(t *testing.T) {
	for _, tt := range []struct {
		name   string
		create bool
		tp     TopicPartition
		want   error
	}{
		{"it does not exist", false, TopicPartition{Topic: "u"}, protocol.UnknownTopicOrPartition},
		{"it appears", true, TopicPartition{Topic: "u"}, nil},
		{"its topic has fewer partitions", false, inTopic(9), protocol.UnknownTopicOrPartition},
	} {
		t.Run(tt.name, func(t *testing.T) {
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				m := newTestMember(t, tb, nil)
				if tt.create {
					time.AfterFunc(900*time.Millisecond, func() { tb.CreateTopic("u", 1) })
				}
				both := map[TopicPartition]OffsetAndMetadata{inTopic(0): {Offset: 5}, tt.tp: {Offset: 6}}
				began := time.Now()
				err := m.co.commit(timeoutOf(t, time.Minute), both)
				require.ErrorIs(t, err, tt.want)
				require.Less(t, time.Since(began), 4*time.Second)
				require.Equal(t, int64(5), committedOffset(tb, 0))
				if tt.create {
					require.Equal(t, int64(6), tb.CommittedOffset("g", "u", 0))
				}
			})
		})
	}
}

func TestCommitErrorsOfOnePartition(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		tb.On(protocol.KeyOffsetCommit).Once().Edit(func(_ testbroker.Request, resp kmsg.Response) {
			resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode = int16(protocol.TopicAuthorizationFailed)
		})
		err := m.co.commit(timeoutOf(t, 5*time.Second), map[TopicPartition]OffsetAndMetadata{inTopic(0): {Offset: 1}, inTopic(1): {Offset: 1}})
		var pe *PartitionError
		require.ErrorAs(t, err, &pe)
		require.Equal(t, inTopic(0), pe.TopicPartition())
		require.ErrorIs(t, err, protocol.TopicAuthorizationFailed)
		var be *BrokerError
		require.ErrorAs(t, err, &be)
		require.Equal(t, "OffsetCommit", be.API)
		require.NotContains(t, err.Error(), "t-1")
	})
}

// B10.
func TestAFailedLookUpOfCommittedOffsetsIsNeverTakenForNone(t *testing.T) {
	unstable := func(_ testbroker.Request, resp kmsg.Response) {
		resp.(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0].ErrorCode = int16(protocol.UnstableOffsetCommit)
		resp.(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0].Offset = -1
	}
	leftOut := func(_ testbroker.Request, resp kmsg.Response) {
		resp.(*kmsg.OffsetFetchResponse).Groups[0].Topics = nil
	}
	for _, tt := range []struct {
		name string
		rule func(*testbroker.Rule)
	}{
		{"(a) the coordinator loads", func(r *testbroker.Rule) { r.Times(5).Fail(int16(protocol.CoordinatorLoadInProgress)) }},
		{"(b) it is not the coordinator", func(r *testbroker.Rule) { r.Times(2).Fail(int16(protocol.NotCoordinator)) }},
		{"(c) no answer within the request timeout", func(r *testbroker.Rule) { r.Times(2).Drop() }},
		{"(d) a transaction is open", func(r *testbroker.Rule) { r.Times(3).Edit(unstable) }},
		{"(e) the connection is cut", func(r *testbroker.Rule) { r.Times(2).Close() }},
		{"the partition is left out of the answer", func(r *testbroker.Rule) { r.Times(2).Edit(leftOut) }},
		{"half an answer", func(r *testbroker.Rule) { r.Times(1).CutAnswer(30) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				tb.SetCommitted("g", "t", 0, testbroker.CommittedOffset{Offset: 50, LeaderEpoch: -1})
				m := newTestMember(t, tb, nil)
				tt.rule(tb.On(protocol.KeyOffsetFetch))
				got, err := m.co.committed(timeoutOf(t, 2*time.Minute), []TopicPartition{inTopic(0), inTopic(1)})
				require.NoError(t, err)
				require.Equal(t, offsets(inTopic(0), 50), got)
				_, hasEpoch := got[inTopic(0)].LeaderEpoch()
				require.False(t, hasEpoch)
			})
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				tb.SetCommitted("g", "t", 0, testbroker.CommittedOffset{Offset: 50, LeaderEpoch: -1})
				m := newTestMember(t, tb, nil)
				tt.rule(tb.On(protocol.KeyOffsetFetch))
				// Every look-up outlives its caller.
				for range 50000 {
					got, err := m.co.committed(timeoutOf(t, 10*time.Millisecond), []TopicPartition{inTopic(0)})
					if err == nil {
						require.Equal(t, offsets(inTopic(0), 50), got)
						return
					}
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				require.Fail(t, "never answered")
			})
		})
	}
}

func TestCommittedErrors(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.SetCommitted("g", "t", 1, testbroker.CommittedOffset{Offset: 50})
		m := newTestMember(t, tb, nil)
		tb.On(protocol.KeyOffsetFetch).Once().Fail(int16(protocol.GroupAuthorizationFailed))
		_, err := m.co.committed(timeoutOf(t, time.Minute), []TopicPartition{inTopic(0)})
		require.ErrorIs(t, err, protocol.GroupAuthorizationFailed)
		var be *BrokerError
		require.ErrorAs(t, err, &be)
		require.Equal(t, int32(1), be.Broker)
		require.Contains(t, err.Error(), `group "g"`)
		require.Equal(t, 1, tb.Count(protocol.KeyOffsetFetch), "it comes at once")

		tb.On(protocol.KeyOffsetFetch).Once().Edit(func(_ testbroker.Request, resp kmsg.Response) {
			p := resp.(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions
			p[0].ErrorCode = int16(protocol.TopicAuthorizationFailed)
		})
		got, err := m.co.committed(timeoutOf(t, time.Minute), []TopicPartition{inTopic(0), inTopic(1)})
		require.ErrorIs(t, err, protocol.TopicAuthorizationFailed)
		var pe *PartitionError
		require.ErrorAs(t, err, &pe)
		require.Equal(t, inTopic(0), pe.TopicPartition())
		require.Equal(t, int64(50), got[inTopic(1)].Offset, "what was found comes along")

		tb.MoveCoordinator("g", 0)
		tb.On(protocol.KeyOffsetFetch).Fail(int16(protocol.NotCoordinator))
		_, err = m.co.committed(timeoutOf(t, 3*time.Second), []TopicPartition{inTopic(0)})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, protocol.CoordinatorNotAvailable)
	})
}

func TestOffsetFetchOfOldBrokersAnswersUnknownPartitionsWithNone(t *testing.T) {
	table := testbroker.DefaultVersions()
	table[protocol.KeyOffsetFetch] = testbroker.VersionRange{Min: 0, Max: 1}
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil)
		tb.On(protocol.KeyOffsetFetch).Fail(int16(protocol.UnknownTopicOrPartition))
		got, err := m.co.committed(timeoutOf(t, time.Second), []TopicPartition{inTopic(0)})
		require.NoError(t, err)
		require.Empty(t, got)
	}, testbroker.WithVersions(table))
}

func TestOffsetsAreCommittedWhilePartitionsAreRevoked(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		a := newTestMember(t, tb, nil).subscribe("t").run()
		a.awaitOwned(4)
		a.halt()
		newTestMember(t, tb, nil).subscribe("t").run()
		eventually(t, 10*time.Second, "a rejoin is due", a.co.wantsPoll.Load)
		a.co.polled()
		eventually(t, time.Second, "revoking", func() bool { return a.co.step.Load() != nil })
		st := a.co.nextStep()
		require.Equal(t, stepRevoke, st.kind)
		require.NoError(t, a.co.commit(timeoutOf(t, time.Second), offsets(inTopic(2), 12)))
		a.co.commitAsync(offsets(inTopic(3), 13), func(error) {})
		require.NoError(t, a.co.commit(timeoutOf(t, time.Second), nil))
		a.co.stepDone(st)
		require.Equal(t, int64(12), committedOffset(tb, 2))
		require.Equal(t, int64(13), committedOffset(tb, 3))
		require.ErrorIs(t, a.co.commit(timeoutOf(t, time.Second), offsets(inTopic(2), 14)), ErrNotAssigned)
		a.run()
		a.awaitOwned(2)
	})
}

func TestFlushWaitsForCommitsThatAreTriedAgain(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		tb.On(protocol.KeyOffsetCommit).Once().Fail(int16(protocol.CoordinatorLoadInProgress))
		ended := make(chan error, 1)
		go func() { ended <- m.co.commit(timeoutOf(t, time.Minute), offsets(inTopic(0), 1)) }()
		require.True(t, tb.WaitRequest(protocol.KeyOffsetCommit, 1, time.Second))
		time.Sleep(10 * time.Millisecond)
		m.co.flush(timeoutOf(t, time.Second))
		require.Equal(t, int64(1), committedOffset(tb, 0))
		require.NoError(t, <-ended)
	})
}

func TestACommitOfAnOlderGenerationIsNotSent(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		tb.On(protocol.KeyOffsetCommit).Once().Fail(int16(protocol.CoordinatorLoadInProgress))
		tb.On(protocol.KeyOffsetCommit).Once().Delay(5 * time.Second).Fail(int16(protocol.CoordinatorLoadInProgress))
		ended := make(chan error, 1)
		go func() { ended <- m.co.commit(timeoutOf(t, time.Minute), offsets(inTopic(0), 1)) }()
		require.True(t, tb.WaitRequest(protocol.KeyOffsetCommit, 2, time.Second))
		m.co.enforceRebalance("")
		time.Sleep(time.Second)
		require.Len(t, m.owns(), 4)
		var failed *CommitFailedError
		require.ErrorAs(t, <-ended, &failed)
		require.Equal(t, 2, tb.Count(protocol.KeyOffsetCommit))
	})
}

// B18, a coordinator that swallows everything.
func TestRequestsToASilentCoordinatorEndWhenAnotherOneIsKnown(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.MoveCoordinator("g", 1)
		m := newTestMember(t, tb, func(c *Config) { c.SessionTimeout = 6 * time.Second }).subscribe("t").run()
		m.awaitOwned(4)
		tb.FreezeConns(1)
		tb.HangDials(1, true)
		committed := make(chan error, 2)
		go func() { committed <- m.co.commit(timeoutOf(t, time.Minute), offsets(inTopic(0), 1)) }()
		go func() {
			_, err := m.co.committed(timeoutOf(t, time.Minute), []TopicPartition{inTopic(0)})
			committed <- err
		}()
		time.Sleep(time.Second)
		tb.MoveCoordinator("g", 2)
		eventually(t, 13*time.Second, "both ended", func() bool { return len(committed) == 2 })
		<-committed
		<-committed
	}, testbroker.WithNodes(2))
}

func TestAsyncCommitsFailWhenTheCoordinatorIsNotFoundInTime(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.MoveCoordinator("g", 0)
		m := newTestMember(t, tb, nil)
		ended := make(chan error, 1)
		m.co.commitAsync(offsets(inTopic(0), 1), func(err error) { ended <- err })
		began := time.Now()
		err := <-ended
		require.ErrorIs(t, err, protocol.CoordinatorNotAvailable)
		require.Equal(t, 30*time.Second, time.Since(began).Round(time.Second))

		tb.On(protocol.KeyFindCoordinator).Fail(int16(protocol.GroupAuthorizationFailed))
		began = time.Now()
		require.ErrorIs(t, m.co.commit(timeoutOf(t, time.Minute), offsets(inTopic(0), 1)), protocol.GroupAuthorizationFailed)
		require.Less(t, time.Since(began), 3*time.Second, "a refusal comes at once")
	})
}

func TestAnEarlierCommitEndsAsTheLaterOneThatTookOver(t *testing.T) {
	for _, tt := range []struct {
		name     string
		failures int
		code     ErrorCode
		want     error
		offset   int64
	}{
		{"the later one succeeds after a retry", 1, protocol.CoordinatorLoadInProgress, nil, 2},
		{"the later one is refused", 1, protocol.OffsetMetadataTooLarge, protocol.OffsetMetadataTooLarge, -1},
		{"the later one's caller gives up", 100, protocol.CoordinatorLoadInProgress, protocol.CoordinatorLoadInProgress, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				m := newTestMember(t, tb, nil).subscribe("t").run()
				m.awaitOwned(4)
				tb.On(protocol.KeyOffsetCommit).Once().Delay(time.Second)
				tb.On(protocol.KeyOffsetCommit).Times(tt.failures).Fail(int16(tt.code))
				ended := [3]chan error{}
				for i, timeout := range []time.Duration{10 * time.Second, 20 * time.Second, 4 * time.Second} {
					ended[i] = make(chan error, 1)
					tp := inTopic(min(int32(i), 1))
					go func() { ended[i] <- m.co.commit(timeoutOf(t, timeout), offsets(tp, int64(i))) }()
					time.Sleep(time.Millisecond)
				}
				require.NoError(t, <-ended[0])
				earlier, later := <-ended[1], <-ended[2]
				if tt.want == nil {
					require.NoError(t, earlier)
					require.NoError(t, later)
				} else {
					require.ErrorIs(t, earlier, tt.want)
					require.ErrorIs(t, later, tt.want)
					require.NotErrorIs(t, earlier, context.DeadlineExceeded)
				}
				require.Equal(t, tt.offset, committedOffset(tb, 1))
				for _, r := range tb.Requests(protocol.KeyOffsetCommit)[1:] {
					p := r.Message.(*kmsg.OffsetCommitRequest).Topics[0].Partitions
					require.Len(t, p, 1)
					require.Equal(t, int64(2), p[0].Offset, "the older offset is never sent")
				}
			})
		})
	}
}

func TestLeavingWaitsForEarlierCommits(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		m.halt()
		tb.On(protocol.KeyOffsetCommit).Delay(time.Second)
		ended := make(chan error, 2)
		m.co.commitAsync(offsets(inTopic(0), 1), func(err error) { ended <- err })
		m.co.commitAsync(offsets(inTopic(0), 2), func(err error) { ended <- err })
		m.co.close(timeoutOf(t, 10*time.Second), "closed")
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
		require.Equal(t, int64(2), committedOffset(tb, 0))
		require.Equal(t, 1, tb.Count(protocol.KeyLeaveGroup))
	})
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		m.halt()
		tb.On(protocol.KeyOffsetCommit).HoldRequest()
		ended := make(chan error, 1)
		m.co.commitAsync(offsets(inTopic(0), 1), func(err error) { ended <- err })
		began := time.Now()
		// A third of the session timeout after a heartbeat the connection counts as dead,
		// and the commit ends with that: this close ends before.
		m.co.close(timeoutOf(t, 3*time.Second), "closed")
		require.LessOrEqual(t, time.Since(began), 3*time.Second)
		require.ErrorIs(t, <-ended, ErrClosed)
	})
}

func TestAnAnswerWithAnErrorIsNoOffset(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.SetCommitted("g", "t", 0, testbroker.CommittedOffset{Offset: 50, LeaderEpoch: -1})
		m := newTestMember(t, tb, nil)
		answer := func(code ErrorCode, offset int64) func(testbroker.Request, kmsg.Response) {
			return func(_ testbroker.Request, resp kmsg.Response) {
				p := &resp.(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0]
				p.ErrorCode, p.Offset = int16(code), offset
			}
		}
		tb.On(protocol.KeyOffsetFetch).Once().Edit(answer(protocol.UnstableOffsetCommit, 40))
		tb.On(protocol.KeyOffsetFetch).Once().Edit(answer(protocol.UnknownTopicOrPartition, -1))
		got, err := m.co.committed(timeoutOf(t, 10*time.Second), []TopicPartition{inTopic(0)})
		require.NoError(t, err)
		require.Equal(t, offsets(inTopic(0), 50), got)
		require.Equal(t, 3, tb.Count(protocol.KeyOffsetFetch))

		tb.On(protocol.KeyOffsetFetch).Once().Edit(answer(protocol.None, -7))
		_, err = m.co.committed(timeoutOf(t, 10*time.Second), []TopicPartition{inTopic(0)})
		require.ErrorContains(t, err, "offset -7")
	})
}

package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupTest runs test in a bubble with a cluster that has topic t with 4 partitions.
func groupTest(t *testing.T, test func(t *testing.T, tb *testbroker.Cluster), opts ...testbroker.Option) {
	synctest.Test(t, func(t *testing.T) {
		tb := testbroker.New(t, opts...)
		tb.CreateTopic("t", 4)
		test(t, tb)
	})
}

// testMember is a coordinator and the application that polls it.
type testMember struct {
	t    *testing.T
	co   *coordinator
	wake chan struct{}
	asks atomic.Uint64

	mu     sync.Mutex
	owned  []TopicPartition
	log    []string // the steps, as they were done
	lost   []TopicPartition
	events []Event
	errs   []error
	stop   func()
}

func testConfig(change func(*Config)) *Config {
	cfg := Config{GroupID: "g", Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	cfg = cfg.withDefaults()
	return &cfg
}

func newTestMember(t *testing.T, tb *testbroker.Cluster, change func(*Config)) *testMember {
	cfg := testConfig(change)
	boot, err := conn.ParseServers(tb.Addrs())
	require.NoError(t, err)
	cl := cluster.New(cluster.Config{
		Conn: conn.Config{
			ClientID: cfg.ClientID, Dialer: tb.Dial, RequestTimeout: cfg.RequestTimeout, Logger: cfg.Logger,
			ReconnectBackoff: cfg.ReconnectBackoff, ReconnectBackoffMax: cfg.ReconnectBackoffMax,
		},
		Bootstrap: boot, MetadataMaxAge: cfg.MetadataMaxAge, Logger: cfg.Logger,
	})
	cl.SetInterest([]string{"t"}, false)
	require.NoError(t, cl.Bootstrap(t.Context()))
	m := &testMember{t: t, wake: make(chan struct{}, 1)}
	m.co = newCoordinator(cfg, cl, coordinatorHooks{
		wake: m.awake, lost: m.hearLost, asks: m.asks.Load, event: m.hear,
	}, &newMetrics(cfg).Group, cfg.Logger)
	m.co.start()
	t.Cleanup(func() {
		m.halt()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		m.co.close(ctx, "the test ends")
		cl.Close()
	})
	return m
}

// commit is commitSync of offsets of topics that nothing is read from.
func (co *coordinator) commit(ctx context.Context, offsets map[TopicPartition]OffsetAndMetadata) error {
	return co.commitSync(ctx, commitment{offsets: offsets})
}

// commitAsync is the same for commitUnawaited.
func (co *coordinator) commitAsync(offsets map[TopicPartition]OffsetAndMetadata, done func(error)) {
	co.commitUnawaited(commitment{offsets: offsets}, done)
}

func (m *testMember) awake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *testMember) hearLost(tps []TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = append(m.lost, tps...)
}

func (m *testMember) hear(ev Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, ev)
}

// poll is one poll of the application, which does all steps that there are.
func (m *testMember) poll() {
	m.asks.Add(1)
	m.co.polled()
	for st := m.co.nextStep(); st != nil; st = m.co.nextStep() {
		m.mu.Lock()
		switch st.kind {
		case stepAssign:
			m.owned = st.assignment
		case stepRevoke, stepLost:
			m.owned = slices.DeleteFunc(slices.Clone(m.owned), func(tp TopicPartition) bool {
				return slices.Contains(st.partitions, tp)
			})
		}
		m.log = append(m.log, fmt.Sprint(st.kind, " ", st.partitions))
		m.mu.Unlock()
		m.co.stepDone(st)
		m.co.polled()
	}
	if err := m.co.takeError(); err != nil {
		m.mu.Lock()
		m.errs = append(m.errs, err)
		m.mu.Unlock()
	}
}

// run polls in the background, every 100 ms and when woken.
func (m *testMember) run() *testMember {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	m.stop = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		for {
			m.poll()
			select {
			case <-m.wake:
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}()
	return m
}

func (m *testMember) halt() {
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
}

func (m *testMember) subscribe(topics ...string) *testMember {
	m.co.subscribe(topics, "subscribed", m.co.looks.Add(1))
	return m
}

func (m *testMember) owns() []TopicPartition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.owned)
}

func (m *testMember) steps() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log)
}

func (m *testMember) lostSoFar() []TopicPartition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lost)
}

func (m *testMember) eventsSoFar() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events)
}

func (m *testMember) errors() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.errs)
}

// eventually waits, in bubble time, until cond holds.
func eventually(t *testing.T, within time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !cond() {
		if time.Since(began) > within {
			require.Fail(t, "not within "+within.String()+": "+what)
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
	}
	return time.Since(began)
}

func (m *testMember) awaitOwned(n int) {
	m.t.Helper()
	eventually(m.t, 20*time.Second, fmt.Sprintf("%d partitions owned", n), func() bool {
		return len(m.owns()) == n && m.co.now.Load().state == group.Stable
	})
}

func offsets(tp TopicPartition, offset int64) map[TopicPartition]OffsetAndMetadata {
	return map[TopicPartition]OffsetAndMetadata{tp: {Offset: offset}}
}

func inTopic(partition int32) TopicPartition { return TopicPartition{Topic: "t", Partition: partition} }

func TestTwoMembersShareATopicAndTheOtherTakesOverWhenOneLeaves(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		a := newTestMember(t, tb, nil).subscribe("t").run()
		a.awaitOwned(4)
		b := newTestMember(t, tb, nil).subscribe("t").run()
		b.awaitOwned(2)
		a.awaitOwned(2)
		both := append(a.owns(), b.owns()...)
		sortPartitions(both)
		require.Equal(t, []TopicPartition{inTopic(0), inTopic(1), inTopic(2), inTopic(3)}, both)
		require.Equal(t, []string{"assign [t-0 t-1 t-2 t-3]", "revoke [t-0 t-1 t-2 t-3]"}, a.steps()[:2])

		require.NoError(t, a.co.commit(t.Context(), offsets(a.owns()[0], 7)))
		b.halt()
		require.NoError(t, b.co.leave(t.Context(), "unsubscribed"))
		require.False(t, b.co.generationValid())
		a.awaitOwned(4)
		require.Equal(t, int64(7), tb.CommittedOffset("g", "t", a.owns()[0].Partition))
		require.Empty(t, a.errors())
		require.Empty(t, a.eventsSoFar())

		leave := tb.Requests(protocol.KeyLeaveGroup)
		require.Len(t, leave, 1)
		require.Equal(t, "unsubscribed", *leave[0].Message.(*kmsg.LeaveGroupRequest).Members[0].Reason)

		b.subscribe("t").run()
		b.awaitOwned(2)
	})
}

func TestNothingIsOwnedBeforeTheApplicationTakesIt(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t")
		time.Sleep(5 * time.Second)
		require.Zero(t, tb.Count(protocol.KeyJoinGroup), "a join starts with a poll only")
		m.co.polled()
		eventually(t, time.Second, "assigned", func() bool { return m.co.now.Load().state == group.Assigning })
		err := m.co.commit(t.Context(), offsets(inTopic(0), 1))
		require.ErrorIs(t, err, ErrNotAssigned)
		var pe *PartitionError
		require.ErrorAs(t, err, &pe)
		require.Equal(t, inTopic(0), pe.TopicPartition())
		require.True(t, m.co.rebalancing())

		time.Sleep(20 * time.Second)
		require.GreaterOrEqual(t, tb.Count(protocol.KeyHeartbeat), 6, "heartbeats go on before the step is done")
		st := m.co.nextStep()
		require.Equal(t, stepAssign, st.kind)
		require.Same(t, st, m.co.nextStep())
		m.co.stepDone(st)
		require.Nil(t, m.co.nextStep())
		require.NoError(t, m.co.commit(t.Context(), offsets(inTopic(0), 1)))
		require.False(t, m.co.rebalancing())
	})
}

func TestHeartbeatsAndCommitsGoOnWhileAnotherMemberJoins(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		a := newTestMember(t, tb, nil).subscribe("t").run()
		a.awaitOwned(4)
		a.halt() // a handles a long batch
		tb.ForgetRequests()
		b := newTestMember(t, tb, nil).subscribe("t").run()
		time.Sleep(30 * time.Second)
		require.Equal(t, "PreparingRebalance", tb.Group("g").State)
		require.GreaterOrEqual(t, tb.Count(protocol.KeyHeartbeat), 9)
		require.Len(t, tb.Group("g").Members, 2, "neither may be thrown out")
		require.Len(t, a.owns(), 4, "partitions never vanish while a batch is handled")
		require.NoError(t, a.co.commit(t.Context(), offsets(inTopic(3), 9)))
		a.run()
		a.awaitOwned(2)
		b.awaitOwned(2)
		require.Empty(t, a.lostSoFar())
	})
}

// B42.
func TestCloseDoesNotWaitForAJoinThatIsHeld(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		held := tb.On(protocol.KeyJoinGroup).After(1).Hold()
		m := newTestMember(t, tb, nil).subscribe("t").run()
		time.AfterFunc(20*time.Second, held.Release)
		require.True(t, held.WaitHeld(1, 5*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		m.co.close(ctx, "closed")
		require.Less(t, time.Since(began), time.Second)
		require.Empty(t, tb.Group("g").Members, "a member that has only its id leaves too")
		require.ErrorIs(t, m.co.commit(t.Context(), offsets(inTopic(0), 1)), ErrClosed)
		_, err := m.co.committed(t.Context(), []TopicPartition{inTopic(0)})
		require.ErrorIs(t, err, ErrClosed)
		var late error
		m.co.commitAsync(offsets(inTopic(0), 1), func(err error) { late = err })
		require.ErrorIs(t, late, ErrClosed)
		m.co.polled()
		require.Nil(t, m.co.nextStep())
		m.co.close(ctx, "again")
	})
}

func TestCloseIsCutByItsContextWhenTheCoordinatorIsSilent(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		tb.On(protocol.KeyLeaveGroup).Drop()
		m.halt()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		m.co.close(ctx, "closed")
		require.Equal(t, 2*time.Second, time.Since(began).Round(10*time.Millisecond))
	})
}

// B18.
func TestMembershipSurvivesAMoveOfTheCoordinator(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.MoveCoordinator("g", 1)
		m := newTestMember(t, tb, func(c *Config) { c.SessionTimeout = 45 * time.Second }).subscribe("t").run()
		m.awaitOwned(4)
		tb.ForgetRequests()
		tb.On(protocol.KeyHeartbeat).Node(2).Times(2).Fail(int16(protocol.NotCoordinator))
		tb.MoveCoordinator("g", 0)
		tb.StopNode(1)
		time.Sleep(5 * time.Second)
		tb.MoveCoordinator("g", 2)
		eventually(t, 3*time.Second, "heartbeats resumed", func() bool {
			return slices.ContainsFunc(tb.Requests(protocol.KeyHeartbeat), func(r testbroker.Request) bool { return r.Node == 2 })
		})
		eventually(t, 3*time.Second, "commits work", func() bool {
			return m.co.commit(t.Context(), offsets(inTopic(1), 3)) == nil
		})
		require.Zero(t, tb.Count(protocol.KeyJoinGroup), "the session did not expire, so nobody has to join")
		require.Less(t, tb.Count(protocol.KeyFindCoordinator), 25, "look-ups follow a backoff")
		require.Len(t, m.owns(), 4)
		require.Equal(t, []string{"assign [t-0 t-1 t-2 t-3]"}, m.steps())
		require.NotEmpty(t, m.eventsSoFar())
		require.IsType(t, EventRetrying{}, m.eventsSoFar()[0])
	}, testbroker.WithNodes(2))
}

func TestASilentCoordinatorIsNoticedAfterAThirdOfTheSessionTimeout(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, func(c *Config) { c.SessionTimeout = 45 * time.Second }).subscribe("t").run()
		m.awaitOwned(4)
		time.Sleep(10 * time.Second)
		id := m.co.groupMetadata().MemberID
		tb.ForgetRequests()
		silent := tb.On(protocol.KeyHeartbeat).Drop()
		require.True(t, silent.WaitUsed(1, 4*time.Second))
		took := eventually(t, 20*time.Second, "looked up again", func() bool { return tb.Count(protocol.KeyFindCoordinator) > 0 })
		require.InDelta(t, 15*time.Second, took, float64(time.Second))
		require.LessOrEqual(t, silent.Used(), 2, "one heartbeat is on its way at a time")
		silent.Remove()
		time.Sleep(2 * time.Minute)
		require.Equal(t, id, m.co.groupMetadata().MemberID)
		require.Zero(t, tb.Count(protocol.KeyJoinGroup))
		require.Equal(t, []string{"assign [t-0 t-1 t-2 t-3]"}, m.steps())
	})
}

func TestAMemberThatIsThrownOutLosesItsPartitionsAndJoinsAgain(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		m.halt()
		tb.KickMember("g", m.co.groupMetadata().MemberID)
		eventually(t, 4*time.Second, "lost", func() bool { return len(m.lostSoFar()) == 4 })
		require.False(t, m.co.generationValid())
		err := m.co.commit(t.Context(), offsets(inTopic(0), 5))
		var failed *CommitFailedError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, int64(-1), tb.CommittedOffset("g", "t", 0))
		m.run()
		m.awaitOwned(4)
		require.Equal(t, "lost [t-0 t-1 t-2 t-3]", m.steps()[1])
		require.IsType(t, EventMemberFenced{}, m.eventsSoFar()[0])
	})
}

func TestAnApplicationThatDoesNotPollLeavesTheGroup(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, func(c *Config) { c.MaxPollInterval = 20 * time.Second }).subscribe("t").run()
		m.awaitOwned(4)
		m.halt()
		time.Sleep(19 * time.Second)
		require.Zero(t, tb.Count(protocol.KeyLeaveGroup))
		took := eventually(t, 3*time.Second, "left", func() bool { return tb.Count(protocol.KeyLeaveGroup) == 1 })
		require.Less(t, took, 3*time.Second)
		require.Empty(t, tb.Group("g").Members)
		require.Len(t, m.lostSoFar(), 4)
		time.Sleep(time.Minute)
		require.Equal(t, 1, tb.Count(protocol.KeyLeaveGroup))
		var failed *CommitFailedError
		require.ErrorAs(t, m.co.commit(t.Context(), offsets(inTopic(0), 5)), &failed)

		m.run()
		m.awaitOwned(4)
		require.Len(t, m.errors(), 1)
		var late *PollIntervalError
		require.ErrorAs(t, m.errors()[0], &late)
		require.GreaterOrEqual(t, late.Elapsed, late.Interval)
		require.Equal(t, "lost [t-0 t-1 t-2 t-3]", m.steps()[1])
	})
}

func TestAPollThatWaitsForRecordsCountsAsPolling(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, func(c *Config) { c.MaxPollInterval = 10 * time.Second }).subscribe("t").run()
		m.awaitOwned(4)
		m.halt()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for {
				select {
				case <-m.wake:
					m.co.polled()
				case <-ctx.Done():
					return
				}
			}
		}()
		time.Sleep(5 * time.Minute)
		cancel()
		require.Zero(t, tb.Count(protocol.KeyLeaveGroup))
	})
}

func TestTheLeaderJoinsAgainWhenPartitionsAppear(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, func(c *Config) { c.MetadataMaxAge = 2 * time.Second }).subscribe("t").run()
		m.awaitOwned(4)
		tb.AddPartitions("t", 6)
		m.awaitOwned(6)
		joins := tb.Requests(protocol.KeyJoinGroup)
		require.Equal(t, "the number of partitions of t changed", *joins[len(joins)-1].Message.(*kmsg.JoinGroupRequest).Reason)
	})
}

func TestTheLeaderAssignsTopicsThatOnlyOthersSubscribeTo(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.CreateTopic("u", 3)
		a := newTestMember(t, tb, nil).subscribe("t").run()
		a.awaitOwned(4)
		b := newTestMember(t, tb, nil).subscribe("t", "u", "missing").run()
		b.awaitOwned(5)
		a.awaitOwned(2)
		b.subscribe("u")
		b.awaitOwned(3)
		a.awaitOwned(4)
	})
}

func TestEnforcedRebalance(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		generation := m.co.groupMetadata().GenerationID
		m.co.enforceRebalance("because")
		eventually(t, 5*time.Second, "a new generation", func() bool { return m.co.groupMetadata().GenerationID > generation })
		joins := tb.Requests(protocol.KeyJoinGroup)
		require.Equal(t, "because", *joins[len(joins)-1].Message.(*kmsg.JoinGroupRequest).Reason)
	})
}

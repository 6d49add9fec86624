package kafka

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// health returns what Health says, which never is an error.
func health(t *testing.T, c *Consumer) Health {
	t.Helper()
	began := time.Now()
	h, err := c.Health()
	require.NoError(t, err)
	require.Equal(t, began, time.Now(), "it waited")
	return h
}

func requireHealth(t *testing.T, c *Consumer, state HealthState, reason string) Health {
	t.Helper()
	h := health(t, c)
	require.Equal(t, state, h.State, h.Reason)
	require.Contains(t, h.Reason, reason)
	return h
}

// stallEvents are the events about stalls, in order.
type stallEvents struct {
	mu   sync.Mutex
	list []Event
}

func (s *stallEvents) add(e Event) {
	switch e.(type) {
	case EventPartitionStalled, EventPartitionResumed:
		s.mu.Lock()
		s.list = append(s.list, e)
		s.mu.Unlock()
	}
}

func (s *stallEvents) get() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Event(nil), s.list...)
}

// hidePartition0 takes the records of partition 0 out of an answer.
func hidePartition0(_ testbroker.Request, resp kmsg.Response) {
	for i := range resp.(*kmsg.FetchResponse).Topics {
		topic := &resp.(*kmsg.FetchResponse).Topics[i]
		for k := range topic.Partitions {
			if topic.Partitions[k].Partition == 0 {
				topic.Partitions[k].RecordBatches = nil
			}
		}
	}
}

// A fetch session that has gone wrong must cost neither records nor much time.
func TestRecordsThatAFetchSessionHidesComeWithTheNextSession(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		b.On(keyFetch).When(func(r testbroker.Request) bool {
			req := r.Message.(*kmsg.FetchRequest)
			return req.SessionEpoch != 0 || req.SessionID == 0
		}).Edit(hidePartition0)
		c := reader(t, fast(b), tp0, tpAt(1))
		began := time.Now()
		require.Equal(t, span(0, 9), offsetsOf(pollN(t, c, 10)))
		require.Less(t, time.Since(began), 2*time.Second)
		requireHealth(t, c, HealthOK, "")
	})
}

// keepInTieredStorage has the leader say that it has the offsets below 5 not itself, so that
// they are not taken for gone.
func keepInTieredStorage(b *testbroker.Cluster) {
	b.On(keyListOffsets).When(func(r testbroker.Request) bool {
		return r.Message.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp == -4
	}).Edit(func(_ testbroker.Request, resp kmsg.Response) {
		resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset = 5 // the rest is in tiered storage
	})
}

func TestStalledPartitionIsToldOf(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		var events stallEvents
		cfg := fast(b) // a patience of 9 s
		cfg.OnEvent = events.add
		broken := b.On(keyFetch).Edit(hidePartition0)
		keepInTieredStorage(b)
		c := reader(t, cfg, tp0, tpAt(1))
		began := time.Now()
		poll := func() (from0 int) {
			produce(b, "t", 1, 1)
			records, err := c.Poll(t.Context(), time.Second)
			require.NoError(t, err)
			for range records.Partition(tp0) {
				from0++
			}
			time.Sleep(200 * time.Millisecond)
			return from0
		}
		for time.Since(began) < 8*time.Second {
			require.Zero(t, poll())
			requireHealth(t, c, HealthOK, "")
		}
		require.Empty(t, events.get())
		for len(events.get()) == 0 {
			require.Zero(t, poll())
			synctest.Wait()
		}
		require.InDelta(t, 9*time.Second, time.Since(began), float64(2*time.Second))
		h := requireHealth(t, c, HealthStalled, "1 of 2 partitions: t-0: broker 1 gives nothing, although the log goes on to 10")
		require.InDelta(t, 0, h.Since.Sub(began), float64(time.Second))
		stalled := h.Partitions[tp0]
		require.Equal(t, HealthStalled, stalled.State)
		require.EqualValues(t, 0, stalled.Position)
		require.EqualValues(t, 10, stalled.Lag)
		require.True(t, stalled.LastFetch.IsZero())
		require.Equal(t, HealthOK, h.Partitions[tpAt(1)].State)
		require.WithinDuration(t, time.Now(), h.Partitions[tpAt(1)].LastFetch, time.Second)
		lag, known := c.Lag(tp0)
		require.True(t, known)
		require.EqualValues(t, 10, lag)

		broken.Remove()
		for got := 0; got < 10; got += poll() {
			require.Less(t, time.Since(began), 20*time.Second)
		}
		synctest.Wait()
		list := events.get()
		require.Len(t, list, 2)
		require.Equal(t, EventPartitionStalled{TopicPartition: tp0, Since: h.Since, Reason: stalled.Reason}, list[0])
		require.Equal(t, tp0, list[1].(EventPartitionResumed).TopicPartition)
		require.Equal(t, "it goes on", list[1].(EventPartitionResumed).Reason)
		h = requireHealth(t, c, HealthOK, "")
		require.WithinDuration(t, time.Now(), h.Since, 2*time.Second)
		require.Zero(t, h.Partitions[tp0].Lag)
	})
}

// Something between the two may have gone wrong on one connection.
func TestStalledPartitionIsFetchedOverANewConnection(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		var first atomic.Int64
		keepInTieredStorage(b)
		b.On(keyFetch).When(func(r testbroker.Request) bool {
			first.CompareAndSwap(0, int64(r.Conn))
			return int64(r.Conn) == first.Load()
		}).Edit(hidePartition0)
		c := reader(t, fast(b), tp0, tpAt(1))
		began := time.Now()
		pollN(t, c, 10)
		require.InDelta(t, 12*time.Second, time.Since(began), float64(3*time.Second))
		requireHealth(t, c, HealthOK, "")
	})
}

func TestBlackHoledLeaderIsAStallUntilItAnswers(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 1000)
		var events stallEvents
		cfg := fast(b)
		cfg.OnEvent, cfg.MaxPartitionFetchBytes = events.add, 1000
		hole := b.On(keyFetch).Node(1).After(1).Drop()
		c := reader(t, cfg, tp0, tpAt(1))
		got := len(pollN(t, c, 1))
		began := time.Now()
		for time.Since(began) < time.Minute {
			records, err := c.Poll(t.Context(), time.Second)
			require.NoError(t, err)
			got += records.Len()
		}
		list := events.get()
		require.Len(t, list, 1, "once for the whole minute")
		require.Less(t, list[0].(EventPartitionStalled).Since.Sub(began), 2*time.Second)
		h := requireHealth(t, c, HealthStalled, "t-0: it cannot be fetched: ")
		require.Equal(t, HealthOK, h.Partitions[tpAt(1)].State)

		hole.Remove()
		pollN(t, c, 1000-got)
		synctest.Wait()
		require.Len(t, events.get(), 2)
		requireHealth(t, c, HealthOK, "")
	}, testbroker.WithNodes(2))
}

// Nothing is known to be there when a leader falls silent after all was read, so that is
// no stall; but whatever comes now is not read.
func TestLeaderThatFallsSilentAfterAllWasReadDegradesItsPartitions(t *testing.T) {
	for name, fail := range map[string]func(b *testbroker.Cluster) (heal func()){
		"it does not answer": func(b *testbroker.Cluster) func() { return b.On(keyFetch).Node(2).Drop().Remove },
		"it is gone":         func(b *testbroker.Cluster) func() { b.StopNode(2); return func() { b.StartNode(2) } },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
				b.SetLeader("t", 0, 1)
				b.SetLeader("t", 1, 2)
				produce(b, "t", 1, 1)
				c := reader(t, fast(b), tp0, tpAt(1))
				pollN(t, c, 1)
				_, err := c.Poll(t.Context(), time.Second)
				require.NoError(t, err)
				heal := fail(b)
				silent := time.Now()
				for time.Since(silent) < 4*time.Second { // RequestTimeout is 3 s
					_, err = c.Poll(t.Context(), 100*time.Millisecond)
					require.NoError(t, err)
				}
				h := requireHealth(t, c, HealthDegraded, "1 of 2 partitions: t-1: it cannot be fetched: ")
				require.Equal(t, HealthOK, h.Partitions[tp0].State)
				p := h.Partitions[tpAt(1)]
				require.Equal(t, HealthDegraded, p.State)
				require.Contains(t, p.Reason, "broker 2 at node2.test:9092")
				require.WithinDuration(t, silent, p.Since, 200*time.Millisecond)
				require.Equal(t, p.Since, h.Since)

				heal()
				_, err = c.Poll(t.Context(), 5*time.Second)
				require.NoError(t, err)
				requireHealth(t, c, HealthOK, "")
			}, testbroker.WithNodes(2))
		})
	}
}

func TestSlowApplicationIsNoStall(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 1000)
		produce(b, "t", 1, 1000)
		var events stallEvents
		cfg := fast(b)
		cfg.OnEvent, cfg.MaxPartitionFetchBytes, cfg.MaxBufferedBytes = events.add, 1000, 2000
		c := reader(t, cfg, tp0, tpAt(1))
		for range 60 {
			_, err := c.PollMax(t.Context(), time.Second, 1)
			require.NoError(t, err)
			time.Sleep(5 * time.Second)
			requireHealth(t, c, HealthOK, "")
		}
		require.Empty(t, events.get())
	})
}

func TestHealthFollowsAMemberOfAGroup(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		var inCallback Health
		c := joiner(t, b, func(cfg *Config) {
			cfg.Topics = nil
			cfg.RebalanceListener.OnAssigned = func(_ context.Context, c *Consumer, _ []TopicPartition) error {
				inCallback = health(t, c)
				return nil
			}
		})
		born := time.Now()
		time.Sleep(time.Hour)
		h := requireHealth(t, c, HealthStarting, "nothing is subscribed to or assigned")
		require.Equal(t, born, h.Since)
		require.NoError(t, c.Subscribe([]string{"t"}))
		requireHealth(t, c, HealthStarting, "the next Poll joins")
		produce(b, "t", 0, 1)
		pollN(t, c, 1)
		joined := time.Now()
		require.Equal(t, HealthStarting, inCallback.State)
		require.Equal(t, HealthWaiting, inCallback.Partitions[tp0].State, "its records wait for the callback's end")
		h = requireHealth(t, c, HealthOK, "")
		require.WithinDuration(t, joined, h.Since, time.Second)
		require.Len(t, h.Partitions, 2)
		require.EqualValues(t, 1, h.Partitions[tp0].Position)

		b.Rebalance("g")
		time.Sleep(5 * time.Second) // it hears of that by a heartbeat
		h = requireHealth(t, c, HealthRebalancing, "the next Poll")
		require.WithinDuration(t, time.Now(), h.Since, 5*time.Second)
		_, err := c.Poll(t.Context(), 5*time.Second)
		require.NoError(t, err)
		h = requireHealth(t, c, HealthOK, "")
		require.WithinDuration(t, time.Now(), h.Since, 5*time.Second)

		polled := time.Now()
		time.Sleep(29 * time.Second)
		requireHealth(t, c, HealthOK, "")
		time.Sleep(10 * time.Second)
		h = requireHealth(t, c, HealthNotPolling, "has not asked for records for 39s, MaxPollInterval is 30s")
		require.Equal(t, polled, h.Since)
		_, err = c.Poll(t.Context(), time.Second)
		require.ErrorAs(t, err, new(*PollIntervalError))
		_, err = c.Poll(t.Context(), 5*time.Second)
		require.NoError(t, err)
		requireHealth(t, c, HealthOK, "")

		require.NoError(t, c.Unsubscribe(t.Context()))
		requireHealth(t, c, HealthStarting, "nothing is subscribed to or assigned")
		require.NoError(t, c.Close(t.Context()))
		closed := time.Now()
		time.Sleep(time.Minute)
		h = requireHealth(t, c, HealthClosed, "the consumer is closed")
		require.Equal(t, closed, h.Since)
		require.Empty(t, h.Partitions)
	})
}

func TestApplicationThatWaitsInPollIsPolling(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		for _, read := range []func(*Consumer){
			func(c *Consumer) { _, _ = c.Poll(t.Context(), -1) },
			func(c *Consumer) {
				for range c.Records(t.Context()) {
				}
			},
			func(c *Consumer) {
				for range c.Messages(t.Context()) {
				}
			},
		} {
			c := reader(t, fast(b), tp0)
			done := beside(func() error { read(c); return nil })
			time.Sleep(5 * time.Minute)
			requireHealth(t, c, HealthOK, "")
			require.NoError(t, c.Close(t.Context()))
			require.NoError(t, soon(t, done))
		}
	})
}

func TestApplicationThatWaitedLongInPollIsPolling(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := reader(t, fast(b), tp0)
		time.AfterFunc(5*time.Minute, func() { produce(b, "t", 0, 1) })
		_, err := c.Poll(t.Context(), -1)
		require.NoError(t, err)
		requireHealth(t, c, HealthOK, "")
		time.Sleep(31 * time.Second)
		requireHealth(t, c, HealthNotPolling, "for 31s")
	})
}

func TestIterationOverAFullBatchIsPolling(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 100)
		c := reader(t, fast(b), tp0)
		n := 0
		for range c.Records(t.Context()) {
			time.Sleep(20 * time.Second)
			requireHealth(t, c, HealthOK, "")
			if n++; n == 50 {
				break
			}
		}
	})
}

func TestSilentCoordinatorDegradesHealth(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.MoveCoordinator("g", 2)
		c := joiner(t, b, nil)
		produce(b, "t", 0, 1)
		pollN(t, c, 1)
		b.StopNode(2)
		stopped := time.Now()
		for health(t, c).State != HealthDegraded {
			require.Less(t, time.Since(stopped), 10*time.Second)
			_, _ = c.Poll(t.Context(), 100*time.Millisecond)
		}
		h := requireHealth(t, c, HealthDegraded, "connection refused")
		require.WithinDuration(t, stopped, h.Since, 2*time.Second)
		require.Equal(t, HealthOK, h.Partitions[tp0].State)
		b.StartNode(2)
		for deadline := time.Now().Add(20 * time.Second); health(t, c).State != HealthOK; {
			require.True(t, time.Now().Before(deadline))
			_, _ = c.Poll(t.Context(), time.Second)
		}
	}, testbroker.WithNodes(2))
}

func TestAllBrokersGoneDegradesHealth(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := reader(t, fast(b), tp0)
		_, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		b.StopNode(1)
		_, err = c.Poll(t.Context(), 5*time.Second)
		require.NoError(t, err)
		h := requireHealth(t, c, HealthDegraded, "metadata cannot be refreshed: ")
		require.Equal(t, HealthDegraded, h.Partitions[tp0].State)
		require.Contains(t, h.Partitions[tp0].Reason, "it cannot be fetched: ")
		b.StartNode(1)
		_, err = c.Poll(t.Context(), 5*time.Second)
		require.NoError(t, err)
		requireHealth(t, c, HealthOK, "")
	})
}

func TestFaultyPartitionsDegradeHealthAndAllOfThemFailIt(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 1, 1)
		cfg := fast(b)
		cfg.AutoOffsetReset = ResetNone
		c := reader(t, cfg, tp0, tpAt(1))
		require.NoError(t, c.Seek(tpAt(1), 0))
		_, err := c.Poll(t.Context(), time.Second)
		require.ErrorAs(t, err, new(*NoOffsetForPartitionError))
		pollN(t, c, 1)
		h := requireHealth(t, c, HealthDegraded, "1 of 2 partitions: t-0: ")
		require.Equal(t, HealthFailed, h.Partitions[tp0].State)
		require.Equal(t, HealthOK, h.Partitions[tpAt(1)].State)

		require.NoError(t, c.Assign(tp0))
		requireHealth(t, c, HealthFailed, "1 of 1 partitions: t-0: ")
		require.NoError(t, c.Seek(tp0, 0))
		requireHealth(t, c, HealthOK, "")
	})
}

func TestMemberThatIsFencedHasFailed(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 1)
		c := joiner(t, b, static("one"))
		pollN(t, c, 1)
		b.On(protocol.KeyHeartbeat).Fail(int16(protocol.FencedInstanceID))
		_, err := c.Poll(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, protocol.FencedInstanceID)
		requireHealth(t, c, HealthFailed, "FENCED_INSTANCE_ID")
	})
}

func TestTopicsThatDoNotExistOrAreDeniedShowInHealth(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		cfg := fast(b)
		c := openConsumer(t, cfg)
		require.NoError(t, c.Subscribe([]string{"t", "none"}))
		_, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		for began := time.Now(); health(t, c).State == HealthStarting; {
			require.Less(t, time.Since(began), 5*time.Second)
			_, err = c.Poll(t.Context(), 100*time.Millisecond)
			require.NoError(t, err)
		}
		requireHealth(t, c, HealthWaiting, `topic "none" does not exist`)
		b.CreateTopic("none", 1)
		_, err = c.Poll(t.Context(), 5*time.Second)
		require.NoError(t, err)
		requireHealth(t, c, HealthOK, "")

		b.On(keyMetadata).Fail(int16(protocol.TopicAuthorizationFailed))
		for err == nil {
			_, err = c.Poll(t.Context(), time.Second)
		}
		require.ErrorIs(t, err, protocol.TopicAuthorizationFailed)
		requireHealth(t, c, HealthDegraded, "not authorized to read topic")
	})
}

func TestPartitionsTellWhatTheyWaitFor(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 1)
		b.On(keyListOffsets).Fail(int16(protocol.LeaderNotAvailable))
		c := reader(t, fast(b), tp0, tpAt(1))
		require.NoError(t, c.Seek(tp0, 0))
		pollN(t, c, 1)
		h := requireHealth(t, c, HealthWaiting, "1 of 2 partitions: t-1: its position is being looked up")
		require.EqualValues(t, -1, h.Partitions[tpAt(1)].Position)
		require.EqualValues(t, -1, h.Partitions[tpAt(1)].Lag)
		since := h.Since
		time.Sleep(time.Minute)
		require.Equal(t, since, health(t, c).Since)
		require.NoError(t, c.Pause(tpAt(1)))
		require.Equal(t, "it is paused", health(t, c).Partitions[tpAt(1)].Reason)
	})
}

// Health of a consumer that Close has not ended yet, and from many goroutines.
func TestHealthBesideEverythingElse(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		b.On(protocol.KeyLeaveGroup).Delay(time.Second)
		produce(b, "t", 0, 100)
		c := joiner(t, b, nil)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					_, _ = c.Health()
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		pollN(t, c, 100)
		done := beside(func() error { return c.Close(t.Context()) })
		time.Sleep(500 * time.Millisecond)
		requireHealth(t, c, HealthClosed, "the consumer is being closed")
		require.NoError(t, <-done)
		wg.Wait()
	})
}

func TestJudgementTakesTheWorst(t *testing.T) {
	now := time.Unix(1e9, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	part := func(state HealthState, since time.Duration) partitionVitals {
		return partitionVitals{tp: tp0, finding: finding{state: state, reason: "why", since: ago(since), exact: state == HealthStalled}}
	}
	member := func(state group.State) *groupVitals {
		return &groupVitals{subscribed: true, state: state, since: ago(time.Minute)}
	}
	well := func() *vitals {
		return &vitals{now: now, begun: true, asked: now, maxPoll: time.Minute, group: member(group.Stable), partitions: []partitionVitals{part(HealthOK, 0)}}
	}
	// From the best to the worst; each change is made on top of those before.
	v := well()
	for _, step := range []struct {
		change func()
		want   finding
	}{
		{func() {}, finding{state: HealthOK, since: ago(time.Minute)}},
		{func() { v.missing = []string{"m"} }, finding{state: HealthWaiting, reason: `topic "m" does not exist`}},
		{func() { v.partitions = append(v.partitions, part(HealthWaiting, 0)) },
			finding{state: HealthWaiting, reason: "1 of 2 partitions: t-0: why", since: now}},
		{func() { v.group.wantsPoll = true }, finding{state: HealthRebalancing, reason: "the group rebalances; the next Poll takes part"}},
		{func() { v.group.state = group.Joining },
			finding{state: HealthRebalancing, reason: "joining the group", since: ago(time.Minute)}},
		{func() { v.begun = false }, finding{state: HealthStarting, reason: "joining the group", since: ago(time.Minute)}},
		{func() { v.partitions = append(v.partitions, part(HealthFailed, 0)) }, finding{state: HealthDegraded, reason: "1 of 3 partitions: t-0: why"}},
		{func() { v.denied = []string{"d"} }, finding{state: HealthDegraded, reason: `not authorized to read topic "d"`}},
		{func() { v.refresh = finding{HealthDegraded, "refresh", ago(3), true} }, finding{HealthDegraded, "refresh", ago(3), true}},
		{func() { v.group.cause, v.group.causeSince = errors.New("kafka: cause"), ago(4) }, finding{HealthDegraded, "cause", ago(4), true}},
		{func() { v.partitions = append(v.partitions, part(HealthStalled, 5), part(HealthStalled, 6)) },
			finding{HealthStalled, "2 of 5 partitions: t-0: why", ago(6), true}},
		{func() { v.asked = ago(time.Minute) },
			finding{HealthNotPolling, "the application has not asked for records for 1m0s, MaxPollInterval is 1m0s", ago(time.Minute), true}},
		{func() { v.group.terminal = true }, finding{HealthFailed, "cause", ago(4), true}},
		{func() { v.closing = ago(7) }, finding{HealthClosed, "the consumer is being closed", ago(7), true}},
		{func() { v.closed = true }, finding{HealthClosed, "the consumer is closed", ago(7), true}},
	} {
		step.change()
		require.Equal(t, step.want, v.judge())
	}

	v = well()
	v.partitions = nil
	require.Equal(t, finding{state: HealthOK, reason: "no partition is assigned to this member"}, v.judge())
	v.group = nil
	v.begun = false
	require.Equal(t, finding{state: HealthStarting, reason: "the next Poll takes over the partitions"}, v.judge())
	v.missing = []string{"m"}
	require.Equal(t, finding{state: HealthStarting, reason: `topic "m" does not exist`}, v.judge())
	v.idle, v.asked = true, ago(time.Hour)
	require.Equal(t, finding{state: HealthStarting, reason: "nothing is subscribed to or assigned"}, v.judge())
}

func TestSinceWhenAStateHolds(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	last := sighting{state: HealthOK, since: at(10), looked: at(50)}
	for name, test := range map[string]struct {
		f    finding
		want time.Time
	}{
		"as before":                           {finding{state: HealthOK}, at(10)},
		"as before, though something began":   {finding{state: HealthOK, since: at(60)}, at(10)},
		"another state":                       {finding{state: HealthWaiting}, at(99)},
		"another state, which leaves a trace": {finding{state: HealthWaiting, since: at(70)}, at(70)},
		"an older trace":                      {finding{state: HealthWaiting, since: at(40)}, at(99)},
		"what is known for sure":              {finding{state: HealthStalled, since: at(40), exact: true}, at(40)},
	} {
		require.Equal(t, test.want, last.next(test.f, at(99)).since, name)
	}
}

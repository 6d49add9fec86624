package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the chaos tests, and readers who meant no good, found.

func TestBrokerThatDoesNotWaitIsNotAskedAllTheTime(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		cfg := fast(b)
		cfg.DisableFetchSessions = true
		c := reader(t, cfg, tp0)
		pollN(t, c, 3)
		atOnce := func(r testbroker.Request) bool {
			r.Message.(*kmsg.FetchRequest).MaxWaitMillis = 0
			return true
		}
		b.On(protocol.KeyFetch).When(atOnce).Edit(func(testbroker.Request, kmsg.Response) { time.Sleep(time.Millisecond) })
		b.ForgetRequests()
		_, err := c.Poll(t.Context(), 2*time.Second)
		require.NoError(t, err)
		require.Less(t, b.Count(protocol.KeyFetch), 60)
	})
}

func TestLeaderThatKnowsNoEndOfItsLog(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		rule := b.On(protocol.KeyListOffsets).Edit(func(_ testbroker.Request, resp kmsg.Response) {
			resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset = -1
			time.Sleep(time.Millisecond)
		})
		c := reader(t, fast(b), tp0)
		_, err := c.Poll(t.Context(), 5*time.Second)
		require.NoError(t, err)
		require.Less(t, b.Count(protocol.KeyListOffsets), 20)
		rule.Remove()
		pollN(t, c, 3)
	})
}

// Nothing in a partition that was added can be older than the subscription.
func TestPartitionThatAppearsIsReadFromItsBeginningWithoutAGroup(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		cfg := fast(b)
		cfg.AutoOffsetReset = ResetLatest
		c := openConsumer(t, cfg)
		require.NoError(t, c.Subscribe([]string{"t"}))
		records, err := c.Poll(t.Context(), 2*time.Second)
		require.NoError(t, err)
		require.Zero(t, records.Len(), "what is older is not read")
		b.AddPartitions("t", 2)
		produce(b, "t", 1, 5)
		require.Equal(t, span(0, 4), offsetsOf(pollN(t, c, 5)))
	})
}

// An application that works on a batch for long must not get the same error once for
// each second of it.
func TestErrorThatStandsWaitsForPollOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.On(protocol.KeyFetch).Fail(int16(protocol.TopicAuthorizationFailed))
		c := reader(t, fast(b), tp0)
		time.Sleep(time.Minute)
		_, err := c.Poll(t.Context(), 0)
		require.ErrorIs(t, err, protocol.TopicAuthorizationFailed)
		_, err = c.Poll(t.Context(), 0)
		require.NoError(t, err)
	})
}

// A deserializer may ask others, and they may hang.
func TestCloseIsBoundedWhileADeserializerHangs(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		c := reader(t, fast(b), tp0)
		hang := make(chan struct{})
		hanging := DeserializerFunc[string](func(string, Headers, []byte) (string, error) {
			<-hang
			return "", nil
		})
		records := Typed(c, Bytes, hanging).Messages(t.Context())
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		require.NoError(t, c.Close(ctx))
		require.Equal(t, 2*time.Second, time.Since(began))
		close(hang)
		for range records {
		}
	})
}

// What is committed automatically must not replace more that is on its way.
func TestCommitAsyncIsNotUndoneByClose(t *testing.T) {
	for name, commit := range map[string]func(*Consumer){
		"all that was handed over": func(c *Consumer) { _ = c.CommitAsync(nil, nil) },
		"a part of it": func(c *Consumer) {
			_ = c.CommitAsync(map[TopicPartition]OffsetAndMetadata{tp0: {Offset: 8}}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 20)
				cfg := fast(b)
				cfg.GroupID, cfg.DisableAutoCommit, cfg.MaxPollRecords = "g", false, 5
				c := reader(t, cfg, tp0)
				pollN(t, c, 10) // five of them are not done
				commit(c)
				require.NoError(t, c.Close(t.Context()))
				require.GreaterOrEqual(t, b.CommittedOffset("g", "t", 0), int64(8))
			})
		})
	}
}

// Who asks for positions while a deserializer of a channel hangs cannot be told them, and
// does not wait for longer than it said.
func TestCallsAreBoundedWhileADeserializerHangs(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 1)
		cfg := fast(b)
		cfg.GroupID, cfg.DefaultAPITimeout = "g", 7*time.Second
		c := reader(t, cfg, tp0)
		goOn := make(chan struct{})
		hanging := Typed(c, Bytes, DeserializerFunc[int](func(string, Headers, []byte) (int, error) {
			<-goOn
			return 0, nil
		}))
		messages := hanging.Messages(t.Context())
		time.Sleep(time.Second)
		for name, call := range map[string]func(context.Context) error{
			"Position":    func(ctx context.Context) error { _, err := c.Position(ctx, tp0); return err },
			"Commit":      c.Commit,
			"Unsubscribe": c.Unsubscribe,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			began := time.Now()
			require.ErrorIs(t, call(ctx), context.DeadlineExceeded, name)
			require.Equal(t, 2*time.Second, time.Since(began), name)
			cancel()
		}
		for name, call := range map[string]func() error{
			"Seek":        func() error { return c.Seek(tp0, 0) },
			"Pause":       func() error { return c.Pause(tp0) },
			"Assign":      func() error { return c.Assign(tp0) },
			"CommitAsync": func() error { return c.CommitAsync(nil, nil) },
		} {
			began := time.Now()
			require.ErrorIs(t, call(), context.DeadlineExceeded, name)
			require.Equal(t, cfg.DefaultAPITimeout, time.Since(began), name)
		}
		require.Equal(t, []TopicPartition{tp0}, c.Assignment(), "nothing was changed")
		require.Empty(t, c.Paused())
		close(goOn)
		<-messages
		require.EqualValues(t, 1, position(t, c, tp0))
	})
}

func TestCloseIsBoundedWhileADeserializerHangsAndTheListenerCommits(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 1)
		cfg := fast(b)
		cfg.GroupID, cfg.Topics = "g", []string{"t"}
		cfg.RebalanceListener.OnRevoked = func(ctx context.Context, c *Consumer, _ []TopicPartition) error { return c.Commit(ctx) }
		c := openConsumer(t, cfg)
		goOn := make(chan struct{})
		hanging := DeserializerFunc[int](func(string, Headers, []byte) (int, error) { <-goOn; return 0, nil })
		messages := Typed(c, Bytes, hanging).Messages(t.Context())
		time.Sleep(10 * time.Second)
		time.AfterFunc(time.Minute, func() { close(goOn) })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, c.Close(ctx), context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(began))
		for range messages {
		}
	})
}

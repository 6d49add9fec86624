package kafka

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

// closeSoon closes c with a bound of 2 s and requires that to take at most 3 s.
func closeSoon(t *testing.T, c *Consumer) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	began := time.Now()
	err := c.Close(ctx)
	require.Less(t, time.Since(began), 3*time.Second)
	return err
}

// joiner returns a consumer in group g that is subscribed to t.
func joiner(t *testing.T, b *testbroker.Cluster, change func(*Config)) *Consumer {
	t.Helper()
	cfg := fast(b)
	cfg.GroupID, cfg.Topics = "g", []string{"t"}
	if change != nil {
		change(&cfg)
	}
	return openConsumer(t, cfg)
}

// beside runs fn on a goroutine and returns what receives its result.
func beside(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

// soon requires a result within a second.
func soon(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Second):
		require.Fail(t, "the call goes on")
		return nil
	}
}

func pollForever(t *testing.T, c *Consumer) func() error {
	return func() error {
		for {
			if _, err := c.Poll(t.Context(), -1); err != nil {
				return err
			}
		}
	}
}

// B42
func TestCloseDuringPoll(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		for name, hold := range map[string]bool{"idle": false, "joining": true} {
			if hold {
				b.On(keyJoinGroup).Delay(20 * time.Second)
			}
			c := joiner(t, b, nil)
			poll := beside(pollForever(t, c))
			time.Sleep(time.Second)
			require.NoError(t, closeSoon(t, c), name)
			err := soon(t, poll)
			require.ErrorIs(t, err, ErrClosed, name)
			require.ErrorIs(t, err, net.ErrClosed, name)
			_, err = c.Poll(t.Context(), 0)
			require.ErrorIs(t, err, ErrClosed, name)
		}
	})
}

// B42
func TestCloseOfANodeThatNeverAnswers(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		c := joiner(t, b, func(cfg *Config) { cfg.DisableAutoCommit = false })
		pollN(t, c, 5)
		_, err := c.Poll(t.Context(), 0)
		require.NoError(t, err)
		b.FreezeConns(1)
		b.HangDials(1, true)
		poll := beside(pollForever(t, c))
		synctest.Wait()
		require.Error(t, closeSoon(t, c))
		require.ErrorIs(t, soon(t, poll), ErrClosed)
	})
}

// B42
func TestCloseInsideTheListener(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		var calls []string
		c := joiner(t, b, func(cfg *Config) {
			cfg.RebalanceListener = RebalanceListener{
				OnAssigned: func(ctx context.Context, c *Consumer, _ []TopicPartition) error {
					calls = append(calls, "assigned")
					require.NoError(t, c.Close(ctx))
					require.NoError(t, c.Close(ctx))
					return nil
				},
				OnRevoked: func(ctx context.Context, c *Consumer, _ []TopicPartition) error {
					calls = append(calls, "revoked")
					require.NoError(t, c.Close(ctx))
					return nil
				},
			}
		})
		_, err := c.Poll(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, []string{"assigned", "revoked"}, calls)
		require.NoError(t, c.Close(t.Context()))
		require.Empty(t, b.Group("g").Members)
	})
}

// B42
func TestCloseInsideTheListenerOfUnsubscribe(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		var calls int
		c := joiner(t, b, func(cfg *Config) {
			cfg.RebalanceListener.OnRevoked = func(ctx context.Context, c *Consumer, _ []TopicPartition) error {
				calls++
				return c.Close(ctx)
			}
		})
		pollN(t, c, 5)
		require.NoError(t, c.Unsubscribe(t.Context()))
		require.Equal(t, 1, calls)
		requireEnded(t, c)
	})
}

// requireEnded requires that c was closed to its end.
func requireEnded(t *testing.T, c *Consumer) {
	t.Helper()
	select {
	case <-c.closed:
	default:
		require.Fail(t, "the consumer was not closed")
	}
}

// B42
func TestCloseInsideACommitCallback(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		for _, run := range []func(*Consumer) error{
			func(c *Consumer) error { return c.Commit(t.Context()) },
			func(c *Consumer) error { _, err := c.Poll(t.Context(), time.Second); return err },
		} {
			c := joiner(t, b, nil)
			pollN(t, c, 5)
			called := false
			require.NoError(t, c.CommitAsync(map[TopicPartition]OffsetAndMetadata{tp0: {Offset: 0}}, func(ctx context.Context, _ map[TopicPartition]OffsetAndMetadata, err error) {
				called = true
				require.NoError(t, err)
				require.NoError(t, c.Close(ctx))
			}))
			synctest.Wait()
			if err := run(c); err != nil {
				require.ErrorIs(t, err, ErrClosed)
			}
			require.True(t, called)
			requireEnded(t, c)
			b.DropCommitted("g", "t")
		}
	})
}

// B42
func TestCloseFromTwoGoroutines(t *testing.T) {
	for _, held := range []bool{false, true} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			produce(b, "t", 0, 5)
			c := joiner(t, b, func(cfg *Config) { cfg.DisableAutoCommit = false })
			pollN(t, c, 5)
			if held {
				b.On(testbroker.AnyKey).Drop()
			}
			poll := beside(pollForever(t, c))
			synctest.Wait()
			var closes sync.WaitGroup
			for range 4 {
				closes.Go(func() { _ = closeSoon(t, c) })
			}
			closes.Wait()
			require.ErrorIs(t, soon(t, poll), ErrClosed)
		})
	}
}

// B42
func TestCloseWhileIterating(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		for _, quiet := range []bool{false, true} {
			c := joiner(t, b, nil)
			got := 0
			for _, err := range c.Records(t.Context()) { // in the loop
				require.NoError(t, err)
				if got++; got == 2 && !quiet {
					require.NoError(t, closeSoon(t, c))
				}
				if got == 5 {
					time.AfterFunc(time.Second, func() { _ = c.Close(context.Background()) })
				}
			}
			require.Equal(t, map[bool]int{false: 2, true: 5}[quiet], got)
			require.NoError(t, c.Close(t.Context()))
			requireEnded(t, c)
			for range c.Records(t.Context()) {
				require.Fail(t, "a record after Close")
			}
		}
	})
}

// B42
func TestCloseWhileAChannelIsOpen(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		for name, after := range map[string]int{"with nothing received": 0, "with a record on offer": 2, "waiting": 5} {
			c := joiner(t, b, nil)
			messages := c.Messages(t.Context())
			for range after {
				<-messages
			}
			if after == 5 {
				time.AfterFunc(time.Second, func() { _ = c.Close(context.Background()) })
			} else {
				time.Sleep(time.Second)
				require.NoError(t, closeSoon(t, c), name)
			}
			_, open := <-messages
			require.False(t, open, name)
			require.NoError(t, c.Err(), name)
		}
	})
}

// B42
func TestCloseDuringCommit(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		c := joiner(t, b, nil)
		pollN(t, c, 5)
		b.On(keyOffsetCommit).Delay(20 * time.Second)
		commit := beside(func() error { return c.Commit(t.Context()) })
		b.WaitRequest(keyOffsetCommit, 1, time.Second)
		_ = closeSoon(t, c)
		require.ErrorIs(t, soon(t, commit), ErrClosed)
	})
}

// B42
func TestCloseWhileACallbackHangs(t *testing.T) {
	for _, channel := range []bool{false, true} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			entered, leave := make(chan struct{}), make(chan struct{})
			c := joiner(t, b, func(cfg *Config) {
				cfg.RebalanceListener.OnAssigned = func(context.Context, *Consumer, []TopicPartition) error {
					close(entered)
					<-leave
					return nil
				}
			})
			ended := make(chan error, 1)
			if channel {
				messages := c.Messages(t.Context())
				go func() {
					for range messages {
					}
					ended <- ErrClosed
				}()
			} else {
				go func() { ended <- pollForever(t, c)() }()
			}
			<-entered
			require.ErrorIs(t, closeSoon(t, c), context.DeadlineExceeded)
			close(leave)
			require.ErrorIs(t, soon(t, ended), ErrClosed)
		})
	}
}

// B42
func TestCloseReturnsTheErrorsOfItsDuties(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		failure := errors.New("the listener failed")
		c := joiner(t, b, func(cfg *Config) {
			cfg.DisableAutoCommit = false
			cfg.RebalanceListener.OnRevoked = func(ctx context.Context, c *Consumer, tps []TopicPartition) error {
				require.Equal(t, []TopicPartition{tp0}, tps)
				require.Error(t, c.Unsubscribe(ctx))
				_, err := c.Poll(ctx, 0)
				require.ErrorIs(t, err, ErrInCallback)
				_, err = c.Position(ctx, tp0)
				require.NoError(t, err)
				require.NoError(t, c.Commit(ctx))
				return failure
			}
		})
		pollN(t, c, 5)
		b.On(keyLeaveGroup).Once().Fail(25)
		require.ErrorIs(t, c.Close(t.Context()), failure)
		require.NoError(t, c.Close(t.Context()), "the first one was told")
		require.EqualValues(t, 5, b.CommittedOffset("g", "t", 0))
	})
}

// B42
func TestUnsubscribeWhilePollWaits(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		c := joiner(t, b, nil)
		pollN(t, c, 5)
		poll := beside(pollForever(t, c))
		synctest.Wait()
		require.NoError(t, c.Unsubscribe(t.Context()))
		require.ErrorIs(t, soon(t, poll), ErrNotSubscribed)
		require.Empty(t, c.Assignment())
		require.Empty(t, b.Group("g").Members)
		require.NoError(t, c.Assign(tp0))
		require.Len(t, pollN(t, c, 5), 5)
	})
}

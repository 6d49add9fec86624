package kafka

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/stretchr/testify/require"
)

var tp1 = TopicPartition{Topic: "t", Partition: 1}

// corrupt puts a batch with a wrong checksum behind a partition's log.
func corrupt(b *testbroker.Cluster, partition int32) {
	b.AppendBatch("t", partition, batch.V2{Records: values(0), CRC: new(uint32(1))})
}

func TestReadersNameTheOtherOne(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := reader(t, fast(b), tp0)
		typed := Typed(c, String, String)
		readers := map[string]func(context.Context){
			"Poll": func(ctx context.Context) { _, _ = c.Poll(ctx, -1) },
			"Records": func(ctx context.Context) {
				for range c.Records(ctx) {
				}
			},
			"Messages": func(ctx context.Context) {
				for range c.Messages(ctx) {
				}
			},
			"TypedConsumer.Poll": func(ctx context.Context) { _, _ = typed.Poll(ctx, -1) },
			"TypedConsumer.Messages": func(ctx context.Context) {
				for range typed.Messages(ctx) {
				}
			},
		}
		for name, read := range readers {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); read(ctx) }()
			synctest.Wait()
			_, err := c.Poll(t.Context(), 0)
			require.ErrorIs(t, err, ErrConcurrentPoll)
			require.ErrorContains(t, err, name+" is running")
			for _, err := range c.Records(t.Context()) {
				require.ErrorIs(t, err, ErrConcurrentPoll)
				require.ErrorContains(t, err, name+" is running")
			}
			cancel()
			<-done
			_, err = c.Poll(t.Context(), 0)
			require.NoError(t, err, "after %s", name)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		open := c.Messages(ctx)
		_, more := <-c.Messages(t.Context())
		require.False(t, more)
		require.ErrorIs(t, c.Err(), ErrConcurrentPoll)
		cancel()
		for range open {
		}
		require.ErrorIs(t, c.Err(), context.Canceled)
	})
}

func TestReadingBeforeAnySubscription(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := openConsumer(t, fast(b))
		_, err := c.Poll(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrNotSubscribed)
		n := 0
		for _, err := range c.Records(t.Context()) {
			require.ErrorIs(t, err, ErrNotSubscribed)
			n++
		}
		require.Equal(t, 1, n, "it comes last")
		for range c.Messages(t.Context()) {
			require.Fail(t, "a record of nothing")
		}
		require.ErrorIs(t, c.Err(), ErrNotSubscribed)
	})
}

func TestPollOfWhatIsBuffered(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		c := reader(t, fast(b), tp0)
		began := time.Now()
		early, err := c.Poll(t.Context(), 0) // the fetch may have been that quick
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		time.Sleep(time.Second)
		records, err := c.Poll(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, 5, early.Len()+records.Len())
		require.Zero(t, time.Since(began)-time.Second)
	})
}

func TestPollWithAnEndedContextHandsNothingOver(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		c := reader(t, fast(b), tp0)
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 3 {
			_, err := c.Poll(ctx, time.Second)
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Zero(t, position(t, c, tp0))
		require.Equal(t, span(0, 4), offsetsOf(pollN(t, c, 5)))
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Poll(ctx, -1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestFaultComesOnceAndThenWhenNothingElseDoes(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		corrupt(b, 0)
		c := reader(t, fast(b), tp0, tp1)
		require.Equal(t, span(0, 2), offsetsOf(pollN(t, c, 3)))
		fault := func(err error) {
			t.Helper()
			requireCorruptAt(t, err, 3)
		}
		began := time.Now()
		_, err := c.Poll(t.Context(), 10*time.Second)
		fault(err)
		require.Less(t, time.Since(began), time.Second, "at once")

		began = time.Now()
		_, err = c.Poll(t.Context(), 3*time.Second)
		fault(err)
		require.Equal(t, 3*time.Second, time.Since(began), "then when the timeout passed")

		produce(b, "t", 1, 2)
		require.Len(t, pollN(t, c, 2), 2, "the others go on")

		began = time.Now()
		_, err = c.Poll(t.Context(), -1)
		fault(err)
		require.InDelta(t, time.Second, time.Since(began), float64(100*time.Millisecond))

		require.NoError(t, c.Pause(tp0))
		records, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err, "not while it is paused")
		require.Zero(t, records.Len())
		require.NoError(t, c.Resume(tp0))
		_, err = c.Poll(t.Context(), time.Second)
		fault(err)
		require.NoError(t, c.Seek(tp0, 4))
		produce(b, "t", 0, 1)
		require.Equal(t, []int64{4}, offsetsOf(pollN(t, c, 1)))
	})
}

func TestIterationGoesOnBehindAFault(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		corrupt(b, 0)
		cfg := fast(b)
		cfg.ConsumerTimeout = 5 * time.Second
		c := reader(t, cfg, tp0, tp1)
		var got, faults int
		for r, err := range c.Records(t.Context()) {
			if err != nil {
				requireCorruptAt(t, err, 3)
				faults++
				produce(b, "t", 1, 3)
				continue
			}
			require.Equal(t, faults > 0, r.Partition == 1)
			got++
		}
		require.Equal(t, 6, got)
		require.Equal(t, 1, faults)
	})
}

func TestEndedContextIsTheLastOfAnIteration(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.Produce("t", 0, make([]testbroker.Record, 10)...)
		c := reader(t, fast(b), tp0)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []int64
		var errs []error
		for r, err := range c.Records(ctx) {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if got = append(got, r.Offset); len(got) == 3 {
				cancel()
			}
		}
		require.Equal(t, span(0, 2), got, "nothing behind the end of the context")
		require.Equal(t, []error{context.Canceled}, errs)
		require.Equal(t, span(3, 9), offsetsOf(pollN(t, c, 7)))
	})
}

func TestSilentEndsOfIterations(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		cfg := fast(b)
		cfg.ConsumerTimeout = 2 * time.Second
		c := reader(t, cfg, tp0)
		for range 2 {
			began := time.Now()
			for _, err := range c.Records(t.Context()) {
				require.NoError(t, err)
			}
			require.InDelta(t, 2*time.Second, time.Since(began), float64(time.Second/2))
		}
		cfg.ConsumerTimeout = -1
		c2 := reader(t, cfg, tp0)
		time.Sleep(time.Second)
		n := 0
		for _, err := range c2.Records(t.Context()) {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, 5, n, "negative: what is buffered")
	})
}

func TestRecordThatNobodyTookComesFirst(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.Produce("t", 0, make([]testbroker.Record, 20)...)
		c := reader(t, fast(b), tp0)
		next := int64(0)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			messages := c.Messages(ctx)
			require.Equal(t, next, (<-messages).Offset)
			require.Equal(t, next+1, position(t, c, tp0))
			time.Sleep(time.Second) // the next one is on offer
			require.Equal(t, next+1, position(t, c, tp0))
			cancel()
			synctest.Wait()
			for range messages {
				require.Fail(t, "a record behind the end of the context")
			}
			require.ErrorIs(t, c.Err(), context.Canceled)
			next++
			records, err := c.PollMax(t.Context(), time.Second, 1)
			require.NoError(t, err)
			require.Equal(t, next, records.At(0).Offset)
			next++
			for r, err := range c.Records(t.Context()) {
				require.NoError(t, err)
				require.Equal(t, next, r.Offset)
				break
			}
			next++
		}
	})
}

func TestRecordOnOfferIsWithdrawn(t *testing.T) {
	for _, tc := range []struct {
		name     string
		withdraw func(ctx context.Context, c *Consumer) error
		want     int64 // of the next record; -1: none comes
		part     int32
	}{
		{"by a seek", func(_ context.Context, c *Consumer) error { return c.Seek(tp0, 7) }, 7, 0},
		{"by SeekToEnd", func(_ context.Context, c *Consumer) error { return c.SeekToEnd() }, -1, 0},
		{"by a pause", func(_ context.Context, c *Consumer) error { return c.Pause(tp0) }, -1, 0},
		{"by an assignment", func(_ context.Context, c *Consumer) error { return c.Assign(tp1) }, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
				b.Produce("t", 0, make([]testbroker.Record, 20)...)
				c := reader(t, fast(b), tp0)
				if tc.part == 1 {
					b.Produce("t", 1, make([]testbroker.Record, 5)...)
				}
				messages := c.Messages(t.Context())
				<-messages
				time.Sleep(time.Second)
				require.NoError(t, tc.withdraw(t.Context(), c))
				select {
				case r := <-messages:
					require.Equal(t, tc.want, r.Offset)
					require.Equal(t, tc.part, r.Partition)
				case <-time.After(time.Second):
					require.EqualValues(t, -1, tc.want)
				}
			})
		})
	}
}

func TestUnsubscribeWithARecordOnOffer(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.Produce("t", 0, make([]testbroker.Record, 5)...)
		c := joiner(t, b, autoCommitting)
		messages := c.Messages(t.Context())
		<-messages
		time.Sleep(time.Second)
		require.NoError(t, c.Unsubscribe(t.Context()))
		_, open := <-messages
		require.False(t, open)
		require.ErrorIs(t, c.Err(), ErrNotSubscribed)
	})
}

func TestChannelEndsWithAFault(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		corrupt(b, 0)
		c := reader(t, fast(b), tp0)
		n := 0
		for range c.Messages(t.Context()) {
			if n++; n < 3 { // it may end while the last record is looked at
				require.NoError(t, c.Err(), "nil while it is open")
			}
		}
		require.Equal(t, 3, n)
		requireCorruptAt(t, c.Err(), 3)
	})
}

func TestPausedRecordsAreKept(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.Produce("t", 0, make([]testbroker.Record, 20)...)
		c := reader(t, fast(b), tp0)
		pollExactly(t, c, 5)
		time.Sleep(time.Second)
		require.NoError(t, c.Pause(tp0))
		require.Equal(t, []TopicPartition{tp0}, c.Paused())
		time.Sleep(time.Second)
		b.ForgetRequests()
		require.NoError(t, c.Resume(tp0))
		records, err := c.Poll(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, 15, records.Len())
		time.Sleep(time.Second)
		for _, o := range fetchedOffsets(b, 0) {
			require.EqualValues(t, 20, o, "nothing is fetched again")
		}
		require.ErrorIs(t, c.Pause(tp1), ErrNotAssigned)
		require.ErrorIs(t, c.Resume(tp0, tp1), ErrNotAssigned)
		require.Empty(t, c.Paused())
	})
}

// number is a Deserializer that takes digits.
var number = DeserializerFunc[int](func(_ string, _ Headers, data []byte) (int, error) {
	if len(data) != 1 || data[0] < '0' || data[0] > '9' {
		return 0, errors.New("not a digit")
	}
	return int(data[0] - '0'), nil
})

func TestTypedReadersGoOnBehindARecordThatDoesNotDecode(t *testing.T) {
	read := map[string]func(*testing.T, *TypedConsumer[string, int]) (got []int, failed []int64){
		"Poll": func(t *testing.T, c *TypedConsumer[string, int]) (got []int, failed []int64) {
			for len(got) < 4 {
				records, err := c.Poll(t.Context(), time.Second)
				if err != nil {
					require.Equal(t, failedAt(t, err)+1, position(t, c.Consumer(), tp0))
					failed = append(failed, failedAt(t, err))
					continue
				}
				for r := range records.All() {
					got = append(got, r.Value)
				}
			}
			return got, failed
		},
		"Records": func(t *testing.T, c *TypedConsumer[string, int]) (got []int, failed []int64) {
			for r, err := range c.Records(t.Context()) {
				if err != nil {
					require.Equal(t, failedAt(t, err)+1, position(t, c.Consumer(), tp0))
					failed = append(failed, failedAt(t, err))
					continue
				}
				if got = append(got, r.Value); len(got) == 4 {
					break
				}
			}
			return got, failed
		},
		"Messages": func(t *testing.T, c *TypedConsumer[string, int]) (got []int, failed []int64) {
			for len(got) < 4 {
				for r := range c.Messages(t.Context()) {
					if got = append(got, r.Value); len(got) == 4 {
						return got, failed
					}
				}
				failed = append(failed, failedAt(t, c.Err()))
			}
			return got, failed
		},
	}
	for name, read := range read {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				b.ProduceValues("t", 0, "1", "2", "x", "y", "3", "4")
				c := reader(t, fast(b), tp0)
				got, failed := read(t, Typed(c, String, Deserializer[int](number)))
				require.Equal(t, []int{1, 2, 3, 4}, got)
				require.Equal(t, []int64{2, 3}, failed)
			})
		})
	}
}

func failedAt(t *testing.T, err error) int64 {
	t.Helper()
	var failed *DeserializationError
	require.ErrorAs(t, err, &failed)
	require.False(t, failed.IsKey)
	var at *PartitionError
	require.ErrorAs(t, err, &at)
	require.Equal(t, tp0, at.TopicPartition())
	return failed.Offset
}

func TestCallbacksRunOneAtATime(t *testing.T) {
	bubble(t, 4, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		var running atomic.Int32
		enter := func() {
			require.EqualValues(t, 1, running.Add(1))
			time.Sleep(50 * time.Millisecond)
			running.Add(-1)
		}
		c := joiner(t, b, func(cfg *Config) {
			autoCommitting(cfg)
			cfg.OnCommit = func(map[TopicPartition]OffsetAndMetadata, error) { enter() }
			listen := func(context.Context, *Consumer, []TopicPartition) error { enter(); return nil }
			cfg.RebalanceListener = RebalanceListener{OnRevoked: listen, OnAssigned: listen}
		})
		poll := beside(pollForever(t, c))
		var commits sync.WaitGroup
		for i := range 3 {
			commits.Go(func() {
				for range 20 {
					_ = c.CommitAsync(nil, func(context.Context, map[TopicPartition]OffsetAndMetadata, error) { enter() })
					_ = c.Commit(t.Context())
					time.Sleep(time.Duration(i) * 37 * time.Millisecond)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, c.EnforceRebalance("a test"))
		commits.Wait()
		require.NoError(t, c.Close(t.Context()))
		require.ErrorIs(t, soon(t, poll), ErrClosed)
	})
}

func TestErrorOfAListenerComesFromTheCallThatRanIt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		failure := errors.New("the listener failed")
		c := joiner(t, b, func(cfg *Config) {
			cfg.RebalanceListener.OnAssigned = func(context.Context, *Consumer, []TopicPartition) error { return failure }
		})
		_, err := c.Poll(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, failure)
		require.Equal(t, []TopicPartition{tp0}, c.Assignment(), "the step is complete")
		require.Len(t, pollN(t, c, 5), 5)
	})
}

func TestRecordsBesideAnErrorAreEmpty(t *testing.T) {
	var records *Records
	require.Zero(t, records.Len())
	for range records.All() {
		t.Fatal("there is none")
	}
	for range records.Partition(tp0) {
		t.Fatal("there is none")
	}
	require.Empty(t, records.Partitions())
	require.Empty(t, records.NextOffsets())
	records.Release()

	var typed *TypedRecords[string, string]
	require.Zero(t, typed.Len())
	for range typed.All() {
		t.Fatal("there is none")
	}
	require.Empty(t, typed.NextOffsets())
	typed.Release()
}

package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchEvents collects events, which come on a goroutine of their own.
type fetchEvents struct {
	mu     sync.Mutex
	events []Event
}

func (f *fetchEvents) add(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
}

// ofKind returns the events of one kind, once everything in the bubble is quiet.
func ofKind[T Event](f *fetchEvents) (of []T) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if t, ok := e.(T); ok {
			of = append(of, t)
		}
	}
	return of
}

func tpAt(partition int32) TopicPartition { return TopicPartition{Topic: "t", Partition: partition} }

// holdDecoding has the consumer's decoders wait until release is called.
func holdDecoding(t *testing.T, c *Consumer) (release func()) {
	t.Helper()
	held, ended := context.WithCancel(t.Context())
	c.fetcher.beforeDecoding = func() { <-held.Done() }
	t.Cleanup(ended) // before the consumer is closed
	return ended
}

// fetchOf returns what a logged Fetch asked of a partition, nil if nothing.
func fetchOf(r testbroker.Request, partition int32) *kmsg.FetchRequestTopicPartition {
	for _, topic := range r.Message.(*kmsg.FetchRequest).Topics {
		for i := range topic.Partitions {
			if topic.Partitions[i].Partition == partition {
				return &topic.Partitions[i]
			}
		}
	}
	return nil
}

func TestNextFetchIsOnItsWayBeforeDecodingAndPolling(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.AppendBatch("t", 0, batch.V2{Codec: batch.Gzip, Records: values(0, 1, 2, 3, 4, 5, 6)})
		c := openConsumer(t, fast(b))
		release := holdDecoding(t, c)
		require.NoError(t, c.Assign(tp0))
		require.True(t, b.WaitRequest(keyFetch, 2, time.Second))
		require.EqualValues(t, []int64{0, 7}, fetchedOffsets(b, 0)[:2])
		b.AppendBatch("t", 0, batch.V2{Records: values(0, 1, 2)})
		require.True(t, b.WaitRequest(keyFetch, 3, time.Second))
		synctest.Wait()
		asked := fetchedOffsets(b, 0)
		require.EqualValues(t, 10, asked[len(asked)-1])
		release()
		require.Equal(t, span(0, 9), offsetsOf(pollN(t, c, 10)))
	})
}

func TestFullBufferHoldsTheNextFetchUntilAPoll(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		for range 4 {
			b.AppendBatch("t", 0, batch.V2{Records: []batch.Record{{Value: make([]byte, 1<<20)}}})
		}
		cfg := fast(b)
		cfg.MaxBufferedBytes, cfg.FetchMaxBytes, cfg.MaxPartitionFetchBytes = 1<<20, 1<<20, 1<<20
		c := reader(t, cfg, tp0)
		time.Sleep(5 * time.Second)
		require.Equal(t, []int64{0}, fetchedOffsets(b, 0))
		require.Equal(t, 1, b.Count(keyFetch))
		records, err := c.Poll(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, 1, records.Len())
		synctest.Wait()
		require.Equal(t, []int64{0, 1}, fetchedOffsets(b, 0), "one Poll later it is on the wire")
		require.Len(t, pollN(t, c, 3), 3)
	})
}

// newlyFetchable makes partition 0 fetchable while the broker holds a long poll for
// partition 1.
func newlyFetchable(t *testing.T, start func(*Consumer), fresh func(*Consumer)) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		cfg := fast(b)
		cfg.FetchMaxWait, cfg.RequestTimeout = 30*time.Second, 40*time.Second
		c := openConsumer(t, cfg)
		start(c)
		_, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		time.Sleep(time.Second)
		began := time.Now()
		fresh(c)
		got := pollN(t, c, 10)
		require.Equal(t, span(0, 9), offsetsOf(got))
		require.Less(t, time.Since(began), 100*time.Millisecond)

		// More comes while the long poll is still held: asked for again and again.
		for next := int64(10); next < 13; next++ {
			time.Sleep(2 * time.Second)
			produced := time.Now()
			produce(b, "t", 0, 1)
			require.Equal(t, []int64{next}, offsetsOf(pollN(t, c, 1)))
			require.LessOrEqual(t, time.Since(produced), 600*time.Millisecond)
		}
		// The idle partition is served by the long poll itself.
		produce(b, "t", 1, 1)
		require.Equal(t, []int64{0}, offsetsOf(pollN(t, c, 1)))
		require.Less(t, b.Count(keyFetch), 60)

		for _, r := range b.Requests(keyFetch) { // in one request at a time
			if q := r.Message.(*kmsg.FetchRequest); q.SessionEpoch == -1 {
				require.Zero(t, q.MaxWaitMillis)
				require.Zero(t, q.SessionID)
				require.LessOrEqual(t, q.MaxBytes, int32(1<<20))
			}
		}
	})
}

func TestNewlyFetchablePartitionDoesNotWaitForTheLongPoll(t *testing.T) {
	t.Run("after a seek", func(t *testing.T) {
		newlyFetchable(t, func(c *Consumer) {
			require.NoError(t, c.Assign(tp0, tpAt(1)))
			require.NoError(t, c.SeekToEnd(tp0))
		}, func(c *Consumer) { require.NoError(t, c.SeekToBeginning(tp0)) })
	})
	t.Run("after a resume", func(t *testing.T) {
		newlyFetchable(t, func(c *Consumer) {
			require.NoError(t, c.Assign(tp0, tpAt(1)))
			require.NoError(t, c.Pause(tp0))
		}, func(c *Consumer) { require.NoError(t, c.Resume(tp0)) })
	})
	t.Run("after an assignment", func(t *testing.T) {
		newlyFetchable(t, func(c *Consumer) { require.NoError(t, c.Assign(tpAt(1))) },
			func(c *Consumer) { require.NoError(t, c.Assign(tp0, tpAt(1))) })
	})
}

// A partition that fills its share leaves the requests; its records must not wait for a
// long poll of the idle ones.
func TestBusyPartitionDoesNotWaitForIdleOnes(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		for range 40 {
			b.AppendBatch("t", 0, batch.V2{Records: []batch.Record{{Value: make([]byte, 50_000)}}})
		}
		cfg := fast(b)
		cfg.FetchMaxWait, cfg.RequestTimeout = 10*time.Second, 20*time.Second
		cfg.MaxPartitionFetchBytes = 100_000
		c := reader(t, cfg, tp0, tpAt(1))
		began := time.Now()
		require.Equal(t, span(0, 39), offsetsOf(pollN(t, c, 40)))
		require.Less(t, time.Since(began), 2*time.Second)
	})
}

func TestThrottledFetchIsNotSpedUpBesideIt(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		throttle := b.On(keyFetch).Once().Edit(func(_ testbroker.Request, resp kmsg.Response) {
			resp.(*kmsg.FetchResponse).ThrottleMillis = 2000
		})
		c := reader(t, fast(b), tp0, tpAt(1))
		require.Len(t, pollN(t, c, 10), 10)
		require.Equal(t, 1, throttle.Used())
		before := b.Count(keyFetch)
		require.NoError(t, c.Seek(tp0, 0))
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, before, b.Count(keyFetch))
		require.Len(t, pollN(t, c, 10), 10)
	})
}

// B41
func TestSessionErrorsAreFollowedByAFullFetch(t *testing.T) {
	for _, code := range []int16{70, 71, 106} {
		for _, times := range []int{1, 5} {
			t.Run(fmt.Sprintf("code %d, %d times", code, times), func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
					produce(b, "t", 0, 5)
					c := reader(t, fast(b), tp0, tpAt(1))
					pollN(t, c, 5)
					time.Sleep(time.Second) // until neither is asked for beside the session
					inSession := func(r testbroker.Request) bool { return r.Message.(*kmsg.FetchRequest).SessionEpoch >= 0 }
					bad := b.On(keyFetch).Times(times).When(inSession).Reply(func(kmsg.Request) kmsg.Response {
						if code == 70 {
							b.DropSessions(1)
						}
						resp := kmsg.NewPtrFetchResponse()
						resp.ErrorCode = code
						return resp
					})
					require.True(t, bad.WaitUsed(1, time.Second))
					began := time.Now()
					produce(b, "t", 0, 1)
					produce(b, "t", 1, 1)
					require.Len(t, pollN(t, c, 2), 2)
					require.Less(t, time.Since(began), time.Second)
					require.Equal(t, times, bad.Used())
					requests := slices.DeleteFunc(b.Requests(keyFetch), func(r testbroker.Request) bool {
						return r.Message.(*kmsg.FetchRequest).SessionEpoch != 0
					})
					require.Len(t, requests, 1+times)
					for _, r := range requests[1:] { // the first may have been before both were found
						require.NotNil(t, fetchOf(r, 0))
						require.NotNil(t, fetchOf(r, 1))
					}
					require.Equal(t, 1, b.Sessions(1))
				})
			})
		}
	}
}

// B41
func TestOneSessionPerConsumerAndBroker(t *testing.T) {
	bubble(t, 6, func(t *testing.T, b *testbroker.Cluster) {
		var all []TopicPartition
		for i := range int32(6) {
			all = append(all, tpAt(i))
		}
		c := reader(t, fast(b), all...)
		for i := range 50 {
			for p := range int32(6) {
				produce(b, "t", p, 1)
			}
			pollN(t, c, 6)
			if i%10 == 0 {
				require.NoError(t, c.SeekToBeginning(tp0))
				pollN(t, c, i+1)
			}
		}
		require.Equal(t, 1, b.Sessions(1))
		require.Equal(t, 1, b.Sessions(2))
		full := 0
		for _, r := range b.Requests(keyFetch) {
			if r.Message.(*kmsg.FetchRequest).SessionEpoch == 0 {
				full++
			}
		}
		require.Equal(t, 2, full)
		require.NoError(t, c.Close(t.Context()))
		require.Zero(t, b.Sessions(1))
		require.Zero(t, b.Sessions(2))
	}, testbroker.WithNodes(2))
}

// B41
func TestPartitionsThatLeaveTheSessionAreForgotten(t *testing.T) {
	bubble(t, 4, func(t *testing.T, b *testbroker.Cluster) {
		c := reader(t, fast(b), tp0, tpAt(1), tpAt(2))
		_, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		require.NoError(t, c.Assign(tp0, tpAt(1), tpAt(3)))
		require.NoError(t, c.Pause(tpAt(1)))
		time.Sleep(time.Second)
		for p := range int32(4) {
			produce(b, "t", p, 3)
		}
		for _, r := range pollN(t, c, 6) {
			require.Contains(t, []int32{0, 3}, r.Partition)
		}
		var forgotten []int32
		for _, r := range b.Requests(keyFetch) {
			for _, topic := range r.Message.(*kmsg.FetchRequest).ForgottenTopics {
				forgotten = append(forgotten, topic.Partitions...)
			}
		}
		require.ElementsMatch(t, []int32{1, 2}, forgotten)
		require.NoError(t, c.Resume(tpAt(1)))
		require.Len(t, pollN(t, c, 3), 3)
	})
}

// Half of all requests find their session gone, as a small cache at the broker makes it.
func TestSessionsEvictedByTheBroker(t *testing.T) {
	bubble(t, 3, func(t *testing.T, b *testbroker.Cluster) {
		c := reader(t, fast(b), tp0, tpAt(1), tpAt(2))
		for i := range int64(30) {
			if i%2 == 0 {
				b.DropSessions(1)
			}
			for p := range int32(3) {
				produce(b, "t", p, 1)
			}
			for _, r := range pollN(t, c, 3) {
				require.Equal(t, i, r.Offset)
			}
		}
	})
}

package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// seekRounds is how often a race of a seek is tried, each time with other waits.
const seekRounds = 200

// jitter waits a random while of the bubble's clock, or until all is quiet, or not.
func jitter(rnd *rand.Rand, limit time.Duration) {
	switch rnd.IntN(4) {
	case 0:
	case 1:
		synctest.Wait()
	default:
		time.Sleep(time.Duration(rnd.Int64N(int64(limit))))
	}
}

// readTo polls until the position is offset.
func readTo(t *testing.T, c *Consumer, offset int64) {
	t.Helper()
	for position(t, c, tp0) < offset {
		left := offset - position(t, c, tp0)
		_, err := c.PollMax(t.Context(), time.Second, int(left))
		require.NoError(t, err)
	}
	require.Equal(t, offset, position(t, c, tp0))
}

// requireNext polls and requires the next record to be the one at offset, and the
// position to be there until it came.
func requireNext(t *testing.T, c *Consumer, offset int64) {
	t.Helper()
	require.Equal(t, offset, position(t, c, tp0))
	records, err := c.PollMax(t.Context(), 10*time.Second, 1)
	require.NoError(t, err)
	require.Equal(t, 1, records.Len())
	require.Equal(t, offset, records.At(0).Offset)
}

// B12
func TestSeekIsNotUndoneByAPause(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 100)
		rnd := rand.New(rand.NewPCG(1, 2))
		c := reader(t, fast(b), tp0)
		for range seekRounds {
			readTo(t, c, 50)
			jitter(rnd, 200*time.Millisecond)
			require.NoError(t, c.Seek(tp0, 0))
			jitter(rnd, 50*time.Millisecond)
			require.NoError(t, c.Pause(tp0))
			records, err := c.Poll(t.Context(), time.Duration(rnd.IntN(200))*time.Millisecond)
			require.NoError(t, err)
			require.Zero(t, records.Len())
			require.Zero(t, position(t, c, tp0))
			require.NoError(t, c.Resume(tp0))
			requireNext(t, c, 0)
		}
	})
}

// B12
func TestSeekVoidsAFetchOnItsWay(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule func(*testbroker.Rule)
	}{
		{"of records", func(*testbroker.Rule) {}},
		{"out of range", func(r *testbroker.Rule) { r.Fail(1) }},
		{"not leader", func(r *testbroker.Rule) { r.Fail(6) }},
		{"corrupt", func(r *testbroker.Rule) { r.Fail(2) }},
		{"with another high watermark", func(r *testbroker.Rule) {
			r.Edit(func(_ testbroker.Request, resp kmsg.Response) {
				for i := range resp.(*kmsg.FetchResponse).Topics {
					resp.(*kmsg.FetchResponse).Topics[i].Partitions[0].HighWatermark = 1000
				}
			})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) { seekDuringFetch(t, b, tc.rule) })
		})
	}
}

func seekDuringFetch(t *testing.T, b *testbroker.Cluster, shape func(*testbroker.Rule)) {
	rnd := rand.New(rand.NewPCG(3, 4))
	produce(b, "t", 0, 50)
	c := reader(t, fast(b), tp0)
	for i := range seekRounds {
		end := b.EndOffset("t", 0)
		readTo(t, c, end)
		held := b.On(keyFetch).Once().Hold()
		shape(held)
		require.True(t, held.WaitHeld(1, 5*time.Second))
		produce(b, "t", 0, 1)
		jitter(rnd, 300*time.Millisecond)
		to := int64(i % 50)
		require.NoError(t, c.Seek(tp0, to))
		if rnd.IntN(2) == 0 {
			time.AfterFunc(time.Duration(rnd.IntN(300))*time.Millisecond, held.Release)
		} else {
			held.Release()
			jitter(rnd, 300*time.Millisecond)
		}
		requireNext(t, c, to)
		highwater, known := c.Highwater(tp0)
		require.True(t, known)
		require.LessOrEqual(t, highwater, end+1)
		require.NoError(t, c.Seek(tp0, end+1))
		held.Remove()
	}
}

// B12
func TestSeekVoidsALookUpOnItsWay(t *testing.T) {
	for _, code := range []int16{0, 3, 29} {
		t.Run(fmt.Sprintf("answered with code %d", code), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 100)
				rnd := rand.New(rand.NewPCG(6, uint64(code)))
				cfg := fast(b)
				cfg.AutoOffsetReset = ResetLatest
				c := reader(t, cfg, tp0)
				for range seekRounds {
					readTo(t, c, 100)
					held := b.On(keyListOffsets).Once().Hold()
					if code != 0 {
						held.Fail(code)
					}
					require.NoError(t, c.Seek(tp0, 500)) // out of range: reset
					require.True(t, held.WaitHeld(1, 5*time.Second))
					jitter(rnd, 300*time.Millisecond)
					require.NoError(t, c.Seek(tp0, 0))
					jitter(rnd, 50*time.Millisecond)
					held.Release()
					jitter(rnd, 100*time.Millisecond)
					requireNext(t, c, 0)
				}
			})
		})
	}
}

// B12
func TestSeekToEndsIsNotUndone(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 100)
		b.SetLogStart("t", 0, 10)
		rnd := rand.New(rand.NewPCG(7, 8))
		c := reader(t, fast(b), tp0)
		for range seekRounds {
			readTo(t, c, 50)
			jitter(rnd, 200*time.Millisecond)
			require.NoError(t, c.SeekToEnd(tp0))
			jitter(rnd, 5*time.Millisecond)
			require.NoError(t, c.SeekToBeginning())
			jitter(rnd, 50*time.Millisecond)
			requireNext(t, c, 10)

			require.NoError(t, c.SeekToBeginning(tp0))
			jitter(rnd, 5*time.Millisecond)
			require.NoError(t, c.SeekToEnd())
			require.NoError(t, c.Pause(tp0))
			jitter(rnd, 50*time.Millisecond)
			require.NoError(t, c.Resume(tp0))
			require.EqualValues(t, 100, position(t, c, tp0))
			records, err := c.Poll(t.Context(), 50*time.Millisecond)
			require.NoError(t, err)
			require.Zero(t, records.Len())
			require.NoError(t, c.Seek(tp0, 20))
		}
	})
}

// B12
func TestSeekInsideTheListenerWins(t *testing.T) {
	for _, tc := range []struct {
		name string
		seek func(c *Consumer) error
		want int64
	}{
		{"by offset", func(c *Consumer) error { return c.Seek(tp0, 7) }, 7},
		{"to the beginning", func(c *Consumer) error { return c.SeekToBeginning() }, 0},
		{"to the end", func(c *Consumer) error { return c.SeekToEnd(tp0) }, 100},
		{"twice", func(c *Consumer) error { _ = c.SeekToEnd(); return c.Seek(tp0, 8) }, 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 100)
				b.SetCommitted("g", "t", 0, testbroker.CommittedOffset{Offset: 50, LeaderEpoch: -1})
				rnd := rand.New(rand.NewPCG(9, 10))
				for i := range seekRounds / 8 {
					b.On(keyOffsetFetch).Once().Delay(time.Duration(rnd.IntN(200)) * time.Millisecond)
					b.On(keyListOffsets).Once().Delay(time.Duration(rnd.IntN(200)) * time.Millisecond)
					cfg := fast(b)
					cfg.GroupID, cfg.Topics = "g", []string{"t"}
					var seen int64
					cfg.RebalanceListener.OnAssigned = func(ctx context.Context, c *Consumer, tps []TopicPartition) error {
						jitter(rnd, 300*time.Millisecond)
						err := tc.seek(c)
						jitter(rnd, 300*time.Millisecond)
						if i%2 == 0 {
							seen, _ = c.Position(ctx, tp0)
						} else {
							seen = tc.want
						}
						return err
					}
					c := openConsumer(t, cfg)
					records, err := c.PollMax(t.Context(), time.Second, 1)
					require.NoError(t, err)
					require.Equal(t, tc.want, seen)
					if tc.want == 100 {
						require.Zero(t, records.Len())
					} else {
						require.Equal(t, tc.want, records.At(0).Offset)
					}
					require.NoError(t, c.Close(t.Context()))
				}
			})
		})
	}
}

// B12
func TestSeekInALoopTakesEffectWithTheNextRecord(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 100)
		c := reader(t, fast(b), tp0)
		rnd := rand.New(rand.NewPCG(11, 12))
		want := int64(0)
		n := 0
		check := func(r Record) bool {
			require.Equal(t, want, r.Offset)
			require.Equal(t, want+1, position(t, c, tp0))
			want++
			if n++; n%5 == 0 || want == 100 {
				want = rnd.Int64N(100)
				require.NoError(t, c.Seek(tp0, want))
				require.Equal(t, want, position(t, c, tp0))
				jitter(rnd, 20*time.Millisecond)
			}
			return n < 2*seekRounds
		}
		for r, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			if !check(r) {
				break
			}
		}
		n = 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		messages := c.Messages(ctx)
		for check(<-messages) {
		}
		cancel()
		for range messages {
		}
	})
}

func TestSeekOfAllPartitionsNeedsOne(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := openConsumer(t, fast(b))
		seeks := map[string]func() error{
			"SeekToBeginning": func() error { return c.SeekToBeginning() },
			"SeekToEnd":       func() error { return c.SeekToEnd() },
			"SeekToTime":      func() error { return c.SeekToTime(t.Context(), time.Now()) },
		}
		for name, seek := range seeks {
			require.ErrorIs(t, seek(), ErrNotAssigned, name)
		}
		require.NoError(t, c.Assign(tp0))
		for name, seek := range seeks {
			require.NoError(t, seek(), name)
		}
		require.NoError(t, c.Close(t.Context()))
		for name, seek := range seeks {
			require.ErrorIs(t, seek(), ErrClosed, name)
		}
	})
}

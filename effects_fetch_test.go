package kafka

import (
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The tests in effects_….go show the difference that a field of Config makes to a user
// or on the wire, where no other test does; docs/parameters.md names the test of each.

// lastFetch returns the last Fetch that arrived.
func lastFetch(t *testing.T, b *testbroker.Cluster) *kmsg.FetchRequest {
	t.Helper()
	synctest.Wait()
	requests := b.Requests(keyFetch)
	require.NotEmpty(t, requests)
	return requests[len(requests)-1].Message.(*kmsg.FetchRequest)
}

func TestFetchMinBytesAreWaitedForUpToFetchMaxWait(t *testing.T) {
	for _, tt := range []struct {
		minBytes int32
		maxWait  time.Duration
		takes    time.Duration
	}{
		{0, 2 * time.Second, 0},
		{1000, 2 * time.Second, 2 * time.Second},
		{1000, 500 * time.Millisecond, 500 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(tt.minBytes, " ", tt.maxWait), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 1) // some 70 bytes
				cfg := fast(b)
				cfg.FetchMinBytes, cfg.FetchMaxWait = tt.minBytes, tt.maxWait
				began := time.Now()
				c := reader(t, cfg, tp0)
				require.Len(t, pollN(t, c, 1), 1)
				require.InDelta(t, tt.takes, time.Since(began), float64(100*time.Millisecond)) // metadata comes first
				require.Equal(t, max(tt.minBytes, 1), lastFetch(t, b).MinBytes)
				require.Equal(t, int32(tt.maxWait.Milliseconds()), lastFetch(t, b).MaxWaitMillis)
			})
		})
	}
}

// Outside of a bubble: an idle broker is then asked without a pause.
func TestNegativeFetchMinBytesAndFetchMaxWaitAreZero(t *testing.T) {
	realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 1)
		cfg := patient(fast(b))
		cfg.FetchMinBytes, cfg.FetchMaxWait = -1, -1
		c := reader(t, cfg, tp0)
		require.Len(t, pollN(t, c, 1), 1)
		require.NoError(t, c.Close(t.Context()))
		first := b.Requests(keyFetch)[0].Message.(*kmsg.FetchRequest)
		require.Zero(t, first.MinBytes)
		require.Zero(t, first.MaxWaitMillis)
	})
}

// Each partition has a batch of some 10 kB: of a small answer only the first comes.
func TestFetchMaxBytesBoundsAnAnswer(t *testing.T) {
	fetches := func(most int32) (n int) {
		bubble(t, 5, func(t *testing.T, b *testbroker.Cluster) {
			for p := range int32(5) {
				b.Produce("t", p, testbroker.Record{Value: make([]byte, 10_000)})
			}
			cfg := fast(b)
			cfg.FetchMaxBytes, cfg.FetchMaxWait = most, 2*time.Second
			c := reader(t, cfg, tpAt(0), tpAt(1), tpAt(2), tpAt(3), tpAt(4))
			require.Len(t, pollN(t, c, 5), 5)
			first := b.Requests(keyFetch)[0].Message.(*kmsg.FetchRequest)
			require.Equal(t, most, first.MaxBytes)
			n = b.Count(keyFetch)
		})
		return n
	}
	require.GreaterOrEqual(t, fetches(12_000), 5)
	require.LessOrEqual(t, fetches(1<<20), 2)
}

func TestMaxPartitionFetchBytesBoundsAPartition(t *testing.T) {
	fetches := func(most int32) (n int) {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			for range 5 {
				b.Produce("t", 0, testbroker.Record{Value: make([]byte, 10_000)})
			}
			cfg := fast(b)
			cfg.MaxPartitionFetchBytes, cfg.FetchMaxWait = most, 2*time.Second
			c := reader(t, cfg, tp0)
			require.Len(t, pollN(t, c, 5), 5)
			require.Equal(t, most, fetchOf(b.Requests(keyFetch)[0], 0).PartitionMaxBytes)
			n = b.Count(keyFetch)
		})
		return n
	}
	require.GreaterOrEqual(t, fetches(12_000), 5)
	require.LessOrEqual(t, fetches(1<<20), 2)
}

func TestMaxPollRecordsBoundsAPollNotAFetch(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		cfg := fast(b)
		cfg.MaxPollRecords, cfg.FetchMaxWait = 4, 2*time.Second
		c := reader(t, cfg, tp0)
		var sizes []int
		for i := range 3 {
			began := time.Now()
			records, err := c.Poll(t.Context(), time.Second)
			require.NoError(t, err)
			sizes = append(sizes, records.Len())
			require.True(t, i == 0 || time.Since(began) == 0, "the rest was there")
		}
		require.Equal(t, []int{4, 4, 2}, sizes)
		records, err := c.PollMax(t.Context(), 0, 3)
		require.NoError(t, err)
		require.Zero(t, records.Len())
	})
}

func TestSkipCRCCheckTakesWhatIsThere(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.AppendBatch("t", 0, batch.V2{Records: values(0, 1, 2), CRC: new(uint32(7))})
		c := reader(t, fast(b), tp0)
		_, err := c.Poll(t.Context(), 5*time.Second)
		corrupt := new(CorruptRecordError)
		require.ErrorAs(t, err, &corrupt)
		cfg := fast(b)
		cfg.SkipCRCCheck = true
		c = reader(t, cfg, tp0)
		require.Equal(t, span(0, 2), offsetsOf(pollN(t, c, 3)))
	})
}

func TestDisableFetchSessionsAsksForEverythingEachTime(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		bubble(t, 3, func(t *testing.T, b *testbroker.Cluster) {
			cfg := fast(b)
			cfg.DisableFetchSessions = disabled
			reader(t, cfg, tpAt(0), tpAt(1), tpAt(2))
			time.Sleep(time.Second)
			last := lastFetch(t, b)
			if disabled {
				require.EqualValues(t, 0, last.SessionID)
				require.EqualValues(t, -1, last.SessionEpoch)
				require.Len(t, last.Topics[0].Partitions, 3)
				require.Zero(t, b.Sessions(1))
				return
			}
			require.NotZero(t, last.SessionID)
			require.Empty(t, last.Topics, "nothing changed")
			require.Equal(t, 1, b.Sessions(1))
		})
	}
}

func TestAutoOffsetResetSaysWhereToBegin(t *testing.T) {
	for _, tt := range []struct {
		reset OffsetReset
		want  int64
	}{
		{ResetLatest, 3}, {OffsetReset{}, 3}, {ResetEarliest, 0}, {ResetByDuration(90 * time.Minute), 2}, {ResetNone, -1},
	} {
		t.Run(tt.reset.String(), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				for age := range 3 {
					b.Produce("t", 0, testbroker.Record{Timestamp: time.Now().Add(time.Duration(age-3) * time.Hour)})
				}
				cfg := fast(b)
				cfg.AutoOffsetReset = tt.reset
				c := reader(t, cfg, tp0)
				at, err := c.Position(t.Context(), tp0)
				if tt.want < 0 {
					none := new(NoOffsetForPartitionError)
					require.ErrorAs(t, err, &none)
					return
				}
				require.NoError(t, err)
				require.Equal(t, tt.want, at)
			})
		})
	}
}

func TestMetadataMaxAgeIsHowOldMetadataGets(t *testing.T) {
	for age, want := range map[time.Duration]int{time.Hour: 0, 10 * time.Second: 6, 2 * time.Second: 30, -1: 300} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			cfg := fast(b)
			cfg.MetadataMaxAge, cfg.RetryBackoff = age, 200*time.Millisecond
			reader(t, cfg, tp0)
			time.Sleep(5 * time.Second)
			b.ForgetRequests()
			time.Sleep(time.Minute)
			if age < 0 { // as often as RetryBackoff, which grows to RetryBackoffMax, allows
				require.Greater(t, b.Count(keyMetadata), 45)
				return
			}
			require.InDelta(t, want, b.Count(keyMetadata), 1, "%v", age)
		})
	}
}

func TestIncludeInternalTopicsLetsAPatternMatchThem(t *testing.T) {
	for _, include := range []bool{false, true} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			b.CreateTopic("__own_offsets", 1)
			cfg := fast(b)
			cfg.IncludeInternalTopics = include
			c := openConsumer(t, cfg)
			require.NoError(t, c.SubscribePattern(regexp.MustCompile(".*")))
			_, err := c.Poll(t.Context(), time.Second)
			require.NoError(t, err)
			want := []TopicPartition{tp0}
			if include {
				want = []TopicPartition{{Topic: "__own_offsets"}, tp0}
			}
			require.Equal(t, want, c.Assignment())
			require.NoError(t, c.Unsubscribe(t.Context()))
			require.NoError(t, c.Subscribe([]string{"__own_offsets"}), "named outright it works in any case")
			_, err = c.Poll(t.Context(), time.Second)
			require.NoError(t, err)
			require.Equal(t, []TopicPartition{{Topic: "__own_offsets"}}, c.Assignment())
		})
	}
}

func TestAllowAutoCreateTopicsLetsTheBrokerMakeThem(t *testing.T) {
	for _, allow := range []bool{false, true} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			cfg := fast(b)
			cfg.AllowAutoCreateTopics, cfg.Topics = allow, []string{"fresh"}
			c := openConsumer(t, cfg)
			_, err := c.Poll(t.Context(), 3*time.Second)
			require.NoError(t, err)
			if !allow {
				require.Empty(t, c.Assignment())
				return
			}
			require.Equal(t, []TopicPartition{{Topic: "fresh"}, {Topic: "fresh", Partition: 1}}, c.Assignment())
		}, testbroker.WithAutoCreate(2))
	}
}

func TestTopicsAreSubscribedToAtOnce(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 1, 1)
		cfg := fast(b)
		cfg.Topics = []string{"t"}
		c := openConsumer(t, cfg)
		require.Equal(t, []string{"t"}, c.Subscription())
		require.Len(t, pollN(t, c, 1), 1)
		require.Equal(t, []TopicPartition{tpAt(0), tpAt(1)}, c.Assignment())
	})
}

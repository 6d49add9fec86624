package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

// pollKeeping polls for records until n came or d is over, and requires every Poll to
// keep to its timeout.
func pollKeeping(t *testing.T, c *Consumer, n int, d time.Duration) []Record {
	t.Helper()
	var got []Record
	for end := time.Now().Add(d); len(got) < n && time.Now().Before(end); {
		began := time.Now()
		records, err := c.Poll(t.Context(), 500*time.Millisecond)
		require.LessOrEqual(t, time.Since(began), time.Second)
		if err != nil {
			continue
		}
		for r := range records.All() {
			got = append(got, r)
		}
	}
	return got
}

// B05
func TestConnectionThatFallsSilentIsReplaced(t *testing.T) {
	for _, tc := range []struct {
		name   string
		silent func(b *testbroker.Cluster)
	}{
		{"the leader's connections", func(b *testbroker.Cluster) { b.FreezeConns(1) }},
		{"the coordinator's connections", func(b *testbroker.Cluster) { b.FreezeConns(2) }},
		{"all connections", func(b *testbroker.Cluster) { b.FreezeConns(1); b.FreezeConns(2) }},
		{"half an answer to Fetch", func(b *testbroker.Cluster) { b.On(keyFetch).Once().ReplyHalf() }},
		{"half an answer to Heartbeat", func(b *testbroker.Cluster) { b.On(keyHeartbeat).Once().ReplyHalf() }},
		{"half an answer to Metadata", func(b *testbroker.Cluster) { b.On(keyMetadata).Once().ReplyHalf() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				b.MoveCoordinator("g", 2)
				produce(b, "t", 0, 50)
				c := joiner(t, b, func(cfg *Config) { cfg.SessionTimeout = 20 * time.Second })
				got := pollKeeping(t, c, 50, 10*time.Second)
				tc.silent(b)
				produce(b, "t", 0, 50)
				got = append(got, pollKeeping(t, c, 50, 7*time.Second)...) // 2 × RequestTimeout and a little
				require.Equal(t, span(0, 99), offsetsOf(got))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				require.NoError(t, c.Commit(ctx))
				require.EqualValues(t, 100, b.CommittedOffset("g", "t", 0))
			}, testbroker.WithNodes(2))
		})
	}
}

// outages are ways in which brokers are away, and how they come back.
var outages = []struct {
	name       string
	away, back func(b *testbroker.Cluster)
	groupOnly  bool
}{
	{"refused", func(b *testbroker.Cluster) { b.StopNode(1) }, func(b *testbroker.Cluster) { b.StartNode(1) }, false},
	{
		"swallowed",
		func(b *testbroker.Cluster) { b.HangDials(1, true); b.CutConns(1) },
		func(b *testbroker.Cluster) { b.HangDials(1, false) }, false,
	},
	{"never answered", nil, nil, false},
	{"no coordinator", nil, nil, true},
}

// B48
func TestPollKeepsToItsTimeoutWhileBrokersAreAway(t *testing.T) {
	for _, o := range outages {
		for _, group := range []string{"g", ""} {
			t.Run(fmt.Sprintf("%s, group %q", o.name, group), func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
					cfg := fast(b)
					cfg.GroupID = group
					c := openConsumer(t, cfg)
					away, back := o.away, o.back
					if away == nil {
						key := testbroker.AnyKey
						if o.groupOnly {
							key = keyFindCoordinator
						}
						var silent *testbroker.Rule
						away = func(b *testbroker.Cluster) { silent = b.On(key).Drop() }
						back = func(*testbroker.Cluster) { silent.Remove() }
					}
					away(b)
					if group == "" {
						require.NoError(t, c.Assign(tp0))
					} else {
						require.NoError(t, c.Subscribe([]string{"t"}))
					}
					for range 10 {
						began := time.Now()
						_, _ = c.Poll(t.Context(), 500*time.Millisecond)
						require.LessOrEqual(t, time.Since(began), time.Second)
					}
					require.Less(t, b.Count(testbroker.AnyKey), 200, "requests while nothing works")
					back(b)
					produce(b, "t", 0, 5)
					require.Len(t, pollKeeping(t, c, 5, 20*time.Second), 5)
					if group == "" {
						for _, key := range groupKeys {
							require.Zero(t, b.Count(key))
						}
					}
				})
			})
		}
	}
}

// B48
func TestIterationEndsWithConsumerTimeoutWhileBrokersAreAway(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		cfg := fast(b)
		cfg.ConsumerTimeout = time.Second
		c := openConsumer(t, cfg)
		b.StopNode(1)
		require.NoError(t, c.Assign(tp0)) // not before: nothing is to be fetched yet
		for channel := range 2 {
			began := time.Now()
			if channel == 1 {
				for range c.Messages(t.Context()) {
					require.Fail(t, "a record of a broker that is away")
				}
				require.NoError(t, c.Err())
			} else {
				for range c.Records(t.Context()) {
					require.Fail(t, "a record or an error while the broker is away")
				}
			}
			require.GreaterOrEqual(t, time.Since(began), time.Second)
			require.LessOrEqual(t, time.Since(began), 1500*time.Millisecond)
		}
		b.StartNode(1)
		n := 0
		for began := time.Now(); n < 5; {
			require.Less(t, time.Since(began), 10*time.Second)
			for _, err := range c.Records(t.Context()) {
				require.NoError(t, err)
				n++
			}
		}
	})
}

// B19
func TestTopicThatIsNotThereBlocksNothing(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			gone := TopicPartition{Topic: "gone"}
			if deleted {
				b.CreateTopic("gone", 1)
			}
			produce(b, "t", 0, 5)
			c := reader(t, fast(b), tp0, gone)
			if deleted {
				_, err := c.Poll(t.Context(), time.Second)
				require.NoError(t, err)
				b.DeleteTopic("gone")
				require.NoError(t, c.SeekToBeginning())
			}
			time.Sleep(time.Second)
			b.ForgetRequests()
			began := time.Now()
			got := 0
			for time.Since(began) < 5*time.Second {
				produce(b, "t", 0, 1)
				polled := time.Now()
				records, err := c.Poll(t.Context(), time.Second)
				require.LessOrEqual(t, time.Since(polled), 1500*time.Millisecond)
				if err != nil {
					var at *PartitionError
					require.ErrorAs(t, err, &at)
					require.Equal(t, gone, at.TopicPartition())
					continue
				}
				got += records.Len()
				time.Sleep(100 * time.Millisecond)
			}
			require.Greater(t, got, 10)
			require.LessOrEqual(t, b.Count(keyMetadata), 25)

			for name, call := range map[string]func(context.Context) error{
				"Position":         func(ctx context.Context) error { _, err := c.Position(ctx, gone); return err },
				"EndOffsets":       func(ctx context.Context) error { _, err := c.EndOffsets(ctx, gone); return err },
				"BeginningOffsets": func(ctx context.Context) error { _, err := c.BeginningOffsets(ctx, gone, tp0); return err },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				began := time.Now()
				err := call(ctx)
				cancel()
				require.LessOrEqual(t, time.Since(began), 2500*time.Millisecond, name)
				var at *PartitionError
				require.ErrorAs(t, err, &at, name)
				require.Equal(t, gone, at.TopicPartition(), name)
				require.ErrorIs(t, err, ErrorCode(3), name)
			}
		})
	}
}

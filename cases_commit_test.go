package kafka

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// autoCommitting makes a consumer commit what is done every 100 ms.
func autoCommitting(cfg *Config) {
	cfg.DisableAutoCommit, cfg.AutoCommitInterval = false, 100*time.Millisecond
}

// die ends a consumer as the end of its process does: nothing of it reaches the
// cluster any more.
func die(t *testing.T, b *testbroker.Cluster, c *Consumer) {
	t.Helper()
	b.StopNode(1)
	_ = closeSoon(t, c)
	b.StartNode(1)
}

// B56
func TestBatchThatIsWorkedOnIsNotCommitted(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 20)
		c := joiner(t, b, autoCommitting)
		first := pollExactly(t, c, 10)
		require.Equal(t, span(0, 9), offsetsOf(first))
		time.Sleep(time.Second)
		require.LessOrEqual(t, b.CommittedOffset("g", "t", 0), int64(0), "nothing of the batch")

		require.Equal(t, span(10, 19), offsetsOf(pollExactly(t, c, 10)), "which ends the first batch")
		time.Sleep(time.Second)
		_, err := c.PollMax(t.Context(), 0, 1) // ends the second
		require.NoError(t, err)
		synctest.Wait()
		require.EqualValues(t, 20, b.CommittedOffset("g", "t", 0))
	})
}

// pollExactly takes n records in one PollMax, once so many are buffered.
func pollExactly(t *testing.T, c *Consumer, n int) []Record {
	t.Helper()
	var got []Record
	for len(got) < n {
		records, err := c.PollMax(t.Context(), 10*time.Second, n-len(got))
		require.NoError(t, err)
		for r := range records.All() {
			got = append(got, r)
		}
	}
	return got
}

// B56
func TestRecordThatIsWorkedOnIsNotCommitted(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		c := joiner(t, b, autoCommitting)
		n := 0
		for r, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			time.Sleep(time.Second)
			require.LessOrEqual(t, b.CommittedOffset("g", "t", 0), r.Offset)
			if n++; n == 3 {
				break
			}
		}
		die(t, b, c)
		require.EqualValues(t, 2, b.CommittedOffset("g", "t", 0), "the third was not done")
	})
}

// B56
func TestLongIterationIsCommittedOnItsWay(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.ProduceValues("t", 0, strings.Split(strings.Repeat("v ", 50), " ")[:50]...)
		c := joiner(t, b, autoCommitting)
		for r, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			if r.Offset >= 3 {
				require.GreaterOrEqual(t, b.CommittedOffset("g", "t", 0), r.Offset-2)
			}
			if r.Offset == 49 {
				break
			}
			time.Sleep(150 * time.Millisecond)
		}
	})
}

// B56
func TestReceivedRecordIsDoneWithTheNextOne(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		c := joiner(t, b, autoCommitting)
		messages := c.Messages(t.Context())
		for range 3 {
			<-messages
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 2, b.CommittedOffset("g", "t", 0))
		<-messages
		time.Sleep(time.Second)
		require.EqualValues(t, 3, b.CommittedOffset("g", "t", 0))
		require.NoError(t, c.Close(t.Context()))
		require.EqualValues(t, 3, b.CommittedOffset("g", "t", 0), "Close commits what is done")
	})
}

// B56
func TestFetchedRecordsAreNotCommitted(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		c := joiner(t, b, autoCommitting)
		pollExactly(t, c, 1)
		for range 5 {
			require.NoError(t, c.Pause(tp0))
			records, err := c.Poll(t.Context(), 300*time.Millisecond)
			require.NoError(t, err)
			require.Zero(t, records.Len())
		}
		require.EqualValues(t, 1, b.CommittedOffset("g", "t", 0))
		require.NoError(t, c.Close(t.Context()))
		require.EqualValues(t, 1, b.CommittedOffset("g", "t", 0))
	})
}

// B56
func TestCloseCommitsOnlyWhatItShould(t *testing.T) {
	for _, tc := range []struct {
		name  string
		auto  bool
		close func(*Consumer) error
		want  int64
	}{
		{"Close commits what is done", true, func(c *Consumer) error { return c.Close(context.Background()) }, 5},
		{"CloseWithoutCommit does not", true, func(c *Consumer) error { return c.CloseWithoutCommit(context.Background()) }, -1},
		{"nor does Close with DisableAutoCommit", false, func(c *Consumer) error { return c.Close(context.Background()) }, -1},
		{"Unsubscribe commits what is done", true, func(c *Consumer) error { return c.Unsubscribe(context.Background()) }, 5},
		{"an ended context ends the batch before it", true, func(c *Consumer) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_, err := c.Poll(ctx, time.Second)
			require.ErrorIs(t, err, context.Canceled)
			return c.Close(context.Background())
		}, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 20)
				c := joiner(t, b, func(cfg *Config) { cfg.DisableAutoCommit, cfg.AutoCommitInterval = !tc.auto, time.Hour })
				pollExactly(t, c, 5)
				records, err := c.PollMax(t.Context(), time.Second, 5)
				require.NoError(t, err)
				require.Equal(t, 5, records.Len())
				require.NoError(t, tc.close(c))
				require.Equal(t, tc.want, b.CommittedOffset("g", "t", 0))
				if tc.want < 0 {
					require.Zero(t, b.Count(keyOffsetCommit))
				}
			})
		})
	}
}

// B56
func TestPositionSetByAResetIsCommitted(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 20)
		for _, byClose := range []bool{false, true} {
			c := joiner(t, b, func(cfg *Config) {
				autoCommitting(cfg)
				cfg.AutoOffsetReset = ResetLatest
				if byClose {
					cfg.AutoCommitInterval = time.Hour
				}
			})
			for range 5 {
				_, err := c.Poll(t.Context(), 200*time.Millisecond)
				require.NoError(t, err)
			}
			if byClose {
				require.NoError(t, c.Close(t.Context()))
			}
			require.EqualValues(t, 20, b.CommittedOffset("g", "t", 0))
			require.NoError(t, c.Close(t.Context()))
			b.DropCommitted("g", "t")
		}
	})
}

// B56
func TestRevocationCommitsWhatIsDone(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		c := joiner(t, b, func(cfg *Config) { cfg.DisableAutoCommit, cfg.AutoCommitInterval = false, time.Hour })
		pollN(t, c, 10)
		commits := b.On(keyOffsetCommit).Delay(2 * time.Second)
		second := joiner(t, b, func(cfg *Config) { cfg.ClientID = "second" })
		other := beside(pollForever(t, second))
		for range 100 {
			began := time.Now()
			records, err := c.Poll(t.Context(), 100*time.Millisecond)
			require.NoError(t, err)
			require.Zero(t, records.Len())
			require.LessOrEqual(t, time.Since(began), 100*time.Millisecond, "Poll keeps to its timeout")
			if len(c.Assignment()) == 1 {
				break
			}
		}
		require.Len(t, c.Assignment(), 1)
		require.Positive(t, commits.Used())
		require.EqualValues(t, 10, b.CommittedOffset("g", "t", 0))
		require.NoError(t, second.Close(t.Context()))
		require.ErrorIs(t, soon(t, other), ErrClosed)
		commits.Remove()
	})
}

// B56
func TestCommitCallbacksComeInOrder(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		var told []int64
		c := joiner(t, b, func(cfg *Config) {
			cfg.OnCommit = func(offsets map[TopicPartition]OffsetAndMetadata, err error) {
				require.NoError(t, err)
				told = append(told, offsets[tp0].Offset)
			}
		})
		pollN(t, c, 10)
		callback := func(ctx context.Context, offsets map[TopicPartition]OffsetAndMetadata, err error) {
			require.NoError(t, err)
			require.ErrorIs(t, c.Unsubscribe(ctx), ErrInCallback)
			for _, err := range c.Records(ctx) {
				require.ErrorIs(t, err, ErrInCallback)
			}
			told = append(told, -offsets[tp0].Offset)
		}
		require.NoError(t, c.CommitAsync(map[TopicPartition]OffsetAndMetadata{tp0: {Offset: 1}}, callback))
		require.NoError(t, c.CommitAsync(map[TopicPartition]OffsetAndMetadata{tp0: {Offset: 2}}, nil))
		require.NoError(t, c.CommitAsync(nil, callback))
		time.Sleep(time.Second)
		require.Empty(t, told, "only inside a call")
		require.NoError(t, c.Commit(t.Context()))
		require.Equal(t, []int64{-1, 2, -10}, told)
		require.NoError(t, c.CommitAsync(nil, callback))
		require.NoError(t, c.Close(t.Context()))
		require.Equal(t, []int64{-1, 2, -10, -10}, told)
	})
}

// B56
func TestCommitOfWhatIsNotOwnedIsRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := joiner(t, b, nil)
		_, err := c.Poll(t.Context(), time.Second)
		require.NoError(t, err)
		other := TopicPartition{Topic: "other"}
		err = c.CommitOffsets(t.Context(), map[TopicPartition]OffsetAndMetadata{other: {Offset: 1}, tp0: {Offset: 0}})
		require.ErrorIs(t, err, ErrNotAssigned)
		var at *PartitionError
		require.ErrorAs(t, err, &at)
		require.Equal(t, other, at.TopicPartition())
		require.EqualValues(t, 0, b.CommittedOffset("g", "t", 0))
		err = c.CommitOffsets(t.Context(), map[TopicPartition]OffsetAndMetadata{tp0: {Offset: -1}})
		require.ErrorAs(t, err, &at)
	})
}

// groupKeys are the requests of groups.
var groupKeys = []int16{keyOffsetCommit, keyOffsetFetch, keyFindCoordinator, keyJoinGroup, keyHeartbeat, keyLeaveGroup}

// B58
func TestConsumerWithoutAGroup(t *testing.T) {
	for name, subscribe := range map[string]func(*Consumer) error{
		"assigned":   func(c *Consumer) error { return c.Assign(tp0, TopicPartition{Topic: "t", Partition: 1}) },
		"topics":     func(c *Consumer) error { return c.Subscribe([]string{"t"}) },
		"by pattern": func(c *Consumer) error { return c.SubscribePattern(regexp.MustCompile("t")) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 5)
				produce(b, "t", 1, 5)
				var log logBuffer
				cfg := fast(b)
				cfg.DisableAutoCommit = false
				cfg.Logger = log.logger()
				c := openConsumer(t, cfg)
				require.NoError(t, subscribe(c))
				require.Len(t, pollN(t, c, 10), 10)
				require.NoError(t, c.Seek(tp0, 3))
				require.Equal(t, span(3, 4), offsetsOf(pollN(t, c, 2)))
				require.ErrorIs(t, c.Commit(t.Context()), ErrNoGroup)
				require.ErrorIs(t, c.CommitAsync(nil, nil), ErrNoGroup)
				_, err := c.Committed(t.Context(), tp0)
				require.ErrorIs(t, err, ErrNoGroup)
				_, err = c.GroupMetadata()
				require.ErrorIs(t, err, ErrNoGroup)
				require.ErrorIs(t, c.EnforceRebalance(""), ErrNoGroup)
				logged := log.String()
				for range 50 {
					_, err := c.Poll(t.Context(), 100*time.Millisecond)
					require.NoError(t, err)
				}
				require.Equal(t, logged, log.String(), "a line per poll")
				if name != "assigned" {
					b.AddPartitions("t", 3)
					produce(b, "t", 2, 5)
					require.Len(t, pollN(t, c, 5), 5)
					require.Len(t, c.Assignment(), 3)
				}
				require.NoError(t, c.Close(t.Context()))
				for _, key := range groupKeys {
					require.Zero(t, b.Count(key), kmsg.Key(key).Name())
				}
			})
		})
	}
}

// B56. What CommitAsync was asked for reaches the broker before somebody else owns
// the partition.
func TestRevocationWaitsForAsyncCommits(t *testing.T) {
	for name, inListener := range map[string]bool{"after each Poll": false, "in OnRevoked": true} {
		t.Run(name, func(t *testing.T) {
			forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
				// There is always one commit that waits for another, also behind a heartbeat.
				b.On(keyOffsetCommit).Delay(30 * time.Millisecond)
				b.On(keyHeartbeat).Delay(20 * time.Millisecond)
				a := joiner(t, b, func(c *Config) {
					change(c)
					c.MaxPollRecords = 1
					if inListener {
						c.RebalanceListener.OnRevoked = func(_ context.Context, c *Consumer, _ []TopicPartition) error {
							return c.CommitAsync(nil, nil)
						}
					}
				})
				consumed := map[TopicPartition]int64{}
				var second *groupReader
				for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
					records, err := a.Poll(t.Context(), 10*time.Millisecond)
					require.NoError(t, err)
					for r := range records.All() {
						consumed[r.TopicPartition()] = r.Offset + 1
					}
					if !inListener && records.Len() > 0 {
						require.NoError(t, a.CommitAsync(nil, nil))
					}
					if second == nil && len(consumed) == 2 {
						second = startReader(t, joiner(t, b, change), 10*time.Millisecond)
					}
				}
				require.Len(t, second.Assignment(), 1)
				moved := second.Assignment()[0]
				require.Equal(t, span(consumed[moved], 99), second.of(moved))
			})
		})
	}
}

// While commits of a listener are waited for, its partitions are still this consumer's:
// what ends the wait must not call the listener for them once more.
func TestTheListenerIsToldOnceOfAPartitionWhateverEndsTheWaitForItsCommits(t *testing.T) {
	for name, end := range map[string]func(c *Consumer, ctx context.Context) error{
		"Close":              (*Consumer).Close,
		"Unsubscribe":        (*Consumer).Unsubscribe,
		"Close inside of it": nil,
	} {
		t.Run(name, func(t *testing.T) {
			forBoth(t, func(t *testing.T, b *testbroker.Cluster, change func(*Config)) {
				told := map[TopicPartition]int{}
				tell := func(_ context.Context, _ *Consumer, tps []TopicPartition) error {
					for _, tp := range tps {
						told[tp]++
					}
					return nil
				}
				a := joiner(t, b, func(c *Config) {
					change(c)
					c.DisableAutoCommit = true
					c.RebalanceListener.OnRevoked = func(ctx context.Context, c *Consumer, tps []TopicPartition) error {
						if len(told) == 0 {
							b.On(keyOffsetCommit).Once().Delay(2 * time.Second)
							require.NoError(t, c.CommitAsync(nil, nil))
						}
						if end == nil {
							require.NoError(t, c.Close(ctx))
						}
						return tell(ctx, c, tps)
					}
				})
				pollN(t, a, 200)
				startReader(t, joiner(t, b, change), 10*time.Millisecond)
				for began := time.Now(); len(told) == 0 && time.Since(began) < 10*time.Second; {
					if _, err := a.Poll(t.Context(), 10*time.Millisecond); err != nil {
						require.ErrorIs(t, err, ErrClosed)
					}
				}
				require.NotEmpty(t, told)
				if end != nil {
					require.NoError(t, end(a, t.Context()))
				}
				require.Equal(t, map[TopicPartition]int{inTopic(0): 1, inTopic(1): 1}, told)
			})
		})
	}
}

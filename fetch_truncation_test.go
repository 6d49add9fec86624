package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// KIP-320, by Fetch itself (v12 and above) and by OffsetForLeaderEpoch.
func TestTruncation(t *testing.T) {
	for _, fetch := range []int16{9, 11, 12, 16} {
		opts := []testbroker.Option{testbroker.WithNodes(2), testbroker.WithVersions(versionsUpTo(fetch, 12))}
		t.Run(fmt.Sprintf("Fetch v%d, with a policy", fetch), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				var events fetchEvents
				cfg := fast(b)
				cfg.AutoOffsetReset, cfg.OnEvent = ResetLatest, events.add
				b.SetLeaderEpoch("t", 0, 3)
				c := openConsumer(t, cfg)
				require.NoError(t, c.Assign(tp0))
				require.NoError(t, c.SeekToBeginning())
				readAndTruncate(t, c, b)
				require.Equal(t, span(6, 10), offsetsOf(pollN(t, c, 5)))
				resets := slices.DeleteFunc(ofKind[EventPositionReset](&events), func(e EventPositionReset) bool {
					return e.From == -1 // before the seek came
				})
				require.Len(t, resets, 1)
				require.EqualValues(t, 10, resets[0].From)
				require.EqualValues(t, 6, resets[0].To)
			}, opts...)
		})
		t.Run(fmt.Sprintf("Fetch v%d, without a policy", fetch), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				cfg := fast(b)
				cfg.AutoOffsetReset = ResetNone
				b.SetLeaderEpoch("t", 0, 3)
				c := openConsumer(t, cfg)
				require.NoError(t, c.Assign(tp0))
				require.NoError(t, c.SeekToBeginning())
				readAndTruncate(t, c, b)
				var truncation *LogTruncationError
				for deadline := time.Now().Add(10 * time.Second); truncation == nil; {
					require.True(t, time.Now().Before(deadline), "no error came")
					records, err := c.Poll(t.Context(), time.Second)
					if err == nil {
						require.Zero(t, records.Len())
						continue
					}
					require.ErrorAs(t, err, &truncation)
				}
				require.EqualValues(t, 10, truncation.Offset)
				require.True(t, truncation.DivergentKnown)
				require.EqualValues(t, 6, truncation.DivergentFrom.Offset)
				require.EqualValues(t, 10, position(t, c, tp0))
				require.NoError(t, c.SeekTo(tp0, truncation.DivergentFrom))
				require.Equal(t, span(6, 10), offsetsOf(pollN(t, c, 5)))
			}, opts...)
		})
	}
}

// readAndTruncate has c read ten records, and then another leader take over in an unclean
// way, with only the first six of them and five of its own.
func readAndTruncate(t *testing.T, c *Consumer, b *testbroker.Cluster) {
	t.Helper()
	produce(b, "t", 0, 10)
	require.Len(t, pollN(t, c, 10), 10)
	b.StopNode(1)
	b.Truncate("t", 0, 6)
	b.SetLeader("t", 0, 2)
	produce(b, "t", 0, 5)
}

// A leader that changes cleanly is asked (or tells), and nothing moves.
func TestCleanElectionMovesNothing(t *testing.T) {
	for _, fetch := range []int16{8, 9, 11, 12, 16} {
		t.Run(fmt.Sprintf("Fetch v%d", fetch), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				cfg := fast(b)
				var events fetchEvents
				cfg.OnEvent = events.add
				c := reader(t, cfg, tp0)
				for i := range int64(6) {
					produce(b, "t", 0, 5)
					require.Equal(t, span(5*i, 5*i+4), offsetsOf(pollN(t, c, 5)))
					b.SetLeader("t", 0, int32(i%2)+1)
				}
				require.Len(t, ofKind[EventPositionReset](&events), 1, "but for the start")
				asked := b.Count(23)
				require.Equal(t, fetch >= 9 && fetch < 12, asked > 0, "%d OffsetForLeaderEpoch", asked)
			}, testbroker.WithNodes(2), testbroker.WithVersions(versionsUpTo(fetch, 12)))
		})
	}
}

func TestLeaderThatCannotBeAskedForEpochsIsTrusted(t *testing.T) {
	versions := versionsUpTo(11, 12)
	versions[23] = testbroker.VersionRange{Max: 2}
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		c := reader(t, fast(b), tp0)
		pollN(t, c, 5)
		b.SetLeader("t", 0, 2)
		produce(b, "t", 0, 5)
		require.Equal(t, span(5, 9), offsetsOf(pollN(t, c, 5)))
	}, testbroker.WithNodes(2), testbroker.WithVersions(versions))
}

func TestCheckOfAPositionIsTriedAgain(t *testing.T) {
	for _, code := range []int16{6, 74, 75, 3} {
		t.Run(fmt.Sprintf("code %d", code), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 5)
				c := reader(t, fast(b), tp0)
				pollN(t, c, 5)
				b.On(23).Times(3).Fail(code)
				b.SetLeader("t", 0, 2)
				produce(b, "t", 0, 5)
				require.Equal(t, span(5, 9), offsetsOf(pollN(t, c, 5)))
				require.Less(t, b.Count(23), 12)
			}, testbroker.WithNodes(2), testbroker.WithVersions(versionsUpTo(11, 12)))
		})
	}
}

func TestCommittedEpochIsCheckedBeforeAnythingIsFetched(t *testing.T) {
	for _, fetch := range []int16{11, 16} {
		t.Run(fmt.Sprintf("Fetch v%d", fetch), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				b.SetLeaderEpoch("t", 0, 3)
				produce(b, "t", 0, 6)
				b.SetLeaderEpoch("t", 0, 4)
				produce(b, "t", 0, 10)
				b.SetCommitted("g", "t", 0, testbroker.CommittedOffset{Offset: 9, LeaderEpoch: 3})
				cfg := fast(b)
				cfg.GroupID = "g"
				c := reader(t, cfg, tp0)
				require.Equal(t, span(6, 15), offsetsOf(pollN(t, c, 10)), "what was at 6 to 8 in epoch 3 is gone")
			}, testbroker.WithVersions(versionsUpTo(fetch, 12)))
		})
	}
}

// B07
func TestTopicCreatedAgain(t *testing.T) {
	for _, tc := range []struct {
		name            string
		fetch, metadata int16
	}{
		{"with topic ids", 16, 12}, {"with ids in metadata only", 12, 12}, {"without topic ids", 11, 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				b.CreateTopic("other", 1)
				other := TopicPartition{Topic: "other"}
				produce(b, "t", 0, 100)
				produce(b, "other", 0, 10)
				var events fetchEvents
				cfg := fast(b)
				cfg.GroupID, cfg.OnEvent = "g", events.add
				c := reader(t, cfg, tp0, other)
				pollN(t, c, 110)
				require.NoError(t, c.Commit(t.Context()))

				b.DeleteTopic("t")
				c.cluster.Refresh()
				for i := range int64(20) {
					produce(b, "other", 0, 1)
					r := pollN(t, c, 1)
					require.Equal(t, "other", r[0].Topic)
					require.Equal(t, 10+i, r[0].Offset)
				}
				before := b.Count(keyFetch) + b.Count(keyMetadata)
				_, err := c.Poll(t.Context(), 5*time.Second)
				require.NoError(t, err)
				require.Less(t, b.Count(keyFetch)+b.Count(keyMetadata)-before, 150, "no spin")
				b.CreateTopic("t", 1)
				produce(b, "t", 0, 10)
				require.Equal(t, span(0, 9), offsetsOf(pollN(t, c, 10)))
				require.NoError(t, c.Commit(t.Context()))
				require.EqualValues(t, 10, b.CommittedOffset("g", "t", 0))
				recreated := ofKind[EventTopicRecreated](&events)
				require.Equal(t, tc.metadata >= 10, len(recreated) == 1, "%v", recreated)
			}, testbroker.WithVersions(versionsUpTo(tc.fetch, tc.metadata)))
		})
	}
}

// B07
func TestPositionOfADeletedTopicIsNotCommittedForTheNewOne(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 100)
		cfg := fast(b)
		cfg.GroupID = "g"
		c := reader(t, cfg, tp0)
		pollN(t, c, 100)
		b.DeleteTopic("t")
		b.DropCommitted("g", "t")
		b.CreateTopic("t", 1)
		_, err := c.Poll(t.Context(), 3*time.Second)
		require.NoError(t, err)
		require.NoError(t, c.Commit(t.Context()))
		require.LessOrEqual(t, b.CommittedOffset("g", "t", 0), int64(0))
		produce(b, "t", 0, 10)
		require.Equal(t, span(0, 9), offsetsOf(pollN(t, c, 10)))
	})
}

// B07
func TestCommitThatIsOnItsWayWhileItsTopicIsCreatedAgain(t *testing.T) {
	other := TopicPartition{Topic: "other"}
	for name, commit := range map[string]func(c *Consumer) error{
		"Commit": func(c *Consumer) error { return c.Commit(context.Background()) },
		"CommitOffsets": func(c *Consumer) error {
			return c.CommitOffsets(context.Background(), map[TopicPartition]OffsetAndMetadata{tp0: {Offset: 100}, other: {Offset: 10}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				b.CreateTopic("other", 1)
				produce(b, "t", 0, 100)
				produce(b, "other", 0, 10)
				cfg := fast(b)
				cfg.GroupID = "g"
				c := reader(t, cfg, tp0, other)
				pollN(t, c, 110)
				loading := b.On(protocol.KeyOffsetCommit).Fail(int16(protocol.CoordinatorLoadInProgress))
				done := beside(func() error { return commit(c) })
				require.True(t, loading.WaitUsed(1, time.Second))
				recreate(t, b, c)
				loading.Remove()
				require.NoError(t, <-done)
				require.EqualValues(t, -1, b.CommittedOffset("g", "t", 0))
				require.EqualValues(t, 10, b.CommittedOffset("g", "other", 0))

				produce(b, "t", 0, 100)
				require.Equal(t, span(0, 99), offsetsOf(pollN(t, c, 100)))
				require.NoError(t, commit(c))
				require.EqualValues(t, 100, b.CommittedOffset("g", "t", 0))
			})
		})
	}
}

// B07: the table of positions learns of a new topic a moment after metadata.
func TestPositionsReadBeforeTheTableKnowsOfANewTopicAreNotCommitted(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 100)
		cfg := fast(b)
		cfg.GroupID = "g"
		c := reader(t, cfg, tp0)
		pollN(t, c, 100)
		c.fetcher.mu.Lock()
		read := commitmentOf(c.fetcher.table.Positions())
		c.fetcher.mu.Unlock()
		recreate(t, b, c)
		require.NoError(t, c.commit(t.Context(), read))
		c.coord.commitUnawaited(read, func(err error) { require.NoError(t, err) })
		require.NoError(t, c.coord.commitLast(t.Context(), read))
		require.Zero(t, b.Count(protocol.KeyOffsetCommit))
		require.EqualValues(t, -1, b.CommittedOffset("g", "t", 0))
	})
}

// recreate deletes topic t and creates it again, and returns when metadata tells.
func recreate(t *testing.T, b *testbroker.Cluster, c *Consumer) {
	t.Helper()
	b.DeleteTopic("t")
	b.DropCommitted("g", "t")
	b.CreateTopic("t", 1)
	require.NoError(t, c.cluster.RefreshAndWait(t.Context()))
	require.Equal(t, b.TopicID("t"), c.cluster.Metadata().Topic("t").ID)
}

// B07
func TestTopicIDThatTheBrokerDoesNotKnow(t *testing.T) {
	for _, code := range []int16{100, 103} {
		t.Run(fmt.Sprintf("code %d", code), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 5)
				c := reader(t, fast(b), tp0)
				pollN(t, c, 5)
				metadata := b.Count(keyMetadata)
				refused := b.On(keyFetch).Times(3).Fail(code)
				require.True(t, refused.WaitUsed(1, time.Second))
				produce(b, "t", 0, 5)
				require.Equal(t, span(5, 9), offsetsOf(pollN(t, c, 5)))
				require.Greater(t, b.Count(keyMetadata), metadata)
			})
		})
	}
}

// KIP-74: brokers before Fetch v3 cut a message that is larger than what was asked for.
func TestOldBrokersGetMoreRoomForALargeMessage(t *testing.T) {
	for fetch := range int16(4) {
		t.Run(fmt.Sprintf("Fetch v%d", fetch), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				for i, size := range []int{10, 50_000, 300_000, 20} {
					magic := int8(min(fetch/2, 1))
					b.Append("t", 0, batch.Message{Offset: int64(i), Magic: magic, Value: make([]byte, size)}.Bytes(), int64(i))
				}
				cfg := fast(b)
				cfg.MaxPartitionFetchBytes = 1000
				c := reader(t, cfg, tp0)
				got := pollN(t, c, 4)
				require.Equal(t, span(0, 3), offsetsOf(got))
				require.Len(t, got[2].Value, 300_000)
				require.Less(t, b.Count(keyFetch), 20)
			}, testbroker.WithVersions(versionsUpTo(fetch, 5)))
		})
	}
}

// Below Fetch v3 a broker cuts the message; later ones send it whole.
func TestMessageTooLargeForAnyAnswerIsAnError(t *testing.T) {
	for _, fetch := range []int16{2, 3, 11, protocol.FetchMaxVersion} {
		t.Run(fmt.Sprintf("Fetch v%d", fetch), func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
				b.Append("t", 0, batch.Message{Offset: 0, Value: make([]byte, 2<<20)}.Bytes(), 0)
				b.Append("t", 0, batch.Message{Offset: 1, Value: []byte("small")}.Bytes(), 1)
				b.Append("t", 1, batch.Message{Offset: 0, Value: []byte("beside")}.Bytes(), 0)
				cfg := fast(b)
				cfg.ReceiveMessageMaxBytes, cfg.FetchMaxBytes, cfg.MaxPartitionFetchBytes = 3<<19, 400_000, 100_000
				c := reader(t, cfg, tp0, TopicPartition{Topic: "t", Partition: 1})
				var large *BatchTooLargeError
				var beside int
				for deadline := time.Now().Add(5 * time.Second); large == nil || beside == 0; {
					require.True(t, time.Now().Before(deadline), "%d records, error %v", beside, large)
					got, err := c.Poll(t.Context(), time.Second)
					require.True(t, err == nil || errors.As(err, &large), "%v", err)
					if err == nil {
						beside += got.Len()
					}
				}
				require.Zero(t, large.BatchOffset)
				require.Zero(t, position(t, c, tp0))
				require.NoError(t, c.Seek(tp0, 1))
				require.Equal(t, []int64{1}, offsetsOf(pollN(t, c, 1)))
			}, testbroker.WithVersions(versionsUpTo(fetch, 5)))
		})
	}
}

// What an iterator is handing over may be gone from the log.
func TestAnIterationGoesOnInTheLogThatIsThere(t *testing.T) {
	for _, fetch := range []int16{11, 16} {
		t.Run(fmt.Sprintf("Fetch v%d", fetch), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				cfg := fast(b)
				cfg.ConsumerTimeout = 10 * time.Second
				b.SetLeaderEpoch("t", 0, 3)
				b.ProduceValues("t", 0, "old", "old", "old", "old", "old", "old")
				b.ProduceValues("t", 0, "gone", "gone", "gone", "gone")
				c := openConsumer(t, cfg)
				require.NoError(t, c.Assign(tp0))
				var got []string
				for r, err := range c.Records(t.Context()) {
					require.NoError(t, err)
					got = append(got, string(r.Value))
					if len(got) == 3 {
						b.StopNode(1)
						b.Truncate("t", 0, 6)
						b.SetLeader("t", 0, 2)
						b.ProduceValues("t", 0, "new", "new", "new", "new", "new")
						time.Sleep(5 * time.Second) // for the consumer to learn of it
					}
				}
				require.Equal(t, []string{"old", "old", "old", "old", "old", "old", "new", "new", "new", "new", "new"}, got)
			}, testbroker.WithNodes(2), testbroker.WithVersions(versionsUpTo(fetch, 12)))
		})
	}
}

package kafka

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// createAgain deletes topic t and creates it again; nobody is told.
func createAgain(b *testbroker.Cluster) {
	b.DeleteTopic("t")
	b.CreateTopic("t", 1)
}

// unaware returns a consumer of group g that hears of no change by itself.
func unaware(t *testing.T, b *testbroker.Cluster, change func(*Config)) *Consumer {
	t.Helper()
	cfg := fast(b)
	cfg.GroupID, cfg.MetadataMaxAge = "g", time.Hour
	if change != nil {
		change(&cfg)
	}
	return reader(t, cfg, tp0)
}

// B07, before the consumer could learn anything.
func TestACommitNamesTheTopicThatWasRead(t *testing.T) {
	for name, commit := range map[string]func(t *testing.T, c *Consumer) error{
		"Commit": func(t *testing.T, c *Consumer) error { return c.Commit(t.Context()) },
		"CommitOffsets": func(t *testing.T, c *Consumer) error {
			return c.CommitOffsets(t.Context(), offsets(tp0, 100))
		},
		"CommitAsync": func(t *testing.T, c *Consumer) error {
			done := make(chan error, 1)
			require.NoError(t, c.CommitAsync(nil, func(_ context.Context, _ map[TopicPartition]OffsetAndMetadata, err error) { done <- err }))
			_, err := c.Poll(t.Context(), 5*time.Second)
			require.NoError(t, err)
			return <-done
		},
		"Close": func(t *testing.T, c *Consumer) error { return c.Close(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 100)
				c := unaware(t, b, func(cfg *Config) { cfg.DisableAutoCommit = name != "Close" })
				pollN(t, c, 100)
				_, err := c.Poll(t.Context(), 0) // the records are done
				require.NoError(t, err)
				fetch := b.On(keyFetch).HoldRequest() // which would tell
				require.True(t, fetch.WaitHeld(1, time.Second))
				createAgain(b)
				require.NoError(t, commit(t, c))
				require.EqualValues(t, -1, b.CommittedOffset("g", "t", 0))
				require.EqualValues(t, 10, b.Requests(protocol.KeyOffsetCommit)[0].Version)
				fetch.Remove()
			})
		})
	}
}

// B07
func TestWhatWasCommittedForADeletedTopicIsNotReadForTheNewOne(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 100)
		first := unaware(t, b, nil)
		pollN(t, first, 100)
		require.NoError(t, first.Commit(t.Context()))
		second := unaware(t, b, nil)
		produce(b, "t", 0, 1)
		pollN(t, second, 1) // so that it knows the topic
		got, err := second.Committed(t.Context(), tp0)
		require.NoError(t, err)
		require.EqualValues(t, 100, got[tp0].Offset)

		b.DeleteTopic("t")
		require.NoError(t, second.cluster.RefreshAndWait(t.Context()), "it may see that there is none for a moment")
		b.CreateTopic("t", 1)
		require.EqualValues(t, 100, b.CommittedOffset("g", "t", 0), "the broker has yet to clean up")
		got, err = second.Committed(t.Context(), tp0)
		require.NoError(t, err)
		require.Empty(t, got)
		asked := b.Requests(protocol.KeyOffsetFetch)
		require.EqualValues(t, 10, asked[len(asked)-1].Version)

		produce(b, "t", 0, 5)
		require.Equal(t, span(0, 4), offsetsOf(pollN(t, unaware(t, b, nil), 5)))
	})
}

func TestCommittedOffsetsOfTopicsWithoutAKnownID(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.CreateTopic("other", 1)
		c := unaware(t, b, nil)
		other := TopicPartition{Topic: "other"}
		require.NoError(t, c.CommitOffsets(t.Context(), map[TopicPartition]OffsetAndMetadata{tp0: {Offset: 1}, other: {Offset: 2}}))
		commit := b.Requests(protocol.KeyOffsetCommit)[0]
		require.EqualValues(t, 9, commit.Version, "names for all, as one id is not known")
		require.Len(t, commit.Message.(*kmsg.OffsetCommitRequest).Topics, 2)
		got, err := c.Committed(t.Context(), tp0, other)
		require.NoError(t, err)
		require.Equal(t, map[TopicPartition]OffsetAndMetadata{tp0: {Offset: 1}, other: {Offset: 2}}, got)

		b.DeleteTopic("t")
		require.NoError(t, c.cluster.RefreshAndWait(t.Context()))
		err = c.CommitOffsets(t.Context(), offsets(tp0, 2))
		require.ErrorIs(t, err, protocol.UnknownTopicOrPartition, "in every version of the request")
	})
}

// A coordinator that has just started may not know a topic's id yet. What it refused for
// that was never stored, so the earlier commit must still be.
func TestAnEarlierCommitIsNotLeftOutForOneThatWasRefusedByTopicID(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		c := unaware(t, b, nil)
		pollN(t, c, 10)
		offset := func(r testbroker.Request) int64 {
			return r.Message.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].Offset
		}
		b.On(protocol.KeyOffsetCommit).When(func(r testbroker.Request) bool { return offset(r) == 7 }).Fail(int16(protocol.UnknownTopicID))
		b.On(protocol.KeyOffsetCommit).Once().Fail(int16(protocol.CoordinatorLoadInProgress))
		earlier := beside(func() error { return c.CommitOffsets(t.Context(), offsets(tp0, 5)) })
		later := make(chan error, 1)
		synctest.Wait()
		require.NoError(t, c.CommitAsync(offsets(tp0, 7), func(_ context.Context, _ map[TopicPartition]OffsetAndMetadata, err error) { later <- err }))
		require.NoError(t, <-earlier)
		_, err := c.Poll(t.Context(), 10*time.Second)
		require.NoError(t, err)
		require.ErrorIs(t, <-later, protocol.UnknownTopicOrPartition)
		require.EqualValues(t, 5, b.CommittedOffset("g", "t", 0))
	})
}

// What was refused was never an offset of the old topic: the one that is found is of the
// new topic, committed by another consumer.
func TestARefusedCommitDoesNotSpoilTheNextTopicsOffsets(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 100)
		c := unaware(t, b, nil)
		pollN(t, c, 100)
		fetch := b.On(keyFetch).HoldRequest() // which would tell
		_, err := c.Poll(t.Context(), 0)
		require.NoError(t, err)
		require.True(t, fetch.WaitHeld(1, time.Second))
		createAgain(b)
		require.NoError(t, c.Commit(t.Context()))
		b.SetCommitted("g", "t", 0, testbroker.CommittedOffset{Offset: 100, LeaderEpoch: -1})
		got, err := c.Committed(t.Context(), tp0)
		require.NoError(t, err)
		require.EqualValues(t, 100, got[tp0].Offset)
		fetch.Remove()
	})
}

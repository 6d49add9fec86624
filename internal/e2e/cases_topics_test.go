//go:build unix

package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/proxy"
)

// recreations are what happens between a topic's deletion and its new records.
var recreations = []struct {
	name   string
	gone   time.Duration // how long there is no such topic
	commit bool          // before anything is read of the new one
}{
	{"at once", 0, false},
	{"at once, with a commit before it is read", 0, true},
	{"after a while", 2 * maxAge, false},
	{"after a while, with a commit before it is read", 2 * maxAge, true},
}

// B07
func TestTopicDeletedAndCreatedAgain(t *testing.T) {
	ForEachReleaseAtOnce(t, func(t *testing.T, target *Target) {
		for _, r := range recreations {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				recreate(t, target, r.gone, r.commit)
			})
		}
	})
}

// B07 on a release without topic ids.
func TestTopicDeletedAndCreatedAgainWithoutTopicIDs(t *testing.T) {
	t.Parallel()
	const release = "1.1.1"
	t.Run(release, func(t *testing.T) {
		c := broker.Shared(t, release)
		d := java.For(t, c)
		target := &Target{Cluster: d, Name: release, Bootstrap: c.Bootstrap(), Real: c, Java: d}
		for _, r := range recreations {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				recreate(t, target, r.gone, r.commit)
			})
		}
	})
}

// recreate has a group consume 100 records of a topic that is then deleted and
// created again with 10, beside a topic that is left alone.
func recreate(t *testing.T, target *Target, gone time.Duration, commit bool) {
	topic, other, group := target.Topic(t, 1), target.Topic(t, 1), target.Unique(t)
	again := kafka.TopicPartition{Topic: topic}
	untouched := kafka.TopicPartition{Topic: other}
	cfg := caseConfig()
	cfg.GroupID, cfg.Topics = group, []string{topic, other}
	// Else what follows a rebalance would repeat records.
	cfg.RebalanceListener.OnRevoked = func(ctx context.Context, c *kafka.Consumer, _ []kafka.TopicPartition) error {
		o, err := c.Position(ctx, untouched)
		if err != nil {
			return err
		}
		return c.CommitOffsets(ctx, map[kafka.TopicPartition]kafka.OffsetAndMetadata{untouched: {Offset: o}})
	}
	c := newConsumer(t, target, cfg)
	appendTo(t, target, topic, 0, 100)
	appendTo(t, target, other, 0, 20)
	pollOffsets(t, c, 120, patience)
	require.NoError(t, c.Commit(t.Context()))

	target.DeleteTopic(t, topic)
	records, errs := pollInTime(t, c, gone)
	require.Empty(t, records)
	requireAbout(t, topic, errs)
	target.CreateTopic(t, topic, 1, nil)
	if commit {
		ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
		defer cancel()
		_ = c.Commit(ctx) // whether it succeeds is not said, only what it leaves behind
		requireStartsAnew(t, target, group, again)
	}

	appendTo(t, target, other, 0, 5)
	appendTo(t, target, topic, 0, 10)
	records, errs = pollUntil(t, c, patience, func(got []kafka.Record) bool { return len(got) >= 15 })
	require.Equal(t, consume.Span(0, 10), consume.Offsets(of(records, again)), "errors: %v", errs)
	require.Equal(t, consume.Span(20, 25), consume.Offsets(of(records, untouched)))
	requireAbout(t, topic, errs)
	require.NoError(t, c.Commit(t.Context()))
	require.Equal(t, map[kafka.TopicPartition]int64{again: 10, untouched: 25}, committed(t, target, group))
	require.Equal(t, int64(10), position(t, c, again))
}

// B07 before the consumer could learn of it, which needs OffsetCommit and OffsetFetch with
// topic ids (v10, Kafka 4.2).
func TestCommitsForATopicThatWasCreatedAgainUnseen(t *testing.T) {
	t.Parallel()
	const release = "4.4.0"
	t.Run(release, func(t *testing.T) {
		c := broker.Shared(t, release)
		target := &Target{Cluster: java.For(t, c), Name: release, Bootstrap: c.Bootstrap(), Real: c}
		topic, group := target.Topic(t, 1), target.Unique(t)
		tp := kafka.TopicPartition{Topic: topic}
		cfg := caseConfig()
		cfg.GroupID, cfg.MetadataMaxAge = group, time.Hour
		appendTo(t, target, topic, 0, 20)
		reader := assigned(t, target, cfg, tp)
		pollOffsets(t, reader, 20, patience)
		require.NoError(t, reader.Commit(t.Context()))
		other := assigned(t, target, cfg, tp)
		require.Equal(t, int64(20), position(t, other, tp))
		for _, c := range []*kafka.Consumer{reader, other} { // so that no fetch tells them
			require.NoError(t, c.Pause(tp))
			pollInTime(t, c, time.Second)
		}

		target.DeleteTopic(t, topic)
		target.CreateTopic(t, topic, 1, nil)
		appendTo(t, target, topic, 0, 50)
		require.NoError(t, reader.Commit(t.Context()))
		require.Empty(t, committed(t, target, group), "it was of another topic")
		// What somebody without topic ids commits for the new one is found by its id.
		target.SetCommitted(t, group, outside.Offset{TopicPartition: outside.TopicPartition{Topic: topic}, Offset: 7})
		got, err := other.Committed(t.Context(), tp)
		require.NoError(t, err)
		require.Equal(t, int64(7), got[tp].Offset)
	})
}

// requireStartsAnew requires that a new consumer of the group reads an empty partition
// from its beginning on, if only when the broker has told it that what is committed is out
// of range.
func requireStartsAnew(t *testing.T, target *Target, group string, tp kafka.TopicPartition) {
	t.Helper()
	cfg := caseConfig()
	cfg.GroupID = group
	c := assigned(t, target, cfg, tp)
	records, errs := pollUntil(t, c, patience, func([]kafka.Record) bool { return position(t, c, tp) == 0 })
	require.Empty(t, records)
	requireAbout(t, tp.Topic, errs)
	require.Zero(t, position(t, c, tp), "where another consumer of the new topic starts")
}

// requireAbout requires that errors name the topic.
func requireAbout(t *testing.T, topic string, errs []error) {
	t.Helper()
	for _, err := range errs {
		require.ErrorContains(t, err, topic)
	}
}

func of(records []kafka.Record, tp kafka.TopicPartition) []kafka.Record {
	var out []kafka.Record
	for _, r := range records {
		if r.Topic == tp.Topic && r.Partition == tp.Partition {
			out = append(out, r)
		}
	}
	return out
}

// B19
func TestTopicThatDoesNotExistHoldsUpNothing(t *testing.T) {
	ForEachReleaseAtOnce(t, func(t *testing.T, target *Target) {
		for _, deleted := range []bool{false, true} {
			name := "it never existed"
			if deleted {
				name = "it was deleted"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				live := kafka.TopicPartition{Topic: target.Topic(t, 1)}
				gone := kafka.TopicPartition{Topic: target.Unique(t)}
				if deleted {
					target.CreateTopic(t, gone.Topic, 1, nil)
					target.DeleteTopic(t, gone.Topic)
				}
				p := proxy.Start(t, target.Bootstrap[0])
				cfg := caseConfig()
				cfg.Dialer = p.Dial
				c := assigned(t, target, cfg, live, gone)
				asked, began := p.Asked(keyMetadata), time.Now()

				looked := make(chan error, 2)
				look := func(ask func(ctx context.Context) error) {
					const timeout = 2 * time.Second
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					began := time.Now()
					err := ask(ctx)
					if took := time.Since(began); took > timeout+pollSlack {
						err = errors.New("it took " + took.String())
					}
					looked <- err
				}
				go look(func(ctx context.Context) error { _, err := c.Position(ctx, gone); return err })
				go look(func(ctx context.Context) error { _, err := c.EndOffsets(ctx, gone); return err })
				var records []kafka.Record
				for range 10 {
					appendTo(t, target, live.Topic, 0, 2)
					got, errs := pollInTime(t, c, 500*time.Millisecond)
					requireAbout(t, gone.Topic, errs)
					records = append(records, got...)
				}
				last, errs := pollUntil(t, c, patience, func(got []kafka.Record) bool { return len(records)+len(got) >= 20 })
				requireAbout(t, gone.Topic, errs)
				require.Equal(t, consume.Span(0, 20), consume.Offsets(append(records, last...)))
				for range 2 {
					err := <-looked
					require.ErrorContains(t, err, gone.Topic)
					require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kafka.ErrorCode(3)), "%v", err)
				}
				require.LessOrEqual(t, float64(p.Asked(keyMetadata)-asked), 5*max(5, time.Since(began).Seconds()), "requests for metadata, 5 per second")
			})
		}
	})
}

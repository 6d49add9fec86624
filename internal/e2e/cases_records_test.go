//go:build unix

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/raw"
)

// compactedAway makes a topic whose log ends with offsets that compaction has
// taken away, and gives the offset behind the last record and that of the end.
func compactedAway(t *testing.T, target *Target) (tp kafka.TopicPartition, last, end int64) {
	t.Helper()
	const rollAfter = 500 * time.Millisecond
	tp = kafka.TopicPartition{Topic: target.Unique(t)}
	target.CreateTopic(t, tp.Topic, 1, map[string]string{
		"segment.ms": fmt.Sprint(rollAfter.Milliseconds()), "min.cleanable.dirty.ratio": "0.01", "file.delete.delay.ms": "0",
	})
	w := raw.Dial(t, target.Bootstrap)
	producer := w.Producer(t)
	producer.Send(t, tp.Topic, "kept")
	// Compaction drops records without a key, which only a topic that was not
	// compacted at first can have. Of a batch at the end of the log these releases
	// keep the header.
	var keyless []outside.Record
	for range 20 {
		r := outside.To(tp.Topic, 0, "", "value")
		r.Key = nil
		keyless = append(keyless, r)
	}
	target.Produce(t, nil, keyless...)
	last, end = 1, 21
	require.Equal(t, end, target.EndOffsets(t, tp.Topic)[0])
	target.Java.SetTopicConfig(t, tp.Topic, map[string]string{"cleanup.policy": "compact"})
	// The active segment is never compacted; a duplicate has a new one begun.
	deadline := time.Now().Add(patience)
	for w.HasRecords(t, tp.Topic, last) {
		require.False(t, time.Now().After(deadline), "the log is not compacted")
		time.Sleep(rollAfter / 2)
		producer.Send(t, tp.Topic, "kept")
	}
	require.Equal(t, end, target.EndOffsets(t, tp.Topic)[0])
	return tp, last, end
}

// B04 (d)
func TestEndOfALogWhoseLastOffsetsWereCompactedAway(t *testing.T) {
	ForEachReleaseAtOnce(t, func(t *testing.T, target *Target) {
		tp, last, end := compactedAway(t, target)
		cfg := caseConfig()
		cfg.GroupID = target.Unique(t)
		c := assigned(t, target, cfg, tp)
		require.Equal(t, consume.Span(0, last), pollOffsets(t, c, int(last), patience))
		require.Empty(t, waitLag(t, c, tp, 0))
		require.Equal(t, end, position(t, c, tp))
		require.NoError(t, c.Commit(t.Context()))
		require.Equal(t, map[kafka.TopicPartition]int64{tp: end}, committed(t, target, cfg.GroupID))

		appendTo(t, target, tp.Topic, 0, 1)
		require.Equal(t, []int64{end}, pollOffsets(t, c, 1, patience))

		// An iteration to the end ends there, too.
		again := assigned(t, target, caseConfig(), tp)
		require.Equal(t, []int64{0, end}, untilEnd(t, again))
	})
}

// untilEnd gives the offsets that RecordsUntilEnd yields.
func untilEnd(t *testing.T, c *kafka.Consumer) []int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []int64
	for r, err := range c.RecordsUntilEnd(ctx) {
		require.NoError(t, err, "it ends by itself")
		got = append(got, r.Offset)
	}
	return got
}

func TestRecordsUntilEnd(t *testing.T) {
	ForEachReleaseAtOnce(t, func(t *testing.T, target *Target) {
		t.Run("of an empty partition", func(t *testing.T) {
			t.Parallel()
			require.Empty(t, untilEnd(t, assigned(t, target, caseConfig(), kafka.TopicPartition{Topic: target.Topic(t, 1)})))
		})
		t.Run("of a partition whose records were all deleted", func(t *testing.T) {
			t.Parallel()
			tp := kafka.TopicPartition{Topic: target.Topic(t, 1)}
			appendTo(t, target, tp.Topic, 0, 10)
			target.DeleteRecords(t, tp.Topic, 0, 10)
			require.Empty(t, untilEnd(t, assigned(t, target, caseConfig(), tp)))
		})
		t.Run("of some empty partitions and one that grows meanwhile", func(t *testing.T) {
			t.Parallel()
			topic := target.Topic(t, 3)
			appendTo(t, target, topic, 1, 10)
			cfg := caseConfig()
			cfg.GroupID, cfg.Topics = target.Unique(t), []string{topic}
			c := newConsumer(t, target, cfg)
			var got []int64
			for r, err := range c.RecordsUntilEnd(t.Context()) {
				require.NoError(t, err)
				if got = append(got, r.Offset); len(got) == 1 {
					appendTo(t, target, topic, 1, 10)
				}
			}
			require.Equal(t, consume.Span(0, 10), got)
		})
		t.Run("of transactions that were committed, aborted and left open", func(t *testing.T) {
			t.Parallel()
			tp := kafka.TopicPartition{Topic: target.Topic(t, 1)}
			id := target.Unique(t)
			write := func() interface{ Commit(testing.TB) } {
				x := target.Java.Begin(t, id, nil)
				x.Produce(t, outside.To(tp.Topic, 0, "k", "v"), outside.To(tp.Topic, 0, "k", "v"))
				return x
			}
			write().Commit(t) // 0, 1, marker 2
			x := target.Java.Begin(t, id, nil)
			x.Produce(t, outside.To(tp.Topic, 0, "k", "v")) // 3
			x.Abort(t)                                      // marker 4
			cfg := caseConfig()
			committedOnly := cfg
			committedOnly.IsolationLevel = kafka.ReadCommitted
			require.Equal(t, []int64{0, 1}, untilEnd(t, assigned(t, target, committedOnly, tp)))
			require.Equal(t, []int64{0, 1, 3}, untilEnd(t, assigned(t, target, cfg, tp)))
			write() // 5, 6
			c := assigned(t, target, committedOnly, tp)
			require.Equal(t, []int64{0, 1}, untilEnd(t, c))
			require.Equal(t, int64(5), position(t, c, tp))
			require.Equal(t, []int64{0, 1, 3, 5, 6}, untilEnd(t, assigned(t, target, cfg, tp)))
		})
	})
}

// B25
func TestHeadersOfTheJavaProducer(t *testing.T) {
	ForEachReleaseAtOnce(t, func(t *testing.T, target *Target) {
		tp := kafka.TopicPartition{Topic: target.Topic(t, 1)}
		odd := []outside.Header{
			{Key: "a"}, {Key: "a", Value: []byte{}}, {Key: "a", Value: []byte("again")}, {Key: "", Value: []byte("no key")},
			{Key: "bytes", Value: []byte{0xC3, 0x28}}, {Key: "标题", Value: []byte("值")},
		}
		var many []outside.Header
		for i := range 2000 {
			many = append(many, outside.Header{Key: fmt.Sprint("h", i%7), Value: []byte(fmt.Sprint(i))})
		}
		partition := int32(0)
		sent := []outside.Record{
			{Topic: tp.Topic, Partition: &partition, Headers: odd},
			{Topic: tp.Topic, Partition: &partition, Key: []byte{}, Value: []byte{}, Headers: many},
			{Topic: tp.Topic, Partition: &partition, Value: []byte("none")},
		}
		codecs := []string{"none", "zstd"}
		for _, codec := range codecs {
			target.Produce(t, map[string]string{"compression.type": codec}, sent...)
		}
		c := assigned(t, target, caseConfig(), tp)
		records, errs := pollUntil(t, c, patience, func(got []kafka.Record) bool { return len(got) == len(codecs)*len(sent) })
		require.Empty(t, errs)
		require.Len(t, records, len(codecs)*len(sent))
		for i, r := range records {
			want := sent[i%len(sent)]
			require.Equal(t, want.Key, r.Key)
			require.Equal(t, want.Value, r.Value)
			headers := slices.Collect(r.Headers())
			require.Len(t, headers, len(want.Headers))
			for j, h := range headers {
				require.Equal(t, want.Headers[j], outside.Header(h), "null and empty differ")
			}
		}
	})
}

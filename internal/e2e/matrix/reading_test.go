//go:build unix

package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/logbuffer"
)

// short is a release as BrokerVersion and the log tell it: as far as the protocol
// tells releases apart.
func short(release string) string {
	parts := strings.Split(release, ".")
	if parts[0] == "0" && (parts[1] == "8" || parts[1] == "10") {
		return strings.Join(parts[:3], ".")
	}
	return strings.Join(parts[:2], ".")
}

// B46
func isRecognised(t *testing.T, e *env) {
	topic := e.topic(t, "recognised", 1, nil)
	for _, setting := range []string{"", e.release} {
		t.Run(settingName(setting), func(t *testing.T) {
			log := &logbuffer.Buffer{}
			c := e.open(t, kafka.Config{APIVersion: setting, Logger: slog.New(slog.NewTextHandler(log, nil))})
			require.Equal(t, short(e.release), c.BrokerVersion())
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			got, err := c.PartitionsForTopic(ctx, topic)
			require.NoError(t, err)
			require.Equal(t, []int32{0}, got)
			if setting == "" {
				require.Contains(t, log.String(), short(e.release), "the log names the release")
			}
		})
	}
}

func assignmentByHand(t *testing.T, e *env) {
	topic := e.topic(t, "by hand", 2, nil)
	e.fill(t, topic, 0, 100, 0, 1)
	tps := partitions(topic, 2)
	c := e.assigned(t, kafka.Config{}, tps...)
	require.Equal(t, map[kafka.TopicPartition][]int64{tps[0]: consume.Span(0, 100), tps[1]: consume.Span(0, 100)}, byPartition(consume.Poll(t, c, 200)))

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ends, err := c.EndOffsets(ctx, tps...)
	require.NoError(t, err)
	require.Equal(t, map[kafka.TopicPartition]int64{tps[0]: 100, tps[1]: 100}, ends)
	begins, err := c.BeginningOffsets(ctx, tps...)
	require.NoError(t, err)
	require.Equal(t, map[kafka.TopicPartition]int64{tps[0]: 0, tps[1]: 0}, begins)

	require.NoError(t, c.Pause(tps[1]))
	require.NoError(t, c.Seek(tps[0], 97))
	require.NoError(t, c.SeekToBeginning(tps[1]))
	require.Equal(t, map[kafka.TopicPartition][]int64{tps[0]: {97, 98, 99}}, byPartition(consume.Poll(t, c, 3)))
	nothing(t, c)
	require.NoError(t, c.Resume(tps[1]))
	require.Equal(t, map[kafka.TopicPartition][]int64{tps[1]: consume.Span(0, 100)}, byPartition(consume.Poll(t, c, 100)))

	require.NoError(t, c.SeekToEnd(tps...))
	for _, tp := range tps {
		position, err := c.Position(ctx, tp)
		require.NoError(t, err)
		require.Equal(t, int64(100), position)
	}
	e.fill(t, topic, 100, 1, 0, 1)
	require.Equal(t, map[kafka.TopicPartition][]int64{tps[0]: {100}, tps[1]: {100}}, byPartition(consume.Poll(t, c, 2)))

	// Beyond the end is out of range: the policy decides.
	require.NoError(t, c.Seek(tps[0], 1000))
	require.Equal(t, consume.Span(0, 101), byPartition(consume.Poll(t, c, 101))[tps[0]])
	never := e.assigned(t, kafka.Config{AutoOffsetReset: kafka.ResetNone}, tps[0])
	require.NoError(t, never.Seek(tps[0], 1000))
	_, err = never.Poll(ctx, -1)
	var outOfRange *kafka.OffsetOutOfRangeError
	require.ErrorAs(t, err, &outOfRange)
}

// Brokers cut an answer wherever its size ends, within a message as well.
func smallFetches(t *testing.T, e *env) {
	topics := e.fillByCodec(t, "small", formatOf(e.release), nil)
	e.requireReadsAll(t, kafka.Config{MaxPartitionFetchBytes: 700}, topics)
	if setting, ok := e.cuttingSetting(); ok && setting != "" {
		e.requireReadsAll(t, kafka.Config{MaxPartitionFetchBytes: 700, APIVersion: setting}, topics)
	}
}

// large is the size of a record that no fetch of a default size holds.
const large = 5 << 20

func incompressible(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return string(b)
}

// withOneLarge makes a topic of two partitions, the first with a large record
// between two small ones, and gives it.
func (e *env) withOneLarge(t *testing.T) (topic string, sent []outside.Record) {
	t.Helper()
	topic = e.topic(t, "large", 2, nil)
	sent = []outside.Record{outside.To(topic, 0, "k", "before"), outside.To(topic, 0, "k", incompressible(large)), outside.To(topic, 0, "k", "behind")}
	properties := map[string]string{"max.request.size": fmt.Sprint(large + 1000), "linger.ms": "0"}
	for _, r := range sent {
		e.Produce(t, properties, r)
	}
	return topic, sent
}

// cuttingSetting is an APIVersion with which the broker cuts messages, if it still
// does.
func (e *env) cuttingSetting() (string, bool) {
	switch {
	case !e.has("0.10.1"):
		return "", true
	case e.has("4.0"):
		return "", false
	}
	return "0.10.0", true
}

// B32
func aRecordLargerThanAFetch(t *testing.T, e *env) {
	topic, sent := e.withOneLarge(t)
	settings := []string{""}
	if s, ok := e.cuttingSetting(); ok && s != "" {
		settings = append(settings, s)
	}
	for i, setting := range settings {
		t.Run(settingName(setting), func(t *testing.T) {
			tps := partitions(topic, 2)
			c := e.assigned(t, kafka.Config{APIVersion: setting, MaxPartitionFetchBytes: 1 << 20}, tps...)
			e.fill(t, topic, int64(10*i), 10, 1) // the other partition keeps flowing
			got := map[int32][]kafka.Record{}
			for _, r := range consume.Poll(t, c, 3+10*(i+1)) {
				got[r.Partition] = append(got[r.Partition], r)
			}
			for i, r := range got[0] {
				require.Equal(t, int64(i), r.Offset)
				require.True(t, bytes.Equal(sent[i].Value, r.Value), "value of %d", i)
			}
			require.Len(t, got[1], 10*(i+1))
			nothing(t, c)
		})
	}
}

// B32
func aRecordLargerThanAnAnswerMayBe(t *testing.T, e *env) {
	setting, _ := e.cuttingSetting()
	topic, sent := e.withOneLarge(t)
	tps := partitions(topic, 2)
	const limit = 4 << 20
	c := e.assigned(t, kafka.Config{
		APIVersion: setting, FetchMaxBytes: 1 << 20, MaxPartitionFetchBytes: 1 << 20, ReceiveMessageMaxBytes: limit,
	}, tps...)
	e.fill(t, topic, 0, 10, 1)
	var records []kafka.Record
	var tooLarge *kafka.BatchTooLargeError
	for deadline := time.Now().Add(patience); tooLarge == nil || len(records) < 11; {
		require.True(t, time.Now().Before(deadline), "%d records, error %v", len(records), tooLarge)
		got, err := c.Poll(t.Context(), time.Second)
		if err != nil {
			require.True(t, errors.As(err, &tooLarge), "%v", err)
			var at *kafka.PartitionError
			require.ErrorAs(t, err, &at)
			require.Equal(t, tps[0], kafka.TopicPartition{Topic: at.Topic, Partition: at.Partition})
			require.Contains(t, err.Error(), "offset 1", "it names the offset")
			continue
		}
		for r := range got.All() {
			records = append(records, r.Clone())
		}
	}
	require.Equal(t, map[kafka.TopicPartition][]int64{tps[0]: {0}, tps[1]: consume.Span(0, 10)}, byPartition(records))
	require.NoError(t, c.Seek(tps[0], 2))
	behind := consume.Poll(t, c, 1)
	require.Equal(t, string(sent[2].Value), string(behind[0].Value))
	e.fill(t, topic, 10, 10, 1)
	require.Equal(t, map[kafka.TopicPartition][]int64{tps[1]: consume.Span(10, 20)}, byPartition(consume.Poll(t, c, 10)))
}

// A compacted log has gaps, within compressed messages as well.
func compactedTopic(t *testing.T, e *env) {
	for _, codec := range []string{"none", "gzip"} {
		t.Run(codec, func(t *testing.T) {
			const keys, rounds = 7, 40
			filler := 30 // bytes
			configs := map[string]string{"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}
			if e.has("4.0") { // which has no smaller segments
				configs["segment.bytes"], filler = "1048576", 40_000
			}
			topic := e.topic(t, "compacted "+codec, 1, configs)
			properties := map[string]string{"compression.type": codec}
			filling := incompressible(filler)
			for round := range rounds {
				var records []outside.Record
				for k := range keys {
					records = append(records, outside.To(topic, 0, fmt.Sprint("key ", k), fmt.Sprintf("round %d of %s", round, filling)))
				}
				e.Produce(t, properties, records...)
			}
			// The active segment stays as it is. What is left before it are the last of each key there.
			var got []kafka.Record
			require.Eventually(t, func() bool {
				c := e.assigned(t, kafka.Config{}, kafka.TopicPartition{Topic: topic})
				got = got[:0]
				for r, err := range c.RecordsUntilEnd(t.Context()) {
					require.NoError(t, err)
					got = append(got, r)
				}
				return len(got) < keys*rounds/2
			}, patience, 500*time.Millisecond, "the log is not compacted")
			requireCompacted(t, got, keys, rounds)
		})
	}
}

// requireCompacted requires that records are in order, with the value that was
// written at their offset, and that the last of each key is there.
func requireCompacted(t *testing.T, got []kafka.Record, keys, rounds int) {
	t.Helper()
	last := map[string]string{}
	for i, r := range got {
		if i > 0 {
			require.Greater(t, r.Offset, got[i-1].Offset)
		}
		require.Equal(t, fmt.Sprint("key ", r.Offset%int64(keys)), string(r.Key))
		require.Contains(t, string(r.Value), fmt.Sprintf("round %d of", r.Offset/int64(keys)))
		last[string(r.Key)] = string(r.Value)
	}
	require.Len(t, last, keys)
	for key, value := range last {
		require.Contains(t, value, fmt.Sprintf("round %d of", rounds-1), "last of %s", key)
	}
}

// A broker before 0.11 makes a topic that metadata is asked of by name, if it may.
func createsNoTopics(t *testing.T, e *env) {
	missing := kafka.TopicPartition{Topic: e.name("missing")}
	there := kafka.TopicPartition{Topic: e.topic(t, "there", 1, nil)}
	e.fill(t, there.Topic, 0, 1, 0)
	c := e.assigned(t, kafka.Config{}, missing, there)
	consume.Poll(t, c, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	none, err := c.PartitionsForTopic(ctx, missing.Topic)
	require.NoError(t, err)
	require.Empty(t, none)
	require.NotContains(t, e.cluster.Topics(t), missing.Topic)
	consume.Close(t, c)

	creator := e.assigned(t, kafka.Config{AllowAutoCreateTopics: true}, missing)
	require.Eventually(t, func() bool {
		_, err := creator.Poll(t.Context(), 200*time.Millisecond)
		return err == nil && slices.Contains(e.cluster.Topics(t), missing.Topic)
	}, patience, 100*time.Millisecond, "AllowAutoCreateTopics makes it")
	e.cluster.AwaitTopic(t, missing.Topic, 1)
	e.fill(t, missing.Topic, 0, 1, 0)
	consume.Poll(t, creator, 1)
}

//go:build unix

package matrix

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

// timed makes a topic of eleven records, a second apart, the first at base.
func (e *env) timed(t *testing.T, what string) (tp kafka.TopicPartition, base time.Time) {
	t.Helper()
	tp = kafka.TopicPartition{Topic: e.topic(t, what, 1, nil)}
	base = time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli())
	at := func(after time.Duration, value string) outside.Record {
		r, millis := outside.To(tp.Topic, 0, "k", value), base.Add(after).UnixMilli()
		r.Timestamp = &millis
		return r
	}
	var records []outside.Record
	for i := range 10 {
		records = append(records, at(time.Duration(i)*time.Second, fmt.Sprint(i)))
	}
	e.Produce(t, map[string]string{"compression.type": "gzip"}, records...)
	e.Produce(t, nil, at(10*time.Second, "last"))
	return tp, base
}

// The broker's time stands in each record, be it in a compressed wrapper of format
// v1 or in a batch.
func logAppendTime(t *testing.T, e *env) {
	versions := []string{""}
	if e.has("0.11") && !e.has("3.0") {
		versions = append(versions, "0.10.0")
	}
	for _, version := range versions {
		for _, codec := range []string{"none", "gzip", "lz4"} {
			t.Run(codec+" "+version, func(t *testing.T) {
				configs := map[string]string{"message.timestamp.type": "LogAppendTime"}
				if version != "" {
					configs["message.format.version"] = version
				}
				topic := e.topic(t, "append time "+codec, 1, configs)
				began := time.Now().Truncate(time.Millisecond)
				sent := e.sample(topic)
				e.Produce(t, map[string]string{"compression.type": codec}, sent...)
				ended := time.Now()
				for _, setting := range []string{"", "0.10.0"} {
					if setting != "" && e.has("4.0") {
						continue
					}
					c := e.assigned(t, kafka.Config{APIVersion: setting}, kafka.TopicPartition{Topic: topic})
					for i, r := range consume.Poll(t, c, len(sent)) {
						require.Equal(t, int64(i), r.Offset)
						require.Equal(t, sent[i].Value, r.Value)
						require.Equal(t, kafka.LogAppendTime, r.TimestampType())
						require.WithinRange(t, r.Timestamp(), began, ended)
					}
					consume.Close(t, c)
				}
			})
		}
	}
}

func offsetsByTime(t *testing.T, e *env) {
	tp, base := e.timed(t, "by time")
	empty := kafka.TopicPartition{Topic: e.topic(t, "empty", 1, nil)}
	settings := []string{"", e.release}
	if !e.has("4.0") {
		settings = append(settings, "0.10.1")
	}
	for _, setting := range settings {
		t.Run(settingName(setting), func(t *testing.T) {
			c := e.open(t, kafka.Config{APIVersion: setting})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for _, want := range []struct {
				after  time.Duration
				offset int64 // -1: none
			}{{-time.Minute, 0}, {0, 0}, {2500 * time.Millisecond, 3}, {9 * time.Second, 9}, {10 * time.Second, 10}, {time.Minute, -1}} {
				got, err := c.OffsetsForTimes(ctx, map[kafka.TopicPartition]time.Time{tp: base.Add(want.after), empty: base})
				require.NoError(t, err)
				if want.offset < 0 {
					require.Empty(t, got)
					continue
				}
				require.Len(t, got, 1)
				require.Equal(t, want.offset, got[tp].Offset, "after %v", want.after)
				require.Equal(t, base.Add(time.Duration(want.offset)*time.Second).UnixMilli(), got[tp].Timestamp.UnixMilli())
			}
			require.NoError(t, c.Assign(tp))
			require.NoError(t, c.SeekToTime(ctx, base.Add(8*time.Second), tp))
			require.Equal(t, []string{"8", "9", "last"}, consume.Values(consume.Poll(t, c, 3)))
		})
	}
	if !e.has("4.0") {
		t.Run("APIVersion 0.10.0", func(t *testing.T) { e.requireNoOffsetsByTime(t, tp, "0.10.0") })
	}
}

func noOffsetsByTime(t *testing.T, e *env) {
	tp := kafka.TopicPartition{Topic: e.topic(t, "not by time", 1, nil)}
	e.fill(t, tp.Topic, 0, 1, 0)
	e.requireNoOffsetsByTime(t, tp, "")
	e.requireNoOffsetsByTime(t, tp, e.release)
}

func (e *env) requireNoOffsetsByTime(t *testing.T, tp kafka.TopicPartition, setting string) {
	t.Helper()
	c := e.assigned(t, kafka.Config{APIVersion: setting}, tp)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := c.OffsetsForTimes(ctx, map[kafka.TopicPartition]time.Time{tp: time.Now()})
	requireUnsupported(t, err, "ListOffsets")
	requireUnsupported(t, c.SeekToTime(ctx, time.Now(), tp), "ListOffsets")
}

func headers(t *testing.T, e *env) {
	tp := kafka.TopicPartition{Topic: e.topic(t, "headers", 1, nil)}
	r := outside.To(tp.Topic, 0, "k", "v")
	r.Headers = []outside.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "", Value: []byte{}}, {Key: "名", Value: []byte{0xC3}}}
	for _, codec := range e.codecs() {
		e.Produce(t, map[string]string{"compression.type": codec}, r)
	}
	c := e.assigned(t, kafka.Config{}, tp)
	for _, got := range consume.Poll(t, c, len(e.codecs())) {
		var read []outside.Header
		for h := range got.Headers() {
			read = append(read, outside.Header(h))
		}
		require.Equal(t, r.Headers, read)
		require.Equal(t, len("a1")+len("a")+len("名")+1, got.SerializedHeaderSize())
	}
}

func transactions(t *testing.T, e *env) {
	tp := kafka.TopicPartition{Topic: e.topic(t, "transactions", 1, nil)}
	id := e.name("transactional")
	aborted := e.Begin(t, id)
	aborted.Produce(t, outside.To(tp.Topic, 0, "k", "aborted"))
	aborted.Abort(t)
	e.Produce(t, nil, outside.To(tp.Topic, 0, "k", "plain"))
	open := e.Begin(t, id)
	open.Produce(t, outside.To(tp.Topic, 0, "k", "open"))
	e.Produce(t, nil, outside.To(tp.Topic, 0, "k", "behind"))

	all := e.assigned(t, kafka.Config{}, tp)
	require.Equal(t, []string{"aborted", "plain", "open", "behind"}, consume.Values(consume.Poll(t, all, 4)))
	c := e.assigned(t, kafka.Config{IsolationLevel: kafka.ReadCommitted}, tp)
	require.Equal(t, []string{"plain"}, consume.Values(consume.Poll(t, c, 1)))
	nothing(t, c)
	open.Commit(t)
	require.Equal(t, []string{"open", "behind"}, consume.Values(consume.Poll(t, c, 2)))
}

// Without the list of aborted transactions, which came with Fetch v4, read_committed
// would be a promise that nobody keeps.
func noTransactions(t *testing.T, e *env) {
	tp := kafka.TopicPartition{Topic: e.topic(t, "no transactions", 1, nil)}
	e.fill(t, tp.Topic, 0, 1, 0)
	c := e.assigned(t, kafka.Config{IsolationLevel: kafka.ReadCommitted}, tp)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := c.Poll(ctx, -1)
	requireUnsupported(t, err, "Fetch")
}

// The broker refuses to send zstd to an older Fetch where it knows of it: from the
// topic's configuration, or because it would have to convert it.
func zstdNeedsAYoungerFetch(t *testing.T, e *env) {
	for setting, configs := range map[string]map[string]string{"2.0": {"compression.type": "zstd"}, "0.10.1": nil} {
		t.Run(settingName(setting), func(t *testing.T) {
			tp := kafka.TopicPartition{Topic: e.topic(t, "zstd", 1, configs)}
			e.Produce(t, map[string]string{"compression.type": "zstd"}, outside.To(tp.Topic, 0, "k", "v"))
			c := e.assigned(t, kafka.Config{APIVersion: setting}, tp)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := c.Poll(ctx, -1)
			var at *kafka.PartitionError
			require.ErrorAs(t, err, &at)
			require.Equal(t, tp, kafka.TopicPartition{Topic: at.Topic, Partition: at.Partition})
			require.ErrorIs(t, err, kafka.ErrorCode(76), "UNSUPPORTED_COMPRESSION_TYPE")
		})
	}
}

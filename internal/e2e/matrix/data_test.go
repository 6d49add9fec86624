//go:build unix

package matrix

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

// sampleSize is how many records sample makes.
const sampleSize = 300

// sample makes records of one partition with keys and values of all kinds.
func (e *env) sample(topic string) []outside.Record {
	partition := int32(0)
	base := time.Now().Add(-time.Hour).UnixMilli() // records that are too old would be deleted
	records := make([]outside.Record, sampleSize)
	for i := range records {
		r := outside.Record{Topic: topic, Partition: &partition}
		r.Key = fmt.Appendf(nil, "key %d", i)
		r.Value = bytes.Repeat(fmt.Appendf(nil, "value %d of %s ", i, topic), i%40)
		switch i % 10 {
		case 3:
			r.Key = nil
		case 5:
			if e.has("0.8.1") { // whose producer is the first to write nulls
				r.Value = nil
			}
		case 7:
			r.Key = []byte{}
		}
		if e.has("0.10") {
			millis := base + int64(i)
			r.Timestamp = &millis
		}
		records[i] = r
	}
	return records
}

// formatOf is the message format that a release stores, or sends at most.
func formatOf(release string) int {
	switch {
	case broker.Before(release, "0.10"):
		return 0
	case broker.Before(release, "0.11"):
		return 1
	}
	return 2
}

// formatRead is the format in which a topic's records arrive when the consumer is
// set to an APIVersion: brokers convert down what it could not read.
func (e *env) formatRead(stored int, setting string) int {
	if setting == "" {
		setting = e.release
	}
	return min(stored, formatOf(setting))
}

// requireSame requires that records are those that were sent, from an offset on, as
// they are in a message format.
func requireSame(t *testing.T, base int64, sent []outside.Record, format int, got []kafka.Record) {
	t.Helper()
	require.Len(t, got, len(sent))
	for i, r := range got {
		want := sent[i]
		require.Equal(t, base+int64(i), r.Offset)
		require.Equal(t, want.Key, r.Key, "key of %d: null and empty differ", i)
		require.Equal(t, want.Value, r.Value, "value of %d", i)
		require.Equal(t, sizeOf(want.Key), r.SerializedKeySize())
		require.Equal(t, sizeOf(want.Value), r.SerializedValueSize())
		require.Equal(t, -1, r.SerializedHeaderSize())
		if format == 0 {
			require.Equal(t, kafka.NoTimestamp, r.TimestampType())
			require.Zero(t, r.Timestamp())
		} else {
			require.Equal(t, kafka.CreateTime, r.TimestampType())
			require.Equal(t, *want.Timestamp, r.Timestamp().UnixMilli())
		}
		sum, ok := r.Checksum()
		require.Equal(t, format < 2, ok, "records of format v2 have no checksum of their own")
		if ok {
			require.Equal(t, checksumOf(want, format), sum, "checksum of %d", i)
		}
	}
}

func sizeOf(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

// checksumOf is the CRC-32 of a message of format v0 or v1: of all that comes
// behind it.
func checksumOf(r outside.Record, format int) uint32 {
	b := []byte{byte(format), 0}
	if format == 1 {
		b = binary.BigEndian.AppendUint64(b, uint64(*r.Timestamp))
	}
	for _, field := range [][]byte{r.Key, r.Value} {
		b = binary.BigEndian.AppendUint32(b, uint32(sizeOf(field)))
		b = append(b, field...)
	}
	return crc32.ChecksumIEEE(b)
}

// A filled topic has the sample in partition 0.
type filled struct {
	kafka.TopicPartition
	codec  string
	sent   []outside.Record
	format int // in which it is stored
}

// fillByCodec makes a topic for each of the producer's codecs.
func (e *env) fillByCodec(t *testing.T, what string, format int, configs map[string]string) []filled {
	t.Helper()
	var out []filled
	for _, codec := range e.codecs() {
		if codec == "zstd" && format < 2 {
			continue // there is no such thing
		}
		topic := e.topic(t, what+" "+codec, 1, configs)
		sent := e.sample(topic)
		e.Produce(t, map[string]string{"compression.type": codec}, sent...)
		out = append(out, filled{kafka.TopicPartition{Topic: topic}, codec, sent, format})
	}
	return out
}

// requireReadsAll requires that a consumer with a setting reads topics whole, in
// order, and everything once.
func (e *env) requireReadsAll(t *testing.T, cfg kafka.Config, topics []filled) {
	t.Helper()
	var tps []kafka.TopicPartition
	var readable []filled
	for _, f := range topics {
		// Brokers send zstd also to those that ask with a Fetch before 2.1, unless it would have to be converted.
		if f.codec != "zstd" || cfg.APIVersion == "" || !broker.Before(cfg.APIVersion, "0.11") {
			tps, readable = append(tps, f.TopicPartition), append(readable, f)
		}
	}
	c := e.assigned(t, cfg, tps...)
	got := map[kafka.TopicPartition][]kafka.Record{}
	for _, r := range consume.Poll(t, c, len(tps)*sampleSize) {
		got[r.TopicPartition()] = append(got[r.TopicPartition()], r)
	}
	for _, f := range readable {
		requireSame(t, 0, f.sent, e.formatRead(f.format, cfg.APIVersion), got[f.TopicPartition])
	}
	nothing(t, c)
}

// settingName names a subtest.
func settingName(setting string) string {
	if setting == "" {
		return "automatic"
	}
	return "APIVersion " + setting
}

// B23 B46
func whatItsProducerWrote(t *testing.T, e *env) {
	topics := e.fillByCodec(t, "codec", formatOf(e.release), nil)
	for _, setting := range e.settings() {
		t.Run(settingName(setting), func(t *testing.T) {
			e.requireReadsAll(t, kafka.Config{APIVersion: setting}, topics)
		})
	}
}

// B06 B23: the broker stores in an older format what the producer sent in its own, v0
// with the framing of LZ4 that was wrong before 0.10.
func olderMessageFormats(t *testing.T, e *env) {
	for _, older := range []string{"0.9.0", "0.10.0"} {
		if formatOf(older) == formatOf(e.release) {
			continue
		}
		t.Run("message.format.version "+older, func(t *testing.T) {
			topics := e.fillByCodec(t, "format "+older, formatOf(older), map[string]string{"message.format.version": older})
			e.requireReadsAll(t, kafka.Config{}, topics)
			e.requireReadsAll(t, kafka.Config{APIVersion: "0.9"}, topics)
		})
	}
}

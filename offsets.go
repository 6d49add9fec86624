package kafka

import (
	"fmt"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A TopicPartition names one partition of a topic.
type TopicPartition = protocol.TopicPartition

// An OffsetAndMetadata is an offset to commit or one that was committed: the
// offset of the next record to read, and a text that is stored with it.
//
// The zero value has no leader epoch; WithLeaderEpoch sets one.
type OffsetAndMetadata struct {
	Offset   int64
	Metadata string

	epochPlusOne int32
}

// LeaderEpoch returns the epoch of the leader that the record before Offset was
// read from (KIP-320); false when it is unknown.
func (o OffsetAndMetadata) LeaderEpoch() (int32, bool) {
	return o.epochPlusOne - 1, o.epochPlusOne > 0
}

// WithLeaderEpoch returns a copy of o with the leader epoch; negative means
// unknown.
func (o OffsetAndMetadata) WithLeaderEpoch(epoch int32) OffsetAndMetadata {
	o.epochPlusOne = max(epoch, -1) + 1
	return o
}

// An OffsetAndTimestamp is what OffsetsForTimes found: the first offset whose
// record is not older than the time asked for, and that record's time.
type OffsetAndTimestamp struct {
	Offset    int64
	Timestamp time.Time

	epochPlusOne int32
}

// LeaderEpoch returns the epoch of the leader that the record was written by;
// false when it is unknown.
func (o OffsetAndTimestamp) LeaderEpoch() (int32, bool) {
	return o.epochPlusOne - 1, o.epochPlusOne > 0
}

// An OffsetReset says where to start in a partition that has no valid position:
// no committed offset, or one outside the log. The zero value is ResetLatest.
type OffsetReset struct {
	kind     resetKind
	duration time.Duration
}

type resetKind int8

const (
	resetLatest resetKind = iota
	resetEarliest
	resetNone
	resetByDuration
)

var (
	// ResetLatest starts behind the last record.
	ResetLatest = OffsetReset{kind: resetLatest}
	// ResetEarliest starts at the first record.
	ResetEarliest = OffsetReset{kind: resetEarliest}
	// ResetNone starts nowhere: Poll returns a *NoOffsetForPartitionError or an
	// *OffsetOutOfRangeError until the application seeks.
	ResetNone = OffsetReset{kind: resetNone}
)

// ResetByDuration starts at the first record that is not older than d, and
// behind the last record when there is none (KIP-1106). A negative d is a
// *ConfigError of NewConsumer.
func ResetByDuration(d time.Duration) OffsetReset {
	return OffsetReset{kind: resetByDuration, duration: d}
}

// ParseOffsetReset reads the form of Kafka's auto.offset.reset: "latest",
// "earliest", "none" or "by_duration:" and an ISO 8601 duration such as
// "by_duration:PT1H30M".
func ParseOffsetReset(s string) (OffsetReset, error) {
	switch strings.ToLower(s) {
	case "latest":
		return ResetLatest, nil
	case "earliest":
		return ResetEarliest, nil
	case "none":
		return ResetNone, nil
	}
	const prefix = "by_duration:"
	if len(s) > len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		d, err := parseISODuration(s[len(prefix):])
		if err != nil {
			return OffsetReset{}, fmt.Errorf("kafka: offset reset %q: %w", s, err)
		}
		return ResetByDuration(d), nil
	}
	return OffsetReset{}, fmt.Errorf(`kafka: offset reset %q: allowed are "latest", "earliest", "none", "by_duration:" and an ISO 8601 duration`, s)
}

// String returns the form that ParseOffsetReset reads.
func (r OffsetReset) String() string {
	switch r.kind {
	case resetEarliest:
		return "earliest"
	case resetNone:
		return "none"
	case resetByDuration:
		return "by_duration:" + formatISODuration(r.duration)
	default:
		return "latest"
	}
}

package kafka

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// An ErrorCode is a code that a broker answered. It is an error itself, so
// errors.Is(err, protocol.TopicAuthorizationFailed) tells whether a broker said
// so. The constants are in package protocol.
type ErrorCode = protocol.ErrorCode

// UnsupportedVersionError says that a broker is too old (or too new) for what
// was asked of it, before anything was sent.
type UnsupportedVersionError = protocol.UnsupportedVersionError

var (
	// ErrClosed is returned by every method after Close, and by a call that
	// Close ended. errors.Is(ErrClosed, net.ErrClosed) holds.
	ErrClosed error = closedError{}

	// ErrConcurrentPoll is returned by Poll, Records and Messages while another
	// of them is running. The error that wraps it names the other one.
	ErrConcurrentPoll = errors.New("kafka: another poll, iterator or channel is running")

	// ErrNotSubscribed is returned by Poll, Records and Messages before any
	// Subscribe, SubscribePattern or Assign, and by EnforceRebalance before either
	// of the first two.
	ErrNotSubscribed = errors.New("kafka: neither subscribed to topics nor assigned partitions")

	// ErrNoGroup is returned by what needs a consumer group when Config.GroupID
	// is empty.
	ErrNoGroup = errors.New("kafka: Config.GroupID is empty")

	// ErrNotAssigned is wrapped in the *PartitionError of a call that names a
	// partition which is not assigned to this consumer now, and in the error of a
	// seek of all assigned partitions when there are none.
	ErrNotAssigned = errors.New("kafka: partition is not assigned to this consumer")

	// ErrInCallback is returned by a call that a rebalance or commit callback
	// must not make: Poll, Records, Messages, Unsubscribe.
	ErrInCallback = errors.New("kafka: not allowed inside a callback")

	// ErrSubscriptionConflict is returned when topics, a pattern and manual
	// assignment are mixed without Unsubscribe in between.
	ErrSubscriptionConflict = errors.New("kafka: call Unsubscribe before switching between topics, pattern and manual assignment")

	// ErrBatchTooLarge is what a *BatchTooLargeError unwraps to.
	ErrBatchTooLarge = errors.New("kafka: batch is larger than Config.MaxBatchBytes")
)

// closedError is the type of ErrClosed.
type closedError struct{}

func (closedError) Error() string { return "kafka: consumer closed" }

func (closedError) Unwrap() error { return net.ErrClosed }

// A ConfigError is one fault of a Config, or of a key that ConfigFromMap or
// ConfigFromProperties read. All faults are reported at once, joined; errors.As finds
// the first.
type ConfigError struct {
	Field  string // name of the Config field; "" when the key has none
	Key    string // the key that was read; "" for a fault of NewConsumer's Config
	Value  string // what it was; "(hidden)" for secrets, "" for keys that are not known
	Reason string // what is wrong and what is allowed
	// Unused says that Java or librdkafka knows the key, but that it has no effect
	// here, so that the Config is whole without it.
	Unused bool
}

func (e *ConfigError) Error() string {
	name := "Config." + e.Field
	if e.Key != "" {
		name = e.Key
	}
	if e.Value == "" {
		return fmt.Sprintf("kafka: %s: %s", name, e.Reason)
	}
	return fmt.Sprintf("kafka: %s = %s: %s", name, e.Value, e.Reason)
}

// An ArgumentError says that an argument of a call is not allowed.
type ArgumentError struct {
	Argument string // such as "topics"
	Value    string // what it was
	Reason   string // what is wrong and what is allowed
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("kafka: %s = %s: %s", e.Argument, e.Value, e.Reason)
}

// An AuthenticationError says that a broker refused the client, or the client the
// broker, in TLS or SASL. It is not retried at once.
type AuthenticationError struct {
	Broker  int32  // node id; -1 for a bootstrap server
	Address string // what was dialled
	Err     error
}

func (e *AuthenticationError) Error() string {
	return fmt.Sprintf("kafka: authentication failed: %v", trimmed{e.Err})
}

// Unwrap returns the reason.
func (e *AuthenticationError) Unwrap() error { return e.Err }

// A BrokerError is what a broker answered instead of doing what was asked. It
// unwraps to its ErrorCode.
type BrokerError struct {
	Broker  int32     // node id; -1 for a bootstrap server whose id is unknown
	API     string    // the request, such as "OffsetCommit"
	Code    ErrorCode // what was answered
	Message string    // the broker's own text, if it sent one
}

func (e *BrokerError) Error() string {
	s := fmt.Sprintf("kafka: %s: broker %d: %s", e.API, e.Broker, e.Code.Error())
	if e.Message != "" {
		s += fmt.Sprintf(": %q", e.Message)
	}
	return s
}

// Unwrap returns the ErrorCode.
func (e *BrokerError) Unwrap() error { return e.Code }

// A PartitionError says which partition an error is about. Every error about a
// partition can be found as a *PartitionError by errors.As.
type PartitionError struct {
	Topic     string
	Partition int32
	Err       error
}

func (e *PartitionError) Error() string {
	return fmt.Sprintf("kafka: partition %s: %v", TopicPartition{Topic: e.Topic, Partition: e.Partition}, trimmed{e.Err})
}

// Unwrap returns what is wrong with the partition.
func (e *PartitionError) Unwrap() error { return e.Err }

// TopicPartition returns the partition that the error is about.
func (e *PartitionError) TopicPartition() TopicPartition {
	return TopicPartition{Topic: e.Topic, Partition: e.Partition}
}

// trimmed prints an inner error without repeating the package's prefix.
type trimmed struct{ err error }

func (t trimmed) String() string {
	const prefix = "kafka: "
	s := t.err.Error()
	if len(s) > len(prefix) && s[:len(prefix)] == prefix {
		return s[len(prefix):]
	}
	return s
}

// A DeserializationError says that a record's key or value could not be decoded
// by the Deserializer of a TypedConsumer. The record counts as handed over.
type DeserializationError struct {
	Topic     string
	Partition int32
	Offset    int64
	IsKey     bool   // the key did not decode; otherwise the value
	Data      []byte // the raw bytes, a copy
	Record    Record // the record, cloned
	Err       error  // the Deserializer's error
}

func (e *DeserializationError) Error() string {
	what := "value"
	if e.IsKey {
		what = "key"
	}
	return fmt.Sprintf("kafka: partition %s, offset %d: %s of %d bytes does not decode: %v",
		TopicPartition{Topic: e.Topic, Partition: e.Partition}, e.Offset, what, len(e.Data), e.Err)
}

// Unwrap returns the Deserializer's error.
func (e *DeserializationError) Unwrap() []error {
	return []error{e.Err, &PartitionError{e.Topic, e.Partition, e.Err}}
}

// batchFault is what the errors about one batch have in common.
type batchFault struct {
	// BatchOffset is the offset at which the faulty batch begins.
	BatchOffset int64
	next        int64
	known       bool
}

// NextOffset returns the offset behind the faulty batch, to which one can Seek to
// get past it; false when the batch does not tell.
func (f batchFault) NextOffset() (int64, bool) { return f.next, f.known }

// A CorruptRecordError says that a batch's checksum is wrong or that its bytes
// do not form records. The position stays at the batch.
type CorruptRecordError struct {
	batchFault
	Err error
}

func (e *CorruptRecordError) Error() string {
	return fmt.Sprintf("kafka: corrupt batch at offset %d: %v%s", e.BatchOffset, e.Err, e.hint())
}

// Unwrap returns what is wrong with the bytes.
func (e *CorruptRecordError) Unwrap() error { return e.Err }

func (f batchFault) hint() string {
	if next, ok := f.NextOffset(); ok {
		return fmt.Sprintf(" (Seek to %d skips it)", next)
	}
	return ""
}

// A BatchTooLargeError says that a batch is larger than Config.MaxBatchBytes
// when decompressed, or larger than Config.ReceiveMessageMaxBytes on the wire. With
// APIVersion below 0.10.1, brokers from 3.0 on send nothing of such a batch, nor of
// offsets that compaction took from the end of a log: these are told as one, and the
// position stays there until a Seek, so that nothing is passed over that is there.
type BatchTooLargeError struct {
	batchFault
	Limit int64 // bytes
	Err   error

	unseen bool // nothing of it came
}

func (e *BatchTooLargeError) Error() string {
	if e.unseen {
		return fmt.Sprintf("kafka: batch at offset %d seems to be larger than %d bytes: %v", e.BatchOffset, e.Limit, e.Err)
	}
	return fmt.Sprintf("kafka: batch at offset %d is larger than %d bytes: %v%s", e.BatchOffset, e.Limit, e.Err, e.hint())
}

// Unwrap returns ErrBatchTooLarge and the detail.
func (e *BatchTooLargeError) Unwrap() []error { return []error{ErrBatchTooLarge, e.Err} }

// A CommitFailedError says that offsets were not committed because this consumer
// is no longer the member that owned the partitions: the group has moved on. The
// partitions' new owner starts at the last committed offset.
type CommitFailedError struct {
	Reason string
	Err    error
}

func (e *CommitFailedError) Error() string {
	return fmt.Sprintf("kafka: commit failed: %s: %v", e.Reason, trimmed{e.Err})
}

// Unwrap returns the broker's answer.
func (e *CommitFailedError) Unwrap() error { return e.Err }

// A NoOffsetForPartitionError says that a partition has no committed offset and
// that AutoOffsetReset is none.
type NoOffsetForPartitionError struct {
	Topic     string
	Partition int32
}

func (e *NoOffsetForPartitionError) Error() string {
	return fmt.Sprintf("kafka: partition %s has no committed offset and AutoOffsetReset is none: Seek sets one",
		TopicPartition{Topic: e.Topic, Partition: e.Partition})
}

// An OffsetOutOfRangeError says that a partition's position is outside its log
// and that AutoOffsetReset is none. The position stays.
type OffsetOutOfRangeError struct {
	Topic     string
	Partition int32
	Offset    int64
}

func (e *OffsetOutOfRangeError) Error() string {
	return fmt.Sprintf("kafka: partition %s: offset %d is out of range and AutoOffsetReset is none: Seek sets another",
		TopicPartition{Topic: e.Topic, Partition: e.Partition}, e.Offset)
}

// A LogTruncationError says that records which this consumer has read are gone
// from the log after a change of leader (KIP-320) and that AutoOffsetReset is
// none.
type LogTruncationError struct {
	Topic          string
	Partition      int32
	Offset         int64             // the position
	DivergentFrom  OffsetAndMetadata // the first offset that may differ
	DivergentKnown bool
}

func (e *LogTruncationError) Error() string {
	s := fmt.Sprintf("kafka: partition %s: log was truncated below offset %d", TopicPartition{Topic: e.Topic, Partition: e.Partition}, e.Offset)
	if e.DivergentKnown {
		s += fmt.Sprintf(", it differs from offset %d on", e.DivergentFrom.Offset)
	}
	return s
}

// A PollIntervalError says that the application did not poll for longer than
// Config.MaxPollInterval, so that the consumer left its group. The next Poll
// joins again.
type PollIntervalError struct {
	Interval time.Duration // Config.MaxPollInterval
	Elapsed  time.Duration // time since the last poll
}

func (e *PollIntervalError) Error() string {
	return fmt.Sprintf("kafka: %v passed between two polls, MaxPollInterval is %v: the consumer left its group and joins again; poll fewer records (MaxPollRecords) or raise MaxPollInterval",
		e.Elapsed.Round(time.Millisecond), e.Interval)
}

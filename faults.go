package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/fetch"
	"github.com/kafkaconsumer/kafka/protocol"
)

// publicFault makes a public error of what a fetch.Table says is wrong with a
// partition.
func publicFault(f fetch.Fault, cfg *Config) error {
	if e, ok := errors.AsType[*fetch.NoPositionError](f.Err); ok {
		if e.OutOfRange {
			return &OffsetOutOfRangeError{Topic: f.TP.Topic, Partition: f.TP.Partition, Offset: e.Offset}
		}
		return &NoOffsetForPartitionError{Topic: f.TP.Topic, Partition: f.TP.Partition}
	}
	if e, ok := errors.AsType[*protocol.BatchError](f.Err); ok {
		where := batchFault{BatchOffset: e.BaseOffset}
		where.next, where.known = e.NextOffset()
		if errors.Is(e, protocol.ErrTooLarge) {
			return &BatchTooLargeError{batchFault: where, Limit: cfg.MaxBatchBytes, Err: e.Err}
		}
		return &CorruptRecordError{batchFault: where, Err: e.Err}
	}
	if e, ok := errors.AsType[*fetch.TruncationError](f.Err); ok {
		divergent := OffsetAndMetadata{Offset: e.Divergent}.WithLeaderEpoch(e.Epoch)
		return &LogTruncationError{Topic: f.TP.Topic, Partition: f.TP.Partition, Offset: e.Offset, DivergentFrom: divergent, DivergentKnown: e.Known}
	}
	if e, ok := errors.AsType[*fetch.SizeError](f.Err); ok {
		return &BatchTooLargeError{batchFault: batchFault{BatchOffset: e.Offset}, Limit: int64(e.Limit), Err: e, unseen: e.Size == 0}
	}
	if e, ok := errors.AsType[*fetch.AnswerError](f.Err); ok {
		return &BrokerError{Broker: e.Broker, API: "Fetch", Code: e.Code}
	}
	return publicError(f.Err)
}

// publicError makes a *BrokerError of what package cluster says a broker answered, and
// an *AuthenticationError of what package conn says of TLS and SASL.
func publicError(err error) error {
	if e, ok := errors.AsType[*conn.AuthError](err); ok {
		if _, done := errors.AsType[*AuthenticationError](err); done {
			return err
		}
		return &AuthenticationError{Broker: e.Node, Address: e.Addr.String(), Err: err}
	}
	if e, ok := errors.AsType[*cluster.CodeError](err); ok {
		return &BrokerError{Broker: e.Node, API: e.API, Code: e.Code, Message: e.Message}
	}
	return err
}

// waitError is the error of a wait that ctx ended; reason is why it took so long,
// nil if that is not known.
func waitError(what string, ctx context.Context, reason error) error {
	if reason == nil {
		return fmt.Errorf("kafka: %s: %w", what, ctx.Err())
	}
	return fmt.Errorf("kafka: %s: %w: %w", what, ctx.Err(), publicError(reason))
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kafkaconsumer/kafka/internal/fetch"
)

// Assignment returns the partitions that are assigned now, sorted.
func (c *Consumer) Assignment() []TopicPartition {
	c.fetcher.mu.Lock()
	defer c.fetcher.mu.Unlock()
	return c.fetcher.table.Assigned()
}

// Pause keeps records of the partitions from being fetched and handed over until
// Resume. What was fetched already is kept. Paused partitions stay assigned, and a
// paused partition that stays assigned over a rebalance stays paused. Partitions
// that are not assigned are reported as ErrNotAssigned and nothing is changed then. It
// waits for nothing but what Seek waits for.
func (c *Consumer) Pause(tps ...TopicPartition) error { return c.setPaused(tps, true) }

// Resume ends Pause.
func (c *Consumer) Resume(tps ...TopicPartition) error { return c.setPaused(tps, false) }

func (c *Consumer) setPaused(tps []TopicPartition, paused bool) error {
	return c.change(tps, func(t *fetch.Table, p *fetch.Partition) { t.SetPaused(p, paused) })
}

// Paused returns the paused partitions, sorted.
func (c *Consumer) Paused() []TopicPartition {
	c.fetcher.mu.Lock()
	defer c.fetcher.mu.Unlock()
	return c.fetcher.table.Paused()
}

// change applies fn to assigned partitions, all or none.
func (c *Consumer) change(tps []TopicPartition, fn func(*fetch.Table, *fetch.Partition)) error {
	if err := c.open(); err != nil && c.ctx.Err() != nil {
		return err
	}
	var err error
	waited := c.onReader(context.Background(), func() {
		table := c.fetcher.acquire()
		defer c.fetcher.release()
		if err = notAssigned(table, tps); err != nil {
			return
		}
		for _, tp := range tps {
			fn(table, table.Get(tp))
		}
		c.disturbed.Store(true)
	})
	return firstError(waited, err)
}

// notAssigned returns an error that names the partitions which are not assigned.
func notAssigned(table *fetch.Table, tps []TopicPartition) error {
	var errs []error
	for _, tp := range tps {
		if table.Get(tp) == nil {
			errs = append(errs, &PartitionError{tp.Topic, tp.Partition, ErrNotAssigned})
		}
	}
	return errors.Join(errs...)
}

// Seek sets the position of an assigned partition: the next record handed over of
// it is the first one at or behind offset. What was fetched is dropped. It does not
// wait, except for a Deserializer that the channel of a TypedConsumer runs, within
// DefaultAPITimeout; that an offset is outside the log shows at the next Poll. Errors:
// ErrNotAssigned, a negative offset, ErrClosed.
func (c *Consumer) Seek(tp TopicPartition, offset int64) error {
	return c.SeekTo(tp, OffsetAndMetadata{Offset: offset})
}

// SeekTo is Seek to an offset with its leader epoch, such as Committed returns.
func (c *Consumer) SeekTo(tp TopicPartition, o OffsetAndMetadata) error {
	if o.Offset < 0 {
		return &PartitionError{tp.Topic, tp.Partition, &ArgumentError{Argument: "offset", Value: fmt.Sprint(o.Offset), Reason: "must not be negative"}}
	}
	epoch, known := o.LeaderEpoch()
	if !known {
		epoch = -1
	}
	return c.change([]TopicPartition{tp}, func(t *fetch.Table, p *fetch.Partition) { t.Seek(p, o.Offset, epoch) })
}

// SeekToBeginning sets the positions to the first records, of all assigned
// partitions if none is named. The offsets are looked up in the background. Errors:
// ErrNotAssigned, also when nothing is assigned at all; ErrClosed.
func (c *Consumer) SeekToBeginning(tps ...TopicPartition) error {
	return c.seekByTime(tps, fetch.TimeEarliest)
}

// SeekToEnd sets the positions behind the last records (under ReadCommitted: behind
// the last ones that are stable), of all assigned partitions if none is named. The
// offsets are looked up in the background. Errors are those of SeekToBeginning.
func (c *Consumer) SeekToEnd(tps ...TopicPartition) error {
	return c.seekByTime(tps, fetch.TimeLatest)
}

func (c *Consumer) seekByTime(tps []TopicPartition, timestamp int64) error {
	tps, err := c.namedOrAssigned(tps)
	if err != nil {
		return err
	}
	return c.change(tps, func(t *fetch.Table, p *fetch.Partition) { t.SeekByTime(p, timestamp) })
}

// namedOrAssigned returns all assigned partitions, of which there must be one, in place of
// an empty list.
func (c *Consumer) namedOrAssigned(tps []TopicPartition) ([]TopicPartition, error) {
	if len(tps) > 0 {
		return tps, nil
	}
	if err := c.open(); err != nil {
		return nil, err
	}
	if tps = c.Assignment(); len(tps) == 0 {
		return nil, fmt.Errorf("%w: none is", ErrNotAssigned)
	}
	return tps, nil
}

// SeekToTime sets the positions to the first records that are not older than t, or
// behind the last record where there is none, of all assigned partitions if none is
// named. It looks the offsets up and returns when that is done; on an error no
// position is changed. Errors are those of OffsetsForTimes and Seek.
func (c *Consumer) SeekToTime(ctx context.Context, t time.Time, tps ...TopicPartition) error {
	tps, err := c.namedOrAssigned(tps)
	if err != nil {
		return err
	}
	times := make(map[TopicPartition]time.Time, len(tps))
	for _, tp := range tps {
		times[tp] = t
	}
	found, err := c.OffsetsForTimes(ctx, times)
	if err != nil {
		return err
	}
	return c.change(tps, func(table *fetch.Table, p *fetch.Partition) {
		if o, ok := found[p.TP()]; ok {
			table.Seek(p, o.Offset, -1)
		} else {
			table.SeekByTime(p, fetch.TimeLatest)
		}
	})
}

// Position returns the offset of the next record to hand over of an assigned
// partition. When it is not known yet, it waits until it was found: the committed
// offset, or one by the reset policy. In an iteration the record that the loop works
// on counts as handed over. Errors, as a *PartitionError: ErrNotAssigned,
// *NoOffsetForPartitionError, ctx's with the reason; and ErrClosed.
func (c *Consumer) Position(ctx context.Context, tp TopicPartition) (int64, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, ErrClosed
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	if err := c.onReader(ctx, func() {}); err != nil {
		return 0, err
	}
	offset, err := c.fetcher.awaitPosition(ctx, tp)
	return offset, c.orClosed(err)
}

// Highwater returns the offset behind the last replicated record of an assigned
// partition, as the last fetch told it; false before that.
func (c *Consumer) Highwater(tp TopicPartition) (int64, bool) {
	c.fetcher.mu.Lock()
	defer c.fetcher.mu.Unlock()
	p := c.fetcher.table.Get(tp)
	if p == nil {
		return 0, false
	}
	return c.fetcher.table.Highwater(p)
}

// Lag returns how many offsets lie between the position of an assigned partition
// and the end of what may be read (under ReadCommitted: the last stable offset), as
// the last fetch told it; false before that. For a paused partition it is as old as
// its last fetch.
func (c *Consumer) Lag(tp TopicPartition) (int64, bool) {
	c.fetcher.mu.Lock()
	defer c.fetcher.mu.Unlock()
	p := c.fetcher.table.Get(tp)
	if p == nil {
		return 0, false
	}
	return c.fetcher.table.Lag(p)
}

package kafka

import (
	"context"
	"errors"
	"iter"

	"github.com/kafkaconsumer/kafka/internal/fetch"
)

// RecordsUntilEnd is Records that ends by itself: it captures the end of each
// assigned partition when it starts (under ReadCommitted: the last stable offset),
// and ends when every position has reached it, without a record from there on. With
// a subscription it begins when partitions are assigned; what is assigned while it
// runs is captured then. Paused partitions are not waited for.
func (c *Consumer) RecordsUntilEnd(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		cu := &cursor{c: c, ends: &ends{at: make(map[TopicPartition]int64)}}
		c.iterate(ctx, "RecordsUntilEnd", cu, yield)
	}
}

// ends are where an iteration stops in each partition. A nil *ends is nowhere.
type ends struct{ at map[TopicPartition]int64 }

// capture looks up the ends of partitions that were assigned since it was called
// last.
func (e *ends) capture(ctx context.Context, c *Consumer) error {
	if e == nil {
		return nil
	}
	var added []TopicPartition
	for _, tp := range c.Assignment() {
		if _, captured := e.at[tp]; !captured {
			added = append(added, tp)
		}
	}
	if len(added) == 0 {
		return nil
	}
	found, err := c.EndOffsets(ctx, added...)
	for tp, end := range found {
		e.at[tp] = end
	}
	if ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return err
	}
	for tp, failure := range partitionErrors(err).each {
		if isRefusal(failure) {
			e.at[tp] = 0 // it is reported once and not waited for
		}
	}
	return err
}

// trim leaves out of the cut what is behind the end. It returns whether anything is
// left. If not, the partition rests: records that are behind the end would keep those of
// others from their turn, and from memory.
func (e *ends) trim(table *fetch.Table, cut *fetch.Cut) bool {
	if e == nil {
		return true
	}
	end, captured := e.at[cut.TP()]
	if !captured {
		return false
	}
	cut.To = min(cut.To, cut.Seg.Search(end))
	if cut.To <= cut.From {
		table.Rest(cut, end)
		return false
	}
	return true
}

// rouse has partitions go on whose end was come to.
func (e *ends) rouse(table *fetch.Table) {
	if e != nil {
		table.Rouse()
	}
}

// reached tells whether the iteration is over.
func (e *ends) reached(c *Consumer) bool {
	if e == nil {
		return false
	}
	c.fetcher.mu.Lock()
	defer c.fetcher.mu.Unlock()
	table := c.fetcher.table
	assigned := table.Assigned()
	for _, tp := range assigned {
		p := table.Get(tp)
		end, captured := e.at[tp]
		if table.IsPaused(p) || table.FaultOf(p) != nil || captured && end == 0 {
			continue
		}
		if o, known := table.Position(p); !captured || !known || o.Offset < end {
			return false
		}
	}
	return len(assigned) > 0
}

package kafka

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/kafkaconsumer/kafka/internal/fetch"
)

// A cursor hands records over one by one, for iterators and channels. It holds one
// cut at a time and looks at the consumer's duties whenever it is disturbed.
type cursor struct {
	c    *Consumer
	live *fetch.Live // nil: no cut
	cut  fetch.Cut
	next int // index in the cut of the record to hand over next
	tp   TopicPartition

	channel *channelReader // the channel that it serves, nil for an iterator
	ends    *ends          // where to stop, nil for nowhere
}

// peek returns the next record if it is there at once and nothing else is due.
func (cu *cursor) peek(ctx context.Context) (Record, bool) {
	if cu.live == nil || cu.next >= cu.cut.To || cu.c.disturbed.Load() || ctx.Err() != nil {
		return Record{}, false
	}
	return makeRecord(cu.tp, cu.cut.Seg, cu.next), true
}

// took notes that the record which peek returned was handed over.
func (cu *cursor) took() {
	cu.live.Yielded.Store(int64(cu.next))
	cu.next++
	cu.c.auto.arm()
}

// advance does what is due and finds the next records. It returns nil when peek has
// one, or when there is none yet.
func (cu *cursor) advance(ctx context.Context, w *waiter) error {
	c := cu.c
	if w.channel == nil { // from a channel the application comes back by receiving
		c.cameBack()
	}
	if err := c.attend(ctx, w); err != nil {
		cu.release()
		return err
	}
	if err := cu.ends.capture(ctx, c); err != nil {
		cu.release()
		return err
	}
	table := c.fetcher.acquire()
	defer c.fetcher.release()
	if cu.live != nil && (cu.next >= cu.cut.To || !table.LiveValid()) {
		table.EndLive()
		cu.live = nil
	}
	if fault, ok := table.NewFault(); ok {
		cu.detach(table)
		return faultError(fault, &c.cfg)
	}
	if cu.live != nil {
		return nil
	}
	c.live.Store(nil)
	cuts := table.Take(c.cfg.MaxPollRecords, nil)
	for i := range cuts {
		if cu.live == nil && cu.ends.trim(table, &cuts[i]) {
			cu.attach(table, cuts[i])
		} else {
			cuts[i].Release()
		}
	}
	return nil
}

// attach begins to hand a cut over.
func (cu *cursor) attach(table *fetch.Table, cut fetch.Cut) {
	cu.cut, cu.next, cu.tp = cut, cut.From, cut.TP()
	cu.live = table.SetLive(cut)
	cu.c.live.Store(cu.live)
}

// detach ends handing a cut over; what is left of it stays for the next reader.
func (cu *cursor) detach(table *fetch.Table) {
	if cu.live != nil {
		table.EndLive()
		cu.live = nil
		cu.c.live.Store(nil)
	}
}

func (cu *cursor) release() {
	table := cu.c.fetcher.acquire()
	cu.detach(table)
	cu.ends.rouse(table)
	cu.c.fetcher.release()
}

// Records ranges over records for as long as the loop goes on, waiting for more.
// Asking for the next record counts as a poll: rebalances, callbacks and automatic
// commits happen between records, and records of a partition that is revoked
// meanwhile are not handed over.
//
// When ctx ends, its error comes last. A partition's error is handed over once, and
// the loop may go on; see Poll. ConsumerTimeout and Close end the loop silently. An
// error after which nothing can come, such as ErrNotSubscribed, comes last.
func (c *Consumer) Records(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		c.iterate(ctx, "Records", &cursor{c: c}, yield)
	}
}

func (c *Consumer) iterate(ctx context.Context, method string, cu *cursor, yield func(Record, error) bool) {
	if err := c.beginReading(ctx, method); err != nil {
		if !errors.Is(err, ErrClosed) {
			yield(Record{}, err)
		}
		return
	}
	defer c.endReading()
	defer cu.release()
	for {
		r, ok := cu.peek(ctx)
		if !ok {
			var err error
			if r, ok, err = cu.wait(ctx); err != nil {
				if more := yield(Record{}, err); more && !c.isTerminal(ctx, err) {
					continue
				}
				return
			}
			if !ok {
				return
			}
		}
		cu.took()
		if !yield(r, nil) {
			return
		}
	}
}

// wait waits for the next record. It returns false when the iteration ends silently.
func (cu *cursor) wait(ctx context.Context) (Record, bool, error) {
	w := cu.c.newWaiter(cu.c.iterationTimeout())
	w.channel = cu.channel
	defer cu.c.endWait(&w)
	for {
		if err := cu.advance(ctx, &w); err != nil {
			return Record{}, false, silentClose(err)
		}
		if r, ok := cu.peek(ctx); ok {
			return r, true, nil
		}
		if w.turnMissed { // the time is over
			return Record{}, false, nil
		}
		if cu.c.disturbed.Load() {
			continue
		}
		if cu.ends.reached(cu.c) {
			return Record{}, false, nil
		}
		if over, err := cu.c.await(ctx, &w); over || err != nil {
			return Record{}, false, silentClose(err)
		}
	}
}

// iterationTimeout returns what ConsumerTimeout means for a waiter.
func (c *Consumer) iterationTimeout() time.Duration {
	switch t := c.cfg.ConsumerTimeout; {
	case t == 0:
		return -1
	case t < 0:
		return 0
	default:
		return t
	}
}

// silentClose makes nothing of the error of a consumer that was closed.
func silentClose(err error) error {
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// isTerminal tells whether an iteration cannot go on after err.
func (c *Consumer) isTerminal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrNotSubscribed) || c.coord != nil && c.coord.trouble.isTerminal()
}

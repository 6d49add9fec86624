package kafka

import (
	"context"
	"fmt"
	"sync/atomic"
)

// A channelReader is the goroutine behind Messages. It alone knows which records
// were received, so that questions about positions go to it.
type channelReader struct {
	ask        chan func()   // run on the goroutine, no record being on offer
	attending  atomic.Bool   // it runs callbacks, which may ask things themselves
	converting atomic.Bool   // it runs a deserializer, or is about to
	ended      chan struct{} // closed when the goroutine has ended
}

// Messages returns a channel of records for one receiving goroutine. It is
// unbuffered: the consumer's position follows what was received, and a record counts
// as done when the next one is received. On a quiet topic the last record received
// is therefore not committed automatically until the next one comes; call Commit in
// the loop where that matters. Callbacks run on the channel's goroutine: a rebalance
// does not wait for the receiver, so the record received last comes again, to
// whoever owns its partition then, when it was not committed by that time.
//
// The channel is closed when ctx ends, after ConsumerTimeout without a record, by
// Close, and by any error; Err tells which. The record that was on offer then comes
// first from the next Poll, Records or Messages.
//
// A receiver must not stop receiving without ending ctx: the goroutine would wait for
// ever, and after MaxPollInterval the group goes on without this consumer.
func (c *Consumer) Messages(ctx context.Context) <-chan Record {
	return openChannel(ctx, c, "Messages", c.setErr, func(r Record) (Record, error) { return r, nil })
}

// openChannel starts the goroutine of a channel on which every record is sent as
// convert makes it. It ends with ctx, the consumer, or an error, which setErr gets;
// Close awaits it.
func openChannel[T any](ctx context.Context, c *Consumer, method string, setErr func(error), convert func(Record) (T, error)) <-chan T {
	out := make(chan T)
	if err := c.beginReading(ctx, method); err != nil {
		setErr(err)
		close(out)
		return out
	}
	setErr(nil)
	ch := &channelReader{ask: make(chan func()), ended: make(chan struct{})}
	c.channel.Store(ch)
	go func() {
		defer close(out)
		cu := &cursor{c: c, channel: ch}
		setErr(offerAll(ctx, cu, out, convert))
		cu.release()
		c.endReading()
		c.channel.CompareAndSwap(ch, nil)
		close(ch.ended)
		if err := c.closeIfAsked(); err != nil {
			setErr(err)
		}
	}()
	return out
}

// Err returns why the last channel of Messages was closed: ctx's error, nil after
// ConsumerTimeout and Close, or what went wrong. It is nil while the channel is open.
func (c *Consumer) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.channelErr
}

func (c *Consumer) setErr(err error) {
	c.mu.Lock()
	c.channelErr = err
	c.mu.Unlock()
}

// offerAll sends records until something ends the channel.
func offerAll[T any](ctx context.Context, cu *cursor, out chan<- T, convert func(Record) (T, error)) error {
	c := cu.c
	for {
		r, ok := cu.peek(ctx)
		if !ok {
			var err error
			if r, ok, err = cu.wait(ctx); err != nil || !ok {
				return err
			}
		}
		cu.channel.converting.Store(true)
		if c.open() != nil {
			cu.channel.converting.Store(false)
			return nil
		}
		v, err := convert(r)
		cu.channel.converting.Store(false)
		if err != nil {
			cu.received()
			return err
		}
		select {
		case out <- v:
			cu.received()
		case question := <-cu.channel.ask:
			question()
		case <-c.wake: // peek sees what it is about
		case <-ctx.Done():
			return ctx.Err()
		case <-c.closing:
			return nil
		}
	}
}

// received notes that the record on offer was received. With it the application came
// back from the records before.
func (cu *cursor) received() {
	cu.c.polls.Add(1)
	if cu.next == cu.cut.From {
		cu.c.noteAsked()
		cu.c.fetcher.mu.Lock()
		cu.c.fetcher.table.CameBack()
		cu.c.fetcher.mu.Unlock()
	}
	cu.took()
}

// onReader runs fn where it sees exactly what was handed over: on the goroutine of
// the channel, if one is open, so that no record is on offer meanwhile. That goroutine may
// run a deserializer, which is waited for within ctx: fn is not run if that ends before.
func (c *Consumer) onReader(ctx context.Context, fn func()) error {
	ch := c.channel.Load()
	if ch == nil || ch.attending.Load() {
		fn()
		return nil
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	done := make(chan struct{})
	select {
	case ch.ask <- func() { fn(); close(done) }:
		<-done
	case <-ch.ended:
		fn()
	case <-ctx.Done():
		return c.orClosed(fmt.Errorf("%w: the goroutine of the channel runs a deserializer", ctx.Err()))
	}
	return nil
}

// await waits until the goroutine has ended, or ctx has while it runs the application's
// code. The consumer is closing.
func (ch *channelReader) await(ctx context.Context) {
	select {
	case <-ch.ended:
	case <-ctx.Done():
		if !ch.attending.Load() && !ch.converting.Load() {
			<-ch.ended
		}
	}
}

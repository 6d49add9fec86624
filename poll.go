package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kafkaconsumer/kafka/internal/fetch"
)

// standingFaultAfter is how long a Poll without an end waits for records before it
// says again which partitions are at fault.
const standingFaultAfter = time.Second

// Poll returns at most MaxPollRecords records, taken fairly over the partitions, or
// an error, never both: with an error they are nil. It takes part in rebalances, runs
// callbacks and commits automatically on the way.
//
// It waits for records until timeout is over and then returns none. Zero: only what
// is buffered; negative: until there are records or ctx ends. When ctx ends, Poll
// returns its error and hands nothing over; nothing is lost by that.
//
// A partition at fault (a *CorruptRecordError, a *NoOffsetForPartitionError, …)
// stops, and the others go on. Its error, a *PartitionError, comes once behind the
// records before it, and again from each Poll whose timeout passed without records
// (a negative timeout: after a second without any), until a Seek or Pause of the
// partition, or its loss.
//
// Further errors: ErrNotSubscribed, ErrConcurrentPoll, ErrInCallback, ErrClosed, a
// *PollIntervalError, errors of the listener, and what brokers refuse, as
// *BrokerErrors.
func (c *Consumer) Poll(ctx context.Context, timeout time.Duration) (*Records, error) {
	return c.PollMax(ctx, timeout, c.cfg.MaxPollRecords)
}

// PollMax is Poll with another bound than MaxPollRecords, which must be positive.
func (c *Consumer) PollMax(ctx context.Context, timeout time.Duration, maxRecords int) (*Records, error) {
	if maxRecords <= 0 {
		return nil, &ArgumentError{Argument: "maxRecords", Value: fmt.Sprint(maxRecords), Reason: "must be positive"}
	}
	if err := c.beginReading(ctx, "Poll"); err != nil {
		return nil, err
	}
	defer c.endReading()
	return c.poll(ctx, timeout, func() (*Records, error) { return c.take(maxRecords) })
}

// poll waits for records, which take takes. Its caller is the one that reads.
func (c *Consumer) poll(ctx context.Context, timeout time.Duration, take func() (*Records, error)) (*Records, error) {
	w := c.newWaiter(timeout)
	defer c.endWait(&w)
	c.cameBack()
	for {
		if err := c.attend(ctx, &w); err != nil {
			return nil, err
		}
		records, err := take()
		if records != nil || err != nil {
			return records, err
		}
		w.standing = c.fetcher.hasFaults()
		over, err := c.await(ctx, &w)
		if err == nil && (over || w.timeout < 0 && w.standing && time.Since(w.began) >= standingFaultAfter) {
			err = c.standingFaults()
		}
		if err != nil {
			return nil, err
		}
		if over {
			return new(Records), nil
		}
	}
}

// beginReading makes the caller the one that reads.
func (c *Consumer) beginReading(ctx context.Context, method string) error {
	if c.nested(ctx) {
		return ErrInCallback
	}
	if err := c.open(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading != "" {
		return fmt.Errorf("%w: %s was called while %s is running", ErrConcurrentPoll, method, c.reading)
	}
	c.reading = method
	return nil
}

func (c *Consumer) endReading() {
	c.mu.Lock()
	c.reading = ""
	c.mu.Unlock()
}

// cameBack notes that the application asks for more: what was handed over before is
// done.
func (c *Consumer) cameBack() {
	c.polls.Add(1)
	c.noteAsked()
	c.fetcher.mu.Lock()
	c.fetcher.table.CameBack()
	c.fetcher.mu.Unlock()
	if m := c.currentMember(); m != nil {
		m.polled()
	}
}

// take hands over what is there, or the error that comes before it; nil is neither.
func (c *Consumer) take(limit int) (_ *Records, err error) {
	table := c.fetcher.acquire()
	defer c.fetcher.release()
	list := newCutList()
	if list.cuts, err = c.peek(table, limit, list.cuts); err != nil || len(list.cuts) == 0 {
		list.recycle()
		return nil, err
	}
	for i := range list.cuts {
		table.HandOver(&list.cuts[i], list.cuts[i].Len())
	}
	return newRecords(table, list), nil
}

// peek appends records to cuts without handing them over, or returns the error that
// comes before them.
func (c *Consumer) peek(table *fetch.Table, limit int, cuts []fetch.Cut) ([]fetch.Cut, error) {
	if fault, ok := table.NewFault(); ok {
		return cuts, faultError(fault, &c.cfg)
	}
	if !table.HasReady() {
		return cuts, nil
	}
	return table.Take(limit, cuts), nil
}

// standingFaults returns the errors of all partitions at fault.
func (c *Consumer) standingFaults() error {
	c.fetcher.mu.Lock()
	faults := c.fetcher.table.Faults()
	c.fetcher.mu.Unlock()
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = faultError(f, &c.cfg)
	}
	return errors.Join(errs...)
}

// A waiter bounds the waiting of one Poll or iteration.
type waiter struct {
	began      time.Time
	timeout    time.Duration // negative: no end
	deadline   time.Time
	timer      *time.Timer
	prompt     bool           // the application came back at once
	turnMissed bool           // the last attend left duties undone, as the time was over
	standing   bool           // a wait without an end looks at faults now and then
	channel    *channelReader // whose questions are answered while waiting, nil if none
}

// newWaiter returns a waiter for the one that reads; endWait ends its use.
func (c *Consumer) newWaiter(timeout time.Duration) waiter {
	w := waiter{began: time.Now(), timeout: timeout, timer: c.timer}
	w.prompt = w.began.Sub(c.waited) < promptly
	if timeout > 0 {
		w.deadline = w.began.Add(timeout)
	}
	c.metrics.Client.PollBegan(w.began)
	return w
}

// due returns the channel that says that waiting is over, or that it is time to look
// at what stands; nil for never.
func (w *waiter) due() <-chan time.Time {
	d := standingFaultAfter
	switch {
	case w.timeout >= 0:
		d = max(time.Until(w.deadline), 0)
	case !w.standing:
		return nil
	}
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	return w.timer.C
}

// until returns when due's channel fires, zero for never.
func (w *waiter) until() time.Time {
	switch {
	case w.timeout >= 0:
		return w.deadline
	case w.standing:
		return time.Now().Add(standingFaultAfter)
	default:
		return time.Time{}
	}
}

// isOver tells whether the time is over.
func (w *waiter) isOver() bool { return w.timeout >= 0 && !time.Now().Before(w.deadline) }

func (c *Consumer) endWait(w *waiter) {
	c.waited = time.Now()
	c.metrics.Client.PollEnded(c.waited)
	if w.timer != nil {
		w.timer.Stop()
		c.timer = w.timer
	}
}

// questions returns the channel on which a channelReader is asked things, nil for
// other readers.
func (w *waiter) questions() <-chan func() {
	if w.channel == nil {
		return nil
	}
	return w.channel.ask
}

// await waits until something may have come for the application. It returns true
// when the time is over.
func (c *Consumer) await(ctx context.Context, w *waiter) (over bool, err error) {
	if w.timeout == 0 {
		c.fetcher.lending.decline()
		return true, nil
	}
	c.waiting.Add(1)
	defer func() {
		c.noteAsked() // it did all the time
		c.waiting.Add(-1)
	}()
	if w.prompt && w.channel == nil { // else there are questions to wait for too
		if l := c.fetcher.lending.borrow(); l != nil {
			return c.awaitAnswer(ctx, w, l)
		}
	} else {
		c.fetcher.lending.decline()
	}
	select {
	case <-c.wake:
		return false, nil
	case question := <-w.questions():
		question()
		return false, nil
	case <-w.due():
		return w.timeout >= 0, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-c.closing:
		return false, ErrClosed
	}
}

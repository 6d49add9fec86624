package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// minSpacing keeps refreshes apart when no backoff is configured, so that a
// topic which stays unknown does not make the client spin.
const minSpacing = 10 * time.Millisecond

// refreshState says when to refresh next. Cluster.mu guards it.
type refreshState struct {
	// Demands are numbered: the last one, the last one that a refresh which has
	// begun will serve, and the last one served.
	wanted, begun, done uint64

	streak      int           // refreshes in a row that brought nothing new
	unsettled   bool          // the last answer will not hold for long
	endedAt     time.Time     // of the last refresh
	succeededAt time.Time     // of the last good one
	spacing     time.Duration // from endedAt to the next one, at least
	err         error         // of the last refresh
	failedAt    time.Time     // of the first in a row that failed
	attempted   chan struct{} // closed and replaced after each refresh
}

// hurry lets the next refresh begin at once.
func (r *refreshState) hurry() { r.streak, r.spacing = 0, 0 }

// due returns when the next refresh is to begin.
func (r *refreshState) due(maxAge time.Duration, now time.Time) time.Time {
	at := r.succeededAt.Add(max(maxAge, 0))
	if (r.wanted > r.done || r.unsettled) && now.Before(at) {
		at = now
	}
	if earliest := r.endedAt.Add(r.spacing); at.Before(earliest) {
		at = earliest
	}
	return at
}

// Refresh asks for new metadata soon: at once after a quiet time, else after a
// backoff that grows while refreshes bring nothing new. Demands that come
// before it begins are served together.
func (c *Cluster) Refresh() { c.demand() }

// demand is Refresh; await waits for the number that it returns.
func (c *Cluster) demand() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refreshLocked()
}

func (c *Cluster) refreshLocked() uint64 {
	r := &c.refresh
	if r.wanted == r.begun {
		r.wanted++
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return r.wanted
}

// RefreshAndWait returns when metadata has arrived that was asked for after the
// call. It fails when ctx ends, with the reason of the last failed refresh, or
// at once when the brokers refuse this client.
func (c *Cluster) RefreshAndWait(ctx context.Context) error { return c.await(ctx, c.demand()) }

// await returns when a demand was served; see RefreshAndWait.
func (c *Cluster) await(ctx context.Context, ticket uint64) error {
	for {
		c.mu.Lock()
		done, err, attempted := c.refresh.done >= ticket, c.refresh.err, c.refresh.attempted
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-attempted:
			c.mu.Lock()
			err = c.refresh.err
			c.mu.Unlock()
			if err != nil && isFinal(err) {
				return err
			}
		case <-ctx.Done():
			return waitError(ctx, err)
		case <-c.ctx.Done():
			return ErrClosed
		}
	}
}

// waitError says that ctx ended, and what was wrong while it had not.
func waitError(ctx context.Context, last error) error {
	switch {
	case last == nil:
		return ctx.Err()
	case errors.Is(last, ctx.Err()):
		return last
	}
	return fmt.Errorf("%w: %w", ctx.Err(), last)
}

// RefreshError returns why the last refresh failed and since when they do, or nil if it
// did not.
func (c *Cluster) RefreshError() (since time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refresh.failedAt, c.refresh.err
}

// run is the refresher. Bootstrap starts it, Close stops it by c.ctx and awaits
// it by c.wg.
func (c *Cluster) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		c.mu.Lock()
		wait := c.refresh.due(c.cfg.MetadataMaxAge, now).Sub(now)
		c.mu.Unlock()
		if wait <= 0 {
			c.refreshOnce()
			if c.ctx.Err() != nil {
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-c.wake:
		case <-c.ctx.Done():
			return
		}
	}
}

// nextQuestion returns what a refresh asks now and the last demand that it
// serves.
func (c *Cluster) nextQuestion() (ticket uint64, q question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh.begun = c.refresh.wanted
	return c.refresh.begun, question{
		names: slices.Sorted(maps.Keys(c.named)), all: c.all, create: c.cfg.AllowAutoCreate,
	}
}

func (c *Cluster) refreshOnce() {
	ticket, q := c.nextQuestion()
	answer, err := c.ask(c.ctx, q)
	var t taken
	if err == nil {
		t = c.take(answer)
		c.closeBoots()
	} else if c.ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	before := c.refresh.err
	c.noteRefreshLocked(ticket, err, t.progressed, t.Ignored)
	c.mu.Unlock()
	switch {
	case err != nil && before == nil:
		c.log.Warn("kafka: metadata cannot be refreshed", "error", err)
	case err != nil:
		c.log.Debug("kafka: metadata cannot be refreshed yet", "error", err)
	case before != nil:
		c.log.Info("kafka: metadata was refreshed again")
	}
}

// noteRefreshLocked takes in how a refresh ended.
func (c *Cluster) noteRefreshLocked(ticket uint64, err error, progressed, ignored bool) {
	r, now := &c.refresh, time.Now()
	switch {
	case err != nil:
		if r.streak++; r.err == nil {
			r.failedAt = now
		}
	case progressed, now.Sub(r.endedAt) > r.spacing+max(c.cfg.RetryBackoffMax, 0):
		// It brought something, or the time before it was quiet.
		r.streak = 1
	default:
		r.streak++
	}
	r.endedAt, r.err = now, err
	r.spacing = max(c.backoff.Delay(r.streak), minSpacing)
	if err == nil {
		r.succeededAt, r.done = now, max(r.done, ticket)
		r.unsettled = ignored || c.snapshot.Load().unsettled(c.named)
	}
	close(r.attempted)
	r.attempted = make(chan struct{})
}

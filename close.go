package kafka

import (
	"context"
	"errors"
)

// Close stops fetching, calls OnRevoked for what is assigned, commits what is done
// (see the package documentation) unless DisableAutoCommit is set, leaves the group
// and ends all goroutines. It may be called from any goroutine, also while another
// one polls, which returns ErrClosed, and more than once. Inside a callback it
// returns at once, and the call that runs the callback closes the consumer and
// returns ErrClosed.
//
// It is bounded by ctx, or DefaultAPITimeout when ctx has no deadline; when that
// ends first, connections are cut. The error is that of the callback or of the
// commit; the consumer is closed in any case.
func (c *Consumer) Close(ctx context.Context) error { return c.close(ctx, true) }

// CloseWithoutCommit is Close that does not commit.
func (c *Consumer) CloseWithoutCommit(ctx context.Context) error { return c.close(ctx, false) }

func (c *Consumer) close(ctx context.Context, commit bool) error {
	first := false
	c.closeOnce.Do(func() {
		first = true
		c.closeCommit = commit
		close(c.closing)
		c.disturb()
	})
	if c.nested(ctx) {
		return nil
	}
	ctx, cancel := c.closeBound(ctx)
	defer cancel()
	select {
	case <-c.turn:
		c.shutDown(ctx)
	case <-c.closed:
	case <-ctx.Done():
		if first {
			c.abandon(ctx)
		}
	}
	<-c.closed
	if !first {
		return nil
	}
	return c.closeErr
}

// closeBound is bound for calls that must outlive the end of the consumer's own
// context.
func (c *Consumer) closeBound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.cfg.DefaultAPITimeout)
}

// shutDown closes the consumer in order. Its caller holds turn, which is not given
// back.
func (c *Consumer) shutDown(ctx context.Context) {
	select {
	case <-c.closed:
		return
	default:
	}
	var errs []error
	if ctx.Err() == nil {
		errs = append(errs, c.giveUp(ctx, c.closeCommit))
	}
	c.end(ctx)
	c.closeErr = errors.Join(errs...)
	close(c.closed)
}

// abandon closes the consumer without its callbacks, since one of them, or a call
// beside it, did not end in time.
func (c *Consumer) abandon(ctx context.Context) {
	c.end(ctx)
	c.closeErr = ctx.Err()
	close(c.closed)
}

// giveUp ends ownership of everything assigned: nothing of it is handed over any
// more, the listener is told, and what is done is committed.
func (c *Consumer) giveUp(ctx context.Context, commit bool) error {
	table := c.fetcher.acquire()
	tps := table.Assigned()
	table.Hold(tps...)
	c.fetcher.release()
	var errs []error
	if c.subscribed() && len(tps) > 0 {
		errs = append(errs, c.runListener(ctx, stepRevoke, tps))
	}
	if commit {
		errs = append(errs, c.commitDone(ctx))
	}
	c.runCommitCallbacks(ctx)
	return errors.Join(errs...)
}

// end leaves the group, cuts all connections and awaits all goroutines.
func (c *Consumer) end(ctx context.Context) {
	if c.coord != nil {
		c.coord.close(ctx, "the consumer is closed")
	}
	c.cancel(ErrClosed)
	c.fetcher.close(ctx)
	c.auto.stop()
	c.cluster.Close()
	c.wg.Wait()
	if ch := c.channel.Load(); ch != nil {
		<-ch.ended
	}
	c.runCommitCallbacks(ctx)
	c.events.close()
}

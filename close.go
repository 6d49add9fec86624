package kafka

import (
	"context"
	"errors"
	"time"
)

// Close stops fetching, calls OnRevoked for what is assigned, commits what is done
// (see the package documentation) unless DisableAutoCommit is set, leaves the group
// and ends all goroutines. It may be called from any goroutine, also while another
// one polls, which returns ErrClosed, and more than once. Inside a callback it
// returns at once, and the call that runs the callback closes the consumer; a Poll
// then returns ErrClosed.
//
// It is bounded by ctx, or DefaultAPITimeout when ctx has no deadline; when that
// ends first, connections are cut. The error is that of the callback or of the
// commit; the consumer is closed in any case.
func (c *Consumer) Close(ctx context.Context) error { return c.close(ctx, true) }

// CloseWithoutCommit is Close that does not commit.
func (c *Consumer) CloseWithoutCommit(ctx context.Context) error { return c.close(ctx, false) }

func (c *Consumer) close(ctx context.Context, commit bool) error {
	first, nested := false, c.nested(ctx)
	c.closeOnce.Do(func() {
		first = true
		c.closeCommit, c.closeNested, c.closeCalled = commit, nested, time.Now()
		if nested { // the callback's context ends with the callback
			c.closeCtx, c.closeCancel = c.closeBound(context.WithoutCancel(ctx))
		} else {
			c.closeCtx, c.closeCancel = c.closeBound(ctx)
		}
		close(c.closing)
		c.disturb()
	})
	if nested {
		return nil
	}
	ctx, cancel := c.closeBound(ctx)
	defer cancel()
	if err := c.awaitClosed(ctx); first {
		return err
	}
	return nil
}

// awaitClosed closes the consumer, or waits until another call did, as long as ctx
// lasts.
func (c *Consumer) awaitClosed(ctx context.Context) error {
	select {
	case <-c.turn:
		c.shutDown()
	case <-c.closed:
	case <-ctx.Done():
		c.abandon(ctx.Err())
	}
	<-c.closed
	return c.closeErr
}

// closeIfAsked closes the consumer if a callback closed it. The caller ran callbacks.
func (c *Consumer) closeIfAsked() error {
	if c.open() == nil || !c.closeNested {
		return nil
	}
	return c.awaitClosed(c.closeCtx)
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
func (c *Consumer) shutDown() {
	select {
	case <-c.closed:
		return
	default:
	}
	var err error
	if c.closeCtx.Err() == nil {
		err = c.giveUp(c.closeCtx, c.closeCommit)
	}
	c.finish(err)
	c.runCommitCallbacks(c.closeCtx)
}

// abandon closes the consumer without its callbacks, since one of them, or a call
// beside it, did not end in time.
func (c *Consumer) abandon(err error) {
	c.closeCancel()
	c.finish(err)
}

// finish ends everything, once, with err for who closed the consumer.
func (c *Consumer) finish(err error) {
	c.endOnce.Do(func() {
		c.end(c.closeCtx)
		c.closeErr = err
		close(c.closed)
		c.closeCancel()
	})
}

// giveUp ends ownership of everything assigned: nothing of it is handed over any
// more, the listener is told, and what is done is committed.
func (c *Consumer) giveUp(ctx context.Context, commit bool) error {
	table := c.fetcher.acquire()
	tps := table.Assigned()
	table.Hold(tps...)
	c.fetcher.release()
	c.disturb() // a record of them may be on offer
	var errs []error
	if untold := c.untold(tps); c.subscribed() && len(untold) > 0 {
		errs = append(errs, c.runListener(ctx, stepRevoke, untold))
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
		ch.await(ctx)
	}
	c.told.close(ctx)
	c.events.close(ctx)
}

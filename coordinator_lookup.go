package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kafkaconsumer/kafka/internal/group"
)

// lookupView is what run publishes of the look-up of the coordinator.
type lookupView struct {
	mu      sync.Mutex
	node    int32
	known   bool
	refused error         // why looking it up is of no use, until it is tried again
	last    error         // the last failure, of any kind
	changed chan struct{} // closed and replaced whenever something here changes
}

func (v *lookupView) change(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *lookupView) set(node int32, known bool) {
	v.change(func() {
		v.node, v.known = node, known
		if known {
			v.refused, v.last = nil, nil
		}
	})
}

func (v *lookupView) retry() {
	v.change(func() { v.refused = nil })
}

func (v *lookupView) failed(err error, refused bool) {
	v.change(func() {
		v.last = err
		if refused {
			v.refused = err
		}
	})
}

// lookupState is what lookupView says at one time.
type lookupState struct {
	node    int32
	known   bool
	refused error           // not known, and there is no use in waiting for it
	changed <-chan struct{} // closed when any of this may have changed
}

func (v *lookupView) get() lookupState {
	v.mu.Lock()
	defer v.mu.Unlock()
	return lookupState{v.node, v.known, v.refused, v.changed}
}

func (v *lookupView) lastError() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}

// errMoved ends a request to a node that is silent while another one is known to be
// the coordinator.
var errMoved = errors.New("another broker is the coordinator now")

// whileCoordinator returns a context that also ends when another node than this one
// has become the coordinator. stop ends the watch.
func (co *coordinator) whileCoordinator(ctx context.Context, node int32) (watched context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			now := co.lookup.get()
			if now.known && now.node != node {
				cancel(errMoved)
				return
			}
			select {
			case <-now.changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}

// awaitCoordinator waits until the coordinator is known. final says that trying
// again is of no use.
func (co *coordinator) awaitCoordinator(ctx context.Context) (node int32, final bool, err error) {
	for {
		now := co.lookup.get()
		switch {
		case co.ctx.Err() != nil:
			return 0, true, ErrClosed
		case now.known:
			return now.node, false, nil
		case now.refused != nil:
			return 0, true, now.refused
		}
		if !co.post(message{event: group.CoordinatorNeeded{}}) {
			return 0, true, ErrClosed
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			if last := co.lookup.lastError(); last != nil {
				return 0, true, fmt.Errorf("%w: the coordinator is not known: %w", ctx.Err(), last)
			}
			return 0, true, fmt.Errorf("%w: the coordinator is not known", ctx.Err())
		case <-co.ctx.Done():
		}
	}
}

package gssapi

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// expiryMargin is how long before its end a ticket is no longer used: the broker
// must get it in time, and clocks differ.
const expiryMargin = 30 * time.Second

// A ticket is what is presented to one service, or to the KDC itself.
type ticket struct {
	ticket messages.Ticket
	key    types.EncryptionKey
	client types.PrincipalName
	realm  string // the client's
	end    time.Time
}

func (t *ticket) valid(now time.Time) bool { return now.Add(expiryMargin).Before(t.end) }

// tickets keeps the tickets that services accepted.
type tickets struct {
	// obtain asks the KDC; it is called by whoever holds turn.
	obtain func(spn string) (*ticket, error)
	// turn is a lock whose wait can end with a context: who takes its only value
	// must put it back.
	turn chan struct{}

	mu   sync.Mutex
	kept map[string][]*ticket
}

func newTickets(obtain func(spn string) (*ticket, error)) *tickets {
	c := &tickets{obtain: obtain, turn: make(chan struct{}, 1), kept: make(map[string][]*ticket)}
	c.turn <- struct{}{}
	return c
}

// take gives a ticket for one exchange. It is not kept any more until put says that
// the service accepted it: a service whose key was changed refuses its old tickets,
// and must get a new one at the next try.
func (c *tickets) take(ctx context.Context, spn string) (*ticket, error) {
	if t := c.keptFor(spn); t != nil {
		return t, nil
	}
	select {
	case <-c.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the KDC: %w", context.Cause(ctx))
	}
	if t := c.keptFor(spn); t != nil {
		c.turn <- struct{}{}
		return t, nil
	}
	return c.fetch(ctx, spn)
}

func (c *tickets) keptFor(spn string) *ticket {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	kept := slices.DeleteFunc(c.kept[spn], func(t *ticket) bool { return !t.valid(now) })
	var t *ticket
	if last := len(kept) - 1; last >= 0 {
		t = kept[last]
		kept = slices.Delete(kept, last, last+1)
	}
	c.kept[spn] = kept
	return t
}

// put keeps a ticket that its service accepted.
func (c *tickets) put(spn string, t *ticket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[spn] = append(c.kept[spn], t)
}

// fetch asks the KDC on a goroutine, because that cannot be interrupted; it ends by
// itself when the KDC answers or its time is over, and then passes the turn on.
func (c *tickets) fetch(ctx context.Context, spn string) (*ticket, error) {
	type result struct {
		ticket *ticket
		err    error
	}
	got := make(chan result, 1)
	go func() {
		t, err := c.obtain(spn)
		c.turn <- struct{}{}
		got <- result{t, err}
	}()
	select {
	case r := <-got:
		return r.ticket, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the KDC: %w", context.Cause(ctx))
	}
}

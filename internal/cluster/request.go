package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Do sends a request to a node on the connection of role, Control or Group. Its
// errors are those of conn.Broker, and *UnknownNodeError. A connection that
// fails makes the metadata be refreshed.
func (c *Cluster) Do(ctx context.Context, node int32, role conn.Role, req kmsg.Request) (kmsg.Response, error) {
	return c.do(node, func(b *conn.Broker) (kmsg.Response, error) { return b.Do(ctx, role, req) })
}

// DoTimeout is Do with another bound than the configured request timeout, for
// requests that the broker holds.
func (c *Cluster) DoTimeout(ctx context.Context, node int32, role conn.Role, req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	return c.do(node, func(b *conn.Broker) (kmsg.Response, error) { return b.DoTimeout(ctx, role, req, timeout) })
}

func (c *Cluster) do(node int32, send func(*conn.Broker) (kmsg.Response, error)) (kmsg.Response, error) {
	b, ok := c.Broker(node)
	if !ok {
		if c.ctx.Err() != nil {
			return nil, ErrClosed
		}
		c.Refresh()
		return nil, &UnknownNodeError{node}
	}
	resp, err := send(b)
	if err != nil && errors.As(err, new(*conn.Error)) {
		c.Refresh()
	}
	return resp, err
}

// DoAny sends a request to any broker, on the control connection: one that
// works by what is known, then others, then the bootstrap addresses. The error
// joins those of all.
func (c *Cluster) DoAny(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	ctx, stop := c.bound(ctx)
	defer stop()
	var errs []error
	for _, cand := range c.candidates() {
		b, err := cand.open(c)
		if err == nil {
			var resp kmsg.Response
			if resp, err = b.Do(ctx, conn.Control, req); err == nil {
				return resp, nil
			}
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// candidate is a broker that can be asked what any broker knows.
type candidate struct {
	known *conn.Broker
	addr  conn.Addr // of a bootstrap server, when known is nil
}

func (d candidate) open(c *Cluster) (*conn.Broker, error) {
	if d.known != nil {
		return d.known, nil
	}
	return c.boot(d.addr)
}

// candidates returns whom to ask, the best first: brokers with a connection, or,
// while none has one, bootstrap addresses that have; brokers that have not failed,
// those that have, each kind in turns, so that the one that failed longest ago
// comes first; then the bootstrap addresses.
func (c *Cluster) candidates() []candidate {
	c.mu.Lock()
	type ranked struct {
		*node
		rank int
	}
	var known []ranked
	for _, n := range c.nodes {
		r := ranked{n, 2}
		switch {
		case n.broker.Err() != nil:
		case n.broker.Connected():
			r.rank = 0
		default:
			r.rank = 1
		}
		known = append(known, r)
	}
	slices.SortFunc(known, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.asked, b.asked), cmp.Compare(a.id, b.id))
	})
	out := make([]candidate, 0, len(known)+2*len(c.cfg.Bootstrap))
	if len(known) == 0 || known[0].rank > 0 {
		for addr, b := range c.boots {
			if b.Connected() {
				out = append(out, candidate{addr: addr})
			}
		}
	}
	for _, n := range known {
		out = append(out, candidate{known: n.broker})
	}
	if len(known) > 0 {
		c.asked++
		known[0].asked = c.asked
	}
	c.mu.Unlock()
	return append(out, c.bootCandidates()...)
}

func (c *Cluster) bootCandidates() []candidate {
	var out []candidate
	for _, addr := range c.shuffledBootstrap() {
		out = append(out, candidate{addr: addr})
	}
	return out
}

const (
	// headStart is how long a broker may take to answer before the next one is
	// asked too; bootHeadStart the same while nothing works yet.
	headStart     = time.Second
	bootHeadStart = 250 * time.Millisecond
	// allWithin is the time within which all candidates have been asked.
	allWithin = 5 * time.Second
)

// reply is what came of a race: who answered, and why the others failed.
type reply struct {
	resp kmsg.Response // nil when all failed
	from candidate
	node int32
	errs []error
}

// race asks the candidates one after the other: the next one when one has
// failed or took longer than wait. The first answer that check accepts wins
// and ends the other attempts. All goroutines have ended when it returns.
func (c *Cluster) race(ctx context.Context, cands []candidate, wait time.Duration, request func() kmsg.Request, check func(kmsg.Response) error) reply {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if n := time.Duration(len(cands)); n > 0 {
		wait = min(wait, allWithin/n)
		if deadline, ok := ctx.Deadline(); ok {
			// Each address must have had its chance when ctx ends.
			wait = min(wait, time.Until(deadline)/(2*n))
		}
	}
	type outcome struct {
		reply
		index int
		err   error
	}
	results := make(chan outcome, len(cands))
	wait = max(wait, time.Millisecond)
	var (
		won     *reply
		errs    = make([]error, len(cands))
		started int
		running int
		timer   = time.NewTimer(wait)
	)
	defer timer.Stop()
	startNext := func() {
		if won != nil || started == len(cands) {
			return
		}
		i := started
		go func() {
			o := outcome{index: i}
			o.resp, o.node, o.err = c.askOne(ctx, cands[i], request, check)
			results <- o
		}()
		started, running = started+1, running+1
		timer.Reset(wait)
	}
	for startNext(); running > 0; {
		select {
		case <-timer.C:
			startNext()
		case o := <-results:
			running--
			errs[o.index] = o.err
			if o.err == nil && won == nil {
				o.from = cands[o.index]
				won = &o.reply
				cancel()
			} else {
				startNext()
			}
		}
	}
	if won == nil {
		won = &reply{}
	}
	won.errs = errs
	if len(cands) == 0 {
		won.errs = []error{errors.New("no broker is known, and no bootstrap server is configured")}
	}
	return *won
}

// noteReached lets those go on who wait for the first connection.
func (c *Cluster) noteReached() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !isClosed(c.reached) {
		close(c.reached)
	}
}

func (c *Cluster) askOne(ctx context.Context, cand candidate, request func() kmsg.Request, check func(kmsg.Response) error) (kmsg.Response, int32, error) {
	b, err := cand.open(c)
	if err != nil {
		return nil, NoNode, err
	}
	if ctx.Err() != nil {
		return nil, b.Node(), &conn.Error{Node: b.Node(), Addr: b.Addr(), Op: conn.OpDial, Err: ctx.Err()}
	}
	var resp kmsg.Response
	if err = b.Open(ctx, conn.Control); err == nil {
		c.noteReached()
		resp, err = b.Do(ctx, conn.Control, request())
	}
	if err == nil {
		err = check(resp)
	}
	if err != nil {
		if !errors.As(err, new(*conn.Error)) && !errors.As(err, new(*conn.AuthError)) {
			// The address is what tells the failures of a bootstrap apart.
			err = &conn.Error{Node: b.Node(), Addr: b.Addr(), Op: protocol.APIName(request().Key()), Err: err}
		}
		return nil, b.Node(), err
	}
	if v, ok := b.Versions(); ok {
		c.mu.Lock()
		c.versions = v
		c.mu.Unlock()
	}
	return resp, b.Node(), nil
}

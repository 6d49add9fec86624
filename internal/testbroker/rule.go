package testbroker

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AnyKey stands for every API in On, Requests, Count and WaitRequest.
const AnyKey int16 = -1

// A Rule says what happens to some requests instead of the normal answer. It is
// made by On, narrowed by filters (Node, Once, Times, After, When), and in force
// from its first action (all other methods that return a Rule). Set filters
// before actions. Waits (Hold, HoldRequest, Delay) combine with what is
// answered (Fail, Edit, Reply, Raw, Drop, Close) and how it is sent (ReplyHalf,
// CutAnswer, Trickle). Methods may be called from any goroutine.
type Rule struct {
	c   *Cluster
	key int16

	// Everything below is guarded by c.mu.
	inForce bool
	node    int32 // 0: any
	times   int   // uses left; negative: without end
	skip    int
	when    func(Request) bool
	used    int

	holdRequest, holdAnswer bool
	held                    int
	released                chan struct{}
	delay                   time.Duration

	answer answer
	send   sending
}

// answer is what a rule answers; the first that is set wins.
type answer struct {
	drop, close bool
	raw         func(Request) []byte
	reply       func(kmsg.Request) kmsg.Response
	fail        *int16
	edit        func(Request, kmsg.Response)
	tokens      tokenExchange
}

func (a *answer) replaces() bool {
	return a.drop || a.close || a.raw != nil || a.reply != nil || a.fail != nil
}

// sending is how the bytes of an answer go out.
type sending struct {
	half  bool
	cut   int // -1: whole
	chunk int // 0: at once
	every time.Duration
}

// On begins a rule for requests of an API (AnyKey: of all).
func (c *Cluster) On(key int16) *Rule {
	return &Rule{c: c, key: key, times: -1, released: make(chan struct{}), send: sending{cut: -1}}
}

func (r *Rule) set(change func()) *Rule {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	change()
	return r
}

func (r *Rule) act(change func()) *Rule {
	return r.set(func() {
		change()
		if !r.inForce {
			r.inForce = true
			r.c.rules = append(r.c.rules, r)
		}
	})
}

// Node narrows the rule to requests that arrive at one node.
func (r *Rule) Node(id int32) *Rule { return r.set(func() { r.node = id }) }

// Once ends the rule after one use.
func (r *Rule) Once() *Rule { return r.Times(1) }

// Times ends the rule after n uses.
func (r *Rule) Times(n int) *Rule { return r.set(func() { r.times = n }) }

// After lets the first n matching requests pass to the rules behind.
func (r *Rule) After(n int) *Rule { return r.set(func() { r.skip = n }) }

// When narrows the rule to requests for which match is true. match must not
// call the cluster.
func (r *Rule) When(match func(Request) bool) *Rule { return r.set(func() { r.when = match }) }

// Hold computes the answer when the request arrives and sends it after Release.
// When an action gives another answer, that one is computed after Release.
func (r *Rule) Hold() *Rule { return r.act(func() { r.holdAnswer = true }) }

// HoldRequest keeps the request unhandled until Release.
func (r *Rule) HoldRequest() *Rule { return r.act(func() { r.holdRequest = true }) }

// Delay sends the answer d later.
func (r *Rule) Delay(d time.Duration) *Rule { return r.act(func() { r.delay = d }) }

// Fail answers with an error code: in every partition, topic or group of the
// request for the APIs that have such a field, else at the top.
func (r *Rule) Fail(code int16) *Rule { return r.act(func() { r.answer.fail = &code }) }

// Edit changes the normal answer (or that of Reply or Fail) before it is sent.
// The answer is edit's own, except for byte slices in it.
func (r *Rule) Edit(edit func(Request, kmsg.Response)) *Rule {
	return r.act(func() { r.answer.edit = edit })
}

// Reply answers with what reply returns; its version is set to the request's.
// A nil response closes the connection.
func (r *Rule) Reply(reply func(kmsg.Request) kmsg.Response) *Rule {
	return r.act(func() { r.answer.reply = reply })
}

// ThenTokens turns what comes on the connection after the answer into raw SASL
// tokens with a length before them, as SaslHandshake v0 does. Each is given to
// exchange, whose answer goes back the same way; nil closes the connection, or
// sends nothing to the last one. After that requests go on.
func (r *Rule) ThenTokens(exchange func(token []byte) (answer []byte, last bool)) *Rule {
	return r.act(func() { r.answer.tokens = exchange })
}

// Raw sends exactly these bytes: length, header and body; see Frame and FrameBody.
func (r *Rule) Raw(raw func(Request) []byte) *Rule {
	return r.act(func() { r.answer.raw = raw })
}

// Drop swallows the request: no answer ever comes, the connection lives on.
func (r *Rule) Drop() *Rule { return r.act(func() { r.answer.drop = true }) }

// Close closes the connection instead of an answer.
func (r *Rule) Close() *Rule { return r.act(func() { r.answer.close = true }) }

// ReplyHalf sends half of the answer; then the connection stays open and silent.
func (r *Rule) ReplyHalf() *Rule { return r.act(func() { r.send.half = true }) }

// CutAnswer sends the first n bytes of the answer (length included), then closes.
func (r *Rule) CutAnswer(n int) *Rule { return r.act(func() { r.send.cut = n }) }

// Trickle sends the answer in pieces of so many bytes with a pause between them.
func (r *Rule) Trickle(chunk int, every time.Duration) *Rule {
	return r.act(func() { r.send.chunk, r.send.every = chunk, every })
}

// Release lets go of everything that the rule holds, and stops it from holding
// more; its other actions stay.
func (r *Rule) Release() {
	r.set(func() {
		r.holdAnswer, r.holdRequest = false, false
		select {
		case <-r.released:
		default:
			close(r.released)
		}
	})
}

// Remove takes the rule out of force and releases what it holds.
func (r *Rule) Remove() {
	r.set(func() {
		r.c.rules = slices.DeleteFunc(r.c.rules, func(other *Rule) bool { return other == r })
		r.times = 0
	})
	r.Release()
}

// Used returns how many requests the rule was applied to.
func (r *Rule) Used() int {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.used
}

// WaitUsed waits until the rule was applied n times and tells whether it was
// within timeout.
func (r *Rule) WaitUsed(n int, timeout time.Duration) bool {
	return r.c.await(timeout, func() bool { return r.used >= n })
}

// WaitHeld waits until the rule holds n requests or answers at the same time and
// tells whether it did within timeout.
func (r *Rule) WaitHeld(n int, timeout time.Duration) bool {
	return r.c.await(timeout, func() bool { return r.held >= n })
}

// match finds the rule for a request and counts its use.
func (c *Cluster) match(req Request) *Rule {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range c.rules {
		switch {
		case r.key != AnyKey && r.key != req.Key, r.node != 0 && r.node != req.Node, r.times == 0:
			continue
		case r.when != nil && !r.when(req):
			continue
		case r.skip > 0:
			r.skip--
			continue
		}
		r.used++
		if r.times > 0 {
			if r.times--; r.times == 0 {
				c.rules = slices.Delete(slices.Clone(c.rules), i, i+1)
			}
		}
		c.wakeLocked()
		return r
	}
	return nil
}

// wait holds up a request until Release, as long as its connection lives.
func (r *Rule) wait(cn *conn, hold *bool) bool {
	r.c.mu.Lock()
	if !*hold {
		r.c.mu.Unlock()
		return true
	}
	r.held++
	released := r.released
	r.c.wakeLocked()
	r.c.mu.Unlock()
	alive := false
	select {
	case <-released:
		alive = true
	case <-cn.done:
	}
	r.c.mu.Lock()
	r.held--
	r.c.mu.Unlock()
	return alive
}

// run applies the rule and tells whether the connection goes on.
func (r *Rule) run(cn *conn, req Request) bool {
	if !r.wait(cn, &r.holdRequest) {
		return false
	}
	var normal kmsg.Response
	if a, _, _ := r.actions(); !a.replaces() {
		if normal = r.c.answer(cn, req); normal == nil {
			return r.c.swallows(cn.node, req)
		}
		r.c.mind(cn.node, &req, normal)
	}
	if !r.wait(cn, &r.holdAnswer) {
		return false
	}
	a, delay, send := r.actions()
	if !cn.sleep(delay) {
		return false
	}
	frame, alive := r.c.frame(a, req, normal)
	if frame == nil {
		return alive
	}
	if a.tokens != nil {
		cn.tokens.Store(&a.tokens)
	}
	return cn.send(frame, send)
}

func (r *Rule) actions() (answer, time.Duration, sending) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.answer, r.delay, r.send
}

// frame gives the bytes to send; without any it tells whether the connection
// goes on.
func (c *Cluster) frame(a answer, req Request, resp kmsg.Response) (frame []byte, alive bool) {
	switch {
	case a.drop:
		return nil, true
	case a.close:
		return nil, false
	case a.raw != nil:
		return a.raw(req), true
	case a.reply != nil:
		resp = a.reply(req.Message)
	case a.fail != nil:
		resp = c.failure(req, *a.fail)
	}
	if resp == nil {
		return nil, false
	}
	if a.edit != nil {
		a.edit(req, resp)
	}
	return Frame(req, resp), true
}

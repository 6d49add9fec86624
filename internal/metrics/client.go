package metrics

import (
	"fmt"
	"sync/atomic"
	"time"
)

// A Client is what a consumer measures of its connections together, and of how the
// application calls it. Durations are in nanoseconds.
type Client struct {
	set *Set

	opened, closed  *Sensor
	open            atomic.Int64
	sent, received  *Sensor // bytes
	exchanged       *Sensor // bytes of both
	latency         *Sensor
	throttled       *Sensor
	authenticated   *Sensor // how long it took
	refused         *Sensor
	reauthenticated *Sensor // how long it took
	rerefused       *Sensor

	between   *Sensor // from one poll to the next
	idle      *Sensor // the share of polls in all time, in millionths
	lastPoll  moment
	lastEnd   moment
	committed atomic.Int64 // spent in Commit
	lookedUp  atomic.Int64 // spent in Committed
}

const idleUnit = 1_000_000

func (c *Client) init(s *Set) {
	c.set = s
	c.lastPoll, c.lastEnd = s.newMoment(), s.newMoment()
	for _, sensor := range []**Sensor{
		&c.opened, &c.closed, &c.sent, &c.received, &c.exchanged, &c.latency, &c.throttled,
		&c.authenticated, &c.refused, &c.reauthenticated, &c.rerefused, &c.between, &c.idle,
	} {
		*sensor = newSensor(&s.windows)
	}
}

// PollBegan notes that the application asks for records, and PollEnded that it gets
// some, or none. The calls must not overlap.
func (c *Client) PollBegan(now time.Time) {
	if d, ever := c.lastPoll.since(now); ever {
		c.between.Record(int64(d), now)
	}
	c.lastPoll.note(now)
}

// PollEnded is described with PollBegan.
func (c *Client) PollEnded(now time.Time) {
	took, _ := c.lastPoll.since(now)
	both, ever := c.lastEnd.since(now) // with the application's own time before the poll
	if ever && both > 0 {
		c.idle.Record(int64(idleUnit*float64(took)/float64(both)), now)
	}
	c.lastEnd.note(now)
}

// Committing notes that a call which commits, and waits for that, begins; ended is to be
// called at its end.
func (c *Client) Committing() (ended func()) { return c.spend(&c.committed) }

// LookingUp is Committing for a call that looks committed offsets up.
func (c *Client) LookingUp() (ended func()) { return c.spend(&c.lookedUp) }

func (c *Client) spend(sum *atomic.Int64) (ended func()) {
	began := c.set.now()
	return func() { sum.Add(int64(c.set.now().Sub(began))) }
}

// A Node is what is measured of the connections to one broker, or, with id -1, to
// bootstrap servers.
type Node struct {
	set  *Set
	tags string
	open int // connections; guarded by Set.mu

	sent, received     *Sensor // bytes
	latency, throttled *Sensor
	active             moment
}

// Open notes that a connection to a node is open. Its meter is told what goes over it.
func (s *Set) Open(id int32) *Node {
	s.Client.opened.Record(1, s.now())
	s.Client.open.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.openLocked(id)
}

func (s *Set) openLocked(id int32) *Node {
	n := s.nodes[id]
	if n == nil {
		n = s.newNode(id)
		s.nodes[id] = n
		s.changes.Add(1)
	}
	n.open++
	return n
}

// Move notes that an open connection leads to another node, whose meter it returns.
func (n *Node) Move(id int32) *Node {
	n.active.note(n.set.now())
	n.set.mu.Lock()
	defer n.set.mu.Unlock()
	n.open--
	return n.set.openLocked(id)
}

func (s *Set) newNode(id int32) *Node {
	return &Node{
		set: s, tags: s.tags(tag{"node-id", fmt.Sprintf("node-%d", id)}), active: s.newMoment(),
		sent: newSensor(&s.windows), received: newSensor(&s.windows),
		latency: newSensor(&s.windows), throttled: newSensor(&s.windows),
	}
}

// Sent notes a request that was written.
func (n *Node) Sent(bytes int) {
	now, c := n.set.now(), &n.set.Client
	for _, s := range [...]*Sensor{n.sent, c.sent, c.exchanged} {
		s.Record(int64(bytes), now)
	}
}

// Received notes an answer that was read, so long after its request was written.
func (n *Node) Received(bytes int, latency time.Duration) {
	now, c := n.set.now(), &n.set.Client
	for _, s := range [...]*Sensor{n.received, c.received, c.exchanged} {
		s.Record(int64(bytes), now)
	}
	n.latency.Record(int64(latency), now)
	c.latency.Record(int64(latency), now)
}

// Throttled notes for how long an answer said that the broker throttles this client.
func (n *Node) Throttled(d time.Duration) {
	now := n.set.now()
	n.throttled.Record(int64(d), now)
	n.set.Client.throttled.Record(int64(d), now)
}

// Authenticated notes an authentication, the first one of a connection or a later one.
func (n *Node) Authenticated(again bool, took time.Duration, ok bool) {
	c := &n.set.Client
	sensor := c.authenticated
	switch {
	case again && ok:
		sensor = c.reauthenticated
	case again:
		sensor = c.rerefused
	case !ok:
		sensor = c.refused
	}
	sensor.Record(int64(took), n.set.now())
}

// Closed notes the end of a connection.
func (n *Node) Closed() {
	now, s := n.set.now(), n.set
	s.Client.closed.Record(1, now)
	s.Client.open.Add(-1)
	n.active.note(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	n.open--
}

// gone tells whether a node without a connection has nothing to tell any more.
func (n *Node) gone(now time.Time) bool {
	since, _ := n.active.since(now)
	return n.open == 0 && since >= n.set.windows.span()
}

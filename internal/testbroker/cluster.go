package testbroker

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// An Option changes how New builds a Cluster.
type Option func(*options)

type options struct {
	nodes        int
	tcp          bool
	versions     map[int16]VersionRange
	manners      manners
	tokens       func() tokenExchange
	initialDelay time.Duration
	minSession   time.Duration
	maxSession   time.Duration
	autoCreate   int32
	noSessions   bool
	wrap         func(node int32, conn net.Conn) net.Conn
	racks        map[int32]string
	clusterID    string
}

// WithNodes sets the number of nodes; they have the ids 1 to n. The default is 1.
func WithNodes(n int) Option { return func(o *options) { o.nodes = n } }

// WithTCP makes every node listen on a free port of 127.0.0.1.
func WithTCP() Option { return func(o *options) { o.tcp = true } }

// WithVersions sets the APIs and versions that all nodes know; see SetVersions.
func WithVersions(table map[int16]VersionRange) Option {
	return func(o *options) { o.versions = table }
}

// WithInitialRebalanceDelay sets how long the first join of an empty group
// waits for further members. The default is 0; Kafka's is 3 s.
func WithInitialRebalanceDelay(d time.Duration) Option {
	return func(o *options) { o.initialDelay = d }
}

// WithSessionTimeouts sets the session timeouts that a join may ask for; others
// get INVALID_SESSION_TIMEOUT. By default any is taken.
func WithSessionTimeouts(min, max time.Duration) Option {
	return func(o *options) { o.minSession, o.maxSession = min, max }
}

// WithAutoCreate creates unknown topics named in a Metadata request that allows
// it (all do below v4), with so many partitions. By default they stay unknown.
func WithAutoCreate(partitions int32) Option {
	return func(o *options) { o.autoCreate = partitions }
}

// WithoutFetchSessions makes nodes refuse to create fetch sessions, as a full
// session cache does: every answer has session id 0.
func WithoutFetchSessions() Option { return func(o *options) { o.noSessions = true } }

// WithConnWrapper passes every accepted connection through wrap, for example
// into tls.Server.
func WithConnWrapper(wrap func(node int32, conn net.Conn) net.Conn) Option {
	return func(o *options) { o.wrap = wrap }
}

// WithTokens makes every connection begin with raw SASL tokens, as those of 0.9 do. Each
// has an exchange of its own; see Rule.ThenTokens.
func WithTokens(begin func() (exchange func(token []byte) (answer []byte, last bool))) Option {
	return func(o *options) { o.tokens = func() tokenExchange { return begin() } }
}

// WithRack gives a node a rack. A leader then sends a Fetch that names the rack
// of another replica there (KIP-392).
func WithRack(node int32, rack string) Option {
	return func(o *options) { o.racks[node] = rack }
}

// WithClusterID sets the cluster id; the default is "testbroker".
func WithClusterID(id string) Option { return func(o *options) { o.clusterID = id } }

// A Cluster is a running set of nodes that share topics and groups. All methods
// may be called from any goroutine. Methods that get names of things which do
// not exist panic: that is a mistake in the test.
type Cluster struct {
	opts options
	done chan struct{} // closed by Close
	wg   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	nodes    []*node
	topics   map[string]*topic
	ids      map[[16]byte]*topic
	groups   map[string]*group
	moved    map[string]int32 // coordinators set by MoveCoordinator
	rules    []*Rule
	log      []Request
	changed  chan struct{} // closed and replaced when a log, a leader or a rule's hold changes
	lastConn int
	lastID   uint64 // source of topic ids, member ids and session ids
}

type node struct {
	id       int32
	host     string
	port     int32
	listener net.Listener
	stopped  bool
	hang     bool
	versions map[int16]VersionRange
	manners  manners
	conns    map[*conn]struct{}
	sessions map[int32]*session
}

func (n *node) addr() string { return net.JoinHostPort(n.host, strconv.Itoa(int(n.port))) }

// New starts a cluster. With a t that is not nil the cluster is closed when the
// test ends; with nil (in examples) the caller closes it.
func New(t testing.TB, opts ...Option) *Cluster {
	c := &Cluster{
		opts:    options{nodes: 1, racks: map[int32]string{}, clusterID: "testbroker"},
		done:    make(chan struct{}),
		topics:  map[string]*topic{},
		ids:     map[[16]byte]*topic{},
		groups:  map[string]*group{},
		moved:   map[string]int32{},
		changed: make(chan struct{}),
	}
	for _, o := range opts {
		o(&c.opts)
	}
	if c.opts.versions == nil {
		c.opts.versions = DefaultVersions()
	}
	c.opts.versions = maps.Clone(c.opts.versions)
	for i := range c.opts.nodes {
		id := int32(i + 1)
		n := &node{
			id: id, host: fmt.Sprintf("node%d.test", id), port: 9092,
			versions: c.opts.versions, manners: c.opts.manners, conns: map[*conn]struct{}{}, sessions: map[int32]*session{},
		}
		c.nodes = append(c.nodes, n)
		if c.opts.tcp {
			c.listen(n, "127.0.0.1:0")
		}
	}
	if t != nil {
		t.Cleanup(c.Close)
	}
	return c
}

// Close cuts all connections, refuses new ones and waits until every goroutine
// of the cluster has ended. It may be called again.
func (c *Cluster) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	var cut []*conn
	for _, n := range c.nodes {
		cut = append(cut, c.stopLocked(n)...)
	}
	for _, g := range c.groups {
		g.stopTimers()
	}
	c.mu.Unlock()
	closeAll(cut)
	c.wg.Wait()
}

// Addrs returns the nodes' addresses as host:port, in the order of node ids.
func (c *Cluster) Addrs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.addr()
	}
	return addrs
}

// Addr returns the address of one node.
func (c *Cluster) Addr(node int32) string { return c.Addrs()[node-1] }

// Dial opens a link in memory to the node with that address. An unknown address
// and a stopped node refuse (ECONNREFUSED).
func (c *Cluster) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	c.mu.Lock()
	var to *node
	for _, n := range c.nodes {
		if n.addr() == addr {
			to = n
		}
	}
	if to != nil && to.hang && !c.closed {
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
		case <-c.done:
			return nil, refused(network)
		}
	}
	c.mu.Unlock()
	if to == nil {
		return nil, refused(network)
	}
	client, server := newLink(linkAddr("client.test:0"), linkAddr(addr))
	server = c.wrap(to, server)
	c.mu.Lock()
	defer c.mu.Unlock()
	if to.stopped || c.closed {
		return nil, refused(network)
	}
	c.startConnLocked(to, server)
	return client, nil
}

func refused(network string) error {
	return &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
}

func (c *Cluster) listen(n *node, addr string) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		panic(fmt.Sprintf("testbroker: %v", err))
	}
	tcp := l.Addr().(*net.TCPAddr)
	n.listener, n.host, n.port = l, tcp.IP.String(), int32(tcp.Port)
	c.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			c.accept(n, nc)
		}
	})
}

func (c *Cluster) wrap(n *node, nc net.Conn) net.Conn {
	if c.opts.wrap == nil {
		return nc
	}
	return c.opts.wrap(n.id, nc)
}

func (c *Cluster) accept(n *node, nc net.Conn) {
	nc = c.wrap(n, nc)
	c.mu.Lock()
	refuse := c.closed || n.stopped
	if !refuse {
		c.startConnLocked(n, nc)
	}
	c.mu.Unlock()
	if refuse {
		_ = nc.Close()
	}
}

func (c *Cluster) node(id int32) *node {
	if id < 1 || int(id) > len(c.nodes) {
		panic(fmt.Sprintf("testbroker: no node %d", id))
	}
	return c.nodes[id-1]
}

// StopNode makes a node refuse connections and cuts those it has. Metadata
// still lists it, and it stays leader and coordinator of what it was.
func (c *Cluster) StopNode(id int32) {
	c.mu.Lock()
	cut := c.stopLocked(c.node(id))
	c.mu.Unlock()
	closeAll(cut)
}

// stopLocked returns the connections that are to be closed without the lock.
func (c *Cluster) stopLocked(n *node) []*conn {
	n.stopped = true
	if n.listener != nil {
		_ = n.listener.Close()
		n.listener = nil
	}
	n.sessions = map[int32]*session{}
	return slices.Collect(maps.Keys(n.conns))
}

// StartNode lets a stopped node work again, at the same address and without its
// fetch sessions.
func (c *Cluster) StartNode(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(id)
	if !n.stopped || c.closed {
		return
	}
	n.stopped = false
	if c.opts.tcp {
		c.listen(n, n.addr())
	}
}

// CutConns closes all connections of a node; new ones work.
func (c *Cluster) CutConns(id int32) {
	c.mu.Lock()
	cut := slices.Collect(maps.Keys(c.node(id).conns))
	c.mu.Unlock()
	closeAll(cut)
}

func closeAll(conns []*conn) {
	for _, cn := range conns {
		cn.close()
	}
}

// FreezeConns turns the connections that a node has now half-open: what comes
// in is swallowed, and nothing is sent any more. New ones work.
func (c *Cluster) FreezeConns(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cn := range c.node(id).conns {
		cn.frozen.Store(true)
	}
}

// HangDials makes Dial to a node wait until its context ends, as towards an
// address that swallows packets; false ends that. TCP dials are not affected.
func (c *Cluster) HangDials(id int32, hang bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node(id).hang = hang
}

// Conns returns how many connections a node has open.
func (c *Cluster) Conns(id int32) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.node(id).conns)
}

// Sessions returns how many fetch sessions a node keeps.
func (c *Cluster) Sessions(id int32) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.node(id).sessions)
}

// DropSessions forgets the fetch sessions of a node; their next use is answered
// with FETCH_SESSION_ID_NOT_FOUND.
func (c *Cluster) DropSessions(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node(id).sessions = map[int32]*session{}
}

// wakeLocked wakes everyone who waits for a change of the cluster.
func (c *Cluster) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Cluster) nextIDLocked() uint64 {
	c.lastID++
	return c.lastID
}

// await waits until cond, called with the lock held, is true, and tells whether
// it became so within timeout.
func (c *Cluster) await(timeout time.Duration, cond func() bool) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		c.mu.Lock()
		ok, changed := cond(), c.changed
		c.mu.Unlock()
		if ok || timeout <= 0 {
			return ok
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-c.done:
			return false
		}
	}
}

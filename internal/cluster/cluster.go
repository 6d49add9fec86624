package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/protocol"
)

// What a Config's zero values stand for.
const (
	defaultRetryBackoff    = 100 * time.Millisecond
	defaultRetryBackoffMax = time.Second
	defaultMetadataMaxAge  = 5 * time.Minute
)

// A Config says how to reach a cluster and how to keep up with it.
type Config struct {
	// Conn is for all connections.
	Conn conn.Config
	// Bootstrap are the addresses to begin with, and to come back to when no
	// known broker answers (KIP-899). There must be one.
	Bootstrap []conn.Addr
	// RetryBackoff and RetryBackoffMax pace refreshes and retries; see
	// conn.Backoff. Zero: 100 ms and 1 s; negative: no wait.
	RetryBackoff, RetryBackoffMax time.Duration
	// MetadataMaxAge is the age at which metadata is refreshed unasked. Zero:
	// 5 min; negative: as often as RetryBackoff allows.
	MetadataMaxAge time.Duration
	// KeepBootstrap keeps connections to bootstrap servers until a coordinator was found,
	// or metadata refreshed, so that the look-up need not wait for another.
	KeepBootstrap bool
	// AllowAutoCreate lets brokers create topics of the interest set that do
	// not exist.
	AllowAutoCreate bool
	// Logger gets what goes wrong. Nil: that of Conn, or slog.Default().
	Logger *slog.Logger
}

func (c Config) filled() Config {
	if c.Conn.Releases == nil {
		c.Conn.Releases = conn.NewReleases()
	}
	if c.RetryBackoff == 0 {
		c.RetryBackoff = defaultRetryBackoff
	}
	if c.RetryBackoffMax == 0 {
		c.RetryBackoffMax = defaultRetryBackoffMax
	}
	if c.MetadataMaxAge == 0 {
		c.MetadataMaxAge = defaultMetadataMaxAge
	}
	if c.Logger == nil {
		c.Logger = c.Conn.Logger
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// ErrClosed is the reason of everything that Close ended.
var ErrClosed = conn.ErrClosed

// A Cluster keeps the metadata of a cluster and the connections to its
// brokers. Its methods may be called from any goroutine.
type Cluster struct {
	cfg     Config
	log     *slog.Logger
	backoff conn.Backoff

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // the refresher

	snapshot atomic.Pointer[Metadata]
	wake     chan struct{} // of the refresher; holds one

	mu       sync.Mutex
	closed   bool
	started  bool // the refresher runs
	nodes    map[int32]*node
	boots    map[conn.Addr]*conn.Broker
	adopted  []*conn.Broker // boots that became nodes, to be told so without the lock
	reached  chan struct{}  // closed when a broker was reached
	booted   chan struct{}  // closed when Bootstrap has done its work
	found    bool           // a coordinator was
	asked    uint64         // counts questions, for taking turns
	versions *protocol.Versions
	named    map[string]bool
	all      bool
	changed  chan struct{} // closed and replaced when the snapshot changes
	refresh  refreshState
}

// node is a known broker.
type node struct {
	id     int32
	broker *conn.Broker
	asked  uint64 // Cluster.asked when it was last chosen
	// coordinator: it was found as one, and is kept although the metadata does
	// not list it.
	coordinator bool
}

// New returns a cluster that is not connected yet: call Bootstrap, and Close at
// the end.
func New(cfg Config) *Cluster {
	cfg = cfg.filled()
	c := &Cluster{
		cfg:     cfg,
		log:     cfg.Logger,
		backoff: conn.Backoff{Base: cfg.RetryBackoff, Max: cfg.RetryBackoffMax},
		wake:    make(chan struct{}, 1),
		nodes:   map[int32]*node{},
		boots:   map[conn.Addr]*conn.Broker{},
		named:   map[string]bool{},
		changed: make(chan struct{}),
		reached: make(chan struct{}),
		booted:  make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.refresh.attempted = make(chan struct{})
	c.snapshot.Store(emptyMetadata())
	return c
}

// Bootstrap asks the bootstrap addresses, in random order, for the metadata of
// the interest set; the first good answer counts. When every address has
// failed, or ctx ends, the error joins the reasons of all. After a success the
// cluster keeps itself up to date until Close.
func (c *Cluster) Bootstrap(ctx context.Context) error {
	ctx, stop := c.bound(ctx)
	defer stop()
	ticket, q := c.nextQuestion()
	answer, err := c.bootstrap(ctx, q)
	if err != nil {
		if c.ctx.Err() != nil {
			return ErrClosed
		}
		return err
	}
	ch := c.take(answer)
	c.mu.Lock()
	c.noteRefreshLocked(ticket, nil, ch.progressed, ch.Ignored)
	if !c.started && !c.closed {
		c.started = true
		close(c.booted)
		c.wg.Go(c.run)
	}
	keep := c.cfg.KeepBootstrap && !c.found
	c.mu.Unlock()
	if !keep {
		c.closeBoots()
	}
	return nil
}

// bound returns ctx that also ends with the cluster.
func (c *Cluster) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// Close ends the refresher and all connections, and fails what waits with
// ErrClosed. It returns when every goroutine of the cluster has ended.
func (c *Cluster) Close() {
	c.cancel(ErrClosed)
	c.mu.Lock()
	c.closed = true
	brokers := slices.Collect(maps.Values(c.boots))
	for _, n := range c.nodes {
		brokers = append(brokers, n.broker)
	}
	clear(c.boots)
	clear(c.nodes)
	c.mu.Unlock()
	closeAll(brokers)
	c.wg.Wait()
}

func closeAll(brokers []*conn.Broker) {
	for _, b := range brokers {
		b.Close()
	}
}

// Metadata returns what is known now. It is never nil.
func (c *Cluster) Metadata() *Metadata { return c.snapshot.Load() }

// Changed returns a channel that is closed when the snapshot differs from the
// present one. To miss nothing, take the channel before the snapshot.
func (c *Cluster) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Versions returns what a broker that answered lately supports, and false
// before the first answer.
func (c *Cluster) Versions() (*protocol.Versions, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.versions, c.versions != nil
}

// Connected tells whether a connection to any broker is open.
func (c *Cluster) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.broker.Connected() {
			return true
		}
	}
	return false
}

// Broker returns the connections to a node, and false if there is no such node
// in the metadata. They are closed when the node vanishes: look it up anew
// rather than keep it.
func (c *Cluster) Broker(id int32) (*conn.Broker, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[id]; n != nil {
		return n.broker, true
	}
	return nil, false
}

// SetInterest says which topics' metadata is kept: those named, and with all,
// those of the whole cluster. With all, name the topics that matter, so that
// trouble with them is noticed soon.
func (c *Cluster) SetInterest(topics []string, all bool) {
	c.mu.Lock()
	defer c.unlock(nil)
	snapshot := c.snapshot.Load()
	news := all && !c.all
	named := make(map[string]bool, len(topics))
	for _, name := range topics {
		named[name] = true
		news = news || snapshot.Topics[name] == nil
	}
	c.named, c.all = named, all
	c.publishLocked(snapshot.within(named, all))
	if news {
		c.refresh.hurry()
		c.refreshLocked()
	}
}

// UpdateLeader takes in a newer leader of a partition that another answer told
// (KIP-951), with its endpoint if that came along. It returns false, and
// changes nothing, when the epoch is not newer than the known one.
func (c *Cluster) UpdateLeader(tp protocol.TopicPartition, leader, epoch int32, endpoint *BrokerInfo) bool {
	c.mu.Lock()
	next, ok := withLeader(c.snapshot.Load(), tp, leader, epoch, endpoint)
	var gone []*conn.Broker
	if ok {
		_, gone = c.publishLocked(next)
	}
	c.unlock(gone)
	return ok
}

// taken tells what an answer did.
type taken struct {
	Changes
	progressed bool // the snapshot changed
}

// take merges an answer into the snapshot and publishes the result.
func (c *Cluster) take(a Answer) taken {
	c.mu.Lock()
	next, ch := Merge(c.snapshot.Load(), a)
	changed, gone := c.publishLocked(next.within(c.named, c.all))
	c.unlock(gone)
	for _, topic := range ch.Recreated {
		c.log.Warn("kafka: topic was deleted and created again", "topic", topic)
	}
	return taken{ch, changed}
}

// publishLocked makes next the snapshot and brings the nodes in line with it.
// The brokers that it returns are for the caller to close, without the lock.
func (c *Cluster) publishLocked(next *Metadata) (changed bool, gone []*conn.Broker) {
	old := c.snapshot.Load()
	changed = !sameMetadata(old, next)
	c.snapshot.Store(next)
	if c.closed {
		return changed, nil
	}
	for id, info := range next.Brokers {
		c.addNodeLocked(id, info.Addr)
	}
	for id, n := range c.nodes {
		if _, ok := next.Brokers[id]; !ok && !n.coordinator {
			gone = append(gone, n.broker)
			delete(c.nodes, id)
		}
	}
	if changed {
		close(c.changed)
		c.changed = make(chan struct{})
	}
	return changed, gone
}

// unlock gives mu back after brokers changed: it closes those that are gone, and tells
// those that turned out to be nodes.
func (c *Cluster) unlock(gone []*conn.Broker) {
	adopted := c.adopted
	c.adopted = nil
	c.mu.Unlock()
	for _, b := range adopted {
		b.Identify()
	}
	closeAll(gone)
}

func (c *Cluster) addNodeLocked(id int32, addr conn.Addr) *node {
	n := c.nodes[id]
	if n == nil {
		n = &node{id: id, broker: c.adoptLocked(id, addr)}
		c.nodes[id] = n
	} else {
		n.broker.SetAddr(addr)
	}
	return n
}

// adoptLocked returns the connections to a new node: those to the bootstrap server of its
// address, if one is open, so that it need not be dialled again.
func (c *Cluster) adoptLocked(id int32, addr conn.Addr) *conn.Broker {
	b := c.boots[addr]
	if b == nil || !b.Connected() || !b.Become(id) {
		return conn.NewBroker(&c.cfg.Conn, id, addr)
	}
	delete(c.boots, addr)
	c.adopted = append(c.adopted, b)
	return b
}

// addCoordinator makes sure that a node that was found as coordinator is known,
// and lets go of those found before.
func (c *Cluster) addCoordinator(id int32, addr conn.Addr) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	listed := c.snapshot.Load().Brokers
	var gone []*conn.Broker
	for other, n := range c.nodes {
		if !n.coordinator || other == id {
			continue
		}
		n.coordinator = false
		if _, ok := listed[other]; !ok {
			gone = append(gone, n.broker)
			delete(c.nodes, other)
		}
	}
	c.addNodeLocked(id, addr).coordinator = true
	c.found = true
	c.unlock(gone)
	return nil
}

// dropNodes forgets all known brokers and closes their connections.
func (c *Cluster) dropNodes() {
	c.mu.Lock()
	var gone []*conn.Broker
	for _, n := range c.nodes {
		gone = append(gone, n.broker)
	}
	clear(c.nodes)
	c.mu.Unlock()
	closeAll(gone)
}

// boot returns the connections to a bootstrap address. They live until a known
// broker answers, so that their backoff and their log lines are kept in bounds.
func (c *Cluster) boot(addr conn.Addr) (*conn.Broker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	b := c.boots[addr]
	if b == nil {
		b = conn.NewBroker(&c.cfg.Conn, NoNode, addr)
		c.boots[addr] = b
	}
	return b, nil
}

// closeBoots closes the connections to bootstrap addresses when brokers are
// known by metadata.
func (c *Cluster) closeBoots() {
	c.mu.Lock()
	var gone []*conn.Broker
	if c.started && len(c.nodes) > 0 {
		gone = slices.Collect(maps.Values(c.boots))
		clear(c.boots)
	}
	c.mu.Unlock()
	closeAll(gone)
}

// shuffledBootstrap returns the bootstrap addresses in random order, so that
// many clients do not all begin with the same one.
func (c *Cluster) shuffledBootstrap() []conn.Addr {
	addrs := slices.Clone(c.cfg.Bootstrap)
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return addrs
}

// A CodeError is an error code that a broker answered. It unwraps to the code.
type CodeError struct {
	Node    int32 // NoNode for a bootstrap address
	API     string
	Code    protocol.ErrorCode
	Message string // the broker's own text, if it sent one
}

// Error names the broker, the request, the code and the broker's text.
func (e *CodeError) Error() string {
	s := fmt.Sprintf("%s: broker %d: %s", e.API, e.Node, e.Code.Error())
	if e.Message != "" {
		s += fmt.Sprintf(": %q", e.Message)
	}
	return s
}

// Unwrap returns the code.
func (e *CodeError) Unwrap() error { return e.Code }

// An UnknownNodeError says that the metadata lists no such broker now.
type UnknownNodeError struct{ Node int32 }

// Error names the broker.
func (e *UnknownNodeError) Error() string {
	return fmt.Sprintf("broker %d is not in the cluster's metadata", e.Node)
}

// isFinal tells whether an error of a request will be the same next time.
func isFinal(err error) bool {
	var (
		auth        *conn.AuthError
		unsupported *protocol.UnsupportedVersionError
		code        protocol.ErrorCode
	)
	switch {
	case errors.As(err, &auth), errors.As(err, &unsupported), errors.Is(err, ErrClosed) && !errors.As(err, new(*conn.Error)):
		return true
	case errors.As(err, &code):
		return !code.Retriable() && code != protocol.RebootstrapRequired
	}
	return false
}

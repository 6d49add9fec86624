package kafka

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/fetch"
	"github.com/kafkaconsumer/kafka/protocol"
)

// A fetcher drives a fetch.Table: one loop per broker writes Fetch requests and
// reads their answers, a few workers decode, and two loops find positions. The
// table decides; whatever changes it ends with release, which wakes whom the
// change concerns.
type fetcher struct {
	cfg     *Config
	cluster *cluster.Cluster
	log     *slog.Logger
	hooks   fetcherHooks

	ctx    context.Context // ends the goroutines
	cancel context.CancelFunc
	wg     sync.WaitGroup

	decodeKick     chan struct{}
	committedKick  chan struct{}
	resetKick      chan struct{}
	beforeDecoding func() // for tests, nil otherwise

	mu      sync.Mutex // guards all below; taken by acquire, given back by release
	table   *fetch.Table
	loops   map[int32]*fetchLoop
	changed chan struct{} // closed and replaced when a position may have been found
	watched bool          // somebody waits on changed
	closed  bool
}

// fetcherHooks connect a fetcher with the rest of its consumer. None blocks.
type fetcherHooks struct {
	// wake: there are records or reports for the application's goroutine.
	wake func()
	// moved: positions moved, or records were handed over.
	moved func()
	// report: something to tell the application.
	report func(fetch.Report)
	// committed looks up committed offsets.
	committed func(ctx context.Context, tps []TopicPartition) (map[TopicPartition]OffsetAndMetadata, error)
	// appeared tells whether a partition came to be since this consumer subscribed.
	appeared func(TopicPartition) bool
}

func newFetcher(cfg *Config, cl *cluster.Cluster, log *slog.Logger, hooks fetcherHooks) *fetcher {
	ctx, cancel := context.WithCancel(context.Background())
	backoff := conn.Backoff{Base: cfg.RetryBackoff, Max: cfg.RetryBackoffMax}
	f := &fetcher{
		cfg: cfg, cluster: cl, log: log, hooks: hooks, ctx: ctx, cancel: cancel,
		decodeKick:    make(chan struct{}, decodeWorkers()),
		committedKick: make(chan struct{}, 1),
		resetKick:     make(chan struct{}, 1),
		loops:         make(map[int32]*fetchLoop),
		changed:       make(chan struct{}),
		table: fetch.NewTable(fetch.Limits{
			FetchMaxBytes:          cfg.FetchMaxBytes,
			MaxPartitionFetchBytes: cfg.MaxPartitionFetchBytes,
			MaxBatchBytes:          int(cfg.MaxBatchBytes),
			MaxFrameBytes:          cfg.ReceiveMessageMaxBytes,
			MaxBufferedBytes:       cfg.MaxBufferedBytes,
			ReadCommitted:          cfg.IsolationLevel == ReadCommitted,
			SkipCRC:                cfg.SkipCRCCheck,
			Policy:                 func() fetch.Policy { return cfg.AutoOffsetReset.timestamp(time.Now()) },
			Backoff:                backoff.Delay,
		}),
	}
	return f
}

// timestamp returns what to ask ListOffsets for.
func (r OffsetReset) timestamp(now time.Time) fetch.Policy {
	switch r.kind {
	case resetEarliest:
		return fetch.TimeEarliest
	case resetNone:
		return fetch.PolicyNone
	case resetByDuration:
		return max(now.Add(-r.duration).UnixMilli(), 0)
	default:
		return fetch.TimeLatest
	}
}

// decodeWorkers is how many batches are decoded at once.
func decodeWorkers() int { return runtime.GOMAXPROCS(0) }

// start starts the workers and the two loops that find positions. close stops and
// awaits them.
func (f *fetcher) start() {
	for range decodeWorkers() {
		f.wg.Go(f.decodeLoop)
	}
	f.wg.Go(func() { f.lookupLoop(f.committedKick, (*fetch.Table).WantCommitted, f.lookUpCommitted) })
	f.wg.Go(func() { f.lookupLoop(f.resetKick, (*fetch.Table).WantResets, f.lookUpResets) })
}

// close ends all goroutines and awaits them.
func (f *fetcher) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.wg.Wait()
}

// acquire takes the table. It is given back by release.
func (f *fetcher) acquire() *fetch.Table {
	f.mu.Lock()
	return f.table
}

// release gives the table back after a change and wakes whom it may concern.
func (f *fetcher) release() {
	f.ensureLoops()
	if f.table.TakeStirred() {
		f.kickIdleLoops()
	}
	reports := f.table.TakeReports()
	moved := f.table.TakeMoved()
	readied := f.table.HasReady() || len(reports) > 0 || f.table.HasFaults()
	if f.watched {
		f.watched = false
		close(f.changed)
		f.changed = make(chan struct{})
	}
	decode := f.table.HasUndecoded()
	unlocated := f.table.TakeUnlocated()
	f.mu.Unlock()

	if unlocated {
		kick(f.committedKick)
		kick(f.resetKick)
	}
	if decode {
		kick(f.decodeKick)
	}
	f.deliver(reports)
	if moved {
		f.hooks.moved()
	}
	if readied {
		f.hooks.wake()
	}
}

func (f *fetcher) kickIdleLoops() {
	for _, l := range f.loops {
		if l.idle {
			l.idle = false
			kick(l.kick)
		}
	}
}

// deliver passes reports on.
func (f *fetcher) deliver(reports []fetch.Report) {
	for _, r := range reports {
		if r.Kind == fetch.ReportStaleMetadata {
			f.log.Debug("fetch refused", "partition", r.TP, "error", r.Err)
			f.cluster.Refresh()
			continue
		}
		f.hooks.report(r)
	}
}

// kick wakes the one goroutine that waits on a channel with room for one.
func kick(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// hasFaults tells whether a partition is at fault.
func (f *fetcher) hasFaults() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.table.Faults()) > 0
}

// updateLeaders takes over changed metadata.
func (f *fetcher) updateLeaders(md *cluster.Metadata) {
	table := f.acquire()
	defer f.release()
	table.UpdateLeaders(func(tp TopicPartition) fetch.Leader {
		topic := md.Topics[tp.Topic]
		if topic == nil || int(tp.Partition) >= len(topic.Partitions) || tp.Partition < 0 {
			return fetch.Leader{}
		}
		p := topic.Partitions[tp.Partition]
		return fetch.Leader{Known: true, Broker: p.Leader, Epoch: p.LeaderEpoch, TopicID: topic.ID}
	})
}

// ensureLoops starts a loop for each broker that leads an assigned partition and
// has none. A loop whose broker leads none any more ends by itself.
func (f *fetcher) ensureLoops() {
	if f.closed {
		return
	}
	for _, broker := range f.table.NewBrokers() {
		if f.loops[broker] == nil {
			l := newFetchLoop(f, broker)
			f.loops[broker] = l
			f.wg.Go(l.run)
		}
	}
}

// decodeLoop decodes what the table gives out.
func (f *fetcher) decodeLoop() {
	for {
		select {
		case <-f.decodeKick:
		case <-f.ctx.Done():
			return
		}
		f.decodeAll()
	}
}

func (f *fetcher) decodeAll() {
	for f.ctx.Err() == nil {
		f.mu.Lock()
		task, ok := f.table.NextDecode()
		more := f.table.HasUndecoded()
		f.mu.Unlock()
		if !ok {
			return
		}
		if more { // let another worker help
			kick(f.decodeKick)
		}
		if f.beforeDecoding != nil {
			f.beforeDecoding()
		}
		task.Run()
		f.acquire().DecodeDone(&task)
		f.release()
	}
}

// A fetchLoop fetches from one broker. It owns its connection.
type fetchLoop struct {
	f      *fetcher
	broker int32
	kick   chan struct{}
	idle   bool // waits for kick; guarded by fetcher.mu
	plan   fetch.Plan
	resp   protocol.FetchResponse
	link   *conn.Link
	body   func([]byte) []byte
	read   func(*protocol.Reader) error
}

func newFetchLoop(f *fetcher, broker int32) *fetchLoop {
	l := &fetchLoop{f: f, broker: broker, kick: make(chan struct{}, 1)}
	l.plan.Request = protocol.FetchRequest{
		MaxWaitMillis:  int32(f.cfg.FetchMaxWait.Milliseconds()),
		MinBytes:       f.cfg.FetchMinBytes,
		IsolationLevel: int8(f.cfg.IsolationLevel),
		SessionEpoch:   -1, // no fetch session (KIP-227)
	}
	l.body = func(dst []byte) []byte { return l.plan.Request.AppendTo(dst, l.plan.Version) }
	l.read = func(r *protocol.Reader) error { return fetch.ReadAnswer(&l.plan, &l.resp, r) }
	return l
}

// run fetches until the broker leads nothing any more or the fetcher is closed.
func (l *fetchLoop) run() {
	defer l.disconnect()
	for l.awaitHunger() {
		version, err := l.connect()
		if err != nil {
			l.failed(err)
			continue
		}
		l.f.mu.Lock()
		l.f.table.Plan(&l.plan, l.broker, version, time.Now())
		l.f.mu.Unlock()
		if !l.plan.Empty() {
			l.exchange()
		}
	}
}

// awaitHunger waits until there is something to ask the broker for. It returns
// false when the loop has to end.
func (l *fetchLoop) awaitHunger() bool {
	for {
		l.f.mu.Lock()
		if l.f.ctx.Err() != nil || !l.f.table.Leads(l.broker) {
			delete(l.f.loops, l.broker)
			l.f.mu.Unlock()
			return false
		}
		hungry, retry := l.f.table.Hungry(l.broker, time.Now())
		l.idle = !hungry
		l.f.mu.Unlock()
		if hungry {
			return true
		}
		l.sleep(retry)
	}
}

// sleep waits for kick, for the time retry unless it is zero, or for the end.
func (l *fetchLoop) sleep(retry time.Time) {
	var due <-chan time.Time
	if !retry.IsZero() {
		timer := time.NewTimer(time.Until(retry))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-l.kick:
	case <-due:
	case <-l.f.ctx.Done():
	}
}

// connect returns the Fetch version to use on the loop's connection, which it
// makes if there is none.
func (l *fetchLoop) connect() (version int16, err error) {
	if l.link != nil && l.link.Err() != nil {
		l.link = nil
	}
	if l.link == nil {
		broker, ok := l.f.cluster.Broker(l.broker)
		if !ok {
			return 0, &cluster.UnknownNodeError{Node: l.broker}
		}
		if l.link, err = broker.Link(l.f.ctx, conn.Fetch); err != nil {
			return 0, err
		}
	}
	return l.link.Versions().Pick(protocol.KeyFetch, protocol.FetchMinVersion, protocol.FetchMaxVersion)
}

func (l *fetchLoop) disconnect() {
	if l.link != nil {
		l.link.Close()
		l.link = nil
	}
}

// failed tells the table that the broker cannot be asked now, and waits.
func (l *fetchLoop) failed(err error) {
	if l.f.ctx.Err() != nil {
		return
	}
	l.f.acquire().BrokerFailed(l.broker, err, isFinalError(err), time.Now())
	l.f.release()
	l.f.cluster.Refresh()
}

// isFinalError tells whether an error of a connection is one that the application
// must hear of at once.
func isFinalError(err error) bool {
	_, auth := errors.AsType[*conn.AuthError](err)
	_, version := errors.AsType[*protocol.UnsupportedVersionError](err)
	return auth || version
}

// exchange sends the plan's request and takes its answer in.
func (l *fetchLoop) exchange() {
	flexible := l.plan.Version >= fetchFlexibleVersion
	err := l.link.Stream(l.f.ctx, protocol.KeyFetch, l.plan.Version, flexible, l.body, l.read, 0)
	if err == nil && l.resp.ErrorCode != protocol.None {
		err = &BrokerError{Broker: l.broker, API: "Fetch", Code: l.resp.ErrorCode}
	}
	if err != nil {
		l.f.log.Debug("fetch failed", "broker", l.broker, "error", err)
		l.f.acquire().Discard(&l.plan)
		l.f.release()
		l.failed(err)
		return
	}
	l.f.acquire().Apply(&l.plan, time.Now())
	l.f.release()
	if ms := l.resp.ThrottleMillis; ms > 0 && l.plan.Version >= fetchThrottleVersion {
		l.link.Throttle(time.Duration(ms) * time.Millisecond)
	}
}

const (
	fetchFlexibleVersion = 12
	fetchThrottleVersion = 8 // from here on the client has to hold back (KIP-219)
)

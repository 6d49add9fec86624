package kafka

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/fetch"
	"github.com/kafkaconsumer/kafka/internal/metrics"
	"github.com/kafkaconsumer/kafka/protocol"
)

// A fetcher drives a fetch.Table: one loop per broker writes Fetch requests and
// reads their answers, a few workers decode, and three loops find and check positions. The
// table decides; whatever changes it ends with release, which wakes whom the
// change concerns.
type fetcher struct {
	cfg     *Config
	cluster *cluster.Cluster
	log     *slog.Logger
	metrics *metrics.Fetch
	hooks   fetcherHooks

	ctx    context.Context // ends the goroutines
	cancel context.CancelFunc
	wg     sync.WaitGroup

	decodeKick     chan struct{}
	committedKick  chan struct{}
	resetKick      chan struct{}
	validateKick   chan struct{}
	vacancyKick    chan struct{}
	stallKick      chan struct{}
	lending        lending
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
	// disturb: what the application's goroutine is handing over is not to be.
	disturb func()
	// moved: positions moved, or records were handed over.
	moved func()
	// report: something to tell the application.
	report func(fetch.Report)
	// committed looks up committed offsets.
	committed func(ctx context.Context, tps []TopicPartition) (map[TopicPartition]OffsetAndMetadata, error)
	// appeared tells whether a partition came to be since this consumer subscribed.
	appeared func(TopicPartition) bool
	// asks is a number that changes whenever the application asks for records.
	asks func() uint64
}

func newFetcher(cfg *Config, cl *cluster.Cluster, log *slog.Logger, m *metrics.Fetch, hooks fetcherHooks) *fetcher {
	ctx, cancel := context.WithCancel(context.Background())
	backoff := conn.Backoff{Base: cfg.RetryBackoff, Max: cfg.RetryBackoffMax}
	f := &fetcher{
		cfg: cfg, cluster: cl, log: log, metrics: m, hooks: hooks, ctx: ctx, cancel: cancel,
		decodeKick:    make(chan struct{}, decodeWorkers()),
		committedKick: make(chan struct{}, 1),
		resetKick:     make(chan struct{}, 1),
		validateKick:  make(chan struct{}, 1),
		vacancyKick:   make(chan struct{}, 1),
		stallKick:     make(chan struct{}, 1),
		lending:       lending{most: min(lentFor, (cfg.RequestTimeout-cfg.FetchMaxWait)/4)}, // an answer is not to be late for that
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
			NoSessions:             cfg.DisableFetchSessions,
			OldByChoice:            cfg.APIVersion != "",
			ReplicaLease:           cfg.MetadataMaxAge,
			Patience:               stallPatience(cfg),
			Policy:                 func() fetch.Policy { return cfg.AutoOffsetReset.timestamp(time.Now()) },
			Backoff:                backoff.Delay,
			TellAfter:              cfg.RequestTimeout,
			Metrics:                m,
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

// start starts the workers and the loops that find and check positions. close stops and
// awaits them.
func (f *fetcher) start() {
	for range decodeWorkers() {
		f.wg.Go(f.decodeLoop)
	}
	f.wg.Go(func() { f.lookupLoop(f.committedKick, (*fetch.Table).WantCommitted, f.lookUpCommitted) })
	f.wg.Go(func() { f.lookupLoop(f.resetKick, (*fetch.Table).WantResets, f.lookUpResets) })
	f.wg.Go(func() { f.lookupLoop(f.validateKick, (*fetch.Table).WantValidations, f.validate) })
	f.wg.Go(func() { f.lookupLoop(f.vacancyKick, (*fetch.Table).WantVacancies, f.checkVacancies) })
	f.wg.Go(f.stallLoop)
}

// close ends all goroutines, awaits them, and closes the fetch sessions that brokers
// keep, within ctx.
func (f *fetcher) close(ctx context.Context) {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.wg.Wait()
	f.lending.close()
	f.closeSessions(ctx)
}

// acquire takes the table. It is given back by release.
func (f *fetcher) acquire() *fetch.Table {
	f.mu.Lock()
	return f.table
}

// release gives the table back after a change and wakes whom it may concern.
func (f *fetcher) release() {
	f.ensureLoops()
	if f.table.HasUnmeasured() {
		f.table.Measure(time.Now())
	}
	if f.table.TakeStirred() {
		f.kickIdleLoops()
	}
	reports := f.table.TakeReports()
	moved, disturbed := f.table.TakeMoved(), f.table.TakeDisturbed()
	readied := f.table.HasReady() || len(reports) > 0 || f.table.HasFaults()
	if f.watched {
		f.watched = false
		close(f.changed)
		f.changed = make(chan struct{})
	}
	decode := f.table.HasUndecoded()
	unlocated := f.table.TakeUnlocated()
	unwatched := f.table.TakeUnwatched()
	f.mu.Unlock()

	if unlocated {
		f.kickLookups()
	}
	if unwatched {
		kick(f.stallKick)
	}
	if decode {
		kick(f.decodeKick)
	}
	f.deliver(reports)
	if moved {
		f.hooks.moved()
	}
	if disturbed {
		f.hooks.disturb()
	}
	if readied {
		f.hooks.wake()
	}
}

// kickLookups wakes the loops that find and check positions.
func (f *fetcher) kickLookups() {
	kick(f.committedKick)
	kick(f.resetKick)
	kick(f.validateKick)
	kick(f.vacancyKick)
}

func brokerInfo(e *protocol.NodeEndpoint) *cluster.BrokerInfo {
	if e == nil {
		return nil
	}
	return &cluster.BrokerInfo{Addr: conn.Addr{Host: e.Host, Port: e.Port}, Rack: e.Rack}
}

func (f *fetcher) kickIdleLoops() {
	now := time.Now()
	for _, l := range f.loops {
		if l.idle {
			l.idle = false
			kick(l.kick)
			continue
		}
		s := f.table.Session(l.broker)
		if s == nil {
			continue
		}
		if wanted, due := f.table.WantsSide(s, now); wanted || !due.IsZero() {
			if !l.hasSide {
				l.hasSide = true
				f.wg.Go(l.runSide)
			}
			kick(l.sideKick)
		}
	}
}

// deliver passes reports on.
func (f *fetcher) deliver(reports []fetch.Report) {
	for _, r := range reports {
		switch r.Kind {
		case fetch.ReportStaleMetadata:
			f.log.Debug("fetch did not succeed", "partition", r.TP, "error", r.Err)
			f.cluster.Refresh()
		case fetch.ReportLeader:
			f.cluster.UpdateLeader(r.TP, r.Leader.ID, r.Leader.Epoch, brokerInfo(r.Endpoint))
		default:
			f.hooks.report(r)
		}
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

// updateLeaders takes over changed metadata. It is read with the table held, so that an
// older state never follows a newer one.
func (f *fetcher) updateLeaders() {
	f.acquire()
	defer f.release()
	f.updateLeadersLocked()
}

// updateLeadersLocked is updateLeaders between acquire and release. Partitions are assigned
// and get their leaders in one go: a look-up that ends between would not know of which
// topic they are, and so not where they were first started.
func (f *fetcher) updateLeadersLocked() {
	md := f.cluster.Metadata()
	f.table.UpdateLeaders(func(tp TopicPartition) fetch.Leader {
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

// decodeHere decodes all that may be decoded, on this goroutine, which holds the table.
// A few records are decoded faster than another goroutine is woken.
func (f *fetcher) decodeHere() {
	for task, ok := f.table.NextDecode(); ok; task, ok = f.table.NextDecode() {
		f.mu.Unlock()
		if f.beforeDecoding != nil {
			f.beforeDecoding()
		}
		task.Run()
		f.mu.Lock()
		f.table.DecodeDone(&task)
	}
}

package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/fetch"
	"github.com/kafkaconsumer/kafka/internal/metrics"
	"github.com/kafkaconsumer/kafka/internal/subs"
	"github.com/kafkaconsumer/kafka/protocol"
)

// A Consumer reads records from Kafka, alone or as a member of a group.
//
// Its methods may be called from any goroutine. One Poll, one iteration or one
// channel at a time reads records; a second one gets ErrConcurrentPoll. Blocking
// methods other than Poll, Records and Messages are bounded by
// Config.DefaultAPITimeout when their context has no deadline. After Close every
// method that can fail returns ErrClosed.
type Consumer struct {
	cfg     Config
	log     *slog.Logger
	cluster *cluster.Cluster
	fetcher *fetcher
	coord   *coordinator // nil without a group
	events  *eventQueue
	metrics *metrics.Set
	told    *reporters

	ctx    context.Context // ends when the consumer is closed, with ErrClosed
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // watch, and commits before revocations
	born   time.Time

	wake      chan struct{} // wakes the one goroutine that reads, if it waits
	disturbed atomic.Bool   // there is a duty to look at before the next record
	polls     atomic.Uint64 // how often the application asked for records
	waiting   atomic.Int32  // readers that wait for records now
	asked     atomic.Int64  // when the application last asked for records: nanoseconds since born
	begun     atomic.Bool   // an assignment of the present subscription was taken over
	live      atomic.Pointer[fetch.Live]
	channel   atomic.Pointer[channelReader]

	// turn holds a token for whoever runs callbacks or changes what is owned.
	turn      chan struct{}
	problems  problems
	health    healthHistory
	callbacks callbackQueue
	auto      autoCommit

	interest sync.Mutex // one at a time tells the cluster which topics are of interest

	mu         sync.Mutex // guards all below
	sub        subs.State
	listener   RebalanceListener
	member     member // takes part in rebalances for the subscription; nil: none
	watched    []string
	denied     []string // topics of the subscription that may not be seen
	alone      bool     // brokers have no groups, so that a subscription's partitions are all ours
	reading    string   // which method reads, "" if none
	channelErr error

	timer  *time.Timer // of the last wait for records; belongs to the one that reads
	waited time.Time   // when that wait ended; likewise

	revoking *revocation             // belongs to the holder of turn
	pausedBy map[TopicPartition]bool // paused when revoked, likewise

	closing     chan struct{} // closed by the first Close
	closeOnce   sync.Once
	closeCalled time.Time
	closeCommit bool // of the first Close, as all of these; valid once closing is closed
	closeNested bool // it was called inside a callback
	closeCtx    context.Context
	closeCancel context.CancelFunc
	endOnce     sync.Once
	closed      chan struct{} // closed when everything has ended
	closeErr    error         // valid once closed is
}

// A member takes part in the rebalances of a subscription: a coordinator, or a solo
// without a group.
type member interface {
	polled()
	nextStep() *rebalanceStep
	stepDone(*rebalanceStep)
	takeError() error
}

// NewConsumer returns a Consumer for cfg, of which it keeps a copy. It reaches a
// broker or fails with each address's own reason; ctx, or DefaultAPITimeout, bounds
// that. Wrong configuration is reported at once, all of it, as joined
// *ConfigErrors; so are files that cannot be used. A broker that does not accept this
// client, or is not accepted, is an *AuthenticationError. With Config.Topics it subscribes to them.
//
// The consumer must be closed.
func NewConsumer(ctx context.Context, cfg Config) (*Consumer, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	tlsConfig, err := tlsSource(&cfg)
	if err != nil {
		return nil, err
	}
	c := newConsumer(cfg, tlsConfig)
	bootstrap, cancel := c.bound(ctx)
	defer cancel()
	c.cluster.SetInterest(c.cfg.Topics, false) // so that the first answer tells of them
	if c.coord != nil {
		c.coord.start() // it looks the coordinator up meanwhile
	}
	if err := c.cluster.Bootstrap(bootstrap); err != nil {
		if c.coord != nil {
			c.coord.stop()
		}
		c.cluster.Close()
		c.cancel(ErrClosed)
		c.events.close(bootstrap)
		return nil, fmt.Errorf("kafka: no broker reached: %w", publicError(err))
	}
	c.start()
	if len(c.cfg.Topics) > 0 {
		if err := c.Subscribe(c.cfg.Topics); err != nil {
			return nil, errors.Join(err, c.Close(ctx))
		}
	}
	return c, nil
}

// newConsumer builds what NewConsumer starts. tlsConfig gives the TLS configuration of
// a new connection; nil means no TLS.
func newConsumer(cfg Config, tlsConfig func(host string) *tls.Config) *Consumer {
	c := &Consumer{
		cfg:      cfg,
		log:      cfg.Logger,
		born:     time.Now(),
		wake:     make(chan struct{}, 1),
		turn:     make(chan struct{}, 1),
		listener: cfg.RebalanceListener,
		pausedBy: make(map[TopicPartition]bool),
		closing:  make(chan struct{}),
		closed:   make(chan struct{}),
	}
	c.turn <- struct{}{}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.problems.interval = cfg.RetryBackoffMax
	c.auto.off.Store(cfg.DisableAutoCommit || cfg.GroupID == "")
	c.health.consumer = sighting{state: HealthStarting, since: c.born, looked: c.born}
	c.auto.interval = cfg.AutoCommitInterval
	c.auto.disturb = c.disturb
	c.events = newEventQueue(cfg.OnEvent, c.log)
	c.metrics = newMetrics(&c.cfg)
	c.told = newReporters(c)
	clusterConfig := clusterConfig(&c.cfg, tlsConfig)
	clusterConfig.Conn.Meter = func(node int32, was conn.Meter) conn.Meter {
		if n, moves := was.(*metrics.Node); moves {
			return n.Move(node)
		}
		return c.metrics.Open(node)
	}
	c.cluster = cluster.New(clusterConfig)
	c.fetcher = newFetcher(&c.cfg, c.cluster, c.log, &c.metrics.Fetch, fetcherHooks{
		wake:      c.wakeReader,
		disturb:   c.disturb,
		moved:     c.auto.arm,
		report:    c.report,
		committed: c.committedOffsets,
		appeared:  c.appeared,
		asks:      c.asks,
	})
	if cfg.GroupID != "" {
		c.coord = newCoordinator(&c.cfg, c.cluster, coordinatorHooks{
			wake:  c.disturb,
			lost:  c.lose,
			asks:  c.asks,
			event: c.events.add,
			watch: c.watchTopics,

			groupless: c.goAlone,
			noCommits: c.stopAutoCommit,
		}, &c.metrics.Group, c.log)
	}
	return c
}

func clusterConfig(cfg *Config, tlsConfig func(host string) *tls.Config) cluster.Config {
	servers, _ := conn.ParseServers(cfg.BootstrapServers) // checked by validate
	var clamp protocol.Release
	if cfg.APIVersion != "" {
		clamp, _ = protocol.ParseRelease(cfg.APIVersion) // likewise
	}
	link := conn.Config{
		ClientID:            cfg.ClientID,
		SoftwareName:        "kafkaconsumer-kafka",
		SoftwareVersion:     Version,
		Dialer:              cfg.Dialer,
		CanonicalBootstrap:  cfg.ClientDNSLookup == DNSResolveCanonicalBootstrapServersOnly,
		Control:             cfg.SocketControl,
		ReceiveBufferBytes:  cfg.ReceiveBufferBytes,
		SendBufferBytes:     cfg.SendBufferBytes,
		MaxInFlight:         cfg.MaxInFlightRequestsPerConnection,
		RequestTimeout:      cfg.RequestTimeout,
		FetchMaxWait:        cfg.FetchMaxWait,
		SetupTimeout:        cfg.SocketConnectionSetupTimeout,
		MaxIdle:             cfg.ConnectionsMaxIdle,
		ReconnectBackoff:    cfg.ReconnectBackoff,
		ReconnectBackoffMax: cfg.ReconnectBackoffMax,
		MaxFrame:            cfg.ReceiveMessageMaxBytes,
		TLS:                 tlsConfig,
		Clamp:               clamp,
		ProbeTimeout:        cfg.APIVersionAutoTimeout,
		Logger:              cfg.Logger,
	}
	if client := saslClient(cfg); client != nil {
		link.Auth = saslAuthenticator{client}
	}
	return cluster.Config{
		Conn:            link,
		Bootstrap:       servers,
		KeepBootstrap:   cfg.GroupID != "",
		RetryBackoff:    orNegative(cfg.RetryBackoff),
		RetryBackoffMax: cfg.RetryBackoffMax,
		MetadataMaxAge:  orNegative(cfg.MetadataMaxAge),
		AllowAutoCreate: cfg.AllowAutoCreateTopics,
		Logger:          cfg.Logger,
	}
}

// orNegative passes a real 0 on to a package where 0 means the default.
func orNegative(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

func (c *Consumer) start() {
	c.fetcher.start()
	c.wg.Go(c.watch)
	c.told.start()
}

// bound returns a context for a blocking call: it ends with the consumer, and with
// DefaultAPITimeout when ctx has no deadline.
func (c *Consumer) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	var cancel context.CancelFunc
	if _, has := ctx.Deadline(); has {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeout(ctx, c.cfg.DefaultAPITimeout)
	}
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// open returns ErrClosed once Close was called.
func (c *Consumer) open() error {
	select {
	case <-c.closing:
		return ErrClosed
	default:
		return nil
	}
}

// orClosed makes ErrClosed of an error that Close brought about.
func (c *Consumer) orClosed(err error) error {
	if err != nil && c.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// disturb makes whoever reads look at its duties before the next record.
func (c *Consumer) disturb() {
	c.disturbed.Store(true)
	c.wakeReader()
}

// wakeReader wakes the one goroutine that reads, if it waits.
func (c *Consumer) wakeReader() {
	kick(c.wake)
	c.fetcher.lending.interrupt()
}

// asks tells the coordinator whether the application still asks for records: the
// number moves whenever it does, and while it waits for some.
func (c *Consumer) asks() uint64 {
	if c.waiting.Load() > 0 {
		return c.polls.Add(1)
	}
	n := c.polls.Load()
	if live := c.live.Load(); live != nil {
		n += uint64(live.Yielded.Load()) << 32
	}
	return n
}

// report takes in what the fetcher has to tell.
func (c *Consumer) report(r fetch.Report) {
	switch r.Kind {
	case fetch.ReportError:
		c.problems.add(faultError(fetch.Fault{TP: r.TP, Err: r.Err}, &c.cfg))
		c.wakeReader()
	case fetch.ReportReset:
		c.log.Info("kafka: position reset", "partition", r.TP, "to", r.To, "reason", r.Reason)
		c.events.add(EventPositionReset{TopicPartition: r.TP, From: r.From, To: r.To, Reason: r.Reason})
	case fetch.ReportRecreated:
		c.log.Warn("kafka: topic was deleted and created again", "topic", r.TP.Topic)
		c.events.add(EventTopicRecreated{Topic: r.TP.Topic})
	case fetch.ReportRetrying:
		if isMissing(c.cluster.Metadata(), r.TP.Topic) {
			return // that is told of once, for the topic
		}
		err := faultError(fetch.Fault{TP: r.TP, Err: r.Err}, &c.cfg)
		c.log.Warn("kafka: position cannot be found; retrying", "partition", r.TP, "since", r.Since, "error", err)
		c.events.add(EventRetrying{Operation: fmt.Sprintf("look-up of the position of %s", r.TP), Err: err})
	case fetch.ReportStalled:
		reason := standingReason(r.Reason, r.TP, r.Err, &c.cfg)
		c.log.Warn("kafka: partition stalled", "partition", r.TP, "position", r.From, "since", r.Since, "reason", reason)
		c.events.add(EventPartitionStalled{TopicPartition: r.TP, Position: r.From, Since: r.Since, Reason: reason})
	case fetch.ReportResumed:
		c.log.Info("kafka: partition stalls no longer", "partition", r.TP, "position", r.From, "reason", r.Reason)
		c.events.add(EventPartitionResumed{TopicPartition: r.TP, Position: r.From, Reason: r.Reason})
	}
}

// String returns what the consumer is, without secrets.
func (c *Consumer) String() string {
	if c == nil {
		return "kafka.Consumer(nil)"
	}
	return fmt.Sprintf("kafka.Consumer{ClientID: %q, GroupID: %q}", c.cfg.ClientID, c.cfg.GroupID)
}

// GoString returns the same text as String.
func (c *Consumer) GoString() string { return c.String() }

// Format writes the same text as String for every verb, so that none shows the
// secrets of the Config.
func (c *Consumer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue returns the same text as String.
func (c *Consumer) LogValue() slog.Value { return slog.StringValue(c.String()) }

// BootstrapConnected tells whether the consumer has a connection to a broker now.
func (c *Consumer) BootstrapConnected() bool { return c.cluster.Connected() }

// BrokerVersion returns the Kafka release that a broker of the cluster seems to
// be, such as "3.9", judged by the requests it knows; "" when it cannot be told.
func (c *Consumer) BrokerVersion() string {
	v, ok := c.cluster.Versions()
	if !ok {
		return ""
	}
	return v.Release().String()
}

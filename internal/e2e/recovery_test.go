//go:build unix

package e2e

import (
	"context"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/proxy"
)

var peersFlag = flag.Bool("peers", false, "measure how other clients recover, too; see TestCluster, with -v")

// recoverySession is long enough that no fault lasts as long, so that nobody has a
// reason to join again.
const recoverySession = 15 * time.Second

// A fault is something that happens to one node, or to the connections.
type fault struct {
	name string
	// coordinator: it happens to the group's coordinator, which leads partition 0. Else to
	// the leader of partition 1.
	coordinator  bool
	inject, heal func(t *testing.T, f *faulty, s *subject, node int32)
	affected     []int // partitions
}

var (
	freeze = func(t *testing.T, f *faulty, _ *subject, node int32) { f.brokers.Pause(t, node) }
	thaw   = func(_ *testing.T, f *faulty, _ *subject, node int32) { f.brokers.Continue(node) }
	kill   = func(t *testing.T, f *faulty, s *subject, node int32) {
		f.brokers.Kill(t, node)
		s.proxies[node-1].Refuse()
	}
	restart = func(t *testing.T, f *faulty, s *subject, node int32) {
		f.brokers.Restart(t, node)
		s.proxies[node-1].Allow(t)
	}
	cut = func(_ *testing.T, _ *faulty, s *subject, _ int32) {
		for _, p := range s.proxies {
			p.Cut()
		}
	}
	nothing = func(*testing.T, *faulty, *subject, int32) {}
)

var faults = []fault{
	{"coordinator frozen", true, freeze, thaw, []int{0}},
	{"coordinator killed", true, kill, restart, []int{0}},
	{"other broker killed", false, kill, restart, []int{1}},
	{"connections cut", true, cut, nothing, []int{0, 1, 2}},
}

// A recovery is how long what stood still while a fault lasted.
type recovery struct {
	client, fault        string
	affected, unaffected time.Duration // partitions: the longest time without a record
	noticed, unnoticed   time.Duration // of both, the longest time from the producer's answer to the record
	heartbeats           time.Duration // the longest time without an answered one
	named                time.Duration // until brokers named another coordinator; 0: they did not
	beating              time.Duration // from then to the first heartbeat that was answered
	joins                int           // how often it joined again
	connects             int           // connections that it made meanwhile
	took                 time.Duration // until all went on
	cpu                  float64       // of one core, with what other tests take meanwhile; 0: not known
}

// testRecovery has each fault happen to a group of one member. B18
func testRecovery(t *testing.T, f *faulty) {
	var table []recovery
	for _, fault := range faults {
		f.run(t, fault.name, func(t *testing.T) {
			r := recoverFrom(t, f, fault, ours)
			table = append(table, r)
			require.Zero(t, r.joins, "the member keeps its id and generation")
			if r.named == 0 { // else the brokers had to settle on a new coordinator first
				require.Less(t, r.heartbeats, recoverySession)
			}
			require.Less(t, r.beating, recoverySession/3+3*time.Second, "from when another coordinator was named")
			require.Less(t, r.noticed, requestTimeout+soon, "from the producer's answer")
			require.Less(t, r.unnoticed, soon, "from the producer's answer, of partitions with healthy leaders")
			require.Less(t, r.connects, 20+5*int(r.took.Seconds()), "connects follow the backoff")
			if *peersFlag {
				for _, c := range peers {
					f.run(t, c.name, func(t *testing.T) { table = append(table, recoverFrom(t, f, fault, c)) })
				}
			}
		})
	}
	t.Log("\n" + recoveryTable(table))
}

func recoveryTable(table []recovery) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tclient\taffected partitions stood\tof that after the producer's answer\tother partitions stood\theartbeats stood\tof that another coordinator was named\tjoined again\tCPU")
	ms := func(d time.Duration) string {
		if d == 0 {
			return "-"
		}
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	for _, r := range table {
		cpu := "-"
		if r.cpu > 0 {
			cpu = fmt.Sprintf("%.0f %%", 100*r.cpu)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", r.fault, r.client, ms(r.affected), ms(r.noticed),
			ms(r.unaffected), ms(r.heartbeats), ms(r.beating), r.joins, cpu)
	}
	w.Flush()
	return b.String()
}

// A client is one that faults happen to.
type client struct {
	name  string
	start func(t *testing.T, f *faulty, s *subject)
	// apart: it is a program of its own, and comes to where brokers tell it to.
	apart bool
}

var ours = client{name: "kafka", start: startOurs}

// begin has a client consume in a group whose coordinator leads partition 0. It gives the
// node that the fault is to happen to.
func begin(t *testing.T, f *faulty, fault fault, c client) (s *subject, node int32) {
	s = newSubject(t, f, c.apart)
	s.group = f.Unique(t)
	coordinator := f.coordinator(t, s.group)
	s.leaders = append([]int32{coordinator}, f.without(coordinator)...)
	node = coordinator
	if !fault.coordinator {
		node = s.leaders[1]
	}
	// What the node does not lead has no replica there either: else a healthy leader
	// would wait for it.
	var replicas [][]int32
	for _, leader := range s.leaders {
		follower := slices.IndexFunc(s.leaders, func(n int32) bool { return n != leader && n != node })
		replicas = append(replicas, []int32{leader, s.leaders[follower]})
	}
	s.topic = f.topicOn(t, nil, replicas...)
	s.produce(t, f)
	c.start(t, f, s)
	waitFor(t, "all partitions are consumed", func() bool { return s.goesOn(time.Now().Add(-time.Second)) })
	waitFor(t, "heartbeats", func() bool { return s.heartbeats() > 0 })
	f.brokers.AwaitWhole(t) // the topic is young, and that of the offsets may be
	return s, node
}

// undisturbed tells whether coordinator and leaders are where they were meant to be: on a
// busy machine brokers lose them.
func (s *subject) undisturbed(t *testing.T, f *faulty) bool {
	for i, p := range f.Java.DescribeTopic(t, s.topic).Partitions {
		if p.Leader != s.leaders[i] {
			return false
		}
	}
	return f.coordinator(t, s.group) == s.leaders[0]
}

// recoverFrom has a fault happen to a client and waits until all goes on.
func recoverFrom(t *testing.T, f *faulty, fault fault, c client) recovery {
	s, node := begin(t, f, fault, c)
	for try := 1; try < 5 && !s.undisturbed(t, f); try++ {
		s.stop()
		s, node = begin(t, f, fault, c)
	}
	joins, connects, cpu := s.joins(), s.connects(), cpuTime(t)
	began := time.Now()
	s.watch()
	defer func() {
		s.stop()
		fault.heal(t, f, s, node)
		f.brokers.AwaitWhole(t)
	}()
	fault.inject(t, f, s, node)
	since := time.Now()
	s.awaitAnother(t, f.brokers.Addr(f.without(node)[0]))
	waitFor(t, "records and heartbeats go on", func() bool { return time.Since(since) > time.Second && s.goesOn(since) && s.beatsAgain(since) })
	time.Sleep(time.Second)
	took := time.Since(began)
	r := recovery{client: c.name, fault: fault.name, joins: s.joins() - joins, connects: s.connects() - connects, took: took}
	if !c.apart {
		r.cpu = (cpuTime(t) - cpu).Seconds() / took.Seconds()
	}
	for p := range s.partitions {
		stood := s.stood(p)
		if slices.Contains(fault.affected, p) {
			r.affected, r.noticed = max(r.affected, stood), max(r.noticed, s.noticed(p, began))
		} else {
			r.unaffected, r.unnoticed = max(r.unaffected, stood), max(r.unnoticed, s.noticed(p, began))
		}
	}
	r.heartbeats = s.heartbeatsStood()
	r.named, r.beating = s.named(began)
	return r
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// coordinator tells which node coordinates a group.
func (f *faulty) coordinator(t *testing.T, group string) (node int32) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(f.brokers.Addr(1)))
	require.NoError(t, err)
	defer c.Close()
	waitFor(t, "a coordinator", func() (ok bool) {
		node, ok = coordinatorBy(t.Context(), c.SeedBrokers()[0], group)
		return ok
	})
	return node
}

// coordinatorBy asks one broker who coordinates a group.
func coordinatorBy(ctx context.Context, b *kgo.Broker, group string) (int32, bool) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := b.Request(ctx, req)
	if err != nil {
		return 0, false
	}
	found := resp.(*kmsg.FindCoordinatorResponse).Coordinators
	return found[0].NodeID, len(found) == 1 && found[0].ErrorCode == 0
}

func (f *faulty) without(node int32) []int32 {
	return slices.DeleteFunc([]int32{1, 2, 3}, func(n int32) bool { return n == node })
}

// A subject is the client that a fault happens to, with what is seen of it. It
// reaches the brokers by proxies of its own, or, apart, by those that brokers advertise.
type subject struct {
	group, topic string
	proxies      []*proxy.Proxy // of nodes 1 to 3
	advertised   []string       // where brokers tell it to come to
	leaders      []int32        // of the partitions; the first one is the group's coordinator
	beatsBefore  int64          // what went through the proxies before
	stops        []func()

	mu         sync.Mutex
	partitions [3]progress
	beat       progress
	beats      []time.Time
	another    time.Time // when brokers named another coordinator
}

// progress is when something came, and the longest time without.
type progress struct {
	last    time.Time
	longest time.Duration
	// Of a partition's records, by offset: when they were given to the producer, when it had
	// its answer, and when they came.
	sent, acked []time.Time
	got         map[int64]time.Time
}

func (p *progress) step(now time.Time) {
	if !p.last.IsZero() {
		p.longest = max(p.longest, now.Sub(p.last))
	}
	p.last = now
}

func newSubject(t *testing.T, f *faulty, apart bool) *subject {
	s := &subject{}
	for node := range int32(faultyNodes) {
		s.advertised = append(s.advertised, f.proxy(node+1).Addr())
		if apart {
			s.proxies = f.proxies
		} else {
			s.proxies = append(s.proxies, proxy.Start(t, f.brokers.ClientAddr(node+1)))
		}
	}
	s.beatsBefore = s.heartbeats()
	for p := range s.partitions {
		s.partitions[p].got = map[int64]time.Time{}
	}
	t.Cleanup(s.stop)
	return s
}

// dial connects to the subject's proxy of the node that advertises addr; where it
// bootstraps from is node 1 to 3 in turn.
func (s *subject) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	node := max(0, slices.Index(s.advertised, addr))
	return (&net.Dialer{}).DialContext(ctx, network, s.proxies[node].Addr())
}

func (s *subject) stop() {
	for _, stop := range slices.Backward(s.stops) {
		stop()
	}
	s.stops = nil
}

// beside runs a loop until stop.
func (s *subject) beside(loop func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { loop(ctx) })
	s.stops = append(s.stops, func() { cancel(); wg.Wait() })
}

// produce produces to each partition by a producer of its own, so that one without a
// leader does not hold up the others.
func (s *subject) produce(t *testing.T, f *faulty) {
	for p := range s.partitions {
		s.beside(func(ctx context.Context) {
			// A producer waits for all that it was given, which is to be this subject's alone.
			properties := map[string]string{"request.timeout.ms": "2000", "client.id": fmt.Sprintf("%s-%d", s.topic, p)}
			for ctx.Err() == nil {
				sent := time.Now()
				f.Java.Produce(t, properties, outside.To(s.topic, int32(p), "", "v")) // ends this goroutine when it fails
				s.mu.Lock()
				s.partitions[p].sent = append(s.partitions[p].sent, sent)
				s.partitions[p].acked = append(s.partitions[p].acked, time.Now())
				s.mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	s.beside(func(ctx context.Context) {
		var was int64
		for ctx.Err() == nil {
			now := s.heartbeats()
			s.mu.Lock()
			if now > was {
				s.beat.step(time.Now())
				s.beats = append(s.beats, s.beat.last)
			}
			s.mu.Unlock()
			was = now
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// heartbeats counts the bytes of answers to heartbeats.
func (s *subject) heartbeats() (n int64) {
	for _, p := range s.proxies {
		n += p.Answered(keyHeartbeat)
	}
	return n - s.beatsBefore
}

// connects counts connections to brokers that were there.
func (s *subject) connects() (n int) {
	for _, p := range s.proxies {
		n += p.Connects()
	}
	return n
}

// joins counts requests to join.
func (s *subject) joins() (n int) {
	for _, p := range s.proxies {
		n += p.Asked(keyJoinGroup)
	}
	return n
}

// seen takes in a record.
func (s *subject) seen(partition int32, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	p := &s.partitions[partition]
	if _, again := p.got[offset]; !again {
		p.got[offset] = now
		p.step(now)
	}
}

// watch begins to look for the longest times.
func (s *subject) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.partitions {
		s.partitions[i].longest = 0
	}
	s.beat.longest = 0
}

// goesOn tells whether of each partition a record came that was given to the producer
// since then.
func (s *subject) goesOn(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.partitions {
		p := &s.partitions[i]
		first := slices.IndexFunc(p.sent, func(at time.Time) bool { return at.After(since) })
		if _, ok := p.got[int64(first)]; first < 0 || !ok {
			return false
		}
	}
	return true
}

// beatsAgain tells whether a heartbeat was answered that was sent since then.
func (s *subject) beatsAgain(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beat.last.After(since.Add(heartbeat))
}

// awaitAnother asks a healthy broker who coordinates the group until it is another node.
func (s *subject) awaitAnother(t *testing.T, addr string) {
	c, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	s.beside(func(ctx context.Context) {
		defer c.Close()
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			if now, ok := coordinatorBy(ctx, c.SeedBrokers()[0], s.group); ok && now != s.leaders[0] {
				s.mu.Lock()
				s.another = time.Now()
				s.mu.Unlock()
				return
			}
		}
	})
}

// named tells how long it took until another coordinator was named, and from then on
// until a heartbeat was answered; zero when none was.
func (s *subject) named(since time.Time) (named, beating time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := slices.IndexFunc(s.beats, func(at time.Time) bool { return at.After(s.another) })
	if s.another.IsZero() || first < 0 {
		return 0, 0
	}
	return s.another.Sub(since), s.beats[first].Sub(s.another)
}

func (s *subject) stood(p int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.partitions[p].longest
}

func (s *subject) heartbeatsStood() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beat.longest
}

// noticed is the longest that a record took, or takes, whose producer had its answer since then.
func (s *subject) noticed(partition int, since time.Time) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.partitions[partition]
	for offset, acked := range p.acked {
		got, ok := p.got[int64(offset)]
		if !ok {
			got = time.Now()
		}
		if acked.After(since) {
			longest = max(longest, got.Sub(acked))
		}
	}
	return longest
}

func startOurs(t *testing.T, f *faulty, s *subject) {
	cfg := faultConfig()
	cfg.GroupID, cfg.Topics, cfg.SessionTimeout, cfg.Dialer = s.group, []string{s.topic}, recoverySession, s.dial
	cfg.BootstrapServers = s.advertised
	c := newConsumer(t, f.Target, cfg)
	s.stops = append(s.stops, func() { consume.Close(t, c) })
	s.beside(func(ctx context.Context) {
		for ctx.Err() == nil {
			records, err := c.Poll(ctx, 200*time.Millisecond)
			if err == nil {
				for r := range records.All() {
					s.seen(r.Partition, r.Offset)
				}
			}
		}
	})
}

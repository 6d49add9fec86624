package kafka

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
)

// A chaosTxn is a transaction of a chaosLog.
type chaosTxn struct{ committed, aborted bool }

// A chaosRecord is a record that a partition's log holds.
type chaosRecord struct {
	offset int64
	value  string
	txn    *chaosTxn // nil: none
}

// A chaosLog is what the test knows to be in a partition.
type chaosLog struct {
	incarnation int
	records     []chaosRecord // by offset
	start       int64
	open        map[int64]*chaosTxn // by producer
	delivered   map[int64]bool
	committed   int64 // the highest offset seen committed
}

// visible tells whether a consumer may get the record at last.
func (r *chaosRecord) visible(readCommitted bool) bool {
	return !readCommitted || r.txn == nil || !r.txn.aborted
}

// from returns the index of the first record at or behind offset.
func (l *chaosLog) from(offset int64) int {
	return sort.Search(len(l.records), func(i int) bool { return l.records[i].offset >= offset })
}

// missed returns the first record in [from, to) that must not be passed over, or -1.
// With delivered, those that were delivered to anyone may be.
func (l *chaosLog) missed(from, to int64, readCommitted, delivered bool) int64 {
	for i := l.from(max(from, l.start)); i < len(l.records) && l.records[i].offset < to; i++ {
		r := &l.records[i]
		if r.visible(readCommitted) && !(delivered && l.delivered[r.offset]) {
			return r.offset
		}
	}
	return -1
}

// end returns the offset behind the last record that is visible.
func (l *chaosLog) end(readCommitted bool) int64 {
	for i := len(l.records) - 1; i >= 0; i-- {
		if r := &l.records[i]; r.visible(readCommitted) && r.offset >= l.start {
			return r.offset + 1
		}
	}
	return l.start
}

// A chaosWorld is a cluster with what the test knows of it.
type chaosWorld struct {
	t    *testing.T
	b    *testbroker.Cluster
	seed uint64
	rng  *rand.Rand // of the goroutine that disturbs
	plan chaosPlan

	rules    []*testbroker.Rule
	failed   atomic.Bool
	draining atomic.Bool // no more faults: everything has to be read now
	settled  atomic.Bool // everything is read: the applications end

	mu      sync.Mutex
	logs    map[TopicPartition]*chaosLog
	journal []string
}

// A chaosPlan is what a seed makes of the configuration.
type chaosPlan struct {
	nodes         int
	manual        bool // Assign, else Subscribe
	group         bool
	seeks         bool // applications move positions, so that only runs between are checked
	readCommitted bool
	recreate      bool // topics are deleted and made again
	retention     bool // logs lose their beginnings
	beside        bool // another goroutine uses the consumer at the same time
	pattern       bool // subscribed by a pattern
	apps          int
	release       string
	uncapped      bool   // brokers speak Fetch below v3, which cuts batches
	sizes         string // of requests and buffers
	change        func(*Config)
}

func planChaos(rng *rand.Rand, manual bool) chaosPlan {
	p := chaosPlan{
		nodes: 1 + rng.IntN(3), manual: manual, group: !manual || rng.IntN(2) == 0,
		seeks: rng.IntN(2) == 0, readCommitted: rng.IntN(2) == 0, apps: 1 + rng.IntN(3),
		retention: rng.IntN(3) == 0, beside: rng.IntN(2) == 0, pattern: rng.IntN(3) == 0,
	}
	if !manual && rng.IntN(4) == 0 { // all partitions are everyone's
		p.group = false
	}
	p.release = []string{"", "", "", "0.10.1", "0.11", "1.1", "2.3", "2.8", "3.9"}[rng.IntN(9)]
	if p.release == "0.10.1" { // it knows no transactions
		p.readCommitted = false
		p.uncapped = rng.IntN(2) == 0
	}
	if manual {
		p.apps = 1
		// Without topic ids in Fetch it cannot be told which of the topics a record is of.
		p.recreate = !p.group && (p.release == "" || p.release == "3.9") && rng.IntN(2) == 0
	}
	buffered := []int64{0, 0, 64 << 10, 300 << 10}[rng.IntN(4)]
	perPartition := []int32{0, 0, 100, 20 << 10}[rng.IntN(4)]
	fetchBytes := []int32{0, 0, 1000, 40 << 10}[rng.IntN(4)]
	maxPoll := []int{0, 1, 7, 100}[rng.IntN(4)]
	noSessions, noAutoCommit := rng.IntN(4) == 0, rng.IntN(2) == 0
	minBytes := []int32{0, 0, 1, 5000}[rng.IntN(4)]
	rack := rng.IntN(3) == 0
	p.sizes = fmt.Sprint(buffered, perPartition, fetchBytes, maxPoll, minBytes, noSessions)
	p.change = func(c *Config) {
		c.APIVersion = p.release
		c.MaxBufferedBytes, c.MaxPartitionFetchBytes, c.FetchMaxBytes = buffered, perPartition, fetchBytes
		c.MaxPollRecords, c.DisableFetchSessions, c.DisableAutoCommit = maxPoll, noSessions, noAutoCommit
		c.FetchMinBytes = minBytes
		c.AutoCommitInterval = 500 * time.Millisecond
		c.MaxPollInterval = 20 * time.Second
		c.ReconnectBackoffMax = time.Second
		if p.readCommitted {
			c.IsolationLevel = ReadCommitted
		}
		if p.group {
			c.GroupID = "g"
		}
		if rack {
			c.ClientRack = "r2"
		}
	}
	return p
}

func (w *chaosWorld) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(format, args...)
}

func (w *chaosWorld) noteLocked(format string, args ...any) {
	w.journal = append(w.journal, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
	if len(w.journal) > 400 {
		w.journal = slices.Delete(w.journal, 0, 200)
	}
}

func (w *chaosWorld) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(format, args...)
}

func (w *chaosWorld) failLocked(format string, args ...any) {
	if w.failed.Swap(true) {
		return
	}
	tail := w.journal[max(0, len(w.journal)-100):]
	w.t.Errorf("seed %d: %s\nplan: %+v\n%s", w.seed, fmt.Sprintf(format, args...), w.plan, strings.Join(tail, "\n"))
}

func (w *chaosWorld) partitions() []TopicPartition {
	w.mu.Lock()
	defer w.mu.Unlock()
	var tps []TopicPartition
	for tp := range w.logs {
		tps = append(tps, tp)
	}
	sortPartitions(tps)
	return tps
}

func (w *chaosWorld) addLogs(topic string, count int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range count {
		tp := TopicPartition{Topic: topic, Partition: p}
		if w.logs[tp] == nil {
			w.logs[tp] = &chaosLog{open: map[int64]*chaosTxn{}, delivered: map[int64]bool{}}
		}
	}
}

// append writes some batch to a partition.
func (w *chaosWorld) append(rng *rand.Rand, tp TopicPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.logs[tp]
	var b batch.V2
	n := 1 + rng.IntN(12)
	size := 1 + rng.IntN(30)
	switch rng.IntN(12) {
	case 0: // compaction took all records
		b.LastOffsetDelta = new(int32(rng.IntN(4)))
		n = 0
	case 1: // compaction took some
		b.LastOffsetDelta = new(int32(3*n + rng.IntN(3)))
	case 2, 3, 4:
		w.endOrBegin(rng, tp, l, &b)
		if b.Control {
			w.b.AppendBatch(tp.Topic, tp.Partition, b)
			return
		}
	case 5:
		n, size = 1, 50_000+rng.IntN(200_000)
	case 6:
		n, size = 2000, 1
	default:
		b.Codec = []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4}[rng.IntN(4)]
	}
	var txn *chaosTxn
	if b.Producer != nil {
		txn = l.open[b.Producer.ID]
	}
	base := w.b.EndOffset(tp.Topic, tp.Partition)
	delta := int64(-1)
	for range n {
		delta++
		if b.LastOffsetDelta != nil {
			delta += rng.Int64N(3)
		}
		r := chaosRecord{offset: base + delta, txn: txn}
		r.value = fmt.Sprintf("%v#%d@%d", tp, l.incarnation, r.offset)
		l.records = append(l.records, r)
		b.Records = append(b.Records, batch.Record{
			Value: []byte(r.value), OffsetDelta: new(delta), Key: make([]byte, size), Timestamp: time.Now(),
		})
	}
	w.b.AppendBatch(tp.Topic, tp.Partition, b)
}

// endOrBegin makes b a part of a transaction.
func (w *chaosWorld) endOrBegin(rng *rand.Rand, tp TopicPartition, l *chaosLog, b *batch.V2) {
	id := 1 + rng.Int64N(3)
	producer := batch.Producer{ID: id}
	txn := l.open[id]
	if txn != nil && rng.IntN(2) == 0 {
		commit := rng.IntN(2) == 0
		txn.committed, txn.aborted = commit, !commit
		delete(l.open, id)
		*b = batch.Marker(0, producer, commit)
		return
	}
	if txn == nil {
		l.open[id] = &chaosTxn{}
	}
	b.Producer, b.Transactional = &producer, true
}

// endTransactions ends what is open.
func (w *chaosWorld) endTransactions() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for tp, l := range w.logs {
		for id, txn := range l.open {
			txn.aborted = true
			w.b.AppendBatch(tp.Topic, tp.Partition, batch.Marker(0, batch.Producer{ID: id}, false))
		}
		clear(l.open)
	}
}

// recreate deletes a topic and makes it again.
func (w *chaosWorld) recreate(topic string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := int32(0)
	for tp, l := range w.logs {
		if tp.Topic == topic {
			count++
			*l = chaosLog{incarnation: l.incarnation + 1, open: map[int64]*chaosTxn{}, delivered: map[int64]bool{}}
		}
	}
	w.b.DeleteTopic(topic)
	w.b.CreateTopic(topic, count)
}

// retain removes the beginning of a log.
func (w *chaosWorld) retain(rng *rand.Rand, tp TopicPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.logs[tp]
	if len(l.open) > 0 {
		return
	}
	l.start = max(l.start, rng.Int64N(w.b.EndOffset(tp.Topic, tp.Partition)+1))
	w.b.SetLogStart(tp.Topic, tp.Partition, l.start)
}

// chaosKeys are the requests that fail.
var chaosKeys = []int16{
	protocol.KeyFetch, protocol.KeyFetch, protocol.KeyFetch, protocol.KeyListOffsets, protocol.KeyMetadata,
	protocol.KeyOffsetCommit, protocol.KeyOffsetFetch, protocol.KeyFindCoordinator, protocol.KeyJoinGroup,
	protocol.KeySyncGroup, protocol.KeyHeartbeat, protocol.KeyOffsetForLeaderEpoch, protocol.KeyApiVersions,
}

// chaosCodes are error codes that no request deserves, none of which says that a
// position is wrong.
var chaosCodes = []ErrorCode{
	protocol.UnknownServerError, protocol.NotLeaderOrFollower, protocol.FencedLeaderEpoch, protocol.UnknownLeaderEpoch,
	protocol.RequestTimedOut, protocol.NotCoordinator, protocol.CoordinatorLoadInProgress, protocol.UnknownMemberID,
	protocol.IllegalGeneration, protocol.RebalanceInProgress, protocol.CorruptMessage, protocol.TopicAuthorizationFailed,
	protocol.UnknownTopicOrPartition, protocol.KafkaStorageError, protocol.LeaderNotAvailable, protocol.OffsetNotAvailable,
	protocol.CoordinatorNotAvailable, protocol.NetworkException, protocol.ReplicaNotAvailable,
}

// disturb does something bad.
func (w *chaosWorld) disturb() {
	rng, b := w.rng, w.b
	node := int32(1 + rng.IntN(w.plan.nodes))
	tps := w.partitions()
	tp := tps[rng.IntN(len(tps))]
	key := chaosKeys[rng.IntN(len(chaosKeys))]
	rule := func(r *testbroker.Rule) { w.rules = append(w.rules, r) }
	what := rng.IntN(20)
	switch what {
	case 0:
		w.note("broker: %v is led by %d", tp, node)
		b.SetLeader(tp.Topic, tp.Partition, node)
	case 1:
		w.note("broker: %v has no leader for a while", tp)
		b.SetLeader(tp.Topic, tp.Partition, -1)
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		b.SetLeader(tp.Topic, tp.Partition, node)
	case 2, 3:
		w.note("broker: connections of %d are cut", node)
		b.CutConns(node)
	case 4:
		w.note("broker: connections of %d are frozen", node)
		b.FreezeConns(node)
	case 5:
		w.note("broker: %d is stopped for a while", node)
		b.StopNode(node)
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		b.StartNode(node)
		w.note("broker: %d is back", node)
	case 6:
		w.note("broker: dials to %d hang for a while", node)
		b.CutConns(node)
		b.HangDials(node, true)
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		b.HangDials(node, false)
	case 7:
		w.note("broker: %d coordinates", node)
		b.MoveCoordinator("g", node)
	case 8:
		w.note("broker: sessions of %d are dropped", node)
		b.DropSessions(node)
	case 9, 10, 11:
		code, times := chaosCodes[rng.IntN(len(chaosCodes))], 1+rng.IntN(3)
		if key == protocol.KeyOffsetFetch && code == protocol.UnknownTopicOrPartition {
			code = protocol.CoordinatorLoadInProgress // in OffsetFetch v1 it means that nothing is committed
		}
		w.note("broker: %s fails %d times: %v", protocol.APIName(key), times, code)
		rule(b.On(key).Times(times).Fail(int16(code)))
	case 12:
		d := time.Duration(rng.IntN(4000)) * time.Millisecond
		w.note("broker: %s takes %v", protocol.APIName(key), d)
		rule(b.On(key).Times(1 + rng.IntN(3)).Delay(d))
	case 13:
		w.note("broker: %s is never answered", protocol.APIName(key))
		rule(b.On(key).Once().Drop())
	case 14:
		n := rng.IntN(400)
		w.note("broker: answer to %s is cut after %d", protocol.APIName(key), n)
		rule(b.On(key).Once().CutAnswer(n))
	case 15:
		w.note("broker: half an answer to %s", protocol.APIName(key))
		rule(b.On(key).Once().ReplyHalf())
	case 16:
		w.note("broker: answers to %s trickle", protocol.APIName(key))
		rule(b.On(key).Times(2).Trickle(1+rng.IntN(5000), 20*time.Millisecond))
	case 17:
		if g := b.Group("g"); len(g.Members) > 0 && w.plan.group {
			w.note("broker: a member is kicked")
			b.KickMember("g", g.Members[rng.IntN(len(g.Members))])
		}
	case 18:
		if !w.plan.recreate && len(tps) < 8 {
			w.note("broker: u grows")
			n := int32(0)
			for _, tp := range tps {
				if tp.Topic == "u" {
					n = tp.Partition + 1
				}
			}
			w.addLogs("u", n+1)
			b.AddPartitions("u", n+1)
		} else if w.plan.recreate {
			w.note("broker: u is made again")
			w.recreate("u")
		}
	case 19:
		if w.plan.retention {
			w.note("broker: %v loses its beginning", tp)
			w.retain(rng, tp)
		} else {
			hw := b.EndOffset(tp.Topic, tp.Partition)
			w.note("broker: high watermark of %v stays at %d", tp, hw)
			b.SetHighWatermark(tp.Topic, tp.Partition, hw)
			time.AfterFunc(2*time.Second, func() { b.SetHighWatermark(tp.Topic, tp.Partition, -1) })
		}
	}
}

// heal ends all faults.
func (w *chaosWorld) heal() {
	for _, r := range w.rules {
		r.Remove()
	}
	for node := range int32(w.plan.nodes) {
		w.b.StartNode(node + 1)
		w.b.HangDials(node+1, false)
	}
	w.endTransactions()
	for _, tp := range w.partitions() {
		w.b.SetHighWatermark(tp.Topic, tp.Partition, -1)
	}
	w.note("broker: heals")
}

// watchCommits checks what the group has committed: it never goes back, and nothing
// before it was left out.
func (w *chaosWorld) watchCommits() {
	if w.plan.seeks {
		return
	}
	all := w.b.Committed("g")
	w.mu.Lock()
	defer w.mu.Unlock()
	for topic, partitions := range all {
		for p, o := range partitions {
			tp := TopicPartition{Topic: topic, Partition: p}
			l := w.logs[tp]
			if o.Offset < l.committed {
				w.failLocked("%v: committed offset goes back from %d to %d", tp, l.committed, o.Offset)
			}
			l.committed = o.Offset
			if at := l.missed(0, o.Offset, w.plan.readCommitted, true); at >= 0 {
				w.failLocked("%v: %d is committed, but %d was never delivered", tp, o.Offset, at)
			}
		}
	}
}

// unread returns a partition that is not read to its end, and from where on.
func (w *chaosWorld) unread(apps []*chaosApp) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for tp, l := range w.logs {
		if !w.plan.manual && w.plan.group && !w.plan.seeks {
			if at := l.missed(0, l.end(w.plan.readCommitted), w.plan.readCommitted, true); at >= 0 {
				return fmt.Sprintf("%v from %d on", tp, at)
			}
			continue
		}
		end := l.end(w.plan.readCommitted)
		owned := false
		for _, a := range apps {
			pos, ok := a.pos[tp]
			owned = owned || ok
			if ok && pos.next < end && l.missed(max(pos.next, 0), end, w.plan.readCommitted, false) >= 0 && (pos.next >= 0 || l.start < end) {
				return fmt.Sprintf("%v from %d on by %d", tp, pos.next, a.id)
			}
		}
		if !owned && !w.plan.manual {
			return fmt.Sprintf("%v by anyone", tp)
		}
	}
	return ""
}

// runChaos runs one seed.
func runChaos(t *testing.T, seed uint64, manual bool) {
	defer watchMemory(seed)()
	rng := rand.New(rand.NewPCG(seed, 99))
	plan := planChaos(rng, manual)
	synctest.Test(t, func(t *testing.T) {
		opts := []testbroker.Option{testbroker.WithNodes(plan.nodes)}
		if plan.nodes > 1 && rng.IntN(3) == 0 {
			opts = append(opts, testbroker.WithRack(1, "r1"), testbroker.WithRack(2, "r2"))
		}
		if plan.uncapped {
			versions := testbroker.DefaultVersions()
			versions[protocol.KeyFetch] = testbroker.VersionRange{Min: 0, Max: 2}
			opts = append(opts, testbroker.WithVersions(versions))
		}
		// What hangs inside of a bubble lets its time run on for ever.
		hang := time.AfterFunc(time.Hour, func() { endless(seed) })
		defer hang.Stop()
		w := &chaosWorld{
			t: t, seed: seed, rng: rng, plan: plan, b: testbroker.New(t, opts...), logs: map[TopicPartition]*chaosLog{},
		}
		w.b.CreateTopic("t", 3)
		w.b.CreateTopic("u", 1)
		w.addLogs("t", 3)
		w.addLogs("u", 1)
		for _, tp := range w.partitions() {
			w.append(rng, tp)
		}
		var apps []*chaosApp
		var wg sync.WaitGroup
		for i := range plan.apps {
			a := newChaosApp(w, i, rand.New(rand.NewPCG(seed, uint64(i))))
			apps = append(apps, a)
			wg.Go(a.run)
		}
		w.rampage()
		w.drain(apps)
		w.settled.Store(true)
		wg.Wait()
		w.watchCommits()
	})
}

// rampage disturbs for a while.
func (w *chaosWorld) rampage() {
	for range 60 {
		if w.failed.Load() {
			return
		}
		w.b.ForgetRequests()
		began := time.Now()
		time.Sleep(time.Duration(w.rng.IntN(600)) * time.Millisecond)
		w.disturb()
		tps := w.partitions()
		for range w.rng.IntN(4) {
			w.append(w.rng, tps[w.rng.IntN(len(tps))])
		}
		w.watchCommits()
		w.checkRate(began)
	}
}

// checkRate fails when requests were sent in a hot loop.
func (w *chaosWorld) checkRate(since time.Time) {
	n, d := w.b.Count(testbroker.AnyKey), time.Since(since)
	if allowed := 500 + int(d.Seconds()*1500)*w.plan.apps; n > allowed {
		w.fail("%d requests within %v", n, d)
	}
}

// drain ends the faults and waits until everything is read, twice.
func (w *chaosWorld) drain(apps []*chaosApp) {
	w.heal()
	w.draining.Store(true)
	for range 2 {
		began := time.Now()
		for w.unread(apps) != "" && !w.failed.Load() {
			if time.Since(began) > 90*time.Second {
				w.fail("not read after %v: %s", time.Since(began), w.unread(apps))
			}
			time.Sleep(100 * time.Millisecond)
			w.watchCommits()
		}
		w.note("broker: all is read after %v", time.Since(began))
		for _, tp := range w.partitions() {
			w.append(w.rng, tp)
		}
		w.endTransactions()
	}
	w.b.ForgetRequests()
	began := time.Now()
	time.Sleep(10 * time.Second)
	w.checkRate(began)
	if n := w.b.Count(testbroker.AnyKey); n > 1500*w.plan.apps*w.plan.nodes {
		w.fail("%d requests within 10s of quiet", n)
	}
}

// watchMemory panics when a seed takes too much memory, until the returned function is
// called.
func watchMemory(seed uint64) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > 2<<30 {
				endless(seed)
			}
		}
	}()
	return func() { close(stop); <-done }
}

func endless(seed uint64) {
	buf := make([]byte, 4<<20)
	panic(fmt.Sprintf("seed %d does not end:\n%s", seed, buf[:runtime.Stack(buf, true)]))
}

// chaosSeeds is which seeds to run: the first few, or CHAOS_SEEDS many, or one that is
// named by CHAOS_SEED.
func chaosSeeds() []uint64 {
	if s, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64); err == nil {
		return []uint64{s}
	}
	n := 20
	if s, err := strconv.Atoi(os.Getenv("CHAOS_SEEDS")); err == nil {
		n = s
	}
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	return seeds
}

// TestChaosAssigned disturbs a consumer that assigns, seeks, pauses and reads in all
// ways, and requires that it is given exactly what the logs hold.
func TestChaosAssigned(t *testing.T) {
	for _, seed := range chaosSeeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runChaos(t, seed, true) })
	}
}

// TestChaosSubscribed disturbs consumers of a group, and requires that together they
// are given all that the logs hold, and commit nothing else.
func TestChaosSubscribed(t *testing.T) {
	for _, seed := range chaosSeeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runChaos(t, seed+1_000_000, false) })
	}
}

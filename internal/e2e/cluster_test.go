//go:build unix

package e2e

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/proxy"
)

// A faulty cluster has three brokers in racks of their own, each behind a
// proxy that it advertises to consumers. Producers and brokers go past them.
type faulty struct {
	*Target
	owner   *testing.T // with which it ends
	brokers *broker.Cluster
	proxies []*proxy.Proxy // of nodes 1 to 3
	front   *proxy.Proxy   // to bootstrap from; passes on to node 1
}

const faultyNodes = 3

// soon is how long a consumer may take to notice what a broker tells at once:
// a new leader, a closed connection.
const soon = 2*backoffMax + 2*time.Second

func startFaulty(t *testing.T, release string) *faulty {
	f := &faulty{owner: t}
	var addrs []string
	for range faultyNodes {
		p := proxy.Start(t, "")
		f.proxies = append(f.proxies, p)
		addrs = append(addrs, p.Addr())
	}
	f.brokers = broker.Start(t, release, broker.Nodes(faultyNodes), broker.ClientListener(addrs...),
		broker.Property("broker.session.timeout.ms", "3000"),     // others take over soon
		broker.Property("auto.leader.rebalance.enable", "false")) // and keep what they took
	for i, p := range f.proxies {
		p.SetUpstream(f.brokers.ClientAddr(int32(i + 1)))
	}
	f.front = proxy.Start(t, f.brokers.ClientAddr(1))
	d := java.For(t, f.brokers)
	f.Target = &Target{Cluster: d, Name: release, Bootstrap: []string{f.front.Addr()}, Real: f.brokers, Java: d}
	return f
}

// topicOn makes a topic with the given replicas, the preferred leader first.
func (f *faulty) topicOn(t *testing.T, configs map[string]string, replicas ...[]int32) string {
	t.Helper()
	topic := f.Unique(t)
	f.Java.CreateTopicOn(t, topic, replicas, configs)
	return topic
}

func (f *faulty) proxy(node int32) *proxy.Proxy { return f.proxies[node-1] }

// run runs a test of faults as a subtest. It begins when the cluster is whole, and what
// it leaves broken when it fails is mended, so that it spoils no other.
func (f *faulty) run(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		f.brokers.Guard(t)
		f.brokers.AwaitWhole(t)
		test(t)
	})
}

// refuse has a proxy refuse connections until Allow.
func refuse(t *testing.T, p *proxy.Proxy) {
	t.Helper()
	t.Cleanup(func() { p.Allow(t) })
	p.Refuse()
}

func (f *faulty) leader(t *testing.T, topic string) int32 {
	t.Helper()
	return f.Java.DescribeTopic(t, topic).Partitions[0].Leader
}

// assign makes a consumer of all partitions of a topic that commits to group.
func (f *faulty) assign(t *testing.T, cfg kafka.Config, topic, group string, partitions int) *kafka.Consumer {
	t.Helper()
	cfg.GroupID = group
	var tps []kafka.TopicPartition
	for p := range partitions {
		tps = append(tps, kafka.TopicPartition{Topic: topic, Partition: int32(p)})
	}
	return assigned(t, f.Target, cfg, tps...)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	const release = "4.4.0"
	tests := []struct {
		name string
		test func(t *testing.T, f *faulty)
	}{
		{"one fetch session per broker", testSessions},
		{"a follower in the client's rack is read from", testFollower},
		{"leaders that move", testMoves},
		{"a leader that is killed and comes back", testKilledLeader},
		{"a leader that freezes and thaws", testFrozenLeader},
		{"faults of the coordinator and others", testRecovery},
		{"an unclean election that truncates the log", testUncleanElection},
		{"all brokers freeze and thaw", testAllFrozen},
		{"all brokers are gone and come back elsewhere", testAllMoved},
	}
	t.Run(release, func(t *testing.T) {
		f := startFaulty(t, release)
		for _, test := range tests {
			f.run(t, test.name, func(t *testing.T) { test.test(t, f) })
		}
	})
}

// B41 (a)
func testSessions(t *testing.T, f *faulty) {
	const gauge = "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions"
	sessions := func() (n [faultyNodes]int) {
		for i := range n {
			n[i] = int(f.Java.Gauge(t, f.brokers, int32(i+1), gauge))
		}
		return n
	}
	topic, group := f.topicOn(t, nil, []int32{1, 2, 3}, []int32{2, 3, 1}, []int32{3, 1, 2}, []int32{1, 2, 3}), f.Unique(t)
	waitFor(t, "the followers' sessions", func() bool { // those of two at each node
		was := sessions()
		return was == sessions() && slices.Min(was[:]) >= faultyNodes-1
	})
	before := sessions()
	c := f.assign(t, faultConfig(), topic, group, 4)
	l, r := startLoad(t, f.Java, topic, 4), startReader(t, c)
	flows(t, "at first", l, r, soon)
	tp := kafka.TopicPartition{Topic: topic, Partition: 3}
	for range 5 { // what a session is told of
		require.NoError(t, c.Pause(tp))
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, c.Resume(tp))
		time.Sleep(200 * time.Millisecond)
	}
	waitFor(t, "one more session at each node", func() bool { // none that is left behind ends by itself
		during := sessions()
		for i := range during {
			during[i]--
		}
		return during == before
	})
	finish(t, f.Target, topic, group, l, r)
	consume.Close(t, c)
	waitFor(t, "the sessions are closed", func() bool { return sessions() == before })
}

// KIP-392
func testFollower(t *testing.T, f *faulty) {
	topic, group := f.topicOn(t, nil, []int32{1, 2, 3}, []int32{1, 3, 2}), f.Unique(t)
	cfg := faultConfig()
	cfg.ClientRack = "rack-2"
	c := f.assign(t, cfg, topic, group, 2)
	l, r := startLoad(t, f.Java, topic, 2), startReader(t, c)
	flows(t, "at first", l, r, soon)
	// served tells how many bytes each node has answered with while records of
	// about 200 kB were read.
	served := func() (n [faultyNodes]int64) {
		for i, p := range f.proxies {
			n[i] = -p.Answered(keyFetch)
		}
		until := l.counts()[0] + 100
		waitFor(t, "more records", func() bool { return r.has([]int64{until, until}) })
		for i, p := range f.proxies {
			n[i] += p.Answered(keyFetch)
		}
		return n
	}
	const most = 150 * loadBytes
	byFollower := func() bool { n := served(); return n[1] > most && n[0] < most/3 && n[2] < most/3 }
	waitFor(t, "the follower serves", byFollower)

	connects, began := f.proxy(2).Connects(), time.Now()
	t.Cleanup(func() { f.proxy(2).Silence(false) })
	f.proxy(2).Silence(true)
	flows(t, "the follower cannot be reached", l, r, requestTimeout+soon)
	flows(t, "the follower still cannot be reached", l, r, requestTimeout+soon)
	require.Less(t, f.proxy(2).Connects()-connects, 20+2*int(time.Since(began).Seconds()), "no spinning between the two")
	f.proxy(2).Silence(false)
	waitFor(t, "the follower serves again", byFollower)

	finish(t, f.Target, topic, group, l, r)
}

func testMoves(t *testing.T, f *faulty) {
	topic, group := f.topicOn(t, nil, []int32{1}, []int32{2}), f.Unique(t)
	c := f.assign(t, faultConfig(), topic, group, 2)
	l, r := startLoad(t, f.Java, topic, 2), startReader(t, c)
	for _, to := range []int32{2, 3, 1, 3} {
		f.Java.MoveLeader(t, topic, 0, to)
		flows(t, "moved", l, r, soon)
	}
	finish(t, f.Target, topic, group, l, r)
}

// testKilledLeader kills a node that leads partitions 0 and 1, and that serves
// partition 2 as a follower to one of two consumers.
func testKilledLeader(t *testing.T, f *faulty) {
	topic, group, other := f.topicOn(t, nil, []int32{1, 2, 3}, []int32{1, 2, 3}, []int32{2, 3, 1}), f.Unique(t), f.Unique(t)
	cfg := faultConfig()
	l, r := startLoad(t, f.Java, topic, 3), startReader(t, f.assign(t, cfg, topic, group, 3))
	cfg.ClientRack = "rack-1"
	near := startReader(t, f.assign(t, cfg, topic, other, 3))
	both := func(what string) {
		flows(t, what, l, r, soon)
		flows(t, what+", from near by", l, near, soon)
	}
	both("at first")
	f.brokers.Kill(t, 1)
	both("killed")
	f.brokers.Restart(t, 1)
	f.brokers.AwaitWhole(t)
	f.Java.ElectPreferred(t, topic, 0)
	both("restarted")
	finish(t, f.Target, topic, group, l, r)
	finish(t, f.Target, topic, other, l, near)
}

func testFrozenLeader(t *testing.T, f *faulty) {
	topic, group := f.topicOn(t, nil, []int32{3, 2, 1}, []int32{2, 3, 1}), f.Unique(t)
	c := f.assign(t, faultConfig(), topic, group, 2)
	l, r := startLoad(t, f.Java, topic, 2), startReader(t, c)
	flows(t, "at first", l, r, soon)
	f.brokers.Pause(t, 3)
	// A request may be on its way to the frozen broker for as long as that.
	flows(t, "frozen", l, r, requestTimeout+soon)
	f.brokers.Continue(3)
	f.brokers.AwaitWhole(t)
	flows(t, "thawed", l, r, soon)
	finish(t, f.Target, topic, group, l, r)
}

// KIP-320
func testUncleanElection(t *testing.T, f *faulty) {
	topic := f.topicOn(t, map[string]string{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}, []int32{1, 2})
	tp := kafka.TopicPartition{Topic: topic}
	produce := func(n int, value string) {
		var records []outside.Record
		for range n {
			records = append(records, outside.To(topic, 0, "", value))
		}
		// An idempotent producer would miss the records that get lost.
		f.Produce(t, map[string]string{"enable.idempotence": "false"}, records...)
	}
	var mu sync.Mutex
	var resets []kafka.EventPositionReset
	cfg := faultConfig()
	cfg.OnEvent = func(e kafka.Event) {
		mu.Lock()
		defer mu.Unlock()
		if reset, ok := e.(kafka.EventPositionReset); ok {
			resets = append(resets, reset)
		}
	}
	lenient := assigned(t, f.Target, cfg, tp)
	cfg.AutoOffsetReset, cfg.OnEvent = kafka.ResetNone, nil
	strict := assigned(t, f.Target, cfg, tp)
	require.NoError(t, strict.Seek(tp, 0))

	produce(100, "replicated")
	f.brokers.Kill(t, 2)
	waitFor(t, "the in-sync replicas", func() bool { return slices.Equal(f.Java.DescribeTopic(t, topic).Partitions[0].ISR, []int32{1}) })
	produce(50, "to be lost")
	require.Equal(t, consume.Span(0, 150), pollOffsets(t, lenient, 150, patience))
	require.Equal(t, consume.Span(0, 150), pollOffsets(t, strict, 150, patience))
	f.brokers.Kill(t, 1)
	f.brokers.Restart(t, 2)
	waitFor(t, "an unclean election", func() bool { return f.leader(t, topic) == 2 })
	produce(10, "after the election")

	records, errs := pollUntil(t, lenient, patience, func(got []kafka.Record) bool { return len(got) >= 10 })
	require.Empty(t, errs)
	require.Equal(t, consume.Span(100, 110), consume.Offsets(records))
	require.Equal(t, "after the election", string(records[0].Value))
	waitFor(t, "the event of the truncation", func() bool { // told on a goroutine of its own
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(resets, func(e kafka.EventPositionReset) bool {
			return e.TopicPartition == tp && e.From == 150 && e.To == 100
		})
	})

	var truncation *kafka.LogTruncationError
	waitFor(t, "the error", func() bool {
		got, err := strict.Poll(t.Context(), 500*time.Millisecond)
		require.True(t, err != nil || got.Len() == 0, "nothing is handed over behind the truncation")
		return errors.As(err, &truncation)
	})
	require.Equal(t, int64(150), truncation.Offset)
	require.True(t, truncation.DivergentKnown)
	require.Equal(t, int64(100), truncation.DivergentFrom.Offset)
	require.NoError(t, strict.SeekTo(tp, truncation.DivergentFrom))
	require.Equal(t, consume.Span(100, 110), pollOffsets(t, strict, 10, patience))
}

// away has two consumers, one in a group and one without, poll while all
// brokers are away, and go on when they are back. B48 (a) and (c)
func away(t *testing.T, f *faulty, leave, comeBack func()) {
	topic, group := f.topicOn(t, nil, []int32{1, 2, 3}), f.Unique(t)
	tp := kafka.TopicPartition{Topic: topic}
	cfg := faultConfig()
	cfg.MaxPollInterval = 10 * time.Minute // nobody polls while brokers start
	alone := assigned(t, f.Target, cfg, tp)
	cfg.GroupID, cfg.Topics = group, []string{topic}
	member := newConsumer(t, f.Target, cfg)
	consumers := []*kafka.Consumer{alone, member}
	appendTo(t, f.Target, topic, 0, 10)
	for _, c := range consumers {
		require.Equal(t, consume.Span(0, 10), pollOffsets(t, c, 10, patience))
	}
	require.NoError(t, member.Commit(t.Context()))

	leave()
	var wg sync.WaitGroup
	for _, c := range consumers {
		wg.Go(func() {
			records, _ := pollInTime(t, c, 5*time.Second)
			require.Empty(t, records)
		})
	}
	wg.Wait()
	comeBack()
	appendTo(t, f.Target, topic, 0, 10) // waits until there is a leader
	for _, c := range consumers {
		// They wait for requests and sessions to end, and for brokers that have just started.
		require.Equal(t, consume.Span(10, 20), pollOffsets(t, c, 10, requestTimeout+sessionTimeout+20*time.Second))
		require.Equal(t, int64(20), position(t, c, tp))
		f.brokers.AwaitWhole(t) // the next one needs a coordinator
	}
	require.NoError(t, member.Commit(t.Context()))
	require.Equal(t, map[kafka.TopicPartition]int64{tp: 20}, committed(t, f.Target, group))
}

func testAllFrozen(t *testing.T, f *faulty) {
	away(t, f, func() {
		for node := range int32(faultyNodes) {
			f.brokers.Pause(t, node+1)
		}
	}, func() {
		for node := range int32(faultyNodes) {
			f.brokers.Continue(node + 1)
		}
	})
}

// KIP-899
func testAllMoved(t *testing.T, f *faulty) {
	away(t, f, func() {
		for node := range int32(faultyNodes) {
			f.brokers.Kill(t, node+1)
			refuse(t, f.proxy(node+1))
		}
	}, func() {
		for node := range int32(faultyNodes) {
			p := proxy.Start(f.owner, f.brokers.ClientAddr(node+1))
			f.proxies[node] = p
			f.brokers.Advertise(t, node+1, p.Addr())
		}
		f.brokers.Restart(t, 1, 2, 3)
	})
}

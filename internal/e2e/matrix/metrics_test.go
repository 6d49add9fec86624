//go:build unix

package matrix

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/proxy"
)

// Groups of metrics.
const (
	ofAll     = "consumer-metrics"
	ofNodes   = "consumer-node-metrics"
	ofFetches = "consumer-fetch-manager-metrics"
	ofGroup   = "consumer-coordinator-metrics"
)

// API keys of what the metrics count.
const (
	keyFetch        = 1
	keyOffsetCommit = 8
	keyJoinGroup    = 11
	keyHeartbeat    = 12
	keySyncGroup    = 14
)

// metrics are those of a consumer whose ClientID is "me".
type metrics map[kafka.MetricName]float64

func metricsOf(t require.TestingT, c *kafka.Consumer) metrics {
	list, err := c.Metrics()
	require.NoError(t, err)
	m := metrics{}
	for _, metric := range list {
		m[metric.Name] = metric.Value
	}
	require.Len(t, m, len(list), "each name once")
	return m
}

func named(group, name string, tags ...string) kafka.MetricName {
	return kafka.MetricName{Group: group, Name: name, Tags: strings.Join(append([]string{"client-id=me"}, tags...), ",")}
}

func (m metrics) of(t require.TestingT, group, name string, tags ...string) float64 {
	require.Contains(t, m, named(group, name, tags...))
	return m[named(group, name, tags...)]
}

// A wire is the way of a consumer to the broker, which counts on its own.
type wire struct {
	*proxy.Proxy
	opened, closed, sent, received atomic.Int64
}

type wireConn struct {
	net.Conn
	wire *wire
	once atomic.Bool
}

func (w *wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := w.Proxy.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.opened.Add(1)
	return &wireConn{Conn: c, wire: w}, nil
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wire.received.Add(int64(n))
	return n, err
}

func (c *wireConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.wire.sent.Add(int64(n))
	return n, err
}

func (c *wireConn) Close() error {
	if !c.once.Swap(true) {
		c.wire.closed.Add(1)
	}
	return c.Conn.Close()
}

// requests counts those of all APIs.
func (w *wire) requests() (n int) {
	for key := range int16(100) {
		n += w.Asked(key)
	}
	return n
}

// measured is a configuration whose metrics are compared with what the wire saw.
func (e *env) measured(t *testing.T) (*wire, kafka.Config) {
	w := &wire{Proxy: proxy.Start(t, e.cluster.Bootstrap()[0])}
	cfg := kafka.Config{ClientID: "me", Dialer: w.Dial, MetricsSampleWindow: 10 * time.Minute, FetchMaxWait: 100 * time.Millisecond}
	if !e.has("0.10") {
		cfg.APIVersion = e.release // what is asked to find it out may be left without an answer
	}
	return w, cfg
}

// What the metrics say of records, bytes, lag, requests and connections is what was
// produced, what the release's own consumer measures, and what went over the wire.
func metricsAreTrue(t *testing.T, e *env) {
	topic := e.topic(t, "metrics of a.topic", 2, nil)
	sent := e.sample(topic)
	if !e.has("0.8.2") { // whose producer is the first that can be told the partition of records without a key
		sent = slices.DeleteFunc(sent, func(r outside.Record) bool { return r.Key == nil })
	}
	e.Produce(t, map[string]string{"compression.type": "gzip"}, sent...)
	e.fill(t, topic, 0, 50, 1)
	n := len(sent) + 50
	tps := partitions(topic, 2)
	w, cfg := e.measured(t)
	began := time.Now()
	c := e.assigned(t, cfg, tps...)
	e.requireLag(t, c, map[kafka.TopicPartition]int64{tps[0]: int64(len(sent)), tps[1]: 50})

	m := metricsOf(t, c)
	size := m.of(t, ofFetches, "bytes-consumed-total")
	took := time.Since(began).Seconds()
	window := cfg.MetricsSampleWindow.Seconds() // the one before the first counts as whole
	for _, tags := range [][]string{nil, {"topic=" + topic}} {
		require.EqualValues(t, n, m.of(t, ofFetches, "records-consumed-total", tags...))
		require.Equal(t, size, m.of(t, ofFetches, "bytes-consumed-total", tags...))
		require.InEpsilon(t, float64(n)/window, m.of(t, ofFetches, "records-consumed-rate", tags...), took/window)
		require.InEpsilon(t, size/window, m.of(t, ofFetches, "bytes-consumed-rate", tags...), took/window)
	}
	e.requireSize(t, topic, sent, n, size)

	require.NoError(t, c.Pause(tps...)) // so that no Fetch is under way
	requireSeenOnTheWire(t, c, w)
	require.NoError(t, c.Assign(tps[1]))
	m = metricsOf(t, c)
	require.NotContains(t, m, named(ofFetches, "records-lag", tagsOf(tps[0])...))
	require.Contains(t, m, named(ofFetches, "records-lag", tagsOf(tps[1])...))
	consume.Close(t, c)
	_, err := c.Metrics()
	require.ErrorIs(t, err, kafka.ErrClosed)
}

func tagsOf(tp kafka.TopicPartition) []string {
	return []string{fmt.Sprint("partition=", tp.Partition), "topic=" + tp.Topic}
}

// requireLag reads up to the ends, and compares lag and lead with where it is.
func (e *env) requireLag(t *testing.T, c *kafka.Consumer, ends map[kafka.TopicPartition]int64) {
	t.Helper()
	all := 0
	for _, end := range ends {
		all += int(end)
	}
	for got, end := 0, time.Now().Add(patience); got < all; {
		require.True(t, time.Now().Before(end), "after %d records", got)
		records, err := c.PollMax(t.Context(), time.Second, 1+got) // the first one alone
		require.NoError(t, err)
		at := map[kafka.TopicPartition]int64{}
		for r := range records.All() {
			at[r.TopicPartition()] = r.Offset + 1
		}
		m := metricsOf(t, c)
		for tp, position := range at {
			require.EqualValues(t, ends[tp]-position, m.of(t, ofFetches, "records-lag", tagsOf(tp)...), "at %d of %v", position, tp)
			if e.has("0.11") { // answers tell where the log begins
				require.EqualValues(t, position, m.of(t, ofFetches, "records-lead", tagsOf(tp)...))
				require.EqualValues(t, 1, m.of(t, ofFetches, "records-lead-min"))
			}
			if got == 0 {
				require.EqualValues(t, ends[tp]-1, m.of(t, ofFetches, "records-lag-max"))
			}
		}
		got += records.Len()
		require.EqualValues(t, got, m.of(t, ofFetches, "records-consumed-total"))
	}
}

// requireSize requires that a number of bytes is that of a topic's records in batches, not
// compressed: as their format has it, and as the release's own consumer measures it.
func (e *env) requireSize(t *testing.T, topic string, sent []outside.Record, n int, size float64) {
	t.Helper()
	if format := formatOf(e.release); format < 2 {
		want := n * (26 + 8*format) // offset, size, checksum, magic, attributes, lengths; a timestamp
		for _, r := range sent {
			want += len(r.Key) + len(r.Value)
		}
		want += 10*len("k0") + 40*len("k00") // those of partition 1
		require.EqualValues(t, want, size)
	}
	if !e.has("0.9") {
		return
	}
	own := e.Consume(t, topic, 2, n)
	// It may look at one rate a little later than at the other.
	require.InEpsilon(t, own["bytes-consumed-rate"]/own["records-consumed-rate"], size/float64(n), 0.02)
	if total, ok := own["bytes-consumed-total"]; ok {
		require.Equal(t, total, size)
	}
}

// requireSeenOnTheWire requires that what is counted of requests, bytes and connections
// is what the wire has seen, at some moment at which nothing is under way.
func requireSeenOnTheWire(t *testing.T, c *kafka.Consumer, w *wire) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		m, nodes := metricsOf(t, c), 0.0
		for name, value := range m {
			if name.Group == ofNodes && name.Name == "request-total" {
				nodes += value
			}
		}
		for name, seen := range map[string]int64{
			"request-total": int64(w.requests()), "response-total": int64(w.requests()),
			"outgoing-byte-total": w.sent.Load(), "incoming-byte-total": w.received.Load(),
			"connection-creation-total": w.opened.Load(), "connection-close-total": w.closed.Load(),
			"connection-count": w.opened.Load() - w.closed.Load(),
		} {
			assert.EqualValues(t, seen, m.of(t, ofAll, name), name)
		}
		assert.EqualValues(t, w.requests(), nodes, "of the nodes together")
		assert.EqualValues(t, w.Asked(keyFetch), m.of(t, ofFetches, "fetch-total"), "fetch-total")
	}, patience, 10*time.Millisecond)
}

// What the metrics say of the group is what the coordinator was asked, and what it says
// itself.
func metricsOfTheGroupAreTrue(t *testing.T, e *env) {
	topic, group := e.topic(t, "metrics of the group", 2, nil), e.name("metrics of the group")
	e.fill(t, topic, 0, 10, 0, 1)
	w, cfg := e.measured(t)
	cfg.GroupID, cfg.Topics, cfg.HeartbeatInterval, cfg.SessionTimeout = group, []string{topic}, 200*time.Millisecond, 90*time.Second // no heartbeat is to be given up
	c := e.open(t, cfg)
	consume.Poll(t, c, 20)
	for range 3 {
		require.NoError(t, c.Commit(t.Context()))
	}
	requireGroupCounted(t, c, w, 2, 3)
	require.EqualValues(t, 1, metricsOf(t, c).of(t, ofGroup, "rebalance-total"))

	other := cfg
	other.Dialer = nil
	second := e.open(t, other)
	p := pollBoth(t, c, second)
	p.until(func() bool { return len(c.Assignment()) == 1 && len(second.Assignment()) == 1 })
	requireGroupCounted(t, c, w, 1, 3, second)
	consume.Close(t, second)
	p.consumers = p.consumers[:1]
	p.until(func() bool { return len(c.Assignment()) == 2 })
	requireGroupCounted(t, c, w, 2, 3)
	require.GreaterOrEqual(t, metricsOf(t, c).of(t, ofGroup, "rebalance-total"), 3.0, "alone, with the second, alone again")
}

// requireGroupCounted requires that the requests to the coordinator are counted, and the
// generations, of which this member has seen all. One may come to an end before it had its
// assignment.
func requireGroupCounted(t *testing.T, c *kafka.Consumer, w *wire, assigned, commits int, others ...*kafka.Consumer) {
	t.Helper()
	beats := w.Asked(keyHeartbeat)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		for _, member := range append(others, c) { // a rebalance may go on, and needs those who poll
			_, err := member.Poll(context.Background(), 0)
			require.NoError(t, err)
		}
		m := metricsOf(t, c)
		for name, seen := range map[string]int{
			"join-total": w.Asked(keyJoinGroup), "sync-total": w.Asked(keySyncGroup), "commit-total": w.Asked(keyOffsetCommit), "assigned-partitions": assigned,
		} {
			assert.EqualValues(t, seen, m.of(t, ofGroup, name), name)
		}
		assert.Greater(t, w.Asked(keyHeartbeat), beats, "heartbeats go on")
		answered := int(m.of(t, ofGroup, "heartbeat-total"))
		assert.LessOrEqual(t, answered, w.Asked(keyHeartbeat))
		assert.GreaterOrEqual(t, answered, w.Asked(keyHeartbeat)-w.Asked(keyJoinGroup), "a rebalance gives up one at most")
		group, err := c.GroupMetadata()
		assert.NoError(t, err)
		rebalances, failed := m.of(t, ofGroup, "rebalance-total"), m.of(t, ofGroup, "failed-rebalance-total")
		assert.LessOrEqual(t, rebalances, float64(group.GenerationID))
		assert.GreaterOrEqual(t, rebalances+failed, float64(group.GenerationID))
	}, patience, 10*time.Millisecond)
	require.Equal(t, commits, w.Asked(keyOffsetCommit))
}

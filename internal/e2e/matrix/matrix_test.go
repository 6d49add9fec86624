//go:build unix

// Package matrix runs one suite against brokers from 0.8.0 to the newest release.
// The topics are filled, and offsets that were committed are read back, by the
// clients that came with each release.
package matrix

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/own"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// releases are the brokers of the suite, the newest first: they take longest to
// start.
var releases = []string{"4.4.0", "3.9.2", "2.8.2", "1.1.1", "0.11.0.3", "0.10.2.2", "0.9.0.1", "0.8.2.2", "0.8.1.1", "0.8.0"}

// A feature is one test of the suite.
type feature struct {
	name   string
	since  string // the first release that it applies to; empty: all
	before string // the first one that it applies to no more; empty: none
	test   func(t *testing.T, e *env)
}

var features = []feature{
	{name: "is recognised", test: isRecognised},
	{name: "what its producer wrote", test: whatItsProducerWrote},
	{name: "older message formats", since: "0.10", before: "3.0", test: olderMessageFormats},
	{name: "LogAppendTime", since: "0.10", test: logAppendTime},
	{name: "headers", since: "0.11", test: headers},
	{name: "transactions", since: "0.11", test: transactions},
	{name: "no transactions", before: "0.11", test: noTransactions},
	{name: "zstd needs a younger Fetch", since: "2.1", before: "4.0", test: zstdNeedsAYoungerFetch},
	{name: "compacted topic", since: "0.8.1", test: compactedTopic},
	{name: "small fetches", test: smallFetches},
	{name: "a record larger than a fetch", test: aRecordLargerThanAFetch},
	{name: "a record larger than an answer may be", test: aRecordLargerThanAnAnswerMayBe},
	{name: "assignment by hand", test: assignmentByHand},
	{name: "offsets by time", since: "0.10.1", test: offsetsByTime},
	{name: "no offsets by time", before: "0.10.1", test: noOffsetsByTime},
	{name: "commits", since: "0.8.1", test: commits},
	{name: "no commits", before: "0.8.1", test: noCommits},
	{name: "subscription of all partitions", test: subscriptionOfAllPartitions},
	{name: "subscription without groups", before: "0.9", test: subscriptionWithoutGroups},
	{name: "group of two", since: "0.9", test: groupOfTwo},
	{name: "static members", since: "2.3", test: staticMembers},
	{name: "no static members", since: "0.9", before: "2.3", test: noStaticMembers},
	{name: "metrics are true", test: metricsAreTrue},
	{name: "metrics of the group are true", since: "0.9", test: metricsOfTheGroupAreTrue},
	{name: "creates no topics", test: createsNoTopics},
}

func (f feature) applies(release string) bool {
	return (f.since == "" || !broker.Before(release, f.since)) && (f.before == "" || broker.Before(release, f.before))
}

// running bounds how many clusters run at the same time.
var running = make(chan struct{}, 3)

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests wait for a place in running, and then mostly for brokers.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	proc.Main(m)
}

// The tests of a release share its cluster, which ends when they have.
func TestMatrix(t *testing.T) {
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			e := start(t, release)
			for _, f := range features {
				if f.applies(release) {
					t.Run(f.name, func(t *testing.T) {
						e.parallel(t)
						f.test(t, e)
					})
				}
			}
		})
	}
}

// An env is what the tests of one release share.
type env struct {
	*own.Clients
	cluster *broker.Cluster
	release string

	mu     sync.Mutex
	unique int
}

// start starts a cluster, when there is room, with its clients. Both end with
// the test.
func start(t *testing.T, release string, opts ...broker.Option) *env {
	t.Helper()
	running <- struct{}{}
	t.Cleanup(func() { <-running })
	properties := map[string]string{
		"auto.create.topics.enable":    "true",
		"message.max.bytes":            fmt.Sprint(large + 1000),
		"replica.fetch.max.bytes":      fmt.Sprint(large + 1000),
		"group.max.session.timeout.ms": "300000",
	}
	c := broker.Start(t, release, append([]broker.Option{broker.Properties(properties)}, opts...)...)
	return &env{Clients: own.Start(t, c), cluster: c, release: release}
}

// parallel lets a test run beside others, if they cannot disturb it: when a broker of
// 0.9 is asked for its version, requests of other connections may get lost
// (KAFKA-3547).
func (e *env) parallel(t *testing.T) {
	if !e.has("0.9") || e.has("0.10") {
		t.Parallel()
	}
}

// has tells whether the release is one, or later.
func (e *env) has(release string) bool { return !broker.Before(e.release, release) }

// name makes a name that nothing else on the cluster has.
func (e *env) name(what string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unique++
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(what, " ", "-"), e.unique)
}

// topic makes a topic.
func (e *env) topic(t *testing.T, what string, partitions int, configs map[string]string) string {
	t.Helper()
	topic := e.name(what)
	e.CreateTopic(t, topic, partitions, configs)
	return topic
}

// fill produces n records to each of some partitions, with the offset as value.
func (e *env) fill(t *testing.T, topic string, from, n int64, partitions ...int32) {
	t.Helper()
	var records []outside.Record
	for _, p := range partitions {
		for i := range n {
			records = append(records, outside.To(topic, p, "k", fmt.Sprint(from+i)))
		}
	}
	e.Produce(t, nil, records...)
}

// codecs are those that the release's own producer has.
func (e *env) codecs() []string {
	since := []struct{ codec, release string }{
		{"none", "0.8.0"}, {"gzip", "0.8.0"}, {"snappy", "0.8.0"}, {"lz4", "0.8.2"}, {"zstd", "2.1"},
	}
	var out []string
	for _, s := range since {
		if e.has(s.release) {
			out = append(out, s.codec)
		}
	}
	return out
}

// settings are the values of APIVersion to read with: none, that of the broker, and
// older ones that it still serves.
func (e *env) settings() []string {
	out := []string{"", e.release}
	for _, s := range []string{"0.8.0", "0.8.2", "0.9", "0.10.0", "0.10.1", "0.11", "1.1", "2.1", "2.8", "3.9"} {
		if broker.Before(s, e.release) && (!e.has("4.0") || !broker.Before(s, "0.11")) {
			out = append(out, s)
		}
	}
	return slices.Compact(out)
}

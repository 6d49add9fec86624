//go:build unix

// Package e2e holds the tests of the library against brokers: real Kafka of
// several releases and the in-process broker. Its subpackages start them and
// other clients beside the library.
//
// A test gives its body to ForEachBroker, ForEachRelease or OnFake and makes
// topics and groups through the Target, so that tests can share a cluster:
//
//	func TestSomething(t *testing.T) {
//		ForEachBroker(t, func(t *testing.T, target *Target) {
//			topic, group := target.Topic(t, 3), target.Unique(t)
//			target.Fill(t, topic, 3, 100)
//			c := newConsumer(t, target, kafka.Config{GroupID: group, Topics: []string{topic}})
//			…
//		})
//	}
//
// A test that harms its cluster starts one of its own with broker.Start, in a
// subtest named after the release: "make test" counts tests by these names.
// Tests that share such a cluster guard it by Cluster.Guard and begin with
// Cluster.AwaitWhole, so that none finds what another left.
package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/kfake"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

// Releases are the releases of Kafka that every suite runs against.
var Releases = []string{"4.4.0", "3.9.2"}

// A Target is a broker for one test, with the outside view of it.
type Target struct {
	outside.Cluster
	Name      string // "4.4.0", "3.9.2", "kfake"
	Bootstrap []string
	Real      *broker.Cluster // nil on kfake; shared between tests
	Java      *java.Driver    // nil on kfake
	Fake      *kfake.Cluster  // nil on real Kafka; this test's own
}

// ForEachBroker runs the same test against every release and kfake, as
// subtests of their names.
func ForEachBroker(t *testing.T, test func(t *testing.T, target *Target)) {
	t.Helper()
	ForEachRelease(t, test)
	OnFake(t, test)
}

// ForEachRelease is ForEachBroker without kfake.
func ForEachRelease(t *testing.T, test func(t *testing.T, target *Target)) {
	t.Helper()
	for _, release := range Releases {
		t.Run(release, func(t *testing.T) {
			broker.Prestart(t, Releases...)
			c := broker.Shared(t, release)
			d := java.For(t, c)
			test(t, &Target{Cluster: d, Name: release, Bootstrap: c.Bootstrap(), Real: c, Java: d})
		})
	}
}

// OnFake runs a test against kfake alone, as a subtest of that name.
func OnFake(t *testing.T, test func(t *testing.T, target *Target)) {
	t.Helper()
	t.Run("kfake", func(t *testing.T) {
		c := kfake.Start(t)
		test(t, &Target{Cluster: c, Name: "kfake", Bootstrap: c.Bootstrap(), Fake: c})
	})
}

var unique atomic.Int64

// Unique makes a name that nothing else on the cluster has, for a group or a
// topic: the test's name and a number.
func (g *Target) Unique(t testing.TB) string {
	legal := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("%.200s-%d", legal, unique.Add(1))
}

// Topic makes a topic with a unique name.
func (g *Target) Topic(t testing.TB, partitions int) string {
	t.Helper()
	topic := g.Unique(t)
	g.CreateTopic(t, topic, partitions, nil)
	return topic
}

// Fill produces n records, in turn to each partition, with the values
// "0" to "n-1" and the partition as key.
func (g *Target) Fill(t testing.TB, topic string, partitions, n int) {
	t.Helper()
	records := make([]outside.Record, n)
	for i := range records {
		p := int32(i % partitions)
		records[i] = outside.To(topic, p, fmt.Sprint(p), fmt.Sprint(i))
	}
	g.Produce(t, nil, records...)
}

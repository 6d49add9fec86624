//go:build unix

package broker

import (
	"fmt"
	"sync"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

type sharedCluster struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

var shared struct {
	sync.Mutex
	clusters map[string]*sharedCluster
}

// Shared gives the one-node cluster of a release that all tests of the test
// binary use; the first call starts it and proc.Main, called by TestMain,
// stops it. Tests make topics and groups with names of their own and leave
// the node alone. Without Java and Maven the test is skipped; under CI it
// fails.
func Shared(t testing.TB, version string) *Cluster { return SharedNodes(t, version, 1) }

// SharedNodes is Shared for a cluster of several nodes.
func SharedNodes(t testing.TB, version string, nodes int) *Cluster {
	t.Helper()
	return SharedAs(t, nameOf(version, nodes), version, Nodes(nodes))
}

// SharedAs gives the cluster that the tests of the test binary share by a name;
// the first call starts it with its options.
func SharedAs(t testing.TB, name, version string, opts ...Option) *Cluster {
	t.Helper()
	NeedJava(t)
	s := sharedFor(name)
	s.start(version, opts)
	if s.err != nil {
		t.Fatalf("start Kafka %s: %v", version, s.err)
	}
	t.Cleanup(func() { s.cluster.reportFailure(t) })
	return s.cluster
}

func nameOf(version string, nodes int) string { return fmt.Sprintf("%s/%d", version, nodes) }

// Prestart starts shared one-node clusters in the background, all at once,
// so that the first test of each release does not wait for its own.
func Prestart(t testing.TB, versions ...string) {
	t.Helper()
	NeedJava(t)
	for _, v := range versions {
		s := sharedFor(nameOf(v, 1))
		go s.start(v, nil)
	}
}

func sharedFor(name string) *sharedCluster {
	shared.Lock()
	defer shared.Unlock()
	if shared.clusters == nil {
		shared.clusters = map[string]*sharedCluster{}
	}
	s := shared.clusters[name]
	if s == nil {
		s = &sharedCluster{}
		shared.clusters[name] = s
		proc.AtExit(func() {
			s.once.Do(func() {}) // waits for a start under way, prevents a later one
			if s.cluster != nil {
				s.cluster.stop()
			}
		})
	}
	return s
}

func (s *sharedCluster) start(version string, opts []Option) {
	s.once.Do(func() { s.cluster, s.err = start(version, opts) })
}

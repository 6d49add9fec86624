//go:build unix

package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// reports remembers of which tests was told why they failed.
type reports struct {
	mu   sync.Mutex
	told []string
}

// first tells whether nothing was told yet of a test, nor of a test within it.
func (r *reports) first(test string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.told, func(name string) bool { return strings.HasPrefix(name+"/", test+"/") }) {
		return false
	}
	r.told = append(r.told, test)
	return true
}

// reportFailure tells of a test that has failed what the cluster is like at this moment.
func (c *Cluster) reportFailure(t testing.TB) {
	if !t.Failed() || !c.reports.first(t.Name()) {
		return
	}
	t.Logf("Kafka %s:\n%s", c.Version, c.state())
	for _, n := range c.nodes {
		t.Logf("Kafka %s, last lines of %s:\n%s", c.Version, n.name, n.lastLines())
	}
}

// lastLines gives how the log of a node ends, and the last errors in it: behind that for
// which a broker ends it says at length how it does.
func (n *node) lastLines() string {
	const longest, errors, last = 300, 10, 30
	lines := strings.Split(proc.Tail(n.log(), 10_000), "\n")
	for i, line := range lines {
		lines[i] = line[:min(len(line), longest)]
	}
	end := max(0, len(lines)-last)
	failed := slices.DeleteFunc(slices.Clone(lines[:end]), func(line string) bool {
		return !strings.Contains(line, " ERROR ") && !strings.Contains(line, " FATAL ")
	})
	return strings.Join(slices.Concat(failed[max(0, len(failed)-errors):], lines[end:]), "\n")
}

// state is what the nodes say of the cluster, once where they are of one mind.
func (c *Cluster) state() string {
	var mu sync.Mutex
	said := map[string][]string{}
	_, _ = askAll(c, func(n *node) (struct{}, error) {
		view, quorum := n.say()
		mu.Lock()
		defer mu.Unlock()
		said[view] = append(said[view], n.name)
		if quorum != "" {
			said[quorum] = append(said[quorum], n.name)
		}
		return struct{}{}, nil
	})
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(said)) {
		slices.Sort(said[what])
		fmt.Fprintf(&b, "%s: %s\n", strings.Join(said[what], ", "), what)
	}
	return b.String()
}

// say gives what a node says of the brokers with their partitions, and of the controllers.
func (n *node) say() (brokers, controllers string) {
	if !n.process.Running() {
		return "does not run", ""
	}
	v, err := askView(n)
	brokers = v.String()
	if err != nil {
		brokers = err.Error()
	}
	if n.cluster.version.kind != kraft {
		return brokers, ""
	}
	q, err := askQuorum(n)
	if err != nil {
		return brokers, "the controllers: " + err.Error()
	}
	return brokers, q.String()
}

//go:build unix

package sidebyside

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/python"
)

// A Bench is where scripts run.
type Bench struct {
	Cluster   *java.Driver
	Bootstrap []string
	Original  *python.Driver
}

var runs atomic.Int64

// Run runs a script and fails the test at the first step at which the clients observe
// different things that the script does not declare.
func (b *Bench) Run(t *testing.T, script *Script) {
	t.Helper()
	n := runs.Add(1)
	theirs, ours := fmt.Sprintf("side%dp-", n), fmt.Sprintf("side%do-", n)
	if script.Steps[0].Words[0] == "shared" {
		theirs = ours
	}
	s := newSession(t, b.Bootstrap, ours)
	defer b.Original.End(fmt.Sprint(n))
	for i := range script.Steps {
		step := &script.Steps[i]
		if !step.isCall() {
			here := step.change(t, b.Cluster, ours, step.Ours)
			there := here
			if theirs != ours {
				there = step.change(t, b.Cluster, theirs, step.Original)
			}
			step.compare(t, there, here)
			continue
		}
		var there []string
		var failed error
		var took time.Duration
		var wg sync.WaitGroup
		began := time.Now()
		wg.Go(func() {
			there, failed = b.Original.Do(fmt.Sprint(n), theirs, step.Words)
			took = time.Since(began)
		})
		here := s.do(step.Words)
		tookHere := time.Since(began)
		wg.Wait()
		if failed != nil {
			t.Fatalf("line %d: %v", step.Line, failed)
		}
		t.Logf("line %d: %.2f s, here %.2f s", step.Line, took.Seconds(), tookHere.Seconds())
		step.compare(t, there, here)
	}
}

// change carries out a step that is the cluster's, and looks again for a while at what is
// not yet as expected: brokers hear of some things in the background.
func (s *Step) change(t *testing.T, c *java.Driver, prefix string, expected []string) []string {
	t.Helper()
	if s.Why == "" {
		expected = s.Both
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		seen := change(t, c, prefix, s.Words)
		if expected == nil || slices.Equal(seen, expected) || time.Now().After(deadline) {
			return seen
		}
	}
}

// compare fails the test unless both observed what the script says, and the same
// otherwise.
func (s *Step) compare(t *testing.T, theirs, ours []string) {
	t.Helper()
	if wrong := s.faults(theirs, ours); len(wrong) > 0 {
		t.Errorf("line %d: %s: %s\nkafka-python:\n\t%s\nhere:\n\t%s", s.Line, strings.Join(s.Words, " "), strings.Join(wrong, "; "),
			strings.Join(theirs, "\n\t"), strings.Join(ours, "\n\t"))
	}
}

// faults tells in what the observations are not what the script says.
func (s *Step) faults(theirs, ours []string) (wrong []string) {
	same := slices.Equal(theirs, ours)
	switch {
	case s.Why == "" && !same:
		wrong = append(wrong, "the two differ, and the script does not say so")
	case s.Why != "" && same:
		wrong = append(wrong, "the two do not differ, and the script says so")
	}
	if s.Why != "" && !slices.Equal(theirs, s.Original) {
		wrong = append(wrong, "kafka-python observes something else than the script says")
	}
	if s.Why != "" && !slices.Equal(ours, s.Ours) {
		wrong = append(wrong, "this library observes something else than the script says")
	}
	if s.Both != nil && !slices.Equal(ours, s.Both) {
		wrong = append(wrong, "both observe something else than the script says")
	}
	return wrong
}

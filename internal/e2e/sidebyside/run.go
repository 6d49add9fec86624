//go:build unix

package sidebyside

import (
	"fmt"
	"regexp"
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

// attempts is how often a script is run when the clients differ: kafka-python now and
// then misses a new partition, or stays in a group without an assignment.
const attempts = 3

// Run runs a script and fails the test if the clients observe different things that the
// script does not declare. A difference that does not come again is none, unless it was
// this library that observed something else.
func (b *Bench) Run(t *testing.T, script *Script) {
	t.Helper()
	var before [][]string
	for try := 1; ; try++ {
		ours, wrong := b.attempt(t, script)
		if before != nil && !sameTwice(before, ours) {
			t.Errorf("this library observed different things in two runs:\n%q\n%q", before, ours)
		}
		if len(wrong) == 0 || try == attempts {
			for _, w := range wrong {
				t.Error(w)
			}
			return
		}
		t.Logf("attempt %d is repeated: %s", try, strings.Join(wrong, "\n"))
		before = ours
	}
}

// brokersTime is when the broker appended a record, and so another time in each attempt.
var brokersTime = regexp.MustCompile(`time \d+ append`)

// sameTwice tells whether two attempts observed the same, as far as both of them came.
func sameTwice(first, second [][]string) bool {
	n := min(len(first), len(second))
	return slices.EqualFunc(first[:n], second[:n], func(a, b []string) bool {
		return slices.EqualFunc(a, b, func(x, y string) bool {
			return brokersTime.ReplaceAllLiteralString(x, "") == brokersTime.ReplaceAllLiteralString(y, "")
		})
	})
}

// attempt runs a script once. It returns what this library observed at each step, and
// what is not as declared. A step to which kafka-python does not answer is the last.
func (b *Bench) attempt(t *testing.T, script *Script) (ours [][]string, wrong []string) {
	t.Helper()
	n := runs.Add(1)
	a := attempt{Bench: b, name: fmt.Sprint(n), ours: fmt.Sprintf("side%do-", n), theirs: fmt.Sprintf("side%dp-", n)}
	if script.Steps[0].Words[0] == "shared" {
		a.theirs = a.ours
	}
	a.session = newSession(t, b.Bootstrap, a.ours)
	defer b.Original.End(a.name)
	for i := range script.Steps {
		step := &script.Steps[i]
		there, here, failed := a.do(t, step)
		ours = append(ours, here)
		if failed != nil {
			return ours, append(wrong, fmt.Sprintf("line %d: %v", step.Line, failed))
		}
		if faults := step.faults(there, here); len(faults) > 0 {
			wrong = append(wrong, step.tell(faults, there, here))
		}
	}
	return ours, wrong
}

// An attempt is one run of a script.
type attempt struct {
	*Bench
	name         string
	theirs, ours string // prefixes of names on the cluster
	session      *session
}

// do carries out a step with both clients, at the same time, or on the cluster. It fails
// when kafka-python does not answer.
func (a *attempt) do(t *testing.T, step *Step) (there, here []string, failed error) {
	t.Helper()
	if !step.isCall() {
		here = step.change(t, a.Cluster, a.ours, step.Ours)
		if a.theirs == a.ours {
			return here, here, nil
		}
		return step.change(t, a.Cluster, a.theirs, step.Original), here, nil
	}
	var took time.Duration
	var wg sync.WaitGroup
	began := time.Now()
	wg.Go(func() {
		there, failed = a.Original.Do(a.name, a.theirs, step.Words)
		took = time.Since(began)
	})
	here = a.session.do(step.Words)
	tookHere := time.Since(began)
	wg.Wait()
	t.Logf("line %d: %.2f s, here %.2f s", step.Line, took.Seconds(), tookHere.Seconds())
	return there, here, failed
}

// change carries out a step that is the cluster's, and looks again for a while at what is
// not yet as expected: brokers hear of some things in the background.
func (s *Step) change(t *testing.T, c *java.Driver, prefix string, expected []string) []string {
	t.Helper()
	if s.Why == "" {
		expected = s.Both
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		seen := change(t, c, prefix, s.Words)
		if expected == nil || slices.Equal(seen, expected) || time.Now().After(deadline) {
			return seen
		}
	}
}

// tell describes faults.
func (s *Step) tell(faults, theirs, ours []string) string {
	return fmt.Sprintf("line %d: %s: %s\nkafka-python:\n\t%s\nhere:\n\t%s", s.Line, strings.Join(s.Words, " "), strings.Join(faults, "; "),
		strings.Join(theirs, "\n\t"), strings.Join(ours, "\n\t"))
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

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Kinds of tests beside those named by -targets.
const (
	kindUnit       = "unit"
	kindTestbroker = "testbroker" // on the scripted broker
	kindHarness    = "harness"    // of the nested modules: what drives brokers and other clients
)

// A tally counts the tests that ended, by kind.
type tally struct {
	targets []string
	passed  map[string]int
	failed  map[string]int
	skipped map[string]int
	parents map[string]bool // tests that have subtests: those are counted, not they
}

func newTally(targets []string) *tally {
	return &tally{
		targets: targets,
		passed:  map[string]int{},
		failed:  map[string]int{},
		skipped: map[string]int{},
		parents: map[string]bool{},
	}
}

func (y *tally) add(e event, scripted bool) {
	if e.Test == "" {
		return
	}
	slash := strings.LastIndexByte(e.Test, '/')
	// The seeds of a fuzz test are one test.
	if slash > 0 && strings.HasPrefix(e.Test, "Fuzz") {
		return
	}
	if slash > 0 && e.Action == "run" {
		y.parents[e.Package+" "+e.Test[:slash]] = true
	}
	if y.parents[e.Package+" "+e.Test] {
		return
	}
	kind := y.kind(e, scripted)
	switch e.Action {
	case "pass":
		y.passed[kind]++
	case "fail":
		y.failed[kind]++
	case "skip":
		y.skipped[kind]++
	}
}

func (y *tally) kind(e event, scripted bool) string {
	for _, part := range strings.Split(e.Test, "/")[1:] {
		if slices.Contains(y.targets, part) {
			return part
		}
	}
	switch {
	case scripted:
		return kindTestbroker
	case strings.Contains(e.Package, "/internal/e2e"):
		return kindHarness
	}
	return kindUnit
}

func (y *tally) kinds() []string {
	kinds := append([]string{kindUnit, kindTestbroker, kindHarness}, y.targets...)
	return slices.DeleteFunc(kinds, func(k string) bool { return k == "" })
}

// table shows the counts, and after them the line by which a whole run is
// judged.
func (y *tally) table(least map[string]int) string {
	var b strings.Builder
	var passed, failed, skipped int
	fmt.Fprintf(&b, "%-12s %8s %8s %8s %8s\n", "tests on", "passed", "failed", "skipped", "at least")
	for _, k := range y.kinds() {
		fmt.Fprintf(&b, "%-12s %8d %8d %8d %8d", k, y.passed[k], y.failed[k], y.skipped[k], least[k])
		if y.notRun(k) {
			b.WriteString("   NOT RUN")
		}
		b.WriteString("\n")
		passed, failed, skipped = passed+y.passed[k], failed+y.failed[k], skipped+y.skipped[k]
	}
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return b.String()
}

// notRun tells whether all tests of a kind were skipped.
func (y *tally) notRun(kind string) bool {
	return y.skipped[kind] > 0 && y.passed[kind]+y.failed[kind] == 0
}

// missing names the kinds of which fewer tests ran than must. Outside of CI
// a kind may be skipped as a whole: there may be no JDK.
func (y *tally) missing(least map[string]int, ci bool) []string {
	var short []string
	for _, k := range y.kinds() {
		ran := y.passed[k] + y.failed[k]
		if ran < least[k] && (ci || y.skipped[k] == 0) {
			short = append(short, fmt.Sprintf("%s %d of %d", k, ran, least[k]))
		}
	}
	return short
}

// readCounts reads lines of a kind and a number; # begins a comment.
func readCounts(file string) (map[string]int, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("%s: want a kind and a number: %q", file, line)
		}
		if counts[fields[0]], err = strconv.Atoi(fields[1]); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return counts, nil
}

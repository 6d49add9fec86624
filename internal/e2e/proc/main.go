//go:build unix

package proc

import (
	"os"
	"sync"
	"testing"
)

var atExit struct {
	sync.Mutex
	funcs []func()
}

// AtExit has f called by Main when the tests have run, last one first.
func AtExit(f func()) {
	atExit.Lock()
	defer atExit.Unlock()
	atExit.funcs = append(atExit.funcs, f)
}

// Main is the TestMain of packages that share programs between their tests:
// it runs the tests, stops what they share and exits.
func Main(m *testing.M) {
	code := m.Run()
	atExit.Lock()
	funcs := atExit.funcs
	atExit.funcs = nil
	atExit.Unlock()
	for i := len(funcs) - 1; i >= 0; i-- {
		funcs[i]()
	}
	os.Exit(code)
}

// Missing ends the test because a program that it needs is not there: as
// skipped on a developer's machine, as failed under CI, where a test that
// silently does not run would look like one that passed.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("NOT RUN: %s", what)
	}
	t.Skipf("NOT RUN: %s", what)
}

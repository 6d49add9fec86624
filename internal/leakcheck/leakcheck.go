// Package leakcheck makes a package's tests fail when goroutines of this module
// are left after them.
package leakcheck

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// module is what stands in the stack of every goroutine that this module runs.
const module = "github.com/kafkaconsumer/kafka"

// grace is how long goroutines that were told to end may take.
const grace = 30 * time.Second

// Main runs the tests and exits. Call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if left := Wait(grace); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "leakcheck: %d goroutines are left:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// Wait waits until no goroutine of this module but the caller's own is left, at
// most the given time, and returns the stacks of those that are.
func Wait(limit time.Duration) []string {
	deadline := time.Now().Add(limit)
	for {
		left := stacks()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func stacks() []string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	var left []string
	for i, g := range strings.Split(string(buf), "\n\n") {
		if i > 0 && strings.Contains(g, module) { // the first is the caller's own
			left = append(left, strings.TrimSpace(g))
		}
	}
	return left
}

//go:build unix

// Package peer follows a consumer of another client that runs beside the
// library in one group.
package peer

import (
	"bufio"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// A Record is one that the peer consumed.
type Record struct {
	Topic      string // empty when the peer does not tell
	Partition  int32
	Offset     int64
	Key, Value string
}

// An Event is one line of a peer's output: a record, or the partitions that
// it owns now.
type Event struct {
	Record   *Record
	Assigned []int32 // partitions owned from now on; not nil when it is that kind of event
}

// A Consumer is a running peer. It is ended with the test.
type Consumer struct {
	name    string
	process *proc.Process
	log     string

	mu       sync.Mutex
	records  []Record
	assigned []int32
	changed  chan struct{} // closed and replaced at each event
	garbage  []string
}

// Start starts a peer whose standard output is understood by parse, line by
// line.
func Start(t testing.TB, name string, o proc.Options, parse func(line string) (Event, error)) *Consumer {
	t.Helper()
	c := &Consumer{name: name, log: filepath.Join(t.TempDir(), "peer.log"), changed: make(chan struct{})}
	o.Log, o.Pipe = c.log, true
	var err error
	if c.process, err = proc.Start(o); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read(parse)
	}()
	t.Cleanup(func() {
		c.process.Stop(10 * time.Second)
		<-read
		if t.Failed() {
			t.Logf("%s, last lines of its log:\n%s", name, proc.Tail(c.log, 20))
		}
	})
	return c
}

func (c *Consumer) read(parse func(string) (Event, error)) {
	lines := bufio.NewScanner(c.process.Stdout)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		e, err := parse(lines.Text())
		c.mu.Lock()
		switch {
		case err != nil:
			c.garbage = append(c.garbage, lines.Text())
		case e.Record != nil:
			c.records = append(c.records, *e.Record)
		default:
			c.assigned = e.Assigned
		}
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	}
}

// Records gives what was consumed so far, in its order.
func (c *Consumer) Records() []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.records)
}

// Assigned gives the partitions that the peer owns now, as far as it tells.
func (c *Consumer) Assigned() []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.assigned)
}

// Wait waits until done is true of the peer, at most timeout.
func (c *Consumer) Wait(t testing.TB, timeout time.Duration, what string, done func(*Consumer) bool) {
	t.Helper()
	end := time.After(timeout)
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if done(c) {
			return
		}
		select {
		case <-changed:
		case <-c.process.Done():
			t.Fatalf("%s ended (%v) before: %s\n%s", c.name, c.process.Err(), what, proc.Tail(c.log, 20))
		case <-end:
			t.Fatalf("%s: not within %s: %s (has %d records; not understood: %q)", c.name, timeout, what, len(c.Records()), c.garbage)
		}
	}
}

// WaitRecords waits until the peer consumed n records.
func (c *Consumer) WaitRecords(t testing.TB, n int) {
	t.Helper()
	c.Wait(t, 60*time.Second, "enough records", func(c *Consumer) bool { return len(c.Records()) >= n })
}

// Stop ends the peer in an orderly way: it commits and leaves its group.
func (c *Consumer) Stop() { c.process.Stop(20 * time.Second) }

// Kill ends it at once, as a crash does; the group learns by its timeout.
func (c *Consumer) Kill() { c.process.Kill() }

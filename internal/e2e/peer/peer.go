//go:build unix

// Package peer follows a consumer of another client that runs beside the
// library in one group.
package peer

import (
	"bufio"
	"encoding/json"
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
	At         int64 // when, in milliseconds; 0 when the peer does not tell
}

// An Event is one line of a peer's output: a record, the partitions that it
// owns now, or a fault.
type Event struct {
	Record   *Record
	Assigned []int32 // partitions owned from now on; not nil when it is that kind of event
	Lost     []int32 // partitions that the group took away without a word; likewise
	Fault    string
}

// A Program is how to run a peer.
type Program struct {
	Name  string
	Args  []string                         // program and arguments
	Env   []string                         // added to the environment
	Parse func(line string) (Event, error) // understands a line of its standard output
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

// Start starts a peer.
func Start(t testing.TB, p Program) *Consumer {
	t.Helper()
	c := &Consumer{name: p.Name, log: filepath.Join(t.TempDir(), "peer.log"), changed: make(chan struct{})}
	var err error
	c.process, err = proc.Start(proc.Options{Args: p.Args, Env: p.Env, Log: c.log, Pipe: true})
	if err != nil {
		t.Fatalf("start %s: %v", p.Name, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read(p.Parse)
	}()
	t.Cleanup(func() {
		c.Stop()
		<-read
		if t.Failed() {
			t.Logf("%s, last lines of its log:\n%s", p.Name, proc.Tail(c.log, 20))
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
		case e.Assigned != nil:
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
	c.Wait(t, 2*time.Minute, "enough records", func(c *Consumer) bool { return len(c.Records()) >= n })
}

// Stop ends the peer in an orderly way: it commits and leaves its group.
func (c *Consumer) Stop() { c.process.Stop(time.Minute) }

// Kill ends it at once, as a crash does; the group learns by its timeout.
func (c *Consumer) Kill() { c.process.Kill() }

// ParseJSON understands the lines of this repository's own consumers: a record
// with "topic", "partition", "offset", "key", "value" and "at"; {"assigned": […]},
// {"lost": […]}, {"fault": "…"}.
func ParseJSON(line string) (Event, error) {
	var l struct {
		Record
		Assigned, Lost []int32
		Fault          string
	}
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		return Event{}, err
	}
	if l.Assigned != nil || l.Lost != nil || l.Fault != "" {
		return Event{Assigned: l.Assigned, Lost: l.Lost, Fault: l.Fault}, nil
	}
	return Event{Record: &l.Record}, nil
}

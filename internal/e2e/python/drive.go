//go:build unix

package python

import (
	"bufio"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// A Driver is a process with kafka-python that carries out steps; drive.py tells which.
// Sessions with names of their own may be driven beside each other.
type Driver struct {
	process *proc.Process
	log     string

	mu       sync.Mutex
	in       *json.Encoder
	sessions map[string]chan []string
}

// Drive starts a Driver, which ends with the test.
func Drive(t testing.TB, bootstrap []string) *Driver {
	t.Helper()
	d := &Driver{log: filepath.Join(t.TempDir(), "drive.log"), sessions: map[string]chan []string{}}
	var err error
	d.process, err = proc.Start(proc.Options{
		Args: []string{kafkaPython.interpreter(t), script(t, "drive.py"), strings.Join(bootstrap, ",")}, Log: d.log, Pipe: true,
	})
	if err != nil {
		t.Fatalf("start kafka-python: %v", err)
	}
	d.in = json.NewEncoder(d.process.Stdin)
	read := make(chan struct{})
	go func() {
		defer close(read)
		d.read()
	}()
	t.Cleanup(func() {
		d.process.Stop(10 * time.Second)
		<-read
		if t.Failed() {
			t.Logf("kafka-python, last lines of its log:\n%s", proc.Tail(d.log, 20))
		}
	})
	return d
}

func (d *Driver) read() {
	lines := bufio.NewScanner(d.process.Stdout)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var m struct {
			Session string
			Lines   []string
		}
		if json.Unmarshal(lines.Bytes(), &m) == nil {
			d.answers(m.Session) <- m.Lines
		}
	}
}

// answers gives the channel of a session's answers: it has one step at a time.
func (d *Driver) answers(session string) chan []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sessions[session] == nil {
		d.sessions[session] = make(chan []string, 1)
	}
	return d.sessions[session]
}

// Do carries out one step in a session and gives what was observed. Names of topics and
// groups have the prefix on the broker.
func (d *Driver) Do(session, prefix string, words []string) ([]string, error) {
	answers := d.answers(session)
	if err := d.send(session, prefix, words); err != nil {
		return nil, err
	}
	select {
	case lines := <-answers:
		return lines, nil
	case <-time.After(2 * time.Minute):
		return nil, fmt.Errorf("kafka-python does not answer to %q", words)
	}
}

// End ends a session, and closes its consumers in the background.
func (d *Driver) End(session string) error { return d.send(session, "", nil) }

func (d *Driver) send(session, prefix string, words []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.in.Encode(map[string]any{"session": session, "prefix": prefix, "words": words}); err != nil {
		return fmt.Errorf("kafka-python: %w", err)
	}
	return nil
}

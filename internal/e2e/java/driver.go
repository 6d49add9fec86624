//go:build unix

// Package java drives Kafka's own clients and tools: a long-lived driver
// program with producers and an admin client (its source is in tools/), and
// the console consumer. They are the outside view of what the library does.
package java

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// commandTimeout bounds every command; it includes the driver's start.
const commandTimeout = 2 * time.Minute

// A Driver is the running driver program of one cluster. Its methods may be
// called from any goroutine; they end the test on an error.
type Driver struct {
	process *proc.Process
	log     string
	version string // of the brokers

	mu      sync.Mutex
	next    int
	waiting map[int]chan answer
	write   sync.Mutex // one line at a time; taken after mu, if both
}

type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
}

type driverOfCluster struct {
	once   sync.Once
	driver *Driver
	err    error
}

var drivers sync.Map // *broker.Cluster → *driverOfCluster

// For gives the driver of a cluster; the first call starts it. It ends with
// the test binary.
func For(t testing.TB, c *broker.Cluster) *Driver {
	t.Helper()
	v, _ := drivers.LoadOrStore(c, &driverOfCluster{})
	d := v.(*driverOfCluster)
	d.once.Do(func() { d.driver, d.err = start(c) })
	if d.err != nil {
		t.Fatalf("start the Java driver: %v", d.err)
	}
	return d.driver
}

func start(c *broker.Cluster) (*Driver, error) {
	release := broker.Tools(c.Version)
	classes, err := compiled(release)
	if err != nil {
		return nil, err
	}
	args, err := broker.JVM(release, "256m")
	if err != nil {
		return nil, err
	}
	args[len(args)-1] += string(os.PathListSeparator) + classes
	dir, err := os.MkdirTemp("", "kafka-driver-")
	if err != nil {
		return nil, err
	}
	d := &Driver{log: filepath.Join(dir, "driver.log"), version: c.Version, waiting: map[int]chan answer{}}
	d.process, err = proc.Start(proc.Options{Args: append(args, "Driver", join(c.Bootstrap())), Log: d.log, Pipe: true})
	if err != nil {
		return nil, err
	}
	proc.AtExit(func() {
		d.process.Kill()
		_ = os.RemoveAll(dir)
	})
	go d.read()
	return d, nil
}

// compiled gives the folder of the driver's classes for one release.
func compiled(release string) (string, error) {
	root, err := proc.Root()
	if err != nil {
		return "", err
	}
	sources, err := filepath.Glob(filepath.Join(root, "internal", "e2e", "tools", "*.java"))
	if err != nil {
		return "", err
	}
	return broker.Compile("driver/"+release, release, sources)
}

// read owns the standard output of the driver until it ends.
func (d *Driver) read() {
	lines := bufio.NewScanner(d.process.Stdout)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue // a tool of Java's printing where it should not
		}
		d.mu.Lock()
		ch := d.waiting[a.ID]
		delete(d.waiting, a.ID)
		d.mu.Unlock()
		if ch != nil {
			ch <- a
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, ch := range d.waiting {
		ch <- answer{Error: "the driver ended"}
	}
	d.waiting = nil
}

type args map[string]any

// do carries out one command; result may be nil.
func (d *Driver) do(t testing.TB, command string, a args, result any) {
	t.Helper()
	if err := d.try(command, a, result); err != nil {
		t.Fatalf("Java driver: %s: %v\n%s", command, err, proc.Tail(d.log, 10))
	}
}

func (d *Driver) try(command string, a args, result any) error {
	ch := make(chan answer, 1)
	d.mu.Lock()
	if d.waiting == nil {
		d.mu.Unlock()
		return errors.New("the driver ended")
	}
	d.next++
	id := d.next
	d.waiting[id] = ch
	d.mu.Unlock()

	request := args{"id": id, "cmd": command}
	for name, v := range a {
		request[name] = v
	}
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	d.write.Lock()
	_, err = d.process.Stdin.Write(append(line, '\n'))
	d.write.Unlock()
	if err != nil {
		return err
	}
	select {
	case got := <-ch:
		if got.Error != "" {
			return errors.New(got.Error)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(got.Result, result)
	case <-time.After(commandTimeout):
		return fmt.Errorf("no answer within %s", commandTimeout)
	}
}

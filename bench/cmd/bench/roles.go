package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kafkaconsumer/kafka/bench/clients"
	"github.com/kafkaconsumer/kafka/bench/replay"
)

const (
	firstRecordWithin = 20 * time.Second
	defaultWarmup     = 300 * time.Millisecond
	pollEvery         = 2 * time.Millisecond
)

// A task is what a measured process is to do.
type task struct {
	Client         string
	Job            clients.Job
	Idle           bool
	Total          int64 // records in the topic; 0: without end
	Warmup, Window time.Duration
	Profile        string // where to write profiles to
}

// A measurement is what a process used in its window.
type measurement struct {
	Records, Bytes int64
	Wall, CPU      time.Duration
	Allocs         uint64
	RSS            int64 // bytes at most, since the process began
	P50, P99       time.Duration
}

// cost returns the CPU time per record.
func (m measurement) cost() float64 { return float64(m.CPU) / float64(max(m.Records, 1)) }

// speed returns records per second of wall time.
func (m measurement) speed() float64 { return float64(m.Records) / m.Wall.Seconds() }

// serveReplay serves until the parent ends or closes the input.
func serveReplay(in *json.Decoder) error {
	var o replay.Options
	if err := in.Decode(&o); err != nil {
		return err
	}
	s, err := replay.Listen(o)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(s.Addrs()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// measureClient runs a client and prints what it used.
func measureClient(in *json.Decoder) error {
	var t task
	if err := in.Decode(&t); err != nil {
		return err
	}
	run := clients.All[t.Client]
	if run == nil {
		return fmt.Errorf("no client %q", t.Client)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	meter := new(clients.Meter)
	done := make(chan error, 1)
	go func() { done <- run(ctx, t.Job, meter) }()
	if err := awaitFirst(&t, meter, done); err != nil {
		return err
	}
	stop, err := startProfile(&t)
	if err != nil {
		return err
	}
	meter.Latencies()
	begin := takeSnapshot(meter)
	deadline := time.Now().Add(t.Window)
	for time.Now().Before(deadline) {
		if n, _ := meter.Read(); t.Total > 0 && n >= t.Total {
			break
		}
		pause := pollEvery
		if t.Total == 0 {
			pause = time.Until(deadline)
		}
		select {
		case err := <-done:
			return fmt.Errorf("%s ended: %w", t.Client, err)
		case <-time.After(pause):
		}
	}
	m := takeSnapshot(meter).since(begin)
	if err := stop(); err != nil {
		return err
	}
	if l := meter.Latencies(); len(l) > 0 {
		slices.Sort(l)
		m.P50, m.P99 = l[len(l)/2], l[len(l)*99/100]
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}

// awaitFirst waits until the client consumes, and for the time to warm up.
func awaitFirst(t *task, meter *clients.Meter, done <-chan error) error {
	for deadline := time.Now().Add(firstRecordWithin); ; {
		if n, _ := meter.Read(); n > 0 || t.Idle {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("no record came")
		}
		select {
		case err := <-done:
			return fmt.Errorf("%s ended: %w", t.Client, err)
		case <-time.After(pollEvery):
		}
	}
	time.Sleep(t.Warmup)
	return nil
}

func startProfile(t *task) (stop func() error, err error) {
	if t.Profile == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(filepath.Join(t.Profile, t.Client+".cpu.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			return err
		}
		h, err := os.Create(filepath.Join(t.Profile, t.Client+".allocs.pprof"))
		if err != nil {
			return err
		}
		defer h.Close()
		return pprof.Lookup("allocs").WriteTo(h, 0)
	}, nil
}

type snapshot struct {
	at             time.Time
	records, bytes int64
	cpu            time.Duration
	allocs         uint64
	rss            int64
}

func takeSnapshot(meter *clients.Meter) snapshot {
	var s snapshot
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.allocs = mem.Mallocs
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail for the process itself
	s.cpu = used(&usage)
	s.rss = cmp.Or(highWater(), usage.Maxrss<<10)
	s.records, s.bytes = meter.Read()
	s.at = time.Now()
	return s
}

func used(u *syscall.Rusage) time.Duration { return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }

// highWater returns the most memory that the process had resident, 0 where /proc does
// not tell. What getrusage tells includes the time before exec.
func highWater() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

func (s snapshot) since(begin snapshot) measurement {
	return measurement{
		Records: s.records - begin.records, Bytes: s.bytes - begin.bytes,
		Wall: s.at.Sub(begin.at), CPU: s.cpu - begin.cpu, Allocs: s.allocs - begin.allocs, RSS: s.rss,
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/bench/assign"
	"github.com/kafkaconsumer/kafka/bench/replay"
)

// A series is one kind of work at several sizes.
type series struct {
	name  string
	sizes []int
	at    func(size int) workload
}

// growthClients are the clients whose growth is measured.
var growthClients = []string{"franz", "kafka", "kafka-release"}

var allSeries = []series{
	{"partitions that are consumed, of which 10 have records, 1,000 msg/s", []int{10, 1_000, 10_000}, func(n int) workload {
		return workload{Serve: replay.Options{Partitions: n, Active: 10, Rate: 1000}, Warmup: time.Second, Window: 3 * time.Second}
	}},
	{"partitions that are consumed, of which 10 have records without end", []int{10, 1_000, 10_000}, func(n int) workload {
		return workload{Serve: replay.Options{Partitions: n, Active: 10}, Warmup: time.Second}
	}},
	{"partitions that are consumed, none has records", []int{10, 1_000, 10_000}, func(n int) workload {
		return workload{Serve: replay.Options{Partitions: n, Active: -1}, Idle: true, Warmup: 2 * time.Second, Window: 3 * time.Second}
	}},
	{"partitions in metadata that is refreshed every 250 ms, 10 are consumed, 1,000 msg/s", []int{1_000, 10_000, 100_000}, func(n int) workload {
		return workload{
			Serve: replay.Options{Partitions: n, Active: 10, Rate: 1000}, Assign: 10, MetadataMaxAge: 250 * time.Millisecond,
			Warmup: time.Second, Window: 3 * time.Second,
		}
	}},
	{"brokers, 6 partitions of 100 B records each", []int{1, 3, 9}, func(n int) workload {
		return workload{Serve: replay.Options{Brokers: n, Partitions: 6 * n}}
	}},
	{"bytes of a record's value", []int{1 << 10, 16 << 10, 256 << 10}, func(n int) workload {
		return workload{Serve: replay.Options{Value: n}}
	}},
}

// A step is a client's cost at one size.
type step struct {
	series string
	size   int
	client string
	cost   float64 // CPU nanoseconds per record, or per second where nothing comes
	idle   bool
	allocs float64 // per record, or per second
	memory int64   // bytes
	p99    time.Duration
}

// grow measures all series.
func (s *suite) grow() ([]step, error) {
	var steps []step
	var failed error
	for _, series := range allSeries {
		for _, size := range series.sizes {
			w := series.at(size)
			w.Name = fmt.Sprintf("%d %s", size, series.name)
			r, err := s.measure(&w, growthClients)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", w.Name, err))
			}
			for _, client := range order(&r) {
				steps = append(steps, newStep(series.name, size, client, &w, r.By[client]))
			}
		}
	}
	more, err := growAssignors()
	return append(steps, more...), errors.Join(failed, err)
}

func newStep(series string, size int, client string, w *workload, m measurement) step {
	st := step{series: series, size: size, client: client, idle: w.Idle, memory: m.RSS, p99: m.P99}
	if w.Idle {
		st.cost = float64(m.CPU) / m.Wall.Seconds()
		st.allocs = float64(m.Allocs) / m.Wall.Seconds()
		return st
	}
	st.cost, st.allocs = m.cost(), perRecord(m.Allocs, m.Records)
	return st
}

const partitionsPerMember = 10

// growAssignors measures the assignment of ten partitions for each member, and
// again without one of the members.
func growAssignors() (steps []step, err error) {
	for _, left := range []bool{false, true} {
		for _, members := range []int{100, 1_000, 10_000} {
			group := assign.NewGroup(members, 10, members*partitionsPerMember/10, false)
			name := "members with 10 partitions each, cooperative-sticky from scratch"
			if left {
				name = "members with 10 partitions each, cooperative-sticky after one left"
				if group, err = group.Settled(); err != nil {
					return nil, err
				}
			}
			both, err := assignOnce(group)
			if err != nil {
				return nil, err
			}
			for _, st := range both {
				st.series, st.size = name, members
				steps = append(steps, st)
			}
		}
	}
	return steps, nil
}

// assignOnce has franz-go and this library assign the group's partitions.
func assignOnce(group assign.Group) ([]step, error) {
	theirs, err := group.Franz(kgo.CooperativeStickyBalancer())
	if err != nil {
		return nil, err
	}
	franz, err := timeOnce(theirs)
	if err != nil {
		return nil, err
	}
	franz.client = "franz"
	in := group.Input()
	kafka, err := timeOnce(func() error {
		_, err := assignors.CooperativeSticky{}.Assign(in)
		return err
	})
	kafka.client = "kafka"
	return []step{franz, kafka}, err
}

// timeOnce takes the best of three runs.
func timeOnce(run func() error) (step, error) {
	var best step
	for i := range 3 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		begin := cpuTime()
		if err := run(); err != nil {
			return best, err
		}
		cost := float64(cpuTime() - begin)
		runtime.ReadMemStats(&after)
		if i == 0 || cost < best.cost {
			best = step{cost: cost, allocs: float64(after.Mallocs - before.Mallocs), memory: int64(after.TotalAlloc - before.TotalAlloc)}
		}
	}
	return best, nil
}

// cpuTime is the CPU time that the process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail for the process itself
	return used(&usage)
}

// growthTable is a section of RESULTS.md.
func growthTable(steps []step) string {
	var b strings.Builder
	b.WriteString("CPU time and memory as a function of size. CPU is per record, where nothing comes per second, for assignors per assignment;\n" +
		"*× first* compares with the first size of the same client; memory is the most that was resident, for assignors what one\n" +
		"assignment allocates.\n")
	last := ""
	for i, st := range steps {
		if st.series != last {
			fmt.Fprintf(&b, "\n### By %s\n\n| size | client | CPU | × first | allocations | memory, MiB | p99 |\n|---|---|---|---|---|---|---|\n", st.series)
			last = st.series
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %.2f | %.4g | %.1f | %s |\n", st.size, st.client, time.Duration(st.cost).Round(roundTo(st.cost)),
			st.cost/firstOf(steps[:i+1], st).cost, st.allocs, float64(st.memory)/(1<<20), short(st.p99))
	}
	return b.String()
}

func roundTo(ns float64) time.Duration {
	if ns < 1e6 {
		return 1
	}
	return 10 * time.Microsecond
}

// firstOf returns the same client's step of the smallest size.
func firstOf(steps []step, st step) step {
	for _, s := range steps {
		if s.series == st.series && s.client == st.client {
			return s
		}
	}
	return st
}

// writeSection replaces a section of RESULTS.md, or adds it.
func writeSection(folder, title, text string) error {
	path := filepath.Join(folder, "RESULTS.md")
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, []byte(replaceSection(string(b), title, text)), 0o644)
}

func replaceSection(file, title, text string) string {
	heading := "## " + title + "\n"
	section := heading + "\n" + strings.TrimSpace(text) + "\n"
	before, after, found := strings.Cut(file, heading)
	if !found {
		return strings.TrimRight(file, "\n") + "\n\n" + section
	}
	if i := strings.Index(after, "\n## "); i >= 0 {
		return before + section + after[i:]
	}
	return before + section
}

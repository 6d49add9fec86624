package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka/bench/clients"
	"github.com/kafkaconsumer/kafka/bench/replay"
)

// A suite is all that is measured.
type suite struct {
	clients   []string
	workloads []workload
	runs      int
	window    time.Duration
	kafka     string
	profile   string
}

// A row is what all clients did on one workload; each median stands by itself.
type row struct {
	workload
	By map[string]measurement
}

func (s *suite) run(folder string) error {
	began := time.Now()
	var rows []row
	var failed error
	for i := range s.workloads {
		r, err := s.measure(&s.workloads[i], s.clients)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.workloads[i].Name, err))
		}
		if len(r.By) == 0 {
			continue
		}
		rows = append(rows, r)
		fmt.Println(text(rows[len(rows)-1:]))
	}
	fmt.Println(text(rows))
	fmt.Printf("%d runs of %v each, %v in all\n", s.runs, s.window, time.Since(began).Round(time.Second))
	if folder != "" && len(rows) > 0 {
		failed = errors.Join(failed, writeResults(folder, s, rows))
	}
	return failed
}

// runGrowth measures how cost grows with size.
func (s *suite) runGrowth(folder string) error {
	steps, err := s.grow()
	text := growthTable(steps)
	fmt.Println(text)
	if folder != "" && len(steps) > 0 {
		err = errors.Join(err, writeSection(folder, "Growth", text))
	}
	return err
}

// A source is where clients consume from.
type source struct {
	job   clients.Job
	total int64
	close func()
}

func (s *suite) measure(w *workload, names []string) (row, error) {
	r := row{workload: *w, By: map[string]measurement{}}
	src, err := s.open(w)
	if err != nil {
		return r, err
	}
	defer src.close()
	all := map[string][]measurement{}
	var failed error
	for range s.runs {
		for _, name := range names {
			if slices.Contains(w.Skip, name) {
				continue
			}
			m, err := s.runClient(w, name, src)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
				continue
			}
			all[name] = append(all[name], m)
		}
	}
	for name, ms := range all {
		r.By[name] = median(ms)
	}
	return r, failed
}

func (s *suite) open(w *workload) (*source, error) {
	if w.Kafka {
		return openKafka(s.kafka, w)
	}
	p, err := startRole("replay", w.Serve)
	if err != nil {
		return nil, err
	}
	var addrs []string
	if err := json.NewDecoder(p.out).Decode(&addrs); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return &source{
		job: clients.Job{
			Brokers: addrs, Topic: replay.Topic, Partitions: cmp.Or(w.Assign, w.Serve.Partitions, 6),
			Timed: w.Serve.Rate > 0, MetadataMaxAge: w.MetadataMaxAge,
		},
		close: func() { _ = p.end() }, // nothing depends on how it ended
	}, nil
}

func (s *suite) runClient(w *workload, name string, src *source) (m measurement, err error) {
	t := task{Client: name, Job: src.job, Idle: w.Idle, Total: src.total, Warmup: w.Warmup, Window: s.window}
	if t.Warmup == 0 {
		t.Warmup = defaultWarmup
	}
	switch {
	case w.Kafka: // its log has an end
		t.Warmup, t.Window = pollEvery, time.Minute
	case w.Window > 0:
		t.Window = max(w.Window, s.window)
	}
	if s.profile != "" {
		t.Profile = filepath.Join(s.profile, strings.NewReplacer(" ", "-", ":", "", ",", "", "+", "", "/", "").Replace(w.Name))
		if err := os.MkdirAll(t.Profile, 0o755); err != nil {
			return m, err
		}
	}
	p, err := startRole("client", t)
	if err != nil {
		return m, err
	}
	err = json.NewDecoder(p.out).Decode(&m)
	if ended := p.end(); err != nil {
		return m, errors.Join(ended, err)
	}
	return m, nil
}

// A process is this program in another role.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
	err bytes.Buffer
}

func startRole(role string, input any) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	p.cmd.Stderr = &p.err
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(p.in).Encode(input); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

// end ends the process and says why it failed, if it did.
func (p *process) end() error {
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(p.err.Bytes()))
	}
	return nil
}

// median takes the median of each figure.
func median(ms []measurement) measurement {
	middle := slices.Clone(ms)
	slices.SortFunc(middle, func(a, b measurement) int { return compare(a.cost(), b.cost()) })
	m := middle[(len(middle)-1)/2] // CPU and what belongs to it from the same run
	pick := func(f func(measurement) int64) int64 {
		v := make([]int64, len(ms))
		for i := range ms {
			v[i] = f(ms[i])
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	m.RSS = pick(func(m measurement) int64 { return m.RSS })
	m.P50 = time.Duration(pick(func(m measurement) int64 { return int64(m.P50) }))
	m.P99 = time.Duration(pick(func(m measurement) int64 { return int64(m.P99) }))
	return m
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

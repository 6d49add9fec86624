// Command bench compares this library with other Kafka clients for Go: each run
// of a client is a process of its own, and runs are interleaved, so that what
// else the machine does meets all of them alike. What counts is CPU time per
// record, as the kernel counts it.
//
//	bench                      a short form
//	bench -full -results ...   everything, written down
//	bench -growth              how cost grows with partitions, brokers, members and record sizes
//	bench -list                what there is
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kafkaconsumer/kafka/bench/clients"
)

// The environment variable that makes a process one that is measured or served.
const roleVariable = "BENCH_ROLE"

func main() {
	if role := os.Getenv(roleVariable); role != "" {
		exit(playRole(role))
	}
	var (
		full      = flag.Bool("full", false, "all workloads, longer and more often")
		kafka     = flag.String("kafka", "", "release of a real Kafka to start for the workloads on Kafka, such as 4.4.0; needs a JDK and Maven")
		names     = flag.String("clients", "", "names of clients, separated by commas")
		workloads = flag.String("workloads", "", "the name of a workload, or parts of names, separated by commas")
		growth    = flag.Bool("growth", false, "only how cost grows with size; with -full it is a part")
		groups    = flag.Bool("groups", false, "only how quick members of groups are, on a real Kafka; with -full and -kafka it is a part")
		runs      = flag.Int("n", 0, "runs of each client")
		window    = flag.Duration("window", 0, "how long to measure in each run")
		results   = flag.String("results", "", "folder for RESULTS.md and results.svg")
		profile   = flag.String("profile", "", "folder for CPU and heap profiles of the clients")
		list      = flag.Bool("list", false, "list clients and workloads")
	)
	flag.Parse()
	if *list {
		fmt.Println("clients:  ", strings.Join(slices.Sorted(maps.Keys(clients.All)), " "))
		for _, w := range allWorkloads {
			fmt.Println("workload: ", w.Name)
		}
		return
	}
	s := &suite{runs: 1, window: time.Second, kafka: *kafka, profile: *profile}
	if *full {
		s.runs, s.window = 3, 2*time.Second
	}
	if *runs > 0 {
		s.runs = *runs
	}
	if *window > 0 {
		s.window = *window
	}
	s.clients = chooseClients(*names)
	s.workloads = chooseWorkloads(*workloads, *full, *kafka != "")
	g := &groupSuite{version: cmp.Or(*kafka, defaultKafka), clients: chooseMembers(*names), runs: cmp.Or(*runs, groupRuns)}
	only := *growth || *groups
	var failed error
	if *full || !only {
		failed = s.run(*results)
	}
	if *full || *growth {
		failed = errors.Join(failed, s.runGrowth(*results))
	}
	if *full && *kafka != "" || *groups {
		failed = errors.Join(failed, g.run(*results))
	}
	exit(failed)
}

// defaultKafka is the release that groups are measured on if none is named.
const defaultKafka = "4.4.0"

func chooseMembers(names string) []string {
	var chosen []string
	for _, name := range columns {
		if _, ok := clients.Members[name]; ok && (names == "" || slices.Contains(strings.Split(names, ","), name)) {
			chosen = append(chosen, name)
		}
	}
	return chosen
}

func chooseClients(names string) []string {
	if names != "" {
		return strings.Split(names, ",")
	}
	var all []string
	for _, name := range columns {
		if clients.All[name] != nil {
			all = append(all, name)
		}
	}
	return all
}

func chooseWorkloads(parts string, full, kafka bool) []workload {
	var chosen []workload
	for _, w := range allWorkloads {
		if w.Name == parts {
			return []workload{w}
		}
		wanted := full || w.short
		if parts != "" {
			wanted = slices.ContainsFunc(strings.Split(parts, ","), func(part string) bool { return strings.Contains(w.Name, part) })
		}
		if wanted && (kafka || !w.Kafka) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// playRole does what the parent process wants done: its standard input says
// what, and ends when the parent does.
func playRole(role string) error {
	signal.Ignore(syscall.SIGINT) // the parent ends its children itself
	in := json.NewDecoder(os.Stdin)
	switch role {
	case "replay":
		return serveReplay(in)
	case "client":
		return measureClient(in)
	case "member":
		return playMember(in)
	}
	return fmt.Errorf("role %q", role)
}

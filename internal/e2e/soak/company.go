//go:build unix

package soak

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/peer"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
	"github.com/kafkaconsumer/kafka/internal/e2e/python"
)

// Settings of all members.
const (
	sessionTimeout = 6 * time.Second
	heartbeat      = 500 * time.Millisecond
	autoCommit     = 500 * time.Millisecond
)

// The clients that are members.
const (
	ours      = "ours"
	console   = "console"
	pythonic  = "kafka-python"
	confluent = "confluent"
)

// A member is one running consumer of a group.
type member struct {
	name    string
	kind    string
	began   time.Time
	process *proc.Process
	log     string
	read    chan struct{} // closed when all of its output was taken in
	leaving bool          // its end is our doing
}

// program says how to run a member of a kind.
func program(t testing.TB, c *broker.Cluster, kind, group, topic string, strategies []string, rnd *rand.Rand) peer.Program {
	switch kind {
	case ours:
		return ourProgram(t, c, group, topic, strategies, rnd)
	case console:
		if isOld(c) {
			return oldConsole(t, c, group, topic, strategies)
		}
		return java.ConsoleProgram(t, c.Version, c.Bootstrap(), group, topic, map[string]string{
			"session.timeout.ms": ms(sessionTimeout), "heartbeat.interval.ms": ms(heartbeat), "auto.commit.interval.ms": ms(autoCommit),
			"partition.assignment.strategy": javaStrategies(strategies),
		})
	case pythonic:
		o := python.Options{
			"session_timeout_ms": sessionTimeout.Milliseconds(), "heartbeat_interval_ms": heartbeat.Milliseconds(),
			"auto_commit_interval_ms": autoCommit.Milliseconds(), "partition_assignment_strategy": strategies,
		}
		if isOld(c) {
			o["api_version"] = []int{0, 9}
		}
		return python.Program(t, c.Bootstrap(), group, topic, o)
	case confluent:
		o := python.Options{
			"session.timeout.ms": sessionTimeout.Milliseconds(), "heartbeat.interval.ms": heartbeat.Milliseconds(),
			"auto.commit.interval.ms": autoCommit.Milliseconds(), "partition.assignment.strategy": strings.Join(strategies, ","),
		}
		if isOld(c) {
			o["api.version.request"], o["broker.version.fallback"] = false, c.Version
		}
		return python.ConfluentProgram(t, c.Bootstrap(), group, topic, o)
	}
	panic("no member of kind " + kind)
}

// isOld tells whether clients must be told the release, which such a broker cannot
// tell itself.
func isOld(c *broker.Cluster) bool { return broker.Before(c.Version, "0.10") }

// oldConsole is the console consumer of the broker's own release. It prints values
// alone, which tell where the record is.
func oldConsole(t testing.TB, c *broker.Cluster, group, topic string, strategies []string) peer.Program {
	line, err := broker.JVM(c.Version, "128m")
	if err != nil {
		t.Fatalf("start the console consumer: %v", err)
	}
	file := filepath.Join(t.TempDir(), "consumer.properties")
	properties := fmt.Sprintf("group.id=%s\nsession.timeout.ms=%s\nheartbeat.interval.ms=%s\nauto.commit.interval.ms=%s\npartition.assignment.strategy=%s\n",
		group, ms(sessionTimeout), ms(heartbeat), ms(autoCommit), javaStrategies(strategies))
	if err := os.WriteFile(file, []byte(properties), 0o600); err != nil {
		t.Fatal(err)
	}
	line = append(line, "kafka.tools.ConsoleConsumer", "--new-consumer", "--bootstrap-server", strings.Join(c.Bootstrap(), ","),
		"--topic", topic, "--from-beginning", "--consumer.config", file)
	return peer.Program{Name: "the console consumer of its time", Args: line, Parse: func(line string) (peer.Event, error) {
		r := peer.Record{Value: line}
		_, err := fmt.Sscanf(line, "%d/%d", &r.Partition, &r.Offset)
		return peer.Event{Record: &r}, err
	}}
}

func ms(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

func javaStrategies(names []string) string {
	classes := map[string]string{"range": "Range", "roundrobin": "RoundRobin", "cooperative-sticky": "CooperativeSticky"}
	var out []string
	for _, n := range names {
		out = append(out, "org.apache.kafka.clients.consumer."+classes[n]+"Assignor")
	}
	return strings.Join(out, ",")
}

// ourProgram is this test binary as a member.
func ourProgram(t testing.TB, c *broker.Cluster, group, topic string, strategies []string, rnd *rand.Rand) peer.Program {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := order{
		Bootstrap: c.Bootstrap(), Group: group, Topic: topic, Strategies: strategies,
		Read:    pick(rnd, readPoll, readIterator, readChannel),
		Commit:  pick(rnd, commitAuto, commitAuto, commitSync, commitAsync),
		Session: sessionTimeout, Heartbeat: heartbeat, AutoCommit: autoCommit,
	}
	if isOld(c) {
		o.APIVersion = "0.9" // asking such a broker disturbs its other clients (KAFKA-3547)
	}
	if o.Read == readChannel && o.Commit == commitAuto {
		o.Commit = commitSync // of a channel the record received last is not committed by itself
	}
	what, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return peer.Program{
		Name: o.Read + "," + o.Commit, Args: []string{self}, Env: []string{memberVariable + "=" + string(what)}, Parse: peer.ParseJSON,
	}
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

// start starts a member that tells the ledger of what it consumes.
func (g *gathering) start(kind string) *member {
	g.t.Helper()
	g.started++
	p := program(g.t, g.cluster, kind, g.group, g.topic, g.strategiesOf(kind), g.rnd)
	m := &member{name: fmt.Sprintf("%s-%d", kind, g.started), kind: kind, began: time.Now(), read: make(chan struct{})}
	if kind == ours {
		m.name += "(" + p.Name + ")"
	}
	m.log = filepath.Join(g.logs, fmt.Sprintf("%s-%d.log", kind, g.started))
	var err error
	m.process, err = proc.Start(proc.Options{Args: p.Args, Env: p.Env, Log: m.log, Pipe: true})
	if err != nil {
		g.t.Fatalf("start %s: %v", m.name, err)
	}
	go g.follow(m, p.Parse)
	g.members = append(g.members, m)
	return m
}

// follow takes in the output of a member until it ends. A last line without an
// end is that of a member killed while it wrote.
func (g *gathering) follow(m *member, parse func(string) (peer.Event, error)) {
	defer close(m.read)
	lines := bufio.NewReader(m.process.Stdout)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSuffix(line, "\n")
		now := time.Now()
		e, err := parse(line)
		switch {
		case err != nil:
			g.ledger.fail("%s said %q", m.name, line)
		case e.Record != nil:
			if e.Record.At > 0 {
				now = time.UnixMilli(e.Record.At)
			}
			g.ledger.deliver(m.name, e.Record.Partition, e.Record.Offset, e.Record.Value, now)
		case e.Lost != nil:
			g.ledger.lose(m.name, e.Lost, now)
			g.note("%s lost %v", m.name, e.Lost)
		case e.Fault != "":
			g.note("%s: %s", m.name, e.Fault)
		default:
			g.ledger.own(m.name, e.Assigned)
			g.note("%s has %v", m.name, e.Assigned)
		}
	}
}

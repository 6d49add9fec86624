//go:build unix

// Package own drives the clients that came with a broker's own release: a
// program of Kafka's producer, topic commands and offset tools (its source is in
// java/), compiled against that release's jars. Other releases of Kafka's clients
// write and read differently, or do not talk to old brokers at all.
package own

import (
	"bufio"
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// commandTimeout bounds every command; it includes the program's start.
const commandTimeout = 2 * time.Minute

// Clients are the running program of one cluster. The methods may be called from
// any goroutine, and wait for each other; they end the test on an error.
type Clients struct {
	cluster *broker.Cluster
	process *proc.Process
	log     string

	mu    sync.Mutex
	lines chan string
	lost  bool // an answer is still to come that nobody waits for
}

// Start starts the program for a cluster, of the release that the cluster is now.
// It ends with the test.
func Start(t testing.TB, c *broker.Cluster) *Clients {
	t.Helper()
	classes, err := compiled(c.Version)
	if err != nil {
		t.Fatalf("compile against the clients of Kafka %s: %v", c.Version, err)
	}
	args, err := broker.JVM(c.Version, "256m")
	if err != nil {
		t.Fatalf("clients of Kafka %s: %v", c.Version, err)
	}
	args[len(args)-1] += string(os.PathListSeparator) + classes
	args = append(args, "Own", strings.Join(c.Bootstrap(), ","), c.ZooKeeper())
	o := &Clients{cluster: c, log: filepath.Join(t.TempDir(), "own.log"), lines: make(chan string, 1)}
	o.process, err = proc.Start(proc.Options{Args: args, Log: o.log, Pipe: true})
	if err != nil {
		t.Fatalf("start the clients of Kafka %s: %v", c.Version, err)
	}
	t.Cleanup(func() {
		o.process.Kill()
		if t.Failed() {
			t.Logf("clients of Kafka %s, last lines:\n%s", c.Version, proc.Tail(o.log, 20))
		}
	})
	go o.read() // until the program ends
	return o
}

// compiled gives the folder of the program's classes for a release.
func compiled(release string) (string, error) {
	root, err := proc.Root()
	if err != nil {
		return "", err
	}
	sources, err := sourcesFor(filepath.Join(root, "internal", "e2e", "own", "java"), release)
	if err != nil {
		return "", err
	}
	return broker.Compile("own/"+release, release, sources)
}

// sourcesFor chooses of each class the newest source that fits a release: each
// lies in a folder of the first release whose clients it is written for.
func sourcesFor(dir, release string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.java"))
	if err != nil {
		return nil, err
	}
	newest := map[string]string{} // class → file
	for _, f := range files {
		class := filepath.Base(f)
		if sinceOf(release, f) && (newest[class] == "" || sinceOf(filepath.Base(filepath.Dir(f)), newest[class])) {
			newest[class] = f
		}
	}
	return slices.Sorted(maps.Values(newest)), nil
}

// sinceOf tells whether a release is that of the file's folder, or a later one.
func sinceOf(release, file string) bool {
	return !broker.Before(release, filepath.Base(filepath.Dir(file)))
}

// read owns the standard output of the program until it ends.
func (o *Clients) read() {
	defer close(o.lines)
	lines := bufio.NewScanner(o.process.Stdout)
	for lines.Scan() {
		o.lines <- lines.Text()
	}
}

// do carries out one command and gives the values of its answer.
func (o *Clients) do(t testing.TB, fields ...string) []string {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost {
		t.Fatalf("clients of Kafka %s: an earlier command was not answered", o.cluster.Version)
	}
	if _, err := o.process.Stdin.Write([]byte(strings.Join(fields, "\t") + "\n")); err != nil {
		t.Fatalf("clients of Kafka %s: %v\n%s", o.cluster.Version, err, proc.Tail(o.log, 10))
	}
	select {
	case line, ok := <-o.lines:
		got := strings.Split(line, "\t")
		if !ok || got[0] != "ok" {
			t.Fatalf("clients of Kafka %s: %s: %q\n%s", o.cluster.Version, fields[0], line, proc.Tail(o.log, 10))
		}
		return got[1:]
	case <-time.After(commandTimeout):
		o.lost = true
		t.Fatalf("clients of Kafka %s: %s: no answer within %v", o.cluster.Version, fields[0], commandTimeout)
		return nil
	}
}

// CreateTopic makes a topic and waits until its partitions have leaders; configs
// may be nil.
func (o *Clients) CreateTopic(t testing.TB, topic string, partitions int, configs map[string]string) {
	t.Helper()
	o.do(t, "create", topic, strconv.Itoa(partitions), properties(configs))
	o.cluster.AwaitTopic(t, topic, partitions)
}

// AddPartitions grows a topic and waits until the new partitions have leaders.
func (o *Clients) AddPartitions(t testing.TB, topic string, from, to int) {
	t.Helper()
	o.do(t, "grow", topic, strconv.Itoa(from), strconv.Itoa(to))
	o.cluster.AwaitTopic(t, topic, to)
}

// Produce writes records of one topic, each with its partition, and waits for the
// broker's answers. Properties are those of Java's producer, such as
// compression.type; each set of them is a producer of its own that lives on.
func (o *Clients) Produce(t testing.TB, p map[string]string, records ...outside.Record) {
	t.Helper()
	fields := []string{"produce", records[0].Topic, properties(p)}
	for _, r := range records {
		timestamp := "-"
		if r.Timestamp != nil {
			timestamp = strconv.FormatInt(*r.Timestamp, 10)
		}
		item := []string{strconv.Itoa(int(*r.Partition)), timestamp, encode(r.Key), encode(r.Value)}
		for _, h := range r.Headers {
			item = append(item, encode([]byte(h.Key)), encode(h.Value))
		}
		fields = append(fields, strings.Join(item, ","))
	}
	o.do(t, fields...)
}

// A Transaction is one that a transactional producer has begun.
type Transaction struct {
	clients    *Clients
	properties map[string]string
}

// Begin begins a transaction; the same id gives the same producer.
func (o *Clients) Begin(t testing.TB, id string) *Transaction {
	t.Helper()
	x := &Transaction{clients: o, properties: map[string]string{"transactional.id": id}}
	o.do(t, "begin", properties(x.properties))
	return x
}

// Produce writes records in the transaction.
func (x *Transaction) Produce(t testing.TB, records ...outside.Record) {
	t.Helper()
	x.clients.Produce(t, x.properties, records...)
}

// Commit makes the records of the transaction visible.
func (x *Transaction) Commit(t testing.TB) {
	t.Helper()
	x.clients.do(t, "commit", properties(x.properties))
}

// Abort makes its records invisible to read_committed consumers for good.
func (x *Transaction) Abort(t testing.TB) {
	t.Helper()
	x.clients.do(t, "abort", properties(x.properties))
}

// Committed gives the committed offsets of a group in the partitions of a topic,
// -1 where there is none.
func (o *Clients) Committed(t testing.TB, group, topic string, partitions int) []int64 {
	t.Helper()
	var out []int64
	for _, s := range o.do(t, "committed", group, topic, strconv.Itoa(partitions)) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatalf("clients of Kafka %s: committed: %v", o.cluster.Version, err)
		}
		out = append(out, n)
	}
	return out
}

// Consume has the release's own consumer read n records of a topic, and gives what it
// measured of its fetches, by name: the metrics of all partitions together.
func (o *Clients) Consume(t testing.TB, topic string, partitions, n int) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, s := range o.do(t, "consume", topic, strconv.Itoa(partitions), strconv.Itoa(n)) {
		name, text, _ := strings.Cut(s, "=")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("clients of Kafka %s: consume: %v", o.cluster.Version, err)
		}
		out[name] = value
	}
	return out
}

func properties(p map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		out = append(out, name+"="+p[name])
	}
	return strings.Join(out, ",")
}

func encode(b []byte) string {
	if b == nil {
		return "-"
	}
	return base64.StdEncoding.EncodeToString(b)
}

//go:build unix

// Package python runs clients for Python, kafka-python and confluent-kafka, in
// virtual environments kept in .cache, as the other member of a group, and
// kafka-python as a producer.
package python

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/e2e/peer"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// An environment is a virtual environment with the packages that are pinned.
type environment struct {
	folder       string // in .cache
	requirements []string
}

var (
	kafkaPython = environment{"venv", []string{"kafka-python==3.0.12"}}
	confluent   = environment{"venv-confluent", []string{"confluent-kafka==2.16.1"}}
)

// interpreter gives the Python of the environment, made when it is not there
// yet. Without Python the test is skipped; under CI it fails.
func (e environment) interpreter(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		proc.Missing(t, e.requirements[0]+" needs Python 3")
	}
	dir, err := proc.Cached(e.folder, strings.Join(e.requirements, " "), func(dir string) error {
		if err := proc.Run("python3", "-m", "venv", dir); err != nil {
			return err
		}
		return proc.Run(append([]string{filepath.Join(dir, "bin", "pip"), "install", "--quiet"}, e.requirements...)...)
	})
	if err != nil {
		t.Fatalf("install %s: %v", e.requirements[0], err)
	}
	return filepath.Join(dir, "bin", "python")
}

func script(t testing.TB, name string) string {
	t.Helper()
	root, err := proc.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "internal", "e2e", "python", name)
}

// Options are keyword arguments of kafka-python's KafkaConsumer or
// KafkaProducer, or properties of confluent-kafka's Consumer; their values
// become JSON. partition_assignment_strategy is a list of the names that
// assignors have in the protocol.
type Options map[string]any

func (o Options) json(t testing.TB) string {
	t.Helper()
	if o == nil {
		return "{}"
	}
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Consumer starts a kafka-python consumer as a member of a group, reading
// from the beginning where the group has no committed offset.
func Consumer(t testing.TB, bootstrap []string, group, topic string, o Options) *peer.Consumer {
	t.Helper()
	return peer.Start(t, Program(t, bootstrap, group, topic, o))
}

// Program is what Consumer starts.
func Program(t testing.TB, bootstrap []string, group, topic string, o Options) peer.Program {
	t.Helper()
	return kafkaPython.program(t, "kafka-python", "consume.py", bootstrap, group, topic, o)
}

// ConfluentProgram is a consumer of confluent-kafka, which is librdkafka, as
// Program is one of kafka-python.
func ConfluentProgram(t testing.TB, bootstrap []string, group, topic string, o Options) peer.Program {
	t.Helper()
	return confluent.program(t, "confluent-kafka", "consume_confluent.py", bootstrap, group, topic, o)
}

func (e environment) program(t testing.TB, name, file string, bootstrap []string, group, topic string, o Options) peer.Program {
	t.Helper()
	args := []string{e.interpreter(t), script(t, file), strings.Join(bootstrap, ","), group, topic, o.json(t)}
	return peer.Program{Name: name, Args: args, Parse: peer.ParseJSON}
}

// A Record is one to produce; null keys and values are nil.
type Record struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Key       *string `json:"key"`
	Value     *string `json:"value"`
}

// Produce writes records with kafka-python's producer and waits for the
// answers; it gives their offsets.
func Produce(t testing.TB, bootstrap []string, o Options, records ...Record) []int64 {
	t.Helper()
	var in bytes.Buffer
	for _, r := range records {
		if err := json.NewEncoder(&in).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(kafkaPython.interpreter(t), script(t, "produce.py"), strings.Join(bootstrap, ","), o.json(t))
	cmd.Stdin = &in
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kafka-python producer: %v\n%s", err, stderr.String())
	}
	offsets := make([]int64, 0, len(records))
	for line := range strings.Lines(string(out)) {
		var got struct{ Offset int64 }
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(fmt.Errorf("kafka-python producer: %w", err))
		}
		offsets = append(offsets, got.Offset)
	}
	return offsets
}

//go:build unix

// Package python runs kafka-python, in a virtual environment kept in
// .cache/venv, as the other member of a group and as a producer.
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

// requirements pins the client that the library is compared with, and the
// codecs that it does not bring itself.
var requirements = []string{"kafka-python==3.0.12"}

// interpreter gives the Python of the virtual environment, made when it is
// not there yet. Without Python the test is skipped; under CI it fails.
func interpreter(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		proc.Missing(t, "kafka-python needs Python 3")
	}
	dir, err := proc.Cached("venv", strings.Join(requirements, " "), func(dir string) error {
		if err := proc.Run("python3", "-m", "venv", dir); err != nil {
			return err
		}
		return proc.Run(append([]string{filepath.Join(dir, "bin", "pip"), "install", "--quiet"}, requirements...)...)
	})
	if err != nil {
		t.Fatalf("install kafka-python: %v", err)
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
// KafkaProducer; their values become JSON.
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
	args := []string{interpreter(t), script(t, "consume.py"), strings.Join(bootstrap, ","), group, topic, o.json(t)}
	return peer.Start(t, "kafka-python", proc.Options{Args: args}, parse)
}

func parse(line string) (peer.Event, error) {
	var l struct {
		Topic      string
		Partition  int32
		Offset     int64
		Key, Value string
		Assigned   []int32
	}
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		return peer.Event{}, err
	}
	if l.Assigned != nil {
		return peer.Event{Assigned: l.Assigned}, nil
	}
	return peer.Event{Record: &peer.Record{Topic: l.Topic, Partition: l.Partition, Offset: l.Offset, Key: l.Key, Value: l.Value}}, nil
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
	cmd := exec.Command(interpreter(t), script(t, "produce.py"), strings.Join(bootstrap, ","), o.json(t))
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

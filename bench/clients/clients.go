// Package clients has a consumer of each client library that is compared: it
// reads all partitions of a topic from the beginning, looks at the length of
// every key and value, and keeps nothing.
package clients

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
)

// A Job is what to consume.
type Job struct {
	Brokers    []string
	Topic      string
	Partitions int  // the first ones of the topic
	Timed      bool // values begin with the time of their sending
	// MetadataMaxAge is how often metadata is asked for; 0: each client's default.
	MetadataMaxAge time.Duration
}

// A Client consumes until ctx ends. It returns nil then.
type Client func(ctx context.Context, job Job, m *Meter) error

// All are the clients that were built in, by name.
var All = map[string]Client{
	"kafka":          runKafka,
	"kafka-release":  runKafkaRelease,
	"kafka-iterator": runKafkaIterator,
	"franz":          runFranz,
	"franz-pooled":   runFranzPooled,
	"sarama":         runSarama,
	"kafka-go":       runKafkaGo,
	"floor":          runFloor,
}

// A Meter counts what a client consumes.
type Meter struct {
	records, bytes atomic.Int64

	mu        sync.Mutex
	latencies []time.Duration
}

// Add counts n records with size bytes of keys and values.
func (m *Meter) Add(n, size int) {
	m.records.Add(int64(n))
	m.bytes.Add(int64(size))
}

// Read returns what was counted.
func (m *Meter) Read() (records, bytes int64) { return m.records.Load(), m.bytes.Load() }

// Latencies returns how old the timed values were when they came, and forgets it.
func (m *Meter) Latencies() []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.latencies
	m.latencies = nil
	return l
}

func (m *Meter) time(value []byte) {
	age := time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(value))))
	m.mu.Lock()
	m.latencies = append(m.latencies, age)
	m.mu.Unlock()
}

// A tally counts the records of one goroutine and passes them on now and then.
type tally struct {
	m       *Meter
	job     *Job
	n, size int
}

func (t *tally) add(key, value []byte) {
	t.n++
	t.size += len(key) + len(value)
	if t.job.Timed {
		t.m.time(value)
	}
}

func (t *tally) flush() {
	t.m.Add(t.n, t.size)
	t.n, t.size = 0, 0
}

// flushSome is flush for clients that give one record at a time.
func (t *tally) flushSome() {
	if t.n >= 128 || t.job.Timed {
		t.flush()
	}
}

// fetchMaxWait is KafkaConsumer's default.
const fetchMaxWait = 500 * time.Millisecond

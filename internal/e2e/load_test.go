//go:build unix

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

// A load produces to all partitions of a topic, one after the other, until it
// is ended. The values of a partition count its records.
type load struct {
	stop, done chan struct{}

	mu    sync.Mutex
	acked []int64 // by partition
}

// loadBytes is about the size of a record of a load.
const loadBytes = 1000

func startLoad(t *testing.T, d *java.Driver, topic string, partitions int) *load {
	t.Helper()
	l := &load{stop: make(chan struct{}), done: make(chan struct{}), acked: make([]int64, partitions)}
	// Not to wait for a frozen broker for long.
	properties := map[string]string{"request.timeout.ms": "2000", "client.id": topic} // a producer of its own
	padding := strings.Repeat(".", loadBytes)
	go func() {
		defer close(l.done)
		for {
			var records []outside.Record
			for p, n := range l.counts() {
				for i := range int64(5) {
					records = append(records, outside.To(topic, int32(p), "", fmt.Sprint(n+i, padding)))
				}
			}
			d.Produce(t, properties, records...) // ends this goroutine when it fails
			l.mu.Lock()
			for p := range l.acked {
				l.acked[p] += 5
			}
			l.mu.Unlock()
			select {
			case <-l.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { l.end() })
	return l
}

// counts gives the number of acknowledged records, by partition.
func (l *load) counts() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int64(nil), l.acked...)
}

// end stops the load and gives the number of records, by partition.
func (l *load) end() []int64 {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	<-l.done
	return l.counts()
}

// A reader polls on a goroutine of its own, and checks that each partition's
// records come in order, each once.
type reader struct {
	c          *kafka.Consumer
	stop, done chan struct{}

	mu    sync.Mutex
	next  map[int32]int64
	wrong []string
	errs  []error
}

func startReader(t *testing.T, c *kafka.Consumer) *reader {
	t.Helper()
	r := &reader{c: c, stop: make(chan struct{}), done: make(chan struct{}), next: map[int32]int64{}}
	go func() {
		defer close(r.done)
		for {
			select {
			case <-r.stop:
				return
			default:
				r.poll(t)
			}
		}
	}()
	t.Cleanup(r.end)
	return r
}

// pollSlack is how much later than asked for a Poll may return while brokers
// that start take all of the processor.
const pollSlack = 2 * time.Second

func (r *reader) poll(t *testing.T) {
	const timeout = 200 * time.Millisecond
	began := time.Now()
	records, err := r.c.Poll(t.Context(), timeout)
	took := time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	if took > timeout+pollSlack {
		r.wrong = append(r.wrong, fmt.Sprintf("a Poll of %v took %v", timeout, took))
	}
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	for rec := range records.All() {
		want := r.next[rec.Partition]
		value, _, _ := strings.Cut(string(rec.Value), ".")
		if rec.Offset != want || value != fmt.Sprint(want) {
			r.wrong = append(r.wrong, fmt.Sprintf("record %s at offset %d of partition %d, want %d", value, rec.Offset, rec.Partition, want))
		}
		r.next[rec.Partition] = rec.Offset + 1
	}
}

func (r *reader) end() {
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	<-r.done
}

// has tells whether all that counts says was read.
func (r *reader) has(counts []int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, n := range counts {
		if r.next[int32(p)] < n {
			return false
		}
	}
	return true
}

// progress tells how far each partition was read, and which errors came.
func (r *reader) progress() (next map[int32]int64, errs []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.next), slices.Clone(r.errs)
}

// flows requires that records of all partitions which are produced from now on
// are read soon after their producer had its answer.
func flows(t *testing.T, what string, l *load, r *reader, soon time.Duration) {
	t.Helper()
	before := l.counts()
	waitFor(t, what+": producing goes on", func() bool { return t.Failed() || l.counts()[0] >= before[0]+10 })
	produced := time.Now()
	now := l.counts()
	for !r.has(now) && time.Since(produced) < soon {
		time.Sleep(10 * time.Millisecond)
	}
	next, errs := r.progress()
	require.True(t, r.has(now), "%s: records flow again within %v: %v of %v; errors %v", what, soon, next, now, errs)
	t.Logf("%s: read %v after the producer had its answer", what, time.Since(produced).Round(time.Millisecond))
}

// finish ends load and reader and requires that everything was read, once and
// in order, and that position, lag and commit are exact.
func finish(t *testing.T, target *Target, topic, group string, l *load, r *reader) {
	t.Helper()
	counts := l.end()
	waitFor(t, "everything is read", func() bool { return r.has(counts) })
	r.end()
	require.Empty(t, r.wrong)
	require.Empty(t, r.errs)
	require.NoError(t, r.c.Commit(t.Context()))
	stored := committed(t, target, group)
	for p, n := range counts {
		tp := kafka.TopicPartition{Topic: topic, Partition: int32(p)}
		require.Equal(t, n, position(t, r.c, tp))
		require.Equal(t, n, endOffset(t, r.c, tp))
		require.Equal(t, n, stored[tp])
	}
}

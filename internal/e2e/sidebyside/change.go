//go:build unix

package sidebyside

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

// change carries out a step that is the cluster's, for the client with this prefix, and
// gives what was observed.
func change(t *testing.T, c *java.Driver, prefix string, words []string) []string {
	t.Helper()
	plain, options := split(words[1:])
	tp := func() outside.TopicPartition { return place(t, prefix, plain[0]) }
	number := func(i int) int64 { return integer(t, plain[i]) }
	switch words[0] {
	case "shared":
	case "transaction":
		transaction(t, c, tp(), plain[1], int(number(2)))
	case "topic":
		options["retention.ms"] = "-1" // records have times of their own, and old ones
		c.CreateTopic(t, prefix+plain[0], int(number(1)), options)
	case "records":
		produce(t, c, tp(), int(number(1)), options)
	case "record":
		produce(t, c, tp(), 1, options)
	case "delete-records":
		c.DeleteRecords(t, tp().Topic, tp().Partition, number(1))
	case "add-partitions":
		c.AddPartitions(t, prefix+plain[0], int(number(1)))
		awaitPartitions(t, c, prefix+plain[0], int(number(1)))
	case "commit-for":
		o := outside.Offset{TopicPartition: place(t, prefix, plain[1]), Offset: number(2), Metadata: strings.Join(plain[3:], " "), LeaderEpoch: -1}
		c.SetCommitted(t, prefix+plain[0], o)
	case "group":
		return describe(t, c, prefix, plain[0])
	default:
		t.Fatalf("no step is called %q", words[0])
	}
	return nil
}

// producing is held while records are produced: flushing sends what others are about to
// produce too.
var producing sync.Mutex

// produce writes records. Options: key, value, time (ms) and header.NAME are those of the
// first record, "null" is null and "hex:…" any bytes; of further records the value and the
// time count up. codec is that of the batch.
func produce(t *testing.T, c outside.Cluster, tp outside.TopicPartition, n int, options map[string]string) {
	t.Helper()
	// All are in one batch, which goes out when the producer is flushed. How many batches there
	// would be otherwise, and so what consumers find together, is a matter of luck.
	properties := map[string]string{"linger.ms": "60000"}
	if codec := options["codec"]; codec != "" {
		properties["compression.type"] = codec
	}
	records := make([]outside.Record, n)
	for i := range records {
		r := outside.Record{Topic: tp.Topic, Partition: &tp.Partition, Key: []byte("k"), Value: fmt.Append(nil, i)}
		if v, ok := options["key"]; ok {
			r.Key = data(t, v)
		}
		if v, ok := options["value"]; ok {
			r.Value = data(t, v)
		}
		at := int64(1_600_000_000_000)
		if v, ok := options["time"]; ok {
			at = integer(t, v)
		}
		r.Timestamp = new(at + int64(i))
		for _, name := range slices.Sorted(maps.Keys(options)) {
			if header, ok := strings.CutPrefix(name, "header."); ok {
				r.Headers = append(r.Headers, outside.Header{Key: header, Value: data(t, options[name])})
			}
		}
		records[i] = r
	}
	producing.Lock()
	defer producing.Unlock()
	c.Produce(t, properties, records...)
}

// awaitPartitions waits until the broker tells clients of the partitions.
func awaitPartitions(t *testing.T, c *java.Driver, topic string, total int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(c.EndOffsets(t, topic)) < total; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not get %d partitions", topic, total)
		}
	}
}

// transaction writes n records in a transaction and commits it, aborts it, or leaves it
// open. What ends it is in the log afterwards: the producer hears before that it will be.
func transaction(t *testing.T, c *java.Driver, tp outside.TopicPartition, end string, n int) {
	t.Helper()
	x := c.Begin(t, fmt.Sprintf("%s-%s-%d", tp.Topic, end, n), nil)
	records := make([]outside.Record, n)
	for i := range records {
		records[i] = outside.To(tp.Topic, tp.Partition, "k", fmt.Sprint(end, i))
		records[i].Timestamp = new(int64(1_600_000_000_000))
	}
	written := x.Produce(t, records...)
	switch end {
	case "commit":
		x.Commit(t)
	case "abort":
		x.Abort(t)
	case "open":
		return
	default:
		t.Fatalf("a transaction is one of commit, abort and open, not %q", end)
	}
	awaitEnd(t, c, tp, written[n-1].Offset+2)
}

// awaitEnd waits until the log of a partition ends at an offset, or behind it.
func awaitEnd(t *testing.T, c *java.Driver, tp outside.TopicPartition, offset int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); c.EndOffsets(t, tp.Topic)[tp.Partition] < offset; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s-%d does not reach offset %d", tp.Topic, tp.Partition, offset)
		}
	}
}

// data makes bytes of a word.
func data(t *testing.T, word string) []byte {
	t.Helper()
	if word == "null" {
		return nil
	}
	if digits, ok := strings.CutPrefix(word, "hex:"); ok {
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return []byte(word)
}

// describe tells what a group has committed and how many members it has.
func describe(t *testing.T, c outside.Cluster, prefix, group string) []string {
	t.Helper()
	var lines []string
	for tp, o := range c.Committed(t, prefix+group) {
		lines = append(lines, fmt.Sprintf("%s/%d committed %d '%s'", strings.TrimPrefix(tp.Topic, prefix), tp.Partition, o.Offset, o.Metadata))
	}
	slices.Sort(lines)
	return append(lines, fmt.Sprintf("%d members", len(c.DescribeGroup(t, prefix+group).Members)))
}

// place makes a partition of a word like orders/0.
func place(t *testing.T, prefix, word string) outside.TopicPartition {
	t.Helper()
	topic, partition, ok := strings.Cut(word, "/")
	if !ok {
		t.Fatalf("%q is no TOPIC/PARTITION", word)
	}
	return outside.TopicPartition{Topic: prefix + topic, Partition: int32(integer(t, partition))}
}

func integer(t *testing.T, word string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

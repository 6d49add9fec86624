//go:build unix

package java

import (
	"strings"
	"testing"
)

// A Header is one header of a record.
type Header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"` // nil is null
}

// A Record is one to produce.
type Record struct {
	Topic     string   `json:"topic"`
	Partition *int32   `json:"partition"` // nil: the producer's partitioner chooses
	Key       []byte   `json:"key"`       // nil is null
	Value     []byte   `json:"value"`     // nil is null
	Headers   []Header `json:"headers,omitempty"`
	Timestamp *int64   `json:"timestamp"` // milliseconds; nil: now
}

// To makes a record for one partition.
func To(topic string, partition int32, key, value string) Record {
	return Record{Topic: topic, Partition: &partition, Key: []byte(key), Value: []byte(value)}
}

// A Position is where a produced record went.
type Position struct {
	Partition int32
	Offset    int64
}

// Produce writes records and waits for the broker's answers. Properties are
// those of Java's producer, such as compression.type; each set of them is a
// producer of its own that lives on for the next call.
func (d *Driver) Produce(t testing.TB, properties map[string]string, records ...Record) []Position {
	t.Helper()
	var got struct {
		Partitions []int32
		Offsets    []int64
	}
	d.do(t, "produce", args{"properties": properties, "records": records}, &got)
	out := make([]Position, len(got.Offsets))
	for i := range out {
		out[i] = Position{got.Partitions[i], got.Offsets[i]}
	}
	return out
}

// A Transaction is one begun and not yet ended. It is left open until Commit
// or Abort, or until the driver ends with the test binary.
type Transaction struct {
	driver     *Driver
	properties map[string]string
}

// Begin starts a transaction of a transactional producer; the same id gives
// the same producer.
func (d *Driver) Begin(t testing.TB, id string, properties map[string]string) *Transaction {
	t.Helper()
	p := map[string]string{"transactional.id": id}
	for name, value := range properties {
		p[name] = value
	}
	d.do(t, "tx-begin", args{"properties": p}, nil)
	return &Transaction{driver: d, properties: p}
}

// Produce writes records in the transaction and waits for the answers.
func (x *Transaction) Produce(t testing.TB, records ...Record) []Position {
	t.Helper()
	return x.driver.Produce(t, x.properties, records...)
}

// Commit ends the transaction; its records become visible.
func (x *Transaction) Commit(t testing.TB) {
	t.Helper()
	x.driver.do(t, "tx-commit", args{"properties": x.properties}, nil)
}

// Abort ends the transaction; read_committed consumers never see its records.
func (x *Transaction) Abort(t testing.TB) {
	t.Helper()
	x.driver.do(t, "tx-abort", args{"properties": x.properties}, nil)
}

func join(addrs []string) string { return strings.Join(addrs, ",") }

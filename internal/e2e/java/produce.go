//go:build unix

package java

import (
	"maps"
	"strings"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

// Produce writes records and waits for the broker's answers. Properties are
// those of Java's producer, such as compression.type; each set of them is a
// producer of its own that lives on for the next call.
func (d *Driver) Produce(t testing.TB, properties map[string]string, records ...outside.Record) []outside.Position {
	t.Helper()
	var got struct {
		Partitions []int32
		Offsets    []int64
	}
	all := maps.Clone(broker.ProducerProperties(d.version))
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, properties)
	d.do(t, "produce", args{"properties": all, "records": records}, &got)
	out := make([]outside.Position, len(got.Offsets))
	for i := range out {
		out[i] = outside.Position{Partition: got.Partitions[i], Offset: got.Offsets[i]}
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
	// The broker must not abort what is left open while a busy machine takes its time.
	p := map[string]string{"transactional.id": id, "transaction.timeout.ms": "600000"}
	maps.Copy(p, properties)
	d.do(t, "tx-begin", args{"properties": p}, nil)
	return &Transaction{driver: d, properties: p}
}

// Produce writes records in the transaction and waits for the answers.
func (x *Transaction) Produce(t testing.TB, records ...outside.Record) []outside.Position {
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

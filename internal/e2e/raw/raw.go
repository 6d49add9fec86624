//go:build unix

// Package raw sends brokers what no client would send, and looks at what they
// store.
package raw

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
)

// A Client speaks to the first node of a cluster, about partition 0 of topics.
type Client struct {
	client *kgo.Client
	broker *kgo.Broker
}

// Dial makes a Client that ends with the test.
func Dial(t testing.TB, bootstrap []string) *Client {
	t.Helper()
	// With the versions of 2.8 topics go by their names.
	c, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.MaxVersions(kversion.V2_8_0()))
	if err != nil {
		t.Fatalf("raw client: %v", err)
	}
	t.Cleanup(c.Close)
	return &Client{client: c, broker: c.Broker(1)}
}

func (c *Client) do(t testing.TB, req kmsg.Request) kmsg.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resp, err := c.broker.RetriableRequest(ctx, req)
	if err != nil {
		t.Fatalf("raw request %s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp
}

// A Producer is an idempotent one that only ever sends its first batch. From
// the second time on a broker takes it for a duplicate: it answers as it did
// and writes nothing, but begins a new segment first if it is time to.
type Producer struct {
	client *Client
	batch.Producer
}

// Producer makes one with an id of its own.
func (c *Client) Producer(t testing.TB) *Producer {
	t.Helper()
	var resp *kmsg.InitProducerIDResponse
	retry(t, "producer id", func() int16 {
		resp = c.do(t, kmsg.NewPtrInitProducerIDRequest()).(*kmsg.InitProducerIDResponse)
		return resp.ErrorCode
	})
	return &Producer{c, batch.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}}
}

// retry asks until the answer has no error, or one that stays: brokers and topics that are
// young have some that pass.
func retry(t testing.TB, what string, ask func() (code int16)) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		err := kerr.ErrorForCode(ask())
		if err == nil {
			return
		}
		if !kerr.IsRetriable(err) || time.Now().After(end) {
			t.Fatalf("raw %s: %v", what, err)
		}
	}
}

// Send sends the batch, a record with this key.
func (p *Producer) Send(t testing.TB, topic, key string) {
	t.Helper()
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = batch.V2{
		Producer: &p.Producer,
		Records:  []batch.Record{{Key: []byte(key), Value: []byte("value"), Timestamp: time.Now()}},
	}.Bytes()
	of := kmsg.NewProduceRequestTopic()
	of.Topic, of.Partitions = topic, append(of.Partitions, part)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, req.Topics = -1, 5000, append(req.Topics, of)
	retry(t, "produce", func() int16 {
		return p.client.do(t, req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
	})
}

// HasRecords tells whether the log holds a record at or behind an offset, in
// the first batch that is there.
func (c *Client) HasRecords(t testing.TB, topic string, offset int64) bool {
	t.Helper()
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	of := kmsg.NewFetchRequestTopic()
	of.Topic, of.Partitions = topic, append(of.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes, req.SessionEpoch, req.Topics = -1, 1<<20, -1, append(req.Topics, of)
	resp := c.do(t, req).(*kmsg.FetchResponse)
	got := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		t.Fatalf("raw fetch at %d: %v", offset, err)
	}
	const countAt, recordsAt = 57, 61 // in a batch
	b := got.RecordBatches
	return len(b) >= recordsAt && binary.BigEndian.Uint32(b[countAt:]) > 0
}

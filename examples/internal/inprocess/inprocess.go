// Package inprocess runs a Kafka broker inside the examples, for when no address
// of a real one is given.
package inprocess

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What the topic holds.
const (
	Orders     = 4000
	Partitions = 6
	customers  = 100
)

// Start starts a broker with a topic full of orders in JSON. It returns the broker's
// address, and a function that ends it.
func Start(ctx context.Context, topic string) (address string, stop func(), err error) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(Partitions, topic))
	if err != nil {
		return "", nil, err
	}
	address = broker.ListenAddrs()[0]
	if err := writeOrders(ctx, address, topic); err != nil {
		broker.Close()
		return "", nil, err
	}
	return address, broker.Close, nil
}

// writeOrders writes with another client, since this library only consumes.
func writeOrders(ctx context.Context, address, topic string) error {
	producer, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer producer.Close()
	items := []string{"apples", "pears", "plums", "figs"}
	records := make([]*kgo.Record, Orders)
	for i := range records {
		customer := fmt.Sprintf("customer-%02d", i%customers)
		value, err := json.Marshal(map[string]any{
			"customer": customer, "item": items[i%len(items)], "cents": 100 + i%900,
		})
		if err != nil {
			return err
		}
		records[i] = &kgo.Record{Key: []byte(customer), Value: value}
	}
	return producer.ProduceSync(ctx, records...).FirstErr()
}

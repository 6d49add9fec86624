package kafka_test

import (
	"fmt"

	"github.com/kafkaconsumer/kafka"
)

// Metrics have Kafka's names; their tags tell what they are about.
func ExampleConsumer_Metrics() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	cfg.ClientID = "billing-1"
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))
	must(c.PollMax(ctx, -1, 2))

	for _, m := range must(c.Metrics()) {
		switch m.Name.Name {
		case "records-lag", "records-consumed-total":
			fmt.Printf("%s{%s} = %v\n", m.Name.Name, m.Name.Tags, m.Value)
		}
	}
	// Output:
	// records-consumed-total{client-id=billing-1} = 2
	// records-consumed-total{client-id=billing-1,topic=orders} = 2
	// records-lag{client-id=billing-1,partition=0,topic=orders} = 1
}

// lagReporter keeps how far each partition is behind, and tells it at the end.
type lagReporter map[string]float64

func (r lagReporter) MetricChanged(m kafka.Metric) {
	if m.Name.Name == "records-lag" {
		r[m.Name.Tags] = m.Value
	}
}

func (r lagReporter) MetricRemoved(kafka.MetricName) {}

func (r lagReporter) Close() {
	for tags, lag := range r {
		fmt.Printf("%s: %v behind\n", tags, lag)
	}
}

// A reporter hears of values every MetricsSampleWindow, and of the last ones when the
// consumer is closed, which waits for it.
func ExampleMetricReporter() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	cfg.ClientID = "billing-1"
	cfg.MetricReporters = []kafka.MetricReporter{lagReporter{}}
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))
	must(c.PollMax(ctx, -1, 2))
	// Output: client-id=billing-1,partition=0,topic=orders: 1 behind
}

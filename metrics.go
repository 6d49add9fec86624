package kafka

// A MetricName identifies a metric: its group and name are those of kafka-python
// and Java, the tags tell what it is about (client-id, node-id, topic, partition).
type MetricName struct {
	Group string
	Name  string
	Tags  string // "key=value" pairs, sorted, joined by commas
}

// A Metric is a measured value.
type Metric struct {
	Name  MetricName
	Value float64
}

// A MetricReporter is told of each metric that appears, changes and goes.
type MetricReporter interface {
	// MetricChanged is called when a metric appears, and with its value at the end
	// of each MetricsSampleWindow.
	MetricChanged(Metric)
	// MetricRemoved is called when a metric goes.
	MetricRemoved(MetricName)
	// Close is called once, when the consumer is closed.
	Close()
}

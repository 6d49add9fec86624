package kafka

import (
	"time"
)

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

// A HealthState says how a consumer is doing.
type HealthState string

// The states of health.
const (
	HealthOK      HealthState = "ok"
	HealthWaiting HealthState = "waiting" // joining, looking up positions, or without a broker
	HealthStalled HealthState = "stalled" // records are known and do not come
	HealthFailed  HealthState = "failed"  // a terminal error
	HealthClosed  HealthState = "closed"
)

// Health is a snapshot of how a consumer is doing.
type Health struct {
	State      HealthState
	Reason     string
	Since      time.Time
	Partitions map[TopicPartition]PartitionHealth
}

// PartitionHealth is how one partition is doing.
type PartitionHealth struct {
	State    HealthState
	Reason   string
	Since    time.Time
	Position int64 // -1: none yet
	Lag      int64 // records; -1: unknown
}

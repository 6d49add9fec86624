package main

import (
	"time"

	"github.com/kafkaconsumer/kafka/bench/replay"
	"github.com/kafkaconsumer/kafka/protocol"
)

// columns are the clients in the order of the tables; the first is what the
// others are compared with.
var columns = []string{"franz", "franz-pooled", "sarama", "kafka-go", "confluent", "floor", "kafka", "kafka-release"}

// A workload is something to consume.
type workload struct {
	Name   string
	Kafka  bool // on a real Kafka instead of the replay broker
	Serve  replay.Options
	Wall   bool // records per second of wall time are compared instead of CPU time
	Idle   bool // nothing comes: CPU per second is compared
	Warmup time.Duration
	Window time.Duration // instead of the suite's
	Skip   []string      // clients
	Assign int           // partitions that are consumed; 0: all
	// MetadataMaxAge is how often metadata is asked for; 0: each client's default.
	MetadataMaxAge time.Duration

	short bool
	// The goals of this library without and with Release, in multiples of franz-go's defaults.
	Goal, GoalRelease float64
}

func codec(name string, c protocol.Codec, goal, release float64, kafka, short bool) workload {
	on := "replay"
	if kafka {
		on = "Kafka"
	}
	return workload{
		Name: on + ": 1 KiB JSON, " + name, Kafka: kafka, short: short, Goal: goal, GoalRelease: release,
		Serve: replay.Options{Value: 1 << 10, JSON: true, Codec: c},
	}
}

var allWorkloads = []workload{
	{Name: "replay: 10 B", Serve: replay.Options{Value: 10}, Goal: 4, GoalRelease: 6, short: true},
	{Name: "replay: 100 B", Serve: replay.Options{Value: 100}, Goal: 3, GoalRelease: 4.5, short: true},
	{Name: "replay: 100 B + 2 headers", Serve: replay.Options{Value: 100, Headers: 2}, Goal: 4, GoalRelease: 5, short: true},
	{Name: "replay: 1 KiB", Serve: replay.Options{Value: 1 << 10}, Goal: 1.5, GoalRelease: 2, short: true},
	{Name: "replay: one-record batches", Serve: replay.Options{Value: 100, Batch: 1}, Goal: 2.7, GoalRelease: 4, short: true},
	codec("lz4", protocol.CodecLZ4, 1.5, 2, false, true),
	codec("snappy", protocol.CodecSnappy, 1.2, 1.5, false, true),
	codec("zstd", protocol.CodecZstd, 1.15, 1.4, false, true),
	codec("gzip", protocol.CodecGzip, 1.1, 1.1, false, true),
	{
		Name: "replay: 1 KiB, RTT 5 ms, wall", Serve: replay.Options{Value: 1 << 10, RTT: 5 * time.Millisecond},
		Wall: true, Goal: 2, GoalRelease: 2, short: true, Skip: []string{"floor"},
	},
	{
		Name: "replay: 1 KiB, 3 brokers, RTT 5 ms, wall", Serve: replay.Options{Value: 1 << 10, RTT: 5 * time.Millisecond, Brokers: 3},
		Wall: true, Goal: 2, GoalRelease: 2, Skip: []string{"floor"},
	},
	{
		Name: "replay: 1,000 msg/s", Serve: replay.Options{Value: 100, Rate: 1000},
		Goal: 1.8, GoalRelease: 1.8, short: true, Window: 3 * time.Second,
	},
	{
		Name: "replay: idle, 10 partitions", Serve: replay.Options{Partitions: 10, Active: -1}, Idle: true,
		short: true, Warmup: time.Second, Window: 3 * time.Second,
		Skip: []string{"confluent"}, // does not wait with this broker, which says nothing of how it does with Kafka
	},
	{Name: "Kafka: 100 B", Kafka: true, Serve: replay.Options{Value: 100}, Goal: 2.8, GoalRelease: 3.5},
	{Name: "Kafka: 1 KiB", Kafka: true, Serve: replay.Options{Value: 1 << 10}, Goal: 1.5, GoalRelease: 2},
	codec("lz4", protocol.CodecLZ4, 1.5, 2, true, false),
	codec("snappy", protocol.CodecSnappy, 1.2, 1.5, true, false),
	codec("zstd", protocol.CodecZstd, 1.15, 1.4, true, false),
	codec("gzip", protocol.CodecGzip, 1.1, 1.1, true, false),
}

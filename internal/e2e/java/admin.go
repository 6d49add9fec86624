//go:build unix

package java

import (
	"strconv"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

// A Topic is the description of a topic.
type Topic struct {
	ID         string
	Partitions []struct {
		Partition, Leader int32
		Replicas, ISR     []int32
	}
}

// CreateTopic makes a topic; configs may be nil.
func (d *Driver) CreateTopic(t testing.TB, topic string, partitions int, configs map[string]string) {
	t.Helper()
	d.do(t, "create-topic", args{"topic": topic, "partitions": partitions, "configs": configs}, nil)
}

// CreateTopicOn makes a topic with the given replicas of each partition, the
// preferred leader first.
func (d *Driver) CreateTopicOn(t testing.TB, topic string, replicas [][]int32, configs map[string]string) {
	t.Helper()
	d.do(t, "create-topic", args{"topic": topic, "partitions": len(replicas), "replicas": replicas, "configs": configs}, nil)
}

// DeleteTopic deletes a topic and waits until it is gone.
func (d *Driver) DeleteTopic(t testing.TB, topic string) {
	t.Helper()
	d.do(t, "delete-topic", args{"topic": topic}, nil)
}

// AddPartitions grows a topic to total partitions.
func (d *Driver) AddPartitions(t testing.TB, topic string, total int) {
	t.Helper()
	d.do(t, "add-partitions", args{"topic": topic, "partitions": total}, nil)
}

// SetTopicConfig changes properties of a topic.
func (d *Driver) SetTopicConfig(t testing.TB, topic string, configs map[string]string) {
	t.Helper()
	d.do(t, "topic-config", args{"topic": topic, "configs": configs}, nil)
}

// DescribeTopic tells id, leaders and replicas.
func (d *Driver) DescribeTopic(t testing.TB, topic string) Topic {
	t.Helper()
	var out Topic
	d.do(t, "describe-topic", args{"topic": topic}, &out)
	return out
}

// MoveLeader makes node the leader of a partition, the only replica, and
// waits until it is.
func (d *Driver) MoveLeader(t testing.TB, topic string, partition, node int32) {
	t.Helper()
	d.do(t, "reassign", args{"topic": topic, "partition": partition, "nodes": []int32{node}}, nil)
	deadline := time.Now().Add(commandTimeout)
	for d.DescribeTopic(t, topic).Partitions[partition].Leader != node {
		if time.Now().After(deadline) {
			t.Fatalf("node %d does not become the leader of %s-%d", node, topic, partition)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ElectPreferred makes the first replica of a partition its leader.
func (d *Driver) ElectPreferred(t testing.TB, topic string, partition int32) {
	t.Helper()
	d.do(t, "elect-preferred", args{"topic": topic, "partition": partition}, nil)
}

// BeginningOffsets gives the first offset of every partition.
func (d *Driver) BeginningOffsets(t testing.TB, topic string) map[int32]int64 {
	t.Helper()
	return d.offsets(t, topic, "earliest")
}

// EndOffsets gives the offset after the last record of every partition.
func (d *Driver) EndOffsets(t testing.TB, topic string) map[int32]int64 {
	t.Helper()
	return d.offsets(t, topic, "latest")
}

// OffsetsForTime gives of every partition the offset of the first record not
// older than when, -1 where there is none.
func (d *Driver) OffsetsForTime(t testing.TB, topic string, when time.Time) map[int32]int64 {
	t.Helper()
	return d.offsets(t, topic, strconv.FormatInt(when.UnixMilli(), 10))
}

func (d *Driver) offsets(t testing.TB, topic, spec string) map[int32]int64 {
	t.Helper()
	var got []outside.Offset
	d.do(t, "offsets", args{"topic": topic, "spec": spec}, &got)
	out := map[int32]int64{}
	for _, o := range got {
		out[o.Partition] = o.Offset
	}
	return out
}

// DeleteRecords moves the beginning of a partition up to an offset.
func (d *Driver) DeleteRecords(t testing.TB, topic string, partition int32, before int64) {
	t.Helper()
	d.do(t, "delete-records", args{"topic": topic, "partition": partition, "offset": before}, nil)
}

// Committed gives the committed offsets of a group; absent means none.
func (d *Driver) Committed(t testing.TB, group string) map[outside.TopicPartition]outside.Offset {
	t.Helper()
	var got []outside.Offset
	d.do(t, "committed", args{"group": group}, &got)
	out := map[outside.TopicPartition]outside.Offset{}
	for _, o := range got {
		out[o.TopicPartition] = o
	}
	return out
}

// SetCommitted commits offsets for a group without members.
func (d *Driver) SetCommitted(t testing.TB, group string, offsets ...outside.Offset) {
	t.Helper()
	d.do(t, "alter-offsets", args{"group": group, "offsets": offsets}, nil)
}

// DescribeGroup tells the members of a group and what they own.
func (d *Driver) DescribeGroup(t testing.TB, group string) outside.Group {
	t.Helper()
	var out outside.Group
	d.do(t, "describe-group", args{"group": group}, &out)
	return out
}

// DeleteGroup deletes an empty group with its committed offsets.
func (d *Driver) DeleteGroup(t testing.TB, group string) {
	t.Helper()
	d.do(t, "delete-group", args{"group": group}, nil)
}

// Gauge gives the value of a metric of one node, by the name of its MBean.
func (d *Driver) Gauge(t testing.TB, c *broker.Cluster, node int32, name string) float64 {
	t.Helper()
	var out float64
	d.do(t, "gauge", args{"pid": strconv.Itoa(c.PID(node)), "name": name}, &out)
	return out
}

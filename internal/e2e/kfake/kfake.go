// Package kfake runs the in-process broker of the franz-go project as a
// cluster for tests that need no Java.
package kfake

import (
	"context"
	"fmt"
	"testing"
	"time"

	fake "github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
)

// timeout bounds each call to the broker.
const timeout = 30 * time.Second

// A Cluster is a running in-process broker: the embedded cluster with the
// faults and controls of its own, and the outside view that it shares with
// real Kafka.
type Cluster struct {
	*fake.Cluster
	client *kgo.Client
}

// The names that both have mean the outside view; the embedded one is meant
// by going through Cluster.Cluster.
var _ outside.Cluster = (*Cluster)(nil)

// Start starts a broker and ends it with the test. Session timeouts of 1 s
// are allowed; opts change that and the rest.
func Start(t testing.TB, opts ...fake.Opt) *Cluster {
	t.Helper()
	base := []fake.Opt{fake.NumBrokers(1), fake.GroupMinSessionTimeout(time.Second)}
	cluster, err := fake.NewCluster(append(base, opts...)...)
	if err != nil {
		t.Fatalf("start kfake: %v", err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatalf("start kfake: %v", err)
	}
	t.Cleanup(client.Close)
	return &Cluster{Cluster: cluster, client: client}
}

// Bootstrap gives the address of every node.
func (c *Cluster) Bootstrap() []string { return c.ListenAddrs() }

// CreateTopic makes a topic; configs may be nil.
func (c *Cluster) CreateTopic(t testing.TB, topic string, partitions int, configs map[string]string) {
	t.Helper()
	must(t, "create a topic", c.Cluster.CreateTopic(topic, int32(partitions), configs))
}

// DeleteTopic deletes a topic.
func (c *Cluster) DeleteTopic(t testing.TB, topic string) {
	t.Helper()
	must(t, "delete a topic", c.Cluster.DeleteTopic(topic))
}

// AddPartitions grows a topic to total partitions.
func (c *Cluster) AddPartitions(t testing.TB, topic string, total int) {
	t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	grow := kmsg.NewCreatePartitionsRequestTopic()
	grow.Topic, grow.Count = topic, int32(total)
	req.Topics = append(req.Topics, grow)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	resp, err := req.RequestWith(ctx, c.client)
	must(t, "add partitions", err)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		t.Fatalf("kfake: add partitions: error %d", code)
	}
}

// DeleteRecords moves the beginning of a partition up to an offset.
func (c *Cluster) DeleteRecords(t testing.TB, topic string, partition int32, before int64) {
	t.Helper()
	must(t, "delete records", c.Cluster.DeleteRecords(topic, partition, before))
}

// BeginningOffsets gives the first offset of every partition.
func (c *Cluster) BeginningOffsets(_ testing.TB, topic string) map[int32]int64 {
	out := map[int32]int64{}
	for _, p := range c.PartitionInfos(topic) {
		out[p.Partition] = p.LogStartOffset
	}
	return out
}

// EndOffsets gives the offset after the last record of every partition.
func (c *Cluster) EndOffsets(_ testing.TB, topic string) map[int32]int64 {
	out := map[int32]int64{}
	for _, p := range c.PartitionInfos(topic) {
		out[p.Partition] = p.HighWatermark
	}
	return out
}

// Committed gives the committed offsets of a group; absent means none.
func (c *Cluster) Committed(_ testing.TB, group string) map[outside.TopicPartition]outside.Offset {
	out := map[outside.TopicPartition]outside.Offset{}
	info := c.GroupInfo(group)
	if info == nil {
		return out
	}
	for topic, partitions := range info.Commits {
		for p, commit := range partitions {
			tp := outside.TopicPartition{Topic: topic, Partition: p}
			out[tp] = outside.Offset{TopicPartition: tp, Offset: commit.Offset, Metadata: commit.Metadata, LeaderEpoch: commit.LeaderEpoch}
		}
	}
	return out
}

// SetCommitted commits offsets for a group without members.
func (c *Cluster) SetCommitted(t testing.TB, group string, offsets ...outside.Offset) {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	for _, o := range offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = o.Partition, o.Offset, kmsg.StringPtr(o.Metadata)
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.TopicID = o.Topic, c.TopicInfo(o.Topic).TopicID
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	resp, err := req.RequestWith(ctx, c.client)
	must(t, "commit", err)
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 {
				t.Fatalf("kfake: commit of %s-%d: error %d", topic.Topic, p.Partition, p.ErrorCode)
			}
		}
	}
}

// DescribeGroup tells state and members.
func (c *Cluster) DescribeGroup(_ testing.TB, group string) outside.Group {
	info := c.GroupInfo(group)
	if info == nil {
		return outside.Group{State: "Dead"}
	}
	out := outside.Group{State: info.State}
	for _, m := range info.Members {
		member := outside.Member{MemberID: m.MemberID, ClientID: m.ClientID}
		if m.InstanceID != nil {
			member.GroupInstanceID = *m.InstanceID
		}
		for topic, partitions := range m.Assignment {
			for _, p := range partitions {
				member.Assignment = append(member.Assignment, outside.TopicPartition{Topic: topic, Partition: p})
			}
		}
		out.Members = append(out.Members, member)
	}
	return out
}

func must(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Errorf("kfake: %s: %w", what, err))
	}
}

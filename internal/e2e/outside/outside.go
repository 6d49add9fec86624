// Package outside has the words in which tests speak with a cluster past the
// library: what they put in and how they look at what it left behind.
package outside

import (
	"testing"
)

// A Cluster is Kafka seen from outside of the library: Java's clients on real
// brokers, the in-process broker's own methods on kfake. Its methods end the
// test on an error.
type Cluster interface {
	CreateTopic(t testing.TB, topic string, partitions int, configs map[string]string)
	DeleteTopic(t testing.TB, topic string)
	// AddPartitions grows a topic to total partitions.
	AddPartitions(t testing.TB, topic string, total int)
	// Produce writes records and waits for the answers. Properties are those
	// of Java's producer; kfake heeds compression.type.
	Produce(t testing.TB, properties map[string]string, records ...Record) []Position
	// DeleteRecords moves the beginning of a partition up to an offset.
	DeleteRecords(t testing.TB, topic string, partition int32, before int64)
	BeginningOffsets(t testing.TB, topic string) map[int32]int64
	EndOffsets(t testing.TB, topic string) map[int32]int64
	// Committed gives the committed offsets of a group; absent means none.
	Committed(t testing.TB, group string) map[TopicPartition]Offset
	// SetCommitted commits offsets for a group without members.
	SetCommitted(t testing.TB, group string, offsets ...Offset)
	// DescribeGroup tells state and members; a group that does not exist is
	// an error on Kafka 4 and "Dead" elsewhere.
	DescribeGroup(t testing.TB, group string) Group
}

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

// A TopicPartition names a partition.
type TopicPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// An Offset is a committed offset of a group.
type Offset struct {
	TopicPartition
	Offset      int64  `json:"offset"`
	Metadata    string `json:"metadata"`
	LeaderEpoch int32  `json:"leaderEpoch"` // -1: none
}

// A Member is one of a group.
type Member struct {
	MemberID, ClientID, GroupInstanceID string
	Assignment                          []TopicPartition
}

// A Group is the description of a consumer group.
type Group struct {
	State   string // "Stable", "Empty", "PreparingRebalance", …
	Members []Member
}

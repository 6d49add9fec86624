//go:build unix

package soak

import (
	"testing"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/own"
)

// A view is Kafka's own clients for a cluster.
type view interface {
	CreateTopic(t testing.TB, topic string, partitions int, configs map[string]string)
	produce(t testing.TB, records []outside.Record)
	// committed gives the committed offsets of a group, by partition.
	committed(t testing.TB, group, topic string) []int64
}

// viewOf gives today's clients where they still speak to the release, else those of
// its own time.
func viewOf(t testing.TB, c *broker.Cluster) view {
	if broker.Tools(c.Version) == "" {
		return ownView{own.Start(t, c)}
	}
	return javaView{java.For(t, c)}
}

type javaView struct{ *java.Driver }

func (v javaView) produce(t testing.TB, records []outside.Record) { v.Produce(t, nil, records...) }

func (v javaView) committed(t testing.TB, group, topic string) []int64 {
	offsets := make([]int64, topicPartitions)
	for tp, o := range v.Committed(t, group) {
		if tp.Topic == topic {
			offsets[tp.Partition] = o.Offset
		}
	}
	return offsets
}

type ownView struct{ *own.Clients }

func (v ownView) produce(t testing.TB, records []outside.Record) { v.Produce(t, nil, records...) }

func (v ownView) committed(t testing.TB, group, topic string) []int64 {
	return v.Committed(t, group, topic, topicPartitions)
}

//go:build unix

package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AwaitTopic waits until each of the partitions of a topic has a leader, as the
// first node tells: a topic is made in ZooKeeper or by the controller first, and the
// brokers learn of it a little later.
func (c *Cluster) AwaitTopic(t testing.TB, topic string, partitions int) {
	t.Helper()
	err := c.nodes[0].poll(startTimeout, func() error { return leads(c.nodes[0].addr(), topic, partitions) })
	if err != nil {
		t.Fatalf("topic %s: %v", topic, err)
	}
}

// Topics gives the names of all topics, as the first node tells.
func (c *Cluster) Topics(t testing.TB) []string {
	t.Helper()
	response, err := allTopics(c.nodes[0].addr())
	if err != nil {
		t.Fatalf("topics: %v", err)
	}
	var names []string
	for _, topic := range response.Topics {
		names = append(names, *topic.Topic)
	}
	return names
}

func leads(addr, topic string, partitions int) error {
	response, err := allTopics(addr)
	if err != nil {
		return err
	}
	led := 0
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if *t.Topic == topic && p.Leader >= 0 && kerr.ErrorForCode(p.ErrorCode) == nil {
				led++
			}
		}
	}
	if led != partitions {
		return fmt.Errorf("%d of %d partitions have a leader", led, partitions)
	}
	return nil
}

// allTopics asks with version 0 of Metadata, which every broker knows and whose
// empty list means all topics; a topic that is named could be made by that.
func allTopics(addr string) (*kmsg.MetadataResponse, error) {
	request, response := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataResponse()
	request.Topics = []kmsg.MetadataRequestTopic{}
	return response, ask(addr, request, response)
}

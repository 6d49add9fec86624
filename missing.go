package kafka

import (
	"fmt"
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/protocol"
)

// missingAfter is how long a topic that is subscribed to or assigned may be unknown to
// the brokers before it is told of. A topic may come to be later, so it is no error.
const missingAfter = 5 * time.Second

// missingTopics are topics that brokers do not know. It belongs to watch.
type missingTopics map[string]*absence

type absence struct {
	since time.Time
	told  bool
}

// follow takes over what metadata says of topics. It returns those that are to be told
// of now, and when to look again: zero for not before metadata changes.
func (m missingTopics) follow(md *cluster.Metadata, topics []string, now time.Time) (tell []string, again time.Duration) {
	absent := make(map[string]bool)
	for _, name := range topics {
		if !isMissing(md, name) {
			continue
		}
		absent[name] = true
		a := m[name]
		if a == nil {
			a = &absence{since: now}
			m[name] = a
		}
		left := missingAfter - now.Sub(a.since)
		switch {
		case a.told:
		case left <= 0:
			a.told = true
			tell = append(tell, name)
		case again == 0 || left < again:
			again = left
		}
	}
	for name := range m {
		if !absent[name] {
			delete(m, name)
		}
	}
	return tell, again
}

// tellMissing says which topics there are not.
func (c *Consumer) tellMissing(m missingTopics) (again time.Duration) {
	c.mu.Lock()
	topics := c.sub.Topics()
	c.mu.Unlock()
	tell, again := m.follow(c.cluster.Metadata(), topics, time.Now())
	for _, name := range tell {
		c.log.Warn("kafka: topic does not exist; waiting for it", "topic", name)
		c.events.add(EventRetrying{
			Operation: fmt.Sprintf("look-up of topic %q", name),
			Err:       &BrokerError{Broker: -1, API: "Metadata", Code: protocol.UnknownTopicOrPartition, Message: name},
		})
	}
	return again
}

// isMissing tells whether there is no such topic as far as is known.
func isMissing(md *cluster.Metadata, topic string) bool {
	t := md.Topics[topic]
	return t == nil || t.Err == protocol.UnknownTopicOrPartition
}

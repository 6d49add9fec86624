package testbroker

import "github.com/twmb/franz-go/pkg/kmsg"

// nameTopics puts the names of topics into requests about offsets that have only ids, so
// that rules and tests need not care. A topic that does not exist stays without.
func (c *Cluster) nameTopics(m kmsg.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := func(to *string, id [16]byte) {
		if t := c.ids[id]; t != nil && *to == "" {
			*to = t.name
		}
	}
	switch m := m.(type) {
	case *kmsg.OffsetCommitRequest:
		for i := range m.Topics {
			name(&m.Topics[i].Topic, m.Topics[i].TopicID)
		}
	case *kmsg.OffsetFetchRequest:
		for _, g := range m.Groups {
			for i := range g.Topics {
				name(&g.Topics[i].Topic, g.Topics[i].TopicID)
			}
		}
	}
}

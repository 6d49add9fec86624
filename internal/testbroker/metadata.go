package testbroker

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadata answers the same on every node; a rule with Node and Edit gives a
// node a view of its own.
func (c *Cluster) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := kmsg.NewPtrMetadataResponse()
	resp.ClusterID = &c.opts.clusterID
	resp.ControllerID = c.nodes[0].id
	for _, n := range c.nodes {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = n.id, n.host, n.port
		if rack, ok := c.opts.racks[n.id]; ok {
			b.Rack = &rack
		}
		resp.Brokers = append(resp.Brokers, b)
	}
	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		for _, name := range slices.Sorted(maps.Keys(c.topics)) {
			resp.Topics = append(resp.Topics, describe(c.topics[name]))
		}
		return resp
	}
	create := c.opts.autoCreate > 0 && (req.Version < 4 || req.AllowAutoTopicCreation)
	for _, t := range req.Topics {
		resp.Topics = append(resp.Topics, c.describeLocked(t, create))
	}
	return resp
}

func (c *Cluster) describeLocked(asked kmsg.MetadataRequestTopic, create bool) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	if asked.Topic == nil {
		if t := c.ids[asked.TopicID]; t != nil {
			return describe(t)
		}
		out.TopicID, out.ErrorCode = asked.TopicID, codeUnknownTopicID
		return out
	}
	name := *asked.Topic
	t := c.topics[name]
	switch {
	case t != nil:
		return describe(t)
	case !legalTopic(name):
		out.ErrorCode = codeInvalidTopic
	case create:
		return describe(c.createTopicLocked(name, c.opts.autoCreate))
	default:
		out.ErrorCode = codeUnknownTopic
	}
	out.Topic = &name
	return out
}

func describe(t *topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	name := t.name
	out.Topic, out.TopicID, out.IsInternal = &name, t.id, strings.HasPrefix(name, "__")
	for i, p := range t.partitions {
		part := kmsg.NewMetadataResponseTopicPartition()
		part.Partition, part.Leader, part.LeaderEpoch = int32(i), p.leader, p.epoch
		part.Replicas, part.ISR = slices.Clone(p.replicas), slices.Clone(p.replicas)
		if p.leader < 0 {
			part.ErrorCode = codeLeaderNotAvailable
		}
		out.Partitions = append(out.Partitions, part)
	}
	return out
}

func legalTopic(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > 249 {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	})
}

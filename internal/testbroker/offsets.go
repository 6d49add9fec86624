package testbroker

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const maxOffsetMetadata = 4096

// A CommittedOffset is what a group committed for a partition.
type CommittedOffset struct {
	Offset      int64
	LeaderEpoch int32 // -1: none told
	Metadata    string
	TopicID     [16]byte // of the topic that it is of; zero: the commit told none
}

// Committed returns a copy of what a group committed, by topic and partition.
func (c *Cluster) Committed(groupName string) map[string]map[int32]CommittedOffset {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]map[int32]CommittedOffset{}
	for topic, partitions := range c.groupLocked(groupName).offsets {
		out[topic] = maps.Clone(partitions)
	}
	return out
}

// CommittedOffset returns what a group committed for one partition, -1 for nothing.
func (c *Cluster) CommittedOffset(groupName, topic string, partition int32) int64 {
	if o, ok := c.Committed(groupName)[topic][partition]; ok {
		return o.Offset
	}
	return -1
}

// CommittedInZooKeeper is CommittedOffset for what OffsetCommit v0 stored: ZooKeeper and
// Kafka know nothing of each other's offsets.
func (c *Cluster) CommittedInZooKeeper(groupName, topic string, partition int32) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, _ := c.groupLocked(groupName).zooKeeper.get(topic, partition)
	return o.Offset
}

// SetCommitted stores an offset for a group, as a commit by somebody else.
func (c *Cluster) SetCommitted(groupName, topic string, partition int32, offset CommittedOffset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groupLocked(groupName).offsets.set(topic, partition, offset)
	c.wakeLocked()
}

// DropCommitted forgets what a group committed for a topic, as expiry does.
func (c *Cluster) DropCommitted(groupName, topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groupLocked(groupName).offsets, topic)
}

// offsetStore is what somebody keeps for a group, by topic and partition.
type offsetStore map[string]map[int32]CommittedOffset

func (s offsetStore) set(topic string, partition int32, offset CommittedOffset) {
	if s[topic] == nil {
		s[topic] = map[int32]CommittedOffset{}
	}
	s[topic][partition] = offset
}

func (s offsetStore) get(topic string, partition int32) (CommittedOffset, bool) {
	if o, ok := s[topic][partition]; ok {
		return o, true
	}
	return CommittedOffset{Offset: -1, LeaderEpoch: -1}, false
}

// storeLocked gives the group and the store that a version of a request is about: any
// node passes version 0 on to ZooKeeper, which knows nothing of members.
func (c *Cluster) storeLocked(n *node, groupName string, version int16) (*group, offsetStore, int16) {
	if version == 0 {
		g := c.groupLocked(groupName)
		return g, g.zooKeeper, 0
	}
	g, code := c.coordinatedLocked(n, groupName)
	if code != 0 {
		return nil, nil, code
	}
	return g, g.offsets, 0
}

func (c *Cluster) offsetCommit(n *node, req *kmsg.OffsetCommitRequest) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, store, code := c.storeLocked(n, req.Group, req.Version)
	if code == 0 && req.Version > 0 {
		code = g.mayCommit(req)
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		unknown := req.Version >= idVersion && c.ids[t.TopicID] == nil
		for _, p := range t.Partitions {
			part := kmsg.NewOffsetCommitResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, code
			switch {
			case code != 0:
			case unknown:
				part.ErrorCode = codeUnknownTopicID
			default:
				part.ErrorCode = c.commitLocked(store, req.Version, t, p)
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	c.wakeLocked()
	return resp
}

// mayCommit checks who commits: members with their generation, or, while the
// group has none, anyone without.
func (g *group) mayCommit(req *kmsg.OffsetCommitRequest) int16 {
	if req.Generation < 0 && req.MemberID == "" && req.InstanceID == nil {
		if g.state != groupEmpty {
			return codeUnknownMemberID
		}
		return 0
	}
	m, code := g.known(req.MemberID, req.InstanceID)
	switch {
	case code != 0:
		return code
	case req.Generation != g.generation:
		return codeIllegalGeneration
	case g.state == groupCompleting:
		return codeRebalanceInProgress
	}
	g.alive(m)
	return 0
}

// idVersion is the first version of OffsetCommit and OffsetFetch with topic ids in place
// of names.
const idVersion = 10

func (c *Cluster) commitLocked(store offsetStore, version int16, asked kmsg.OffsetCommitRequestTopic, p kmsg.OffsetCommitRequestTopicPartition) int16 {
	topic := asked.Topic
	if t := c.topics[topic]; t == nil || p.Partition < 0 || int(p.Partition) >= len(t.partitions) {
		return codeUnknownTopic
	}
	o := CommittedOffset{Offset: p.Offset, LeaderEpoch: -1, TopicID: asked.TopicID}
	if version >= 6 {
		o.LeaderEpoch = p.LeaderEpoch
	}
	if p.Metadata != nil {
		o.Metadata = *p.Metadata
	}
	if len(o.Metadata) > maxOffsetMetadata {
		return codeOffsetMetadataTooLarge
	}
	store.set(topic, p.Partition, o)
	return 0
}

// askedTopic is a topic of an OffsetFetch in either layout.
type askedTopic struct {
	name       string
	id         [16]byte
	partitions []int32
}

func (c *Cluster) offsetFetch(n *node, req *kmsg.OffsetFetchRequest) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := kmsg.NewPtrOffsetFetchResponse()
	if req.Version >= 8 {
		for _, asked := range req.Groups {
			resp.Groups = append(resp.Groups, c.fetchGroupLocked(n, asked, req.Version))
		}
		return resp
	}
	var asked []askedTopic
	for _, t := range req.Topics {
		asked = append(asked, askedTopic{name: t.Topic, partitions: t.Partitions})
	}
	g, store, code := c.storeLocked(n, req.Group, req.Version)
	resp.ErrorCode = code
	if code == 0 && req.Topics == nil && req.Version >= 2 {
		asked = g.allTopics()
	}
	for _, t := range asked {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = t.name
		for _, partition := range t.partitions {
			part := kmsg.NewOffsetFetchResponseTopicPartition()
			o, found := store.get(t.name, partition)
			part.Partition, part.Offset, part.LeaderEpoch, part.Metadata = partition, o.Offset, o.LeaderEpoch, &o.Metadata
			switch {
			case code != 0 && req.Version < 2:
				part.ErrorCode = code
			case !found && req.Version == 0: // ZooKeeper's way of saying that there is none
				part.ErrorCode = codeUnknownTopic
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func (c *Cluster) fetchGroupLocked(n *node, asked kmsg.OffsetFetchRequestGroup, version int16) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = asked.Group
	g, code := c.coordinatedLocked(n, asked.Group)
	if code != 0 {
		out.ErrorCode = code
		return out
	}
	topics := g.allTopics()
	if asked.Topics != nil {
		topics = nil
		for _, t := range asked.Topics {
			topics = append(topics, askedTopic{t.Topic, t.TopicID, t.Partitions})
		}
	} else if version >= idVersion {
		for i := range topics {
			if t := c.topics[topics[i].name]; t != nil {
				topics[i].id = t.id
			}
		}
	}
	for _, t := range topics {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = t.name, t.id
		unknown := version >= idVersion && c.ids[t.id] == nil
		for _, partition := range t.partitions {
			part := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			o, _ := g.offsets.get(t.name, partition)
			if unknown {
				part.ErrorCode = codeUnknownTopicID
			}
			if unknown || version >= idVersion && o.TopicID != [16]byte{} && o.TopicID != t.id {
				o, _ = offsetStore(nil).get(t.name, partition)
			}
			part.Partition, part.Offset, part.LeaderEpoch, part.Metadata = partition, o.Offset, o.LeaderEpoch, &o.Metadata
			topic.Partitions = append(topic.Partitions, part)
		}
		out.Topics = append(out.Topics, topic)
	}
	return out
}

func (g *group) allTopics() []askedTopic {
	var out []askedTopic
	for _, name := range slices.Sorted(maps.Keys(g.offsets)) {
		out = append(out, askedTopic{name: name, partitions: slices.Sorted(maps.Keys(g.offsets[name]))})
	}
	return out
}

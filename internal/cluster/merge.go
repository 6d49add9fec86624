package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// trustedEpochs is the first version of Metadata whose leader epochs are
	// true: before it brokers gave outdated ones after a restart (KAFKA-9212).
	trustedEpochs = 9

	// maxOlder is how many answers in a row with something older than what is
	// known are put down to brokers that lag behind. One more, and the cluster
	// was rebuilt.
	maxOlder = 4
)

// An Answer is one answer to Metadata and what is needed to read it.
type Answer struct {
	Response *kmsg.MetadataResponse
	Node     int32 // who gave it, NoNode for a bootstrap address
	At       time.Time
	// Named are the topics that were asked for: one that is not in the
	// response does not exist.
	Named []string
	// All: all topics were asked for and are wanted, and what is neither in the
	// response nor named is forgotten. Else only those in Named are wanted, and
	// other topics stay as they were.
	All bool
}

// Changes tells what a merge did.
type Changes struct {
	// Ignored: something in the answer was older than what is known, so
	// another one should be asked for.
	Ignored bool
	// Recreated are the topics that have a new id.
	Recreated []string
}

// Merge takes an answer into a snapshot (nil: none yet) and returns the next
// one. It never changes old.
//
// Leader epochs of the same topic never go backward, because a broker that
// lags behind would send the client to a leader that is none any more; a lower
// one is ignored maxOlder times in a row. A new topic id, or an answer without
// epochs, is taken at once.
func Merge(old *Metadata, a Answer) (*Metadata, Changes) {
	if old == nil {
		old = emptyMetadata()
	}
	r := a.Response
	next := &Metadata{
		ClusterID: old.ClusterID, Controller: old.Controller,
		Topics: make(map[string]*Topic, len(r.Topics)), Updated: a.At,
	}
	if r.ClusterID != nil {
		next.ClusterID = *r.ClusterID
	}
	if r.Version >= 1 {
		next.Controller = r.ControllerID
	}
	if !a.All {
		maps.Copy(next.Topics, old.Topics)
	}
	var ch Changes
	mergeTopics(next, old, a, &ch)
	next.Brokers = mergeBrokers(old, next, r.Brokers)
	return next, ch
}

func emptyMetadata() *Metadata {
	return &Metadata{Controller: NoNode, Brokers: map[int32]BrokerInfo{}, Topics: map[string]*Topic{}}
}

func mergeTopics(next, old *Metadata, a Answer, ch *Changes) {
	named := make(map[string]bool, len(a.Named)) // true once it was answered
	for _, name := range a.Named {
		named[name] = false
	}
	for i := range a.Response.Topics {
		t := &a.Response.Topics[i]
		if t.Topic == nil || *t.Topic == "" {
			continue
		}
		name := *t.Topic
		if _, ok := named[name]; ok {
			named[name] = true
		} else if !a.All {
			continue
		}
		next.Topics[name] = mergeTopic(old.Topics[name], t, a, ch)
	}
	for name, answered := range named {
		if !answered {
			next.Topics[name] = withError(old.Topics[name], name, protocol.UnknownTopicOrPartition, a)
		}
	}
}

func mergeTopic(old *Topic, t *kmsg.MetadataResponseTopic, a Answer, ch *Changes) *Topic {
	name := *t.Topic
	if code := protocol.ErrorCode(t.ErrorCode); code != protocol.None {
		return withError(old, name, code, a)
	}
	next := &Topic{Name: name, ID: t.TopicID, Internal: t.IsInternal || a.Response.Version < metadataTellsInternal && name == offsetsTopic}
	if old == nil {
		next.Partitions = partitionsOf(t, a.Response.Version)
		next.history = history{}.exists(int32(len(next.Partitions)))
		return next
	}
	next.history, next.former = old.history, old.former
	switch {
	case isZero(t.TopicID):
		next.ID = old.ID
	case !isZero(old.ID) && t.TopicID != old.ID:
		if old.former.has(t.TopicID) && old.former.seen < maxOlder {
			ch.Ignored = true
			kept := *old
			kept.former.seen++
			return &kept
		}
		ch.Recreated = append(ch.Recreated, name)
		next.former = old.former.with(old.ID)
		next.Partitions = partitionsOf(t, a.Response.Version)
		next.history = history{missing: true}
		return next
	}
	next.former.seen = 0
	next.Partitions = mergePartitions(old, next.ID, partitionsOf(t, a.Response.Version), ch)
	next.history = next.history.exists(int32(len(next.Partitions)))
	return next
}

// Below metadataTellsInternal an answer does not tell which topics are internal. Of those
// that came later, brokers that old have but offsetsTopic.
const (
	metadataTellsInternal = 1
	offsetsTopic          = "__consumer_offsets"
)

func isZero(id [16]byte) bool { return id == [16]byte{} }

// withError is a topic of which the answer gives nothing but an error. What
// was known of its partitions is kept until brokers agree that it is gone.
func withError(old *Topic, name string, code protocol.ErrorCode, a Answer) *Topic {
	next := &Topic{Name: name}
	if old != nil {
		kept := *old
		next = &kept
	}
	next.Err = code
	if code != protocol.UnknownTopicOrPartition {
		return next
	}
	before := next.history
	next.history.missing = false
	next.history = next.history.unknown(a.Node, a.At)
	if next.history.missing {
		next.Partitions = nil
	} else {
		next.history.missing, next.history.missingFrom = before.missing, before.missingFrom
	}
	return next
}

// partitionsOf indexes the partitions of an answer by their number. Numbers
// far beyond the count are those of a broken broker: room for them is not made.
func partitionsOf(t *kmsg.MetadataResponseTopic, version int16) []Partition {
	limit := int32(2*len(t.Partitions) + 16)
	count := int32(0)
	for i := range t.Partitions {
		if n := t.Partitions[i].Partition; n >= 0 && n < limit {
			count = max(count, n+1)
		}
	}
	out := make([]Partition, count)
	for i := range out {
		out[i] = Partition{Err: protocol.LeaderNotAvailable, Leader: NoNode, LeaderEpoch: -1}
	}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.Partition < 0 || p.Partition >= count {
			continue
		}
		epoch := int32(-1)
		if version >= trustedEpochs {
			epoch = max(p.LeaderEpoch, -1)
		}
		out[p.Partition] = Partition{
			Err: protocol.ErrorCode(p.ErrorCode), Leader: max(p.Leader, NoNode), LeaderEpoch: epoch,
			Replicas: p.Replicas, ISR: p.ISR,
		}
	}
	return out
}

// mergePartitions takes the partitions of an answer into those known of the
// same topic.
func mergePartitions(old *Topic, id [16]byte, next []Partition, ch *Changes) []Partition {
	for i := range min(len(next), len(old.Partitions)) {
		was := old.Partitions[i]
		if next[i].LeaderEpoch < 0 || next[i].LeaderEpoch >= was.LeaderEpoch || was.older >= maxOlder {
			continue
		}
		was.older++
		next[i] = was
		ch.Ignored = true
	}
	// A topic never loses partitions while it keeps its id.
	if len(next) < len(old.Partitions) && !isZero(id) && id == old.ID {
		next = append(next, old.Partitions[len(next):]...)
		ch.Ignored = true
	}
	return next
}

// mergeBrokers returns the brokers of an answer, and those that lead a
// partition by what is known although this answer does not list them.
func mergeBrokers(old, next *Metadata, answered []kmsg.MetadataResponseBroker) map[int32]BrokerInfo {
	brokers := make(map[int32]BrokerInfo, len(answered))
	for i := range answered {
		b := &answered[i]
		if b.NodeID < 0 || b.Host == "" || b.Port <= 0 || b.Port > 65535 {
			continue
		}
		info := BrokerInfo{Addr: conn.Addr{Host: b.Host, Port: b.Port}}
		if b.Rack != nil {
			info.Rack = *b.Rack
		}
		brokers[b.NodeID] = info
	}
	if len(brokers) == 0 {
		// Brokers that have just started know of none, not even themselves.
		return maps.Clone(old.Brokers)
	}
	for _, t := range next.Topics {
		for i := range t.Partitions {
			leader := t.Partitions[i].Leader
			if info, ok := old.Brokers[leader]; ok {
				if _, listed := brokers[leader]; !listed {
					brokers[leader] = info
				}
			}
		}
	}
	return brokers
}

// withLeader returns the snapshot with a newer leader of one partition, and
// false if there is nothing newer in it.
func withLeader(old *Metadata, tp protocol.TopicPartition, leader, epoch int32, endpoint *BrokerInfo) (*Metadata, bool) {
	p, ok := old.Partition(tp)
	if !ok || leader < 0 || epoch <= p.LeaderEpoch {
		return old, false
	}
	next := *old
	if endpoint != nil {
		next.Brokers = maps.Clone(old.Brokers)
		next.Brokers[leader] = *endpoint
	} else if _, ok := old.Brokers[leader]; !ok {
		return old, false
	}
	t := *old.Topics[tp.Topic]
	t.Partitions = slices.Clone(t.Partitions)
	p.Err, p.Leader, p.LeaderEpoch, p.older = protocol.None, leader, epoch, 0
	t.Partitions[tp.Partition] = p
	next.Topics = maps.Clone(old.Topics)
	next.Topics[tp.Topic] = &t
	return &next, true
}

// within returns the snapshot with only those topics that a user is interested
// in.
func (m *Metadata) within(named map[string]bool, all bool) *Metadata {
	if all {
		return m
	}
	next := *m
	next.Topics = make(map[string]*Topic, len(named))
	for name := range named {
		if t := m.Topics[name]; t != nil {
			next.Topics[name] = t
		}
	}
	return &next
}

// unsettled tells whether something about the topics is bound to change soon,
// so that it should be asked again: an error, or a partition without a leader.
func (m *Metadata) unsettled(named map[string]bool) bool {
	for name := range named {
		t := m.Topics[name]
		if t == nil {
			return true
		}
		if t.Err != protocol.None && t.Err != protocol.InvalidTopicException {
			return true
		}
		for i := range t.Partitions {
			if t.Partitions[i].Leader < 0 {
				return true
			}
		}
	}
	return false
}

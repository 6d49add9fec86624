package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/protocol"
)

// NoNode is the id of a leader, a controller or a coordinator that is not
// known, and of a broker that was reached by a bootstrap address.
const NoNode int32 = -1

// Metadata is what is known of a cluster at one time. It is never changed once
// it is published, and neither is what it points to.
type Metadata struct {
	ClusterID  string // "" below 0.10.1
	Controller int32  // NoNode where it is not known
	Brokers    map[int32]BrokerInfo
	Topics     map[string]*Topic
	// Updated is the time of the newest answer in it.
	Updated time.Time
}

// BrokerInfo is what the metadata says of one broker.
type BrokerInfo struct {
	Addr conn.Addr
	Rack string // "" where there is none
}

// Topic is what is known of one topic.
type Topic struct {
	Name     string
	ID       [16]byte // zero below Metadata v10 (2.8)
	Internal bool
	// Err is what the last answer said of the whole topic, such as
	// UnknownTopicOrPartition. Partitions may still hold what was known before.
	Err protocol.ErrorCode
	// Partitions is indexed by the number of the partition.
	Partitions []Partition

	history history
	former  formerIDs
}

// Partition is what is known of one partition.
type Partition struct {
	Err         protocol.ErrorCode
	Leader      int32 // NoNode when there is none now
	LeaderEpoch int32 // -1 where it is not known, or cannot be trusted
	Replicas    []int32
	ISR         []int32

	// older counts the answers in a row whose epoch was lower and which were
	// ignored therefore.
	older int
}

// Topic returns what is known of a topic, nil when it was never asked for or
// not answered yet.
func (m *Metadata) Topic(name string) *Topic { return m.Topics[name] }

// Partition returns what is known of a partition, and false if nothing is.
func (m *Metadata) Partition(tp protocol.TopicPartition) (Partition, bool) {
	t := m.Topics[tp.Topic]
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions) {
		return Partition{Leader: NoNode, LeaderEpoch: -1}, false
	}
	return t.Partitions[tp.Partition], true
}

// UnknownConfirmed tells whether, since this client became interested in the
// topic, brokers said that it does not exist in two answers that came from
// different brokers or at least a second apart, or gave it a new id. It stays
// true when the topic appears later: everything in it is younger than the
// interest then.
func (t *Topic) UnknownConfirmed() bool { return t.history.missing && t.history.missingFrom == 0 }

// Appeared tells whether a partition was seen to come into being since this
// client became interested in the topic: the topic was seen without it, or
// UnknownConfirmed holds.
func (t *Topic) Appeared(partition int32) bool {
	return t.history.missing && partition >= t.history.missingFrom
}

// UnknownSince returns the time of the first of the answers in a row that say
// that the topic does not exist, their number, and the ids of the brokers that
// gave them (NoNode: a bootstrap address); no answers while it exists.
func (t *Topic) UnknownSince() (since time.Time, answers int, nodes []int32) {
	h := &t.history
	return h.unknownAt, h.unknownAnswers, h.unknownNodes
}

// confirmAfter is how far two answers of the same broker must be apart to
// count as two: within it they may come from the same outdated state.
const confirmAfter = time.Second

// history remembers what was seen of a topic's absence.
type history struct {
	// missing tells that partitions from missingFrom on were seen not to exist.
	missing     bool
	missingFrom int32

	unknownAt      time.Time
	unknownAnswers int
	unknownNodes   []int32
}

// exists takes in an answer in which the topic has so many partitions.
func (h history) exists(partitions int32) history {
	// A topic that is being made can be listed without partitions; that says
	// nothing of what will be in it.
	if partitions > 0 && (!h.missing || partitions < h.missingFrom) {
		h.missing, h.missingFrom = true, partitions
	}
	h.unknownAt, h.unknownAnswers, h.unknownNodes = time.Time{}, 0, nil
	return h
}

// unknown takes in an answer that does not know the topic.
func (h history) unknown(node int32, at time.Time) history {
	if h.unknownAnswers == 0 {
		h.unknownAt = at
	}
	h.unknownAnswers++
	if !slices.Contains(h.unknownNodes, node) {
		h.unknownNodes = append(slices.Clone(h.unknownNodes), node)
	}
	if h.unknownAnswers >= 2 && (at.Sub(h.unknownAt) >= confirmAfter || distinct(h.unknownNodes) >= 2) {
		h.missing, h.missingFrom = true, 0
	}
	return h
}

// distinct counts brokers that are known to be different ones: a bootstrap
// address may belong to any of them.
func distinct(nodes []int32) int {
	n := len(nodes)
	if slices.Contains(nodes, NoNode) {
		n--
	}
	return n
}

// formerIDs are the ids that a topic had before it was deleted and created
// again, the newest last. A broker that lags behind still tells them.
type formerIDs struct {
	ids [][16]byte
	// seen counts the answers in a row that were ignored for having one.
	seen int
}

const maxFormerIDs = 4

func (f formerIDs) with(id [16]byte) formerIDs {
	ids := append(slices.Clone(f.ids), id)
	return formerIDs{ids: ids[max(0, len(ids)-maxFormerIDs):]}
}

func (f formerIDs) has(id [16]byte) bool { return slices.Contains(f.ids, id) }

// sameMetadata tells whether a user of two snapshots sees no difference.
func sameMetadata(a, b *Metadata) bool {
	return a.ClusterID == b.ClusterID && a.Controller == b.Controller &&
		maps.Equal(a.Brokers, b.Brokers) && maps.EqualFunc(a.Topics, b.Topics, sameTopic)
}

func sameTopic(a, b *Topic) bool {
	return a == b || a.Name == b.Name && a.ID == b.ID && a.Internal == b.Internal && a.Err == b.Err &&
		a.history.missing == b.history.missing && a.history.missingFrom == b.history.missingFrom &&
		slices.EqualFunc(a.Partitions, b.Partitions, samePartition)
}

func samePartition(a, b Partition) bool {
	return a.Err == b.Err && a.Leader == b.Leader && a.LeaderEpoch == b.LeaderEpoch &&
		slices.Equal(a.Replicas, b.Replicas) && slices.Equal(a.ISR, b.ISR)
}

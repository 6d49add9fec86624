package fetch

import (
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// topicIDVersion is the first Fetch version that names topics by their ids alone
// (KIP-516), cappedVersion the first whose answers have a cap (KIP-74),
// sessionVersion the first that knows sessions (KIP-227).
const (
	topicIDVersion = 13
	cappedVersion  = 3
	sessionVersion = 7
)

// A Request is a Fetch request and its answer, reused from one to the next.
// Building and applying it are for the holder of the Table; in between it belongs
// to whoever sends it and reads the answer.
type Request struct {
	Wire     protocol.FetchRequest
	Version  int16
	members  []*member // every partition that the broker may answer for
	byKey    map[protocol.TopicPartition]*member
	answered []*member
	room     int64 // reserved until the answer is applied
	longest  int32 // that the answer may be, in bytes
	guess    int   // index in members where the next partition of the answer may be

	parts     []protocol.FetchPartition // what Wire.Topics is cut from
	forgotten []int32                   // what Wire.Forgotten is cut from
}

// A member is a partition that a broker was asked for, and where it stood then.
type member struct {
	p         *Partition
	tp        protocol.TopicPartition
	topicID   [16]byte
	index     int // in members
	refetched uint64
	since     time.Time               // from when on the session's answers tell that nothing has changed
	exact     bool                    // a batch begins there: one that begins before it was damaged
	wire      protocol.FetchPartition // as the broker knows it
	answer    answer
	behind    bool    // on the session's list of members whose logs go on
	vacant    vacancy // what the last answer brought nothing of
}

// key is how an answer of the request names the member.
func (q *Request) key(m *member) protocol.TopicPartition {
	if q.Version >= topicIDVersion {
		return protocol.TopicPartition{Topic: string(m.topicID[:]), Partition: m.tp.Partition}
	}
	return m.tp
}

// add makes p a member.
func (q *Request) add(p *Partition) *member {
	m := &member{p: p, tp: p.tp, topicID: p.topicID, index: len(q.members)}
	q.members = append(q.members, m)
	if q.byKey == nil {
		q.byKey = make(map[protocol.TopicPartition]*member)
	}
	q.byKey[q.key(m)] = m
	return m
}

// ask takes over where the member's partition stands. It returns whether the broker
// has to be told.
func (m *member) ask() (changed bool) {
	p := m.p
	wire := protocol.FetchPartition{
		Partition:          p.tp.Partition,
		CurrentLeaderEpoch: p.leaderEpoch,
		FetchOffset:        p.fetchOffset,
		LastFetchedEpoch:   p.fetchEpoch,
		MaxBytes:           p.size,
	}
	if wire.LastFetchedEpoch > p.leaderEpoch && p.leaderEpoch >= 0 {
		wire.LastFetchedEpoch = -1 // of a cluster that was built anew
	}
	if p.source != p.leader { // a follower may not have heard of the newest epoch
		wire.CurrentLeaderEpoch = -1
	}
	changed = m.wire != wire
	m.wire = wire
	m.refetched = p.refetched
	m.exact = p.retriedAt == p.fetchOffset && p.boundary == p.fetchOffset
	return changed
}

// void tells whether what is answered for the member no longer matters.
func (m *member) void() bool {
	p := m.p
	return p.refetched != m.refetched || p.member != m && p.onSide != m
}

// misses tells whether the answer tells the end of the partition's log in vain: it is void,
// and a session does not tell it again until it changes.
func (m *member) misses() bool {
	p := m.p
	return m.void() && p.member == m && p.topicID == m.topicID && m.answer.code == protocol.None && p.highWatermark < 0
}

// remove ends a membership.
func (q *Request) remove(m *member) {
	last := q.members[len(q.members)-1]
	q.members[m.index] = last
	last.index = m.index
	q.members[len(q.members)-1] = nil
	q.members = q.members[:len(q.members)-1]
	delete(q.byKey, q.key(m))
	if m.p.member == m {
		m.p.member = nil
	}
	if m.p.onSide == m {
		m.p.onSide = nil
	}
	m.dropChunks()
}

// clear ends all memberships.
func (q *Request) clear() {
	for len(q.members) > 0 {
		q.remove(q.members[len(q.members)-1])
	}
}

// put lists the members in the request, grouped by topic.
func (q *Request) put(members []*member) {
	q.parts = q.parts[:0]
	q.Wire.Topics = q.Wire.Topics[:0]
	for _, m := range members {
		q.parts = append(q.parts, m.wire)
	}
	for i := 0; i < len(members); {
		j := i + 1
		for j < len(members) && members[j].tp.Topic == members[i].tp.Topic && members[j].topicID == members[i].topicID {
			j++
		}
		q.Wire.Topics = append(q.Wire.Topics, protocol.FetchTopic{
			Name: members[i].tp.Topic, ID: members[i].topicID, Partitions: q.parts[i:j:j],
		})
		i = j
	}
}

// putForgotten lists the members that leave the session.
func (q *Request) putForgotten(gone []*member) {
	q.forgotten = q.forgotten[:0]
	q.Wire.Forgotten = q.Wire.Forgotten[:0]
	for _, m := range gone {
		q.forgotten = append(q.forgotten, m.tp.Partition)
	}
	for i := 0; i < len(gone); {
		j := i + 1
		for j < len(gone) && gone[j].tp.Topic == gone[i].tp.Topic && gone[j].topicID == gone[i].topicID {
			j++
		}
		q.Wire.Forgotten = append(q.Wire.Forgotten, protocol.ForgottenTopic{
			Name: gone[i].tp.Topic, ID: gone[i].topicID, Partitions: q.forgotten[i:j:j],
		})
		i = j
	}
}

// fewMembers are looked through in less time than it takes to find one by its name.
const fewMembers = 16

// find returns the member that an answer's partition belongs to, or nil. Brokers
// answer in the order of the request mostly.
func (q *Request) find(part *protocol.FetchedPartition) *member {
	tries := 1
	if len(q.members) <= fewMembers {
		tries = len(q.members)
	}
	for ; tries > 0; tries-- {
		if q.guess >= len(q.members) {
			q.guess = 0
		}
		q.guess++
		if m := q.members[q.guess-1]; q.matches(m, part) {
			return m
		}
	}
	if len(q.members) <= fewMembers {
		return nil
	}
	topic := part.Topic
	if q.Version >= topicIDVersion {
		topic = part.TopicID[:]
	}
	m := q.byKey[protocol.TopicPartition{Topic: string(topic), Partition: part.Partition}]
	if m != nil {
		q.guess = m.index + 1
	}
	return m
}

func (q *Request) matches(m *member, part *protocol.FetchedPartition) bool {
	if m.tp.Partition != part.Partition {
		return false
	}
	if q.Version >= topicIDVersion {
		return m.topicID == part.TopicID
	}
	return m.tp.Topic == string(part.Topic)
}

// sortMembers puts members of one topic beside each other.
func sortMembers(members []*member) {
	slices.SortFunc(members, func(a, b *member) int { return ComparePartitions(a.tp, b.tp) })
}

func (m *member) dropChunks() {
	for i := range m.answer.chunks {
		m.answer.chunks[i].recycle()
		m.answer.chunks[i] = chunk{}
	}
	m.answer.chunks = m.answer.chunks[:0]
}

package fetch

import (
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A Plan is one Fetch request: which partitions it asks for and where they stood.
// It is reused from request to request of its broker.
type Plan struct {
	Request protocol.FetchRequest
	Version int16
	entries []entry
	room    int64 // reserved until the answer is applied
	parts   []protocol.FetchPartition
	byKey   map[protocol.TopicPartition]int // made when an answer is out of order
}

// An entry is a partition in a request.
type entry struct {
	p         *Partition
	tp        protocol.TopicPartition
	topicID   [16]byte
	refetched uint64
	offset    int64
	answer    answer
}

// Empty tells whether the plan asks for nothing.
func (pl *Plan) Empty() bool { return len(pl.entries) == 0 }

// topicIDVersion is the first Fetch version that names topics by their ids alone
// (KIP-516), cappedVersion the first whose answers have a cap (KIP-74).
const (
	topicIDVersion = 13
	cappedVersion  = 3
)

// Plan fills pl with the next request to the broker, at most at version. It is
// empty when there is nothing to ask for; Hungry tells when there will be.
func (t *Table) Plan(pl *Plan, broker int32, version int16, now time.Time) {
	pl.reset(version)
	g := t.groups[broker]
	if g == nil {
		return
	}
	room := t.room()
	if room <= 0 {
		t.dropPaused()
		if room = t.room(); room <= 0 {
			return
		}
	}
	var sum int64
	n := len(g.parts)
	for i := range n {
		p := g.parts[(g.first+i)%n]
		if !p.fetchable(now) {
			continue
		}
		if version < cappedVersion && sum > 0 && sum+int64(p.size) > int64(t.limits.FetchMaxBytes) {
			g.first = (g.first + i) % n
			break
		}
		sum += int64(p.size)
		pl.add(p)
	}
	if pl.Empty() {
		return
	}
	if version >= cappedVersion {
		g.first = (g.first + 1) % n
	}
	limit := min(int64(t.limits.FetchMaxBytes), sum, max(room/int64(max(t.hungryBrokers(now, broker), 1)), 1))
	pl.Request.MaxBytes = int32(limit)
	pl.room = limit
	t.reserved += limit
	pl.finish()
}

// Hungry tells whether there is something to ask the broker for, and if not, when
// there may be without anything else happening; zero means never.
func (t *Table) Hungry(broker int32, now time.Time) (hungry bool, retry time.Time) {
	g := t.groups[broker]
	if g == nil {
		return false, time.Time{}
	}
	for _, p := range g.parts {
		if p.fetchable(now) {
			return t.room() > 0 || t.holdsPaused(), time.Time{}
		}
		if p.wanted() && now.Before(p.retryAt) && (retry.IsZero() || p.retryAt.Before(retry)) {
			retry = p.retryAt
		}
	}
	return false, retry
}

// holdsPaused tells whether dropPaused would make room.
func (t *Table) holdsPaused() bool {
	if t.paused == 0 {
		return false
	}
	for _, p := range t.parts {
		if p.paused && p.bytes > 0 && !p.decoding {
			return true
		}
	}
	return false
}

// room is how much more may be fetched.
func (t *Table) room() int64 { return t.limits.MaxBufferedBytes - t.buffered - t.reserved }

// hungryBrokers counts the brokers that have something to fetch, broker among
// them: room is shared among them.
func (t *Table) hungryBrokers(now time.Time, broker int32) int {
	n := 1
	for id, g := range t.groups {
		if id == broker {
			continue
		}
		for _, p := range g.parts {
			if p.fetchable(now) {
				n++
				break
			}
		}
	}
	return n
}

// share is how much one partition may hold before it is left out of requests.
func (t *Table) share() int64 {
	n := int64(len(t.parts) - t.paused)
	return min(2*int64(t.limits.MaxPartitionFetchBytes), t.limits.MaxBufferedBytes/max(n, 1))
}

// dropPaused makes room by forgetting what is held of paused partitions; it is
// fetched again when they are resumed.
func (t *Table) dropPaused() {
	t.syncLive()
	for _, p := range t.parts {
		if p.paused && p.bytes > 0 && !p.decoding {
			t.drop(p)
			p.refetchFrom(p.position, p.posEpoch)
		}
	}
}

func (pl *Plan) reset(version int16) {
	for i := range pl.entries {
		pl.entries[i] = entry{answer: pl.entries[i].answer.reuse()}
	}
	pl.entries = pl.entries[:0]
	pl.parts = pl.parts[:0]
	pl.Request.Topics = pl.Request.Topics[:0]
	pl.byKey = nil
	pl.Version = version
	pl.room = 0
}

func (pl *Plan) add(p *Partition) {
	if len(pl.entries) < cap(pl.entries) {
		pl.entries = pl.entries[:len(pl.entries)+1]
	} else {
		pl.entries = append(pl.entries, entry{})
	}
	e := &pl.entries[len(pl.entries)-1]
	*e = entry{p: p, tp: p.tp, topicID: p.topicID, refetched: p.refetched, offset: p.fetchOffset, answer: e.answer}
	p.inFlight = pl
	pl.parts = append(pl.parts, protocol.FetchPartition{
		Partition:          p.tp.Partition,
		CurrentLeaderEpoch: p.leaderEpoch,
		FetchOffset:        p.fetchOffset,
		LastFetchedEpoch:   -1,
		MaxBytes:           p.size,
	})
	if p.topicID == ([16]byte{}) {
		pl.Version = min(pl.Version, topicIDVersion-1)
	}
}

// finish groups the partitions by topic: neighbours of one topic share an element.
func (pl *Plan) finish() {
	for i := 0; i < len(pl.entries); {
		j := i + 1
		for j < len(pl.entries) && pl.entries[j].tp.Topic == pl.entries[i].tp.Topic {
			j++
		}
		pl.Request.Topics = append(pl.Request.Topics, protocol.FetchTopic{
			Name:       pl.entries[i].tp.Topic,
			ID:         pl.entries[i].topicID,
			Partitions: pl.parts[i:j:j],
		})
		i = j
	}
}

// find returns the entry that an answer's partition belongs to, or nil. Brokers
// answer in the order of the request, so the search begins behind the last hit.
func (pl *Plan) find(part *protocol.FetchedPartition, next int) (e *entry, i int) {
	for i = next; i < len(pl.entries) && i < next+2; i++ {
		if pl.matches(&pl.entries[i], part) {
			return &pl.entries[i], i
		}
	}
	if pl.byKey == nil {
		pl.byKey = make(map[protocol.TopicPartition]int, len(pl.entries))
		for i := range pl.entries {
			pl.byKey[pl.key(&pl.entries[i])] = i
		}
	}
	topic := part.Topic
	if pl.Version >= topicIDVersion {
		topic = part.TopicID[:]
	}
	if i, ok := pl.byKey[protocol.TopicPartition{Topic: string(topic), Partition: part.Partition}]; ok {
		return &pl.entries[i], i
	}
	return nil, next - 1
}

func (pl *Plan) matches(e *entry, part *protocol.FetchedPartition) bool {
	if e.tp.Partition != part.Partition {
		return false
	}
	if pl.Version >= topicIDVersion {
		return e.topicID == part.TopicID
	}
	return e.tp.Topic == string(part.Topic)
}

func (pl *Plan) key(e *entry) protocol.TopicPartition {
	if pl.Version >= topicIDVersion {
		return protocol.TopicPartition{Topic: string(e.topicID[:]), Partition: e.tp.Partition}
	}
	return e.tp
}

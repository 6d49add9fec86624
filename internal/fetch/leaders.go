package fetch

import (
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A Leader is what metadata says of a partition.
type Leader struct {
	Known   bool
	Broker  int32 // -1: none now
	Epoch   int32 // -1: unknown
	TopicID [16]byte
}

// UpdateLeaders takes over what metadata says of each assigned partition. A
// partition whose leader is another broker now goes on there at the same offset.
func (t *Table) UpdateLeaders(lookup func(protocol.TopicPartition) Leader) {
	for _, p := range t.parts {
		l := lookup(p.tp)
		if !l.Known {
			continue
		}
		t.updateTopicID(p, l.TopicID)
		if l.Broker != p.leader {
			// What waits for the old leader's backoff need not wait at the new one.
			p.retryAt = time.Time{}
		}
		t.setLeader(p, l.Broker, l.Epoch)
	}
}

// updateTopicID starts p anew when its topic was deleted and created again
// (KIP-516): nothing older than this consumer's interest can be in it.
func (t *Table) updateTopicID(p *Partition, id [16]byte) {
	old := p.topicID
	if id == ([16]byte{}) || id == old {
		return
	}
	p.topicID = id
	if old == ([16]byte{}) {
		return
	}
	t.syncLive()
	t.report(Report{TP: p.tp, Kind: ReportRecreated})
	t.drop(p)
	p.committed = -1
	p.leaderEpoch = -1
	p.highWatermark, p.lastStable, p.logStart = -1, -1, -1
	t.startReset(p, TimeEarliest, "topic was created again")
}

func (t *Table) setLeader(p *Partition, broker, epoch int32) {
	p.leaderEpoch = epoch
	if p.leader == broker {
		return
	}
	if p.inFlight != nil { // the old leader's answer may be long in coming
		p.inFlight = nil
		p.refetched++
	}
	if g := p.group; g != nil {
		g.parts = slices.DeleteFunc(g.parts, func(q *Partition) bool { return q == p })
		g.first = 0
		if len(g.parts) == 0 {
			delete(t.groups, g.broker)
		}
		p.group = nil
	}
	p.leader = broker
	t.stirred = true
	if broker < 0 {
		return
	}
	g := t.groups[broker]
	if g == nil {
		g = &brokerParts{broker: broker}
		t.groups[broker] = g
		t.newBrokers = append(t.newBrokers, broker)
	}
	i, _ := slices.BinarySearchFunc(g.parts, p, func(a, b *Partition) int { return comparePartitions(a.tp, b.tp) })
	g.parts = slices.Insert(g.parts, i, p)
	g.first = 0
	p.group = g
}

// NewBrokers returns the brokers that came to lead assigned partitions since it
// was called last.
func (t *Table) NewBrokers() []int32 {
	ids := t.newBrokers
	t.newBrokers = nil
	return ids
}

// Leads tells whether the broker leads an assigned partition.
func (t *Table) Leads(broker int32) bool { return t.groups[broker] != nil }

// BrokerFailed notes that the broker could not be asked. Its partitions are asked
// for again after a backoff; the application is told when the reason is final.
func (t *Table) BrokerFailed(broker int32, err error, final bool, now time.Time) {
	g := t.groups[broker]
	if g == nil {
		return
	}
	for i, p := range g.parts {
		if !p.wanted() {
			continue
		}
		t.retryLater(p, err, now)
		if final && i == 0 {
			t.report(Report{TP: p.tp, Kind: ReportError, Err: err})
		}
	}
}

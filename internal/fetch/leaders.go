package fetch

import (
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
	p.appeared = true
}

// setLeader notes the leader and its epoch.
func (t *Table) setLeader(p *Partition, broker, epoch int32) {
	if p.leader == broker && p.leaderEpoch == epoch {
		return
	}
	newer := p.leaderEpoch >= 0 && epoch > p.leaderEpoch
	p.leader, p.leaderEpoch = broker, epoch
	p.follower = -1
	t.place(p)
	if newer {
		t.validate(p, t.version)
	}
	t.touch(p)
}

// validate has the leader asked whether its log is still the one that p was read from
// (KIP-320), where Fetch does not tell by itself.
func (t *Table) validate(p *Partition, version int16) {
	if p.known() && p.fetchEpoch >= 0 && version >= epochVersion && version < divergingVersion {
		p.doubtful = true
		p.refetched++
		t.unlocated = true
	}
}

// outdated tells whether the leader that p is asked of is of an older epoch than what was
// read: one that was replaced and has not noticed knows nothing of the log since. After a
// few tries it is believed, as the cluster may have been built anew.
func (p *Partition) outdated() bool {
	const tries = 6
	return p.leaderEpoch >= 0 && p.fetchEpoch > p.leaderEpoch && p.failures < tries
}

// epochVersion is the first Fetch version that carries the leader's epoch,
// divergingVersion the first whose answers tell of a log that parts from what was
// read before (KIP-595).
const (
	epochVersion     = 9
	divergingVersion = 12
)

// NewBrokers returns the brokers that came to lead assigned partitions since it
// was called last.
func (t *Table) NewBrokers() []int32 {
	ids := t.newBrokers
	t.newBrokers = nil
	return ids
}

// BrokerFailed notes that the broker could not be asked. Its partitions are asked
// for again after a backoff; the application is told when the reason is final.
func (t *Table) BrokerFailed(broker int32, err error, final bool, now time.Time) {
	failures := 0
	for _, p := range t.parts {
		if p.source == broker {
			failures = max(failures, p.failures)
		}
	}
	until := now.Add(t.limits.Backoff(failures)) // the same for all: one request asks for them
	since := now
	if s := t.sessions[broker]; s != nil && s.unheard {
		since = s.asked
	}
	for _, p := range t.parts {
		if p.source != broker || !p.wanted() {
			continue
		}
		if p.follower >= 0 { // the leader is still there to be asked
			t.avoidFollower(p, now)
			continue
		}
		t.retryAt(p, err, until, since)
		if final {
			t.report(Report{TP: p.tp, Kind: ReportError, Err: err})
			final = false
		}
	}
}

// follow has p fetched from a replica that the leader named (KIP-392).
func (t *Table) follow(p *Partition, replica int32, now time.Time) {
	p.follower = replica
	p.followUntil = now.Add(t.limits.ReplicaLease)
	t.place(p)
	if s := p.home; s.leaseEnd.IsZero() || p.followUntil.Before(s.leaseEnd) {
		s.leaseEnd = p.followUntil
	}
}

// backToLeader has p fetched from its leader again.
func (t *Table) backToLeader(p *Partition) {
	p.follower = -1
	t.place(p)
}

// avoidFollower goes back to the leader after a follower failed, and asks it for
// records itself for a while, longer with each failure: else the two would send p to
// each other for ever.
func (t *Table) avoidFollower(p *Partition, now time.Time) {
	t.backToLeader(p)
	until := now.Add(min(avoidFor<<min(p.strayed, 10), t.limits.ReplicaLease))
	p.strayed++
	if p.home != nil && until.After(p.home.rackless) {
		p.home.rackless = until
	}
}

// avoidFor is how long a leader is not told of the rack after a follower failed.
const avoidFor = time.Second

// expireLeases has leaders asked again after ReplicaLease: whether a follower is still
// the right one, or hangs behind.
func (t *Table) expireLeases(s *Session, now time.Time) {
	if s.leaseEnd.IsZero() || now.Before(s.leaseEnd) {
		return
	}
	s.leaseEnd = time.Time{}
	for _, p := range t.parts {
		switch {
		case p.home != s || p.follower < 0:
		case !now.Before(p.followUntil):
			t.backToLeader(p)
		case s.leaseEnd.IsZero() || p.followUntil.Before(s.leaseEnd):
			s.leaseEnd = p.followUntil
		}
	}
}

package fetch

import (
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// Compaction may take the very last offsets of a log away, and then no batch tells a
// consumer that it has reached the end: fetches there stay empty although the high
// watermark is beyond. Such offsets are passed over once it is sure that they hold
// nothing: an answer without a single byte, so that no limit left the partition out,
// told of an end beyond the fetch offset; the next answer, asked for after that, was
// empty too; so was one to a request that named the offset outright, since a fetch session
// may have gone wrong; and the leader has those offsets itself, since an answer is also
// empty while it waits for tiered storage (KIP-405).

// A vacancy is a range of offsets of which the last answer brought nothing although it
// is in the log. The zero vacancy is none.
type vacancy struct {
	refetched uint64
	from, end int64
}

// fallBehind notes that more of p's log is known than was fetched.
func (t *Table) fallBehind(p *Partition) {
	m, v := p.member, t.vacancyOf(p)
	if m == nil || m.behind || v.end <= v.from {
		return
	}
	m.behind = true
	p.home.behind = append(p.home.behind, m)
	if t.quiet && !p.undecoded() && p.follower < 0 && !t.mayNotFit(p, p.home.Version) {
		m.vacant = v
		if p.home.full && p.suspect.from == v.from && p.suspect.refetched == v.refetched && p.suspect.end > v.from {
			p.vacant, t.unlocated = p.suspect, true
		}
		p.suspect = vacancy{}
	}
}

// vacancyOf returns what is known of p's log behind what was fetched.
func (t *Table) vacancyOf(p *Partition) vacancy {
	return vacancy{refetched: p.refetched, from: p.fetchOffset, end: p.end(t.limits.ReadCommitted)}
}

// watchVacant takes in an answer of the session.
func (t *Table) watchVacant(s *Session) {
	still := s.behind[:0]
	for _, m := range s.behind {
		p := m.p
		v := t.vacancyOf(p)
		if p.member != m || v.end <= v.from {
			m.behind, m.vacant = false, vacancy{}
			continue
		}
		still = append(still, m)
		if !m.answer.got && s.id == 0 { // a session leaves out what has nothing new
			continue // it was not asked for: the answer says nothing of it
		}
		switch asked := m.refetched == p.refetched && m.wire.FetchOffset == p.fetchOffset; {
		case !t.quiet || !asked || p.undecoded() || p.follower >= 0 || t.mayNotFit(p, s.Version):
			m.vacant = vacancy{}
		case m.vacant.from == v.from && m.vacant.refetched == v.refetched && m.vacant.end > v.from:
			if s.full && m.answer.got {
				p.vacant, t.unlocated = m.vacant, true
			} else {
				p.suspect, s.renew = m.vacant, true
			}
		default:
			m.vacant = v
		}
	}
	clear(s.behind[len(still):])
	s.behind = still
}

// WantVacancies returns the partitions whose leader is to be asked whether it has the
// offsets that seem to hold nothing itself.
func (t *Table) WantVacancies(now time.Time) (lookups []Lookup, retry time.Time) {
	return t.wantLookups(func(p *Partition) bool { return p.vacant.end > 0 }, now)
}

// VacancyAnswered moves on over offsets that hold nothing if the leader's own log, from
// localStart on, includes them. A negative localStart means that it is not known.
//
// They may hold a batch that no answer has room for where a newer broker answers a Fetch
// before v3, for which brokers from 3.0 on leave out what they must convert and cannot
// send whole. That is told, since passing over it would lose records.
func (t *Table) VacancyAnswered(l Lookup, localStart int64) {
	p := t.current(l)
	if p == nil {
		return
	}
	v := p.vacant
	p.lookingUp, p.vacant = false, vacancy{}
	t.unlocated = true // another look-up of p may have waited for this one
	now := t.vacancyOf(p)
	same := now.refetched == v.refetched && now.from == v.from && now.end >= v.end && !p.undecoded()
	if !same || localStart < 0 || localStart > v.from {
		return
	}
	if t.limits.OldByChoice && p.home != nil && p.home.Version < cappedVersion {
		t.fault(p, &SizeError{Offset: v.from, Limit: t.largestBatch(), End: v.end})
		return
	}
	p.fetchOffset, p.fetchEpoch = v.end, -1 // it is not known in which epoch the rest was written
	t.endEnlarged(p)
	t.addSegment(p, newLease(protocol.EmptySegment(v.end, -1), nil), 0)
	p.decodeEpoch = -1
	t.touch(p)
}

// IsEmpty tells whether the answer brought no records and no trouble at all.
func (q *Request) IsEmpty() bool {
	return !slices.ContainsFunc(q.answered, func(m *member) bool {
		a := &m.answer
		return len(a.chunks) > 0 || a.need > 0 || a.code != protocol.None || a.diverges || a.preferred >= 0
	})
}

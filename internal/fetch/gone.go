package fetch

import (
	"slices"

	"github.com/kafkaconsumer/kafka/protocol"
)

// Compaction may take the very last offsets of a log away, and then no batch tells a
// consumer that it has reached the end: fetches there stay empty although the high
// watermark is beyond. Such offsets are passed over once it is sure that they hold
// nothing: an answer without a single byte, so that no limit left the partition out,
// told of an end beyond the fetch offset, and the next answer, asked for after that,
// was empty too.

// A vacancy is a partition whose last answer was empty although its log goes on.
type vacancy struct {
	m         *member
	refetched uint64
	from, end int64
}

// watchVacant takes in an answer of the session. empty tells whether it brought
// nothing at all.
func (t *Table) watchVacant(s *Session, empty bool) {
	before := s.vacant
	s.vacant = s.vacant[:0:0]
	if !empty {
		return
	}
	for _, v := range before {
		p := v.m.p
		told := v.m.answer.got || s.id != 0 // a session leaves out what has nothing new
		if told && p.member == v.m && p.refetched == v.refetched && p.fetchOffset == v.from && !p.undecoded() {
			t.passOver(p, v.end)
		}
	}
	for _, m := range s.answered {
		p, a := m.p, &m.answer
		if m.void() || a.code != protocol.None || a.diverges || a.preferred >= 0 || p.follower >= 0 || p.undecoded() {
			continue
		}
		end := a.highWatermark
		if t.limits.ReadCommitted && a.lastStable >= 0 {
			end = a.lastStable
		}
		if end > p.fetchOffset {
			s.vacant = append(s.vacant, vacancy{m: m, refetched: p.refetched, from: p.fetchOffset, end: end})
		}
	}
}

// passOver moves on to end over offsets that hold nothing.
func (t *Table) passOver(p *Partition, end int64) {
	p.fetchOffset = end
	t.addSegment(p, newLease(protocol.EmptySegment(end, -1), nil), 0)
	t.touch(p)
}

// IsEmpty tells whether the answer brought no records and no trouble at all.
func (q *Request) IsEmpty() bool {
	return !slices.ContainsFunc(q.answered, func(m *member) bool {
		a := &m.answer
		return len(a.chunks) > 0 || a.need > 0 || a.code != protocol.None || a.diverges || a.preferred >= 0
	})
}

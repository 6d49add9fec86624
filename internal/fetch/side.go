package fetch

import "time"

// longPoll is how long a request is under way before what becomes fetchable is asked
// for beside it.
const longPoll = 10 * time.Millisecond

// PlanSide builds a request beside the session's, for partitions that became
// fetchable while a long poll is under way: by a seek, a resume, an assignment, a new
// leader, or because the application made room. It returns false when there are none;
// retry tells when there may be, zero for not before something else happens.
func (t *Table) PlanSide(q *Request, s *Session, version int16, now time.Time) (ok bool, retry time.Time) {
	q.clear()
	if wanted, retry := t.WantsSide(s, now); !wanted || t.room() <= 0 {
		return false, retry
	}
	if due := s.asked.Add(longPoll); now.Before(due) {
		return false, due
	}
	q.Version, q.longest = version, t.limits.MaxFrameBytes
	for _, p := range s.dirty {
		if p.home == s && p.topicID == ([16]byte{}) {
			q.Version = min(q.Version, topicIDVersion-1)
		}
	}
	t.checkPositions(s, version)
	size := int64(0)
	for _, p := range s.dirty {
		if !p.asksBeside(s, now) {
			continue
		}
		if version < cappedVersion && size > 0 && size+int64(p.size) > sideBytes {
			break
		}
		size += int64(p.size)
		p.onSide = q.add(p)
		p.onSide.ask()
	}
	if len(q.members) == 0 {
		return false, time.Time{}
	}
	sortMembers(q.members)
	for i, m := range q.members {
		m.index = i
	}
	q.put(q.members)
	q.Wire.SessionID, q.Wire.SessionEpoch = 0, -1
	q.Wire.MaxWaitMillis, q.Wire.MinBytes = 0, 0
	s.hideRack(q, now)
	if q.room = min(sideBytes, int64(t.limits.FetchMaxBytes), t.room()); version < cappedVersion {
		q.room = size
	}
	q.Wire.MaxBytes = int32(q.room)
	t.reserved += q.room
	q.guess, q.answered = 0, q.answered[:0]
	return true, time.Time{}
}

// sideBytes bounds an answer beside a long poll.
const sideBytes = 1 << 20

// asksBeside tells whether p is to be asked for beside the session's request: it may be
// fetched, and what that request says of it, if anything, is void.
func (p *Partition) asksBeside(s *Session, now time.Time) bool {
	return p.home == s && p.fetchable(now) && !now.Before(p.besideAt) && (p.member == nil || p.member.void())
}

// How long to wait after an answer without records before asking again beside the
// session's request.
const (
	besideWait    = 50 * time.Millisecond
	besideWaitMax = 500 * time.Millisecond
)

// askedBeside notes an answer beside the session's.
func (p *Partition) askedBeside(brought bool, now time.Time) {
	if brought {
		p.besideAt, p.besideEmpty = time.Time{}, 0
		return
	}
	p.besideAt = now.Add(min(besideWait<<min(p.besideEmpty, 4), besideWaitMax))
	p.besideEmpty++
}

// WantsSide tells whether PlanSide may have something to ask for, and if not, when it
// may without anything else happening; zero means never.
func (t *Table) WantsSide(s *Session, now time.Time) (wanted bool, retry time.Time) {
	if !s.busy {
		return false, time.Time{}
	}
	for _, p := range s.dirty {
		if p.asksBeside(s, now) {
			return true, time.Time{}
		}
		due := p.retryAt
		if p.besideAt.After(due) {
			due = p.besideAt
		}
		if p.home == s && p.wanted() && now.Before(due) && (retry.IsZero() || due.Before(retry)) {
			retry = due
		}
	}
	return false, retry
}

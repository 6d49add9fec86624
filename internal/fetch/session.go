package fetch

import (
	"math"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A Session is what one broker is asked for, request after request. Where the broker
// keeps fetch sessions (KIP-227), only what changed goes over the wire, and a request
// costs nothing for partitions that stay as they are: whatever may change a
// partition's place puts it on the session's dirty list.
type Session struct {
	Request

	broker  int32
	led     int          // assigned partitions that are to be fetched from the broker
	dirty   []*Partition // whose place in the session may have to change
	behind  []*member    // whose logs are known to go on behind what was fetched
	leavers []*member    // whose partitions are fetched elsewhere now, or not at all
	gone    []*member    // to be forgotten
	changed []*member
	sum     int64 // of the members' sizes
	id      int32
	epoch   int32 // of the next request; 0 makes a new session
	busy    bool  // a request is under way
	asked   time.Time
	unheard bool      // the last request was not answered, or not yet
	toldAt  time.Time // last answer: what it did not say of members has not changed; zero without a fetch session

	throttled time.Time // until when the broker wants to be left alone
	full      bool      // the last request named all members outright
	renew     bool      // the next request begins a new session
	reconnect bool      // and goes over a new connection

	leaseEnd time.Time // when the first of its followed partitions goes back to its leader
	rackless time.Time // until when the broker is not told of the consumer's rack
	insist   bool      // nor is it with the next request

	noSessions bool
	first      int       // where the next request that names all begins
	turn       []*member // the members from there on
}

// session returns the broker's session, which it makes if there is none.
func (t *Table) session(broker int32) *Session {
	s := t.sessions[broker]
	if s == nil {
		s = &Session{broker: broker, noSessions: t.limits.NoSessions}
		t.sessions[broker] = s
	}
	return s
}

// place gives p to the session of the broker to fetch it from, if there is one. What
// is under way elsewhere is void.
func (t *Table) place(p *Partition) {
	source := p.leader
	if p.follower >= 0 {
		source = p.follower
	}
	if p.source == source {
		return
	}
	t.detach(p)
	p.source = source
	if source < 0 {
		return
	}
	p.home = t.session(source)
	if p.home.led++; p.home.led == 1 {
		t.newBrokers = append(t.newBrokers, source)
	}
	t.touch(p)
}

// detach takes p from its session. The session's answer may be read at this moment,
// so its members stay as they are until its next request.
func (t *Table) detach(p *Partition) {
	if p.home == nil {
		return
	}
	p.keepTold()
	if p.member != nil {
		p.home.leavers = append(p.home.leavers, p.member)
		p.member = nil
	}
	p.onSide = nil
	p.refetched++
	p.home.led--
	p.home, p.source, p.touched = nil, -1, false
	t.stirred = true
}

// Session returns what a broker is asked for, nil when it leads nothing.
func (t *Table) Session(broker int32) *Session {
	s := t.sessions[broker]
	if s == nil || s.led == 0 {
		return nil
	}
	return s
}

// Leave forgets whom the broker was asked for, as it leads nothing any more.
func (t *Table) Leave(broker int32) {
	if s := t.sessions[broker]; s != nil && s.led == 0 {
		s.restart()
		s.dirty, s.turn, s.behind, s.changed = nil, nil, nil, nil
	}
}

// touch notes that p's place in its session may have to change.
func (t *Table) touch(p *Partition) {
	t.stirred = true
	t.watch(p)
	if p.touched || p.home == nil {
		return
	}
	p.touched = true
	p.home.dirty = append(p.home.dirty, p)
}

// Hungry tells whether there is something to ask the broker for, and if not, when
// there may be without anything else happening; zero means never.
func (t *Table) Hungry(s *Session, now time.Time) (hungry bool, retry time.Time) {
	for _, p := range s.dirty {
		if p.home != s || !p.wanted() {
			continue
		}
		if p.fetchable(now) {
			hungry = true
		} else if now.Before(p.retryAt) && (retry.IsZero() || p.retryAt.Before(retry)) {
			retry = p.retryAt
		}
	}
	for _, m := range s.members {
		if hungry {
			break
		}
		hungry = m.p.member == m && m.p.fetchable(now)
	}
	if hungry && t.room() <= 0 && !t.holdsPaused() {
		return false, retry
	}
	return hungry, retry
}

// Plan builds the session's next request, at most at version. It returns false when
// there is nothing to ask for; Hungry tells when there will be.
func (t *Table) Plan(s *Session, version int16, now time.Time) bool {
	room := t.room()
	if room <= 0 {
		t.dropPaused()
		if room = t.room(); room <= 0 {
			return false
		}
	}
	t.expireLeases(s, now)
	if s.renew {
		s.renew = false
		s.restart()
	}
	version = s.settleVersion(version)
	t.checkPositions(s, version)
	full := version < sessionVersion || s.noSessions || s.epoch <= 0
	s.full = full
	s.update(now)
	if len(s.dirty) > 0 {
		t.stirred = true // they may be asked for beside this request, later
	}
	if len(s.members) == 0 {
		return false
	}
	limit := min(int64(t.limits.FetchMaxBytes), s.sum, max(room/int64(t.hungrySessions(s)), 1))
	if full {
		limit = s.planFull(limit)
	} else {
		s.keepReturned()
		sortMembers(s.changed)
		sortMembers(s.gone)
		s.put(s.changed)
		s.putForgotten(s.gone)
	}
	clear(s.gone)
	clear(s.changed)
	s.gone, s.changed = s.gone[:0], s.changed[:0]
	s.hideRack(&s.Request, now)
	s.Wire.SessionID, s.Wire.SessionEpoch = s.id, s.epoch
	if version < sessionVersion || s.noSessions {
		s.Wire.SessionID, s.Wire.SessionEpoch = 0, -1
	}
	s.Wire.MaxBytes = int32(limit)
	s.room, s.longest = limit, t.limits.MaxFrameBytes
	t.reserved += limit
	t.version = version
	s.busy, s.unheard, s.asked = true, true, now
	s.guess, s.answered = 0, s.answered[:0]
	return true
}

// checkPositions has leaders confirm positions that came with an epoch.
func (t *Table) checkPositions(s *Session, version int16) {
	for _, p := range s.dirty {
		if p.home == s && p.unchecked {
			p.unchecked = false
			t.validate(p, version)
		}
	}
}

// hideRack keeps the broker from naming followers after one failed, so that it gives
// records itself.
func (s *Session) hideRack(q *Request, now time.Time) {
	if s.insist || now.Before(s.rackless) {
		q.Wire.Rack = ""
	}
	s.insist = false
}

// settleVersion returns the version of the next request. Topics are named by their
// ids only when all have one; a change of naming needs a new session.
func (s *Session) settleVersion(version int16) int16 {
	if version >= topicIDVersion {
		noID := func(p *Partition) bool { return p.home == s && p.topicID == [16]byte{} }
		named := s.Version < topicIDVersion // else all members have an id
		if slices.ContainsFunc(s.dirty, noID) ||
			named && slices.ContainsFunc(s.members, func(m *member) bool { return noID(m.p) }) {
			version = topicIDVersion - 1
		}
	}
	if (version >= topicIDVersion) != (s.Version >= topicIDVersion) && len(s.members) > 0 {
		s.restart()
	}
	s.Version = version
	return version
}

// restart has everything asked for anew, in a new session.
func (s *Session) restart() {
	s.leavers = s.leavers[:0]
	for _, m := range s.members {
		if !m.p.touched && m.p.member == m {
			m.p.touched = true
			s.dirty = append(s.dirty, m.p)
		}
	}
	s.clear()
	clear(s.gone)
	s.gone = s.gone[:0]
	s.sum = 0
	s.epoch = 0
}

// update gives each dirty partition its place.
func (s *Session) update(now time.Time) {
	for _, m := range s.leavers {
		s.leave(m)
	}
	s.leavers = s.leavers[:0]
	later := s.dirty[:0]
	for _, p := range s.dirty {
		switch {
		case p.home != s:
			continue
		case p.fetchable(now):
			if p.member != nil && p.member.topicID != p.topicID { // the topic was created again
				s.leave(p.member)
			}
			if p.member == nil {
				p.member = s.add(p)
				p.member.since = now
			}
			p.besideAt, p.besideEmpty = time.Time{}, 0
			s.sum -= int64(p.member.wire.MaxBytes)
			if p.member.ask() {
				s.changed = append(s.changed, p.member)
			}
			s.sum += int64(p.member.wire.MaxBytes)
		default:
			s.leave(p.member)
			if p.onSide != nil || p.wanted() && now.Before(p.retryAt) {
				later = append(later, p)
				continue
			}
		}
		p.touched = false
	}
	clear(s.dirty[len(later):])
	s.dirty = later
}

// leave takes a member out of the session.
func (s *Session) leave(m *member) {
	if m == nil {
		return
	}
	s.sum -= int64(m.wire.MaxBytes)
	m.p.keepTold()
	s.remove(m)
	if i := slices.Index(s.changed, m); i >= 0 {
		s.changed = slices.Delete(s.changed, i, i+1)
	}
	if s.epoch > 0 {
		s.gone = append(s.gone, m)
	}
}

// keepReturned keeps partitions that left and came back from being forgotten: brokers
// add what a request names before they forget. One that was assigned anew does not know
// the end of its log, which the session told before and does not tell again.
func (s *Session) keepReturned() {
	s.gone = slices.DeleteFunc(s.gone, func(m *member) bool {
		back := s.byKey[s.key(m)]
		s.renew = s.renew || back != nil && back.p.highWatermark < 0
		return back != nil
	})
}

// planFull lists all members, each of them first in its turn: a broker gives what comes
// first. Brokers below Fetch v3 put no cap on an answer, so they are asked for as many
// partitions as fit at once. It returns how much room to reserve, never more than limit:
// else one broker would take what others wait for.
func (s *Session) planFull(limit int64) int64 {
	s.Wire.Forgotten = s.Wire.Forgotten[:0]
	sortMembers(s.members)
	for i, m := range s.members {
		m.index = i
	}
	s.first %= len(s.members)
	s.turn = append(append(s.turn[:0], s.members[s.first:]...), s.members[:s.first]...)
	asked := s.turn
	n := len(asked)
	if s.Version < cappedVersion {
		n = 0
		sum := int64(0)
		for ; n < len(asked); n++ {
			size := int64(asked[n].wire.MaxBytes)
			if n > 0 && sum+size > limit {
				break
			}
			sum += size
		}
		limit = min(sum, limit) // the first is asked for even if it is larger
	}
	s.put(asked[:n])
	if n < len(asked) {
		s.first += n
	} else {
		s.first++
	}
	clear(s.turn)
	return limit
}

// room is how much more may be fetched.
func (t *Table) room() int64 { return t.limits.MaxBufferedBytes - t.buffered - t.reserved }

// hungrySessions counts the brokers that have something to fetch, s among them: room
// is shared among them.
func (t *Table) hungrySessions(s *Session) int {
	n := 1
	for _, other := range t.sessions {
		if other != s && !other.busy && other.led > 0 && len(other.members)+len(other.dirty) > 0 {
			n++
		}
	}
	return n
}

// share is how much one partition may hold before it is left out of requests.
func (t *Table) share() int64 {
	n := int64(len(t.parts) - t.paused)
	return min(2*int64(t.limits.MaxPartitionFetchBytes), t.limits.MaxBufferedBytes/max(n, 1))
}

// holdsPaused tells whether dropPaused would make room.
func (t *Table) holdsPaused() bool {
	if t.paused == 0 && len(t.resting) == 0 {
		return false
	}
	for _, p := range t.parts {
		if (p.paused || p.resting) && p.bytes > 0 && !p.decoding {
			return true
		}
	}
	return false
}

// dropPaused makes room by forgetting what is held of partitions that are paused, or rest;
// it is fetched again when they go on.
func (t *Table) dropPaused() {
	t.syncLive()
	for _, p := range t.parts {
		if (p.paused || p.resting) && p.bytes > 0 && !p.decoding {
			t.drop(p)
			t.void(p)
			p.tail = tail{} // what is behind the records comes with them again
			p.refetchFrom(p.position, p.posEpoch)
			t.touch(p)
		}
	}
}

// answeredSession notes the session that an answer told of, and what the answer says
// of it: whether it may be applied.
func (s *Session) answeredSession(code protocol.ErrorCode, id int32) bool {
	if s.Version < sessionVersion || s.noSessions {
		return code == protocol.None
	}
	switch {
	case code == protocol.None && id == 0: // the broker keeps no session for us
		s.id, s.epoch = 0, 0
	case code == protocol.None:
		s.id = id
		s.epoch = nextEpoch(s.epoch)
	case code == protocol.FetchSessionIDNotFound:
		s.id = 0
		s.restart()
	default:
		s.restart()
	}
	return code == protocol.None
}

// nextEpoch counts session epochs, which wrap around to 1.
func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// OpenSessions returns the ids of the sessions that brokers keep.
func (t *Table) OpenSessions() map[int32]int32 {
	open := make(map[int32]int32)
	for broker, s := range t.sessions {
		if s.id != 0 {
			open[broker] = s.id
		}
	}
	return open
}

package fetch

import (
	"fmt"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// An AnswerError is an error code that a broker answered for a partition.
type AnswerError struct {
	Broker int32
	Code   protocol.ErrorCode
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("broker %d: %s", e.Broker, e.Code.Error())
}

// Unwrap returns the code.
func (e *AnswerError) Unwrap() error { return e.Code }

// A SizeError says that a batch is larger than an answer may be.
type SizeError struct {
	Offset int64
	Size   int // 0: nothing came of it
	Limit  int32
	End    int64 // of what nothing came of
}

func (e *SizeError) Error() string {
	if e.Size == 0 {
		return fmt.Sprintf("nothing came of the offsets up to %d, and an old Fetch does not tell whether compaction took them; "+
			"with APIVersion 0.10.1 or newer, or without it, brokers that are newer tell", e.End-1)
	}
	return fmt.Sprintf("batch of %d bytes, an answer may have %d by ReceiveMessageMaxBytes", e.Size, e.Limit)
}

// Apply takes over what ReadAnswer read of the session's answer. It returns false
// when the answer says that the session has to be made anew.
func (t *Table) Apply(s *Session, resp *protocol.FetchResponse, now time.Time) bool {
	s.busy, s.unheard = false, false
	t.endpoints = resp.NodeEndpoints
	sound := s.answeredSession(resp.ErrorCode, resp.SessionID)
	if sound && s.id != 0 {
		s.toldAt = now
	}
	t.quiet = sound && resp.ThrottleMillis == 0 && s.IsEmpty()
	if resp.ThrottleMillis > 0 {
		s.throttled = now.Add(time.Duration(resp.ThrottleMillis) * time.Millisecond)
	}
	t.watchVacant(s)
	if sound && s.id != 0 {
		s.renew = s.renew || slices.ContainsFunc(s.answered, (*member).misses)
	}
	t.applyRequest(&s.Request, sound, now)
	t.quiet = false
	return sound
}

// ApplySide takes over the answer to a request beside the session's.
func (t *Table) ApplySide(q *Request, resp *protocol.FetchResponse, now time.Time) {
	t.endpoints = resp.NodeEndpoints
	for _, m := range q.members {
		if !m.void() {
			m.p.askedBeside(len(m.answer.chunks) > 0, now)
		}
	}
	t.applyRequest(q, true, now)
	t.endSide(q)
}

// Discard ends a session's request whose answer did not come.
func (t *Table) Discard(s *Session) {
	s.busy = false
	t.applyRequest(&s.Request, false, time.Time{})
	s.restart()
}

// DiscardSide ends a request beside the session's whose answer did not come.
func (t *Table) DiscardSide(q *Request, now time.Time) {
	for _, m := range q.members {
		m.p.besideAt = now.Add(besideWaitMax)
	}
	t.applyRequest(q, false, now)
	t.endSide(q)
}

func (t *Table) endSide(q *Request) {
	for _, m := range q.members {
		if m.p.onSide == m {
			m.p.onSide = nil
			t.touch(m.p)
		}
	}
	q.clear()
}

func (t *Table) applyRequest(q *Request, sound bool, now time.Time) {
	t.now = now
	t.reserved -= q.room
	q.room = 0
	t.stirred = true
	for _, m := range q.answered {
		switch {
		case m.void():
		case m.answer.tooLong > 0: // which is why none of the answer was taken in
			t.refuseBatch(m.p, m.answer.tooLong)
		case sound:
			t.applyAnswer(m.p, &m.answer, now)
		}
		m.dropChunks()
		m.answer = m.answer.reuse()
	}
	clear(q.answered)
	q.answered = q.answered[:0]
	t.endpoints = nil // their memory is read into anew
}

func (t *Table) applyAnswer(p *Partition, a *answer, now time.Time) {
	if a.diverges || a.code != protocol.None {
		t.applyRefusal(p, a, now)
		return
	}
	p.failures, p.lastErr, p.resets = 0, nil, 0
	p.highWatermark, p.lastStable = a.highWatermark, a.lastStable
	p.logStart, p.toldAt = a.logStart, now
	switch {
	case a.preferred >= 0 && a.preferred != p.source:
		t.follow(p, a.preferred, now)
	case len(a.chunks) > 0:
		t.addChunks(p, a)
	case a.need > 0 && p.undecoded():
		p.waitDecode = true
		t.touch(p)
	case a.need > 0:
		t.cutShort(p, a)
	case a.uncapped && a.highWatermark > p.fetchOffset && !p.undecoded():
		t.enlarge(p)
	}
	if p.follower >= 0 && p.source == p.follower && a.preferred < 0 {
		p.strayed = 0
	}
	t.fallBehind(p)
	t.watch(p)
}

func (t *Table) addChunks(p *Partition, a *answer) {
	for i, c := range a.chunks {
		p.chunks.push(c)
		p.bytes += int64(len(c.data))
		t.buffered += int64(len(c.data))
		a.chunks[i] = chunk{}
	}
	a.chunks = a.chunks[:0]
	t.endEnlarged(p)
	p.came = t.now
	if p.wait.stalled {
		t.unwatched = true
	}
	if a.next > p.fetchOffset {
		p.fetchOffset = a.next
		p.fetchEpoch = p.epochAfter(a.nextEpoch)
	} else {
		p.waitDecode, p.uncertain = true, true
	}
	t.touch(p)
	t.updateFull(p)
	t.queueDecode(p)
}

// epochAfter returns the epoch of the last batch read: what its header says, unless it
// cannot be. The checksum of a batch does not cover it, and a broker that is asked with a
// wrong one would take the log for truncated.
func (p *Partition) epochAfter(said int32) int32 {
	if p.source == p.leader && p.leaderEpoch >= 0 && said > p.leaderEpoch {
		return -1
	}
	return max(said, p.fetchEpoch)
}

// cutShort acts on a first batch that was cut. Brokers before Fetch v3 cut it where it
// is larger than what was asked for (KIP-74): more is asked for. Otherwise the length in
// its header is wrong.
func (t *Table) cutShort(p *Partition, a *answer) {
	most := t.largestBatch()
	switch {
	case a.whole || a.need <= int(p.size) && a.uncapped:
		t.decodeFault(p, &protocol.BatchError{
			BaseOffset: p.fetchOffset, Next: -1,
			Err: fmt.Errorf("%w: batch of %d bytes was cut", protocol.ErrCorrupt, a.need),
		})
	case a.need > int(most) && a.uncapped:
		t.refuseBatch(p, a.need)
	default:
		p.size = max(p.size, min(int32(a.need), most))
		t.touch(p)
	}
}

// refuseBatch acts on a batch that no answer may hold, once all before it is decoded.
func (t *Table) refuseBatch(p *Partition, size int) {
	if p.undecoded() {
		p.waitDecode = true
		t.touch(p)
		return
	}
	t.fault(p, &SizeError{Offset: p.fetchOffset, Size: size, Limit: t.largestBatch()})
}

// enlarge asks for more of a partition that answered with nothing. Where brokers up to
// 2.8 cut a batch for a Fetch before v3, those of 3.x leave it out. One that is larger
// than any answer cannot be told there from offsets that compaction took away: see
// VacancyAnswered.
func (t *Table) enlarge(p *Partition) {
	const factor = 8 // each time costs a fetch that brings nothing
	most := t.largestBatch()
	if p.size >= most {
		return
	}
	p.size, p.enlarged = int32(min(int64(p.size)*factor, int64(most))), true
	t.touch(p)
}

// endEnlarged goes back to the usual size: an answer to an old Fetch may be as large as
// what was asked for.
func (t *Table) endEnlarged(p *Partition) {
	if p.enlarged {
		p.size, p.enlarged = t.limits.MaxPartitionFetchBytes, false
	}
}

// mayNotFit tells whether an answer may have left a partition out because its next batch
// is larger than what was asked for.
func (t *Table) mayNotFit(p *Partition, version int16) bool {
	return version < cappedVersion && p.size < t.largestBatch()
}

func (t *Table) largestBatch() int32 { return t.limits.MaxFrameBytes - frameMargin }

// frameMargin is what an answer needs besides the one batch.
const frameMargin = 64 << 10

func (t *Table) updateFull(p *Partition) {
	switch share := t.share(); {
	case p.bytes >= share:
		if !p.full {
			p.full = true
			t.touch(p)
		}
	case p.full && p.bytes <= share/2:
		p.full = false
		t.touch(p)
	}
}

// applyRefusal acts on an error or a divergence. One that answers an offset ahead of
// what was decoded may come of a damaged header, so it is acted on only once
// everything before it is decoded: the partition asks again then.
func (t *Table) applyRefusal(p *Partition, a *answer, now time.Time) {
	if p.member != nil {
		p.member.since = now
	}
	if p.undecoded() {
		p.waitDecode = true
		t.touch(p)
		return
	}
	if a.leader.ID >= 0 && a.leader.Epoch > p.leaderEpoch {
		t.reportLeader(p, a.leader)
	}
	switch {
	case p.follower >= 0: // the leader knows better, and has the log as far as it was read
		t.avoidFollower(p, now)
	case a.code != protocol.None:
		t.applyError(p, a.code, now)
	default:
		t.truncated(p, a.diverging)
	}
}

// reportLeader tells of a newer leader, with the address that the answer gave for it.
func (t *Table) reportLeader(p *Partition, leader protocol.LeaderIDEpoch) {
	r := Report{TP: p.tp, Kind: ReportLeader, Leader: leader}
	for _, e := range t.endpoints {
		if e.NodeID == leader.ID {
			r.Endpoint = &e
		}
	}
	t.report(r)
}

// truncated acts on a log that parts from what was read of it (KIP-320): end is
// where the log that is common ends. What was handed over beyond it cannot be taken
// back; the reset policy, or an error, decides.
func (t *Table) truncated(p *Partition, end protocol.EpochEndOffset) {
	t.syncLive()
	known := end.EndOffset >= 0 && end.Epoch >= 0
	t.drop(p)
	t.void(p)
	switch from := p.position; {
	case known && from <= end.EndOffset:
		p.refetchFrom(from, min(p.posEpoch, end.Epoch))
		t.touch(p)
	case t.limits.Policy() == PolicyNone:
		t.fault(p, &TruncationError{Offset: from, Divergent: end.EndOffset, Epoch: end.Epoch, Known: known})
	case known:
		t.setPosition(p, end.EndOffset, end.Epoch)
		t.report(Report{TP: p.tp, Kind: ReportReset, From: from, To: end.EndOffset, Reason: "log was truncated"})
	default:
		t.startReset(p, t.limits.Policy(), "log was truncated")
	}
	t.paceResets(p)
}

// paceResets makes the second of two resets in a row wait, with nothing read between: a
// broker that refuses what it told of would keep both sides busy.
func (t *Table) paceResets(p *Partition) {
	if p.resets > 0 && p.stage != stopped {
		p.retryAt = t.now.Add(t.limits.Backoff(p.resets - 1))
	}
	p.resets++
}

// A TruncationError says that records which were handed over are gone from the log.
type TruncationError struct {
	Offset    int64 // the position
	Divergent int64 // the first offset that may differ
	Epoch     int32
	Known     bool // Divergent and Epoch are
}

func (e *TruncationError) Error() string { return "log truncation" }

// applyError acts on an error code of the leader, everything before being decoded.
func (t *Table) applyError(p *Partition, code protocol.ErrorCode, now time.Time) {
	err := &AnswerError{Broker: p.leader, Code: code}
	switch {
	case code == protocol.OffsetOutOfRange && p.outdated():
		t.retryRefreshed(p, err, now)
	case code == protocol.OffsetOutOfRange:
		p.tail = tail{kind: tailOutOfRange, offset: p.fetchOffset}
		t.settle(p)
	case code == protocol.TopicAuthorizationFailed:
		t.retryLater(p, err, now)
		t.report(Report{TP: p.tp, Kind: ReportError, Err: err})
	case code == protocol.CorruptMessage && p.retriedAt != p.fetchOffset:
		p.retriedAt = p.fetchOffset
		t.retryLater(p, err, now)
	case code.Retriable() && code != protocol.CorruptMessage || code == protocol.UnknownServerError:
		t.retryRefreshed(p, err, now)
	default:
		t.fault(p, err)
	}
}

func (t *Table) retryLater(p *Partition, err error, now time.Time) {
	t.retryAt(p, err, now.Add(t.limits.Backoff(p.failures)), now)
}

// retryRefreshed is retryLater with new metadata, which may tell of another leader.
func (t *Table) retryRefreshed(p *Partition, err error, now time.Time) {
	t.retryLater(p, err, now)
	t.report(Report{TP: p.tp, Kind: ReportStaleMetadata, Err: err})
}

// retryAt notes why p does not go on, which began at since unless it has failed before.
func (t *Table) retryAt(p *Partition, err error, due, since time.Time) {
	if p.failures == 0 {
		p.failingSince = since
	}
	p.retryAt = due
	p.failures++
	p.lastErr = err
	t.touch(p)
}

// fault stops p: err is for the application, after the records before it.
func (t *Table) fault(p *Partition, err error) {
	t.dropChunks(p)
	p.refetched++
	p.waitDecode, p.uncertain = false, false
	t.setFault(p, err)
}

func (t *Table) setFault(p *Partition, err error) {
	p.tail = tail{kind: tailFault, err: err}
	p.lastErr = err
	if !slices.Contains(t.faulty, p) {
		t.faulty = append(t.faulty, p)
	}
	t.touch(p)
}

func (t *Table) dropChunks(p *Partition) {
	for _, c := range p.chunks.all() {
		n := int64(len(c.data))
		p.bytes -= n
		t.buffered -= n
	}
	p.chunks.drop()
	p.dropped++
}

// settle acts on p's tail once everything before it was handed over.
func (t *Table) settle(p *Partition) {
	if p.tail.kind != tailOutOfRange || !p.drained() {
		return
	}
	reason := fmt.Sprintf("offset %d is out of range", p.tail.offset)
	t.startReset(p, t.limits.Policy(), reason)
	t.paceResets(p)
}

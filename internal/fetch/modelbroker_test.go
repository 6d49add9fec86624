package fetch

import (
	"bytes"
	"io"
	"slices"

	"github.com/kafkaconsumer/kafka/protocol"
)

// ask sends the next request to a broker, if there is one.
func (m *model) ask(broker int32) {
	s := m.table.Session(broker)
	if s == nil {
		if m.rng.IntN(2) == 0 && !m.flying(m.table.sessions[broker]) {
			m.table.Leave(broker)
		}
		return
	}
	if s.busy {
		return
	}
	if hungry, _ := m.table.Hungry(s, m.now); !hungry {
		return
	}
	s.Wire.Rack = "r"
	if m.table.Plan(s, m.version, m.now) {
		m.note("ask %d: session %d/%d %+v -%+v", broker, s.Wire.SessionID, s.Wire.SessionEpoch, s.Wire.Topics, s.Wire.Forgotten)
		m.flights = append(m.flights, &flight{broker: broker, q: &s.Request, s: s})
	}
}

func (m *model) flying(s *Session) bool {
	return slices.ContainsFunc(m.flights, func(f *flight) bool { return f.s != nil && f.s == s })
}

// askBeside sends a request beside the session's.
func (m *model) askBeside(broker int32) {
	s := m.table.Session(broker)
	if s == nil || slices.ContainsFunc(m.flights, func(f *flight) bool { return f.s == nil && f.broker == broker }) {
		return
	}
	m.now = m.now.Add(longPoll)
	q := new(Request)
	q.Wire.Rack = "r"
	if ok, _ := m.table.PlanSide(q, s, m.version, m.now); ok {
		m.note("ask %d beside: %+v", broker, q.Wire.Topics)
		m.flights = append(m.flights, &flight{broker: broker, q: q})
	}
}

// fly has the broker handle a request, or its answer arrive.
func (m *model) fly() {
	if len(m.flights) == 0 {
		return
	}
	i := m.rng.IntN(len(m.flights))
	f := m.flights[i]
	if !f.handled {
		f.handled = true
		m.handle(f)
		return
	}
	m.flights = slices.Delete(m.flights, i, i+1)
	frame := frame(f.q, f.top, f.answers)
	if m.faults && m.rng.IntN(15) == 0 {
		frame = frame[:m.rng.IntN(len(frame))]
	}
	reader := protocol.NewReader(bytes.NewReader(frame), 512)
	resp := new(protocol.FetchResponse)
	_, err := reader.Frame()
	if err == nil {
		err = ReadAnswer(f.q, resp, reader)
	}
	m.note("answer of %d, beside: %v: %v, session %d, error %v", f.broker, f.s == nil, err, resp.SessionID, resp.ErrorCode)
	m.apply(f, resp, err)
}

func (m *model) apply(f *flight, resp *protocol.FetchResponse, err error) {
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		m.fail("answer is not understood: %v", err)
	}
	switch {
	case f.s == nil && (err != nil || resp.ErrorCode != protocol.None):
		m.table.DiscardSide(f.q, m.now)
	case f.s == nil:
		m.table.ApplySide(f.q, resp, m.now)
	case err != nil:
		m.table.Discard(f.s)
		m.table.BrokerFailed(f.broker, err, false, m.now)
	case !m.table.Apply(f.s, resp, m.now) && resp.ErrorCode == protocol.UnknownServerError:
		m.table.BrokerFailed(f.broker, resp.ErrorCode, false, m.now)
	}
}

// handle computes the broker's answer.
func (m *model) handle(f *flight) {
	w := &f.q.Wire
	f.top.session = -1
	if m.faults && m.rng.IntN(30) == 0 {
		f.top.code = protocol.UnknownServerError
		return
	}
	asked := map[int32]protocol.FetchPartition{}
	var order []int32
	for _, t := range w.Topics {
		for _, p := range t.Partitions {
			asked[p.Partition] = p
			order = append(order, p.Partition)
		}
	}
	if f.q.Version < sessionVersion || w.SessionEpoch < 0 || !m.keeps {
		m.answerAll(f, order, asked, nil)
		return
	}
	ses := m.sessions[f.broker]
	if m.faults && m.rng.IntN(30) == 0 { // it was evicted
		delete(m.sessions, f.broker)
		ses = nil
	}
	if w.SessionEpoch == 0 {
		m.nextID++
		ses = &modelSession{id: m.nextID, parts: map[int32]*sessionPart{}}
		m.sessions[f.broker] = ses
	} else if ses == nil || ses.id != w.SessionID {
		f.top.code = protocol.FetchSessionIDNotFound
		return
	} else if ses.epoch+1 != w.SessionEpoch {
		f.top.code = protocol.InvalidFetchSessionEpoch
		return
	}
	full := w.SessionEpoch == 0
	ses.epoch = w.SessionEpoch
	f.top.session = ses.id
	ses.update(order, asked, w)
	order = order[:0]
	for p := range ses.parts {
		order = append(order, p)
	}
	slices.Sort(order)
	m.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	if full {
		ses = &modelSession{parts: ses.parts, epoch: -1} // all are told of
	}
	m.answerAll(f, order, nil, ses)
}

// update adds what a request names, and then forgets, as brokers do.
func (s *modelSession) update(order []int32, asked map[int32]protocol.FetchPartition, w *protocol.FetchRequest) {
	for _, p := range order {
		if s.parts[p] == nil {
			s.parts[p] = &sessionPart{hw: -1, lso: -1}
		}
		s.parts[p].asked = asked[p]
	}
	for _, t := range w.Forgotten {
		for _, p := range t.Partitions {
			delete(s.parts, p)
		}
	}
}

// answerAll answers for the partitions in order. Of a session's only what changed is told.
func (m *model) answerAll(f *flight, order []int32, asked map[int32]protocol.FetchPartition, ses *modelSession) {
	left, first := int(f.q.Wire.MaxBytes), true
	for _, p := range order {
		q, part := asked[p], (*sessionPart)(nil)
		if ses != nil {
			part = ses.parts[p]
			q = part.asked
		}
		a := m.answerOf(f, p, q, left, first)
		if len(a.records) > 0 {
			first = false
			left = max(left-len(a.records), 0)
		}
		if part != nil {
			same := part.hw == a.hw && part.lso == a.lso && len(a.records) == 0 && a.code == 0 && a.replica == 0
			part.hw, part.lso = a.hw, a.lso
			if a.code != 0 {
				part.hw = -1
			}
			if same && ses.epoch > 0 {
				continue
			}
		}
		f.answers = append(f.answers, a)
	}
}

// answerOf answers for one partition.
func (m *model) answerOf(f *flight, p int32, q protocol.FetchPartition, left int, first bool) ans {
	l := m.logs[p]
	a := ans{partition: p, hw: none}
	follower := f.broker != l.leader && f.q.Version >= 11 && m.seed%3 == 0
	switch {
	case m.faults && m.rng.IntN(25) == 0:
		a.code = []protocol.ErrorCode{
			protocol.UnknownServerError, protocol.CorruptMessage, protocol.OffsetNotAvailable, protocol.KafkaStorageError,
		}[m.rng.IntN(4)]
		return a
	case f.broker != l.leader && !follower:
		a.code = protocol.NotLeaderOrFollower
		return a
	case q.CurrentLeaderEpoch >= 0 && f.q.Version >= 9 && q.CurrentLeaderEpoch < l.epoch:
		a.code = protocol.FencedLeaderEpoch
		return a
	case q.FetchOffset > l.end || q.FetchOffset < 0:
		a.code = protocol.OffsetOutOfRange
		return a
	}
	if q.LastFetchedEpoch >= 0 && f.q.Version >= divergingVersion {
		if end := l.epochEnd(q.LastFetchedEpoch); end < q.FetchOffset {
			m.fail("asked for offset %d of %d, to which epoch %d does not reach, but to %d", q.FetchOffset, p, q.LastFetchedEpoch, end)
		}
		if follower && m.rng.IntN(8) == 0 { // it does not have as much yet
			a.hw, a.diverging = none, &protocol.EpochEndOffset{Epoch: q.LastFetchedEpoch, EndOffset: m.rng.Int64N(q.FetchOffset + 1)}
			return a
		}
	}
	if a.hw = l.hw; a.hw == 0 {
		a.hw = none
	}
	if a.lso = l.lastStable(); a.lso == 0 {
		a.lso = none
	}
	if !follower && f.q.Wire.Rack != "" && f.q.Version >= 11 && m.seed%3 == 0 && m.rng.IntN(2) == 0 {
		a.replica = 3 - l.leader
		return a
	}
	m.read(l, &a, f.q, q, left, first)
	if len(a.records) > 0 && m.rng.IntN(8) == 0 { // a new leader does not know yet how far all have come
		a.hw = max(m.rng.Int64N(l.hw+1), 1)
	}
	return a
}

// read puts records into an answer.
func (m *model) read(l *modelLog, a *ans, q *Request, part protocol.FetchPartition, left int, first bool) {
	bound, upTo := l.hw, part.FetchOffset
	if m.limit.ReadCommitted {
		bound = l.lastStable()
	}
	limit := int(part.MaxBytes)
	if q.Version >= cappedVersion {
		limit = min(limit, left)
	}
	damage := m.faults && m.rng.IntN(12) == 0
	for _, b := range l.batches {
		if b.last < part.FetchOffset {
			continue
		}
		if b.last >= bound || len(a.records) >= limit && len(a.records) > 0 {
			break
		}
		if q.Version >= cappedVersion && len(a.records) == 0 && len(b.bytes) > limit {
			if !first {
				break
			}
			limit = len(b.bytes)
		}
		raw := slices.Clone(b.bytes)
		if damage && m.rng.IntN(2) == 0 {
			damage = false
			m.damage(raw, b.magic)
		}
		a.records = append(a.records, raw[:min(len(raw), limit-len(a.records))]...)
		upTo = b.last + 1
	}
	if m.limit.ReadCommitted {
		for _, txn := range l.aborted { // a broker may name more than reach into the answer
			if txn.marker >= part.FetchOffset && (txn.first < upTo || txn.first < bound && m.rng.IntN(2) == 0) {
				a.aborted = append(a.aborted, protocol.AbortedTxn{ProducerID: txn.producer, FirstOffset: txn.first})
			}
		}
	}
}

// damage changes a byte that the batch's checksum covers.
func (m *model) damage(raw []byte, magic int8) {
	from := magicAt
	if magic == 2 {
		from = crcCoversFrom
	}
	raw[from+m.rng.IntN(len(raw)-from)] ^= byte(1 << m.rng.IntN(8))
}

const (
	magicAt       = 16 // from here on messages of the old formats are covered
	crcCoversFrom = 21 // from here on batches are
)

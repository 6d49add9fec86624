package fetch

import (
	"fmt"
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
	Size   int
	Limit  int32
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("batch of %d bytes, an answer may have %d", e.Size, e.Limit)
}

// Apply takes over what ReadAnswer read.
func (t *Table) Apply(pl *Plan, now time.Time) {
	t.finishPlan(pl, func(e *entry) {
		if e.answer.got {
			t.applyAnswer(e.p, e, now)
		}
	})
}

// Discard ends a plan whose answer did not come.
func (t *Table) Discard(pl *Plan) {
	t.finishPlan(pl, func(e *entry) { e.dropChunks() })
}

func (t *Table) finishPlan(pl *Plan, each func(*entry)) {
	t.reserved -= pl.room
	pl.room = 0
	t.stirred = true
	for i := range pl.entries {
		e := &pl.entries[i]
		if e.p.inFlight == pl {
			e.p.inFlight = nil
		}
		if e.p.refetched != e.refetched || t.parts[e.tp] != e.p {
			e.dropChunks()
			continue
		}
		each(e)
	}
}

func (e *entry) dropChunks() {
	for i := range e.answer.chunks {
		e.answer.chunks[i].recycle()
		e.answer.chunks[i] = chunk{}
	}
	e.answer.chunks = e.answer.chunks[:0]
}

func (t *Table) applyAnswer(p *Partition, e *entry, now time.Time) {
	a := &e.answer
	if a.code != protocol.None {
		e.dropChunks()
		t.applyError(p, a.code, now)
		return
	}
	p.failures, p.lastErr = 0, nil
	p.highWatermark, p.lastStable = a.highWatermark, a.lastStable
	p.logStart = a.logStart
	switch {
	case len(a.chunks) > 0:
		t.addChunks(p, a)
	case a.need > 0 && p.undecoded():
		p.waitDecode = true
	case a.need > 0:
		t.growSize(p, a.need)
	}
}

func (t *Table) addChunks(p *Partition, a *answer) {
	for i, c := range a.chunks {
		p.chunks = append(p.chunks, c)
		p.bytes += int64(len(c.data))
		t.buffered += int64(len(c.data))
		a.chunks[i] = chunk{}
	}
	a.chunks = a.chunks[:0]
	if a.next > p.fetchOffset {
		p.fetchOffset = a.next
		if a.nextEpoch >= 0 {
			p.fetchEpoch = a.nextEpoch
		}
	} else {
		p.waitDecode, p.uncertain = true, true
	}
	t.updateFull(p)
	t.queueDecode(p)
}

// growSize asks for more of a partition whose next batch did not fit: brokers
// before Fetch v3 cut it (KIP-74).
func (t *Table) growSize(p *Partition, need int) {
	most := t.limits.MaxFrameBytes - frameMargin
	if int64(need) > int64(most) {
		t.fault(p, &SizeError{Offset: p.fetchOffset, Size: need, Limit: most})
		return
	}
	p.size = max(p.size, int32(need))
}

// frameMargin is what an answer needs besides the one batch.
const frameMargin = 64 << 10

func (t *Table) updateFull(p *Partition) {
	switch share := t.share(); {
	case p.bytes >= share:
		p.full = true
	case p.full && p.bytes <= share/2:
		p.full = false
		t.stirred = true
	}
}

// applyError acts on an error code. One that answers an offset ahead of what was
// decoded may come of a damaged header, so it is acted on only once everything
// before it is decoded: the partition asks again then.
func (t *Table) applyError(p *Partition, code protocol.ErrorCode, now time.Time) {
	if p.undecoded() {
		p.waitDecode = true
		return
	}
	err := &AnswerError{Broker: p.leader, Code: code}
	switch {
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
		t.retryLater(p, err, now)
		t.report(Report{TP: p.tp, Kind: ReportStaleMetadata, Err: err})
	default:
		t.fault(p, err)
	}
}

func (t *Table) retryLater(p *Partition, err error, now time.Time) {
	p.retryAt = now.Add(t.limits.Backoff(p.failures))
	p.failures++
	p.lastErr = err
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
	t.faulty = append(t.faulty, p)
}

func (t *Table) dropChunks(p *Partition) {
	for i := range p.chunks {
		n := int64(len(p.chunks[i].data))
		p.bytes -= n
		t.buffered -= n
	}
	p.chunks = nil
}

// settle acts on p's tail once everything before it was handed over.
func (t *Table) settle(p *Partition) {
	if p.tail.kind != tailOutOfRange || !p.drained() {
		return
	}
	reason := fmt.Sprintf("offset %d is out of range", p.tail.offset)
	t.startReset(p, t.limits.Policy(), reason)
}

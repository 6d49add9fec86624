package fetch

import (
	"time"

	"github.com/kafkaconsumer/kafka/internal/metrics"
)

// A meter is what a Partition keeps for metrics.
type meter struct {
	to             *metrics.Partition // nil: nothing is measured
	records, bytes int64              // handed over since Measure
	lastStamp      int64              // timestamp of the record before the position, -1 if unknown
}

func (t *Table) beginMeasuring(p *Partition) {
	if t.limits.Metrics != nil {
		p.meter.to = t.limits.Metrics.Partition(p.tp.Topic, p.tp.Partition)
	}
}

func (t *Table) endMeasuring(p *Partition) {
	if p.meter.to != nil {
		p.meter.to.Gone()
	}
}

// countHandedOver counts the first n records of a cut. It costs the same for one record
// as for many.
func (t *Table) countHandedOver(p *Partition, c *Cut, n int) {
	m := &p.meter
	m.lastStamp = c.Seg.Timestamp(c.From + n - 1)
	if m.to == nil {
		return
	}
	if m.records == 0 {
		t.unmeasured = append(t.unmeasured, p)
	}
	m.records += int64(n)
	m.bytes += c.Seg.Bytes(c.From, c.From+n)
}

// HasUnmeasured tells whether records were handed over since Measure.
func (t *Table) HasUnmeasured() bool { return len(t.unmeasured) > 0 }

// Measure notes what was handed over since it was called last.
func (t *Table) Measure(now time.Time) {
	if len(t.unmeasured) == 0 {
		return
	}
	for i, p := range t.unmeasured {
		m := &p.meter
		m.to.HandedOver(m.records, m.bytes, t.lag(p), p.lead(), now)
		m.records, m.bytes = 0, 0
		t.unmeasured[i] = nil
	}
	t.unmeasured = t.unmeasured[:0]
	t.limits.Metrics.Flush(now)
}

// States returns where all partitions stand, for metrics.
func (t *Table) States(now time.Time) []metrics.State {
	t.syncLive()
	t.Measure(now)
	states := make([]metrics.State, 0, len(t.parts))
	for _, p := range t.parts {
		states = append(states, metrics.State{
			Partition: p.meter.to, Lag: t.lag(p), Lead: p.lead(), Age: t.age(p, now), Told: p.toldSince(now), Replica: p.follower,
		})
	}
	return states
}

// lag returns how many offsets are between the position and the end of what may be
// read, -1 if that is not known.
func (t *Table) lag(p *Partition) int64 {
	end := p.end(t.limits.ReadCommitted)
	if end < 0 || !p.known() {
		return -1
	}
	return max(end-p.position, 0)
}

// lead returns how many offsets are between the beginning of the log and the position,
// -1 if that is not known.
func (p *Partition) lead() int64 {
	if p.logStart < 0 || !p.known() {
		return -1
	}
	return max(p.position-p.logStart, 0)
}

// age returns how old the record at the position is: 0 if there is none, -1 if that is
// not known. The record before it stands for one that is not decoded yet.
func (t *Table) age(p *Partition, now time.Time) time.Duration {
	stamp := p.meter.lastStamp
	switch next, ok := p.nextStamp(); {
	case ok:
		stamp = next
	case t.lag(p) == 0:
		return 0
	case t.lag(p) < 0:
		return -1
	}
	if stamp < 0 {
		return -1
	}
	return max(now.Sub(time.UnixMilli(stamp)), 0)
}

// nextStamp returns the timestamp of the record at the position, if it is decoded.
func (p *Partition) nextStamp() (int64, bool) {
	for _, d := range p.decoded.all() {
		if i := d.seg.Search(p.position); i < d.seg.Len() {
			return d.seg.Timestamp(i), true
		}
	}
	return -1, false
}

// keepTold notes when the session that p is in told the end of its log last: an answer
// that does not speak of p says that nothing has changed.
func (p *Partition) keepTold() {
	if m := p.member; m != nil && p.home.toldAt.After(m.since) && p.home.toldAt.After(p.toldAt) {
		p.toldAt = p.home.toldAt
	}
}

// toldSince returns how long ago a broker told the end of the log, -1 if none did.
func (p *Partition) toldSince(now time.Time) time.Duration {
	p.keepTold()
	if p.toldAt.IsZero() {
		return -1
	}
	return max(now.Sub(p.toldAt), 0)
}

// Brought tells of each topic how many bytes of batches the answer to q brought, before
// it is applied, and returns their sum.
func (q *Request) Brought(now time.Time) (all int64) {
	var topic *metrics.Topic
	var sum int64
	for _, m := range q.answered {
		if m.p.meter.to == nil {
			continue
		}
		if t := m.p.meter.to.Topic(); t != topic {
			topic.Brought(sum, now)
			topic, sum = t, 0
		}
		for i := range m.answer.chunks {
			sum += int64(len(m.answer.chunks[i].data))
			all += int64(len(m.answer.chunks[i].data))
		}
	}
	topic.Brought(sum, now)
	return all
}

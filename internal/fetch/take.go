package fetch

import (
	"slices"
	"sync/atomic"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A Cut is a run of records of one partition, taken to be handed over.
type Cut struct {
	Seg    *protocol.Segment
	From   int // index of the first record
	To     int // index behind the last record
	p      *Partition
	voided uint64
	lease  *lease
}

// TP returns the cut's partition.
func (c *Cut) TP() protocol.TopicPartition { return c.p.tp }

// Len returns the number of records.
func (c *Cut) Len() int { return c.To - c.From }

// Live is the cut that an iterator or a channel hands over record by record. Its
// owner stores how far it came without taking the Table's lock; the Table reads it
// whenever it needs the partition's position.
type Live struct {
	cut    Cut
	active bool
	// Yielded is the index of the record that was handed over last, below From
	// when there was none.
	Yielded atomic.Int64
}

// Take appends at most limit records to cuts, fairly over the partitions that have
// some. They stay where they are until HandOver. Each cut is to be released when its
// records are used no longer; one that never is costs nothing but the reuse of memory.
func (t *Table) Take(limit int, cuts []Cut) []Cut {
	t.syncLive()
	t.skipAllEmpty()
	start := len(cuts)
	left := limit
	n := len(t.readyParts)
	for i := 0; i < n && left > 0; i++ {
		quota := max((left+n-i-1)/(n-i), 1)
		before := len(cuts)
		cuts = t.takeFrom(t.readyParts[i], min(quota, left), cuts)
		for _, c := range cuts[before:] {
			left -= c.Len()
		}
	}
	for i := start; i < len(cuts) && left > 0; i++ {
		c := &cuts[i]
		last := i+1 == len(cuts) || cuts[i+1].p != c.p
		if add := min(left, c.Seg.Len()-c.To); last && add > 0 {
			c.To += add
			left -= add
		}
	}
	return cuts
}

// takeFrom takes each offset once: segments of old messages whose offsets are damaged may
// go back.
func (t *Table) takeFrom(p *Partition, limit int, cuts []Cut) []Cut {
	next := p.position
	for i, d := range p.decoded.all() {
		seg := d.seg
		from := 0
		if i == 0 {
			from = p.nextIndex
		}
		if from < seg.Len() && seg.Offset(from) < next {
			from = seg.Search(next)
		}
		k := min(seg.Len()-from, limit)
		if k > 0 {
			d.retain()
			cuts = append(cuts, Cut{Seg: seg, From: from, To: from + k, p: p, voided: p.voided, lease: d.lease})
			limit -= k
			next = seg.Offset(from+k-1) + 1
		}
		if limit == 0 || from+k < seg.Len() || seg.Unindexed() {
			break
		}
	}
	return cuts
}

// HandOver marks the first n records of the cut as handed over: the position
// moves behind them, and behind offsets that follow and hold nothing. It returns
// false when the position was set anew or the partition was lost since Take.
func (t *Table) HandOver(c *Cut, n int) bool {
	p := c.p
	if p.voided != c.voided || t.parts[p.tp] != p {
		return false
	}
	if n == 0 {
		return true
	}
	last := c.From + n - 1
	for p.decoded.len() > 0 && p.decoded.at(0).seg != c.Seg {
		if p.decoded.at(0).seg.NextOffset() > c.Seg.Offset(c.From) {
			break // the cut's segment was dropped meanwhile
		}
		t.popDecoded(p)
	}
	if !p.handed {
		t.handed = append(t.handed, p)
	}
	p.advance(c.Seg.Offset(last)+1, c.Seg.LeaderEpoch(last), true)
	t.moved = true
	t.countHandedOver(p, c, n)
	if p.decoded.len() > 0 && p.decoded.at(0).seg == c.Seg {
		p.nextIndex = last + 1
	}
	t.skipEmpty(p)
	t.rotate(p)
	return true
}

// skipEmpty moves p's position over what is decoded and holds no more records.
func (t *Table) skipEmpty(p *Partition) {
	for p.decoded.len() > 0 {
		d := p.decoded.at(0)
		if p.nextIndex < d.seg.Len() && d.seg.Offset(p.nextIndex) < p.position {
			p.nextIndex = d.seg.Search(p.position)
		}
		if p.nextIndex < d.seg.Len() {
			break
		}
		if more := d.seg.More(); more != nil {
			rest := newLease(more, d.buf)
			d.release()
			d.lease = rest
			p.nextIndex = 0
			continue
		}
		t.popDecoded(p)
	}
	t.updateReady(p)
	t.settle(p)
	t.queueDecode(p)
}

// popDecoded drops the first segment, whose records were all handed over.
func (t *Table) popDecoded(p *Partition) {
	d := p.decoded.pop()
	p.nextIndex = 0
	p.bytes -= d.bytes
	p.ahead -= d.bytes
	t.buffered -= d.bytes
	t.stirred, t.moved = true, true
	p.advance(d.seg.NextOffset(), d.seg.LastEpoch(), false)
	d.release()
	t.updateFull(p)
}

// skipAllEmpty moves positions over what is decoded and holds no records, of
// partitions at whose head nothing else is.
func (t *Table) skipAllEmpty() {
	for i := 0; i < len(t.readyParts); {
		p, n := t.readyParts[i], len(t.readyParts)
		if seg := p.decoded.at(0).seg; p.nextIndex >= seg.Len() || seg.Offset(seg.Len()-1) < p.position {
			t.skipEmpty(p)
		}
		if len(t.readyParts) == n {
			i++
		}
	}
}

// HasReady tells whether some partition has decoded records to hand over.
func (t *Table) HasReady() bool { return len(t.readyParts) > 0 }

func (t *Table) updateReady(p *Partition) {
	should := p.decoded.len() > 0 && p.handsOut() && t.parts[p.tp] == p
	if should == p.inReady {
		return
	}
	p.inReady = should
	if should {
		t.readyParts = append(t.readyParts, p)
		return
	}
	if i := slices.Index(t.readyParts, p); i >= 0 {
		t.readyParts = slices.Delete(t.readyParts, i, i+1)
	}
}

// rotate puts p behind the other partitions that have records.
func (t *Table) rotate(p *Partition) {
	i := slices.Index(t.readyParts, p)
	if i < 0 || i == len(t.readyParts)-1 {
		return
	}
	t.readyParts = append(slices.Delete(t.readyParts, i, i+1), p)
}

// SetLive registers the cut that is handed over record by record from now on.
func (t *Table) SetLive(c Cut) *Live {
	t.syncLive()
	c.lease.pinned.Store(true) // nobody tells when its records are used no longer
	t.live.cut = c
	t.live.active = true
	t.live.Yielded.Store(int64(c.From - 1))
	return &t.live
}

// EndLive ends SetLive. A record that was offered and not taken stays to be handed
// over.
func (t *Table) EndLive() {
	t.syncLive()
	t.live.active = false
	t.live.cut = Cut{}
}

// LiveValid tells whether the records of the live cut may still be handed over.
func (t *Table) LiveValid() bool {
	p := t.live.cut.p
	return t.live.active && p.voided == t.live.cut.voided && t.parts[p.tp] == p && p.handsOut()
}

// syncLive takes over how far the live cut came. The record handed over last is
// not done: the application has not come back for the next.
func (t *Table) syncLive() {
	if !t.live.active {
		return
	}
	c := &t.live.cut
	yielded := int(t.live.Yielded.Load())
	n := yielded + 1 - c.From
	if n <= 0 {
		return
	}
	if c.p.voided == c.voided && t.parts[c.p.tp] == c.p {
		before := c.p.position
		if n > 1 {
			before = c.Seg.Offset(yielded-1) + 1
		}
		c.p.done = max(c.p.done, before)
		if n > 1 {
			c.p.doneEpoch = c.Seg.LeaderEpoch(yielded - 1)
		} else {
			c.p.doneEpoch = c.p.posEpoch
		}
		c.p.handed = true // keeps advance from counting this record as done
		if !slices.Contains(t.handed, c.p) {
			t.handed = append(t.handed, c.p)
		}
	}
	t.HandOver(c, n)
	c.From = yielded + 1
}

// CameBack marks everything handed over as done.
func (t *Table) CameBack() {
	t.syncLive()
	for i, p := range t.handed {
		p.cameBack()
		t.handed[i] = nil
	}
	t.handed = t.handed[:0]
}

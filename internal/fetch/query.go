package fetch

import (
	"iter"
	"slices"

	"github.com/kafkaconsumer/kafka/protocol"
)

// An Offset is an offset to commit, the leader epoch of the record before it, -1 if
// unknown, and the id of the topic that it is an offset of, zero if unknown.
type Offset struct {
	Offset  int64
	Epoch   int32
	TopicID [16]byte
}

// Position returns the offset of the next record to hand over, false while it is
// being found.
func (t *Table) Position(p *Partition) (Offset, bool) {
	t.syncLive()
	return Offset{p.position, p.posEpoch, p.topicID}, p.known()
}

// Waiting returns why p has no position or nothing comes of it: the last error, or
// nil.
func (t *Table) Waiting(p *Partition) error { return p.lastErr }

// Positions returns the positions of all partitions that have one.
func (t *Table) Positions() map[protocol.TopicPartition]Offset {
	t.syncLive()
	m := make(map[protocol.TopicPartition]Offset, len(t.parts))
	for tp, p := range t.parts {
		if p.known() {
			m[tp] = Offset{p.position, p.posEpoch, p.topicID}
		}
	}
	return m
}

// Done returns what the application is finished with and was not committed yet.
func (t *Table) Done() map[protocol.TopicPartition]Offset {
	t.syncLive()
	m := make(map[protocol.TopicPartition]Offset)
	for tp, p := range t.parts {
		if p.known() && p.done >= 0 && p.done != p.committed {
			m[tp] = Offset{p.done, p.doneEpoch, p.topicID}
		}
	}
	return m
}

// MarkDone notes that the application commits offset. Whoever commits records that were
// handed over is done with them, whatever comes of the commit: one that is automatic
// must not follow with less. An offset of a topic that was created again since says
// nothing of the new one.
func (t *Table) MarkDone(tp protocol.TopicPartition, offset int64, topicID [16]byte) {
	t.syncLive()
	if p := t.parts[tp]; p != nil && p.isOf(topicID) && p.done < offset && offset <= p.position {
		p.done, p.doneEpoch = offset, p.posEpoch
	}
}

// MarkCommitted notes that offset was committed.
func (t *Table) MarkCommitted(tp protocol.TopicPartition, offset int64, topicID [16]byte) {
	t.MarkDone(tp, offset, topicID)
	if p := t.parts[tp]; p != nil && p.isOf(topicID) {
		p.committed = offset
	}
}

// isOf tells whether p may be of the topic with that id.
func (p *Partition) isOf(topicID [16]byte) bool {
	return p.topicID == topicID || p.topicID == [16]byte{} || topicID == [16]byte{}
}

// TopicIDs returns the topic ids of those of the partitions that are assigned.
func (t *Table) TopicIDs(tps iter.Seq[protocol.TopicPartition]) map[protocol.TopicPartition][16]byte {
	m := make(map[protocol.TopicPartition][16]byte)
	for tp := range tps {
		if p := t.parts[tp]; p != nil {
			m[tp] = p.topicID
		}
	}
	return m
}

// IsPaused tells whether p is paused.
func (t *Table) IsPaused(p *Partition) bool { return p.paused }

// Buffered returns how many bytes are held of what was fetched and not handed over.
func (t *Table) Buffered() int64 { return t.buffered }

// Highwater returns the high watermark that the last answer gave.
func (t *Table) Highwater(p *Partition) (int64, bool) {
	return p.highWatermark, p.highWatermark >= 0
}

// Lag returns how many offsets are between the position and the end of what may
// be read.
func (t *Table) Lag(p *Partition) (int64, bool) {
	t.syncLive()
	lag := t.lag(p)
	return max(lag, 0), lag >= 0
}

// A Fault is a partition that stopped.
type Fault struct {
	TP  protocol.TopicPartition
	Err error
}

// NewFault returns a fault that the application was not told of, all records
// before it being handed over, and marks it as told.
func (t *Table) NewFault() (Fault, bool) {
	for _, p := range t.currentFaults() {
		if p.stands() && !p.tail.told {
			p.tail.told = true
			return Fault{TP: p.tp, Err: p.tail.err}, true
		}
	}
	return Fault{}, false
}

// Faults returns all partitions at fault.
func (t *Table) Faults() []Fault {
	var faults []Fault
	for _, p := range t.currentFaults() {
		if p.stands() {
			faults = append(faults, Fault{TP: p.tp, Err: p.tail.err})
		}
	}
	return faults
}

// currentFaults leaves out partitions that were sought or lost since.
func (t *Table) currentFaults() []*Partition {
	t.faulty = slices.DeleteFunc(t.faulty, func(p *Partition) bool {
		return p.tail.kind != tailFault || t.parts[p.tp] != p
	})
	return t.faulty
}

// stands tells whether p is at fault and the application should hear of it.
func (p *Partition) stands() bool {
	return p.tail.kind == tailFault && p.handsOut() && p.drained()
}

// FaultOf returns what p stopped for, or nil.
func (t *Table) FaultOf(p *Partition) error {
	if p.tail.kind == tailFault {
		return p.tail.err
	}
	return nil
}

// HasFaults tells whether a partition is at fault that the application was not
// told of.
func (t *Table) HasFaults() bool {
	for _, p := range t.faulty {
		if p.stands() && !p.tail.told {
			return true
		}
	}
	return false
}

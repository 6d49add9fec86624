package protocol

import "slices"

// Clone returns a segment with a copy of record i alone, which keeps nothing else
// in memory.
func (s *Segment) Clone(i int) *Segment {
	e := s.index[i]
	r := s.runs[e.run]
	start := e.key
	switch r.magic { // the checksum of the old formats stands before the key
	case 0:
		start -= keyAfterCRCV0
	case 1:
		start -= keyAfterCRCV1
	}
	end := e.value + uint32(max(e.valueLen, 0)) + uint32(len(s.HeaderBytes(i)))
	e.key -= start
	e.value -= start
	e.run = 0
	c := &Segment{
		data:  slices.Clone(s.data[start:end]),
		index: []entry{e},
		next:  s.Offset(i) + 1,
		epoch: r.epoch,
	}
	c.only[0] = r
	c.runs = c.only[:]
	return c
}

// EmptySegment returns a segment without records, for offsets up to next that are
// known to hold none.
func EmptySegment(next int64, epoch int32) *Segment { return &Segment{next: next, epoch: epoch} }

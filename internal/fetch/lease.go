package fetch

import (
	"sync/atomic"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A lease counts who uses a segment: the Table, until the last record is handed over
// or dropped, and each cut that was handed over, until it is released. The segment's
// memory is used again when nobody does. A lease that is pinned, or that a cut never
// gives back, is left to the garbage collector.
type lease struct {
	seg    *protocol.Segment
	buf    *buffer // what the segment lies in, nil if it has its own memory
	refs   atomic.Int32
	pinned atomic.Bool
}

func newLease(seg *protocol.Segment, buf *buffer) *lease {
	l := &lease{seg: seg}
	l.refs.Store(1)
	if buf != nil && seg.AliasesSource() {
		l.buf = buf
		buf.refs.Add(1)
	}
	return l
}

func (l *lease) retain() { l.refs.Add(1) }

func (l *lease) release() {
	if l.refs.Add(-1) != 0 || l.pinned.Load() {
		return
	}
	l.seg.Release()
	if l.buf != nil {
		l.buf.release()
	}
}

// Release ends the use of the cut's records.
func (c *Cut) Release() { c.lease.release() }

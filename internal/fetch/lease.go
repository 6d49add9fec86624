package fetch

import (
	"sync"
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

// A buffer is memory from a pool that chunks and segments share.
type buffer struct {
	b    []byte
	refs atomic.Int32
}

// buffers holds buffers of pieceSize that are free.
var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, pieceSize)} }}

func newBuffer() *buffer {
	buf := buffers.Get().(*buffer)
	buf.refs.Store(1)
	return buf
}

func (buf *buffer) release() {
	if buf.refs.Add(-1) == 0 {
		poison(buf.b[:cap(buf.b)])
		buffers.Put(buf)
	}
}

// Release ends the use of the cut's records.
func (c *Cut) Release() { c.lease.release() }

package fetch

import (
	"slices"

	"github.com/kafkaconsumer/kafka/protocol"
)

// readAhead is how many bytes behind an uncompressed batch are read together with it:
// the next batches stand there, and are wanted in the same chunk.
const readAhead = 128 << 10

// A pieceReader reads the records of one partition into the chunks of its answer.
type pieceReader struct {
	a     *answer
	part  *protocol.FetchedPartition
	resp  *protocol.FetchResponse
	spare int // bytes behind the last chunk's, in its buffer, that were read ahead
}

// left returns how many bytes of records belong to no chunk yet.
func (in *pieceReader) left() int { return in.spare + in.resp.RecordsLeft() }

// last returns the last chunk, or nil.
func (in *pieceReader) last() *chunk {
	if n := len(in.a.chunks); n > 0 {
		return &in.a.chunks[n-1]
	}
	return nil
}

// peek returns the next n bytes of records, fewer at their end.
func (in *pieceReader) peek(n int) ([]byte, error) {
	n = min(n, in.left())
	if in.spare == 0 {
		head := in.resp.PeekBatch(n)
		if len(head) < n { // the connection ended
			return nil, in.resp.ReadRecords(make([]byte, n))
		}
		return head, nil
	}
	c := in.last()
	at := len(c.data)
	if missing := n - in.spare; missing > 0 { // readAhead left room for it
		if err := in.resp.ReadRecords(c.data[at+in.spare : at+n]); err != nil {
			return nil, err
		}
		in.spare = n
	}
	return c.data[at : at+n], nil
}

// keepDamaged keeps the start of what is no batch, so that the decoder says what is
// wrong with it once everything before it was handed over.
func (in *pieceReader) keepDamaged(head []byte) {
	head = slices.Clone(head) // it may lie in the last chunk
	in.end()
	in.append(chunk{data: head})
}

// end ends the last chunk.
func (in *pieceReader) end() {
	if c := in.last(); c != nil {
		c.slim()
	}
}

// readBatch reads one batch into the last chunk, or into a new one where it does
// not fit. A doubtful one is alone in its chunk.
func (in *pieceReader) readBatch(h *protocol.BatchHeader, doubt string) error {
	c := in.last()
	if c == nil || doubt != "" || c.compressed != h.Compressed || len(c.data)+h.Size > min(cap(c.data), pieceSize) || in.crowds(c, h) {
		c = in.begin(h)
		c.doubt = doubt
	}
	have := min(in.spare, h.Size)
	c.data = c.data[:len(c.data)+have]
	in.spare -= have
	missing := h.Size - have
	if c.compressed || missing == 0 || missing > cap(c.data)-len(c.data) {
		return in.readExactly(c, missing)
	}
	at := len(c.data)
	room := min(missing+readAhead, cap(c.data)-at-protocol.BatchPeek)
	n, err := in.resp.ReadRecordsAhead(c.data[at:at+max(missing, room)], missing)
	if err != nil {
		return err
	}
	c.data = c.data[:at+missing]
	in.spare = n - missing
	return nil
}

// crowds tells whether a batch that was read ahead would leave no room in c to peek behind
// it. Only messages of the old formats are that small.
func (in *pieceReader) crowds(c *chunk, h *protocol.BatchHeader) bool {
	return h.Size <= in.spare && len(c.data)+h.Size+min(protocol.BatchPeek, in.left()-h.Size) > cap(c.data)
}

// begin begins a chunk with the batch h, and takes what was read ahead over.
func (in *pieceReader) begin(h *protocol.BatchHeader) *chunk {
	c := newChunk(h, in.left())
	if last := in.last(); last != nil {
		if ahead := last.data[len(last.data) : len(last.data)+in.spare]; len(ahead) > 0 {
			c.data = slices.Grow(c.data, len(ahead)+protocol.BatchPeek)
			copy(c.data[:len(ahead)], ahead)
		}
		last.slim()
	}
	in.append(c)
	return in.last()
}

// readExactly appends the next n bytes of records to c. What only a header claims is
// no reason to allocate more than trustedSize at a time.
func (in *pieceReader) readExactly(c *chunk, n int) error {
	for n > 0 {
		m := min(n, trustedSize)
		c.data = slices.Grow(c.data, m)
		at := len(c.data)
		c.data = c.data[:at+m]
		if err := in.resp.ReadRecords(c.data[at:]); err != nil {
			return err
		}
		n -= m
	}
	return nil
}

func (in *pieceReader) append(c chunk) {
	if len(in.a.chunks) == 0 {
		c.first = true
		c.aborted = slices.Clone(in.part.Aborted)
	}
	in.a.chunks = append(in.a.chunks, c)
}

// newChunk returns an empty chunk for the batch h and those behind it, left bytes in
// all.
func newChunk(h *protocol.BatchHeader, left int) chunk {
	c := chunk{compressed: h.Compressed}
	switch {
	case h.Size > pieceSize:
		c.data = make([]byte, 0, min(h.Size, trustedSize))
		return c
	case h.Control: // a marker stands between batches of another kind
		c.data = make([]byte, 0, h.Size)
		return c
	case left >= pooledFrom:
		c.buf = buffers.get(h.Compressed || recycling.Load())
	}
	if c.buf != nil {
		c.data = c.buf.b
		return c
	}
	// Room for as many batches as fit, most being about as long, and not for a part
	// of one.
	whole := pieceSize / h.Size * h.Size
	c.data = make([]byte, 0, min(left, pieceSize, whole+h.Size/16+protocol.BatchPeek))
	return c
}

// slim moves little data out of a large buffer.
func (c *chunk) slim() {
	if len(c.data) < cap(c.data)/2 {
		data := slices.Clone(c.data)
		c.recycle()
		c.data = data
	}
}

// recycle gives a pooled buffer back once no segment lies in it.
func (c *chunk) recycle() {
	if c.buf != nil {
		c.buf.release()
		c.buf, c.data = nil, nil
	}
}

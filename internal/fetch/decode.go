package fetch

import (
	"errors"
	"fmt"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A Task is one piece of decoding, done by Run outside of the Table's lock.
type Task struct {
	p         *Partition
	refetched uint64
	chunk     chunk
	seg       *protocol.Segment
	n         int
	err       error
}

// aheadLimit is how many decoded bytes of a partition may wait for the
// application before its next piece is decoded.
const aheadLimit = 512 << 10

// queueDecode puts p in the decode queue if it has something to decode and may.
func (t *Table) queueDecode(p *Partition) {
	if p.queued || p.decoding || len(p.chunks) == 0 || p.ahead >= aheadLimit || !p.wanted() {
		return
	}
	p.queued = true
	t.decodeQueue = append(t.decodeQueue, p)
}

// NextDecode returns the next piece to decode. The first of the queue passes when
// memory allows, or when nothing decoded waits for the application, so that there
// is always progress.
func (t *Table) NextDecode() (task Task, ok bool) {
	for len(t.decodeQueue) > 0 {
		p := t.decodeQueue[0]
		stale := p.decoding || len(p.chunks) == 0 || !p.wanted() || t.parts[p.tp] != p
		if !stale && t.buffered >= t.limits.MaxBufferedBytes && len(t.readyParts) > 0 {
			return Task{}, false
		}
		t.decodeQueue[0] = nil
		t.decodeQueue = t.decodeQueue[1:]
		p.queued = false
		if stale {
			continue
		}
		p.decoding = true
		return Task{p: p, refetched: p.refetched, chunk: p.chunks[0]}, true
	}
	t.decodeQueue = nil
	return Task{}, false
}

// Run decodes. It may run beside anything but another Run of the same partition,
// which NextDecode sees to.
func (task *Task) Run() {
	if task.chunk.first {
		task.p.decoder.BeginAnswer(task.chunk.aborted)
	}
	task.seg, task.n, task.err = task.p.decoder.Decode(task.chunk.data, aheadLimit)
}

// DecodeDone takes over what Run decoded.
func (t *Table) DecodeDone(task *Task) {
	p := task.p
	p.decoding = false
	if p.refetched != task.refetched || t.parts[p.tp] != p {
		p.decoder.Reset()
		t.settle(p)
		t.queueDecode(p)
		return
	}
	if task.seg != nil {
		t.addSegment(p, newLease(task.seg, task.chunk.buf), task.n)
	}
	t.consumeChunk(p, task.n)
	switch {
	case task.err != nil:
		t.decodeFault(p, task.err)
	case len(p.chunks) == 0 && p.waitDecode:
		t.decodedAll(p)
	}
	t.settle(p)
	t.updateFull(p)
	t.queueDecode(p)
}

// consumeChunk counts n bytes of the first chunk as decoded. Nothing decodable is
// left of a chunk of which nothing was consumed.
func (t *Table) consumeChunk(p *Partition, n int) {
	c := &p.chunks[0]
	c.first = false
	if n == 0 {
		n = len(c.data)
	}
	c.data = c.data[n:]
	p.bytes -= int64(n)
	t.buffered -= int64(n)
	if len(c.data) == 0 {
		c.recycle()
		p.chunks[0] = chunk{}
		p.chunks = p.chunks[1:]
	}
}

// addSegment puts what n bytes were decoded to behind what is decoded already.
func (t *Table) addSegment(p *Partition, l *lease, n int) {
	seg := l.seg
	size := seg.Size()
	if seg.AliasesSource() {
		size += int64(n)
	}
	p.decoded = append(p.decoded, decoded{lease: l, bytes: size})
	p.bytes += size
	p.ahead += size
	t.buffered += size
	p.decodeAt = max(p.decodeAt, seg.NextOffset())
	t.updateReady(p)
}

// decodedAll goes on with fetching after everything was decoded. Where headers did
// not tell the next offset, the records do; if they do not reach beyond what was
// asked for, asking again would go on for ever.
func (t *Table) decodedAll(p *Partition) {
	stuck := p.uncertain && p.decodeAt <= p.fetchOffset
	p.waitDecode, p.uncertain = false, false
	p.fetchOffset = max(p.decodeAt, p.position)
	t.touch(p)
	switch {
	case !stuck:
	case p.retriedAt == p.fetchOffset:
		t.fault(p, &protocol.BatchError{
			BaseOffset: p.fetchOffset, Next: -1,
			Err: fmt.Errorf("%w: no batch reaches offset %d", protocol.ErrCorrupt, p.fetchOffset),
		})
	default:
		p.retriedAt = p.fetchOffset
	}
}

// decodeFault drops everything behind a batch that does not decode. Bytes may have
// been damaged on their way, so they are fetched once more before the application
// hears of it; what will be the same again is told at once.
func (t *Table) decodeFault(p *Partition, err error) {
	if !errors.Is(err, protocol.ErrCorrupt) || p.retriedAt == p.decodeAt {
		t.fault(p, err)
		return
	}
	p.retriedAt = p.decodeAt
	t.dropChunks(p)
	p.refetchFrom(p.decodeAt, p.fetchEpoch)
	t.touch(p)
}

// HasUndecoded tells whether NextDecode may return something.
func (t *Table) HasUndecoded() bool { return len(t.decodeQueue) > 0 }

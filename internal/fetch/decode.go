package fetch

import (
	"errors"
	"fmt"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A Task is one piece of decoding, done by Run outside of the Table's lock.
type Task struct {
	p       *Partition
	dropped uint64
	at      int64 // the offset behind everything decoded before
	limit   int   // how many decoded bytes it is admitted with
	chunk   chunk
	seg     *protocol.Segment
	n       int
	err     error
}

// aheadLimit is how many decoded bytes of a partition may wait for the
// application before its next piece is decoded.
const aheadLimit = 512 << 10

// queueDecode puts p in the decode queue if it has something to decode and may.
func (t *Table) queueDecode(p *Partition) {
	if p.queued || p.decoding || p.chunks.len() == 0 || p.ahead >= aheadLimit || !p.wanted() {
		return
	}
	p.queued = true
	t.decodeQueue.push(p)
}

// NextDecode returns the next piece to decode. The first of the queue passes when
// memory allows, or when nothing decoded waits for the application, so that there
// is always progress.
func (t *Table) NextDecode() (task Task, ok bool) {
	for t.decodeQueue.len() > 0 {
		p := *t.decodeQueue.at(0)
		stale := p.decoding || p.chunks.len() == 0 || !p.wanted() || t.parts[p.tp] != p
		limit := min(t.limits.MaxBufferedBytes-t.buffered-t.decoding, aheadLimit)
		if !stale && limit <= 0 && len(t.readyParts) > 0 {
			return Task{}, false
		}
		limit = max(limit, 1) // one batch
		t.decodeQueue.pop()
		p.queued = false
		if stale {
			continue
		}
		p.decoding = true
		t.decoding += limit
		return Task{p: p, limit: int(limit), dropped: p.dropped, at: p.decodeAt, chunk: *p.chunks.at(0)}, true
	}
	return Task{}, false
}

// Run decodes. It may run beside anything but another Run of the same partition,
// which NextDecode sees to.
func (task *Task) Run() {
	if task.chunk.first {
		task.p.decoder.BeginAnswer(task.chunk.aborted)
	}
	task.seg, task.n, task.err = task.p.decoder.Decode(task.chunk.data, task.limit)
	if task.chunk.doubt != "" && task.err == nil {
		task.seg, task.n = nil, 0
		task.err = &protocol.BatchError{BaseOffset: task.at, Next: -1, Err: fmt.Errorf("%w: %s", protocol.ErrCorrupt, task.chunk.doubt)}
	}
}

// DecodeDone takes over what Run decoded.
func (t *Table) DecodeDone(task *Task) {
	p := task.p
	p.decoding = false
	t.decoding -= int64(task.limit)
	t.stirred = true
	if p.dropped != task.dropped || t.parts[p.tp] != p {
		p.decoder.Reset()
		t.decodeEnded(p)
		return
	}
	if task.seg != nil {
		t.addSegment(p, newLease(task.seg, task.chunk.buf), task.n)
	}
	t.consumeChunk(p, task.n)
	if task.err != nil {
		t.decodeFault(p, task.err)
	}
	t.updateFull(p)
	t.decodeEnded(p)
}

// decodeEnded goes on with what waited for p to be decoded.
func (t *Table) decodeEnded(p *Partition) {
	if !p.undecoded() {
		if p.waitDecode {
			t.decodedAll(p)
		}
		if p.doubtful {
			t.unlocated = true
		}
	}
	t.settle(p)
	t.queueDecode(p)
}

// consumeChunk counts n bytes of the first chunk as decoded. Nothing decodable is
// left of a chunk of which nothing was consumed.
func (t *Table) consumeChunk(p *Partition, n int) {
	c := p.chunks.at(0)
	c.first = false
	if n == 0 {
		n = len(c.data)
	}
	c.data = c.data[n:]
	p.bytes -= int64(n)
	t.buffered -= int64(n)
	if len(c.data) == 0 {
		c.recycle()
		p.chunks.pop()
	}
}

// addSegment puts what n bytes were decoded to behind what is decoded already.
func (t *Table) addSegment(p *Partition, l *lease, n int) {
	seg := l.seg
	size := seg.Size()
	if seg.AliasesSource() {
		size += int64(n)
	}
	p.decoded.push(decoded{lease: l, bytes: size})
	p.bytes += size
	p.ahead += size
	t.buffered += size
	p.decodeAt = max(p.decodeAt, seg.NextOffset())
	p.boundary = seg.NextOffset()
	p.decodeEpoch = max(p.decodeEpoch, seg.LastEpoch())
	t.updateReady(p)
}

// decodedAll goes on with fetching after everything was decoded. Where headers did
// not tell the next offset, the records do; if they do not reach beyond what was
// asked for, asking again would go on for ever.
func (t *Table) decodedAll(p *Partition) {
	stuck := p.uncertain && p.decodeAt <= p.fetchOffset
	p.waitDecode, p.uncertain = false, false
	next, epoch := p.decodeAt, p.epochAfter(p.decodeEpoch)
	if p.position > next {
		next, epoch = p.position, p.posEpoch
	}
	if next > p.fetchOffset { // asked with an older epoch the leader would take the log for truncated
		p.fetchOffset, p.fetchEpoch = next, epoch
	}
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
		t.fault(p, p.plausible(err))
		return
	}
	p.retriedAt = p.decodeAt
	t.dropChunks(p)
	p.refetchFrom(p.decodeAt, p.decodeEpoch)
	if p.follower >= 0 {
		t.backToLeader(p)
		if p.home != nil {
			p.home.insist = true
		}
	}
	t.touch(p)
}

// plausible leaves out of a batch's error what its damaged header cannot tell.
func (p *Partition) plausible(err error) error {
	e, ok := errors.AsType[*protocol.BatchError](err)
	if !ok || p.highWatermark < 0 {
		return err
	}
	clean := *e
	if e.BaseOffset < 0 || e.BaseOffset > p.highWatermark {
		clean.BaseOffset = p.decodeAt
	}
	if e.Next <= p.decodeAt || e.Next > p.highWatermark+1 {
		clean.Next = -1
	}
	return &clean
}

// littleBytes is how many bytes are decoded in less time than it takes to wake another
// goroutine.
const littleBytes = 16 << 10

// HasLittleUndecoded tells whether there is something to decode, but no more than
// littleBytes and nothing compressed.
func (t *Table) HasLittleUndecoded() bool {
	n := 0
	for _, p := range t.decodeQueue.all() {
		for _, c := range p.chunks.all() {
			n += len(c.data)
			if n > littleBytes || c.compressed {
				return false
			}
		}
	}
	return n > 0
}

// HasUndecoded tells whether NextDecode may return something.
func (t *Table) HasUndecoded() bool { return t.decodeQueue.len() > 0 }

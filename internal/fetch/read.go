package fetch

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/kafkaconsumer/kafka/protocol"
)

const (
	// pieceSize is how many bytes of whole batches are read into one buffer, so
	// that a kept record pins that much and not a whole answer.
	pieceSize = 512 << 10
	// trustedSize is how large a buffer is made for a length that only a header
	// claims; a larger one grows as its bytes arrive.
	trustedSize = 1 << 20
	// pooledFrom is from how many bytes on a buffer comes from the pool. What is in a
	// buffer counts as buffered, so all buffers take no more than twice what counts.
	pooledFrom = pieceSize / 2
)

// recycling is set once some application releases its records. Until then buffers for
// uncompressed batches would never come back, and are made no larger than needed.
var recycling atomic.Bool

// Recycle notes that records are released.
func Recycle() {
	if !recycling.Load() { // storing takes the cache line from all who look
		recycling.Store(true)
	}
}

// Recycling tells whether Recycle was called.
func Recycling() bool { return recycling.Load() }

// A chunk is a buffer of whole batches, compressed ones or uncompressed ones.
type chunk struct {
	data       []byte
	compressed bool
	doubt      string // why its one batch cannot be what the log holds, though its checksum may be right
	first      bool   // the first of its answer: aborted applies from here on
	aborted    []protocol.AbortedTxn
	buf        *buffer // the pooled buffer that data is in, nil if it is not pooled
}

// An answer is what one Fetch answer says of one partition.
type answer struct {
	got                                 bool
	code                                protocol.ErrorCode
	highWatermark, lastStable, logStart int64
	chunks                              []chunk
	next                                int64 // behind the last whole batch; -1: headers do not tell
	nextEpoch                           int32
	need                                int  // size of a first batch that was cut, 0 if none was
	tooLong                             int  // size of a first batch for which the answer is too long, 0 if it is not
	whole                               bool // the broker may not cut the first batch
	uncapped                            bool // nothing but the partition's size can have cut it
	preferred                           int32
	diverges                            bool
	diverging                           protocol.EpochEndOffset
	leader                              protocol.LeaderIDEpoch
}

// reuse returns an empty answer that keeps a's memory.
func (a answer) reuse() answer { return answer{chunks: a.chunks[:0]} }

// ReadAnswer reads the answer to q as it arrives. It touches nothing that the Table
// guards. Of an answer that is too long it reads no records, but finds out which
// partition's first batch makes it so.
func ReadAnswer(q *Request, resp *protocol.FetchResponse, r *protocol.Reader) error {
	length := r.Remaining()
	if err := resp.Begin(r, q.Version); err != nil {
		return err
	}
	var part protocol.FetchedPartition
	whole := q.Version >= cappedVersion
	for {
		ok, err := resp.Next(&part)
		if err != nil {
			return err
		}
		if !ok {
			return resp.End()
		}
		m := q.find(&part)
		if m != nil && m.answer.got {
			m = nil // answered twice
		}
		if length > int(q.longest) && part.RecordBytes > 0 {
			return q.refuse(m, resp, length)
		}
		if m != nil {
			m.answer.got = true
			q.answered = append(q.answered, m)
			m.answer.whole, m.answer.uncapped = whole, q.Version < cappedVersion
			if err := m.answer.read(resp, &part, m.wire.FetchOffset, m.exact); err != nil {
				return err
			}
		}
		whole = whole && part.RecordBytes == 0
		if err := resp.EndPartition(&part); err != nil {
			return err
		}
		if m != nil {
			m.answer.diverges, m.answer.diverging = part.HasDiverging, part.Diverging
			m.answer.leader = part.CurrentLeader
		}
	}
}

// refuse is how reading an answer ends whose length is more than an answer may have. A
// broker exceeds the sizes that it was asked for by the first batch that it sends, and
// by no other (KIP-74).
func (q *Request) refuse(m *member, resp *protocol.FetchResponse, length int) error {
	h, err := protocol.ParseBatchHeader(resp.PeekBatch(min(protocol.BatchPeek, resp.RecordsLeft())))
	if err == nil && m != nil && h.Size > int(q.longest-frameMargin) && h.Size <= resp.RecordsLeft() {
		m.answer.got, m.answer.tooLong = true, h.Size
		q.answered = append(q.answered, m)
	}
	return &protocol.MalformedError{
		API: protocol.APIName(protocol.KeyFetch), Field: "length", Offset: -1,
		Reason: fmt.Sprintf("%d is more than the %d bytes allowed", length, q.longest),
	}
}

func (a *answer) read(resp *protocol.FetchResponse, part *protocol.FetchedPartition, asked int64, exact bool) error {
	a.code = part.ErrorCode
	a.highWatermark = part.HighWatermark
	a.lastStable = part.LastStableOffset
	a.logStart = part.LogStartOffset
	a.preferred = part.PreferredReadReplica
	return a.readRecords(resp, part, asked, exact)
}

// readRecords reads a partition's whole batches and finds the offset behind them.
func (a *answer) readRecords(resp *protocol.FetchResponse, part *protocol.FetchedPartition, asked int64, exact bool) error {
	w := walk{next: asked, epoch: -1, certain: true, begun: exact, limit: math.MaxInt64}
	if part.HighWatermark > asked { // else it was told before the records were found
		w.limit = part.HighWatermark + 1
	}
	in := pieceReader{a: a, part: part, resp: resp}
	var h protocol.BatchHeader
	for in.left() >= protocol.MinBatchPeek {
		head, err := in.peek(protocol.BatchPeek)
		if err != nil {
			return err
		}
		if err := h.Parse(head); err != nil {
			in.keepDamaged(head)
			a.next = -1
			return nil
		}
		if h.Size > in.left() {
			if len(a.chunks) == 0 {
				a.need = h.Size
			}
			break
		}
		doubt := w.doubt(&h)
		if err := in.readBatch(&h, doubt); err != nil {
			return err
		}
		w.step(&h)
		if doubt != "" { // nothing behind it can be relied on
			w.certain = false
			break
		}
	}
	in.end()
	if len(a.chunks) == 0 && a.need == 0 && in.left() > 0 {
		a.need = protocol.MinBatchPeek
	}
	a.next, a.nextEpoch = w.result(asked, part.HighWatermark)
	return nil
}

// A walk follows the offsets of a run of batch headers.
type walk struct {
	next    int64
	epoch   int32
	certain bool
	begun   bool
	limit   int64 // behind which no batch can reach
}

// doubt says why a batch cannot be what the log holds here, "" if it can. The
// checksum of a batch does not cover its base offset, but its number of offsets.
// Brokers take the high watermark before they read the log, which may grow in between:
// a batch that follows right on what is before it is no reason for doubt.
func (w *walk) doubt(h *protocol.BatchHeader) string {
	switch {
	case h.Magic < 2:
	case h.NextOffset > w.limit && h.BaseOffset != w.next:
		return fmt.Sprintf("offsets up to %d are beyond the end of the log", h.NextOffset-1)
	case w.begun && w.certain && h.BaseOffset < w.next:
		return fmt.Sprintf("base offset %d is before that of the batch before it", h.BaseOffset)
	}
	return ""
}

func (w *walk) step(h *protocol.BatchHeader) {
	w.begun = true
	if h.NextOffset < 0 || h.NextOffset <= w.next && w.epoch >= 0 || h.BaseOffset < 0 {
		w.certain = false
		return
	}
	if h.NextOffset > w.next {
		w.next = h.NextOffset
	}
	w.epoch = max(w.epoch, h.LeaderEpoch) // they never go down in a log
}

// result returns the offset behind the walk, or -1 when it cannot be relied on: it
// must be beyond what was asked for and not beyond what the log can hold.
func (w *walk) result(asked, highWatermark int64) (int64, int32) {
	beyond := highWatermark >= 0 && w.next > highWatermark+1
	if !w.certain || w.next < asked || beyond {
		return -1, -1
	}
	return w.next, w.epoch
}

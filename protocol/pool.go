package protocol

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffers beyond this size are not kept for reuse, nor copied to save what
// they have too much.
const maxPooledBytes = 4 << 20

var (
	builders   sync.Pool // *builder
	freePieces sync.Pool // *piece, released by segments
	// freeIndexes are *indexPieces released by segments, by the number of bits of
	// their capacity, so that a small segment does not keep a large index.
	freeIndexes [bits.UintSize]sync.Pool
)

// A piece is decompressed bytes that segments share.
type piece struct {
	b    []byte
	refs atomic.Int32
}

func (p *piece) release() {
	if p.refs.Add(-1) > 0 || cap(p.b) > maxPooledBytes {
		return
	}
	poison(p.b)
	freePieces.Put(p)
}

type indexPiece struct{ index []entry }

// newIndexPiece returns a piece for n entries.
func newIndexPiece(n int) *indexPiece {
	// One that is too small is dropped: most are of the same length, nearly.
	if p, _ := freeIndexes[bits.Len(uint(n))].Get().(*indexPiece); p != nil && cap(p.index) >= n {
		p.index = p.index[:n]
		return p
	}
	return &indexPiece{index: make([]entry, n)}
}

func (p *indexPiece) release() {
	clearPoisoned(p.index)
	freeIndexes[bits.Len(uint(cap(p.index)))].Put(p)
}

func newBuilder(src []byte, limit int) *builder {
	b, _ := builders.Get().(*builder)
	if b == nil {
		b = new(builder)
	}
	b.src, b.limit, b.next, b.epoch = src, limit, -1, -1
	return b
}

// recycle gives the builder's memory back. It holds no reference to src or to
// anything that went into a segment.
func (b *builder) recycle() {
	if b.held != nil {
		b.held.release()
	}
	if b.piece != nil {
		b.data, b.piece.b = b.piece.b, b.data
		freePieces.Put(b.piece)
	}
	if cap(b.data) > maxPooledBytes {
		b.data = nil
	}
	*b = builder{data: b.data[:0], runs: b.runs[:0]}
	builders.Put(b)
}

// borrowData decompresses into a released piece if there is one: it can
// become the segment's without a copy. Where nobody releases, decompressing
// into memory that is in the cache and copying the exact length costs less
// than clearing fresh memory of a length guessed.
func (b *builder) borrowData() {
	if b.piece != nil || len(b.data) > 0 {
		return
	}
	if p, _ := freePieces.Get().(*piece); p != nil {
		b.piece = p
		b.data, p.b = p.b[:0], b.data
	}
}

func (b *builder) takeData() *piece {
	var p *piece
	switch {
	case b.piece != nil && wellFilled(len(b.data), cap(b.data)):
		p, b.piece = b.piece, nil
		p.b, b.data = b.data, p.b
	case cap(b.data) > maxPooledBytes && wellFilled(len(b.data), cap(b.data)):
		p = &piece{b: b.data}
		b.data = nil
	default:
		p = &piece{b: append([]byte(nil), b.data...)}
	}
	p.refs.Store(1)
	return p
}

func (b *builder) takeIndex() *indexPiece {
	if !wellFilled(len(b.index), cap(b.index)) {
		p := newIndexPiece(len(b.index))
		copy(p.index, b.index)
		return p
	}
	p := b.held
	p.index = b.index
	b.held, b.index = nil, nil
	return p
}

// wellFilled says whether handing over a reused buffer wastes little enough
// of it, since it may be kept for good.
func wellFilled(n, capacity int) bool { return n >= capacity/2 }

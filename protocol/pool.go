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
	builders sync.Pool // *builder
	// freePieces and freeIndexes are *pieces and *indexPieces released by segments, by
	// the number of bits of their capacity, so that a small segment neither keeps what
	// a large one needs nor leaves behind what is too small for it.
	freePieces, freeIndexes [bits.UintSize]sync.Pool
)

// A piece is decompressed bytes that segments share.
type piece struct {
	b    []byte
	refs atomic.Int32
}

func (p *piece) release() {
	if p.refs.Add(-1) == 0 {
		poison(p.b)
		p.free()
	}
}

func (p *piece) free() {
	if cap(p.b) <= maxPooledBytes {
		freePieces[bits.Len(uint(cap(p.b)))].Put(p)
	}
}

// freePiece returns a piece for about n bytes that was released, or nil.
func freePiece(n int) *piece {
	class := bits.Len(uint(n))
	p, _ := freePieces[class].Get().(*piece)
	if p == nil {
		p, _ = freePieces[class+1].Get().(*piece)
	}
	return p
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
		b.piece.free()
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
	if p := freePiece(min(max(b.limit, 1), maxPooledBytes/2)); p != nil {
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
		p = freePiece(len(b.data))
		if p == nil {
			p = new(piece)
		}
		p.b = append(p.b[:0], b.data...)
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

package protocol

import (
	"sync"
	"sync/atomic"
)

// Buffers beyond this size are not kept for reuse, nor copied to save what
// they have too much.
const maxPooledBytes = 4 << 20

var (
	builders    sync.Pool // *builder
	freePieces  sync.Pool // *piece, released by segments
	freeIndexes sync.Pool // *indexPiece, released by segments
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

func newIndexPiece(n int) *indexPiece {
	if p, _ := freeIndexes.Get().(*indexPiece); p != nil {
		if cap(p.index) >= n {
			p.index = p.index[:n]
			return p
		}
		freeIndexes.Put(p)
	}
	return &indexPiece{index: make([]entry, n)}
}

func (p *indexPiece) release() {
	clearPoisoned(p.index)
	freeIndexes.Put(p)
}

func newBuilder(src []byte) *builder {
	b, _ := builders.Get().(*builder)
	if b == nil {
		b = new(builder)
	}
	b.src, b.next, b.epoch = src, -1, -1
	if p, _ := freeIndexes.Get().(*indexPiece); p != nil {
		b.held = p
		b.index, p.index = p.index[:0], b.index
	}
	return b
}

// recycle gives the builder's memory back. It holds no reference to src or to
// anything that went into a segment.
func (b *builder) recycle() {
	if b.held != nil {
		b.index, b.held.index = b.held.index, b.index
		freeIndexes.Put(b.held)
	}
	if b.piece != nil {
		b.data, b.piece.b = b.piece.b, b.data
		freePieces.Put(b.piece)
	}
	if cap(b.data) > maxPooledBytes {
		b.data = nil
	}
	*b = builder{data: b.data[:0], index: b.index[:0], runs: b.runs[:0]}
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
	if b.held != nil && wellFilled(len(b.index), cap(b.index)) {
		p := b.held
		b.held = nil
		p.index, b.index = b.index, p.index
		return p
	}
	return &indexPiece{index: append([]entry(nil), b.index...)}
}

// wellFilled says whether handing over a reused buffer wastes little enough
// of it, since it may be kept for good.
func wellFilled(n, capacity int) bool { return n >= capacity/2 }

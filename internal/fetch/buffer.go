package fetch

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// A slab is the memory of one chunk.
type slab [pieceSize]byte

// A buffer is a slab that chunks and segments share. It is free again when all of them
// gave it back, which takes an application that releases its records, or when the
// garbage collector finds that nobody refers to it any more.
type buffer struct {
	b       []byte // the slab's bytes
	refs    atomic.Int32
	tracked *slab // nil: it does not come back by itself
}

func (buf *buffer) release() {
	if buf.refs.Add(-1) == 0 {
		poison(buf.b[:cap(buf.b)])
		buffers.put(buf)
	}
}

// buffers are those that are free.
var buffers pool

// A pool holds free buffers. Memory that is used again need be neither cleared nor
// mapped, and is not counted by the garbage collector as new: an application that
// releases nothing causes less than half of the collections that it would without. What
// was not needed from one collection to the next is given up bit by bit. At most
// maxTracked slabs come back by themselves: more would save more collections, and cost
// as much more memory.
type pool struct {
	mu      sync.Mutex
	free    []*buffer
	tracked int  // slabs that come back by themselves
	unused  int  // the fewest that were free since the last collection
	watched bool // collections are noticed
}

// get returns a buffer for one user, or nil if there is none that would come back: if
// users release them, each does.
func (p *pool) get(released bool) *buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	buf := p.take(released)
	if buf != nil {
		buf.refs.Store(1)
	}
	return buf
}

func (p *pool) take(released bool) *buffer {
	p.watch()
	if n := len(p.free); n > 0 {
		buf := p.free[n-1]
		p.free[n-1] = nil
		p.free = p.free[:n-1]
		p.unused = min(p.unused, n-1)
		return buf
	}
	if p.tracked < maxTracked {
		p.tracked++
		return p.track(new(slab))
	}
	if released {
		return &buffer{b: make([]byte, 0, pieceSize)}
	}
	return nil
}

func (p *pool) put(buf *buffer) {
	p.mu.Lock()
	p.free = append(p.free, buf)
	p.mu.Unlock()
}

// track makes a buffer of a slab that comes back by itself: the garbage collector calls
// the finalizer when nothing refers to the slab, no Record that was kept in particular.
func (p *pool) track(s *slab) *buffer {
	runtime.SetFinalizer(s, func(s *slab) {
		poison(s[:])
		p.put(p.track(s))
	})
	return &buffer{b: s[:0], tracked: s}
}

// A collection is garbage on purpose: its finalizer runs once in each collection.
type collection struct{ p *pool }

// watch begins to notice collections, unless that is done already.
func (p *pool) watch() {
	if !p.watched {
		p.watched = true
		runtime.SetFinalizer(&collection{p}, (*collection).over)
	}
}

func (c *collection) over() {
	if c.p.shrink() {
		runtime.SetFinalizer(c, (*collection).over)
	}
}

// shrink gives up half of the buffers that were free all the time since the last
// collection. It returns false when none is left anywhere.
func (p *pool) shrink() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, buf := range p.free[:(p.unused+1)/2] {
		if buf.tracked != nil {
			p.tracked--
			runtime.SetFinalizer(buf.tracked, nil)
		}
	}
	p.free = slices.Delete(p.free, 0, (p.unused+1)/2)
	p.unused = len(p.free)
	p.watched = p.tracked > 0 || len(p.free) > 0
	return p.watched
}

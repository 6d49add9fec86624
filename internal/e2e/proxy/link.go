//go:build unix

package proxy

import (
	"bufio"
	"encoding/binary"
	"net"
	"sync"
)

// A Direction is where data goes.
type Direction int

// The directions, which can be combined.
const (
	ToBroker Direction = 1 << iota
	ToClient
	Both = ToBroker | ToClient
)

// A link is one connection that is passed on.
type link struct {
	proxy          *Proxy
	client, server net.Conn

	mu      sync.Mutex // guards all below; taken inside of Proxy.mu
	frozen  Direction
	keys    map[int16]bool // of the requests so far
	pending []int16        // keys of the requests that are not answered yet, in order
}

func (l *link) freeze(d Direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen |= d
}

func (l *link) isFrozen(d Direction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frozen&d != 0
}

func (l *link) carried(keys []int16) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if l.keys[k] {
			return true
		}
	}
	return false
}

// reset ends both sides without a goodbye.
func (l *link) reset() {
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

// run carries both directions until one ends.
func (l *link) run() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.carry(ToBroker, l.client, l.server)
		l.end()
	}()
	l.carry(ToClient, l.server, l.client)
	l.end()
	<-done
}

func (l *link) end() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// carry passes frames on.
func (l *link) carry(d Direction, from, to net.Conn) {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		head := 4 // the length
		if d == ToBroker {
			head = 6 // and the API key
		}
		b, err := r.Peek(head)
		if err != nil {
			return
		}
		size := 4 + int(binary.BigEndian.Uint32(b))
		if d == ToBroker {
			l.asked(int16(binary.BigEndian.Uint16(b[4:])))
			err = l.pass(d, r, to, size)
		} else {
			err = l.answer(r, to, size)
		}
		if err != nil {
			return
		}
	}
}

func (l *link) asked(key int16) {
	l.proxy.countAsked(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[key] = true
	l.pending = append(l.pending, key)
}

// answer passes one answer on: brokers give them in the order of the requests.
func (l *link) answer(r *bufio.Reader, to net.Conn, size int) error {
	key := int16(-1)
	l.mu.Lock()
	if len(l.pending) > 0 {
		key, l.pending = l.pending[0], l.pending[1:]
	}
	l.mu.Unlock()
	if done := l.proxy.takeHalve(key); done != nil {
		if err := l.pass(ToClient, r, to, size/2); err != nil {
			return err
		}
		l.freeze(Both)
		close(done)
		size -= size / 2
	}
	l.proxy.countAnswered(key, size)
	return l.pass(ToClient, r, to, size)
}

// pass carries n bytes, piece by piece as they come.
func (l *link) pass(d Direction, r *bufio.Reader, to net.Conn, n int) error {
	for n > 0 {
		if _, err := r.Peek(1); err != nil {
			return err
		}
		piece := min(n, r.Buffered())
		b, err := r.Peek(piece)
		if err != nil {
			return err
		}
		l.proxy.pause()
		if !l.isFrozen(d) {
			if _, err := to.Write(b); err != nil {
				return err
			}
		}
		if _, err := r.Discard(piece); err != nil {
			return err
		}
		n -= piece
	}
	return nil
}

package testbroker

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// linkBuffer is how many bytes a link holds in one direction before Write
// waits, so that a reader who does not read is felt, as on a socket.
const linkBuffer = 256 << 10

type linkAddr string

func (linkAddr) Network() string  { return "tcp" }
func (a linkAddr) String() string { return string(a) }

// newLink returns the two ends of a connection in memory. Waiting is done on
// conditions only: that counts as durably blocked in a synctest bubble.
func newLink(clientAddr, serverAddr linkAddr) (client, server net.Conn) {
	up, down := newHalf(), newHalf()
	return &linkConn{in: down, out: up, local: clientAddr, remote: serverAddr},
		&linkConn{in: up, out: down, local: serverAddr, remote: clientAddr}
}

// half is one direction of a link.
type half struct {
	mu          sync.Mutex
	cond        *sync.Cond
	buf         []byte
	writeClosed bool // the reader gets what is left, then io.EOF
	readClosed  bool // the writer gets EPIPE
	read, write deadline
}

func newHalf() *half {
	h := &half{}
	h.cond = sync.NewCond(&h.mu)
	return h
}

// deadline is one deadline of a half. Its timer says that it passed, so that no
// difference between two clock readings can leave a waiter behind.
type deadline struct {
	passed bool
	timer  *time.Timer
	set    int // counts settings: a timer that was replaced has no say
}

func (h *half) setDeadline(d *deadline, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.set++
	left := time.Until(at)
	d.passed = !at.IsZero() && left <= 0
	if !at.IsZero() && left > 0 {
		set := d.set
		d.timer = time.AfterFunc(left, func() { h.expire(d, set) })
	}
	h.cond.Broadcast()
}

func (h *half) expire(d *deadline, set int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.set == set {
		d.passed = true
		h.cond.Broadcast()
	}
}

func (h *half) closeEnd(flag *bool, d *deadline) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*flag = true
	d.set++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	h.cond.Broadcast()
}

func (h *half) readBytes(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.readClosed:
			return 0, net.ErrClosed
		case h.read.passed:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			if h.buf = h.buf[n:]; len(h.buf) == 0 {
				h.buf = nil
			}
			h.cond.Broadcast()
			return n, nil
		case h.writeClosed:
			return 0, io.EOF
		}
		h.cond.Wait()
	}
}

func (h *half) writeBytes(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	written := 0
	for {
		switch {
		case h.writeClosed:
			return written, net.ErrClosed
		case h.write.passed:
			return written, os.ErrDeadlineExceeded
		case h.readClosed:
			return written, syscall.EPIPE
		case len(p) == 0:
			return written, nil
		}
		if room := min(linkBuffer-len(h.buf), len(p)); room > 0 {
			h.buf = append(h.buf, p[:room]...)
			p, written = p[room:], written+room
			h.cond.Broadcast()
			continue
		}
		h.cond.Wait()
	}
}

// linkConn is one end of a link.
type linkConn struct {
	in, out       *half
	local, remote linkAddr
}

func (l *linkConn) op(name string, n int, err error) (int, error) {
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, &net.OpError{Op: name, Net: "tcp", Source: l.local, Addr: l.remote, Err: err}
}

func (l *linkConn) Read(p []byte) (int, error) {
	n, err := l.in.readBytes(p)
	return l.op("read", n, err)
}

func (l *linkConn) Write(p []byte) (int, error) {
	n, err := l.out.writeBytes(p)
	return l.op("write", n, err)
}

// Close ends both directions; bytes already written still reach the other end.
func (l *linkConn) Close() error {
	l.in.closeEnd(&l.in.readClosed, &l.in.read)
	l.out.closeEnd(&l.out.writeClosed, &l.out.write)
	return nil
}

// CloseWrite ends the sending direction only, as on a TCP connection.
func (l *linkConn) CloseWrite() error {
	l.out.closeEnd(&l.out.writeClosed, &l.out.write)
	return nil
}

func (l *linkConn) LocalAddr() net.Addr  { return l.local }
func (l *linkConn) RemoteAddr() net.Addr { return l.remote }

func (l *linkConn) SetDeadline(t time.Time) error {
	l.in.setDeadline(&l.in.read, t)
	l.out.setDeadline(&l.out.write, t)
	return nil
}

func (l *linkConn) SetReadDeadline(t time.Time) error {
	l.in.setDeadline(&l.in.read, t)
	return nil
}

func (l *linkConn) SetWriteDeadline(t time.Time) error {
	l.out.setDeadline(&l.out.write, t)
	return nil
}

// SyscallConn is what tells a socket, which keeps to its deadlines as a link does, from other
// connections. There is no descriptor to give.
func (l *linkConn) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

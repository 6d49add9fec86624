package testbroker

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const maxRequest = 100 << 20

// readAhead is how many requests of a connection are read, and logged, while
// the one before them is being answered.
const readAhead = 64

// conn is one accepted connection. Its reader and its server goroutine end when
// done is closed; the cluster awaits both.
type conn struct {
	c      *Cluster
	node   *node
	id     int
	nc     net.Conn
	queue  chan Request
	done   chan struct{}
	once   sync.Once
	frozen atomic.Bool
	tokens atomic.Pointer[tokenExchange] // set: frames are raw SASL tokens
}

type tokenExchange func(token []byte) (answer []byte, last bool)

func (c *Cluster) startConnLocked(n *node, nc net.Conn) {
	c.lastConn++
	cn := &conn{
		c: c, node: n, id: c.lastConn, nc: nc,
		queue: make(chan Request, readAhead), done: make(chan struct{}),
	}
	if c.opts.tokens != nil {
		exchange := c.opts.tokens()
		cn.tokens.Store(&exchange)
	}
	n.conns[cn] = struct{}{}
	c.wg.Go(cn.read)
	c.wg.Go(cn.serve)
}

func (cn *conn) close() {
	cn.once.Do(func() {
		close(cn.done)
		_ = cn.nc.Close()
	})
}

// sleep waits d and tells whether the connection still lives.
func (cn *conn) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-cn.done:
		return false
	}
}

func (cn *conn) read() {
	defer func() {
		cn.close()
		cn.c.mu.Lock()
		delete(cn.node.conns, cn)
		cn.c.mu.Unlock()
	}()
	for {
		frame, err := cn.readFrame()
		if err != nil {
			return
		}
		if cn.frozen.Load() {
			continue
		}
		if exchange := cn.tokens.Load(); exchange != nil {
			if !cn.exchange(*exchange, frame) {
				return
			}
			continue
		}
		req := Request{Node: cn.node.id, Conn: cn.id, Time: time.Now(), Frame: frame}
		if req.parse() != nil {
			return
		}
		cn.c.nameTopics(req.Message)
		cn.c.record(req)
		select {
		case cn.queue <- req:
		case <-cn.done:
			return
		}
	}
}

func (cn *conn) readFrame() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(cn.nc, length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > maxRequest {
		return nil, errors.New("testbroker: request of an impossible size")
	}
	frame := make([]byte, size)
	_, err := io.ReadFull(cn.nc, frame)
	return frame, err
}

// exchange answers a raw token. It writes from the reader's goroutine: while
// tokens go back and forth no request waits for an answer.
func (cn *conn) exchange(exchange tokenExchange, token []byte) bool {
	answer, last := exchange(token)
	if last {
		cn.tokens.Store(nil)
	}
	if answer == nil {
		return last
	}
	return cn.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
}

var errHeader = errors.New("testbroker: bad request header")

// parse reads the header; a body that kmsg cannot read leaves Message nil.
func (r *Request) parse() error {
	b := r.Frame
	if len(b) < 8 {
		return errHeader
	}
	r.Key = int16(binary.BigEndian.Uint16(b))
	r.Version = int16(binary.BigEndian.Uint16(b[2:]))
	r.Correlation = int32(binary.BigEndian.Uint32(b[4:]))
	b = b[8:]
	msg := kmsg.RequestForKey(r.Key)
	if msg != nil {
		msg.SetVersion(r.Version)
	}
	if len(b) < 2 {
		return nil // a header v0, which has no client id
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n > len(b) || n < -1 {
		return errHeader
	}
	if n > 0 {
		r.ClientID = string(b[:n])
		b = b[n:]
	}
	if msg == nil || r.Version > msg.MaxVersion() || r.Version < 0 {
		return nil
	}
	if msg.IsFlexible() {
		var ok bool
		if b, ok = skipTags(b); !ok {
			return errHeader
		}
	}
	if msg.ReadFrom(b) == nil {
		r.Message = msg
	}
	return nil
}

func skipTags(b []byte) ([]byte, bool) {
	count, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, false
	}
	for b = b[n:]; count > 0; count-- {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, false
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return nil, false
		}
		b = b[n+m+int(size):]
	}
	return b, true
}

func (cn *conn) serve() {
	defer cn.close()
	for {
		select {
		case <-cn.done:
			return
		case req := <-cn.queue:
			if !cn.handle(req) {
				return
			}
		}
	}
}

func (cn *conn) handle(req Request) bool {
	if rule := cn.c.match(req); rule != nil {
		return rule.run(cn, req)
	}
	resp := cn.c.answer(cn, req)
	if resp == nil {
		return cn.c.swallows(cn.node, req)
	}
	cn.c.mind(cn.node, &req, resp)
	return cn.send(Frame(req, resp), sending{cut: -1})
}

// send writes an answer the way a rule asks for and tells whether the
// connection goes on.
func (cn *conn) send(frame []byte, how sending) bool {
	switch {
	case how.half:
		alive := cn.write(frame[:len(frame)/2])
		cn.frozen.Store(true)
		return alive
	case how.cut >= 0:
		cn.write(frame[:min(how.cut, len(frame))])
		return false
	case how.chunk > 0:
		for len(frame) > how.chunk {
			if !cn.write(frame[:how.chunk]) || !cn.sleep(how.every) {
				return false
			}
			frame = frame[how.chunk:]
		}
	}
	return cn.write(frame)
}

func (cn *conn) write(b []byte) bool {
	if cn.frozen.Load() {
		return true
	}
	_, err := cn.nc.Write(b)
	return err == nil
}

// Frame encodes an answer to a request: length, response header, body. The
// response gets the request's version, except that an UNSUPPORTED_VERSION
// answer to ApiVersions keeps its own, as brokers fall back to v0 there.
func Frame(req Request, resp kmsg.Response) []byte {
	if v, ok := resp.(*kmsg.ApiVersionsResponse); !ok || v.ErrorCode != codeUnsupportedVersion {
		resp.SetVersion(req.Version)
	}
	return frame(req, resp.IsFlexible(), resp.AppendTo(nil))
}

// FrameBody puts length and response header before the bytes of a body.
func FrameBody(req Request, body []byte) []byte {
	msg := kmsg.RequestForKey(req.Key)
	if msg == nil {
		return frame(req, false, body)
	}
	msg.SetVersion(req.Version)
	return frame(req, msg.IsFlexible(), body)
}

func frame(req Request, flexible bool, body []byte) []byte {
	flexible = flexible && req.Key != keyApiVersions // KIP-511: its response header never has tags
	b := make([]byte, 8, 9+len(body))
	binary.BigEndian.PutUint32(b[4:], uint32(req.Correlation))
	if flexible {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

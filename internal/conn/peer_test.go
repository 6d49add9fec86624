package conn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var testAddr = Addr{Host: "broker.test", Port: 9092}

// peers plays a broker by a script per connection, over connections in memory.
type peers struct {
	t  testing.TB
	wg sync.WaitGroup

	mu     sync.Mutex
	script func(p *peer) // of the dials from now on
	dials  []time.Time
	fail   error // of the dials from now on
	slow   time.Duration
	block  bool // dials wait for their context
	conns  []net.Conn
}

// newPeers runs script on a goroutine of its own for each connection.
func newPeers(t testing.TB, script func(p *peer)) *peers {
	ps := &peers{t: t, script: script}
	t.Cleanup(ps.close)
	return ps
}

func (ps *peers) close() {
	ps.mu.Lock()
	for _, c := range ps.conns {
		c.Close()
	}
	ps.mu.Unlock()
	ps.wg.Wait()
}

func (ps *peers) config() *Config {
	return &Config{
		ClientID: "tester", SoftwareName: "kafka-go", SoftwareVersion: "1.0",
		Dialer: ps.dial, Logger: slog.New(slog.DiscardHandler),
		ReconnectBackoff: 50 * time.Millisecond, ReconnectBackoffMax: time.Second,
	}
}

func (ps *peers) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	ps.mu.Lock()
	ps.dials = append(ps.dials, time.Now())
	fail, slow, block, number, script := ps.fail, ps.slow, ps.block, len(ps.conns), ps.script
	ps.mu.Unlock()
	time.Sleep(slow)
	if block {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if fail != nil {
		return nil, fail
	}
	client, server := net.Pipe()
	ps.mu.Lock()
	ps.conns = append(ps.conns, server)
	ps.mu.Unlock()
	p := &peer{t: ps.t, Conn: server, number: number, addr: addr}
	ps.wg.Go(func() {
		defer server.Close()
		script(p)
	})
	return client, nil
}

func (ps *peers) setFail(err error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.fail = err
}

func (ps *peers) dialled() []time.Time {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.Clone(ps.dials)
}

// peer is the broker's side of one connection.
type peer struct {
	t      testing.TB
	number int // of the connection, from 0
	addr   string
	net.Conn
}

// request is one that a peer received.
type request struct {
	key, version int16
	id           int32
	kmsg.Request
}

// next reads a request, and returns false when the client closed.
func (p *peer) next() (request, bool) {
	var head [4]byte
	if _, err := io.ReadFull(p, head[:]); err != nil {
		return request{}, false
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(p, body); err != nil {
		return request{}, false
	}
	r := request{
		key: int16(binary.BigEndian.Uint16(body)), version: int16(binary.BigEndian.Uint16(body[2:])),
		id: int32(binary.BigEndian.Uint32(body[4:])),
	}
	r.Request = kmsg.RequestForKey(r.key)
	r.SetVersion(r.version)
	n := 10 + int(binary.BigEndian.Uint16(body[8:]))
	if r.IsFlexible() {
		n++
	}
	if err := r.ReadFrom(body[n:]); err != nil {
		p.t.Errorf("request %d version %d: %v", r.key, r.version, err)
		return request{}, false
	}
	return r, true
}

// expect reads a request and checks its key.
func (p *peer) expect(key int16) request {
	r, ok := p.next()
	if !ok {
		p.t.Errorf("the client closed instead of sending %s", protocol.APIName(key))
	} else if r.key != key {
		p.t.Errorf("the client sent %s instead of %s", protocol.APIName(r.key), protocol.APIName(key))
	}
	return r
}

// answer writes resp as the answer to r; errors show at the client.
func (p *peer) answer(r request, resp kmsg.Response) {
	resp.SetVersion(r.version)
	flexible := resp.IsFlexible() && r.key != protocol.KeyApiVersions
	_, _ = p.Write(answerFrame(r.id, flexible, resp.AppendTo(nil)))
}

func answerFrame(id int32, flexible bool, body []byte) []byte {
	frame := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(id))
	if flexible {
		frame = append(frame, 0)
	}
	frame = append(frame, body...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// drain swallows what the client sends until it closes.
func (p *peer) drain() { _, _ = io.Copy(io.Discard, p) }

// greet answers ApiVersions.
func (p *peer) greet() {
	r, ok := p.next()
	if !ok {
		return
	}
	if r.key != protocol.KeyApiVersions {
		p.t.Errorf("the first request is %s", protocol.APIName(r.key))
		return
	}
	p.answer(r, versionsAnswer())
}

// serve greets and then answers everything at once until the client closes.
func (p *peer) serve() {
	p.greet()
	for {
		r, ok := p.next()
		if !ok {
			return
		}
		p.answer(r, r.ResponseKind())
	}
}

func versionsAnswer() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	for key, top := range map[int16]int16{
		protocol.KeyFetch: 16, protocol.KeyMetadata: 12, protocol.KeyFindCoordinator: 4, protocol.KeyJoinGroup: 9, protocol.KeyHeartbeat: 4,
		protocol.KeySaslHandshake: 1, protocol.KeySaslAuthenticate: 2, protocol.KeyApiVersions: 4, protocol.KeyLeaveGroup: 5,
	} {
		entry := kmsg.NewApiVersionsResponseApiKey()
		entry.ApiKey, entry.MaxVersion = key, top
		resp.ApiKeys = append(resp.ApiKeys, entry)
	}
	return resp
}

func heartbeat(member string) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.MemberID = member
	return req
}

// throttled is an answer to a heartbeat that asks for a pause.
func throttled(d time.Duration) *kmsg.HeartbeatResponse {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.ThrottleMillis = int32(d.Milliseconds())
	return resp
}

func openLink(t testing.TB, cfg *Config) *Link {
	t.Helper()
	l, err := Dial(t.Context(), cfg, 1, testAddr)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

// requireOp checks that err is an *Error about the given step.
func requireOp(t *testing.T, err error, op string) *Error {
	t.Helper()
	require.Error(t, err)
	e, ok := errors.AsType[*Error](err)
	require.True(t, ok, "%T: %v", err, err)
	require.Equal(t, op, e.Op, err)
	return e
}

func release(t *testing.T, s string) protocol.Release {
	t.Helper()
	r, err := protocol.ParseRelease(s)
	require.NoError(t, err)
	return r
}

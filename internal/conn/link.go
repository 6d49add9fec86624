package conn

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	readBufferBytes = 32 << 10
	// maxControlBody bounds the answers that kmsg decodes; only Metadata, whose
	// counts are walked before, may be larger.
	maxControlBody = 16 << 20
	// alertWait is how long an alert is waited for on a connection that is broken.
	alertWait = time.Second
)

// ErrOutOfOrder is the reason of a connection closed because an answer did not
// belong to the oldest unanswered request.
var ErrOutOfOrder = errors.New("answer with an unexpected correlation id")

// A Link is one connection that is ready for requests. Its methods are for one
// goroutine at a time, except Close, Done, Err and those that only tell what
// the link is. A link that failed stays failed.
type Link struct {
	cfg      *Config
	who      atomic.Pointer[identity]
	addr     Addr
	where    string   // what was dialled
	raw      net.Conn // closing it unblocks whoever reads or writes
	conn     net.Conn // raw, or TLS over it
	reader   *protocol.Reader
	versions *protocol.Versions
	lookout  *lookout // nil but for brokers that lose requests
	hooks    linkHooks
	opened   time.Time

	correlation atomic.Int32
	frame       []byte       // reused by the synchronous requests
	streamed    answerHeader // of the answer to the last request of Stream or Send
	began       time.Time    // when that was written
	throttled   time.Time    // no request is sent before it (KIP-219)
	renewAt     time.Time    // of the authentication; zero: the session does not end
	proved      bool         // a request was answered since the setup
	stray       bool         // an answer is yet to come that nobody waits for, with the id strayID
	strayID     int32
	answerBytes int           // of the answer that is read
	took        time.Duration // see Took

	done chan struct{}

	mu    sync.Mutex
	err   error // the first failure; set before done is closed
	alarm alarm
	bound context.Context // whose end closes the link, nil: none
	free  func() bool     // ends that
}

// linkHooks tell a Broker what becomes of its links. Each is called at most
// once, from any goroutine, without a lock held.
type linkHooks struct {
	proved func()                   // the first request after the setup was answered
	dead   func(l *Link, err error) // the link failed or was closed
}

func newLink(cfg *Config, node int32, addr Addr, raw net.Conn, hooks linkHooks) *Link {
	l := &Link{
		cfg: cfg, addr: addr, raw: raw, conn: raw, hooks: hooks, opened: time.Now(), done: make(chan struct{}),
	}
	l.who.Store(cfg.identify(node, nil))
	l.alarm.timer = time.AfterFunc(time.Hour, l.onTimer)
	l.alarm.timer.Stop()
	return l
}

// Versions returns what the broker supports.
func (l *Link) Versions() *protocol.Versions { return l.versions }

// identity is whom a link leads to, as far as is known.
type identity struct {
	node  int32
	meter Meter
}

func (c *Config) identify(node int32, was Meter) *identity {
	if c.Meter == nil {
		return &identity{node, noMeter{}}
	}
	return &identity{node, c.Meter(node, was)}
}

// become makes the link one to a node: it led to a bootstrap server, which turned out
// to be that node.
func (l *Link) become(node int32) {
	if l.Node() == node {
		return
	}
	if l.cfg.Releases.isModern(l.Node(), l.where) {
		l.cfg.Releases.answeredVersions(node, l.where)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil { // else the meter that it has is told that the link is closed
		l.who.Store(l.cfg.identify(node, l.meter()))
	}
}

// Node returns the broker's id, or -1 for a bootstrap server.
func (l *Link) Node() int32 { return l.who.Load().node }

func (l *Link) meter() Meter { return l.who.Load().meter }

// Addr returns the address that was dialled.
func (l *Link) Addr() Addr { return l.addr }

// Done is closed when the link is.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err returns why the link was closed, or nil. It is an *[Error].
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close closes the connection; what waits on it fails with [ErrClosed]. It may
// be called from any goroutine, more than once.
func (l *Link) Close() { l.fail(OpClose, ErrClosed) }

// fail closes the link with a reason unless it has one, and returns the reason
// that it has.
func (l *Link) fail(op string, err error) error { return l.failWith(l.newError(op, err)) }

func (l *Link) newError(op string, err error) *Error {
	return &Error{Node: l.Node(), Addr: l.addr, Op: op, Err: err}
}

func (l *Link) failWith(err error) error {
	l.mu.Lock()
	first := l.err == nil
	if first {
		l.err = err
	}
	err = l.err
	free := l.free
	l.mu.Unlock()
	if !first {
		return err
	}
	l.alarm.timer.Stop()
	if free != nil {
		free()
	}
	close(l.done)
	// TLS's own Close could wait for a peer that does not read; Kafka needs no
	// goodbye.
	l.raw.Close()
	l.meter().Closed()
	if l.hooks.dead != nil {
		l.hooks.dead(l, err)
	}
	return err
}

// Do sends req in the highest common version and returns the answer. It is
// bounded by ctx and Config.RequestTimeout. The error is an
// *[protocol.UnsupportedVersionError], what [protocol.DecodeResponse] says
// about an answer, or an *[Error] or *[AuthError], after which the link is
// closed, unless ctx had ended before anything was sent.
func (l *Link) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	if err := l.pick(req); err != nil {
		return nil, err
	}
	resp, err := l.roundTrip(ctx, req, l.cfg.RequestTimeout)
	if err == nil {
		l.noteAnswer()
		if told, wait, ok := throttleOf(resp); ok {
			l.Throttle(told, wait)
		}
	}
	return resp, err
}

// Stream sends a request of the given API and version, whose body the function
// body appends to dst, and calls read on the same goroutine when the answer's
// header was read: r then ends where the answer does. Bytes that read leaves
// are an error. The errors are those of Do, and every one of read, after which
// the link is closed too, because where the next answer begins is lost. An answer
// may be longer than Config.MaxFrame: what to do about that is for read to decide.
// Timeout bounds the whole exchange; zero or less means Config.RequestTimeout.
func (l *Link) Stream(ctx context.Context, key, version int16, flexible bool, body func(dst []byte) []byte,
	read func(r *protocol.Reader) error, timeout time.Duration,
) error {
	if timeout <= 0 {
		timeout = l.cfg.RequestTimeout
	}
	if err := l.ready(ctx); err != nil {
		return err
	}
	frame := l.encodeStreamed(key, version, flexible, body)
	err := l.within(ctx, timeout, awaited{"answer to", key}, func() error {
		if err := l.sendStreamed(frame, time.Now()); err != nil {
			return err
		}
		return l.receiveStreamed(read)
	})
	if err == nil {
		l.noteAnswer()
	}
	return err
}

// Send is the first half of a Stream that is bounded by the ctx of CloseWith and
// Config.RequestTimeout. Receive is the other half; nothing else may be done in between but
// Await.
func (l *Link) Send(key, version int16, flexible bool, body func(dst []byte) []byte) error {
	if err := l.ready(l.bound); err != nil {
		return err
	}
	frame := l.encodeStreamed(key, version, flexible, body)
	now := time.Now()
	if err := l.arm(now, min(l.cfg.FetchMaxWait+l.patience(), l.cfg.RequestTimeout), awaited{"answer to", key}); err != nil {
		return err
	}
	return l.sendStreamed(frame, now)
}

// Await waits until the answer to what was sent has come, of a large one the beginning, or
// there is an error for Receive to return. It returns false when AwaitUntil's time came before.
func (l *Link) Await() bool { return l.reader.Await() }

// HasWhole tells whether the whole answer has come, so that Receive waits for nothing.
func (l *Link) HasWhole() bool { return l.reader.HasFrame() }

// CanAwait tells whether AwaitUntil may be relied on, as it may for sockets. What else a
// dialer makes, such as a tunnel, may ignore deadlines, or be of no use once one has passed.
// What comes from a broker that loses requests need not be an answer to what was sent.
func (l *Link) CanAwait() bool {
	if l.mayLose() {
		return false
	}
	nc := l.raw
	if secured, ok := nc.(*tls.Conn); ok { // by the dialer
		nc = secured.NetConn()
	}
	_, socket := nc.(syscall.Conn)
	return socket
}

// AwaitUntil sets when Await, and whatever else reads, gives up; zero: never. It may be
// called while Await waits. It fails when the connection is closed.
func (l *Link) AwaitUntil(t time.Time) error { return l.conn.SetReadDeadline(t) }

// Receive calls read as Stream does.
func (l *Link) Receive(read func(r *protocol.Reader) error) error {
	err := l.receiveStreamed(read)
	l.armIdle(l.began.Add(l.took))
	if err == nil {
		l.noteAnswer()
	}
	return err
}

func (l *Link) encodeStreamed(key, version int16, flexible bool, body func(dst []byte) []byte) []byte {
	h := answerHeader{key: key, version: version, id: l.correlation.Add(1), flexible: flexible}
	frame := protocol.AppendRequestHeader(l.frame[:0], key, version, h.id, l.cfg.ClientID, flexible)
	l.frame, l.streamed = protocol.FinishFrame(body(frame)), h
	return l.frame
}

func (l *Link) sendStreamed(frame []byte, now time.Time) error {
	l.began = now
	if _, err := l.conn.Write(frame); err != nil {
		return l.fail(OpWrite, err)
	}
	l.meter().Sent(len(frame))
	if l.mayLose() {
		l.lookout.begin(l.streamed.id)
	}
	return nil
}

func (l *Link) receiveStreamed(read func(r *protocol.Reader) error) error {
	if l.mayLose() {
		defer l.lookout.end()
	}
	l.reader.SetMax(math.MaxInt32)
	err := l.readStreamedHeader()
	l.reader.SetMax(l.cfg.MaxFrame)
	if err == nil {
		err = read(l.reader)
	}
	key := l.streamed.key
	if err != nil {
		return l.fail(OpRead, l.explainHangUp(key, err))
	}
	if n := l.reader.Remaining(); n > 0 {
		return l.fail(OpRead, fmt.Errorf("%d bytes are left over in the answer to %s", n, protocol.APIName(key)))
	}
	l.noteReceived(l.began)
	return nil
}

// Throttle notes for how long an answer said that the broker throttles this client.
// With wait the next request waits for that long (KIP-219); below the versions of
// KIP-219 the broker has waited itself. Do calls it itself; after Stream its caller
// does. A broker that asks for more than Config.RequestTimeout gets that: it mutes
// the connection itself for as long as it wants.
func (l *Link) Throttle(told time.Duration, wait bool) {
	l.meter().Throttled(told)
	if wait && told > 0 {
		l.throttled = time.Now().Add(min(told, l.cfg.RequestTimeout))
	}
}

// throttleOf returns what to call Throttle with; ok is false for an answer that says
// nothing of it.
func throttleOf(resp kmsg.Response) (told time.Duration, wait, ok bool) {
	t, ok := resp.(kmsg.ThrottleResponse)
	if !ok {
		return 0, false, false
	}
	millis, wait := t.Throttle()
	return time.Duration(max(millis, 0)) * time.Millisecond, wait, true
}

// IsReady tells whether Send would have to wait for nothing before it sends, also a moment
// later.
func (l *Link) IsReady() bool {
	throttled := !l.throttled.IsZero() && time.Now().Before(l.throttled)
	renews := !l.renewAt.IsZero() && time.Until(l.renewAt) < time.Second
	return !throttled && !renews && l.Err() == nil
}

// ready waits out a throttle and renews an authentication about to end.
func (l *Link) ready(ctx context.Context) error {
	if err := l.Err(); err != nil {
		return err
	}
	if !l.throttled.IsZero() && time.Now().Before(l.throttled) {
		timer := time.NewTimer(time.Until(l.throttled))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return l.newError(OpTimeout, ctxError(ctx))
		case <-l.done:
			return l.Err()
		}
	}
	if !l.renewAt.IsZero() && !time.Now().Before(l.renewAt) {
		began := time.Now()
		err := l.authenticate(ctx)
		l.noteAuthenticated(true, began, err)
		return err
	}
	return nil
}

func (l *Link) noteAnswer() {
	if !l.proved {
		l.proved = true
		if l.hooks.proved != nil {
			l.hooks.proved()
		}
	}
}

// pick sets the version of req that both sides know best.
func (l *Link) pick(req kmsg.Request) error {
	lowest, highest := versionRange(req)
	version, err := l.versions.Pick(req.Key(), lowest, highest)
	if err != nil {
		var unsupported *protocol.UnsupportedVersionError
		if errors.As(err, &unsupported) {
			unsupported.Broker = l.Node()
		}
		return err
	}
	req.SetVersion(version)
	return nil
}

// encode appends the frame of a request, whose version is set, to dst, which
// is empty.
func (l *Link) encode(dst []byte, req kmsg.Request) ([]byte, answerHeader) {
	h := answerHeader{key: req.Key(), version: req.GetVersion(), id: l.correlation.Add(1)}
	// The answer to ApiVersions has the old header in every version, because
	// the client cannot know yet what the broker speaks (KIP-511).
	h.flexible = req.IsFlexible() && h.key != protocol.KeyApiVersions
	frame := protocol.AppendRequestHeader(dst, h.key, h.version, h.id, l.cfg.ClientID, req.IsFlexible())
	return protocol.FinishFrame(req.AppendTo(frame)), h
}

// roundTrip sends a request whose version is set.
func (l *Link) roundTrip(ctx context.Context, req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	body, err := l.exchangeBody(ctx, req, timeout)
	if err != nil {
		return nil, err
	}
	return decode(req.ResponseKind(), body)
}

// exchangeBody sends a request whose version is set and returns the answer's
// body as it came.
func (l *Link) exchangeBody(ctx context.Context, req kmsg.Request, timeout time.Duration) (body []byte, err error) {
	frame, header := l.encode(l.frame[:0], req)
	l.frame = frame
	err = l.within(ctx, timeout, awaited{"answer to", header.key}, func() error {
		began := time.Now()
		if _, err := l.conn.Write(frame); err != nil {
			return l.fail(OpWrite, l.alertBehind(err))
		}
		l.meter().Sent(len(frame))
		err := l.readHeader(header)
		if err == nil {
			body, err = l.readBody(header.key)
		}
		if err != nil {
			return l.fail(OpRead, l.explainHangUp(header.key, err))
		}
		l.noteReceived(began)
		return nil
	})
	return body, err
}

// alertBehind returns the TLS alert that the other side sent before it closed the
// connection, if there is one: it says more than that writing failed. With TLS 1.3
// a refusal of the client's certificate comes when the client holds the handshake
// to be over.
func (l *Link) alertBehind(err error) error {
	if l.conn == l.raw || !isHangUp(err) {
		return err
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(alertWait))
	if _, alert := l.conn.Read(make([]byte, 1)); isAlert(alert) {
		return alert
	}
	return err
}

// token sends a SASL token without a Kafka header and returns the one that
// comes back.
func (l *Link) token(ctx context.Context, token []byte) (answer []byte, err error) {
	err = l.within(ctx, l.cfg.RequestTimeout, awaited{what: "answer to a SASL token", key: noKey}, func() error {
		began := time.Now()
		if err := l.writeToken(token); err != nil {
			return err
		}
		err := l.readFrame()
		if err == nil {
			answer, err = l.readBody(protocol.KeySaslAuthenticate)
		}
		if err != nil {
			return l.fail(OpRead, err)
		}
		l.noteReceived(began)
		return nil
	})
	return answer, err
}

func (l *Link) writeToken(token []byte) error {
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...)
	if _, err := l.conn.Write(frame); err != nil {
		return l.fail(OpWrite, err)
	}
	l.meter().Sent(len(frame))
	return nil
}

// answerHeader is what the header of an answer has to be like.
type answerHeader struct {
	key, version int16
	id           int32
	flexible     bool
}

// readHeader reads up to the body of the answer that is next.
func (l *Link) readHeader(want answerHeader) error {
	id, err := l.readID()
	if err != nil {
		return err
	}
	return l.checkHeader(want, id)
}

// readStreamedHeader is readHeader for the request of Stream or Send.
func (l *Link) readStreamedHeader() error {
	if !l.mayLose() {
		return l.readHeader(l.streamed)
	}
	id, err := l.lookout.readID()
	if err == nil { // from now on it is not silent
		err = l.arm(time.Now(), l.cfg.RequestTimeout, awaited{"answer to", l.streamed.key})
	}
	if err != nil {
		return err
	}
	return l.checkHeader(l.streamed, id)
}

// readFrame reads the length of the next answer.
func (l *Link) readFrame() error {
	size, err := l.reader.Frame()
	l.answerBytes = frameLengthBytes + int(size)
	return err
}

const frameLengthBytes = 4

// noteReceived measures an answer that was read whole.
func (l *Link) noteReceived(began time.Time) {
	l.took = time.Since(began)
	l.meter().Received(l.answerBytes, l.took)
}

// Took returns how long it took from the writing of the last request that was answered
// to the end of its answer.
func (l *Link) Took() time.Duration { return l.took }

// readID reads the beginning of the next answer.
func (l *Link) readID() (int32, error) {
	if err := l.readFrame(); err != nil {
		return 0, err
	}
	id := l.reader.Int32()
	return id, l.reader.Err()
}

// checkHeader checks the id of an answer and reads the rest of its header.
func (l *Link) checkHeader(want answerHeader, id int32) error {
	if id != want.id && !l.forgivesID(want, id) {
		return fmt.Errorf("%w: %d instead of %d, that of %s", ErrOutOfOrder, id, want.id, protocol.APIName(want.key))
	}
	l.reader.SetAPI(protocol.APIName(want.key))
	if want.flexible {
		l.reader.SkipTags()
	}
	return l.reader.Err()
}

// forgivesID is for brokers of 0.8.2, whose answers to the look-up of a coordinator may
// carry correlation id 0 as long as there is no topic for committed offsets.
func (l *Link) forgivesID(want answerHeader, id int32) bool {
	if id != 0 || want.key != protocol.KeyFindCoordinator || want.version != 0 {
		return false
	}
	return l.versions == nil || l.versions.Release().Less(release090) // nil: the release is being found out
}

// readBody reads the rest of an answer; the buffer grows as bytes arrive.
func (l *Link) readBody(key int16) ([]byte, error) {
	if n := l.reader.Remaining(); n > maxControlBody && key != protocol.KeyMetadata {
		return nil, fmt.Errorf("the answer to %s has %d bytes, more than the %d allowed", protocol.APIName(key), n, maxControlBody)
	}
	return l.reader.Body(nil)
}

func decode(resp kmsg.Response, body []byte) (kmsg.Response, error) {
	if err := protocol.DecodeResponse(resp, body); err != nil {
		return nil, err
	}
	return resp, nil
}

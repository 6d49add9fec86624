package conn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxAPIVersions is the newest ApiVersions request sent: version 5 makes the
	// broker compare cluster and node ids, which nobody here asks for.
	maxAPIVersions = 4
	// silence is how long ApiVersions may be unanswered before a canary is sent
	// behind it, and at most a quarter of the time that there is.
	silence = 500 * time.Millisecond
	// noCanary and canaryAtOnce are other times for it.
	noCanary     time.Duration = -1
	canaryAtOnce time.Duration = 0
)

var (
	// release0100 is the first release that answers ApiVersions.
	release0100 = mustRelease("0.10.0")
	// release090 is the first release that always echoes the correlation id.
	release090 = mustRelease("0.9")
)

// A negotiation makes a connection and learns what the broker supports. Where the
// broker may be too old to tell, that takes several connections.
type negotiation struct {
	cfg  *Config
	node int32
	addr Addr
	// where is what is dialled, which tells apart the brokers behind one name.
	where string
	open  func(ctx context.Context) (net.Conn, error)
	hooks linkHooks
}

// setup returns a Link that is ready for requests.
func (n *negotiation) setup(ctx context.Context) (*Link, error) {
	l, err := n.run(ctx)
	if err != nil {
		return nil, err
	}
	err = l.authenticate(ctx)
	if n.cfg.TLS != nil || n.cfg.Auth != nil {
		l.noteAuthenticated(false, l.opened, err)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// connect opens a connection whose broker's versions are not known yet.
func (n *negotiation) connect(ctx context.Context) (*Link, error) {
	raw, err := n.open(ctx)
	if err != nil {
		n.cfg.Releases.forget(n.where, time.Now())
		return nil, &Error{Node: n.node, Addr: n.addr, Op: OpDial, Err: withBound(ctx, err)}
	}
	l := newLink(n.cfg, n.node, n.addr, raw, n.hooks)
	l.where = n.where
	if err := l.startTLS(ctx); err != nil {
		l.Close()
		return nil, err
	}
	l.reader = protocol.NewReader(l.conn, readBufferBytes)
	l.reader.SetMax(n.cfg.MaxFrame)
	return l, nil
}

// run returns a link whose versions are known.
func (n *negotiation) run(ctx context.Context) (*Link, error) {
	if release, ok := n.told(); ok {
		return n.asRelease(ctx, release)
	}
	done, err := n.cfg.Releases.turn(ctx, n.where)
	if err != nil {
		return nil, &Error{Node: n.node, Addr: n.addr, Op: OpAPIVersions, Err: err}
	}
	defer done()
	if release, ok := n.told(); ok {
		return n.asRelease(ctx, release)
	}
	return n.ask(ctx)
}

// told returns the release of a broker that need not be asked: that of the clamp, or
// what another connection found.
func (n *negotiation) told() (protocol.Release, bool) {
	if clamp := n.cfg.Clamp; clamp != (protocol.Release{}) && clamp.Less(release0100) {
		return clamp, true
	}
	return n.cfg.Releases.release(n.where)
}

// asRelease returns a connection to a broker that is taken for one of a release before
// 0.10.
func (n *negotiation) asRelease(ctx context.Context, release protocol.Release) (*Link, error) {
	l, err := n.connect(ctx)
	if err == nil {
		l.versions = protocol.NewVersions(release.Ranges(), n.cfg.Clamp)
	}
	return l, err
}

// mayBeOld tells whether the broker may be one that does not know ApiVersions. A
// listener with SASL is not asked: it closes on what comes before SASL.
func (n *negotiation) mayBeOld() bool {
	return n.cfg.Clamp == (protocol.Release{}) && n.cfg.Auth == nil && !n.cfg.Releases.isModern(n.node, n.where)
}

// ask drives a detection.
func (n *negotiation) ask(ctx context.Context) (*Link, error) {
	l, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := n.budget(ctx)
	defer cancel()
	d := detection{mayBeOld: n.mayBeOld()}
	var first error
	for {
		ranges, v, fault := n.try(within, l, &d)
		if fault != nil && (first == nil || !isHangUp(fault)) {
			// What comes after the first hang-up only looks for an old broker.
			first = fault
		}
		ruling := d.take(v)
		switch ruling {
		case isModern:
			return n.modern(ctx, l, ranges)
		case isOld, isOldAnew:
			return n.old(ctx, l, d.found, ruling == isOldAnew || l.stray)
		case giveUp:
			defer l.Close()
			return nil, n.failure(l, first, d.mayBeOld)
		case askAnew:
			l.Close()
			if l, err = n.connect(within); err != nil {
				return nil, n.orOverdue(within, err)
			}
		case askHere:
		}
	}
}

// modern ends a negotiation with a broker that told what it supports, or, with nil
// ranges, that it has another version of ApiVersions. The connection of one that took
// its time is not used, for the answer to a canary is yet to come on it.
func (n *negotiation) modern(ctx context.Context, l *Link, ranges map[int16]protocol.VersionRange) (*Link, error) {
	var err error
	if l.stray {
		l.Close()
		if l, err = n.connect(ctx); err != nil {
			return nil, err
		}
	}
	if ranges == nil {
		if ranges, _, err = l.askVersions(ctx, noCanary); err != nil {
			defer l.Close()
			return nil, n.failure(l, reason(err), false)
		}
	}
	n.settle(l, ranges)
	return l, nil
}

// old ends a negotiation with a broker of a release before 0.10.
func (n *negotiation) old(ctx context.Context, l *Link, release protocol.Release, anew bool) (*Link, error) {
	if anew {
		var err error
		l.Close()
		if l, err = n.connect(ctx); err != nil {
			return nil, err
		}
	}
	n.cfg.Releases.foundOld(n.where, release)
	n.settle(l, release.Ranges())
	return l, nil
}

// orOverdue makes the end of the budget of an error that it brought about.
func (n *negotiation) orOverdue(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return &Error{Node: n.node, Addr: n.addr, Op: OpAPIVersions, Err: n.hint(ctxError(ctx), true)}
}

// reason returns what is wrong, without what was being done.
func reason(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Err
	}
	return err
}

// budget bounds the time for finding out.
func (n *negotiation) budget(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := n.cfg.ProbeTimeout
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, &timeoutError{"answer that tells the broker's version", limit})
}

// settle gives the link its versions, and tells of the release once.
func (n *negotiation) settle(l *Link, ranges map[int16]protocol.VersionRange) {
	l.versions = protocol.NewVersions(ranges, n.cfg.Clamp)
	release := l.versions.Release()
	if n.cfg.Releases.news(n.where, release) {
		n.cfg.Logger.LogAttrs(context.Background(), slog.LevelInfo, "kafka: broker version found",
			slog.Int("node", int(n.node)), slog.String("addr", n.addr.String()), slog.String("version", release.String()))
	}
}

// failure says why the versions are not known.
func (n *negotiation) failure(l *Link, err error, oldToo bool) error {
	if n.cfg.TLS != nil && isAlert(err) {
		// With TLS 1.3 the broker's opinion of our certificate comes only now.
		return l.tlsError(err)
	}
	return l.newError(OpAPIVersions, n.hint(err, oldToo))
}

// try sends the detection's next probe and tells what became of it, and, of ApiVersions,
// what was answered.
func (n *negotiation) try(ctx context.Context, l *Link, d *detection) (ranges map[int16]protocol.VersionRange, v verdict, err error) {
	switch d.next {
	case probeVersions, probeVersionsAt:
		canary := noCanary
		if d.mayBeOld {
			canary = silence
			if limit := n.cfg.ProbeTimeout; limit > 0 {
				canary = min(canary, limit/4)
			}
		}
		ranges, v, err = l.askVersions(ctx, canary)
	default:
		_, v, err = l.probe(ctx, probeRequest(d.next), canaryAtOnce)
	}
	err = reason(err)
	// One that answered before it closed is no old broker.
	if v == failed && isHangUp(err) && ctx.Err() == nil && !n.cfg.Releases.isModern(n.node, n.where) {
		v = closed
	}
	return ranges, v, err
}

// probeRequest returns the request of a probe for brokers without ApiVersions. None
// asks for anything or changes anything, but that looking up a coordinator makes the
// broker create the topic of committed offsets.
func probeRequest(p probe) kmsg.Request {
	switch p {
	case probeGroups:
		return kmsg.NewPtrListGroupsRequest()
	case probeFinder:
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey = "version-probe"
		return req
	case probeOffsets:
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = "version-probe"
		return req
	}
	return canary()
}

// canary returns a request that all brokers have ever answered: Metadata v0, in which
// the empty list means all topics and creates none.
func canary() *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	return req
}

// probe sends a request that the broker may not know, and, after a while, a canary
// behind it. With answered the answer to the request was read, and so was that to a
// canary that was sent at once; that to one sent later is yet to come.
func (l *Link) probe(ctx context.Context, req kmsg.Request, wait time.Duration) (body []byte, v verdict, err error) {
	frame, header := l.encode(nil, req)
	c := canaryCall{wait: wait}
	c.frame, c.header = l.encode(nil, canary())
	err = l.within(ctx, l.cfg.SetupTimeout, awaited{"answer to", header.key}, func() error {
		c.began = time.Now()
		if _, err := l.conn.Write(frame); err != nil {
			return l.fail(OpWrite, l.alertBehind(err))
		}
		l.meter.Sent(len(frame))
		c.start(l)
		defer c.stop()
		read := 0
		body, v, err = l.readProbe(header, &c)
		if err == nil && v == answered && wait == canaryAtOnce {
			err = l.readCanary(&c)
			read++
		}
		if err != nil {
			return l.fail(OpRead, l.explainHangUp(header.key, err))
		}
		l.stray = c.stop() > read
		return nil
	})
	if err != nil {
		return nil, failed, err
	}
	return body, v, nil
}

// readProbe reads what is answered first.
func (l *Link) readProbe(want answerHeader, c *canaryCall) (body []byte, v verdict, err error) {
	id, err := l.readID()
	if err != nil {
		return nil, failed, err
	}
	if id == c.header.id && c.wait != noCanary {
		return nil, skipped, nil
	}
	if err := l.checkHeader(want, id); err != nil {
		return nil, failed, err
	}
	if body, err = l.readBody(want.key); err == nil {
		l.noteReceived(c.began)
	}
	return body, answered, err
}

func (l *Link) readCanary(c *canaryCall) error {
	if err := l.readHeader(c.header); err != nil {
		return err
	}
	l.noteReceived(c.began)
	return l.reader.Discard(l.reader.Remaining())
}

// canaries is how many are sent at most: 0.9 may lose one (KAFKA-3547).
const canaries = 2

// A canaryCall is a canary that is sent behind another request after a while, and once
// more after another while, as long as nothing was answered.
type canaryCall struct {
	wait   time.Duration
	frame  []byte
	header answerHeader
	began  time.Time     // when the request before it was about to be written
	quit   chan struct{} // closed to keep what is not sent yet from being sent; nil when it is
	done   chan struct{} // closed when nothing is sent any more
	sent   int           // valid once done is closed
}

// start runs the sending, which stop ends and awaits. Its caller reads meanwhile: a
// connection without a buffer would stand still otherwise.
func (c *canaryCall) start(l *Link) {
	if c.wait == noCanary {
		return
	}
	c.quit, c.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(c.done)
		timer := time.NewTimer(c.wait)
		defer timer.Stop()
		for c.sent < canaries {
			if c.wait != canaryAtOnce || c.sent > 0 {
				select {
				case <-timer.C:
				case <-c.quit:
					return
				}
			}
			c.sent++
			if _, err := l.conn.Write(c.frame); err == nil { // what is wrong shows when the answer is read
				l.meter.Sent(len(c.frame))
			}
			timer.Reset(silence)
		}
	}()
}

// stop ends the sending and returns how many were sent.
func (c *canaryCall) stop() int {
	if c.quit != nil {
		close(c.quit)
		<-c.done
		c.quit = nil
	}
	return c.sent
}

// askVersions sends ApiVersions in the highest version that may be understood,
// and again in the one that the broker's refusal names. Before 2.4 a broker
// refuses with an empty list, which stands for version 0. Where an answer to a canary
// is yet to come, it leaves that to its caller: the ranges are nil then.
func (l *Link) askVersions(ctx context.Context, wait time.Duration) (map[int16]protocol.VersionRange, verdict, error) {
	version := int16(maxAPIVersions)
	if l.cfg.Clamp != (protocol.Release{}) {
		top, _ := l.cfg.Clamp.MaxVersion(protocol.KeyApiVersions)
		version = min(version, top)
	}
	resp, v, err := l.apiVersions(ctx, version, wait)
	if err != nil || v != answered {
		return nil, v, err
	}
	l.cfg.Releases.answeredVersions(l.node, l.where)
	if code := protocol.ErrorCode(resp.ErrorCode); code == protocol.UnsupportedVersion && version > 0 {
		if l.stray {
			return nil, answered, nil
		}
		version = min(version-1, supportedVersion(resp))
		if resp, v, err = l.apiVersions(ctx, version, noCanary); err != nil {
			return nil, v, err
		}
	}
	if code := protocol.ErrorCode(resp.ErrorCode); code != protocol.None {
		return nil, failed, fmt.Errorf("the broker answers ApiVersions version %d with %w", version, code)
	}
	ranges := make(map[int16]protocol.VersionRange, len(resp.ApiKeys))
	for _, key := range resp.ApiKeys {
		ranges[key.ApiKey] = protocol.VersionRange{Min: key.MinVersion, Max: key.MaxVersion}
	}
	return ranges, answered, nil
}

// supportedVersion returns the version to repeat a refused ApiVersions in.
func supportedVersion(resp *kmsg.ApiVersionsResponse) int16 {
	for _, key := range resp.ApiKeys {
		if key.ApiKey == protocol.KeyApiVersions {
			return max(key.MaxVersion, 0)
		}
	}
	return 0
}

func (l *Link) apiVersions(ctx context.Context, version int16, wait time.Duration) (*kmsg.ApiVersionsResponse, verdict, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(version)
	req.ClientSoftwareName = softwareField(l.cfg.SoftwareName)
	req.ClientSoftwareVersion = softwareField(l.cfg.SoftwareVersion)
	body, v, err := l.probe(ctx, req, wait)
	if err != nil || v != answered {
		return nil, v, err
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(version)
	// A refusal has the layout of version 0, whatever was asked (KIP-511).
	if len(body) >= 2 && protocol.ErrorCode(binary.BigEndian.Uint16(body)) == protocol.UnsupportedVersion {
		resp.SetVersion(0)
	}
	if _, err := decode(resp, body); err != nil {
		return nil, failed, err
	}
	return resp, answered, nil
}

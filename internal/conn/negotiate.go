package conn

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
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
		l.speaks(protocol.NewVersions(release.Ranges(), n.cfg.Clamp))
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
	l.speaks(protocol.NewVersions(ranges, n.cfg.Clamp))
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

package conn

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A broker of 0.9 that is sent a request which it does not know, such as another client's
// ApiVersions, loses what other connections sent in the same moment (KAFKA-3547), and goes
// on with what comes behind. As brokers answer the requests of a connection in order, a
// canary behind a request tells whether it was lost or takes its time. So one is sent where
// an answer is late, and what was lost is sent again.
//
// In such a moment the broker may also forget that it has sent an answer. It reads nothing
// more from that connection then, as if it took its time with a request. So it is given
// less time for an answer than others, before the connection is closed.

// lateAfter is how long a request may be unanswered before a canary is sent behind it, and
// how long that one may be before the next.
const lateAfter = 2 * time.Second

const leastPatience = 3 * time.Second

// patience is how long an answer may take that the broker does not hold back.
func (l *Link) patience() time.Duration {
	all := l.cfg.RequestTimeout
	if l.mayLose() {
		return max(all/4, min(all, leastPatience))
	}
	return all
}

// fellSilent tells whether the link failed as one to such a broker may, which says nothing
// of its being of another release since.
func (l *Link) fellSilent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Op == OpTimeout && l.mayLose()
}

// speaks sets what the broker understands.
func (l *Link) speaks(v *protocol.Versions) {
	l.versions = v
	if r := v.Release(); !r.Less(release090) && r.Less(release0100) {
		l.lookout = newLookout(l)
	}
}

// mayLose tells whether the broker is one that loses requests.
func (l *Link) mayLose() bool { return l.lookout != nil }

func (l *Link) logLost(key int16) {
	l.cfg.Logger.LogAttrs(context.Background(), slog.LevelInfo, "kafka: the broker has lost a request (KAFKA-3547)",
		slog.Int("node", int(l.Node())), slog.String("addr", l.addr.String()), slog.String("api", protocol.APIName(key)))
}

// A lookout finds out whether the request of Stream or Send was lost. Its fields are guarded
// by Link.mu.
type lookout struct {
	link  *Link
	timer *time.Timer
	late  int32 // the request that is unanswered
	on    bool  // there is one
	sent  int   // canaries behind it
	// canaries are those that are unanswered, with the request behind which each was sent.
	canaries map[int32]int32
}

func newLookout(l *Link) *lookout {
	o := &lookout{link: l, canaries: map[int32]int32{}}
	o.timer = time.AfterFunc(time.Hour, o.onTimer)
	o.timer.Stop()
	return o
}

// begin is called when a request was written.
func (o *lookout) begin(id int32) {
	o.link.mu.Lock()
	defer o.link.mu.Unlock()
	if o.link.err == nil {
		o.late, o.on, o.sent = id, true, 0
		o.timer.Reset(lateAfter)
	}
}

// end is called when nobody waits for its answer any more.
func (o *lookout) end() {
	o.link.mu.Lock()
	defer o.link.mu.Unlock()
	o.on = false
	o.timer.Stop()
}

// onTimer sends a canary. Should it come to be written behind a later request, it proves
// nothing, as it is noted for the one before.
func (o *lookout) onTimer() {
	l := o.link
	frame, header := l.encode(nil, canary())
	if !o.note(header.id) {
		return
	}
	if _, err := l.conn.Write(frame); err == nil { // what is wrong shows when the answer is read
		l.meter().Sent(len(frame))
	}
}

// note notes a canary that is about to be sent, and returns false when none is needed.
func (o *lookout) note(id int32) bool {
	o.link.mu.Lock()
	defer o.link.mu.Unlock()
	if !o.on || o.sent == canaries || o.link.err != nil {
		return false
	}
	o.canaries[id] = o.late
	o.sent++
	o.timer.Reset(lateAfter)
	return true
}

// canary tells whether an answer is one to a canary, and behind which request that was sent.
func (o *lookout) canary(id int32) (behind int32, ok bool) {
	o.link.mu.Lock()
	defer o.link.mu.Unlock()
	behind, ok = o.canaries[id]
	delete(o.canaries, id)
	return behind, ok
}

// readID reads the beginning of the answer to the streamed request, passing over those to
// canaries. One that comes first shows that the request was lost.
func (o *lookout) readID() (int32, error) {
	l := o.link
	for {
		id, err := l.readID()
		if err != nil {
			return 0, err
		}
		behind, ok := o.canary(id)
		if !ok {
			return id, nil
		}
		if err := l.reader.Discard(l.reader.Remaining()); err != nil {
			return 0, err
		}
		if behind == l.streamed.id {
			l.logLost(l.streamed.key)
			if err := l.sendStreamed(l.frame, l.began); err != nil {
				return 0, err
			}
		}
	}
}

// lateLocked returns when a canary is due behind the requests of a mux; zero: never.
func (m *Mux) lateLocked() time.Time {
	if !m.link.mayLose() || len(m.inFlight) == 0 || m.inFlight[0].canary || m.canary != nil {
		return time.Time{}
	}
	since, n := m.inFlight[0].written, 0
	for _, c := range m.inFlight {
		if c.canary {
			since = c.written
			n++
		}
	}
	if n == canaries {
		return time.Time{}
	}
	return since.Add(lateAfter)
}

// suspectLocked has a canary written next, if it is time for that.
func (m *Mux) suspectLocked(now time.Time) {
	if at := m.lateLocked(); at.IsZero() || now.Before(at) {
		return
	}
	// The broker answers it when it has answered those before, which it may hold.
	timeout := m.link.patience()
	for _, c := range m.inFlight {
		timeout = max(timeout, c.deadline.Sub(now)+m.link.patience())
	}
	req := canary()
	m.canary = &call{canary: true, resp: req.ResponseKind(), timeout: timeout, outcome: make(chan outcome, 1)}
	m.canary.frame, m.canary.header = m.link.encode(nil, req)
	m.wakeWriter()
}

// takeLost is called with the id of the answer that is read. What was sent before was lost.
// If the answer is one to a canary, requests that somebody still waits for are written
// again. Behind another request they are not: the two would change places.
func (m *Mux) takeLost(id int32) {
	if !m.link.mayLose() {
		return
	}
	m.mu.Lock()
	i := max(slices.IndexFunc(m.inFlight, func(c *call) bool { return c.header.id == id }), 0)
	var lost []*call
	for _, c := range m.inFlight[:i] {
		if !c.canary {
			lost = append(lost, c)
		}
	}
	again := slices.DeleteFunc(slices.Clone(lost), func(c *call) bool { return c.abandoned })
	if len(lost) == 0 || !slices.ContainsFunc(m.inFlight[i:], func(c *call) bool { return !c.canary }) {
		m.inFlight = slices.Clone(m.inFlight[i:])
		m.queue = append(again, m.queue...)
	}
	m.mu.Unlock()
	for _, c := range lost {
		m.link.logLost(c.header.key)
	}
}

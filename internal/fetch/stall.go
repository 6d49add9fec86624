package fetch

import (
	"errors"
	"fmt"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A partition stalls when its log is known to go on, the application asks for records,
// nothing keeps them from being fetched, and none came for Limits.Patience. LookForStalls
// finds out, now and then, while there is a partition whose log goes on. It reports a
// stall once, tries what may mend it, and reports once when it is over.

// A wait is what a partition is waiting for, and since when. The zero wait is none.
type wait struct {
	since   time.Time
	offset  int64  // the fetch offset then
	voided  uint64 // Partition.voided then
	stalled bool
	mends   int       // how often something was tried to mend it
	mended  time.Time // when that was last
}

// A sight is what is seen of a partition at one time.
type sight struct {
	offset    int64
	voided    uint64
	expecting bool      // its log goes on, and nothing of this consumer's keeps it from being fetched
	throttled time.Time // until when the broker wants to be left alone
}

// A verdict says what to do about a wait.
type verdict int8

const (
	waits   verdict = iota // nothing yet
	stalls                 // it has become a stall: tell, and mend
	mends                  // it is one still: mend with more force
	resumes                // it was one, and is over
)

// look takes in what is seen of a partition. asked is when the application asked for
// records last.
func (w *wait) look(s sight, now, asked time.Time, patience time.Duration) verdict {
	if !s.expecting || w.since.IsZero() || s.offset != w.offset || s.voided != w.voided {
		over := w.stalled
		*w = wait{}
		if s.expecting {
			*w = wait{since: now, offset: s.offset, voided: s.voided}
		}
		if over {
			return resumes
		}
		return waits
	}
	if s.throttled.After(w.since) && !w.stalled { // it answers, and its answer is: later
		w.since = s.throttled
	}
	switch {
	case w.stalled && now.Sub(w.mended) >= patience/3:
	case w.stalled, now.Sub(w.since) < patience, now.Sub(asked) >= patience:
		return waits
	}
	w.mends++
	w.mended = now
	if w.stalled {
		return mends
	}
	w.stalled = true
	return stalls
}

// looksPerPatience is how often partitions are looked at while one of them may stall.
const looksPerPatience = 6

// TakeUnwatched tells whether LookForStalls is to be called although it did not ask for
// that, since it was called last.
func (t *Table) TakeUnwatched() bool {
	u := t.unwatched
	t.unwatched = false
	return u
}

// watch has partitions looked at from now on if p's log goes on.
func (t *Table) watch(p *Partition) {
	if !t.watching && t.goesOn(p) {
		t.watching, t.unwatched = true, true
	}
}

// goesOn tells whether more of p's log is known than was fetched.
func (t *Table) goesOn(p *Partition) bool {
	return p.known() && p.end(t.limits.ReadCommitted) > p.fetchOffset
}

// LookForStalls finds out which partitions stall, and which do no longer. asked is when
// the application asked for records last. It returns when to call it again, zero for not
// before TakeUnwatched says so.
func (t *Table) LookForStalls(now, asked time.Time) (again time.Time) {
	t.watching = false
	for _, p := range t.parts {
		goesOn := t.goesOn(p)
		if !goesOn && p.wait.since.IsZero() {
			continue
		}
		t.watching = t.watching || goesOn
		switch p.wait.look(t.sight(p), now, asked, t.limits.Patience) {
		case stalls:
			t.report(Report{
				TP: p.tp, Kind: ReportStalled, From: p.position, Since: p.wait.since, Err: p.lastErr, Reason: t.whyStalled(p),
			})
			t.mend(p, now)
		case mends:
			t.mend(p, now)
		case resumes:
			t.report(Report{TP: p.tp, Kind: ReportResumed, From: p.position, Reason: p.whyResumed()})
		}
	}
	if !t.watching {
		return time.Time{}
	}
	return now.Add(t.limits.Patience / looksPerPatience)
}

func (t *Table) sight(p *Partition) sight {
	s := sight{offset: p.fetchOffset, voided: p.voided}
	if p.home != nil {
		s.throttled = p.home.throttled
	}
	// What fills the memory waits for the application, which has something to do then.
	crowded := p.lastErr == nil && t.buffered >= t.limits.MaxBufferedBytes/2
	s.expecting = t.goesOn(p) && p.wanted() && p.drained() && !crowded
	return s
}

// whyStalled says what is known of the reason, beside p.lastErr.
func (t *Table) whyStalled(p *Partition) string {
	switch {
	case p.lastErr != nil:
		return "it cannot be fetched"
	case p.source < 0:
		return "no leader of it is known"
	case p.doubtful:
		return "its leader does not say whether its log is the one that was read"
	default:
		return fmt.Sprintf("broker %d gives nothing, although the log goes on to %d", p.source, p.end(t.limits.ReadCommitted))
	}
}

// whyResumed says how a stall ended.
func (p *Partition) whyResumed() string {
	switch {
	case p.stage != ready || p.tail.kind != tailNone:
		return "its position is not valid any more"
	case p.paused:
		return "it was paused"
	case p.held:
		return "it is being revoked"
	default:
		return "it goes on"
	}
}

// mend does what may make a stalled partition go on: a new session and new metadata at
// first, then a new connection, again and again.
func (t *Table) mend(p *Partition, now time.Time) {
	t.report(Report{TP: p.tp, Kind: ReportStaleMetadata, Err: errStalled})
	if p.home == nil {
		return
	}
	if p.wait.mends > 1 {
		p.home.reconnect = true
	}
	p.home.renew = true
	if p.follower >= 0 {
		t.avoidFollower(p, now)
	}
	t.touch(p)
}

var errStalled = errors.New("records are known and do not come")

// WantsReconnect tells what TakeReconnect would.
func (s *Session) WantsReconnect() bool { return s.reconnect }

// TakeReconnect tells whether the session's next request must go over a new connection.
func (s *Session) TakeReconnect() bool {
	r := s.reconnect
	s.reconnect = false
	return r
}

// A Standing is how a partition is doing.
type Standing struct {
	TP       protocol.TopicPartition
	Kind     StandingKind
	Err      error     // why, where there is a reason; see StandingFault, StandingLate, StandingStalled
	Reason   string    // of StandingStalled
	Since    time.Time // of StandingStalled, and of StandingLate where there is an Err
	Position int64     // -1: none yet
	Lag      int64     // -1: unknown
	Came     time.Time // when bytes of it came last; zero: never
}

// A StandingKind says how a partition is doing.
type StandingKind int8

// The kinds of standing.
const (
	StandingReading  StandingKind = iota
	StandingPaused                // by the application
	StandingHeld                  // being revoked, or taken over
	StandingLocating              // its position is being looked up; Err is the last failure
	StandingLate                  // it cannot be fetched just now: Err, or nil if nobody leads it
	StandingStalled               // see LookForStalls
	StandingFault                 // stopped by Err until a seek
)

// Standings returns how all partitions are doing.
func (t *Table) Standings() []Standing {
	t.syncLive()
	list := make([]Standing, 0, len(t.parts))
	for tp, p := range t.parts {
		s := Standing{TP: tp, Kind: t.standing(p), Err: p.lastErr, Position: p.position, Lag: -1, Came: p.came}
		if lag, known := t.Lag(p); known {
			s.Lag = lag
		}
		if s.Kind == StandingLate {
			s.Since = p.failingSince
		}
		if s.Kind == StandingFault {
			s.Err = p.tail.err
		}
		if s.Kind == StandingStalled {
			s.Since, s.Reason = p.wait.since, t.whyStalled(p)
		}
		list = append(list, s)
	}
	return list
}

func (t *Table) standing(p *Partition) StandingKind {
	switch {
	case p.tail.kind == tailFault && p.drained():
		return StandingFault
	case p.held:
		return StandingHeld
	case p.paused:
		return StandingPaused
	case !p.known():
		return StandingLocating
	case p.wait.stalled && p.wait.offset == p.fetchOffset && p.wait.voided == p.voided: // nothing came since the last look
		return StandingStalled
	case p.lastErr != nil || p.source < 0:
		return StandingLate
	default:
		return StandingReading
	}
}

package kafka

import (
	"fmt"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka/internal/fetch"
	"github.com/kafkaconsumer/kafka/internal/group"
)

// A HealthState says how a consumer, or one of its partitions, is doing.
type HealthState string

// The states of health. Of several that apply, Health gives the one that comes first in
// this order: closed, failed, not-polling, stalled, degraded, starting or rebalancing,
// waiting, ok. All but failed and closed pass without the application's doing something,
// not-polling with its next Poll.
const (
	// HealthOK: all that is known to be readable is read.
	HealthOK HealthState = "ok"
	// HealthStarting: it has not begun to read: nothing is subscribed to or assigned, or
	// the first assignment is yet to come.
	HealthStarting HealthState = "starting"
	// HealthRebalancing: the group shares its partitions anew, or this member is to join
	// again.
	HealthRebalancing HealthState = "rebalancing"
	// HealthWaiting: positions are being looked up, or a partition cannot be fetched just
	// now, or a topic does not exist.
	HealthWaiting HealthState = "waiting"
	// HealthDegraded: it works in part. The group's coordinator or all brokers cannot be
	// reached, a topic may not be read, some partitions are at fault, or their leader has
	// not let them be fetched for RequestTimeout.
	HealthDegraded HealthState = "degraded"
	// HealthStalled: records are known and do not come; see EventPartitionStalled.
	HealthStalled HealthState = "stalled"
	// HealthNotPolling: the application has not asked for records for MaxPollInterval.
	// A member has left its group by then.
	HealthNotPolling HealthState = "not-polling"
	// HealthFailed: the group does not take this member and will not, or all partitions
	// are at fault.
	HealthFailed HealthState = "failed"
	// HealthClosed: Close was called.
	HealthClosed HealthState = "closed"
)

// Health is a snapshot of how a consumer is doing.
type Health struct {
	State  HealthState
	Reason string // for people; empty when there is nothing to say
	// Since is when the state began. Where that leaves no trace it is when Health first
	// returned the state.
	Since time.Time
	// Partitions are those that are assigned. It is empty when the consumer is closed.
	Partitions map[TopicPartition]PartitionHealth
}

// PartitionHealth is how one partition is doing.
type PartitionHealth struct {
	// State is one of HealthOK, HealthWaiting, HealthDegraded, HealthStalled and
	// HealthFailed.
	State    HealthState
	Reason   string
	Since    time.Time // as in Health
	Position int64     // -1: none yet
	Lag      int64     // records; -1: unknown
	// LastFetch is when bytes of the partition came from a broker last. Zero: not since it
	// was assigned.
	LastFetch time.Time
}

// Health tells how the consumer and each of its partitions are doing. It never waits, and
// may be called from any goroutine, inside callbacks, and after Close. Its error is always
// nil.
//
// For a liveness probe, HealthFailed and HealthNotPolling are states that a restart may
// help; HealthStalled and HealthDegraded mostly tell of the brokers.
func (c *Consumer) Health() (Health, error) {
	now := time.Now()
	v := c.vitals(now)
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	h := Health{Partitions: make(map[TopicPartition]PartitionHealth, len(v.partitions))}
	seen := make(map[TopicPartition]sighting, len(v.partitions))
	for _, p := range v.partitions {
		last, known := c.health.partitions[p.tp]
		if !known {
			last = sighting{looked: now}
		}
		last = last.next(p.finding, now)
		seen[p.tp] = last
		h.Partitions[p.tp] = PartitionHealth{
			State: p.state, Reason: p.reason, Since: last.since,
			Position: p.position, Lag: p.lag, LastFetch: p.came,
		}
	}
	f := v.judge()
	c.health.consumer = c.health.consumer.next(f, now)
	c.health.partitions = seen
	h.State, h.Reason, h.Since = f.state, f.reason, c.health.consumer.since
	return h, nil
}

// healthHistory is what Health found when it was called last.
type healthHistory struct {
	mu         sync.Mutex
	consumer   sighting
	partitions map[TopicPartition]sighting
	yielded    int64     // of the cut that is handed over record by record, then
	progressed time.Time // when that was seen to change
}

// A finding is a state and how it came about.
type finding struct {
	state  HealthState
	reason string
	since  time.Time // zero: unknown
	exact  bool      // since is when this very state began, not only what may have led to it
}

// A sighting is a state that Health returned.
type sighting struct {
	state  HealthState
	since  time.Time
	looked time.Time // when it was returned last
}

// next tells since when a finding holds.
func (s sighting) next(f finding, now time.Time) sighting {
	since := now
	switch {
	case f.exact:
		since = f.since
	case f.state == s.state:
		since = s.since
	case f.since.After(s.looked):
		since = f.since
	}
	return sighting{state: f.state, since: since, looked: now}
}

// vitals are what the state of health is judged by.
type vitals struct {
	now        time.Time
	closing    time.Time // when Close was called; zero: not
	closed     bool
	idle       bool // nothing is subscribed to or assigned
	begun      bool // an assignment was taken over
	asked      time.Time
	maxPoll    time.Duration
	group      *groupVitals // nil without a group
	refresh    finding      // metadata cannot be refreshed; its state is empty if it can
	denied     []string     // topics of the subscription that may not be read
	missing    []string     // topics that do not exist
	partitions []partitionVitals
}

// groupVitals are those of a group's member.
type groupVitals struct {
	subscribed bool
	state      group.State
	since      time.Time
	wantsPoll  bool  // it is to join, with the next Poll
	cause      error // what is wrong with the coordinator or the group, nil for nothing
	causeSince time.Time
	terminal   bool
}

type partitionVitals struct {
	finding
	tp       TopicPartition
	position int64
	lag      int64
	came     time.Time
}

// judge finds the worst of what applies.
func (v *vitals) judge() finding {
	for _, find := range []func() finding{
		v.findClosed, v.findFailed, v.findNotPolling, v.findStalled, v.findDegraded, v.findRebalancing, v.findWaiting,
	} {
		if f := find(); f.state != "" {
			return f
		}
	}
	if len(v.partitions) == 0 {
		return finding{state: HealthOK, reason: "no partition is assigned to this member"}
	}
	f := finding{state: HealthOK}
	if v.group != nil && v.group.subscribed {
		f.since = v.group.since
	}
	return f
}

func (v *vitals) findClosed() finding {
	switch {
	case v.closing.IsZero():
		return finding{}
	case v.closed:
		return finding{HealthClosed, "the consumer is closed", v.closing, true}
	default:
		return finding{HealthClosed, "the consumer is being closed", v.closing, true}
	}
}

func (v *vitals) findFailed() finding {
	if g := v.group; g != nil && g.terminal {
		return finding{HealthFailed, trimmed{g.cause}.String(), g.causeSince, true}
	}
	if f, n := v.worst(HealthFailed); n > 0 && n == len(v.partitions) {
		return f
	}
	return finding{}
}

func (v *vitals) findNotPolling() finding {
	if quiet := v.now.Sub(v.asked); !v.idle && quiet >= v.maxPoll {
		reason := fmt.Sprintf("the application has not asked for records for %v, MaxPollInterval is %v", quiet.Round(time.Second), v.maxPoll)
		return finding{HealthNotPolling, reason, v.asked, true}
	}
	return finding{}
}

func (v *vitals) findStalled() finding {
	f, _ := v.worst(HealthStalled)
	return f
}

func (v *vitals) findDegraded() finding {
	if g := v.group; g != nil && g.cause != nil {
		return finding{HealthDegraded, trimmed{g.cause}.String(), g.causeSince, true}
	}
	if v.refresh.state != "" {
		return v.refresh
	}
	if len(v.denied) > 0 {
		return finding{state: HealthDegraded, reason: fmt.Sprintf("not authorized to read topic %q", v.denied[0])}
	}
	f, n := v.worst(HealthFailed)
	if n > 0 {
		f.state, f.since, f.exact = HealthDegraded, time.Time{}, false
		return f
	}
	f, _ = v.worst(HealthDegraded)
	return f
}

func (v *vitals) findRebalancing() finding {
	if v.idle {
		return finding{state: HealthStarting, reason: "nothing is subscribed to or assigned"}
	}
	f := finding{state: HealthRebalancing}
	if !v.begun {
		f.state = HealthStarting
	}
	if g := v.group; g != nil && g.subscribed {
		f.since = g.since
		f.reason = rebalancingReasons[g.state]
		if g.state == group.Stable && g.wantsPoll {
			f.since, f.reason = time.Time{}, "the group rebalances; the next Poll takes part"
		}
		if f.reason == "" {
			return finding{}
		}
		return f
	}
	if !v.begun {
		return finding{state: HealthStarting, reason: v.missingOr("the next Poll takes over the partitions")}
	}
	return finding{}
}

// rebalancingReasons says what a member does in the states in which it does not just read.
var rebalancingReasons = map[group.State]string{
	group.Unjoined:  "not a member of the group; the next Poll joins",
	group.Revoking:  "partitions are being revoked; the next Poll goes on with that",
	group.Joining:   "joining the group",
	group.Syncing:   "waiting for the assignment",
	group.Releasing: "partitions are being revoked; the next Poll goes on with that",
	group.Assigning: "the next Poll takes over the assignment",
	group.Leaving:   "leaving the group",
}

func (v *vitals) findWaiting() finding {
	if f, n := v.worst(HealthWaiting); n > 0 {
		return f
	}
	if len(v.missing) > 0 {
		return finding{state: HealthWaiting, reason: v.missingOr("")}
	}
	return finding{}
}

func (v *vitals) missingOr(reason string) string {
	if len(v.missing) == 0 {
		return reason
	}
	return fmt.Sprintf("topic %q does not exist", v.missing[0])
}

// worst sums up the partitions in a state: how many there are, and since when one is.
func (v *vitals) worst(state HealthState) (sum finding, n int) {
	var first *partitionVitals // by topic and number
	for i := range v.partitions {
		p := &v.partitions[i]
		if p.state != state {
			continue
		}
		if n++; n == 1 {
			first, sum = p, finding{state: state, since: p.since, exact: p.exact}
			continue
		}
		if fetch.ComparePartitions(p.tp, first.tp) < 0 {
			first = p
		}
		if p.exact && p.since.Before(sum.since) {
			sum.since = p.since
		}
	}
	if n == 0 {
		return sum, 0
	}
	sum.reason = fmt.Sprintf("%d of %d partitions: %v", n, len(v.partitions), first.tp)
	if first.reason != "" {
		sum.reason += ": " + first.reason
	}
	return sum, n
}

// partitionFinding makes a finding of what the fetcher says.
func partitionFinding(s *fetch.Standing, cfg *Config, now time.Time) finding {
	because := func(what string) string { return standingReason(what, s.TP, s.Err, cfg) }
	switch s.Kind {
	case fetch.StandingFault:
		return finding{state: HealthFailed, reason: because("")}
	case fetch.StandingStalled:
		return finding{HealthStalled, because(s.Reason), s.Since, true}
	case fetch.StandingLocating:
		return finding{state: HealthWaiting, reason: because("its position is being looked up")}
	case fetch.StandingLate:
		if s.Err == nil {
			return finding{state: HealthWaiting, reason: "no leader of it is known"}
		}
		if now.Sub(s.Since) >= cfg.RequestTimeout {
			return finding{HealthDegraded, because("it cannot be fetched"), s.Since, true}
		}
		return finding{state: HealthWaiting, reason: because("it cannot be fetched")}
	case fetch.StandingHeld:
		return finding{state: HealthWaiting, reason: "it is being revoked or taken over"}
	case fetch.StandingPaused:
		return finding{state: HealthOK, reason: "it is paused"}
	default:
		return finding{state: HealthOK}
	}
}

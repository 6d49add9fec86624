package fetch

import (
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A Lookup is a position to be found: a committed offset, or an offset by time.
type Lookup struct {
	TP        protocol.TopicPartition
	Timestamp int64 // for resets
	Epoch     int32 // for validations: of the last batch read
	Leader    int32 // the epoch of the leader to ask, for validations
	p         *Partition
	voided    uint64
}

// A start is where this consumer began to read a partition that had no committed
// offset.
type start struct {
	topicID [16]byte
	offset  int64
}

// WantCommitted returns the partitions whose committed offset is to be looked up,
// and marks them as being looked up.
func (t *Table) WantCommitted(now time.Time) (lookups []Lookup, retry time.Time) {
	return t.wantLookups(func(p *Partition) bool { return p.stage == needsCommitted }, now)
}

// WantResets returns the partitions whose position is to be found by time.
func (t *Table) WantResets(now time.Time) (lookups []Lookup, retry time.Time) {
	return t.wantLookups(func(p *Partition) bool { return p.stage == needsReset }, now)
}

// WantValidations returns the partitions whose leader is to be asked where the epoch
// of the last record read ends in its log.
func (t *Table) WantValidations(now time.Time) (lookups []Lookup, retry time.Time) {
	return t.wantLookups(func(p *Partition) bool { return p.stage == ready && p.doubtful && !p.undecoded() }, now)
}

func (t *Table) wantLookups(wants func(*Partition) bool, now time.Time) (lookups []Lookup, retry time.Time) {
	for tp, p := range t.parts {
		if p.lookingUp || !wants(p) {
			continue
		}
		if now.Before(p.retryAt) {
			if retry.IsZero() || p.retryAt.Before(retry) {
				retry = p.retryAt
			}
			continue
		}
		p.lookingUp = true
		lookups = append(lookups, Lookup{TP: tp, Timestamp: p.resetTo, Epoch: p.fetchEpoch, Leader: p.leaderEpoch, p: p, voided: p.voided})
	}
	return lookups, retry
}

// current returns the partition of a look-up that is not void: one that was lost and
// assigned again since begins anew.
func (t *Table) current(l Lookup) *Partition {
	if t.parts[l.TP] != l.p || l.p.voided != l.voided {
		return nil
	}
	return l.p
}

// A FailedLookup is a look-up that is to be tried again later.
type FailedLookup struct {
	Lookup
	Err error
}

// LookupsFailed ends look-ups that are to be tried again later.
func (t *Table) LookupsFailed(failed []FailedLookup, now time.Time) {
	failures := 0
	for _, l := range failed {
		if p := t.current(l.Lookup); p != nil {
			failures = max(failures, p.failures)
		}
	}
	until := now.Add(t.limits.Backoff(failures)) // the same for all: one request asks for them
	for _, l := range failed {
		p := t.current(l.Lookup)
		if p == nil {
			continue
		}
		p.lookingUp = false
		t.unlocated = true
		t.retryAt(p, l.Err, until, now)
		t.tellFailing(p, now)
	}
}

// tellFailing reports that p's position cannot be found for long, one partition for
// all, as they mostly wait for the same.
func (t *Table) tellFailing(p *Partition, now time.Time) {
	if now.Sub(p.failingSince) >= t.limits.TellAfter && now.Sub(t.toldFailing) >= t.limits.TellAfter {
		t.toldFailing = now
		t.report(Report{TP: p.tp, Kind: ReportRetrying, Err: p.lastErr, Since: p.failingSince})
	}
}

// LookupRefused ends a look-up that trying again will not help soon: the
// application is told.
func (t *Table) LookupRefused(l Lookup, err error, now time.Time) {
	if p := t.current(l); p != nil {
		p.lookingUp = false
		t.unlocated = true
		t.retryLater(p, err, now)
		t.report(Report{TP: p.tp, Kind: ReportError, Err: err})
	}
}

// CommittedFound sets the position to a committed offset.
func (t *Table) CommittedFound(l Lookup, offset int64, epoch int32) {
	if p := t.current(l); p != nil {
		p.lookingUp = false
		t.setPosition(p, offset, epoch)
		p.unchecked = epoch >= 0
		p.committed = offset
	}
}

// CommittedNone finds another position for a partition that has no committed
// offset: where this consumer first began in it; the beginning, if the partition
// appeared while subscribed; else by the policy.
func (t *Table) CommittedNone(l Lookup, appeared bool) {
	p := t.current(l)
	if p == nil {
		return
	}
	p.lookingUp = false
	if s, ok := t.starts[p.tp]; ok && s.topicID == p.topicID {
		t.setPosition(p, s.offset, -1)
		return
	}
	if appeared {
		t.BeginAppeared(p)
		return
	}
	t.startReset(p, t.limits.Policy(), "no committed offset")
}

// BeginAppeared has p, which came to be since the consumer subscribed, start at its
// beginning.
func (t *Table) BeginAppeared(p *Partition) {
	t.startReset(p, TimeEarliest, "partition appeared while subscribed")
	p.appeared = true
}

// ResetFound sets the position to an offset found by time. A negative offset means
// that nothing is that young.
func (t *Table) ResetFound(l Lookup, offset int64, epoch int32) {
	p := t.current(l)
	if p == nil {
		return
	}
	p.lookingUp = false
	if offset < 0 { // nothing that young: start behind everything there is
		p.resetTo = TimeLatest
		t.unlocated = true
		return
	}
	if p.appeared && offset > 0 {
		// Older records were there and are gone: it may be older than the subscription.
		p.appeared = false
		t.startReset(p, t.limits.Policy(), "no committed offset")
		return
	}
	p.appeared = false
	why := p.resetWhy
	t.setPosition(p, offset, epoch)
	if why == "" {
		return
	}
	if _, ok := t.starts[p.tp]; !ok || t.starts[p.tp].topicID != p.topicID {
		t.starts[p.tp] = start{topicID: p.topicID, offset: offset}
	}
	t.report(Report{TP: p.tp, Kind: ReportReset, From: p.resetFrom, To: offset, Reason: why})
}

// Validated takes over where the epoch of the last record read ends in the leader's
// log. Fetching goes on if that is behind the position.
func (t *Table) Validated(l Lookup, end protocol.EpochEndOffset, now time.Time) {
	p := t.current(l)
	if p == nil {
		return
	}
	p.lookingUp = false
	if !p.doubtful || p.leaderEpoch != l.Leader { // yet another leader is to be asked
		t.unlocated = true
		return
	}
	if end.Epoch < 0 && p.outdated() {
		t.unlocated = true
		t.retryRefreshed(p, &AnswerError{Broker: p.leader, Code: protocol.UnknownLeaderEpoch}, now)
		return
	}
	p.doubtful = false
	p.failures, p.lastErr = 0, nil
	if end.EndOffset < p.fetchOffset || end.Epoch < l.Epoch {
		t.truncated(p, end)
	}
	t.touch(p)
}

// ForgetStarts forgets where partitions were first started, at the end of a
// subscription.
func (t *Table) ForgetStarts() { clear(t.starts) }

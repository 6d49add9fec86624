//go:build unix

package soak

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A ledger takes down which member consumed what and when, and what was
// produced, and finds what must not be. Its methods may be called from any
// goroutine.
type ledger struct {
	limit time.Duration // that a partition may stand still for

	mu         sync.Mutex
	partitions []account
	endings    map[string]time.Time             // members that were killed
	losses     map[string]map[int32][]time.Time // when the group took partitions from members
	kills      []time.Time                      // in order; see vanish, too

	owners     map[int32]string // who said last that it has a partition
	faults     []string
	foreign    []string // likewise, of other clients
	repeats    []repeat
	duplicates int           // each excused by a kill or a loss
	received   int           // repeats of what was received last from a channel
	standstill time.Duration // the longest that a partition stood, from the last kill if there was one meanwhile
	outage     time.Duration // the longest that a partition stood
	consumed   map[string]int
}

// An account is of one partition; offsets are indexes.
type account struct {
	produced  []time.Time // when the producer had its answer
	delivered []delivery  // the last one; the zero value: not yet
	progress  time.Time   // when a record was consumed for the first time
	missing   int         // produced, not consumed
}

type delivery struct {
	member string
	at     time.Time
}

// A repeat is a record that was consumed again, though who consumed it before
// was not killed nor, in the end, thrown out.
type repeat struct {
	partition     int32
	offset        int64
	first, second delivery
}

func newLedger(partitions int, limit time.Duration) *ledger {
	return &ledger{
		limit:      limit,
		partitions: make([]account, partitions), endings: map[string]time.Time{},
		losses: map[string]map[int32][]time.Time{}, owners: map[int32]string{}, consumed: map[string]int{},
	}
}

// produce takes down that a partition has n more records.
func (l *ledger) produce(partition int32, n int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.partitions[partition]
	for range n {
		offset := len(a.produced)
		a.produced = append(a.produced, at)
		if a.at(offset).member == "" {
			a.missing++
		}
	}
}

func (a *account) at(offset int) *delivery {
	if grow := offset + 1 - len(a.delivered); grow > 0 {
		a.delivered = append(a.delivered, make([]delivery, grow)...)
	}
	return &a.delivered[offset]
}

// deliver takes down that a member consumed a record.
func (l *ledger) deliver(member string, partition int32, offset int64, value string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if partition < 0 || int(partition) >= len(l.partitions) || value != valueOf(partition, offset) {
		l.fault("%s got %q at offset %d of partition %d", member, value, offset, partition)
		return
	}
	l.consumed[member]++
	a := &l.partitions[partition]
	was, is := a.at(int(offset)), delivery{member, at}
	switch {
	case was.member == "":
		l.advance(partition, int(offset), at)
	case is.at.Before(was.at): // what this member said is read later than what the other one did
		l.again(repeat{partition, offset, is, *was})
		return
	default:
		l.again(repeat{partition, offset, *was, is})
	}
	*was = is
	l.owners[partition] = member
}

// valueOf is the value of the record at an offset.
func valueOf(partition int32, offset int64) string { return fmt.Sprintf("%d/%d", partition, offset) }

// advance takes down the first delivery of a record, and how long the
// partition had stood still.
func (l *ledger) advance(partition int32, offset int, at time.Time) {
	a := &l.partitions[partition]
	if offset < len(a.produced) { // else it came before the producer's answer
		a.missing--
		since := a.produced[offset]
		if a.progress.After(since) {
			since = a.progress
		}
		l.outage = max(l.outage, at.Sub(since))
		l.stood(partition, l.sinceKill(since, at), at)
	}
	a.progress = at
}

// sinceKill returns when a member was killed last in a time, or its beginning.
func (l *ledger) sinceKill(since, at time.Time) time.Time {
	for _, kill := range slices.Backward(l.kills) {
		if kill.After(since) && kill.Before(at) {
			return kill
		}
	}
	return since
}

// stood takes down that a partition stood still.
func (l *ledger) stood(partition int32, since, at time.Time) {
	if at.Sub(since) > l.limit {
		what := fmt.Sprintf("partition %d stood still from %s to %s, of %s",
			partition, since.Format(timeFormat), at.Format(timeFormat), l.owners[partition])
		if !isOurs(l.owners[partition]) {
			l.foreign = append(l.foreign, what)
			return
		}
		l.fault("%s", what)
	}
	l.standstill = max(l.standstill, at.Sub(since))
}

// silent takes down that a member consumed nothing for too long.
func (l *ledger) silent(member string, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what := fmt.Sprintf("%s consumed nothing for %v", member, d.Round(time.Second))
	if !isOurs(member) {
		l.foreign = append(l.foreign, what)
		return
	}
	l.fault("%s", what)
}

// own takes down which partitions a member says that it has.
func (l *ledger) own(member string, partitions []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range partitions {
		l.owners[p] = member
	}
}

func isOurs(member string) bool { return strings.HasPrefix(member, ours) }

// again takes down a record that was consumed before.
func (l *ledger) again(r repeat) {
	if killed, ok := l.endings[r.first.member]; ok && killed.Before(r.second.at) {
		l.duplicates++
		return
	}
	l.repeats = append(l.repeats, r)
}

// excuseLosses takes out the repeats of what the group had taken from a member. That is
// for the end: a member hears of it by its next heartbeat, and the next owner may be
// quicker, but not by more than a session.
func (l *ledger) excuseLosses() {
	l.repeats = slices.DeleteFunc(l.repeats, func(r repeat) bool {
		excused := slices.ContainsFunc(l.losses[r.first.member][r.partition], func(lost time.Time) bool {
			return lost.After(r.first.at) && lost.Before(r.second.at.Add(sessionTimeout))
		})
		if excused {
			l.duplicates++
		}
		return excused
	})
}

// kill takes down that a member is about to be killed.
func (l *ledger) kill(member string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endings[member] = at
	l.kills = append(l.kills, at)
}

// vanish takes down that a member goes of which the group may wait for its session,
// as it does for one that is killed.
func (l *ledger) vanish(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kills = append(l.kills, at)
}

// lose takes down that the group took partitions from a member.
func (l *ledger) lose(member string, partitions []int32, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.losses[member] == nil {
		l.losses[member] = map[int32][]time.Time{}
	}
	for _, p := range partitions {
		l.losses[member][p] = append(l.losses[member][p], at)
	}
}

// fail takes down what must not be.
func (l *ledger) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault(format, args...)
}

func (l *ledger) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// missing tells how many records nobody consumed yet.
func (l *ledger) missing() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for i := range l.partitions {
		n += l.partitions[i].missing
	}
	return n
}

// of tells how many records a member consumed.
func (l *ledger) of(member string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.consumed[member]
}

package group

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// world is what surrounds a machine in random runs: it remembers what the machine
// waits for.
type world struct {
	t      *testing.T
	m      *Classic
	rng    *rand.Rand
	trace  []string
	joins  map[int]SendJoin
	open   map[int]Action // requests without answer, joins included
	timers [Timers]bool
	step   *Step
	taken  bool
	sent   int // requests since the last timer or event of the application
	left   int
}

func newWorld(t *testing.T, seed uint64, static bool) *world {
	cfg := scriptConfig()
	if static {
		cfg.InstanceID = "i"
	}
	return &world{
		t: t, m: NewClassic(cfg), rng: rand.New(rand.NewPCG(seed, 1)),
		joins: map[int]SendJoin{}, open: map[int]Action{},
	}
}

func (w *world) do(ev Event) {
	w.trace = append(w.trace, fmt.Sprintf("%T%+v", ev, ev))
	switch ev := ev.(type) {
	case TimerDue:
		w.timers[ev.Timer] = false
		w.sent = 0
	case Polled, StepDone, Subscribed, RejoinAsked, CoordinatorNeeded, Leave:
		w.sent = 0
	}
	for _, a := range w.m.Step(ev) {
		w.perform(a)
	}
	w.check()
}

func (w *world) perform(a Action) {
	w.trace = append(w.trace, "    "+formatAction(a))
	member, generation := w.m.Member()
	switch a := a.(type) {
	case FindCoordinator:
		w.request(a.Seq, a)
	case SendJoin:
		w.joins[a.Seq] = a
		w.request(a.Seq, a)
	case RunAssignor:
		w.request(a.Seq, a)
	case SendSync:
		w.require(a.MemberID == member && a.Generation == generation, "SyncGroup of a stale generation")
		w.request(a.Seq, a)
	case SendHeartbeat:
		w.require(a.MemberID == member && a.Generation == generation, "heartbeat of a stale generation")
		w.request(a.Seq, a)
	case SendLeave:
		w.request(a.Seq, a)
	case Cancel:
		delete(w.open, a.Seq)
		delete(w.joins, a.Seq)
	case Arm:
		w.require(a.After > 0, "a timer without time")
		w.timers[a.Timer] = true
	case Disarm:
		w.timers[a.Timer] = false
	case Hand:
		w.require(w.step == nil || !w.taken || a.Step == nil && w.m.state >= Unjoined, "a step in place of one that is being done")
		w.step, w.taken = a.Step, false
	case Left:
		w.left++
	}
}

func (w *world) request(seq int, a Action) {
	w.open[seq] = a
	w.sent++
	w.require(w.sent < 12, "a loop without a timer")
	w.require(len(w.joins) <= 1, "two joins on their way")
}

func (w *world) check() {
	for _, a := range w.open {
		if _, ok := a.(SendJoin); ok {
			w.require(w.m.State() == Joining, "a join on its way in state %s", w.m.State())
		}
	}
	_, generation := w.m.Member()
	if w.m.State() == Unjoined || w.m.State() == Failed {
		w.require(generation == -1, "a generation while no member")
	}
	if w.m.isMember() {
		w.require(w.timers[HeartbeatTimer] && w.timers[SessionTimer], "a member whose timers do not run")
		w.require(generation >= 0, "a member without generation")
	}
	if w.m.lookup.state == waiting {
		w.require(w.timers[LookupTimer], "a look-up that waits for nothing")
	}
	if w.m.State() == Joining {
		w.require(w.m.request != 0 || w.timers[RetryTimer] || w.m.lookup.state == asking || w.m.lookup.state == waiting, "a join that waits for nothing")
	}
}

func (w *world) require(ok bool, format string, args ...any) {
	if !ok {
		for _, line := range w.trace[max(0, len(w.trace)-60):] {
			w.t.Log(line)
		}
		require.Fail(w.t, fmt.Sprintf(format, args...))
	}
}

var randomErrors = []error{
	errors.New("connection"), protocol.NotCoordinator, protocol.CoordinatorNotAvailable,
	protocol.CoordinatorLoadInProgress, protocol.RebalanceInProgress, protocol.UnknownMemberID,
	protocol.IllegalGeneration, protocol.GroupAuthorizationFailed, protocol.GroupMaxSizeReached,
	protocol.MemberIDRequired, protocol.UnknownServerError, protocol.ErrorCode(999), &BlobError{},
}

var randomTerminal = []error{
	protocol.FencedInstanceID, protocol.InconsistentGroupProtocol, protocol.InvalidSessionTimeout,
	&protocol.UnsupportedVersionError{},
}

func (w *world) randomError() error {
	switch n := w.rng.IntN(200); {
	case n < 140:
		return nil
	case n == 140:
		return randomTerminal[w.rng.IntN(len(randomTerminal))]
	}
	return randomErrors[w.rng.IntN(len(randomErrors))]
}

// answer answers a request, well or badly.
func (w *world) answer(seq int, a Action, err error) {
	delete(w.open, seq)
	delete(w.joins, seq)
	w.do(w.answerEvent(seq, a, err))
}

func (w *world) answerEvent(seq int, a Action, err error) Event {
	switch a := a.(type) {
	case FindCoordinator:
		if err != nil {
			return CoordinatorFailed{Seq: seq, Err: err}
		}
		return CoordinatorFound{Seq: seq, Node: int32(w.rng.IntN(3))}
	case SendJoin:
		return JoinAnswered{
			Seq: seq, Err: err, MemberID: fmt.Sprintf("m%d", w.rng.IntN(4)), Generation: int32(seq),
			Protocol: "range", Leader: w.rng.IntN(2) == 0,
		}
	case RunAssignor:
		return AssignmentMade{Seq: seq, Err: err}
	case SendSync:
		var tps []TopicPartition
		for i := range w.rng.IntN(3) {
			tps = append(tps, TopicPartition{Topic: "a", Partition: int32(i)})
		}
		return SyncAnswered{Seq: seq, Err: err, Assignment: tps}
	case SendHeartbeat:
		return HeartbeatAnswered{Seq: seq, Err: err}
	default:
		_ = a
		return LeaveAnswered{Seq: seq, Err: err}
	}
}

func (w *world) someRequest() (int, Action, bool) {
	seqs := make([]int, 0, len(w.open))
	for seq := range w.open {
		seqs = append(seqs, seq)
	}
	if len(seqs) == 0 {
		return 0, nil, false
	}
	// Maps come in any order; the seed must decide.
	low := seqs[0]
	for _, s := range seqs {
		if s < low {
			low = s
		}
	}
	if w.rng.IntN(2) == 0 {
		return low, w.open[low], true
	}
	high := low
	for _, s := range seqs {
		if s > high {
			high = s
		}
	}
	return high, w.open[high], true
}

func (w *world) random() {
	switch n := w.rng.IntN(100); {
	case n < 40:
		if seq, a, ok := w.someRequest(); ok {
			w.answer(seq, a, w.randomError())
		}
	case n < 55:
		w.do(Polled{})
	case n < 70:
		w.workSteps()
	case n < 82:
		if timer := Timer(w.rng.IntN(int(Timers))); w.timers[timer] {
			w.do(TimerDue{Timer: timer})
		}
	case n < 86:
		w.stale()
	case n < 88:
		w.do(Subscribed{Topics: [][]string{{"a"}, {"a", "b"}}[w.rng.IntN(2)]})
	case n < 90:
		w.do(RejoinAsked{})
	case n < 92:
		w.do(PollIntervalExceeded{})
	case n < 94:
		id, generation := w.m.Member()
		w.do(CommitRefused{MemberID: id, Generation: generation, Err: w.randomCommitError()})
	case n < 96:
		w.do(CoordinatorLost{Node: int32(w.rng.IntN(3)), Err: protocol.NotCoordinator})
	case n < 98:
		w.do(CoordinatorNeeded{})
	case n == 98:
		w.step, w.taken = nil, false
		w.do(Leave{})
	default:
		w.do(CoordinatorWorks{})
	}
}

func (w *world) randomCommitError() error {
	return []error{protocol.UnknownMemberID, protocol.IllegalGeneration, protocol.RebalanceInProgress}[w.rng.IntN(3)]
}

func (w *world) workSteps() {
	switch {
	case w.step == nil:
	case !w.taken:
		w.taken = true
		w.do(StepTaken{ID: w.step.ID})
	default:
		done := w.step.ID
		w.step, w.taken = nil, false
		w.do(StepDone{ID: done})
	}
}

// stale gives the machine an answer that nobody waits for, which must change
// nothing.
func (w *world) stale() {
	seq := 100000 + w.rng.IntN(100)
	events := []Event{
		w.answerEvent(seq, SendJoin{}, w.randomError()), w.answerEvent(seq, SendSync{}, w.randomError()),
		w.answerEvent(seq, SendHeartbeat{}, w.randomError()), w.answerEvent(seq, SendLeave{}, nil),
		w.answerEvent(seq, RunAssignor{}, w.randomError()), w.answerEvent(seq, FindCoordinator{}, w.randomError()),
		CommitRefused{MemberID: "m1", Generation: 77777, Err: protocol.UnknownMemberID}, StepDone{ID: seq}, StepTaken{ID: seq},
	}
	ev := events[w.rng.IntN(len(events))]
	before := *w.m
	actions := w.m.Step(ev)
	after := *w.m
	before.out, after.out = nil, nil
	w.require(len(actions) == 0 && reflect.DeepEqual(before, after), "a stale %T changed something", ev)
}

// recover gives the machine a world without faults and requires that it becomes
// stable.
func (w *world) recover() {
	if w.m.State() == Failed {
		w.step, w.taken = nil, false
		w.do(Leave{})
	}
	w.do(Subscribed{Topics: []string{"a"}})
	for range 200 {
		if w.m.State() == Stable && w.m.rejoin == "" && w.step == nil {
			return
		}
		w.workSteps()
		if seq, a, ok := w.someRequest(); ok {
			w.answer(seq, a, nil)
			continue
		}
		w.do(Polled{})
		for timer := range Timers {
			if w.timers[timer] && timer != SessionTimer {
				w.do(TimerDue{Timer: timer})
			}
		}
	}
	w.require(false, "state %s has no way out", w.m.State())
}

// TestRandomEvents runs machines through random events and checks what must always
// hold.
func TestRandomEvents(t *testing.T) {
	runs := uint64(1000)
	if testing.Short() {
		runs = 300
	}
	stable := 0
	for seed := range runs {
		w := newWorld(t, seed, seed%5 == 0)
		w.do(Subscribed{Topics: []string{"a"}})
		for range 150 {
			w.random()
			if w.m.State() == Stable {
				stable++
			}
		}
		w.recover()
	}
	require.Greater(t, stable, int(runs), "the runs must reach the stable state often enough to test it")
}

// TestInstantFailures lets every request fail at once, always in the same way, and
// requires that the machine waits for a timer.
func TestInstantFailures(t *testing.T) {
	for _, err := range append(randomErrors, randomTerminal...) {
		for _, good := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v, coordinator found: %v", err, good), func(t *testing.T) {
				w := newWorld(t, 1, false)
				w.do(Subscribed{Topics: []string{"a"}})
				w.do(Polled{})
				for range 100 {
					seq, a, ok := w.someRequest()
					if !ok {
						break
					}
					if _, find := a.(FindCoordinator); find && good {
						w.answer(seq, a, nil)
						continue
					}
					w.answer(seq, a, err)
				}
				require.Empty(t, w.open, "requests go on and on")
			})
		}
	}
}

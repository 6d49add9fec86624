package group

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// A model runs several members against a model of the coordinator. Requests and
// answers take any time, get lost, and the coordinator moves to another node, which
// knows only what a SyncGroup made last. After each event no partition may be owned by
// two members whom the coordinator knows.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	trace   []string
	members []*modelMember
	flying  []flying // requests and answers under way
	handed  int      // how often a partition went from one member to another

	node       int32
	generation int32
	state      string // "", "preparing", "completing", "stable"
	leader     string
	group      []*registered
	saved      savedGroup
	ids        int
	last       map[TopicPartition]int // who owned a partition last
}

// registered is a member as the coordinator knows it.
type registered struct {
	id         string
	admitted   bool // else it has an id only
	metadata   []byte
	joining    func(JoinAnswered)
	syncing    func(SyncAnswered)
	assignment []TopicPartition
}

type savedGroup struct {
	generation int32
	leader     string
	group      []registered
}

// flying is a request on its way to the coordinator, or an answer on its way back.
type flying struct {
	member *modelMember
	seq    int
	arrive func()
	fail   Event
}

type modelMember struct {
	index  int
	m      *Classic
	node   int32
	known  bool
	timers [Timers]bool
	step   *Step
	taken  bool
}

func newModel(t *testing.T, seed uint64, cooperative func(i int) bool) *model {
	w := &model{t: t, rng: rand.New(rand.NewPCG(seed, 2)), node: 1, last: map[TopicPartition]int{}, saved: savedGroup{generation: 0}}
	for i := range 3 {
		cfg := scriptConfig()
		cfg.Cooperative = cooperative(i)
		m := &modelMember{index: i, m: NewClassic(cfg)}
		w.members = append(w.members, m)
		w.do(m, Subscribed{Topics: []string{"a"}})
	}
	return w
}

const modelPartitions = 5

func (w *model) require(ok bool, format string, args ...any) {
	if !ok {
		for _, line := range w.trace[max(0, len(w.trace)-150):] {
			w.t.Log(line)
		}
		require.FailNow(w.t, fmt.Sprintf(format, args...))
	}
}

func (w *model) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *model) do(m *modelMember, ev Event) {
	w.note("%d %T%+v", m.index, ev, ev)
	if due, ok := ev.(TimerDue); ok {
		m.timers[due.Timer] = false
	}
	for _, a := range m.m.Step(ev) {
		w.note("        %s", formatAction(a))
		w.perform(m, a)
	}
	w.check()
}

func (w *model) perform(m *modelMember, a Action) {
	switch a := a.(type) {
	case FindCoordinator:
		node := w.node
		w.send(m, a.Seq, CoordinatorFailed{Seq: a.Seq, Err: protocol.CoordinatorNotAvailable}, func() {
			w.answer(m, a.Seq, CoordinatorFound{Seq: a.Seq, Node: node}, CoordinatorFailed{Seq: a.Seq, Err: errLost})
		})
	case CoordinatorChanged:
		m.node, m.known = a.Node, a.Known
	case SendJoin:
		w.sendTo(m, a.Seq, func(err error) Event { return JoinAnswered{Seq: a.Seq, Err: err} }, func() { w.join(m, a) })
	case RunAssignor:
		w.send(m, a.Seq, nil, func() { w.do(m, AssignmentMade{Seq: a.Seq, Assignments: assignInModel(a.Members)}) })
	case SendSync:
		w.sendTo(m, a.Seq, func(err error) Event { return SyncAnswered{Seq: a.Seq, Err: err} }, func() { w.sync(m, a) })
	case SendHeartbeat:
		w.sendTo(m, a.Seq, func(err error) Event { return HeartbeatAnswered{Seq: a.Seq, Err: err} }, func() {
			w.answer(m, a.Seq, HeartbeatAnswered{Seq: a.Seq, Err: w.heartbeat(a)}, HeartbeatAnswered{Seq: a.Seq, Err: errLost})
		})
	case SendLeave:
		w.sendTo(m, a.Seq, func(err error) Event { return LeaveAnswered{Seq: a.Seq, Err: err} }, func() { w.remove(a.MemberID) })
	case Cancel:
		w.flying = slices.DeleteFunc(w.flying, func(f flying) bool { return f.member == m && f.seq == a.Seq })
	case Hand:
		m.step, m.taken = a.Step, false
	case Arm:
		m.timers[a.Timer] = true
	case Disarm:
		m.timers[a.Timer] = false
	}
}

var errLost = errors.New("connection")

func (w *model) send(m *modelMember, seq int, fail Event, arrive func()) {
	w.flying = append(w.flying, flying{m, seq, arrive, fail})
}

// sendTo sends to the node that the member takes for the coordinator.
func (w *model) sendTo(m *modelMember, seq int, failed func(error) Event, arrive func()) {
	node := m.node
	w.send(m, seq, failed(errLost), func() {
		if node != w.node {
			w.answer(m, seq, failed(protocol.NotCoordinator), failed(errLost))
			return
		}
		arrive()
	})
}

func (w *model) answer(m *modelMember, seq int, ev, lost Event) {
	w.send(m, seq, lost, func() { w.do(m, ev) })
}

func (w *model) find(id string) *registered {
	i := slices.IndexFunc(w.group, func(r *registered) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	return w.group[i]
}

func (w *model) join(m *modelMember, a SendJoin) {
	lost := JoinAnswered{Seq: a.Seq, Err: errLost}
	reply := func(j JoinAnswered) { j.Seq = a.Seq; w.answer(m, a.Seq, j, lost) }
	r := w.find(a.MemberID)
	switch {
	case a.MemberID == "":
		w.ids++
		r = &registered{id: fmt.Sprint("m", w.ids)}
		w.group = append(w.group, r)
		reply(JoinAnswered{Err: protocol.MemberIDRequired, MemberID: r.id})
		return
	case r == nil:
		reply(JoinAnswered{Err: protocol.UnknownMemberID})
		return
	}
	s := Subscription{Topics: a.Topics, Owned: a.Owned, Generation: a.Generation}
	r.admitted, r.metadata, r.joining = true, s.AppendTo(nil), reply
	w.prepare()
}

func (w *model) prepare() {
	if w.state != "preparing" {
		w.state = "preparing"
		for _, r := range w.group {
			r.answerSync(SyncAnswered{Err: protocol.RebalanceInProgress})
		}
	}
	w.complete(false)
}

func (r *registered) answerSync(a SyncAnswered) {
	if r.syncing != nil {
		r.syncing(a)
		r.syncing = nil
	}
}

// complete ends the joining when all have joined, or else when the time is up.
func (w *model) complete(timeUp bool) {
	if w.state != "preparing" {
		return
	}
	if timeUp {
		w.group = slices.DeleteFunc(w.group, func(r *registered) bool { return r.joining == nil })
	} else if slices.ContainsFunc(w.group, func(r *registered) bool { return r.joining == nil }) {
		return
	}
	if len(w.group) == 0 {
		w.state = ""
		return
	}
	w.generation++
	w.state = "completing"
	w.leader = w.group[w.rng.IntN(len(w.group))].id
	for _, r := range w.group {
		j := JoinAnswered{MemberID: r.id, Generation: w.generation, Protocol: "range", Leader: r.id == w.leader}
		if j.Leader {
			for _, other := range w.group {
				j.Members = append(j.Members, JoinedMember{ID: other.id, Metadata: other.metadata})
			}
		}
		r.joining(j)
		r.joining, r.assignment = nil, nil
	}
}

func (w *model) refusal(id string, generation int32) error {
	r := w.find(id)
	switch {
	case r == nil || !r.admitted:
		return protocol.UnknownMemberID
	case generation != w.generation:
		return protocol.IllegalGeneration
	case w.state == "preparing":
		return protocol.RebalanceInProgress
	}
	return nil
}

func (w *model) sync(m *modelMember, a SendSync) {
	lost := SyncAnswered{Seq: a.Seq, Err: errLost}
	reply := func(s SyncAnswered) { s.Seq = a.Seq; w.answer(m, a.Seq, s, lost) }
	if err := w.refusal(a.MemberID, a.Generation); err != nil {
		reply(SyncAnswered{Err: err})
		return
	}
	r := w.find(a.MemberID)
	if w.state == "completing" && r.id == w.leader {
		for _, ma := range a.Assignments {
			if to := w.find(ma.ID); to != nil {
				got, err := DecodeAssignment(ma.Data)
				w.require(err == nil, "%v", err)
				to.assignment = got.Partitions
			}
		}
		w.state = "stable"
		w.saved = savedGroup{generation: w.generation, leader: w.leader}
		for _, other := range w.group {
			w.saved.group = append(w.saved.group, registered{id: other.id, admitted: true, metadata: other.metadata, assignment: other.assignment})
		}
		for _, other := range w.group {
			other.answerSync(SyncAnswered{Assignment: other.assignment})
		}
	}
	if w.state == "stable" {
		reply(SyncAnswered{Assignment: r.assignment})
		return
	}
	r.syncing = reply
}

func (w *model) heartbeat(a SendHeartbeat) error { return w.refusal(a.MemberID, a.Generation) }

func (w *model) remove(id string) {
	r := w.find(id)
	if r == nil {
		return
	}
	if r.joining != nil {
		r.joining(JoinAnswered{Err: protocol.UnknownMemberID})
	}
	r.answerSync(SyncAnswered{Err: protocol.UnknownMemberID})
	w.group = slices.DeleteFunc(w.group, func(other *registered) bool { return other == r })
	w.prepare()
}

// move makes another node the coordinator, which loads what was saved.
func (w *model) move() {
	w.note("the coordinator moves")
	for _, r := range w.group {
		if r.joining != nil {
			r.joining(JoinAnswered{Err: protocol.NotCoordinator})
		}
		r.answerSync(SyncAnswered{Err: protocol.NotCoordinator})
	}
	w.node = 3 - w.node
	w.generation, w.leader, w.state, w.group = w.saved.generation, w.saved.leader, "", nil
	for _, r := range w.saved.group {
		w.group = append(w.group, &r)
		w.state = "stable"
	}
}

// assignInModel shares the partitions out evenly and leaves with its owner what it
// can; what moves goes to nobody.
func assignInModel(members []JoinedMember) []MemberAssignment {
	owner, newest := map[TopicPartition]string{}, map[TopicPartition]int32{}
	for _, m := range members {
		s, _ := DecodeSubscription(m.Metadata)
		for _, tp := range s.Owned {
			if g, taken := newest[tp]; !taken || s.Generation > g {
				owner[tp], newest[tp] = m.ID, s.Generation
			} else if s.Generation == g {
				owner[tp] = ""
			}
		}
	}
	quota := (modelPartitions + len(members) - 1) / len(members)
	given := map[string][]TopicPartition{}
	var free []TopicPartition
	for i := range int32(modelPartitions) {
		tp := TopicPartition{Topic: "a", Partition: i}
		id, claimed := owner[tp]
		switch {
		case !claimed:
			free = append(free, tp)
		case id != "" && len(given[id]) < quota:
			given[id] = append(given[id], tp)
		}
	}
	for _, tp := range free {
		for _, m := range members {
			if len(given[m.ID]) < quota {
				given[m.ID] = append(given[m.ID], tp)
				break
			}
		}
	}
	var out []MemberAssignment
	for _, m := range members {
		a := Assignment{Partitions: given[m.ID]}
		sortInModel(a.Partitions)
		out = append(out, MemberAssignment{ID: m.ID, Data: a.AppendTo(nil)})
	}
	return out
}

func sortInModel(tps []TopicPartition) {
	slices.SortFunc(tps, func(a, b TopicPartition) int { return int(a.Partition - b.Partition) })
}

func (w *model) check() {
	owners := map[TopicPartition]int{}
	for _, m := range w.members {
		id, _ := m.m.Member()
		if r := w.find(id); r == nil || !r.admitted {
			continue // the coordinator has thrown it out, and it has yet to hear of that
		}
		for _, tp := range m.m.Owned() {
			other, taken := owners[tp]
			w.require(!taken, "%s is owned by %d and %d", tp, other, m.index)
			owners[tp] = m.index
			if before, had := w.last[tp]; had && before != m.index {
				w.handed++
			}
			w.last[tp] = m.index
		}
	}
}

func (w *model) random(faults bool) {
	m := w.members[w.rng.IntN(len(w.members))]
	switch n := w.rng.IntN(100); {
	case n < 55:
		w.deliver(faults)
	case n < 65:
		w.do(m, Polled{})
	case n < 80:
		w.workStep(m)
	case n < 90:
		if timer := Timer(w.rng.IntN(int(Timers))); m.timers[timer] && timer != SessionTimer {
			w.do(m, TimerDue{Timer: timer})
		}
	case !faults:
	case n < 92:
		w.do(m, RejoinAsked{})
	case n == 92:
		w.do(m, PollIntervalExceeded{})
	case n == 93:
		w.move()
	case n == 94:
		w.complete(true)
	case n == 95:
		if len(w.group) > 0 {
			w.remove(w.group[w.rng.IntN(len(w.group))].id)
		}
	}
	w.check()
}

func (w *model) deliver(faults bool) {
	if len(w.flying) == 0 {
		return
	}
	i := w.rng.IntN(len(w.flying))
	f := w.flying[i]
	w.flying = slices.Delete(w.flying, i, i+1)
	if faults && f.fail != nil && w.rng.IntN(20) == 0 {
		w.do(f.member, f.fail)
		return
	}
	f.arrive()
}

func (w *model) workStep(m *modelMember) {
	switch {
	case m.step == nil:
	case !m.taken:
		m.taken = true
		w.do(m, StepTaken{ID: m.step.ID})
	default:
		id := m.step.ID
		m.step, m.taken = nil, false
		w.do(m, StepDone{ID: id})
	}
}

// settled tells whether every partition is owned and no round is due.
func (w *model) settled() bool {
	owned := 0
	for _, m := range w.members {
		if m.m.State() != Stable || m.m.WantsPoll() {
			return false
		}
		owned += len(m.m.Owned())
	}
	return owned == modelPartitions && w.state == "stable"
}

// TestGroupsOfSeveralMembers also runs eager and cooperative members together, as in a
// migration; the assignor of the model is right for both.
func TestGroupsOfSeveralMembers(t *testing.T) {
	runs := uint64(300)
	if testing.Short() {
		runs = 100
	}
	handed := 0
	for seed := range runs {
		kinds := []func(int) bool{
			func(int) bool { return true }, func(int) bool { return false }, func(i int) bool { return i > 0 },
		}
		w := newModel(t, seed, kinds[seed%3])
		for range 600 {
			w.random(true)
		}
		settled := false
		for i := 0; i < 6000 && !settled; i++ {
			w.random(false)
			w.expireGhosts(i)
			settled = w.settled()
		}
		w.require(settled, "the group does not come to rest")
		handed += w.handed
	}
	require.Greater(t, handed, int(runs), "partitions must move often enough to test it")
}

// expireGhosts ends the sessions of members that nobody is any more.
func (w *model) expireGhosts(i int) {
	if i%200 != 199 {
		return
	}
	for _, r := range slices.Clone(w.group) {
		if !slices.ContainsFunc(w.members, func(m *modelMember) bool { id, _ := m.m.Member(); return id == r.id }) {
			w.remove(r.id)
			return
		}
	}
}

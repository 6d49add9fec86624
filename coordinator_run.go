package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/protocol"
)

// loopState is what only run touches.
type loopState struct {
	machine  *group.Classic
	requests map[int]context.CancelFunc // by Seq
	leavers  []chan error
	topics   bool // subscribed

	due   [group.Timers]time.Time // zero: not armed
	timer *time.Timer

	metadata *cluster.Metadata     // the last one that shapes were compared with
	shapes   map[string]topicShape // of topics, when this member made the assignment

	rebalanceBegan time.Time // with its first JoinGroup; zero: none is under way

	takings uint64 // how many partitions were taken over so far

	asks   uint64    // the application's askings for records, when last looked at
	asked  time.Time // when they were seen to grow
	probed bool      // a Poll that waits was woken since
}

func newLoopState(m *group.Classic) loopState {
	return loopState{machine: m, requests: map[int]context.CancelFunc{}}
}

// run owns co.loop. start starts it, the end of co.ctx stops it, close awaits it.
func (co *coordinator) run() {
	l := &co.loop
	l.timer = time.NewTimer(time.Hour)
	defer l.timer.Stop()
	l.asked = time.Now()
	// Beside the first look at metadata: a member that is about to join need not wait.
	co.take(group.CoordinatorNeeded{})
	for {
		changed := co.cl.Changed()
		co.compareTopics()
		l.timer.Reset(co.nextTimer())
		select {
		case m := <-co.messages:
			co.receive(m)
		case <-l.timer.C:
			co.timersDue(time.Now())
		case <-changed:
		case <-co.ctx.Done():
			return
		}
	}
}

func (co *coordinator) receive(m message) {
	if m.before != nil {
		m.before()
	}
	delete(co.loop.requests, m.seq)
	if m.holds == nil || m.holds() {
		co.take(m.event)
	}
	if m.done != nil {
		close(m.done)
	}
}

// take gives an event to the machine, publishes where the member stands then, and
// does what the machine says.
func (co *coordinator) take(ev group.Event) {
	l := &co.loop
	switch ev := ev.(type) {
	case group.Subscribed:
		l.topics = true
	case group.Leave:
		l.topics, l.rebalanceBegan = false, time.Time{}
	case group.CoordinatorFailed:
		co.lookup.failed(co.groupError("", ev.Err), refusesGroup(ev.Err))
	case group.TimerDue:
		if ev.Timer == group.LookupTimer {
			co.lookup.retry()
		}
	}
	before := l.machine.State()
	actions := l.machine.Step(ev)
	if taken, ok := ev.(group.StepTaken); ok {
		co.markTaken(taken.ID)
	}
	co.publish()
	co.measureRebalance(ev, before)
	if state := l.machine.State(); state != before {
		now := co.now.Load()
		co.log.Debug("kafka: group member changed its state", "from", before, "to", state,
			"member", now.memberID, "generation", now.generation)
	}
	if l.shapes != nil && !l.machine.Leader() {
		l.shapes = nil
		co.watch(nil)
	}
	for _, a := range actions {
		co.perform(a)
	}
	if _, ok := ev.(group.Subscribed); ok {
		co.warm()
	}
}

// warm opens the connections for a member that is about to join.
func (co *coordinator) warm() {
	if now := co.lookup.get(); now.known && co.now.Load().subscribed {
		co.cl.Warm(now.node, conn.Group, conn.Control)
	}
}

func (co *coordinator) markTaken(id int) {
	if st := co.step.Load(); st != nil && st.id == id {
		st.taken.Store(true)
	}
}

func (co *coordinator) publish() {
	m, old := co.loop.machine, co.now.Load()
	now := membership{state: m.State(), since: old.since, owned: old.owned, ownedList: m.Owned(), subscribed: co.loop.topics}
	if now.state != old.state || now.subscribed != old.subscribed {
		now.since = time.Now()
	}
	if m.Awaited() {
		if now.awaited = old.awaited; now.awaited.IsZero() {
			now.awaited = time.Now()
		}
	}
	now.memberID, now.generation = m.Member()
	if !sameSlice(now.ownedList, old.ownedList) {
		now.owned = make(map[TopicPartition]uint64, len(now.ownedList))
		for _, tp := range now.ownedList {
			taking, had := old.owned[tp]
			if !had {
				co.loop.takings++
				taking = co.loop.takings
			}
			now.owned[tp] = taking
		}
	}
	co.now.Store(&now)
	co.wantsPoll.Store(m.WantsPoll())
	if doubted := m.CoordinatorDoubted(); co.doubted.Swap(doubted) && !doubted {
		co.trouble.over()
	}
}

func sameSlice(a, b []TopicPartition) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (co *coordinator) perform(a group.Action) {
	l := &co.loop
	switch a := a.(type) {
	case group.FindCoordinator, group.SendJoin, group.RunAssignor, group.SendSync, group.SendHeartbeat, group.SendLeave:
		co.performRequest(a)
	case group.Cancel:
		if cancel := l.requests[a.Seq]; cancel != nil {
			cancel()
		}
	case group.Reconnect:
		co.cl.Reset(a.Node, conn.Group)
	case group.CoordinatorChanged:
		co.lookup.set(a.Node, a.Known)
		co.warm()
	case group.Hand:
		co.hand(a.Step)
	case group.StopRecords:
		co.hooks.lost(a.Partitions)
	case group.Wake:
		co.hooks.wake()
	case group.Arm:
		if a.Vary {
			a.After = vary(a.After)
		}
		l.due[a.Timer] = time.Now().Add(a.After)
	case group.Disarm:
		l.due[a.Timer] = time.Time{}
	case group.Left:
		for _, left := range l.leavers {
			left <- a.Err
		}
		l.leavers = nil
	default:
		co.performReport(a)
	}
}

func (co *coordinator) performReport(a group.Action) {
	switch a := a.(type) {
	case group.Fail:
		co.failed(a.Err, a.Terminal)
	case group.Recovered:
		co.recovered()
	case group.Retrying:
		co.retrying(a.Operation, a.Err)
	case group.Fenced:
		co.log.Warn("kafka: the group went on without this member", "member", a.MemberID, "error", a.Err)
		co.hooks.event(EventMemberFenced{GroupID: co.cfg.GroupID, MemberID: a.MemberID, Err: a.Err})
	case group.Expired:
		co.expired(time.Since(co.loop.asked))
	}
}

func (co *coordinator) hand(st *group.Step) {
	if st == nil {
		co.step.Store(nil)
		return
	}
	co.step.Store(&rebalanceStep{id: st.ID, kind: st.Kind, partitions: st.Partitions, assignment: st.Assignment})
	co.hooks.wake()
}

// nextTimer is how long until a timer or the next look at the application is due.
func (co *coordinator) nextTimer() time.Duration {
	next := time.Now().Add(co.askPeriod())
	for _, at := range co.loop.due {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return time.Until(next)
}

func (co *coordinator) timersDue(now time.Time) {
	for i, at := range co.loop.due {
		if !at.IsZero() && !now.Before(at) {
			co.loop.due[i] = time.Time{}
			co.take(group.TimerDue{Timer: group.Timer(i)})
		}
	}
	co.watchApplication(now)
}

// askPeriod is how often to look whether the application still asks for records:
// often enough for MaxPollInterval to be kept to a second, and seldom when there is
// nothing to lose.
func (co *coordinator) askPeriod() time.Duration {
	switch co.loop.machine.State() {
	case group.Unjoined, group.Failed, group.Leaving:
		return time.Hour
	}
	return max(min(co.cfg.MaxPollInterval/16, time.Second), 5*time.Millisecond)
}

// watchApplication finds out whether the application is stuck (KIP-62).
func (co *coordinator) watchApplication(now time.Time) {
	l := &co.loop
	asks := co.hooks.asks() + co.polls.Load()
	if asks != l.asks || l.machine.State() == group.Unjoined {
		l.asks, l.asked, l.probed = asks, now, false
		return
	}
	idle := now.Sub(l.asked)
	switch {
	case idle >= co.cfg.MaxPollInterval:
		co.take(group.PollIntervalExceeded{})
	case idle >= co.cfg.MaxPollInterval*3/4 && !l.probed:
		l.probed = true
		co.hooks.wake()
	}
}

// compareTopics asks for a new round when the leader sees other partitions than it
// assigned, or other racks.
func (co *coordinator) compareTopics() {
	l := &co.loop
	metadata := co.cl.Metadata()
	if metadata == l.metadata || l.shapes == nil {
		return
	}
	l.metadata = metadata
	for topic, had := range l.shapes {
		t := metadata.Topic(topic)
		if t == nil || isDoubtful(t) {
			continue
		}
		has := co.shapeOf(t, metadata)
		if what := had.differs(has); what != "" {
			l.shapes[topic] = has
			co.take(group.RejoinAsked{Reason: fmt.Sprintf("the %s of %s changed", what, topic)})
			return
		}
	}
}

// isDoubtful: one broker alone says that the topic does not exist, which may be an
// outdated view.
func isDoubtful(t *cluster.Topic) bool {
	_, answers, _ := t.UnknownSince()
	return t.Err == protocol.UnknownTopicOrPartition && answers < 2
}

func (co *coordinator) watch(topics []string) {
	if co.hooks.watch != nil {
		co.hooks.watch(topics)
	}
}

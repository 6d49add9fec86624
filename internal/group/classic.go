package group

import (
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// The states of a member and what leads from one to the next:
//
//	           Polled                    (nothing owned)
//	Unjoined ──────────────────────────────────────────┐
//	   ▲                                               ▼
//	   │ fenced, expired,       JoinGroup answered   Joining ◄──────────┐
//	   │ refused; Lost is   ┌────────────────────────┘  ▲ ▲             │
//	   │ handed over        ▼                           │ └─┐           │
//	   ├──────────────── Syncing ───────────────────────┘   │           │
//	   │                    │  SyncGroup: rebalance again   │           │
//	   │                    ▼  SyncGroup answered           │           │
//	   ├─────────────── Releasing                           │           │
//	   │                    │  nothing left to give up      │           │
//	   │                    ▼                               │           │
//	   ├─────────────── Assigning ──────────────────────────┘           │
//	   │                    │   eager: Polled, subscription changed     │
//	   │                    ▼  Assign done                              │
//	   ├──────────────── Stable                                         │
//	   │                    │  Polled while a rejoin is due             │
//	   │                    ▼                                           │
//	   └─────────────── Revoking ───────────────────────────────────────┘
//	                           Revoke done, or nothing to revoke
//
//	any ── Leave ──► Leaving ──► Unjoined        any ── terminal error ──► Failed
//
// An eager member gives up everything in Revoking, so Releasing has nothing to do.
// A cooperative one (KIP-429) gives up in Revoking only topics that it does not
// subscribe to any more, keeps the others while it joins, gives up in Releasing what
// the assignment takes away, and joins again as soon as it is stable.
//
// The look-up of the coordinator goes on beside these states (lookup.go), and so
// do heartbeats, from the answer to JoinGroup until the next JoinGroup
// (heartbeat.go), and the steps of the application (handover.go).

// A State is where a member stands.
type State int8

// The states.
const (
	// Unjoined: no member, or not known as one any more. The next Polled joins.
	Unjoined State = iota
	// Revoking: the application gives up its partitions before the next JoinGroup.
	Revoking
	// Joining: JoinGroup is on its way, or waits for the coordinator or a timer.
	Joining
	// Syncing: the assignor runs, or SyncGroup is on its way.
	Syncing
	// Releasing: the application gives up what its new assignment takes away.
	Releasing
	// Assigning: the application has yet to take over its partitions.
	Assigning
	// Stable: all is well until the next rebalance.
	Stable
	// Leaving: LeaveGroup is on its way.
	Leaving
	// Failed: an error that no new try can heal. Only a changed subscription or
	// Leave lead out.
	Failed
)

// String returns the state's name.
func (s State) String() string {
	return [...]string{"unjoined", "revoking", "joining", "syncing", "releasing", "assigning", "stable", "leaving", "failed"}[s]
}

// A Config is what a machine must know of its consumer.
type Config struct {
	// InstanceID makes it a static member (KIP-345): it does not leave.
	InstanceID string
	// Cooperative keeps partitions over rebalances (KIP-429).
	Cooperative       bool
	Protocols         []string // the assignors' names
	HeartbeatInterval time.Duration
	SessionTimeout    time.Duration
	RetryBackoff      time.Duration
	RetryBackoffMax   time.Duration
}

// Classic is the machine of the classic group protocol, with eager or cooperative
// rebalances. It must be used by one goroutine at a time.
type Classic struct {
	cfg   Config
	state State
	out   []Action
	seq   int // of the last action that has one, and of the last step

	topics     []string
	subscribed bool
	rejoin     string // why a new round is due, "" when none is
	awaited    bool   // the coordinator told of a round that this member has yet to join
	reason     string // what the last JoinGroup gave as its reason

	member     string
	generation int32 // -1: none
	protocol   string
	leader     bool

	request     int   // the Seq of JoinGroup, assignor, SyncGroup or LeaveGroup on its way; 0: none
	requestNode int32 // where it went
	failures    int   // of joining in a row
	backoff     bool  // RetryTimer is armed
	told        bool  // of a Fail or Retrying about joining
	leaveReason string

	lookup    lookup
	beating   bool // the heartbeat and session timers are armed
	early     bool // heartbeats come more often than usual
	heartbeat int  // the Seq of the heartbeat on its way; 0: none
	synced    int  // the Seq of the last SyncGroup that was answered
	crowd     crowd
	handover  handover
	claim     claim
	claimed   []TopicPartition // by the last JoinGroup
	target    []TopicPartition // what the assignment gives, in state Releasing
}

// NewClassic returns a machine in state Unjoined.
func NewClassic(cfg Config) *Classic {
	return &Classic{cfg: cfg, generation: -1, claim: noClaim}
}

// State returns where the member stands.
func (m *Classic) State() State { return m.state }

// Member returns the member id, "" when there is none, and the generation, -1 when
// this member is in none.
func (m *Classic) Member() (id string, generation int32) { return m.member, m.generation }

// Owned returns the partitions that the application owns, or began to take over,
// and has not ended giving up; those that are lost are not among them. It must not
// be changed.
func (m *Classic) Owned() []TopicPartition { return m.handover.kept() }

// CoordinatorDoubted reports whether CoordinatorWorks would be news.
func (m *Classic) CoordinatorDoubted() bool { return m.lookup.failures > 0 }

// Awaited reports whether the coordinator has begun a round and waits for this member to
// join it.
func (m *Classic) Awaited() bool { return m.awaited }

// Leader reports whether this member makes the assignments of its generation.
func (m *Classic) Leader() bool { return m.leader && m.generation >= 0 }

// WantsPoll reports whether a Polled would change anything.
func (m *Classic) WantsPoll() bool {
	switch m.state {
	case Unjoined:
		return m.mayJoin()
	case Stable:
		return m.rejoin != ""
	case Assigning:
		return m.mayRejoinEarly()
	default:
		return false
	}
}

// Step takes an event in and returns what is to be done.
func (m *Classic) Step(ev Event) []Action {
	m.out = nil
	switch {
	case m.stepLookup(ev), m.stepHeartbeat(ev), m.stepHandover(ev), m.stepAlways(ev):
	case m.state == Unjoined:
		m.stepUnjoined(ev)
	case m.state == Joining:
		m.stepJoining(ev)
	case m.state == Syncing:
		m.stepSyncing(ev)
	case m.state == Assigning:
		m.stepAssigning(ev)
	case m.state == Stable, m.state == Revoking, m.state == Releasing:
		m.stepMember(ev)
	case m.state == Leaving:
		m.stepLeaving(ev)
	}
	return m.out
}

func (m *Classic) do(a Action) { m.out = append(m.out, a) }

func (m *Classic) nextSeq() int {
	m.seq++
	return m.seq
}

// stepAlways takes what is the same in every state.
func (m *Classic) stepAlways(ev Event) bool {
	switch ev := ev.(type) {
	case Subscribed:
		m.subscribe(ev)
	case RejoinAsked:
		m.wantRejoin(ev.Reason)
	case CommitRefused:
		if ev.Generation == m.generation && ev.MemberID == m.member && m.isMember() {
			m.memberRefused(ev.Err)
		}
	case Leave:
		m.leave(ev.Reason)
	default:
		return false
	}
	return true
}

func (m *Classic) subscribe(ev Subscribed) {
	topics := slices.Compact(slices.Sorted(slices.Values(ev.Topics)))
	if m.subscribed && slices.Equal(m.topics, topics) {
		return
	}
	m.topics, m.subscribed = topics, true
	if m.state == Failed {
		m.recovered()
		m.state = Unjoined
	}
	m.wantRejoin(ev.Reason)
	m.lookup.needed = m.lookup.state != found
	m.needCoordinator() // so that the poll need not wait for it
}

// wantRejoin makes a new round due. It begins with a poll, so that partitions do
// not go away while the application works on their records.
func (m *Classic) wantRejoin(reason string) {
	if reason == "" {
		reason = "rebalance asked for"
	}
	m.rejoin = reason
	if m.WantsPoll() {
		m.do(Wake{})
	}
}

func (m *Classic) stepUnjoined(ev Event) {
	switch ev := ev.(type) {
	case Polled:
		if m.mayJoin() {
			m.becomeJoining()
		}
	case TimerDue:
		if ev.Timer == RetryTimer {
			m.backoff = false
			m.do(Wake{})
		}
	}
}

func (m *Classic) mayJoin() bool {
	return m.subscribed && !m.handover.busy() && !m.backoff
}

func (m *Classic) stepJoining(ev Event) {
	switch ev := ev.(type) {
	case JoinAnswered:
		if ev.Seq == m.request {
			m.request = 0
			m.joinAnswered(ev)
		}
	case TimerDue:
		if ev.Timer == RetryTimer {
			m.backoff = false
			m.tryJoin()
		}
	case PollIntervalExceeded:
		switch {
		case len(m.handover.kept()) > 0:
			m.expire()
		case m.request == 0:
			m.forget(true)
			m.becomeUnjoined()
		}
		// Otherwise a JoinGroup on its way is waited for: given up, it would leave a
		// member behind whose id nobody knows.
	}
}

func (m *Classic) stepSyncing(ev Event) {
	switch ev := ev.(type) {
	case AssignmentMade:
		if ev.Seq != m.request {
			return
		}
		m.request = 0
		if ev.Err != nil {
			m.refuse(ev.Err)
			return
		}
		m.sendSync(ev.Assignments)
	case SyncAnswered:
		if ev.Seq == m.request {
			m.request = 0
			m.syncAnswered(ev)
		}
	case PollIntervalExceeded:
		m.expire()
	}
}

func (m *Classic) stepAssigning(ev Event) {
	switch ev.(type) {
	case Polled:
		if m.mayRejoinEarly() {
			m.withdraw()
			m.becomeJoining()
		}
	case PollIntervalExceeded:
		m.expire()
	}
}

// mayRejoinEarly: what the application has not taken over yet and would give up at
// once, it need not see.
func (m *Classic) mayRejoinEarly() bool {
	return m.rejoin != "" && !m.handover.taken && !m.cfg.Cooperative
}

func (m *Classic) stepMember(ev Event) {
	switch ev.(type) {
	case Polled:
		if m.state == Stable && m.rejoin != "" {
			m.becomeRevoking()
		}
	case PollIntervalExceeded:
		m.expire()
	}
}

func (m *Classic) stepLeaving(ev Event) {
	if ev, ok := ev.(LeaveAnswered); ok && ev.Seq == m.request {
		m.request = 0
		if code, _ := codeOf(ev.Err); code == protocol.UnknownMemberID {
			ev.Err = nil // gone already
		}
		m.becomeLeft(ev.Err)
	}
}

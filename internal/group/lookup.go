package group

import (
	"github.com/kafkaconsumer/kafka/protocol"
)

// lookup is what is known of the group's coordinator:
//
//	unknown ── needed ──► asking ── answered ──► found
//	   ▲                    │ failed              │ lost
//	   └──── LookupTimer ── waiting ◄─────────────┘ (the first loss: asking at once)
type lookup struct {
	state    lookupState
	node     int32
	request  int  // the Seq of FindCoordinator
	needed   bool // by someone outside the machine
	told     bool // of a failure
	silent   bool // a coordinator did not answer while it held a JoinGroup or SyncGroup
	named    bool // somebody was ever found
	failures int  // of any kind, since a coordinator last answered as such
	failed   int  // look-ups that failed, since somebody was found
	refused  int  // coordinators that were found and were none
}

// works: the coordinator answered as such.
func (l *lookup) works() { l.failures, l.failed, l.refused = 0, 0, 0 }

// eagerLookups is how many times in a row a coordinator that nobody has named yet is
// looked up without a longer wait each time.
const eagerLookups = 10

type lookupState int8

const (
	unknown lookupState = iota
	asking
	waiting
	found
)

func (m *Classic) stepLookup(ev Event) bool {
	switch ev := ev.(type) {
	case CoordinatorNeeded:
		m.lookup.needed = true
		m.needCoordinator()
	case CoordinatorFound:
		if m.lookup.state == asking && ev.Seq == m.lookup.request {
			m.coordinatorFound(ev.Node)
		}
	case CoordinatorFailed:
		if m.lookup.state == asking && ev.Seq == m.lookup.request {
			m.lookupFailed(ev.Err)
		}
	case CoordinatorLost:
		if m.lookup.state == found && ev.Node == m.lookup.node {
			m.coordinatorLost(ev.Err)
		}
	case CoordinatorWorks:
		m.lookup.works()
	case TimerDue:
		if ev.Timer != LookupTimer {
			return false
		}
		if m.lookup.state == waiting {
			m.lookup.state = unknown
			m.lookupIfWanted()
		}
	default:
		return false
	}
	return true
}

// needCoordinator reports whether the coordinator is known and else looks it up.
func (m *Classic) needCoordinator() bool {
	if m.lookup.state == unknown {
		m.lookup.state, m.lookup.request = asking, m.nextSeq()
		m.do(FindCoordinator{Seq: m.lookup.request})
	}
	return m.lookup.state == found
}

func (m *Classic) lookupIfWanted() {
	if m.lookup.needed || m.isMember() || m.state == Joining || m.state == Leaving {
		m.needCoordinator()
	}
}

func (m *Classic) coordinatorFound(node int32) {
	m.lookup.state, m.lookup.node, m.lookup.needed, m.lookup.named = found, node, false, true
	m.do(CoordinatorChanged{Node: node, Known: true})
	if m.lookup.told {
		m.lookup.told = false
		m.do(Recovered{})
	}
	m.lookup.failed = 0
	m.claim.moveTo(node)
	if (m.state == Joining || m.state == Syncing) && m.request != 0 && (m.requestNode != node || m.lookup.silent) {
		// The round goes on at the new coordinator only, which has not heard of it, or
		// on a new connection to one that was silent.
		m.abandonRequest()
		m.becomeJoiningAgain()
	}
	m.lookup.silent = false
	switch {
	case m.state == Joining:
		m.tryJoin()
	case m.state == Leaving:
		m.tryLeave()
	case m.isMember():
		m.sendHeartbeat() // at once: part of the session's time is gone
	}
}

func (m *Classic) lookupFailed(err error) {
	m.lookup.needed, m.lookup.told = false, true
	m.lookup.failures++
	m.lookup.failed++
	code, answered := codeOf(err)
	refused := answered && (code == protocol.GroupAuthorizationFailed || isTerminal(code))
	wait := m.backoffAfter(m.lookup.failed)
	if code == protocol.CoordinatorNotAvailable && !m.lookup.named {
		// The first group of a cluster waits for the offsets topic to be made, which is
		// a matter of moments.
		wait = m.backoffAfter(m.lookup.failed - eagerLookups)
	}
	if refused {
		wait = max(wait, m.cfg.RetryBackoffMax)
	}
	m.lookup.state = waiting
	m.do(Arm{Timer: LookupTimer, After: wait, Vary: true})
	switch {
	case m.state == Leaving:
		m.becomeLeft(err) // the session's end does the rest
	case isFinal(err), refused && isTerminal(code):
		m.becomeFailed(err)
	case refused:
		m.refuse(err)
	default:
		m.do(Retrying{Operation: "FindCoordinator", Err: err})
	}
}

// coordinatorLost looks the coordinator up again: at once when it has worked since
// the last time, else after a wait, so that a node which is named but refuses does
// not make a loop.
func (m *Classic) coordinatorLost(err error) {
	if m.lookup.state != found {
		return
	}
	m.do(CoordinatorChanged{})
	m.heartbeat = 0
	m.lookup.failures++
	m.lookup.refused++
	if m.lookup.failures == 1 {
		m.lookup.state = unknown
		m.lookupIfWanted()
		return
	}
	m.lookup.state, m.lookup.told = waiting, true
	m.do(Retrying{Operation: "FindCoordinator", Err: err})
	m.do(Arm{Timer: LookupTimer, After: m.backoffAfter(m.lookup.refused - 1), Vary: true})
}

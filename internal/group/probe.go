package group

import "time"

// A coordinator may hold a JoinGroup for as long as the rebalance timeout, so silence
// there says nothing. It is asked now and then, by a heartbeat on another connection,
// whether it still lives and is the coordinator.

// answerTimeout is how long a coordinator may be silent.
func (m *Classic) answerTimeout() time.Duration { return max(m.cfg.SessionTimeout/3, time.Millisecond) }

func (m *Classic) probe() {
	if m.state != Joining || m.request == 0 {
		return
	}
	m.do(Arm{Timer: ProbeTimer, After: m.answerTimeout()})
	if m.heartbeat != 0 || m.lookup.state != found {
		return
	}
	m.heartbeat = m.nextSeq()
	m.do(SendHeartbeat{Seq: m.heartbeat, MemberID: m.member, Generation: m.generation})
}

// probeAnswered: what the answer says of the membership, JoinGroup will say too.
func (m *Classic) probeAnswered(err error) {
	code, answered := codeOf(err)
	switch {
	case err == nil:
	case !answered:
		m.silent()
		m.coordinatorLost(err)
	case isNotCoordinator(code):
		m.coordinatorLost(err)
	}
}

// silent: what a coordinator that does not answer holds, it may never answer. That is
// given up once somebody is known to ask again; not before a member id is known, as a
// second JoinGroup without one would make a second member.
func (m *Classic) silent() {
	m.lookup.silent = m.member != ""
}

func (m *Classic) stopProbe() {
	if m.state != Joining {
		return
	}
	m.do(Disarm{Timer: ProbeTimer})
	if m.heartbeat != 0 {
		m.do(Cancel{Seq: m.heartbeat})
		m.heartbeat = 0
	}
}

// abandonRequest is cancelRequest for a request that blocks its connection.
func (m *Classic) abandonRequest() {
	node := m.requestNode
	m.cancelRequest()
	m.do(Reconnect{Node: node})
}

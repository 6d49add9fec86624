package group

import "github.com/kafkaconsumer/kafka/protocol"

// isMember reports whether this is a member whose session heartbeats keep.
func (m *Classic) isMember() bool {
	switch m.state {
	case Syncing, Releasing, Assigning, Stable, Revoking:
		return true
	default:
		return false
	}
}

func (m *Classic) stepHeartbeat(ev Event) bool {
	switch ev := ev.(type) {
	case TimerDue:
		switch {
		case ev.Timer == ProbeTimer:
			m.probe()
		case ev.Timer == EarlyTimer:
			m.early = false
		case ev.Timer != HeartbeatTimer && ev.Timer != SessionTimer:
			return false
		case !m.isMember():
		case ev.Timer == HeartbeatTimer:
			m.sendHeartbeat()
		default:
			m.sessionOver()
		}
	case HeartbeatAnswered:
		if ev.Seq == m.heartbeat && m.heartbeat != 0 {
			m.heartbeat = 0
			if ev.Throttled {
				m.stopEarly()
			}
			if m.state == Joining {
				m.probeAnswered(ev.Err)
			} else {
				m.heartbeatAnswered(ev)
			}
		}
	default:
		return false
	}
	return true
}

func (m *Classic) startHeartbeats() {
	m.beating = true
	m.do(Arm{Timer: SessionTimer, After: m.cfg.SessionTimeout})
	m.beatEarly()
	if !m.early {
		m.armHeartbeat()
	}
}

func (m *Classic) stopHeartbeats() {
	m.stopEarly()
	if m.beating {
		m.beating = false
		m.do(Disarm{Timer: HeartbeatTimer})
		m.do(Disarm{Timer: SessionTimer})
	}
	if m.heartbeat != 0 {
		m.do(Cancel{Seq: m.heartbeat})
		m.heartbeat = 0
	}
}

func (m *Classic) armHeartbeat() {
	if m.early {
		m.do(Arm{Timer: HeartbeatTimer, After: min(earlyInterval, m.cfg.HeartbeatInterval), Vary: true})
		return
	}
	m.do(Arm{Timer: HeartbeatTimer, After: m.cfg.HeartbeatInterval})
}

func (m *Classic) sendHeartbeat() {
	m.armHeartbeat()
	if m.heartbeat != 0 || !m.needCoordinator() {
		return
	}
	m.heartbeat = m.nextSeq()
	m.do(SendHeartbeat{Seq: m.heartbeat, MemberID: m.member, Generation: m.generation})
}

// sessionOver: the coordinator was silent for so long that it may have thrown this
// member out, or be gone. Only it can tell, so the member id is kept.
func (m *Classic) sessionOver() {
	if m.heartbeat != 0 {
		m.do(Cancel{Seq: m.heartbeat})
		m.heartbeat = 0
	}
	m.do(Arm{Timer: SessionTimer, After: m.cfg.SessionTimeout})
	m.coordinatorLost(errSilent)
}

func (m *Classic) heartbeatAnswered(ev HeartbeatAnswered) {
	err := ev.Err
	code, answered := codeOf(err)
	switch {
	case err == nil, code == protocol.RebalanceInProgress:
		m.lookup.works()
		m.recovered()
		m.do(Arm{Timer: SessionTimer, After: m.cfg.SessionTimeout})
		if err != nil && ev.Seq > m.synced {
			m.memberRefused(err)
		}
	case !answered:
		m.silent()
		m.coordinatorLost(err)
	case isNotCoordinator(code):
		m.coordinatorLost(err)
	case isAboutMember(code):
		m.memberRefused(err)
	default:
		// Such as COORDINATOR_LOAD_IN_PROGRESS. The next heartbeat asks again, and
		// the session timer bounds it.
		m.told = true
		m.do(Retrying{Operation: "Heartbeat", Err: err})
	}
}

// isAboutMember reports codes that say that this member is none, or must act.
func isAboutMember(code protocol.ErrorCode) bool {
	switch code {
	case protocol.UnknownMemberID, protocol.IllegalGeneration, protocol.FencedInstanceID,
		protocol.GroupAuthorizationFailed:
		return true
	}
	return false
}

// memberRefused decides what an answer means that tells about the membership, to a
// heartbeat or a commit of the current generation.
func (m *Classic) memberRefused(err error) {
	code, _ := codeOf(err)
	switch code {
	case protocol.RebalanceInProgress:
		// Until its SyncGroup is answered it takes part in that rebalance already.
		m.awaited = m.state != Syncing
		if m.state != Syncing && m.state != Revoking && m.rejoin == "" {
			m.wantRejoin("the group rebalances")
		}
	case protocol.UnknownMemberID, protocol.IllegalGeneration:
		m.fenced(err, code)
	case protocol.FencedInstanceID:
		m.becomeFailed(err)
	default:
		m.refuse(err)
	}
}

// fenced: the group goes on without this member, or without its generation. What it
// owned may have other owners.
func (m *Classic) fenced(err error, code protocol.ErrorCode) {
	m.do(Fenced{MemberID: m.member, Err: err})
	m.rejoin = "the coordinator answered " + code.Name()
	m.forget(code == protocol.IllegalGeneration)
	m.lose()
	m.becomeUnjoined()
}

type silentError struct{}

func (silentError) Error() string { return "no heartbeat was answered within the session timeout" }

var errSilent error = silentError{}

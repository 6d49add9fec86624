package group

import "time"

// An Action is something that the caller does for the machine, at once and in the
// order given. Requests are answered by an event with the same Seq.
type Action interface{ action() }

type (
	// FindCoordinator asks any broker who the group's coordinator is.
	FindCoordinator struct{ Seq int }
	// CoordinatorChanged: requests go to this node from now on; without Known,
	// nobody is known to be the coordinator.
	CoordinatorChanged struct {
		Node  int32
		Known bool
	}
	// SendJoin sends a JoinGroup. Owned and Generation go into the subscription.
	SendJoin struct {
		Seq        int
		MemberID   string
		Topics     []string
		Owned      []TopicPartition
		Generation int32
		Reason     string
	}
	// RunAssignor makes the assignments of all members, as this member is the
	// leader. With WatchOnly they are made already (KIP-814): the leader only looks
	// at what its group subscribes to.
	RunAssignor struct {
		Seq        int
		Generation int32
		Protocol   string
		Members    []JoinedMember
		WatchOnly  bool
	}
	// SendSync sends a SyncGroup.
	SendSync struct {
		Seq         int
		MemberID    string
		Generation  int32
		Protocol    string
		Assignments []MemberAssignment
	}
	// SendHeartbeat sends a Heartbeat. It must be answered, with an error if need be,
	// within a third of the session timeout.
	SendHeartbeat struct {
		Seq        int
		MemberID   string
		Generation int32
	}
	// SendLeave sends a LeaveGroup.
	SendLeave struct {
		Seq      int
		MemberID string
		Reason   string
	}
	// Cancel: the answer of that request is not waited for any more.
	Cancel struct{ Seq int }
	// Reconnect gives up the connection on which that node holds a JoinGroup or
	// SyncGroup that is not waited for any more: it answers nothing else on it.
	Reconnect struct{ Node int32 }

	// Hand gives a step to the application, in place of one that it did not take;
	// nil takes such a step back.
	Hand struct{ Step *Step }
	// StopRecords: the application must not get records of these partitions any
	// more, from this moment on.
	StopRecords struct{ Partitions []TopicPartition }
	// Wake: a poll of the application's would lead on.
	Wake struct{}

	// Arm starts a timer, or starts it anew. With Vary the time varies by 20 %.
	Arm struct {
		Timer Timer
		After time.Duration
		Vary  bool
	}
	// Disarm stops a timer.
	Disarm struct{ Timer Timer }

	// Fail: the application must learn of the error. A terminal one stays until the
	// subscription changes; others are tried again.
	Fail struct {
		Err      error
		Terminal bool
	}
	// Recovered: what Fail or Retrying told of is over.
	Recovered struct{}
	// Retrying: an operation failed and will be tried again.
	Retrying struct {
		Operation string
		Err       error
	}
	// Fenced: the group went on without this member.
	Fenced struct {
		MemberID string
		Err      error
	}
	// Expired: this member left since the application did not poll.
	Expired struct{}
	// Left ends a Leave.
	Left struct{ Err error }
)

func (FindCoordinator) action()    {}
func (CoordinatorChanged) action() {}
func (SendJoin) action()           {}
func (RunAssignor) action()        {}
func (SendSync) action()           {}
func (SendHeartbeat) action()      {}
func (SendLeave) action()          {}
func (Cancel) action()             {}
func (Reconnect) action()          {}
func (Hand) action()               {}
func (StopRecords) action()        {}
func (Wake) action()               {}
func (Arm) action()                {}
func (Disarm) action()             {}
func (Fail) action()               {}
func (Recovered) action()          {}
func (Retrying) action()           {}
func (Fenced) action()             {}
func (Expired) action()            {}
func (Left) action()               {}

// A Timer is one of the timers that a machine arms.
type Timer int8

// The timers.
const (
	// LookupTimer ends the wait before the coordinator is looked up again.
	LookupTimer Timer = iota
	// RetryTimer ends the wait before a join is tried again.
	RetryTimer
	// HeartbeatTimer is when the next heartbeat is due.
	HeartbeatTimer
	// SessionTimer is when the coordinator was silent for the session timeout.
	SessionTimer
	// EarlyTimer ends the time of early heartbeats.
	EarlyTimer
	// ProbeTimer is when to ask the coordinator that holds a JoinGroup whether it is
	// still there.
	ProbeTimer

	// Timers is how many there are.
	Timers
)

// String returns the timer's name.
func (t Timer) String() string {
	return [...]string{"lookup", "retry", "heartbeat", "session", "early", "probe"}[t]
}

// A StepKind is what the application must do in a Step.
type StepKind int8

// The kinds of steps.
const (
	// Revoke: commit and give up partitions that are still owned.
	Revoke StepKind = iota
	// Assign: take over partitions.
	Assign
	// Lost: forget partitions that are owned no more.
	Lost
)

// String returns the kind's name.
func (k StepKind) String() string { return [...]string{"revoke", "assign", "lost"}[k] }

// A Step is a part of a rebalance that the application's goroutine does.
type Step struct {
	ID   int
	Kind StepKind
	// Partitions are those to give up, those added, or those lost.
	Partitions []TopicPartition
	// Assignment is all that is owned after a step of kind Assign.
	Assignment []TopicPartition
}

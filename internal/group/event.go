package group

import "github.com/kafkaconsumer/kafka/protocol"

// TopicPartition names one partition of a topic.
type TopicPartition = protocol.TopicPartition

// An Event is something that happened. Answers carry the Seq of the action that
// they answer; an answer that nobody waits for any more changes nothing.
type Event interface{ event() }

type (
	// Subscribed: the application's list of topics is this from now on.
	Subscribed struct {
		Topics []string
		Reason string
	}
	// Polled: the application polls.
	Polled struct{}
	// StepTaken: the application began the step.
	StepTaken struct{ ID int }
	// StepDone: the application ended the step.
	StepDone struct{ ID int }
	// PollIntervalExceeded: the application did not poll for too long. It may come
	// again as long as that is so.
	PollIntervalExceeded struct{}
	// RejoinAsked: a new round of the rebalance is wanted.
	RejoinAsked struct{ Reason string }
	// Leave: the application gives up its subscription.
	Leave struct{ Reason string }

	// CoordinatorNeeded: something outside the machine waits for the coordinator.
	CoordinatorNeeded struct{}
	// CoordinatorFound answers FindCoordinator.
	CoordinatorFound struct {
		Seq  int
		Node int32
	}
	// CoordinatorFailed answers FindCoordinator.
	CoordinatorFailed struct {
		Seq int
		Err error
	}
	// CoordinatorLost: a request outside the machine learned that the node is not
	// the coordinator, or could not reach it.
	CoordinatorLost struct {
		Node int32
		Err  error
	}
	// CoordinatorWorks: a request outside the machine was answered by the
	// coordinator as such.
	CoordinatorWorks struct{}
	// CommitRefused: a commit of this member and generation was refused with one of
	// the codes that tell about the membership.
	CommitRefused struct {
		MemberID   string
		Generation int32
		Err        error
	}

	// JoinAnswered answers SendJoin. With MEMBER_ID_REQUIRED, MemberID is set
	// besides Err.
	JoinAnswered struct {
		Seq            int
		Err            error
		MemberID       string
		Generation     int32
		Leader         bool
		Protocol       string
		SkipAssignment bool // KIP-814
		Members        []JoinedMember
		Partitions     int // of the subscribed topics, as far as known
	}
	// AssignmentMade answers RunAssignor.
	AssignmentMade struct {
		Seq         int
		Err         error
		Assignments []MemberAssignment
	}
	// SyncAnswered answers SendSync.
	SyncAnswered struct {
		Seq        int
		Err        error
		Assignment []TopicPartition
	}
	// HeartbeatAnswered answers SendHeartbeat.
	HeartbeatAnswered struct {
		Seq       int
		Err       error
		Throttled bool
	}
	// LeaveAnswered answers SendLeave.
	LeaveAnswered struct {
		Seq int
		Err error
	}
	// TimerDue: the time for which the timer was armed has passed.
	TimerDue struct{ Timer Timer }
)

// A JoinedMember is a member as the coordinator describes it to the leader.
type JoinedMember struct {
	ID         string
	InstanceID string
	Metadata   []byte
}

// A MemberAssignment is what the leader sends for one member.
type MemberAssignment struct {
	ID   string
	Data []byte
}

func (Subscribed) event()           {}
func (Polled) event()               {}
func (StepTaken) event()            {}
func (StepDone) event()             {}
func (PollIntervalExceeded) event() {}
func (RejoinAsked) event()          {}
func (Leave) event()                {}
func (CoordinatorNeeded) event()    {}
func (CoordinatorFound) event()     {}
func (CoordinatorFailed) event()    {}
func (CoordinatorLost) event()      {}
func (CoordinatorWorks) event()     {}
func (CommitRefused) event()        {}
func (JoinAnswered) event()         {}
func (AssignmentMade) event()       {}
func (SyncAnswered) event()         {}
func (HeartbeatAnswered) event()    {}
func (LeaveAnswered) event()        {}
func (TimerDue) event()             {}

package kafka

import (
	"fmt"
	"time"
)

// An Event tells of something that happened without a call of the application's.
// It is one of the Event… types of this package; later versions may add some.
type Event interface {
	fmt.Stringer
	event()
}

// EventPositionReset: a partition's position was set by the reset policy or by
// the rule for partitions that appear while subscribed.
type EventPositionReset struct {
	TopicPartition TopicPartition
	From           int64 // -1: there was none
	To             int64
	Reason         string
}

// EventTopicRecreated: a topic was deleted and created again under its name. Its
// old positions are void.
type EventTopicRecreated struct{ Topic string }

// EventMemberFenced: the group's coordinator no longer knows this member, or
// another one took its place.
type EventMemberFenced struct {
	GroupID  string
	MemberID string
	Err      error
}

// EventPollIntervalExceeded: the application did not poll in time, so the consumer
// left its group.
type EventPollIntervalExceeded struct {
	Interval time.Duration
	Elapsed  time.Duration
}

// EventPartitionStalled: records are known beyond a partition's position, the
// application polls, and nothing came for three times the longer of FetchMaxWait and
// RequestTimeout. It comes once per stall. The consumer goes on trying, with a new fetch
// session, new metadata and then a new connection.
type EventPartitionStalled struct {
	TopicPartition TopicPartition
	Position       int64
	Since          time.Time
	Reason         string
}

// EventPartitionResumed: a partition of which EventPartitionStalled told stalls no
// longer, for the reason given: records come again, or none are due, as after a Pause. It
// does not come when the partition is lost.
type EventPartitionResumed struct {
	TopicPartition TopicPartition
	Position       int64
	Reason         string
}

// EventRetrying: something does not succeed and is tried again, such as reaching
// the group's coordinator. It comes with the first failure and then at most once
// per RetryBackoffMax; of positions that cannot be found, it names one after
// RequestTimeout, and again after each.
type EventRetrying struct {
	Operation string
	Err       error
}

func (EventPositionReset) event()        {}
func (EventTopicRecreated) event()       {}
func (EventMemberFenced) event()         {}
func (EventPollIntervalExceeded) event() {}
func (EventPartitionStalled) event()     {}
func (EventPartitionResumed) event()     {}
func (EventRetrying) event()             {}

func (e EventPositionReset) String() string {
	return fmt.Sprintf("position of %s set from %d to %d: %s", e.TopicPartition, e.From, e.To, e.Reason)
}

func (e EventTopicRecreated) String() string {
	return fmt.Sprintf("topic %s was deleted and created again", e.Topic)
}

func (e EventMemberFenced) String() string {
	return fmt.Sprintf("member %q of group %q was fenced: %v", e.MemberID, e.GroupID, e.Err)
}

func (e EventPollIntervalExceeded) String() string {
	return fmt.Sprintf("%v passed without a poll, MaxPollInterval is %v: left the group", e.Elapsed, e.Interval)
}

func (e EventPartitionStalled) String() string {
	return fmt.Sprintf("%s stalled at %d since %s: %s", e.TopicPartition, e.Position, e.Since.Format(time.RFC3339), e.Reason)
}

func (e EventPartitionResumed) String() string {
	return fmt.Sprintf("%s stalls no longer, at %d: %s", e.TopicPartition, e.Position, e.Reason)
}

func (e EventRetrying) String() string {
	return fmt.Sprintf("retrying %s: %v", e.Operation, e.Err)
}

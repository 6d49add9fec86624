// Package assignors distributes the partitions of a consumer group among its
// members. An Assignor gets plain data and gives plain data; it does no I/O.
//
// The member that the coordinator chose as leader runs the assignor which all
// members have in common and which most of them prefer.
package assignors

import "github.com/kafkaconsumer/kafka/protocol"

// A TopicPartition names one partition of a topic.
type TopicPartition = protocol.TopicPartition

// An Assignor decides which member of a group reads which partitions.
//
// Name is how members agree on an assignor: all members of a group must mean the
// same by it. It must not be empty. Protocols are the rebalance protocols that the
// assignor's results are right for; a consumer uses the highest that all its
// assignors support.
//
// Assign must give each partition of each subscribed topic to at most one member
// that subscribes to the topic. It must not keep or change its Input. An error
// fails this round of the rebalance and is returned from the leader's Poll.
//
// Under Cooperative an Assign may move a partition as if at once: the leader withholds
// it for this round when another member still says that it owns it. That member learns
// that it must give the partition up, joins again, and the next round, with a new call
// of Assign, gives it away. No assignor, however wrong, has two members read a partition
// in this way. (Java raises an error instead.)
//
// An Assignor may be used by several consumers at once unless it is also a
// PerConsumer; Assign must then be safe for concurrent use.
type Assignor interface {
	Name() string
	Protocols() []Protocol
	Assign(Input) (Assignment, error)
}

// A Protocol is how members give up partitions in a rebalance (KIP-429).
type Protocol int8

// The rebalance protocols.
const (
	// Eager: each member gives up all its partitions before it joins.
	Eager Protocol = iota
	// Cooperative: a member keeps its partitions and gives up only those that the
	// new assignment takes away, and joins again when it gave up any.
	Cooperative
)

// An Input is what an assignor decides from.
type Input struct {
	// Members are the group's members, sorted by ID.
	Members []Member
	// Topics are all topics that any member subscribes to and that exist, with
	// their partitions in order of ID.
	Topics map[string][]Partition
}

// A Member is one member of the group, as it described itself when it joined.
type Member struct {
	ID         string
	InstanceID string           // "" for a dynamic member (KIP-345)
	Topics     []string         // what it subscribes to, sorted; a topic may not exist
	Owned      []TopicPartition // what it owned before, if it said so (KIP-429)
	Generation int32            // the generation in which it owned that; -1 unknown (KIP-792)
	Rack       string           // "" unknown (KIP-881)
	UserData   []byte           // the assignor's own data of this member, unchecked
}

// A Partition is a partition of a topic and the racks of its replicas; an unknown
// rack is "".
type Partition struct {
	ID    int32
	Racks []string
}

// An Assignment is the result: one entry for each member that gets partitions or
// data. A member without an entry gets nothing.
type Assignment map[string]MemberAssignment

// A MemberAssignment is what one member gets.
type MemberAssignment struct {
	Partitions []TopicPartition
	UserData   []byte // passed to that member's OnAssigned
}

// A UserDataProvider is an Assignor that sends data of its own with each join.
// The bytes are the leader's Member.UserData.
type UserDataProvider interface {
	UserData(topics []string) []byte
}

// An Observer is an Assignor that is told of each assignment to this consumer.
type Observer interface {
	OnAssigned(a MemberAssignment, generation int32)
}

// A PerConsumer is an Assignor with state: each consumer that is configured with
// it works with its own instance from NewInstance.
type PerConsumer interface {
	NewInstance() Assignor
}

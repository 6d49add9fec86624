package assignors

import "slices"

// Sticky is Kafka's "sticky" assignor (KIP-54): it balances, and within that lets
// each member keep what it had, so that less state has to be built anew. Members
// give up all their partitions before each join, as with Range; CooperativeSticky
// spares them that.
//
// When all members subscribe to the same topics, their counts differ by at most one;
// otherwise they are as even as the subscriptions allow. What several members claim to
// have had goes by the higher generation; with the same generation none of them keeps
// it for that reason (KIP-341, KIP-792). Racks decide only between choices that are
// alike otherwise (KIP-881).
//
// Each consumer works with an instance of its own, which remembers the consumer's
// last assignment and tells the leader of it when it joins, in the form that Kafka's
// StickyAssignor writes and reads: members of both may share a group. The zero value
// is ready for use in a configuration, and safe for concurrent use; an instance
// belongs to its consumer.
type Sticky struct{}

// Name returns "sticky".
func (Sticky) Name() string { return "sticky" }

// Protocols returns Eager.
func (Sticky) Protocols() []Protocol { return []Protocol{Eager} }

// NewInstance returns an assignor that is a UserDataProvider and an Observer.
func (Sticky) NewInstance() Assignor { return &stickyInstance{generation: -1} }

// Assign never fails.
func (Sticky) Assign(in Input) (Assignment, error) {
	plan := newPlan(in)
	for i := range plan.members {
		plan.claimUserData(int32(i), plan.members[i].UserData)
	}
	plan.make()
	return plan.assignment(), nil
}

// A stickyInstance is one consumer's Sticky.
type stickyInstance struct {
	Sticky
	assigned   bool // false before the first assignment
	partitions []TopicPartition
	generation int32
}

// OnAssigned remembers an assignment.
func (s *stickyInstance) OnAssigned(a MemberAssignment, generation int32) {
	s.assigned, s.partitions, s.generation = true, slices.Clone(a.Partitions), generation
}

// UserData tells of the last assignment; of none, it is nil.
func (s *stickyInstance) UserData([]string) []byte {
	if !s.assigned {
		return nil
	}
	return appendStickyData(nil, s.partitions, s.generation)
}

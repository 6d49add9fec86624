package assignors

import "encoding/binary"

// CooperativeSticky is Kafka's "cooperative-sticky" assignor (KIP-429): it assigns
// as Sticky does, but members keep their partitions while they join, and give up only
// what the new assignment takes away.
//
// A partition that is to move from one member to another is assigned to nobody at
// first: its old owner gives it up and joins again, and the rebalance that this
// starts hands it over. So no two members read one partition at a time.
//
// What a member had is what its subscription says. The generation is taken from
// there too, or from the assignor's own data where the subscription has none, below
// its version 2 (KIP-792). The zero value is ready for use in a configuration, and
// safe for concurrent use; an instance belongs to its consumer.
type CooperativeSticky struct{}

// Name returns "cooperative-sticky".
func (CooperativeSticky) Name() string { return "cooperative-sticky" }

// Protocols returns Cooperative and Eager. Eager lets a group change over to it by
// two rolling restarts: with it beside the old assignor at first, then alone.
func (CooperativeSticky) Protocols() []Protocol { return []Protocol{Cooperative, Eager} }

// NewInstance returns an assignor that is a UserDataProvider and an Observer.
func (CooperativeSticky) NewInstance() Assignor { return &cooperativeInstance{generation: -1} }

// Assign never fails.
func (CooperativeSticky) Assign(in Input) (Assignment, error) {
	plan := newPlan(in)
	for i := range plan.members {
		m := &plan.members[i]
		generation := cooperativeGeneration(m)
		for _, tp := range m.Owned {
			plan.claim(int32(i), generation, tp.Topic, tp.Partition)
		}
	}
	plan.make()
	for i := range plan.members {
		m := &plan.members[i]
		generation := cooperativeGeneration(m)
		for _, tp := range m.Owned {
			plan.withhold(int32(i), generation, tp)
		}
	}
	return plan.assignment(), nil
}

// cooperativeGeneration returns the generation that a member's claims are of.
func cooperativeGeneration(m *Member) int32 {
	switch {
	case m.Generation >= 0:
		return m.Generation
	case len(m.UserData) >= 4:
		return max(-1, int32(binary.BigEndian.Uint32(m.UserData)))
	default:
		return -1
	}
}

// A cooperativeInstance is one consumer's CooperativeSticky.
type cooperativeInstance struct {
	CooperativeSticky
	generation int32
}

// OnAssigned remembers the generation.
func (c *cooperativeInstance) OnAssigned(_ MemberAssignment, generation int32) {
	c.generation = generation
}

// UserData tells the generation of the last assignment, for leaders that do not read
// it from the subscription.
func (c *cooperativeInstance) UserData([]string) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(c.generation))
}

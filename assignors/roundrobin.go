package assignors

// RoundRobin is Kafka's "roundrobin" assignor: it deals out the partitions of all
// topics together, one at a time around the members. When all members subscribe to
// the same topics their counts differ by at most one; otherwise a member that does
// not subscribe to a partition's topic is passed over, and counts may differ more.
//
// Members are served static ones first, by instance id, then the others by member
// id; partitions by topic and id. The result equals that of Kafka's
// RoundRobinAssignor, so members of both may share a group. The zero value is
// ready for use, and safe for concurrent use.
type RoundRobin struct{}

// Name returns "roundrobin".
func (RoundRobin) Name() string { return "roundrobin" }

// Protocols returns Eager.
func (RoundRobin) Protocols() []Protocol { return []Protocol{Eager} }

// Assign never fails.
func (RoundRobin) Assign(in Input) (Assignment, error) {
	assignment := make(Assignment)
	members := sortedMembers(in.Members)
	byTopic := subscribers(members, in.Topics)
	next := 0 // the member whose turn it is; it keeps its turn over topics
	for _, topic := range sortedTopics(byTopic) {
		reads := make(map[string]bool, len(byTopic[topic]))
		for _, m := range byTopic[topic] {
			reads[m.ID] = true
		}
		for _, id := range partitionIDs(in.Topics[topic]) {
			for !reads[members[next].ID] {
				next = (next + 1) % len(members)
			}
			assignment.add(members[next].ID, topic, id)
			next = (next + 1) % len(members)
		}
	}
	return assignment, nil
}

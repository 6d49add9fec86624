package assignors

// Range is Kafka's "range" assignor: it deals out each topic by itself, giving
// each of the topic's members a run of neighbouring partitions. When the count
// does not divide evenly, the first members get one more. Topics with equal
// members and counts are so dealt alike: partition 3 of each goes to the same
// member, which suits joins.
//
// Members are served static ones first, by instance id, then the others by member
// id. The result equals that of Kafka's RangeAssignor without racks, so members
// of both may share a group. The zero value is ready for use, and safe for
// concurrent use.
type Range struct{}

// Name returns "range".
func (Range) Name() string { return "range" }

// Protocols returns Eager.
func (Range) Protocols() []Protocol { return []Protocol{Eager} }

// Assign never fails.
func (Range) Assign(in Input) (Assignment, error) {
	assignment := make(Assignment)
	byTopic := subscribers(sortedMembers(in.Members), in.Topics)
	for _, topic := range sortedTopics(byTopic) {
		members, ids := byTopic[topic], partitionIDs(in.Topics[topic])
		share, extra := len(ids)/len(members), len(ids)%len(members)
		for i, m := range members {
			n := share
			if i < extra {
				n++
			}
			assignment.add(m.ID, topic, ids[:n]...)
			ids = ids[n:]
		}
	}
	return assignment, nil
}

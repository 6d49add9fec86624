package assignors

// Range is Kafka's "range" assignor: it deals out each topic by itself, giving
// each of the topic's members a run of neighbouring partitions. When the count
// does not divide evenly, the first members get one more. Topics with equal
// members and counts are so dealt alike: partition 3 of each goes to the same
// member, which suits joins.
//
// Where members say in which rack they are and not every partition has a replica in
// all racks, members get partitions with a replica in their own rack first, as far as
// the counts per member stay the same and topics that were dealt alike still are
// (KIP-881).
//
// Members are served static ones first, by instance id, then the others by member
// id. The result equals that of Kafka's RangeAssignor, so members of both may share a
// group. The zero value is ready for use, and safe for concurrent use.
type Range struct{}

// Name returns "range".
func (Range) Name() string { return "range" }

// Protocols returns Eager.
func (Range) Protocols() []Protocol { return []Protocol{Eager} }

// Assign never fails.
func (Range) Assign(in Input) (Assignment, error) {
	byTopic := subscribers(sortedMembers(in.Members), in.Topics)
	var deals []*deal
	for _, topic := range sortedTopics(byTopic) {
		deals = append(deals, newDeal(topic, byTopic[topic], in.Topics[topic]))
	}
	dealByRack(deals)
	assignment := make(Assignment)
	for _, d := range deals {
		for m := range d.members {
			d.takeRun(m, func(int) bool { return true })
		}
		d.addTo(assignment)
	}
	return assignment, nil
}

// A deal is one topic being dealt out. Members and partitions are known by their
// place in its lists.
type deal struct {
	topic      string
	members    []Member
	partitions []Partition
	owner      []int // by partition; -1: none yet
	count      []int // by member
	share      int   // what each member gets at least
	extras     int   // how many more members may get one more
	given      int   // all partitions before this one have an owner
}

func newDeal(topic string, members []Member, partitions []Partition) *deal {
	d := &deal{topic: topic, members: members, partitions: inOrder(partitions), count: make([]int, len(members))}
	d.share, d.extras = len(d.partitions)/len(members), len(d.partitions)%len(members)
	d.owner = make([]int, len(d.partitions))
	for i := range d.owner {
		d.owner[i] = -1
	}
	return d
}

// room returns how many more partitions a member may get.
func (d *deal) room(m int) int {
	room := d.share - d.count[m]
	if d.extras > 0 {
		room++
	}
	return max(0, room)
}

// takeRun gives a member as many as it may get of the first partitions that are left
// and suit it.
func (d *deal) takeRun(m int, suits func(partition int) bool) {
	room := d.room(m)
	for i := d.given; i < len(d.owner) && room > 0; i++ {
		if d.owner[i] < 0 && suits(i) {
			d.give(i, m)
			room--
		}
	}
	for d.given < len(d.owner) && d.owner[d.given] >= 0 {
		d.given++
	}
}

func (d *deal) give(i, m int) {
	d.owner[i] = m
	d.count[m]++
	if d.count[m] == d.share+1 {
		d.extras--
	}
}

// addTo adds the topic to an assignment, when all its partitions have an owner.
func (d *deal) addTo(assignment Assignment) {
	var run []int32
	for i, m := range d.owner {
		run = append(run, d.partitions[i].ID)
		if i+1 == len(d.owner) || d.owner[i+1] != m {
			assignment.add(d.members[m].ID, d.topic, run...)
			run = run[:0]
		}
	}
}

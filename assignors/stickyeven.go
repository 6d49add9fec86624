package assignors

import (
	"cmp"
	"math"
	"slices"
)

// An evenPlan assigns when all members subscribe to the same topics. How many
// partitions each member gets is then known: least, and one more for as many members
// as there are extras. A member keeps what it had up to that, which is the most that
// can be kept; what is left goes to those with fewest of the same topic.
type evenPlan struct {
	*stickyPlan
	load   []int32 // by member
	least  int32
	extras int32 // how many more members may get one more than least

	ring []int32 // the members that may get more
	next int     // whose turn it is in ring
	has  []int32 // by member: its partitions of the topic at hand

	anyFull bool    // a member of the ring has no room any more
	seats   []int32 // places in the ring
}

func newEvenPlan(p *stickyPlan) *evenPlan {
	e := &evenPlan{
		stickyPlan: p,
		load:       make([]int32, len(p.members)),
		has:        make([]int32, len(p.members)),
	}
	size, total := p.classes[0].size, int32(len(p.owner))
	e.least, e.extras = total/size, total%size
	return e
}

func (e *evenPlan) make() {
	copy(e.owner, e.holder)
	for _, m := range e.owner {
		if m != nobody {
			e.load[m]++
		}
	}
	e.dropSurplus()
	for m := range e.members {
		if e.classOf[m] != nobody && e.hasRoom(int32(m)) {
			e.ring = append(e.ring, int32(m))
		}
	}
	free := make([]int32, 0, len(e.owner))
	for t := range e.topics {
		free = free[:0]
		for i := e.first[t]; i < e.first[t+1]; i++ {
			if e.owner[i] == nobody {
				free = append(free, i)
			}
		}
		if len(free) > 0 {
			e.fill(int32(t), free)
		}
	}
}

func (e *evenPlan) hasRoom(m int32) bool {
	return e.load[m] < e.least || e.load[m] == e.least && e.extras > 0
}

// dropSurplus takes from each member what it has above its share.
func (e *evenPlan) dropSurplus() {
	var over []int32
	share := make([]int32, len(e.members))
	for m, n := range e.load {
		share[m] = e.least
		if n > e.least && e.extras > 0 {
			share[m]++
			e.extras--
		}
		if n > share[m] {
			over = append(over, int32(m))
		}
	}
	if len(over) == 0 {
		return
	}
	lists := e.lists()
	freed := make([]int32, len(e.topics))
	for _, m := range over {
		for _, i := range e.surplus(lists[m], share[m], freed) {
			e.owner[i] = nobody
			freed[e.topicOf[i]]++
		}
		e.load[m] = share[m]
	}
}

// lists returns each member's partitions.
func (e *evenPlan) lists() [][]int32 {
	lists := make([][]int32, len(e.members))
	all := make([]int32, len(e.owner))
	for m, n := range e.load {
		lists[m], all = all[:0:n], all[n:]
	}
	for i, m := range e.owner {
		if m != nobody {
			lists[m] = append(lists[m], int32(i))
		}
	}
	return lists
}

// surplus chooses what a member gives up of its partitions, keeping keep of them. It
// takes from the topics of which the member has most above an even part, and between
// those from the ones of which others gave up fewest, so that each topic stays spread
// over members.
func (e *evenPlan) surplus(list []int32, keep int32, freed []int32) []int32 {
	type candidate struct {
		above            int64 // the even part of the topic, times the number of members
		freed, partition int32
	}
	candidates := make([]candidate, 0, len(list))
	for start := 0; start < len(list); {
		topic, end := e.topicOf[list[start]], start+1
		for end < len(list) && e.topicOf[list[end]] == topic {
			end++
		}
		run := list[start:end]
		if len(e.racks) > 0 {
			e.nearFirst(run)
		}
		for had, i := range run {
			above := int64(had)*int64(e.classes[0].size) - int64(len(e.partitions[topic]))
			candidates = append(candidates, candidate{above, freed[topic], i})
		}
		start = end
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.above, a.above), cmp.Compare(a.freed, b.freed), cmp.Compare(a.partition, b.partition))
	})
	given := list[:0]
	for _, c := range candidates[:int32(len(candidates))-keep] {
		given = append(given, c.partition)
	}
	return given
}

// nearFirst sorts partitions of one member by whether its rack has a replica.
func (e *evenPlan) nearFirst(partitions []int32) {
	m := e.owner[partitions[0]]
	far := func(i int32) int {
		if e.near(m, i) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(partitions, func(a, b int32) int { return cmp.Compare(far(a), far(b)) })
}

// fill gives partitions of one topic to the members that have fewest of it, in turns.
func (e *evenPlan) fill(topic int32, free []int32) {
	e.leaveFull()
	owners := e.owner[e.first[topic]:e.first[topic+1]]
	for _, m := range owners {
		if m != nobody {
			e.has[m]++
		}
	}
	// The free partitions are as many as the room that is left, so each turn has a
	// seat at some level.
	for level := int32(0); len(free) > 0; {
		above := e.findSeats(level, len(free))
		if len(e.seats) == 0 {
			level = above
			continue
		}
		if len(e.racks) > 0 {
			free = e.seatByRack(free)
		} else {
			free = e.seat(free)
		}
	}
	for _, m := range owners {
		if m != nobody {
			e.has[m] = 0
		}
	}
}

// leaveFull takes members without room out of the ring.
func (e *evenPlan) leaveFull() {
	if !e.anyFull {
		return
	}
	kept, next := e.ring[:0], 0
	for i, m := range e.ring {
		if e.hasRoom(m) {
			if i < e.next {
				next++
			}
			kept = append(kept, m)
		}
	}
	e.ring, e.next, e.anyFull = kept, next, false
}

// findSeats lists whose turn it is among the members that have at most level
// partitions of the topic, and returns the next higher level. Without racks, only the
// first n are of use.
func (e *evenPlan) findSeats(level int32, n int) (above int32) {
	e.seats = e.seats[:0]
	above, extras := int32(math.MaxInt32), e.extras
	for k := range e.ring {
		at := e.next + k
		if at >= len(e.ring) {
			at -= len(e.ring)
		}
		m := e.ring[at]
		if e.load[m] > e.least || e.load[m] == e.least && extras == 0 {
			continue
		}
		if e.has[m] > level {
			above = min(above, e.has[m])
			continue
		}
		if e.load[m] == e.least {
			extras--
		}
		e.seats = append(e.seats, int32(at))
		if len(e.seats) == n && len(e.racks) == 0 {
			break
		}
	}
	return above
}

// seat gives a partition to each seat, and returns those that are left.
func (e *evenPlan) seat(free []int32) []int32 {
	n := min(len(free), len(e.seats))
	for k, at := range e.seats[:n] {
		e.take(free[k], e.ring[at])
	}
	e.next = (int(e.seats[n-1]) + 1) % len(e.ring)
	return free[n:]
}

func (e *evenPlan) take(partition, m int32) {
	e.owner[partition] = m
	e.has[m]++
	e.load[m]++
	if e.load[m] > e.least {
		e.extras--
	}
	e.anyFull = e.anyFull || !e.hasRoom(m)
}

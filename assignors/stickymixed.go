package assignors

import (
	"cmp"
	"slices"
)

// A mixedPlan assigns when members subscribe to different topics. The partitions of a
// topic are alike to it, so it decides how many of each topic a member gets, and only
// then which: as many as it can of those that the member had.
//
// What nobody keeps goes to the least loaded member that can read it. Then partitions
// move from members to others with at least two fewer, until none can.
type mixedPlan struct {
	*stickyPlan
	shares [][]share // by member, sorted by topic
	reads  [][]uint64
	loads  loadOrder

	tried []int32 // by class: the last search that found nothing in it
	try   int32
}

// A share is how many partitions of a topic a member gets, and how many it had.
type share struct{ topic, count, had int32 }

func newMixedPlan(p *stickyPlan) *mixedPlan {
	x := &mixedPlan{
		stickyPlan: p,
		shares:     make([][]share, len(p.members)),
		reads:      make([][]uint64, len(p.classes)),
		tried:      make([]int32, len(p.classes)),
	}
	words := (len(p.topics) + 63) / 64
	all := make([]uint64, words*len(p.classes))
	for c := range p.classes {
		x.reads[c], all = all[:words], all[words:]
		for _, t := range p.classes[c].topics {
			x.reads[c][t/64] |= 1 << (t % 64)
		}
	}
	return x
}

func (x *mixedPlan) make() {
	free := x.keep()
	x.place(free)
	x.level()
	x.settle()
}

// canRead reports whether members of a class subscribe to a topic.
func (x *mixedPlan) canRead(class, topic int32) bool {
	return x.reads[class][topic/64]&(1<<(topic%64)) != 0
}

// keep begins with what the members had, and counts what is left of each topic.
func (x *mixedPlan) keep() (free []int32) {
	free = make([]int32, len(x.topics))
	load := make([]int32, len(x.members))
	for i, m := range x.holder {
		topic := x.topicOf[i]
		if m == nobody {
			free[topic]++
			continue
		}
		load[m]++
		shares := x.shares[m]
		if n := len(shares); n == 0 || shares[n-1].topic != topic {
			shares = append(shares, share{topic: topic})
		}
		shares[len(shares)-1].count++
		shares[len(shares)-1].had++
		x.shares[m] = shares
	}
	x.loads = newLoadOrder(load, len(x.owner))
	for m, class := range x.classOf {
		if class != nobody {
			x.loads.add(int32(m))
		}
	}
	return free
}

// place gives what is left to the least loaded, beginning with the topics that have
// fewest readers.
func (x *mixedPlan) place(free []int32) {
	readers := make([]int32, len(x.topics))
	for _, class := range x.classes {
		for _, t := range class.topics {
			readers[t] += class.size
		}
	}
	order := make([]int32, 0, len(x.topics))
	for t, n := range free {
		if n > 0 {
			order = append(order, int32(t))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(readers[a], readers[b]), cmp.Compare(a, b))
	})
	for _, t := range order {
		for range free[t] {
			m := x.loads.first()
			for !x.canRead(x.classOf[m], t) {
				m = x.loads.after(m)
			}
			x.give(m, t)
		}
	}
}

func (x *mixedPlan) give(m, topic int32) {
	at, ok := x.share(m, topic)
	if !ok {
		x.shares[m] = slices.Insert(x.shares[m], at, share{topic: topic})
	}
	x.shares[m][at].count++
	x.loads.change(m, 1)
}

func (x *mixedPlan) share(m, topic int32) (int, bool) {
	return slices.BinarySearchFunc(x.shares[m], topic, func(s share, topic int32) int {
		return cmp.Compare(s.topic, topic)
	})
}

// level moves partitions until none can move to a member with at least two fewer. Each
// move lowers the sum of the squares of the loads, so there is an end.
func (x *mixedPlan) level() {
	members := make([]int32, 0, len(x.members))
	for m, class := range x.classOf {
		if class != nobody {
			members = append(members, int32(m))
		}
	}
	for moved := true; moved; {
		moved = false
		slices.SortStableFunc(members, func(a, b int32) int {
			return cmp.Compare(x.loads.load[b], x.loads.load[a])
		})
		for _, m := range members {
			for x.relieve(m) {
				moved = true
			}
		}
	}
}

// relieve moves one partition from a member to the least loaded that can take one.
func (x *mixedPlan) relieve(from int32) bool {
	x.try++
	for to := x.loads.first(); x.loads.load[to] < x.loads.load[from]-1; to = x.loads.after(to) {
		class := x.classOf[to]
		if x.tried[class] == x.try {
			continue
		}
		if at := x.choose(from, to); at >= 0 {
			s := &x.shares[from][at]
			s.count--
			x.loads.change(from, -1)
			x.give(to, s.topic)
			return true
		}
		x.tried[class] = x.try
	}
	return false
}

// choose returns which of a member's shares to take a partition from for another, -1
// if that reads none of them: rather one that the member did not have before, one that
// the other had, one of which it has many more.
func (x *mixedPlan) choose(from, to int32) int {
	class, best := x.classOf[to], -1
	var bestRank [3]int32
	for at, s := range x.shares[from] {
		if s.count == 0 || !x.canRead(class, s.topic) {
			continue
		}
		var other share
		if i, ok := x.share(to, s.topic); ok {
			other = x.shares[to][i]
		}
		rank := [3]int32{0, 0, s.count - other.count}
		if s.count > s.had {
			rank[0] = 1
		}
		if other.count < other.had {
			rank[1] = 1
		}
		if best < 0 || slices.Compare(rank[:], bestRank[:]) > 0 {
			best, bestRank = at, rank
		}
	}
	return best
}

// settle decides which partitions make up the shares.
func (x *mixedPlan) settle() {
	byTopic := make([][]int32, len(x.topics)) // members, sorted
	for m := range x.shares {
		for _, s := range x.shares[m] {
			if s.count > 0 {
				byTopic[s.topic] = append(byTopic[s.topic], int32(m))
			}
		}
	}
	left := make([]int32, len(x.members)) // by member: how many it still gets
	for t, members := range byTopic {
		for _, m := range members {
			at, _ := x.share(m, int32(t))
			left[m] = x.shares[m][at].count
		}
		x.settleTopic(int32(t), members, left)
	}
}

func (x *mixedPlan) settleTopic(t int32, members, left []int32) {
	give := func(i, m int32) {
		x.owner[i] = m
		left[m]--
	}
	keep := func(near bool) {
		for i := x.first[t]; i < x.first[t+1]; i++ {
			m := x.holder[i]
			if m != nobody && x.owner[i] == nobody && left[m] > 0 && (!near || x.near(m, i)) {
				give(i, m)
			}
		}
	}
	hand := func(near bool) {
		rest := members
		for i := x.first[t]; i < x.first[t+1]; i++ {
			if x.owner[i] != nobody {
				continue
			}
			for len(rest) > 0 && left[rest[0]] == 0 {
				rest = rest[1:]
			}
			for _, m := range rest {
				if left[m] > 0 && (!near || x.near(m, i)) {
					give(i, m)
					break
				}
			}
		}
	}
	if len(x.racks) > 0 {
		keep(true)
	}
	keep(false)
	if len(x.racks) > 0 {
		hand(true)
	}
	hand(false)
}

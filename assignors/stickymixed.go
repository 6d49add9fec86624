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
// move from members to others with at least two fewer, if need be by way of third ones,
// until none can. At last, members get back what they lost where that costs nothing.
type mixedPlan struct {
	*stickyPlan
	shares [][]share // by member, sorted by topic
	reads  [][]uint64
	loads  loadOrder

	tried []int32 // by class: the last search that found nothing in it
	try   int32

	chains chainSearch
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
	x.chains = newChainSearch(x)
	return x
}

func (x *mixedPlan) make() {
	free := x.keep()
	x.place(free)
	x.level()
	x.regain()
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
			x.take(m, t)
			x.loads.change(m, 1)
		}
	}
}

func (x *mixedPlan) share(m, topic int32) (int, bool) {
	return slices.BinarySearchFunc(x.shares[m], topic, func(s share, topic int32) int {
		return cmp.Compare(s.topic, topic)
	})
}

// shift moves a partition of a topic from one member to another, and leaves it to the
// caller to change their loads.
func (x *mixedPlan) shift(from, topic, to int32) {
	at, _ := x.share(from, topic)
	x.shares[from][at].count--
	x.take(to, topic)
}

func (x *mixedPlan) take(m, topic int32) {
	at, ok := x.share(m, topic)
	if !ok {
		x.shares[m] = slices.Insert(x.shares[m], at, share{topic: topic})
	}
	x.shares[m][at].count++
}

// level moves partitions until no load can become more even, from the highest load
// down. What it moves ends at a lower load, so one pass is enough.
func (x *mixedPlan) level() {
	for load := len(x.loads.head) - 1; load > 1; load-- {
		for m := x.loads.head[load]; m != nobody; {
			next := x.loads.next[m]
			if x.loads.load[x.loads.first()] < int32(load)-1 && !x.relieve(m) {
				x.relieveByChain(m)
			}
			m = next
		}
	}
}

// relieve moves one partition from a member to the least loaded that can take one, if
// that has at least two fewer.
func (x *mixedPlan) relieve(from int32) bool {
	if x.chains.settled(from) {
		return false
	}
	x.try++
	for to := x.loads.first(); x.loads.load[to] < x.loads.load[from]-1; to = x.loads.after(to) {
		class := x.classOf[to]
		if x.tried[class] == x.try {
			continue
		}
		if topic := x.choose(from, to); topic != nobody {
			x.shift(from, topic, to)
			x.loads.change(from, -1)
			x.loads.change(to, 1)
			return true
		}
		x.tried[class] = x.try
	}
	return false
}

// relieveByChain does so by way of others, each of which takes a partition and hands
// on one of another topic.
func (x *mixedPlan) relieveByChain(from int32) {
	load := x.loads.load[from]
	to := x.chains.find(from, false, func(m int32) bool { return x.loads.load[m] < load-1 })
	if to == nobody {
		// Nobody within reach is less loaded, nor will be: what is moved later comes
		// from members with no higher load, and none of them reaches less than these.
		x.chains.settle()
		return
	}
	x.chains.follow(to)
	x.loads.change(from, -1)
	x.loads.change(to, 1)
}

// choose returns of which topic to take a partition from a member for another, nobody
// if that reads none of them: of the one of which it has most above the other.
func (x *mixedPlan) choose(from, to int32) int32 {
	best, bestMore := nobody, int32(0)
	for _, s := range x.shares[from] {
		if s.count == 0 || !x.canRead(x.classOf[to], s.topic) {
			continue
		}
		more := s.count
		if at, ok := x.share(to, s.topic); ok {
			more -= x.shares[to][at].count
		}
		if best == nobody || more > bestMore {
			best, bestMore = s.topic, more
		}
	}
	return best
}

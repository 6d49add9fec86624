package assignors

import "math"

// A chainSearch finds chains of members: the first gives a partition to the second,
// that one of another topic to the third, and so on.
type chainSearch struct {
	plan    *mixedPlan
	classes [][]int32 // by topic: the classes that read it
	members [][]int32 // by class
	search  int32     // the number of this search

	// The last search that came by; math.MaxInt32: none need come by any more.
	seenTopic, seenClass, seenMember []int32

	queue       []int32
	from, topic []int32 // by member: who gives it a partition, and of what
}

func newChainSearch(x *mixedPlan) chainSearch {
	c := chainSearch{
		plan:       x,
		classes:    make([][]int32, len(x.topics)),
		members:    make([][]int32, len(x.classes)),
		seenTopic:  make([]int32, len(x.topics)),
		seenClass:  make([]int32, len(x.classes)),
		seenMember: make([]int32, len(x.members)),
		from:       make([]int32, len(x.members)),
		topic:      make([]int32, len(x.members)),
	}
	for class := range x.classes {
		for _, t := range x.classes[class].topics {
			c.classes[t] = append(c.classes[t], int32(class))
		}
	}
	for m, class := range x.classOf {
		if class != nobody {
			c.members[class] = append(c.members[class], int32(m))
		}
	}
	return c
}

// find returns the nearest member that will do as the end of a chain from one, nobody
// if there is none. With spare, members hand on only what they did not have before.
func (c *chainSearch) find(from int32, spare bool, willDo func(m int32) bool) int32 {
	c.search++
	c.seenMember[from] = c.search
	c.queue = append(c.queue[:0], from)
	for at := 0; at < len(c.queue); at++ {
		m := c.queue[at]
		for _, s := range c.plan.shares[m] {
			if s.count > s.had {
				if to := c.reach(m, s.topic, willDo); to != nobody {
					return to
				}
			}
		}
		for _, s := range c.plan.shares[m] {
			if !spare && s.count > 0 && s.count <= s.had {
				if to := c.reach(m, s.topic, willDo); to != nobody {
					return to
				}
			}
		}
	}
	return nobody
}

// reach puts all who can take a partition of a topic in the queue.
func (c *chainSearch) reach(from, topic int32, willDo func(m int32) bool) int32 {
	if c.seenTopic[topic] >= c.search {
		return nobody
	}
	c.seenTopic[topic] = c.search
	for _, class := range c.classes[topic] {
		if c.seenClass[class] >= c.search {
			continue
		}
		c.seenClass[class] = c.search
		for _, m := range c.members[class] {
			if c.seenMember[m] >= c.search {
				continue
			}
			c.seenMember[m] = c.search
			c.from[m], c.topic[m] = from, topic
			if willDo(m) {
				return m
			}
			c.queue = append(c.queue, m)
		}
	}
	return nobody
}

// follow moves the partitions along the chain that find found.
func (c *chainSearch) follow(to int32) {
	for first := c.queue[0]; to != first; to = c.from[to] {
		c.plan.shift(c.from[to], c.topic[to], to)
	}
}

// settle keeps further searches away from all that the last one reached.
func (c *chainSearch) settle() {
	for _, m := range c.queue {
		c.seenMember[m] = math.MaxInt32
		if class := c.plan.classOf[m]; c.seenClass[class] == c.search {
			c.seenClass[class] = math.MaxInt32
		}
		for _, s := range c.plan.shares[m] {
			if c.seenTopic[s.topic] == c.search {
				c.seenTopic[s.topic] = math.MaxInt32
			}
		}
	}
}

func (c *chainSearch) settled(m int32) bool { return c.seenMember[m] == math.MaxInt32 }

// unsettle lets searches reach everybody again.
func (c *chainSearch) unsettle() {
	clear(c.seenTopic)
	clear(c.seenClass)
	clear(c.seenMember)
}

package assignors

// regain gives members back what they lost, where the loads stay as even as they are:
// from one that did not have it and is as much more loaded as the member is then, or
// in exchange for something else that the member did not have.
func (x *mixedPlan) regain() {
	x.chains.unsettle()
	spare := x.spare()
	for m := range x.shares {
		for at := 0; at < len(x.shares[m]); at++ {
			s := x.shares[m][at]
			if s.count < s.had && len(spare[s.topic]) > 0 && x.regainOne(int32(m), s.topic, spare[s.topic]) {
				at-- // it may have lost more than one
			}
		}
	}
}

// spare returns, of each topic of which a member lost some, who has some that it did
// not have before.
func (x *mixedPlan) spare() [][]int32 {
	spare := make([][]int32, len(x.topics))
	lost := make([]bool, len(x.topics))
	for _, shares := range x.shares {
		for _, s := range shares {
			lost[s.topic] = lost[s.topic] || s.count < s.had
		}
	}
	for m, shares := range x.shares {
		for _, s := range shares {
			if lost[s.topic] && s.count > s.had {
				spare[s.topic] = append(spare[s.topic], int32(m))
			}
		}
	}
	return spare
}

func (x *mixedPlan) regainOne(m, topic int32, spare []int32) bool {
	byLoad := make(map[int32]int32) // who of spare could give one, by load
	holds := make(map[int32]bool)
	for _, from := range spare {
		at, _ := x.share(from, topic)
		if s := x.shares[from][at]; s.count > s.had {
			holds[from] = true
			if _, ok := byLoad[x.loads.load[from]]; !ok {
				byLoad[x.loads.load[from]] = from
			}
		}
	}
	// giver returns who can give the partition when another ends up with one more.
	giver := func(end int32) int32 {
		if holds[end] {
			return end
		}
		if from, ok := byLoad[x.loads.load[end]+1]; ok {
			return from
		}
		return nobody
	}
	end := m
	if giver(m) == nobody {
		end = x.chains.find(m, true, func(m int32) bool { return giver(m) != nobody })
		if end == nobody {
			return false
		}
	}
	from := giver(end)
	if end != m {
		x.chains.follow(end)
	}
	x.shift(from, topic, m)
	x.loads.change(from, -1)
	x.loads.change(end, 1)
	return true
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

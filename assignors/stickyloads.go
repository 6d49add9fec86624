package assignors

// A loadOrder keeps members in order of their load, those with the same load in the
// order in which they came to it: so equal members are served in turns.
type loadOrder struct {
	load       []int32 // by member
	next, prev []int32 // by member; nobody at the ends
	head, tail []int32 // by load
	least      int32   // no member has a lower load
}

// newLoadOrder returns an order of nobody. No load may become higher than most.
func newLoadOrder(load []int32, most int) loadOrder {
	members := len(load)
	all := make([]int32, 2*members+2*(most+1))
	o := loadOrder{load: load, least: int32(most)}
	o.next, all = all[:members], all[members:]
	o.prev, all = all[:members], all[members:]
	o.head, o.tail = all[:most+1], all[most+1:]
	for i := range o.head {
		o.head[i], o.tail[i] = nobody, nobody
	}
	return o
}

// add puts a member behind those with the same load.
func (o *loadOrder) add(m int32) {
	load := o.load[m]
	o.next[m], o.prev[m] = nobody, o.tail[load]
	if o.tail[load] == nobody {
		o.head[load] = m
	} else {
		o.next[o.tail[load]] = m
	}
	o.tail[load] = m
	o.least = min(o.least, load)
}

// change changes a member's load.
func (o *loadOrder) change(m, by int32) {
	load, before, after := o.load[m], o.prev[m], o.next[m]
	if before == nobody {
		o.head[load] = after
	} else {
		o.next[before] = after
	}
	if after == nobody {
		o.tail[load] = before
	} else {
		o.prev[after] = before
	}
	o.load[m] += by
	o.add(m)
}

// first returns the first of the least loaded. There must be a member.
func (o *loadOrder) first() int32 {
	for o.head[o.least] == nobody {
		o.least++
	}
	return o.head[o.least]
}

// after returns the member behind another. There must be one.
func (o *loadOrder) after(m int32) int32 {
	if o.next[m] != nobody {
		return o.next[m]
	}
	load := o.load[m] + 1
	for o.head[load] == nobody {
		load++
	}
	return o.head[load]
}

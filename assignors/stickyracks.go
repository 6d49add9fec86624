package assignors

import "slices"

// seatByRack gives partitions of one topic to the seats, near ones first, and returns
// those that are left.
func (e *evenPlan) seatByRack(free []int32) []int32 {
	byRack := make([][]int32, len(e.racks)) // seats, by the rack of their member
	for k, at := range e.seats {
		if rack, ok := e.racks[e.members[e.ring[at]].Rack]; ok {
			byRack[rack] = append(byRack[rack], int32(k))
		}
	}
	taken := make([]bool, len(e.seats))
	last := 0
	seat := func(partition int32, k int) {
		taken[k] = true
		last = max(last, k)
		e.take(partition, e.ring[e.seats[k]])
	}
	left := slices.DeleteFunc(free, func(partition int32) bool {
		best := nobody
		for _, name := range e.partition(partition).Racks {
			rack, ok := e.racks[name]
			if ok && len(byRack[rack]) > 0 && (best == nobody || len(byRack[rack]) > len(byRack[best])) {
				best = rack
			}
		}
		if best == nobody {
			return false
		}
		seat(partition, int(byRack[best][0]))
		byRack[best] = byRack[best][1:]
		return true
	})
	for k := range e.seats {
		if len(left) > 0 && !taken[k] {
			seat(left[0], k)
			left = left[1:]
		}
	}
	e.next = (int(e.seats[last]) + 1) % len(e.ring)
	return left
}

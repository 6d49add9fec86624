package assignors

import "slices"

// dealByRack gives members partitions with a replica in their rack. Topics with the
// same members and as many partitions stay dealt alike: a member gets partition n of
// all of them or of none.
func dealByRack(deals []*deal) {
	if !slices.ContainsFunc(deals, (*deal).racksMatter) {
		return
	}
	for len(deals) > 0 {
		alike, rest := []*deal{deals[0]}, []*deal(nil)
		for _, d := range deals[1:] {
			if d.alike(deals[0]) {
				alike = append(alike, d)
			} else {
				rest = append(rest, d)
			}
		}
		switch d := deals[0]; {
		case len(alike) > 1:
			dealTogether(alike)
		case d.racksMatter():
			for m := range d.members {
				d.takeRun(m, func(i int) bool { return d.near(m, i) })
			}
		}
		deals = rest
	}
}

// racksMatter reports whether members and replicas share racks, and not every
// partition is in all racks that the topic is in.
func (d *deal) racksMatter() bool {
	var racks []string // of all replicas
	for _, p := range d.partitions {
		for _, rack := range p.Racks {
			if rack != "" && !slices.Contains(racks, rack) {
				racks = append(racks, rack)
			}
		}
	}
	shared := slices.ContainsFunc(d.members, func(m Member) bool {
		return slices.Contains(racks, m.Rack)
	})
	return shared && slices.ContainsFunc(d.partitions, func(p Partition) bool {
		return slices.ContainsFunc(racks, func(rack string) bool { return !slices.Contains(p.Racks, rack) })
	})
}

// near reports whether a partition has a replica in a member's rack. Anything is near
// to a member that does not know its rack.
func (d *deal) near(m, i int) bool {
	rack := d.members[m].Rack
	return rack == "" || slices.Contains(d.partitions[i].Racks, rack)
}

func (d *deal) alike(other *deal) bool {
	return len(d.partitions) == len(other.partitions) &&
		slices.EqualFunc(d.members, other.members, func(a, b Member) bool { return a.ID == b.ID })
}

// dealTogether gives each partition number to the first member to which it is near in
// all topics.
func dealTogether(deals []*deal) {
	for i := range deals[0].partitions {
		for m := range deals[0].members {
			if !slices.ContainsFunc(deals, func(d *deal) bool { return d.room(m) == 0 || !d.near(m, i) }) {
				for _, d := range deals {
					d.give(i, m)
				}
				break
			}
		}
	}
}

package group

import "time"

// While a rebalance is likely unfinished, heartbeats come more often, so that this
// member soon learns of the next round: that in which it gets what others gave up.
const (
	earlyInterval = 200 * time.Millisecond
	// earlyCrowd is the number of members from which on that would be too much for the
	// coordinator.
	earlyCrowd = 100
)

// crowd is what tells how many members the group has: the leader knows, others
// conclude from their share of the partitions.
type crowd struct {
	members    int // 0: not known
	partitions int // of the subscribed topics
	own        int
}

func (c *crowd) joined(a JoinAnswered) {
	c.members, c.partitions = 0, a.Partitions
	if a.Leader {
		c.members = len(a.Members)
	}
}

func (c *crowd) large() bool {
	if c.members > 0 {
		return c.members > earlyCrowd
	}
	return c.partitions > earlyCrowd*max(c.own, 1)
}

// beatEarly begins the time of early heartbeats, or begins it anew, as something
// changed.
func (m *Classic) beatEarly() {
	switch {
	case !m.beating:
		return
	case m.crowd.large():
		m.stopEarly()
		return
	}
	m.do(Arm{Timer: EarlyTimer, After: m.cfg.HeartbeatInterval * 3 / 2})
	if !m.early {
		m.early = true
		m.armHeartbeat()
	}
}

func (m *Classic) stopEarly() {
	if m.early {
		m.early = false
		m.do(Disarm{Timer: EarlyTimer})
	}
}

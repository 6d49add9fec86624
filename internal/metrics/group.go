package metrics

import "time"

// A Group is what a member measures of its group. Durations are in nanoseconds.
type Group struct {
	commit, join, sync, heartbeat *Sensor // latencies of requests that were answered
	rebalance                     *Sensor // from the first JoinGroup to the assignment
	failed                        *Sensor // rounds that failed
	revoked, assigned, lost       *Sensor // the listener's callbacks
	lastHeartbeat, lastRebalance  moment
}

func (g *Group) init(s *Set) {
	g.lastHeartbeat, g.lastRebalance = s.newMoment(), s.newMoment()
	for _, sensor := range []**Sensor{
		&g.commit, &g.join, &g.sync, &g.heartbeat, &g.rebalance, &g.failed, &g.revoked, &g.assigned, &g.lost,
	} {
		*sensor = newSensor(&s.windows)
	}
}

// Committed notes how long an OffsetCommit took.
func (g *Group) Committed(took time.Duration, now time.Time) { g.commit.Record(int64(took), now) }

// Joined notes how long a JoinGroup took.
func (g *Group) Joined(took time.Duration, now time.Time) { g.join.Record(int64(took), now) }

// Synced notes how long a SyncGroup took.
func (g *Group) Synced(took time.Duration, now time.Time) { g.sync.Record(int64(took), now) }

// Beating notes that a Heartbeat is about to be sent.
func (g *Group) Beating(now time.Time) { g.lastHeartbeat.note(now) }

// Beat notes how long a Heartbeat took.
func (g *Group) Beat(took time.Duration, now time.Time) { g.heartbeat.Record(int64(took), now) }

// Rebalanced notes a rebalance that came to its end for this member, and how long it
// took with all its rounds.
func (g *Group) Rebalanced(took time.Duration, now time.Time) {
	g.rebalance.Record(int64(took), now)
	g.lastRebalance.note(now)
}

// RoundFailed notes that JoinGroup, SyncGroup or the assignor failed.
func (g *Group) RoundFailed(now time.Time) { g.failed.Record(1, now) }

// Revoked notes how long a callback of the listener took.
func (g *Group) Revoked(took time.Duration, now time.Time) { g.revoked.Record(int64(took), now) }

// Assigned is Revoked for partitions that were assigned.
func (g *Group) Assigned(took time.Duration, now time.Time) { g.assigned.Record(int64(took), now) }

// Lost is Revoked for partitions that were lost.
func (g *Group) Lost(took time.Duration, now time.Time) { g.lost.Record(int64(took), now) }

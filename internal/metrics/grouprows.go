package metrics

import "time"

var groupRows = []row[*grouping]{
	{"assigned-partitions", number, "Partitions that are assigned now.", func(g *grouping, _ time.Time) float64 { return float64(g.partitions) }},

	{"commit-rate", perSecond, "OffsetCommit requests that were answered. Commits called together go out together.", of(func(g *grouping) *Sensor { return g.commit }, countRate)},
	{"commit-total", number, "The same, ever.", of(func(g *grouping) *Sensor { return g.commit }, count)},
	{"commit-latency-avg", millis, "Average time that such a request took.", of(func(g *grouping) *Sensor { return g.commit }, averageMS)},
	{"commit-latency-max", millis, "Longest time of that kind.", of(func(g *grouping) *Sensor { return g.commit }, greatestMS)},

	{"join-rate", perSecond, "JoinGroup requests that were answered.", of(func(g *grouping) *Sensor { return g.join }, countRate)},
	{"join-total", number, "The same, ever.", of(func(g *grouping) *Sensor { return g.join }, count)},
	{"join-time-avg", millis, "Average time that such a request took: the coordinator waits for the other members.", of(func(g *grouping) *Sensor { return g.join }, averageMS)},
	{"join-time-max", millis, "Longest time of that kind.", of(func(g *grouping) *Sensor { return g.join }, greatestMS)},

	{"sync-rate", perSecond, "SyncGroup requests that were answered.", of(func(g *grouping) *Sensor { return g.sync }, countRate)},
	{"sync-total", number, "The same, ever.", of(func(g *grouping) *Sensor { return g.sync }, count)},
	{"sync-time-avg", millis, "Average time that such a request took: the coordinator waits for the leader's assignment.", of(func(g *grouping) *Sensor { return g.sync }, averageMS)},
	{"sync-time-max", millis, "Longest time of that kind.", of(func(g *grouping) *Sensor { return g.sync }, greatestMS)},

	{"heartbeat-rate", perSecond, "Heartbeat requests that were answered.", of(func(g *grouping) *Sensor { return g.heartbeat }, countRate)},
	{"heartbeat-total", number, "The same, ever.", of(func(g *grouping) *Sensor { return g.heartbeat }, count)},
	{"heartbeat-response-time-max", millis, "Longest time that such a request took.", of(func(g *grouping) *Sensor { return g.heartbeat }, greatestMS)},
	{"last-heartbeat-seconds-ago", seconds, "Since the last Heartbeat was sent; -1 before the first.", func(g *grouping, now time.Time) float64 { return g.lastHeartbeat.ago(now) }},

	{"rebalance-rate-per-hour", perHour, "Rebalances that this member came through.", of(func(g *grouping) *Sensor { return g.rebalance }, hourly)},
	{"rebalance-total", number, "The same, ever.", of(func(g *grouping) *Sensor { return g.rebalance }, count)},
	{"rebalance-latency-avg", millis, "Average time of a rebalance, from the first JoinGroup to the assignment, with all rounds that failed between.", of(func(g *grouping) *Sensor { return g.rebalance }, averageMS)},
	{"rebalance-latency-max", millis, "Longest time of that kind.", of(func(g *grouping) *Sensor { return g.rebalance }, greatestMS)},
	{"rebalance-latency-total", millis, "All such times together, ever.", of(func(g *grouping) *Sensor { return g.rebalance }, sumMS)},
	{"last-rebalance-seconds-ago", seconds, "Since the last rebalance ended; -1 before the first.", func(g *grouping, now time.Time) float64 { return g.lastRebalance.ago(now) }},
	{"failed-rebalance-rate-per-hour", perHour, "Rounds that failed: an error of JoinGroup, SyncGroup or the assignor. To be told a member id is none.", of(func(g *grouping) *Sensor { return g.failed }, hourly)},
	{"failed-rebalance-total", number, "The same, ever.", of(func(g *grouping) *Sensor { return g.failed }, count)},

	{"partition-assigned-latency-avg", millis, "Average time that OnAssigned took.", of(func(g *grouping) *Sensor { return g.assigned }, averageMS)},
	{"partition-assigned-latency-max", millis, "Longest time of that kind.", of(func(g *grouping) *Sensor { return g.assigned }, greatestMS)},
	{"partition-revoked-latency-avg", millis, "Average time that OnRevoked took.", of(func(g *grouping) *Sensor { return g.revoked }, averageMS)},
	{"partition-revoked-latency-max", millis, "Longest time of that kind.", of(func(g *grouping) *Sensor { return g.revoked }, greatestMS)},
	{"partition-lost-latency-avg", millis, "Average time that OnLost took, or OnRevoked in its place.", of(func(g *grouping) *Sensor { return g.lost }, averageMS)},
	{"partition-lost-latency-max", millis, "Longest time of that kind.", of(func(g *grouping) *Sensor { return g.lost }, greatestMS)},
}

//go:build unix

package broker

import (
	"testing"
	"time"
)

// ZooKeeper gives the address of the ZooKeeper; empty with KRaft.
func (c *Cluster) ZooKeeper() string {
	if c.zookeeper == nil {
		return ""
	}
	return c.zookeeper.addr()
}

// Upgrade stops a cluster and starts it again as another release with ZooKeeper,
// on the same ports and with the same data, that of ZooKeeper included.
func (c *Cluster) Upgrade(t testing.TB, release string) {
	t.Helper()
	v, ok := versions[release]
	if !ok || v.kind != zookeeper || c.zookeeper == nil {
		t.Fatalf("cannot upgrade Kafka %s to %s", c.Version, release)
	}
	for _, n := range c.nodes {
		// One that is killed is a broker to ZooKeeper for a session more, beside which it
		// does not start again.
		n.stop(time.Minute)
	}
	c.zookeeper.stop(stopGrace)
	c.Version, c.version = release, v
	if err := c.launch(); err != nil {
		t.Fatalf("start Kafka %s on data of an older one: %v", release, err)
	}
}

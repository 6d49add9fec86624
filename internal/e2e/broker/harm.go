//go:build unix

package broker

import "testing"

// Guard has the end of a test tell, when it failed, what the cluster is like, and undo
// what it did to nodes, so that the next test that shares the cluster finds it whole. It
// is for clusters with KRaft.
func (c *Cluster) Guard(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		c.reportFailure(t)
		if err := c.heal(); err != nil {
			t.Errorf("Kafka %s cannot be mended: %v", c.Version, err)
		}
	})
}

// Kill ends a node at once (SIGKILL), as a machine that fails does, until Restart.
func (c *Cluster) Kill(t testing.TB, node int32) {
	t.Helper()
	c.Guard(t) // before what the test has set up so far is cleaned up
	c.node(node).process.Kill()
}

// Pause stops a node's process without ending it (SIGSTOP), until Continue: its
// connections stay open and nothing is answered.
func (c *Cluster) Pause(t testing.TB, node int32) {
	t.Helper()
	c.Guard(t)
	c.node(node).process.Pause()
}

// Continue lets a paused node go on.
func (c *Cluster) Continue(node int32) { c.node(node).process.Continue() }

// Restart starts nodes that Kill ended, with their data and on their ports, and waits
// until they serve; one that runs is stopped first.
func (c *Cluster) Restart(t testing.TB, nodes ...int32) {
	t.Helper()
	if err := c.restart(nodes); err != nil {
		t.Fatalf("restart nodes %v: %v", nodes, err)
	}
}

func (c *Cluster) restart(nodes []int32) error {
	var restarted []*node
	for _, id := range nodes {
		n := c.node(id)
		restarted = append(restarted, n)
		n.stop(stopGrace)
		if err := n.launch(); err != nil {
			return err
		}
	}
	return c.ready(restarted)
}

// heal lets all nodes run again and waits until the cluster is whole. What could not be
// mended once is not tried again.
func (c *Cluster) heal() error {
	if c.lost != nil {
		return c.lost
	}
	var gone []int32
	for _, n := range c.nodes {
		n.process.Continue()
		if !n.process.Running() {
			gone = append(gone, n.id)
		}
	}
	if c.lost = c.restart(gone); c.lost == nil {
		c.lost = c.awaitWhole()
	}
	return c.lost
}

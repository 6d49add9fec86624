//go:build unix

package broker

// PID gives the process id of a node.
func (c *Cluster) PID(node int32) int { return c.node(node).process.PID() }

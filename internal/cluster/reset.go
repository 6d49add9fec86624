package cluster

import "github.com/kafkaconsumer/kafka/internal/conn"

// Reset closes the connection of role, Control or Group, to a node; see
// conn.Broker.Reset.
func (c *Cluster) Reset(node int32, role conn.Role) {
	if b, ok := c.Broker(node); ok {
		b.Reset(role)
	}
}

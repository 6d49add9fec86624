package testbroker

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Request is one request as it arrived at a node.
type Request struct {
	Node        int32
	Conn        int // number of the connection, in the order they were opened, over all nodes
	Key         int16
	Version     int16
	Correlation int32
	ClientID    string
	Time        time.Time
	Message     kmsg.Request // decoded; nil for an unknown API or a body that does not decode; not to be changed
	Frame       []byte       // the bytes after the length
}

// Requests returns the requests of an API that arrived so far (AnyKey: of all),
// in the order of arrival.
func (c *Cluster) Requests(key int16) []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key == AnyKey {
		return slices.Clone(c.log)
	}
	var out []Request
	for _, r := range c.log {
		if r.Key == key {
			out = append(out, r)
		}
	}
	return out
}

// Count returns how many requests of an API arrived so far (AnyKey: of all).
func (c *Cluster) Count(key int16) int { return len(c.Requests(key)) }

// ForgetRequests empties the log of requests.
func (c *Cluster) ForgetRequests() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = nil
}

// WaitRequest waits until at least n requests of an API have arrived (AnyKey: of
// any) and tells whether they did within timeout.
func (c *Cluster) WaitRequest(key int16, n int, timeout time.Duration) bool {
	return c.await(timeout, func() bool {
		seen := 0
		for i := range c.log {
			if key == AnyKey || c.log[i].Key == key {
				seen++
			}
		}
		return seen >= n
	})
}

func (c *Cluster) record(r Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, r)
	c.wakeLocked()
}

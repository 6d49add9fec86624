package cluster

import (
	"context"
	"errors"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupCoordinator is the type of FindCoordinator's key for consumer groups.
const groupCoordinator = 0

// batchedCoordinators is the first version of FindCoordinator that asks for
// several groups at once (KIP-699).
const batchedCoordinators = 4

// FindCoordinator asks once which broker coordinates a group, and makes sure
// that Do can reach it. What the broker answers instead is a *CodeError. It may be
// called before Bootstrap, which it waits for until a broker is reached, to be asked
// beside the metadata.
func (c *Cluster) FindCoordinator(ctx context.Context, group string) (int32, error) {
	ctx, stop := c.bound(ctx)
	defer stop()
	if err := c.awaitOpened(ctx, c.reached); err != nil {
		return NoNode, err
	}
	request := func() kmsg.Request {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType = groupCoordinator
		req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
		return req
	}
	check := func(resp kmsg.Response) error {
		if _, ok := resp.(*kmsg.FindCoordinatorResponse); !ok {
			return errors.New("not an answer to FindCoordinator")
		}
		return nil
	}
	early := !isClosed(c.booted)
	r := c.race(ctx, c.candidates(), headStart, request, check)
	if r.resp == nil && early && c.awaitOpened(ctx, c.booted) == nil {
		// Bootstrap servers may lack what the brokers have that are known now.
		r = c.race(ctx, c.candidates(), headStart, request, check)
	}
	if r.resp == nil {
		c.Refresh()
	}
	switch {
	case c.ctx.Err() != nil:
		return NoNode, ErrClosed
	case r.resp == nil && ctx.Err() != nil:
		return NoNode, waitError(ctx, errors.Join(r.errs...))
	case r.resp == nil:
		return NoNode, errors.Join(r.errs...)
	}
	found := coordinatorIn(r.resp.(*kmsg.FindCoordinatorResponse), group)
	code := protocol.ErrorCode(found.ErrorCode)
	if code == protocol.None && (found.NodeID < 0 || found.Host == "" || found.Port <= 0 || found.Port > 65535) {
		// An answer without error that names nobody.
		code = protocol.CoordinatorNotAvailable
	}
	if code != protocol.None {
		err := &CodeError{Node: r.node, API: protocol.APIName(protocol.KeyFindCoordinator), Code: code}
		if found.ErrorMessage != nil {
			err.Message = *found.ErrorMessage
		}
		return NoNode, err
	}
	err := c.addCoordinator(found.NodeID, conn.Addr{Host: found.Host, Port: found.Port})
	c.closeBoots()
	return found.NodeID, err
}

// awaitOpened waits for one of the channels of Bootstrap.
func (c *Cluster) awaitOpened(ctx context.Context, opened <-chan struct{}) error {
	select {
	case <-opened:
	case <-c.ctx.Done():
	case <-ctx.Done():
		if c.ctx.Err() == nil {
			return ctx.Err()
		}
	}
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return nil
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Warm opens the connections of roles to a node, Control or Group, if there are none,
// without waiting for them.
func (c *Cluster) Warm(node int32, roles ...conn.Role) {
	if b, ok := c.Broker(node); ok {
		for _, role := range roles {
			b.Warm(role)
		}
	}
}

// errNoNode is the reason of a request for which no broker is known.
var errNoNode = errors.New("no broker is known")

// AnyNode returns a node for requests that any broker answers: one that works by what is
// known and has the API, as far as that is known. Before Bootstrap, which it waits for,
// none is known.
func (c *Cluster) AnyNode(ctx context.Context, key int16) (int32, error) {
	if err := c.awaitOpened(ctx, c.booted); err != nil {
		return NoNode, err
	}
	fallback := NoNode
	for _, cand := range c.candidates() {
		if cand.known == nil {
			continue
		}
		if v, ok := cand.known.Versions(); !ok || v.Knows(key) {
			return cand.known.Node(), nil
		}
		if fallback == NoNode {
			fallback = cand.known.Node()
		}
	}
	if fallback == NoNode {
		c.Refresh()
		return NoNode, errNoNode
	}
	return fallback, nil
}

// Lacks reports whether no node that is known has an API; not while one of them has yet to
// tell what it is.
func (c *Cluster) Lacks(key int16) bool {
	return c.nodesAre(func(v *protocol.Versions) bool { return v != nil && !v.Knows(key) })
}

// Has reports whether one of the nodes that are known has an API.
func (c *Cluster) Has(key int16) bool {
	return !c.nodesAre(func(v *protocol.Versions) bool { return v == nil || !v.Knows(key) })
}

// nodesAre reports whether what all nodes can do is so; nil: not known.
func (c *Cluster) nodesAre(so func(*protocol.Versions) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if v, _ := n.broker.Versions(); !so(v) {
			return false
		}
	}
	return true
}

// coordinatorIn returns what an answer of either layout says of a group.
func coordinatorIn(r *kmsg.FindCoordinatorResponse, group string) kmsg.FindCoordinatorResponseCoordinator {
	if r.Version < batchedCoordinators {
		return kmsg.FindCoordinatorResponseCoordinator{
			Key: group, NodeID: r.NodeID, Host: r.Host, Port: r.Port, ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage,
		}
	}
	for _, found := range r.Coordinators {
		if found.Key == group {
			return found
		}
	}
	return kmsg.FindCoordinatorResponseCoordinator{Key: group, NodeID: NoNode}
}

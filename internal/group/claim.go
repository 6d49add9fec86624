package group

import "errors"

// claim is the generation that a cooperative member gives when it says what it owns
// (KIP-792). An assignor believes only claims of the newest generation, so one that
// is too old gives partitions to others while they are still read here, and one that
// is too new does that to another member.
//
// A partition that is claimed in a JoinGroup is given to nobody else in that round.
// So the claim is good for the round's generation from the answer to JoinGroup on,
// SyncGroup or not. But a coordinator that takes over knows only rounds that ended
// with a SyncGroup: before it, such a claim is not made.
type claim struct {
	generation int32 // -1: none
	ended      int32 // the last one whose SyncGroup was answered
	node       int32 // the coordinator that answered JoinGroup
}

var noClaim = claim{generation: -1, ended: -1, node: -1}

var errMissed = errors.New("rounds of the rebalance were missed: the partitions may have other owners")

// honoured reports whether the claims of a JoinGroup that led to this generation were
// believed: no round can have gone by without this member.
func (c *claim) honoured(generation int32) bool {
	return generation == c.generation || generation == c.generation+1
}

func (c *claim) join(generation, node int32) { c.generation, c.node = generation, node }

func (c *claim) sync() { c.ended = c.generation }

func (c *claim) moveTo(node int32) {
	if node != c.node {
		c.generation, c.node = c.ended, node
	}
}

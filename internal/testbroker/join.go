package testbroker

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func joinError(code int16) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.Generation = code, -1
	resp.Protocol = new(string)
	return resp
}

func syncError(code int16) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = code
	return resp
}

func (m *member) answerJoin(resp *kmsg.JoinGroupResponse) {
	if m.joining == nil {
		return
	}
	resp.MemberID = m.id
	m.joining <- resp
	m.joining = nil
}

func (m *member) answerSync(resp *kmsg.SyncGroupResponse) {
	if m.syncing == nil {
		return
	}
	m.syncing <- resp
	m.syncing = nil
}

func (c *Cluster) joinGroup(cn *conn, clientID string, req *kmsg.JoinGroupRequest) kmsg.Response {
	c.mu.Lock()
	resp, wait := c.joinLocked(cn.node, clientID, req)
	c.wakeLocked()
	c.mu.Unlock()
	if resp != nil {
		return resp
	}
	select {
	case resp := <-wait:
		return resp
	case <-cn.done:
		return nil
	}
}

// joinLocked gives an answer or the channel on which it will come.
func (c *Cluster) joinLocked(n *node, clientID string, req *kmsg.JoinGroupRequest) (*kmsg.JoinGroupResponse, chan *kmsg.JoinGroupResponse) {
	g, code := c.coordinatedLocked(n, req.Group)
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	switch {
	case code != 0:
		return joinError(code), nil
	case session < c.opts.minSession, c.opts.maxSession > 0 && session > c.opts.maxSession:
		return joinError(codeInvalidSessionTimeout), nil
	case !g.compatible(req):
		return joinError(codeInconsistentGroupProtocol), nil
	}
	m := g.member(req.MemberID)
	switch {
	case req.InstanceID != nil:
		if resp := g.joinStatic(req, &m); resp != nil {
			return resp, nil
		}
	case req.MemberID == "" && req.Version >= 4:
		return g.requireID(clientID, session), nil
	case req.MemberID != "" && m == nil && g.pending[req.MemberID] == nil:
		return joinError(codeUnknownMemberID), nil
	}
	return g.join(m, clientID, session, req)
}

// requireID answers a first join with the id to come back with (KIP-394). A
// rebalance waits for the one who got it, for as long as its session is.
func (g *group) requireID(clientID string, session time.Duration) *kmsg.JoinGroupResponse {
	id := g.newMemberID(clientID, nil)
	g.pending[id] = time.AfterFunc(session, func() {
		g.c.mu.Lock()
		defer g.c.mu.Unlock()
		if _, waits := g.pending[id]; waits && !g.c.closed {
			delete(g.pending, id)
			g.tryComplete()
		}
	})
	resp := joinError(codeMemberIDRequired)
	resp.MemberID = id
	return resp
}

// joinStatic finds the member of an instance id. A join without a member id
// takes the instance over from the one that has it, who is fenced from then on.
func (g *group) joinStatic(req *kmsg.JoinGroupRequest, m **member) *kmsg.JoinGroupResponse {
	*m = g.static(*req.InstanceID)
	switch {
	case *m == nil && req.MemberID != "":
		return joinError(codeUnknownMemberID)
	case *m == nil:
		return nil
	case req.MemberID != "":
		if (*m).id != req.MemberID {
			return joinError(codeFencedInstanceID)
		}
		return nil
	}
	old := *m
	wasLeader := g.leader == old.id
	old.answerJoin(joinError(codeFencedInstanceID))
	old.answerSync(syncError(codeFencedInstanceID))
	old.id = g.newMemberID("", req.InstanceID)
	if !wasLeader {
		return g.resume(old, req, old.id)
	}
	oldLeader := g.leader
	g.leader = old.id
	if req.Version < 9 {
		// Told that the old id leads, it does not assign anew (KAFKA-7728).
		return g.resume(old, req, oldLeader)
	}
	return g.resume(old, req, old.id)
}

// resume lets a static member that comes back unchanged keep its assignment
// without a rebalance; nil when the group must rebalance.
func (g *group) resume(m *member, req *kmsg.JoinGroupRequest, leader string) *kmsg.JoinGroupResponse {
	if g.state != groupStable || !m.sameProtocols(req.Protocols) {
		return nil
	}
	g.alive(m)
	resp := g.joinAnswer(m)
	if m.id != g.leader {
		return resp
	}
	resp.LeaderID = leader
	if resp.SkipAssignment = req.Version >= 9; !resp.SkipAssignment {
		resp.Members = nil
	}
	return resp
}

func (g *group) join(m *member, clientID string, session time.Duration, req *kmsg.JoinGroupRequest) (*kmsg.JoinGroupResponse, chan *kmsg.JoinGroupResponse) {
	same := m != nil && m.sameProtocols(req.Protocols)
	if m == nil {
		m = &member{id: req.MemberID, instance: req.InstanceID, clientID: clientID}
		if m.id == "" {
			m.id = g.newMemberID(clientID, req.InstanceID)
		}
		if t := g.pending[m.id]; t != nil {
			t.Stop()
			delete(g.pending, m.id)
		}
		g.members = append(slices.Clone(g.members), m)
	}
	m.session, m.rebalance, m.protocols = session, session, req.Protocols
	if req.Version >= 1 {
		m.rebalance = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	}
	g.protocolType = req.ProtocolType
	g.alive(m)
	if same && (g.state == groupCompleting || g.state == groupStable && m.id != g.leader) {
		// Its answer got lost: nothing changed, so it gets the same one again.
		return g.joinAnswer(m), nil
	}
	m.answerJoin(joinError(codeRebalanceInProgress))
	wait := make(chan *kmsg.JoinGroupResponse, 1)
	m.joining = wait
	if g.state == groupPreparing {
		g.tryComplete()
	} else {
		g.prepare()
	}
	return nil, wait
}

func (m *member) sameProtocols(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

func (m *member) supports(protocol string) bool {
	return slices.ContainsFunc(m.protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return p.Name == protocol })
}

// compatible tells whether a join has a protocol that all other members share.
func (g *group) compatible(req *kmsg.JoinGroupRequest) bool {
	if req.ProtocolType == "" || len(req.Protocols) == 0 {
		return false
	}
	others := slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool {
		return m.id == req.MemberID || m.instance != nil && req.InstanceID != nil && *m.instance == *req.InstanceID
	})
	if len(others) == 0 {
		return true
	}
	return req.ProtocolType == g.protocolType && slices.ContainsFunc(req.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return !slices.ContainsFunc(others, func(m *member) bool { return !m.supports(p.Name) })
	})
}

// prepare begins a rebalance: it ends when all members have joined, or when the
// longest of their rebalance timeouts is over.
func (g *group) prepare() {
	for _, m := range g.members {
		m.answerSync(syncError(codeRebalanceInProgress))
	}
	timeout := time.Duration(0)
	for _, m := range g.members {
		timeout = max(timeout, m.rebalance)
	}
	if g.delayed = g.state == groupEmpty && g.c.opts.initialDelay > 0; g.delayed {
		timeout = g.c.opts.initialDelay
	}
	g.state = groupPreparing
	g.round++
	round := g.round
	if g.deadline != nil {
		g.deadline.Stop()
	}
	if timeout <= 0 { // there are no members
		g.complete()
		g.c.wakeLocked()
		return
	}
	g.deadline = time.AfterFunc(timeout, func() {
		g.c.mu.Lock()
		defer g.c.mu.Unlock()
		if !g.c.closed && g.round == round && g.state == groupPreparing {
			g.complete()
		}
	})
	g.tryComplete()
	g.c.wakeLocked()
}

func (g *group) tryComplete() {
	waiting := slices.ContainsFunc(g.members, func(m *member) bool { return m.joining == nil })
	if g.state == groupPreparing && !waiting && len(g.pending) == 0 && !g.delayed {
		g.complete()
	}
}

// complete ends the joining: who has not joined is out, except static members,
// who have until their session ends.
func (g *group) complete() {
	if g.deadline != nil {
		g.deadline.Stop()
	}
	g.delayed = false
	g.members = slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool {
		gone := m.joining == nil && m.instance == nil
		if gone && m.timer != nil {
			m.timer.Stop()
		}
		return gone
	})
	g.generation++
	if len(g.members) == 0 {
		g.state, g.leader, g.protocol = groupEmpty, "", ""
		g.c.wakeLocked()
		return
	}
	g.state = groupCompleting
	g.chooseLeader()
	g.protocol = g.vote()
	for _, m := range g.members {
		m.assignment = nil
		if m.joining != nil {
			resp := g.joinAnswer(m)
			m.answerJoin(resp)
			g.alive(m)
		}
	}
	g.c.wakeLocked()
}

func (g *group) chooseLeader() {
	if m := g.member(g.leader); m != nil && m.joining != nil {
		return
	}
	g.leader = g.members[0].id
	for _, m := range g.members {
		if m.joining != nil {
			g.leader = m.id
			return
		}
	}
}

// vote chooses the protocol that most members name first among those all share.
func (g *group) vote() string {
	votes := map[string]int{}
	best := ""
	for _, m := range g.members {
		for _, p := range m.protocols {
			if slices.ContainsFunc(g.members, func(other *member) bool { return !other.supports(p.Name) }) {
				continue
			}
			if votes[p.Name]++; best == "" || votes[p.Name] > votes[best] {
				best = p.Name
			}
			break
		}
	}
	return best
}

func (g *group) joinAnswer(m *member) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	protocolType, protocol := g.protocolType, g.protocol
	resp.Generation, resp.LeaderID, resp.MemberID = g.generation, g.leader, m.id
	resp.ProtocolType, resp.Protocol = &protocolType, &protocol
	if m.id != g.leader {
		return resp
	}
	for _, other := range g.members {
		out := kmsg.NewJoinGroupResponseMember()
		out.MemberID, out.InstanceID = other.id, other.instance
		for _, p := range other.protocols {
			if p.Name == g.protocol {
				out.ProtocolMetadata = p.Metadata
			}
		}
		resp.Members = append(resp.Members, out)
	}
	return resp
}

func (c *Cluster) syncGroup(cn *conn, req *kmsg.SyncGroupRequest) kmsg.Response {
	c.mu.Lock()
	resp, wait := c.syncLocked(cn.node, req)
	c.wakeLocked()
	c.mu.Unlock()
	if resp != nil {
		return resp
	}
	select {
	case resp := <-wait:
		return resp
	case <-cn.done:
		return nil
	}
}

func (c *Cluster) syncLocked(n *node, req *kmsg.SyncGroupRequest) (*kmsg.SyncGroupResponse, chan *kmsg.SyncGroupResponse) {
	g, code := c.coordinatedLocked(n, req.Group)
	if code != 0 {
		return syncError(code), nil
	}
	m, code := g.known(req.MemberID, req.InstanceID)
	switch {
	case code != 0:
		return syncError(code), nil
	case req.Generation != g.generation:
		return syncError(codeIllegalGeneration), nil
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType, req.Protocol != nil && *req.Protocol != g.protocol:
		return syncError(codeInconsistentGroupProtocol), nil
	case g.state == groupPreparing:
		return syncError(codeRebalanceInProgress), nil
	}
	g.alive(m)
	if g.state == groupStable {
		return g.syncAnswer(m), nil
	}
	if m.id != g.leader {
		m.answerSync(syncError(codeRebalanceInProgress))
		wait := make(chan *kmsg.SyncGroupResponse, 1)
		m.syncing = wait
		return nil, wait
	}
	for _, a := range req.GroupAssignment {
		if to := g.member(a.MemberID); to != nil {
			to.assignment = bytes.Clone(a.MemberAssignment)
		}
	}
	g.state = groupStable
	for _, other := range g.members {
		other.answerSync(g.syncAnswer(other))
	}
	return g.syncAnswer(m), nil
}

func (g *group) syncAnswer(m *member) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	protocolType, protocol := g.protocolType, g.protocol
	resp.ProtocolType, resp.Protocol = &protocolType, &protocol
	resp.MemberAssignment = m.assignment
	if resp.MemberAssignment == nil {
		resp.MemberAssignment = []byte{}
	}
	return resp
}

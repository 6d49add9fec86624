package testbroker

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type groupState string

// The states of a classic group, by the names that Kafka gives them.
const (
	groupEmpty      groupState = "Empty"
	groupPreparing  groupState = "PreparingRebalance"
	groupCompleting groupState = "CompletingRebalance"
	groupStable     groupState = "Stable"
)

// group is a classic consumer group.
//
//	Empty ── join ──► Preparing ── all joined, or time is up ──► Completing
//	  ▲                  ▲  ▲                                        │ leader syncs
//	  └── last one left ─┘  └── join, leave, session expired ──── Stable
//
// All of it is guarded by the cluster's lock. Joins and syncs that wait have a
// channel of capacity 1 that gets exactly one answer, so sending never blocks.
type group struct {
	c            *Cluster
	name         string
	state        groupState
	generation   int32
	protocolType string
	protocol     string
	leader       string
	members      []*member // in the order of joining
	pending      map[string]*time.Timer
	offsets      offsetStore
	zooKeeper    offsetStore // of OffsetCommit v0
	deadline     *time.Timer // of the rebalance
	round        int         // counts rebalances, so that an old deadline is known
	delayed      bool        // the initial rebalance delay runs
}

type member struct {
	id         string
	instance   *string
	clientID   string
	session    time.Duration
	rebalance  time.Duration
	protocols  []kmsg.JoinGroupRequestProtocol
	joining    chan *kmsg.JoinGroupResponse
	syncing    chan *kmsg.SyncGroupResponse
	assignment []byte
	expires    time.Time
	timer      *time.Timer
}

// A GroupState is what Group tells of a group.
type GroupState struct {
	State      string // Empty, PreparingRebalance, CompletingRebalance or Stable
	Generation int32
	Protocol   string
	Leader     string
	Members    []string // ids, in the order of joining
}

// Group returns a group's state; one that nobody asked for is Empty.
func (c *Cluster) Group(name string) GroupState {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groupLocked(name)
	s := GroupState{State: string(g.state), Generation: g.generation, Protocol: g.protocol, Leader: g.leader}
	for _, m := range g.members {
		s.Members = append(s.Members, m.id)
	}
	return s
}

// WaitGroup waits until cond is true of a group's state and tells whether it was
// within timeout.
func (c *Cluster) WaitGroup(name string, timeout time.Duration, cond func(GroupState) bool) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if cond(c.Group(name)) {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-c.done:
			return false
		}
	}
}

// KickMember removes a member as an expired session does.
func (c *Cluster) KickMember(groupName, memberID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groupLocked(groupName)
	if m := g.member(memberID); m != nil {
		g.remove(m)
	}
}

// Rebalance makes a group that has members join anew.
func (c *Cluster) Rebalance(groupName string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.groupLocked(groupName); len(g.members) > 0 {
		g.prepare()
	}
}

// MoveCoordinator makes another node a group's coordinator. Members and offsets
// move along; joins and syncs that wait are answered NOT_COORDINATOR. Node 0
// leaves the group without one: FindCoordinator answers COORDINATOR_NOT_AVAILABLE.
func (c *Cluster) MoveCoordinator(groupName string, node int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved[groupName] = node
	g := c.groupLocked(groupName)
	for _, m := range g.members {
		m.answerJoin(joinError(codeNotCoordinator))
		m.answerSync(syncError(codeNotCoordinator))
	}
	c.wakeLocked()
}

// Coordinator returns the node that coordinates a group.
func (c *Cluster) Coordinator(groupName string) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.coordinatorLocked(groupName)
}

func (c *Cluster) coordinatorLocked(groupName string) int32 {
	if node, ok := c.moved[groupName]; ok {
		return node
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(groupName))
	return int32(h.Sum32()%uint32(len(c.nodes))) + 1
}

func (c *Cluster) groupLocked(name string) *group {
	g := c.groups[name]
	if g == nil {
		g = &group{
			c: c, name: name, state: groupEmpty,
			pending: map[string]*time.Timer{}, offsets: offsetStore{}, zooKeeper: offsetStore{},
		}
		c.groups[name] = g
	}
	return g
}

// coordinatedLocked gives the group when the node coordinates it.
func (c *Cluster) coordinatedLocked(n *node, name string) (*group, int16) {
	switch {
	case name == "":
		return nil, codeInvalidGroupID
	case c.coordinatorLocked(name) != n.id:
		return nil, codeNotCoordinator
	}
	return c.groupLocked(name), 0
}

func (c *Cluster) findCoordinator(req *kmsg.FindCoordinatorRequest) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if req.Version < 4 {
		co := c.findLocked(req.CoordinatorKey, req.CoordinatorType)
		resp.ErrorCode, resp.ErrorMessage = co.ErrorCode, co.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = co.NodeID, co.Host, co.Port
		return resp
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, c.findLocked(key, req.CoordinatorType))
	}
	return resp
}

func (c *Cluster) findLocked(key string, kind int8) kmsg.FindCoordinatorResponseCoordinator {
	co := kmsg.NewFindCoordinatorResponseCoordinator()
	co.Key, co.NodeID, co.Port = key, -1, -1
	node := c.coordinatorLocked(key)
	switch {
	case kind != 0 || node < 1:
		co.ErrorCode = codeCoordinatorNotAvailable
	case key == "":
		co.ErrorCode = codeInvalidGroupID
	default:
		n := c.node(node)
		co.NodeID, co.Host, co.Port = n.id, n.host, n.port
	}
	return co
}

func (g *group) member(id string) *member {
	i := slices.IndexFunc(g.members, func(m *member) bool { return m.id == id })
	if i < 0 {
		return nil
	}
	return g.members[i]
}

func (g *group) static(instance string) *member {
	i := slices.IndexFunc(g.members, func(m *member) bool { return m.instance != nil && *m.instance == instance })
	if i < 0 {
		return nil
	}
	return g.members[i]
}

// known finds the member that a request speaks for; a static instance that was
// taken over by another member id is fenced (KIP-345).
func (g *group) known(id string, instance *string) (*member, int16) {
	if instance != nil {
		m := g.static(*instance)
		switch {
		case m == nil:
			return nil, codeUnknownMemberID
		case m.id != id:
			return nil, codeFencedInstanceID
		}
		return m, 0
	}
	if m := g.member(id); m != nil {
		return m, 0
	}
	return nil, codeUnknownMemberID
}

func (g *group) newMemberID(clientID string, instance *string) string {
	if instance != nil {
		clientID = *instance
	}
	return fmt.Sprintf("%s-%08d", clientID, g.c.nextIDLocked())
}

// alive notes that a member was heard of and starts its session anew.
func (g *group) alive(m *member) {
	m.expires = time.Now().Add(m.session)
	if m.timer != nil {
		m.timer.Stop()
	}
	m.timer = time.AfterFunc(m.session, func() { g.expire(m) })
}

func (g *group) expire(m *member) {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	// A member whose join waits is kept alive by that join.
	if g.c.closed || m.joining != nil || g.member(m.id) != m || time.Now().Before(m.expires) {
		return
	}
	g.remove(m)
}

func (g *group) remove(m *member) {
	if m.timer != nil {
		m.timer.Stop()
	}
	m.answerJoin(joinError(codeUnknownMemberID))
	m.answerSync(syncError(codeUnknownMemberID))
	g.members = slices.DeleteFunc(slices.Clone(g.members), func(other *member) bool { return other == m })
	if g.state == groupPreparing {
		g.tryComplete()
	} else {
		g.prepare()
	}
	g.c.wakeLocked()
}

func (g *group) stopTimers() {
	if g.deadline != nil {
		g.deadline.Stop()
	}
	for _, t := range g.pending {
		t.Stop()
	}
	for _, m := range g.members {
		if m.timer != nil {
			m.timer.Stop()
		}
	}
}

func (c *Cluster) heartbeat(n *node, req *kmsg.HeartbeatRequest) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := kmsg.NewPtrHeartbeatResponse()
	g, code := c.coordinatedLocked(n, req.Group)
	if code != 0 {
		resp.ErrorCode = code
		return resp
	}
	m, code := g.known(req.MemberID, req.InstanceID)
	switch {
	case code != 0:
		resp.ErrorCode = code
		return resp
	case req.Generation != g.generation:
		resp.ErrorCode = codeIllegalGeneration
		return resp
	case g.state == groupPreparing:
		resp.ErrorCode = codeRebalanceInProgress
	}
	g.alive(m)
	return resp
}

func (c *Cluster) leaveGroup(n *node, req *kmsg.LeaveGroupRequest) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := kmsg.NewPtrLeaveGroupResponse()
	g, code := c.coordinatedLocked(n, req.Group)
	if code != 0 {
		resp.ErrorCode = code
		return resp
	}
	if req.Version < 3 {
		resp.ErrorCode = g.leave(req.MemberID, nil)
		return resp
	}
	for _, leaving := range req.Members {
		m := kmsg.NewLeaveGroupResponseMember()
		m.MemberID, m.InstanceID = leaving.MemberID, leaving.InstanceID
		m.ErrorCode = g.leave(leaving.MemberID, leaving.InstanceID)
		resp.Members = append(resp.Members, m)
	}
	return resp
}

func (g *group) leave(id string, instance *string) int16 {
	if instance != nil && id == "" { // an administrator removes a static member
		if m := g.static(*instance); m != nil {
			id = m.id
		}
	}
	if t := g.pending[id]; t != nil {
		t.Stop()
		delete(g.pending, id)
		g.tryComplete()
		return 0
	}
	m, code := g.known(id, instance)
	if code == 0 {
		g.remove(m)
	}
	return code
}

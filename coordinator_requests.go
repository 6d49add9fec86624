package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// protocolType is what consumers call their use of the group protocol.
const protocolType = "consumer"

// joinGroupMax is the newest version of JoinGroup that we speak.
const joinGroupMax = 9

// joinGroupIDFirst is the first version of JoinGroup in which a new member is given an
// id before it may join (KIP-394).
const joinGroupIDFirst = 4

// joinGrace is how much longer than the rebalance timeout an answer to JoinGroup
// or SyncGroup may take on its way.
const joinGrace = 5 * time.Second

// maxReason is how many bytes of a reason go to the broker (KIP-800).
const maxReason = 255

// performRequest starts the goroutine that carries a request out and gives its
// answer to run.
func (co *coordinator) performRequest(a group.Action) {
	node := co.lookup.get().node
	var seq int
	var do func(ctx context.Context) message
	switch a := a.(type) {
	case group.FindCoordinator:
		seq, do = a.Seq, func(ctx context.Context) message { return co.find(ctx, a) }
	case group.SendJoin:
		seq, do = a.Seq, func(ctx context.Context) message { return co.join(ctx, node, a) }
	case group.RunAssignor:
		seq, do = a.Seq, func(ctx context.Context) message { return co.assign(ctx, a) }
	case group.SendSync:
		seq, do = a.Seq, func(ctx context.Context) message { return co.sync(ctx, node, a) }
	case group.SendHeartbeat:
		seq, do = a.Seq, func(ctx context.Context) message { return co.heartbeat(ctx, node, a) }
	case group.SendLeave:
		seq, do = a.Seq, func(ctx context.Context) message { return co.sendLeave(ctx, node, a) }
	}
	ctx, cancel := context.WithCancel(co.ctx)
	co.loop.requests[seq] = cancel
	co.wg.Go(func() {
		defer cancel()
		m := do(ctx)
		m.seq = seq
		co.post(m)
	})
}

func (co *coordinator) find(ctx context.Context, a group.FindCoordinator) message {
	ctx, cancel := context.WithTimeout(ctx, co.cfg.RequestTimeout)
	defer cancel()
	node, err := co.findNode(ctx)
	if err != nil {
		return message{event: group.CoordinatorFailed{Seq: a.Seq, Err: fromCluster(err)}}
	}
	return message{event: group.CoordinatorFound{Seq: a.Seq, Node: node}}
}

// fromCluster makes the public error of what package cluster says of an answer.
func fromCluster(err error) error {
	var code *cluster.CodeError
	if !errors.As(err, &code) {
		return err
	}
	return &BrokerError{Broker: code.Node, API: code.API, Code: code.Code, Message: code.Message}
}

// answerError makes the error of a code in an answer, or nil.
func answerError(node int32, api string, code int16, message *string) error {
	if code == 0 {
		return nil
	}
	e := &BrokerError{Broker: node, API: api, Code: ErrorCode(code)}
	if message != nil {
		e.Message = *message
	}
	return e
}

func (co *coordinator) instanceID() *string { return optional(co.cfg.GroupInstanceID) }

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func millis(d time.Duration) int32 { return int32(min(d.Milliseconds(), math.MaxInt32)) }

func reasonField(s string) *string {
	return optional(strings.ToValidUTF8(s[:min(len(s), maxReason)], ""))
}

func (co *coordinator) join(ctx context.Context, node int32, a group.SendJoin) message {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID = co.cfg.GroupID, a.MemberID, co.instanceID()
	req.SessionTimeoutMillis = millis(co.cfg.SessionTimeout)
	req.RebalanceTimeoutMillis = millis(co.cfg.MaxPollInterval)
	req.ProtocolType, req.Reason = protocolType, reasonField(a.Reason)
	for _, assignor := range co.assignors {
		s := group.Subscription{
			Topics: a.Topics, Owned: a.Owned, Generation: a.Generation, Rack: co.cfg.ClientRack,
		}
		if p, ok := assignor.(assignors.UserDataProvider); ok {
			s.UserData = p.UserData(slices.Clone(a.Topics))
		}
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = assignor.Name(), s.AppendTo(nil)
		req.Protocols = append(req.Protocols, p)
	}
	// The coordinator holds the answer until all members have joined or the
	// rebalance timeout ends.
	timeout := max(co.cfg.RequestTimeout, co.cfg.MaxPollInterval+joinGrace)
	role := conn.Group
	if co.getsIDAtOnce(node, a) {
		role = conn.Control
	}
	began := time.Now()
	resp, err := co.cl.DoTimeout(ctx, node, role, conn.Limit(req, co.since(5), joinGroupMax), timeout)
	noteTime(co.metrics.Joined, began, err)
	if err != nil {
		if co.lacksGroups(node, err) {
			return co.goAlone()
		}
		return message{event: group.JoinAnswered{Seq: a.Seq, Err: co.explainStatic(err)}}
	}
	return message{event: co.joinAnswer(node, a, resp)}
}

// getsIDAtOnce reports whether a JoinGroup is better sent by the control connection, as
// it is answered at once, with no more than a member id (KIP-394), and the connection
// that it would hold up otherwise is still being opened.
func (co *coordinator) getsIDAtOnce(node int32, a group.SendJoin) bool {
	if a.MemberID != "" || co.cfg.GroupInstanceID != "" {
		return false
	}
	b, ok := co.cl.Broker(node)
	if !ok || b.IsOpen(conn.Group) || !b.IsOpen(conn.Control) {
		return false
	}
	v, _ := b.Versions()
	_, err := v.Pick(protocol.KeyJoinGroup, joinGroupIDFirst, joinGroupMax)
	return err == nil
}

// since is the lowest version of a request in which a static member can say who it
// is, given the first one that has the field (KIP-345).
func (co *coordinator) since(version int16) int16 {
	if co.cfg.GroupInstanceID == "" {
		return 0
	}
	return version
}

// explainStatic says why a broker that is too old for static members will not do.
func (co *coordinator) explainStatic(err error) error {
	if co.cfg.GroupInstanceID == "" {
		return err
	}
	return needing(err, "as GroupInstanceID needs Kafka 2.3")
}

// explainSession says what bounds a session.
func (co *coordinator) explainSession(err error) error {
	if code, _ := answeredCode(err); code != protocol.InvalidSessionTimeout {
		return err
	}
	return fmt.Errorf("%w: SessionTimeout is %v, and brokers allow what lies between their group.min.session.timeout.ms (6s by default) "+
		"and group.max.session.timeout.ms (30s by default before Kafka 0.10.1, later 5 or 30 minutes)", err, co.cfg.SessionTimeout)
}

// subscribedPartitions counts the partitions of topics, as far as they are known.
func (co *coordinator) subscribedPartitions(topics []string) int {
	n, metadata := 0, co.cl.Metadata()
	for _, topic := range topics {
		n += assignable(metadata.Topic(topic))
	}
	return n
}

// explainJoin says what a refusal to take this member means, where the code alone does
// not tell.
func (co *coordinator) explainJoin(code int16) *string {
	if ErrorCode(code) != protocol.InconsistentGroupProtocol {
		return nil
	}
	var offered []string
	for _, a := range co.assignors {
		offered = append(offered, a.Name())
	}
	return optional(fmt.Sprintf("it offers %s (PartitionAssignmentStrategy)", strings.Join(offered, ", ")))
}

func (co *coordinator) joinAnswer(node int32, a group.SendJoin, resp kmsg.Response) group.JoinAnswered {
	r, ok := resp.(*kmsg.JoinGroupResponse)
	if !ok {
		return group.JoinAnswered{Seq: a.Seq, Err: wrongAnswer(node, protocol.KeyJoinGroup, resp)}
	}
	answer := group.JoinAnswered{
		Seq: a.Seq, MemberID: r.MemberID, Generation: r.Generation, Partitions: co.subscribedPartitions(a.Topics),
		Err: co.explainSession(answerError(node, "JoinGroup", r.ErrorCode, co.explainJoin(r.ErrorCode))),
	}
	if answer.Err != nil {
		return answer
	}
	if answer.Err = checkProtocol(node, "JoinGroup", r.ProtocolType, protocolType); answer.Err != nil {
		return answer
	}
	if r.Protocol != nil {
		answer.Protocol = *r.Protocol
	}
	if short := r.Version == 0; co.shortRounds.Swap(short) != short && short {
		co.log.Warn("kafka: this broker lets rebalances wait for the session timeout only, not for MaxPollInterval (KIP-62)",
			"session_timeout", co.cfg.SessionTimeout)
	}
	answer.Leader = r.LeaderID == r.MemberID
	answer.SkipAssignment = r.SkipAssignment
	for _, m := range r.Members {
		jm := group.JoinedMember{ID: m.MemberID, Metadata: m.ProtocolMetadata}
		if m.InstanceID != nil {
			jm.InstanceID = *m.InstanceID
		}
		answer.Members = append(answer.Members, jm)
	}
	return answer
}

// checkProtocol: the coordinator must mean the same group as we do (KIP-559). Old
// versions do not tell.
func checkProtocol(node int32, api string, has *string, want string) error {
	if has == nil || *has == want {
		return nil
	}
	return &BrokerError{
		Broker: node, API: api, Code: protocol.InconsistentGroupProtocol,
		Message: fmt.Sprintf("the group has %q, this member %q", *has, want),
	}
}

func wrongAnswer(node int32, key int16, resp kmsg.Response) error {
	return fmt.Errorf("broker %d: %T is not an answer to %s", node, resp, protocol.APIName(key))
}

func (co *coordinator) sync(ctx context.Context, node int32, a group.SendSync) message {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.InstanceID = co.cfg.GroupID, a.MemberID, co.instanceID()
	req.Generation = a.Generation
	kind := protocolType
	req.ProtocolType, req.Protocol = &kind, &a.Protocol
	for _, m := range a.Assignments {
		ma := kmsg.NewSyncGroupRequestGroupAssignment()
		ma.MemberID, ma.MemberAssignment = m.ID, m.Data
		req.GroupAssignment = append(req.GroupAssignment, ma)
	}
	timeout := max(co.cfg.RequestTimeout, co.cfg.MaxPollInterval+joinGrace)
	began := time.Now()
	resp, err := co.cl.DoTimeout(ctx, node, conn.Group, conn.Limit(req, co.since(3), 5), timeout)
	noteTime(co.metrics.Synced, began, err)
	if err != nil {
		return message{event: group.SyncAnswered{Seq: a.Seq, Err: err}}
	}
	tps, err := co.syncAnswer(ctx, node, a, resp)
	return message{event: group.SyncAnswered{Seq: a.Seq, Err: err, Assignment: tps}}
}

func (co *coordinator) syncAnswer(ctx context.Context, node int32, a group.SendSync, resp kmsg.Response) ([]TopicPartition, error) {
	r, ok := resp.(*kmsg.SyncGroupResponse)
	if !ok {
		return nil, wrongAnswer(node, protocol.KeySyncGroup, resp)
	}
	err := answerError(node, "SyncGroup", r.ErrorCode, nil)
	if err == nil {
		err = checkProtocol(node, "SyncGroup", r.ProtocolType, protocolType)
	}
	if err == nil {
		err = checkProtocol(node, "SyncGroup", r.Protocol, a.Protocol)
	}
	if err != nil {
		return nil, err
	}
	assigned, err := group.DecodeAssignment(r.MemberAssignment)
	if err != nil {
		return nil, err
	}
	sortPartitions(assigned.Partitions)
	if o, ok := co.assignorNamed(a.Protocol).(assignors.Observer); ok && ctx.Err() == nil {
		o.OnAssigned(assignors.MemberAssignment{
			Partitions: slices.Clone(assigned.Partitions), UserData: assigned.UserData,
		}, a.Generation)
	}
	return assigned.Partitions, nil
}

func sortPartitions(tps []TopicPartition) {
	slices.SortFunc(tps, func(a, b TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

func (co *coordinator) assignorNamed(name string) assignors.Assignor {
	for _, a := range co.assignors {
		if a.Name() == name {
			return a
		}
	}
	return nil
}

func (co *coordinator) heartbeat(ctx context.Context, node int32, a group.SendHeartbeat) message {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID = co.cfg.GroupID, a.MemberID, co.instanceID()
	req.Generation = a.Generation
	// A coordinator that is silent for so long is looked up again while there is time
	// left to reach another one.
	silence := max(min(co.cfg.RequestTimeout, co.cfg.SessionTimeout/3), time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	began := time.Now()
	co.metrics.Beating(began)
	resp, err := co.cl.DoTimeout(ctx, node, conn.Control, conn.Limit(req, co.since(3), 4), silence)
	noteTime(co.metrics.Beat, began, err)
	answered := group.HeartbeatAnswered{Seq: a.Seq, Err: err}
	if r, ok := resp.(*kmsg.HeartbeatResponse); ok && err == nil {
		answered.Err = answerError(node, "Heartbeat", r.ErrorCode, nil)
		answered.Throttled = r.ThrottleMillis > 0
	} else if err == nil {
		answered.Err = wrongAnswer(node, protocol.KeyHeartbeat, resp)
	}
	return message{event: answered}
}

func (co *coordinator) sendLeave(ctx context.Context, node int32, a group.SendLeave) message {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = co.cfg.GroupID, a.MemberID
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID, m.Reason = a.MemberID, co.instanceID(), reasonField(a.Reason)
	req.Members = append(req.Members, m)
	resp, err := co.cl.Do(ctx, node, conn.Control, conn.Limit(req, 0, 5))
	r, ok := resp.(*kmsg.LeaveGroupResponse)
	switch {
	case err != nil:
	case !ok:
		err = wrongAnswer(node, protocol.KeyLeaveGroup, resp)
	default:
		err = answerError(node, "LeaveGroup", r.ErrorCode, nil)
		for _, m := range r.Members {
			err = cmp.Or(err, answerError(node, "LeaveGroup", m.ErrorCode, nil))
		}
	}
	return message{event: group.LeaveAnswered{Seq: a.Seq, Err: err}}
}

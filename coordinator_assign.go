package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/protocol"
)

// assign makes the assignments of all members, as the group's leader.
func (co *coordinator) assign(ctx context.Context, a group.RunAssignor) message {
	fail := func(err error) message {
		return message{event: group.AssignmentMade{Seq: a.Seq, Err: err}}
	}
	assignor := co.assignorNamed(a.Protocol)
	if assignor == nil {
		return fail(fmt.Errorf("no assignor %q", a.Protocol))
	}
	members := co.members(a.Members)
	topics := memberTopics(members)
	known, shapes, err := co.topicsToAssign(ctx, topics)
	if err != nil {
		return fail(fmt.Errorf("metadata of the group's topics: %w", err))
	}
	var out []group.MemberAssignment
	if !a.WatchOnly {
		made, err := assignor.Assign(assignors.Input{Members: members, Topics: known})
		if err == nil {
			err = checkAssignment(made, members)
		}
		if err != nil {
			return fail(fmt.Errorf("assignor %s: %w", a.Protocol, err))
		}
		out = co.blobs(made, members)
	}
	return message{
		event: group.AssignmentMade{Seq: a.Seq, Assignments: out},
		before: func() {
			co.loop.shapes, co.loop.metadata = shapes, nil
			co.watch(topics)
		},
	}
}

// blobs are what to send for each member.
func (co *coordinator) blobs(made assignors.Assignment, members []assignors.Member) []group.MemberAssignment {
	var claims map[TopicPartition]string
	if co.cooperative {
		claims = claimsOf(members)
	}
	out := make([]group.MemberAssignment, 0, len(members))
	for _, m := range members {
		tps := slices.DeleteFunc(slices.Clone(made[m.ID].Partitions), func(tp TopicPartition) bool {
			owner, claimed := claims[tp]
			return claimed && owner != m.ID
		})
		sortPartitions(tps)
		blob := group.Assignment{Partitions: tps, UserData: made[m.ID].UserData}
		out = append(out, group.MemberAssignment{ID: m.ID, Data: blob.AppendTo(nil)})
	}
	return out
}

// claimsOf returns who may be reading which partitions now, so that under cooperative
// rebalances, whatever the assignor says, a partition goes to nobody else in the
// round in which its owner learns that it must give it up (KIP-429). The owner joins
// again then, and the next round gives the partition away.
//
// Of several claims the newest counts (KIP-792); when there are two, neither does, and
// the owner is "". An older claim that nobody disputes counts too, even if the
// assignor thinks nothing of it: that member may have missed the answers which would
// have told it a newer generation, and read on.
func claimsOf(members []assignors.Member) map[TopicPartition]string {
	claims, newest := map[TopicPartition]string{}, map[TopicPartition]int32{}
	for _, m := range members {
		for _, tp := range m.Owned {
			generation, claimed := newest[tp]
			switch {
			case !claimed || m.Generation > generation:
				claims[tp], newest[tp] = m.ID, m.Generation
			case m.Generation == generation:
				claims[tp] = ""
			}
		}
	}
	return claims
}

// members describes the group to the assignor. A member whose data is not
// understood gets nothing, rather than keep the whole group from working.
func (co *coordinator) members(joined []group.JoinedMember) []assignors.Member {
	out := make([]assignors.Member, 0, len(joined))
	for _, j := range joined {
		s, err := group.DecodeSubscription(j.Metadata)
		if err != nil {
			co.log.Warn("kafka: a member of the group gets no partitions as its subscription cannot be read",
				"member", j.ID, "error", err)
		}
		slices.Sort(s.Topics)
		out = append(out, assignors.Member{
			ID: j.ID, InstanceID: j.InstanceID, Topics: slices.Compact(s.Topics), Owned: s.Owned,
			Generation: s.Generation, Rack: s.Rack, UserData: s.UserData,
		})
	}
	slices.SortFunc(out, func(a, b assignors.Member) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func memberTopics(members []assignors.Member) []string {
	set := map[string]bool{}
	for _, m := range members {
		for _, topic := range m.Topics {
			set[topic] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// topicsToAssign returns the partitions of the topics that exist, and the shape of each
// topic. What other members subscribe to is looked up when this
// one does not know it.
func (co *coordinator) topicsToAssign(ctx context.Context, topics []string) (map[string][]assignors.Partition, map[string]topicShape, error) {
	ctx, cancel := context.WithTimeout(ctx, co.cfg.RequestTimeout)
	defer cancel()
	known, shapes := map[string][]assignors.Partition{}, map[string]topicShape{}
	for _, topic := range topics {
		t := co.cl.Metadata().Topic(topic)
		if t == nil {
			var err error
			if t, err = co.cl.TopicMetadata(ctx, topic); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", topic, fromCluster(err))
			}
		}
		shapes[topic] = co.shapeOf(t, co.cl.Metadata())
		if shapes[topic].partitions > 0 {
			known[topic] = describePartitions(t, co.cl.Metadata())
		}
	}
	return known, shapes, nil
}

// assignable returns how many partitions of a topic there are to assign: of one that
// does not exist any more, none.
func assignable(t *cluster.Topic) int {
	if t == nil || t.Err == protocol.UnknownTopicOrPartition {
		return 0
	}
	return len(t.Partitions)
}

// A topicShape is what an assignment depends on.
type topicShape struct {
	partitions int
	racks      string // of each partition's replicas; "": not known, or of no consequence
}

// shapeOf returns the shape of a topic. Racks count where this member has one (KIP-881);
// they are not known while a replica's broker is away.
func (co *coordinator) shapeOf(t *cluster.Topic, m *cluster.Metadata) topicShape {
	shape := topicShape{partitions: assignable(t)}
	if co.cfg.ClientRack == "" || shape.partitions == 0 {
		return shape
	}
	var racks strings.Builder
	for i, p := range t.Partitions {
		var of []string
		for _, node := range p.Replicas {
			b, there := m.Brokers[node]
			if !there {
				return shape
			}
			of = append(of, b.Rack)
		}
		slices.Sort(of)
		fmt.Fprintf(&racks, "%d%q", i, slices.Compact(of))
	}
	shape.racks = racks.String()
	return shape
}

// differs says what of a topic has changed, "" if nothing that matters has.
func (s topicShape) differs(now topicShape) string {
	switch {
	case s.partitions != now.partitions:
		return "number of partitions"
	case s.racks != "" && now.racks != "" && s.racks != now.racks:
		return "racks"
	}
	return ""
}

func describePartitions(t *cluster.Topic, m *cluster.Metadata) []assignors.Partition {
	out := make([]assignors.Partition, len(t.Partitions))
	for i, p := range t.Partitions {
		out[i].ID = int32(i)
		for _, node := range p.Replicas {
			out[i].Racks = append(out[i].Racks, m.Brokers[node].Rack)
		}
	}
	return out
}

// checkAssignment finds what would make two members read the same partition, or a
// partition be read by nobody unnoticed.
func checkAssignment(made assignors.Assignment, members []assignors.Member) error {
	owners := map[TopicPartition]string{}
	ids := map[string]bool{}
	for _, m := range members {
		ids[m.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(made)) {
		if !ids[id] {
			return fmt.Errorf("it assigned partitions to %q, which is no member", id)
		}
		for _, tp := range made[id].Partitions {
			if other, taken := owners[tp]; taken {
				return fmt.Errorf("it assigned %s to both %q and %q", tp, other, id)
			}
			owners[tp] = id
		}
	}
	return nil
}

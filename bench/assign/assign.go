// Package assign compares the sticky assignors with franz-go's for the same groups.
package assign

import (
	"fmt"
	"slices"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Group is an input that both libraries are given.
type Group struct {
	members []assignors.Member
	topics  map[string]int32
}

// NewGroup makes a group whose members had nothing. Odd members are without a
// quarter of the topics each when mixed is set.
func NewGroup(members, topics, partitions int, mixed bool) Group {
	g := Group{topics: make(map[string]int32)}
	var names []string
	for t := range topics {
		name := fmt.Sprintf("topic-%04d", t)
		names = append(names, name)
		g.topics[name] = int32(partitions)
	}
	for m := range members {
		id := fmt.Sprintf("consumer-%04d-6a1c0c1e-0b5e-4f7b-9d0b-1f3b7c7d5e0f", m)
		subscribed := names
		if mixed && m%2 == 1 {
			subscribed = nil
			for t, name := range names {
				if (t+m/2)%4 != 0 {
					subscribed = append(subscribed, name)
				}
			}
		}
		g.members = append(g.members, assignors.Member{ID: id, Topics: slices.Clone(subscribed), Generation: -1})
	}
	return g
}

// Input is the group as this library is given it.
func (g Group) Input() assignors.Input {
	in := assignors.Input{Members: g.members, Topics: make(map[string][]assignors.Partition)}
	for topic, n := range g.topics {
		for id := range n {
			in.Topics[topic] = append(in.Topics[topic], assignors.Partition{ID: id})
		}
	}
	return in
}

// Settled returns the group after its first assignment, without the first member.
func (g Group) Settled() (Group, error) {
	made, err := assignors.CooperativeSticky{}.Assign(g.Input())
	if err != nil {
		return Group{}, err
	}
	after := Group{topics: g.topics}
	for _, m := range g.members[1:] {
		instance := assignors.Sticky{}.NewInstance()
		instance.(assignors.Observer).OnAssigned(made[m.ID], 7)
		m.UserData = instance.(assignors.UserDataProvider).UserData(m.Topics)
		m.Owned, m.Generation = made[m.ID].Partitions, 7
		after.members = append(after.members, m)
	}
	return after, nil
}

// Franz returns what franz-go's balancer does for the group, which it has decoded.
func (g Group) Franz(balancer kgo.GroupBalancer) (func() error, error) {
	var members []kmsg.JoinGroupResponseMember
	for _, m := range g.members {
		owned := make(map[string][]int32)
		for _, tp := range m.Owned {
			owned[tp.Topic] = append(owned[tp.Topic], tp.Partition)
		}
		joined := kmsg.NewJoinGroupResponseMember()
		joined.MemberID = m.ID
		joined.ProtocolMetadata = balancer.JoinGroupMetadata(m.Topics, owned, m.Generation)
		members = append(members, joined)
	}
	b, _, err := balancer.MemberBalancer(members)
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := b.(kgo.GroupMemberBalancerOrError).BalanceOrError(g.topics)
		return err
	}, nil
}

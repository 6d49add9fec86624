// Package assign compares the sticky assignors with franz-go's for the same groups.
package assign

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A group is an input that both libraries are given.
type group struct {
	members []assignors.Member
	topics  map[string]int32
}

// newGroup makes a group whose members had nothing. Odd members are without a
// quarter of the topics each when mixed is set.
func newGroup(members, topics, partitions int, mixed bool) group {
	g := group{topics: make(map[string]int32)}
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

func (g group) input() assignors.Input {
	in := assignors.Input{Members: g.members, Topics: make(map[string][]assignors.Partition)}
	for topic, n := range g.topics {
		for id := range n {
			in.Topics[topic] = append(in.Topics[topic], assignors.Partition{ID: id})
		}
	}
	return in
}

// settled returns the group after its first assignment, without the first member.
func (g group) settled(tb testing.TB) group {
	made, err := assignors.CooperativeSticky{}.Assign(g.input())
	if err != nil {
		tb.Fatal(err)
	}
	after := group{topics: g.topics}
	for _, m := range g.members[1:] {
		instance := assignors.Sticky{}.NewInstance()
		instance.(assignors.Observer).OnAssigned(made[m.ID], 7)
		m.UserData = instance.(assignors.UserDataProvider).UserData(m.Topics)
		m.Owned, m.Generation = made[m.ID].Partitions, 7
		after.members = append(after.members, m)
	}
	return after
}

// franz returns franz-go's balancer for the group, decoded and ready to be asked.
func (g group) franz(tb testing.TB, balancer kgo.GroupBalancer) kgo.GroupMemberBalancerOrError {
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
		tb.Fatal(err)
	}
	return b.(kgo.GroupMemberBalancerOrError)
}

var shapes = []struct {
	name                        string
	members, topics, partitions int
	mixed                       bool
}{
	{"1 topic", 1000, 1, 10000, false},
	{"100 topics", 1000, 100, 100, false},
	{"1000 topics", 1000, 1000, 10, false},
	{"100 topics, mixed subscriptions", 1000, 100, 100, true},
}

func BenchmarkAssign(b *testing.B) {
	for _, shape := range shapes {
		fresh := newGroup(shape.members, shape.topics, shape.partitions, shape.mixed)
		for _, state := range []struct {
			name string
			group
		}{{"from scratch", fresh}, {"one left", fresh.settled(b)}} {
			for _, kind := range []struct {
				ours   assignors.Assignor
				theirs kgo.GroupBalancer
			}{
				{assignors.Sticky{}, kgo.StickyBalancer()},
				{assignors.CooperativeSticky{}, kgo.CooperativeStickyBalancer()},
			} {
				name := shape.name + "/" + state.name + "/" + kind.ours.Name()
				b.Run(name+"/kafka", func(b *testing.B) {
					in := state.input()
					b.ReportAllocs()
					for b.Loop() {
						if _, err := kind.ours.Assign(in); err != nil {
							b.Fatal(err)
						}
					}
				})
				b.Run(name+"/franz-go", func(b *testing.B) {
					balancer := state.franz(b, kind.theirs)
					b.ReportAllocs()
					for b.Loop() {
						if _, err := balancer.BalanceOrError(state.topics); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

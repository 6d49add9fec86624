package assignors_test

import (
	"fmt"
	"slices"

	"github.com/kafkaconsumer/kafka/assignors"
)

// weighted gives each member a share of the partitions by the weight that the
// member announced, one byte, in its user data.
type weighted struct{ weight byte }

func (weighted) Name() string                    { return "weighted" }
func (weighted) Protocols() []assignors.Protocol { return []assignors.Protocol{assignors.Eager} }
func (w weighted) UserData([]string) []byte      { return []byte{w.weight} }

func (weighted) Assign(in assignors.Input) (assignors.Assignment, error) {
	assignment := make(assignors.Assignment)
	for topic, partitions := range in.Topics {
		var turns []string // each member as often as it weighs
		for _, m := range in.Members {
			if !slices.Contains(m.Topics, topic) {
				continue
			}
			if len(m.UserData) != 1 || m.UserData[0] == 0 {
				return nil, fmt.Errorf("member %s does not tell its weight", m.ID)
			}
			turns = append(turns, slices.Repeat([]string{m.ID}, int(m.UserData[0]))...)
		}
		for i, p := range partitions {
			id := turns[i%len(turns)]
			ma := assignment[id]
			ma.Partitions = append(ma.Partitions, assignors.TopicPartition{Topic: topic, Partition: p.ID})
			assignment[id] = ma
		}
	}
	return assignment, nil
}

// An assignor of one's own. A consumer uses it when it is listed in
// Config.PartitionAssignmentStrategy.
func ExampleAssignor() {
	var assignor assignors.Assignor = weighted{weight: 2}

	assignment, err := assignor.Assign(assignors.Input{
		Members: []assignors.Member{
			{ID: "big", Topics: []string{"orders"}, UserData: []byte{2}},
			{ID: "small", Topics: []string{"orders"}, UserData: []byte{1}},
		},
		Topics: map[string][]assignors.Partition{"orders": {{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}, {ID: 5}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("big:", assignment["big"].Partitions)
	fmt.Println("small:", assignment["small"].Partitions)
	// Output:
	// big: [orders-0 orders-1 orders-3 orders-4]
	// small: [orders-2 orders-5]
}

// One member of two leaves, and another joins in the same rebalance: the new one waits
// for nothing, as nobody reads what it gets any more. When a third joins, what it is to
// get is given up first.
func ExampleCooperativeSticky() {
	in := assignors.Input{Topics: map[string][]assignors.Partition{"orders": {{ID: 0}, {ID: 1}, {ID: 2}}}}
	owned := map[string][]assignors.TopicPartition{
		"a": {{Topic: "orders", Partition: 0}, {Topic: "orders", Partition: 2}}, // "b" had 1, and left
	}
	for round, ids := range [][]string{{"a", "c"}, {"a", "c", "d"}, {"a", "c", "d"}} {
		in.Members = nil
		for _, id := range ids {
			in.Members = append(in.Members, assignors.Member{
				ID: id, Topics: []string{"orders"}, Owned: owned[id], Generation: int32(round),
			})
		}
		assignment, err := assignors.CooperativeSticky{}.Assign(in)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("round", round+1)
		for _, id := range ids {
			owned[id] = assignment[id].Partitions
			fmt.Println(" ", id, owned[id])
		}
	}
	// Output:
	// round 1
	//   a [orders-0 orders-2]
	//   c [orders-1]
	// round 2
	//   a [orders-0]
	//   c [orders-1]
	//   d []
	// round 3
	//   a [orders-0]
	//   c [orders-1]
	//   d [orders-2]
}

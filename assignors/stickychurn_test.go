package assignors

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A churn is a group whose members and topics come and go at random.
type churn struct {
	rnd   *rand.Rand
	equal bool
	names int
	in    Input
}

func newChurn(seed uint64, members, topics, partitionsEach int, equal bool) *churn {
	c := &churn{rnd: rand.New(rand.NewPCG(seed, 54)), equal: equal, in: Input{Topics: make(map[string][]Partition)}}
	for range topics {
		c.addTopic(partitionsEach)
	}
	for range members {
		c.join()
	}
	return c
}

func (c *churn) name(kind string) string {
	c.names++
	return fmt.Sprintf("%s%04d", kind, c.names)
}

func (c *churn) addTopic(most int) { c.in.Topics[c.name("t")] = partitions(1 + c.rnd.IntN(most)) }

func (c *churn) join() {
	c.in.Members = append(c.in.Members, member(c.name("m"), ""))
	c.subscribe(&c.in.Members[len(c.in.Members)-1])
}

func (c *churn) subscribe(m *Member) {
	m.Topics = nil
	for _, topic := range c.topics() {
		if c.equal || c.rnd.IntN(3) > 0 {
			m.Topics = append(m.Topics, topic)
		}
	}
}

// topics gives the names in order, so that a seed always makes the same churn.
func (c *churn) topics() []string { return slices.Sorted(maps.Keys(c.in.Topics)) }

// change lets up to a few members leave and join, and now and then a topic or the
// subscription of a member change.
func (c *churn) change(few int) {
	for range c.rnd.IntN(few + 1) {
		if len(c.in.Members) > 1 {
			at := c.rnd.IntN(len(c.in.Members))
			c.in.Members = slices.Delete(c.in.Members, at, at+1)
		}
	}
	for range c.rnd.IntN(few + 1) {
		c.join()
	}
	switch c.rnd.IntN(4) {
	case 0:
		c.addTopic(8)
	case 1:
		for _, topic := range c.topics() {
			if c.rnd.IntN(len(c.in.Topics)) == 0 {
				c.in.Topics[topic] = partitions(len(c.in.Topics[topic]) + 2)
			}
		}
	}
	for i := range c.in.Members {
		if c.equal || c.rnd.IntN(8) == 0 {
			c.subscribe(&c.in.Members[i])
		}
	}
}

func TestStickyChurnOf200Members(t *testing.T) {
	for _, equal := range []bool{true, false} {
		c := newChurn(200, 200, 40, 16, equal)
		for generation := range int32(12) {
			got, err := Sticky{}.Assign(c.in)
			require.NoError(t, err)
			requireExactlyOnce(t, c.in, got)
			requireNoBetterMove(t, c.in, got)
			if equal {
				requireEven(t, c.in, got, "")
				require.Equal(t, mostKept(c.in), measure(t, c.in, plain(got), holders(c.in)).kept)
			}

			again, err := Sticky{}.Assign(after(t, c.in, got, generation))
			require.NoError(t, err)
			require.Equal(t, got, again, "the same group once more moves nothing")
			c.in = after(t, c.in, got, generation)
			c.change(20)
		}
	}
}

// requireNoBetterMove checks that no partition could move to a member with at least two
// fewer.
func requireNoBetterMove(t *testing.T, in Input, got Assignment) {
	t.Helper()
	least := make(map[string]int) // by topic: the lowest load of its subscribers
	for _, m := range in.Members {
		for _, topic := range m.Topics {
			if load, ok := least[topic]; !ok || len(got[m.ID].Partitions) < load {
				least[topic] = len(got[m.ID].Partitions)
			}
		}
	}
	for id, ma := range got {
		for _, tp := range ma.Partitions {
			if len(ma.Partitions) > least[tp.Topic]+1 {
				require.Fail(t, "a partition could move to a member with fewer", "%s of %s", tp, id)
			}
		}
	}
}

// mostKept is the dumb model of how many partitions can be kept in a balanced
// assignment when all subscriptions are equal.
func mostKept(in Input) (kept int) {
	had := make(map[string]int)
	for _, holder := range holders(in) {
		had[holder]++
	}
	total := 0
	for _, topic := range in.Members[0].Topics {
		total += len(in.Topics[topic])
	}
	share, extras := total/len(in.Members), total%len(in.Members)
	for _, m := range in.Members {
		kept += min(had[m.ID], share)
		if had[m.ID] > share && extras > 0 {
			kept++
			extras--
		}
	}
	return kept
}

// TestCooperativeStickyComesToRest plays the rounds of a cooperative rebalance: members
// give up what they are not assigned, and join again until nothing changes.
func TestCooperativeStickyComesToRest(t *testing.T) {
	for seed := range uint64(60) {
		c := newChurn(seed, 1+int(seed)%12, 1+int(seed)%5, 12, seed%2 == 0)
		generation := int32(0)
		for range 8 {
			rounds := 0
			for moving := true; moving; rounds++ {
				require.Less(t, rounds, 3)
				first, err := CooperativeSticky{}.Assign(c.in)
				require.NoError(t, err)
				requireHandover(t, c.in, first)
				generation++
				next := after(t, c.in, first, generation)
				moving = false
				for i, m := range c.in.Members {
					moving = moving || slices.ContainsFunc(m.Owned, func(tp TopicPartition) bool {
						return len(c.in.Topics[tp.Topic]) > int(tp.Partition) && !slices.Contains(next.Members[i].Owned, tp)
					})
				}
				if !moving {
					requireExactlyOnce(t, c.in, first)
					requireNoBetterMove(t, c.in, first)
				}
				c.in = next
			}
			c.change(4)
		}
	}
}

// TestStickyAgainstAllAssignments compares small groups with unequal subscriptions with
// the best there is.
func TestStickyAgainstAllAssignments(t *testing.T) {
	rnd := rand.New(rand.NewPCG(54, 341))
	less, groups := 0, 3000
	for range groups {
		in := Input{Topics: make(map[string][]Partition)}
		for i := range 2 + rnd.IntN(2) {
			in.Topics[fmt.Sprintf("t%d", i)] = partitions(1 + rnd.IntN(3))
		}
		for i := range 2 + rnd.IntN(3) {
			m := member(fmt.Sprintf("m%d", i), "")
			var claims []string
			for topic, ps := range in.Topics {
				if rnd.IntN(3) == 0 {
					continue
				}
				m.Topics = append(m.Topics, topic)
				for _, p := range ps {
					if rnd.IntN(2) == 0 {
						claims = append(claims, TopicPartition{Topic: topic, Partition: p.ID}.String())
					}
				}
			}
			in.Members = append(in.Members, owning(t, m, int32(rnd.IntN(4)), claims...))
		}
		got, err := Sticky{}.Assign(in)
		require.NoError(t, err)
		requireExactlyOnce(t, in, got)
		var loads []int
		for _, m := range in.Members {
			loads = append(loads, len(got[m.ID].Partitions))
		}
		squares, kept := best(in, holders(in))
		require.Equal(t, squares, sumOfSquares(loads), "%v", in)
		if measure(t, in, plain(got), holders(in)).kept < kept {
			less++
		}
	}
	require.LessOrEqual(t, less, groups/500, "groups in which more could be kept")
}

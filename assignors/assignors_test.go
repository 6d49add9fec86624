package assignors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// all are the assignors of this package.
var all = []Assignor{Range{}, RoundRobin{}, Sticky{}, CooperativeSticky{}}

func member(id, instance string, topics ...string) Member {
	return Member{ID: id, InstanceID: instance, Topics: topics, Generation: -1}
}

func partitions(n int) []Partition {
	ps := make([]Partition, n)
	for i := range ps {
		ps[i].ID = int32(i)
	}
	return ps
}

// plain turns an assignment into text: member id to topic-partition.
func plain(a Assignment) map[string][]string {
	got := make(map[string][]string)
	for id, ma := range a {
		for _, tp := range ma.Partitions {
			got[id] = append(got[id], tp.String())
		}
	}
	return got
}

func TestAssign(t *testing.T) {
	type want = map[string][]string
	tests := []struct {
		name      string
		members   []Member
		topics    map[string][]Partition
		rangeWant want
		robinWant want
	}{
		{
			name: "nobody is in the group", topics: map[string][]Partition{"t": partitions(2)},
			rangeWant: want{}, robinWant: want{},
		},
		{
			name:      "the only member gets all",
			members:   []Member{member("a", "", "t")},
			topics:    map[string][]Partition{"t": partitions(2)},
			rangeWant: want{"a": {"t-0", "t-1"}}, robinWant: want{"a": {"t-0", "t-1"}},
		},
		{
			name:      "a topic that nobody subscribes to is left out",
			members:   []Member{member("a", "", "t")},
			topics:    map[string][]Partition{"t": partitions(1), "other": partitions(3)},
			rangeWant: want{"a": {"t-0"}}, robinWant: want{"a": {"t-0"}},
		},
		{
			name:      "a topic that does not exist gives nothing, and disturbs no turn",
			members:   []Member{member("a", "", "gone", "t"), member("b", "", "gone", "t")},
			topics:    map[string][]Partition{"t": partitions(2)},
			rangeWant: want{"a": {"t-0"}, "b": {"t-1"}}, robinWant: want{"a": {"t-0"}, "b": {"t-1"}},
		},
		{
			name:      "a topic without partitions gives nothing",
			members:   []Member{member("a", "", "empty")},
			topics:    map[string][]Partition{"empty": nil},
			rangeWant: want{}, robinWant: want{},
		},
		{
			name:      "a member without topics gets nothing",
			members:   []Member{member("a", ""), member("b", "", "t")},
			topics:    map[string][]Partition{"t": partitions(2)},
			rangeWant: want{"b": {"t-0", "t-1"}}, robinWant: want{"b": {"t-0", "t-1"}},
		},
		{
			name:      "with more members than partitions the last get nothing",
			members:   []Member{member("a", "", "t"), member("b", "", "t"), member("c", "", "t")},
			topics:    map[string][]Partition{"t": partitions(2)},
			rangeWant: want{"a": {"t-0"}, "b": {"t-1"}}, robinWant: want{"a": {"t-0"}, "b": {"t-1"}},
		},
		{
			name:      "two topics: range deals out each by itself, round robin goes on",
			members:   []Member{member("a", "", "t", "u"), member("b", "", "t", "u")},
			topics:    map[string][]Partition{"t": partitions(3), "u": partitions(3)},
			rangeWant: want{"a": {"t-0", "t-1", "u-0", "u-1"}, "b": {"t-2", "u-2"}},
			robinWant: want{"a": {"t-0", "t-2", "u-1"}, "b": {"t-1", "u-0", "u-2"}},
		},
		{
			// The leader of kafka-python 3.0.12 ends in a KeyError here.
			name:      "unequal subscriptions",
			members:   []Member{member("c0", "", "t0"), member("c1", "", "t0", "t1"), member("c2", "", "t0", "t1", "t2")},
			topics:    map[string][]Partition{"t0": partitions(1), "t1": partitions(2), "t2": partitions(3)},
			rangeWant: want{"c0": {"t0-0"}, "c1": {"t1-0"}, "c2": {"t1-1", "t2-0", "t2-1", "t2-2"}},
			robinWant: want{"c0": {"t0-0"}, "c1": {"t1-0"}, "c2": {"t1-1", "t2-0", "t2-1", "t2-2"}},
		},
		{
			// kafka-python 3.0.12 loses a member here: it gets nothing.
			name: "static and dynamic members interleave",
			members: []Member{
				member("a", "", "t"), member("b", "i2", "t"), member("c", "", "t"), member("d", "i1", "t"),
			},
			topics:    map[string][]Partition{"t": partitions(6)},
			rangeWant: want{"d": {"t-0", "t-1"}, "b": {"t-2", "t-3"}, "a": {"t-4"}, "c": {"t-5"}},
			robinWant: want{"d": {"t-0", "t-4"}, "b": {"t-1", "t-5"}, "a": {"t-2"}, "c": {"t-3"}},
		},
		{
			name:      "ids are ordered by UTF-16 units, as Java orders them",
			members:   []Member{member("\uff21", "", "t"), member("\U0001f600", "", "t")},
			topics:    map[string][]Partition{"t": partitions(1)},
			rangeWant: want{"\U0001f600": {"t-0"}}, robinWant: want{"\U0001f600": {"t-0"}},
		},
		{
			name:      "an input that repeats itself gives each partition once",
			members:   []Member{member("a", "", "t", "t"), member("b", "", "t")},
			topics:    map[string][]Partition{"t": append(partitions(2), partitions(2)...)},
			rangeWant: want{"a": {"t-0"}, "b": {"t-1"}}, robinWant: want{"a": {"t-0"}, "b": {"t-1"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for a, want := range map[Assignor]want{Range{}: tt.rangeWant, RoundRobin{}: tt.robinWant} {
				got, err := a.Assign(Input{Members: tt.members, Topics: tt.topics})
				require.NoError(t, err)
				require.Equal(t, want, plain(got), a.Name())
			}
		})
	}
}

// randomInput makes a group of up to 12 members.
func randomInput(rnd *rand.Rand, equal bool) Input {
	in := Input{Topics: make(map[string][]Partition)}
	var names []string
	for i := range 1 + rnd.IntN(6) {
		name := fmt.Sprintf("topic%d", i)
		names = append(names, name)
		if rnd.IntN(6) > 0 {
			in.Topics[name] = partitions(rnd.IntN(10))
		}
	}
	for i := range 1 + rnd.IntN(12) {
		m := member(fmt.Sprintf("member-%d-%d", rnd.IntN(1000), i), "")
		if rnd.IntN(3) == 0 {
			m.InstanceID = fmt.Sprintf("instance-%d", (i*7)%12)
		}
		for _, name := range names {
			if equal || rnd.IntN(2) == 0 {
				m.Topics = append(m.Topics, name)
			}
		}
		in.Members = append(in.Members, m)
	}
	return in
}

// shuffled returns the same input in another order.
func shuffled(rnd *rand.Rand, in Input) Input {
	out := Input{Members: slices.Clone(in.Members), Topics: make(map[string][]Partition)}
	shuffle(rnd, out.Members)
	for i := range out.Members {
		out.Members[i].Topics = slices.Clone(out.Members[i].Topics)
		shuffle(rnd, out.Members[i].Topics)
	}
	for topic, ps := range in.Topics {
		out.Topics[topic] = slices.Clone(ps)
		shuffle(rnd, out.Topics[topic])
	}
	return out
}

func shuffle[T any](rnd *rand.Rand, s []T) {
	rnd.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

func TestEachPartitionHasExactlyOneSubscriber(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		in := randomInput(rnd, rnd.IntN(2) == 0)
		for _, a := range all {
			got, err := a.Assign(in)
			require.NoError(t, err)
			requireExactlyOnce(t, in, got)
		}
	}
}

func requireExactlyOnce(t *testing.T, in Input, got Assignment) {
	t.Helper()
	left := make(map[TopicPartition]bool)
	subscribed := make(map[string][]string)
	for _, m := range in.Members {
		subscribed[m.ID] = m.Topics
		for _, topic := range m.Topics {
			for _, p := range in.Topics[topic] {
				left[TopicPartition{Topic: topic, Partition: p.ID}] = true
			}
		}
	}
	for id, ma := range got {
		require.NotEmpty(t, ma.Partitions, "an entry without partitions")
		for _, tp := range ma.Partitions {
			if !left[tp] || !slices.Contains(subscribed[id], tp.Topic) {
				require.Fail(t, "a partition is given twice, or to a member that does not subscribe to it", "%s to %s", tp, id)
			}
			delete(left, tp)
		}
	}
	require.Empty(t, left)
}

func TestEqualSubscriptionsAreBalanced(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		in := randomInput(rnd, true)
		byRange, err := Range{}.Assign(in)
		require.NoError(t, err)
		for topic := range in.Topics {
			requireEven(t, in, byRange, topic)
		}
		for _, a := range all[1:] {
			together, err := a.Assign(in)
			require.NoError(t, err)
			requireEven(t, in, together, "")
		}
	}
}

// requireEven checks that members' counts, of one topic or of all, differ by at
// most one.
func requireEven(t *testing.T, in Input, got Assignment, topic string) {
	t.Helper()
	fewest, most := 1<<30, 0
	for _, m := range in.Members {
		n := 0
		for _, tp := range got[m.ID].Partitions {
			if topic == "" || tp.Topic == topic {
				n++
			}
		}
		fewest, most = min(fewest, n), max(most, n)
	}
	require.LessOrEqual(t, most-fewest, 1)
}

func TestRangeGivesNeighbours(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		got, err := Range{}.Assign(randomInput(rnd, false))
		require.NoError(t, err)
		for _, ma := range got {
			for i, tp := range ma.Partitions[1:] {
				if before := ma.Partitions[i]; before.Topic == tp.Topic {
					require.Equal(t, before.Partition+1, tp.Partition)
				}
			}
		}
	}
}

func TestOrderOfInputDoesNotMatter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 5 {
		in := randomInput(rnd, false)
		for _, a := range all {
			want, err := a.Assign(in)
			require.NoError(t, err)
			for range 1000 {
				other := shuffled(rnd, in)
				kept := shuffled(rnd, other)
				kept.Members, kept.Topics = slices.Clone(other.Members), other.Topics
				got, err := a.Assign(other)
				require.NoError(t, err)
				require.Equal(t, want, got, a.Name())
				require.Equal(t, kept, other, "the input was changed")
			}
		}
	}
}

func TestMembersAreOrderedTheSameWhateverTheirIDsHold(t *testing.T) {
	pieces := []string{"", "a", "b", "\xff", "\xfe", "\ufffd", "\uff21", "\U0001f600", "é"}
	rnd := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		var members []Member
		for range 8 {
			id := pieces[rnd.IntN(len(pieces))] + pieces[rnd.IntN(len(pieces))] + pieces[rnd.IntN(len(pieces))]
			members = append(members, member(id, ""))
		}
		want := sortedMembers(members)
		shuffle(rnd, members)
		require.Equal(t, want, sortedMembers(members))
	}
}

func TestNamesAndProtocols(t *testing.T) {
	names := []string{"range", "roundrobin", "sticky", "cooperative-sticky"}
	protocols := [][]Protocol{{Eager}, {Eager}, {Eager}, {Cooperative, Eager}}
	for i, a := range all {
		require.Equal(t, names[i], a.Name())
		require.Equal(t, protocols[i], a.Protocols(), a.Name())
	}
}

// FuzzAssign feeds all assignors with whatever members of other clients might
// claim: nothing panics, and each partition is given exactly once.
func FuzzAssign(f *testing.F) {
	f.Add("a,b", "x,,y", "t u", uint8(3))
	f.Add("a,a", "", "t", uint8(1))
	f.Fuzz(func(t *testing.T, ids, instances, topics string, n uint8) {
		in := Input{Topics: make(map[string][]Partition)}
		names := strings.Fields(topics)
		for i, name := range names {
			if i%4 != 3 {
				in.Topics[name] = partitions(int(n) >> (i % 4))
			}
		}
		instanceIDs := strings.Split(instances, ",")
		seen := make(map[string]bool)
		for i, id := range strings.Split(ids, ",") {
			if seen[id] {
				continue
			}
			seen[id] = true
			in.Members = append(in.Members, member(id, instanceIDs[i%len(instanceIDs)], names[i%(len(names)+1):]...))
		}
		for _, a := range all {
			got, err := a.Assign(in)
			require.NoError(t, err)
			requireExactlyOnce(t, in, got)
		}
	})
}

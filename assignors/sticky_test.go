package assignors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// owning lets a member claim partitions, in its subscription and in its user data.
func owning(t *testing.T, m Member, generation int32, claims ...string) Member {
	t.Helper()
	m.Owned = nil
	for _, text := range claims {
		m.Owned = append(m.Owned, parsed(t, text))
	}
	m.Generation = generation
	m.UserData = appendStickyData(nil, m.Owned, generation)
	return m
}

// after returns the group when its members have what they were assigned.
func after(t *testing.T, in Input, a Assignment, generation int32) Input {
	t.Helper()
	next := Input{Members: slices.Clone(in.Members), Topics: in.Topics}
	for i, m := range next.Members {
		next.Members[i] = owning(t, m, generation, plain(a)[m.ID]...)
	}
	return next
}

// B52
func TestStickyAssign(t *testing.T) {
	type want = map[string][]string
	tests := []struct {
		name    string
		members []Member
		topics  map[string][]Partition
		want    want
		first   want // what the cooperative one assigns in the first round; nil: the same
	}{
		{
			name:    "nobody had anything: partitions are dealt in turns, over topics",
			members: []Member{member("a", "", "t", "u"), member("b", "", "t", "u")},
			topics:  map[string][]Partition{"t": partitions(3), "u": partitions(3)},
			want:    want{"a": {"t-0", "t-2", "u-1"}, "b": {"t-1", "u-0", "u-2"}},
		},
		{
			name: "what is balanced stays as it is",
			members: []Member{
				owning(t, member("a", "", "t"), 3, "t-1", "t-3"), owning(t, member("b", "", "t"), 3, "t-2", "t-0"),
			},
			topics: map[string][]Partition{"t": partitions(4)},
			want:   want{"a": {"t-1", "t-3"}, "b": {"t-0", "t-2"}},
		},
		{
			name: "a new member gets its share, the others keep the rest",
			members: []Member{
				owning(t, member("a", "", "t"), 3, "t-0", "t-1", "t-2"),
				owning(t, member("b", "", "t"), 3, "t-3", "t-4", "t-5"),
				member("c", "", "t"),
			},
			topics: map[string][]Partition{"t": partitions(6)},
			want:   want{"a": {"t-0", "t-1"}, "b": {"t-3", "t-4"}, "c": {"t-2", "t-5"}},
			first:  want{"a": {"t-0", "t-1"}, "b": {"t-3", "t-4"}},
		},
		{
			name: "what a member had that left goes to the others, at once",
			members: []Member{
				owning(t, member("a", "", "t"), 3, "t-0", "t-1"), owning(t, member("b", "", "t"), 3, "t-2", "t-3"),
			},
			topics: map[string][]Partition{"t": partitions(6)},
			want:   want{"a": {"t-0", "t-1", "t-4"}, "b": {"t-2", "t-3", "t-5"}},
		},
		{
			name: "a member with one more than others keeps it when somebody must have one more",
			members: []Member{
				owning(t, member("a", "", "t"), 3, "t-0"), owning(t, member("b", "", "t"), 3, "t-1", "t-2"),
			},
			topics: map[string][]Partition{"t": partitions(3)},
			want:   want{"a": {"t-0"}, "b": {"t-1", "t-2"}},
		},
		{
			name: "what is given up is of the topic of which the member had most",
			members: []Member{
				owning(t, member("a", "", "t", "u"), 3, "t-0", "u-0", "u-1", "u-2", "u-3"),
				owning(t, member("b", "", "t", "u"), 3, "t-1"),
			},
			topics: map[string][]Partition{"t": partitions(2), "u": partitions(4)},
			want:   want{"a": {"t-0", "u-0", "u-1"}, "b": {"t-1", "u-2", "u-3"}},
			first:  want{"a": {"t-0", "u-0", "u-1"}, "b": {"t-1"}},
		},
		{
			name: "of two claims the one of the higher generation holds, in either order",
			members: []Member{
				owning(t, member("a", "", "t"), 5, "t-0"), owning(t, member("b", "", "t"), 4, "t-0", "t-1", "t-2"),
				owning(t, member("c", "", "t"), 6, "t-2"),
			},
			topics: map[string][]Partition{"t": partitions(3)},
			want:   want{"a": {"t-0"}, "b": {"t-1"}, "c": {"t-2"}},
		},
		{
			name: "of two claims of the same generation none holds, whoever else claims with a lower one",
			members: []Member{
				owning(t, member("a", "", "t"), 5, "t-1", "t-2"), owning(t, member("b", "", "t"), 5, "t-1", "t-3"),
				owning(t, member("c", "", "t"), 4, "t-1"), member("d", "", "t"),
			},
			topics: map[string][]Partition{"t": partitions(4)},
			want:   want{"a": {"t-2"}, "b": {"t-3"}, "c": {"t-0"}, "d": {"t-1"}},
			first:  want{"a": {"t-2"}, "b": {"t-3"}, "c": {"t-0"}},
		},
		{
			name: "a partition that two claim with the same generation is withheld even from one of them",
			members: []Member{
				owning(t, member("a", "", "t"), 5, "t-0"), owning(t, member("b", "", "t"), 5, "t-0", "t-1"),
			},
			topics: map[string][]Partition{"t": partitions(2)},
			want:   want{"a": {"t-0"}, "b": {"t-1"}},
			first:  want{"b": {"t-1"}},
		},
		{
			name: "a claim made twice by one member is one claim",
			members: []Member{
				member("a", "", "t"), owning(t, member("b", "", "t"), 5, "t-0", "t-0"),
			},
			topics: map[string][]Partition{"t": partitions(2)},
			want:   want{"a": {"t-1"}, "b": {"t-0"}},
		},
		{
			name: "claims of topics and partitions that do not exist are passed over",
			members: []Member{
				owning(t, member("a", "", "gone", "t"), 5, "gone-0", "t-7", "t--1"), member("b", "", "t"),
			},
			topics: map[string][]Partition{"t": partitions(2)},
			want:   want{"a": {"t-0"}, "b": {"t-1"}},
		},
		{
			name: "a claim of a topic that the member gave up does not hold, but it may still read it",
			members: []Member{
				owning(t, member("a", "", "u"), 5, "t-0"), member("b", "", "t"),
			},
			topics: map[string][]Partition{"t": partitions(2), "u": partitions(1)},
			want:   want{"a": {"u-0"}, "b": {"t-0", "t-1"}},
			first:  want{"a": {"u-0"}, "b": {"t-1"}},
		},
		{
			name: "such a claim is no older than the one that holds: the partition is withheld",
			members: []Member{
				owning(t, member("a", "", "u"), 6, "t-0"), owning(t, member("b", "", "t"), 5, "t-0", "t-1"),
			},
			topics: map[string][]Partition{"t": partitions(2), "u": partitions(1)},
			want:   want{"a": {"u-0"}, "b": {"t-0", "t-1"}},
			first:  want{"a": {"u-0"}, "b": {"t-1"}},
		},
		{
			// The balance that Kafka's own description of this assignor shows (KIP-54).
			name: "unequal subscriptions: a member with more passes on what others can read",
			members: []Member{
				owning(t, member("b", "", "t0", "t1"), 2, "t0-0", "t1-0"),
				owning(t, member("c", "", "t0", "t1", "t2"), 2, "t1-1", "t2-0", "t2-1", "t2-2"),
			},
			topics: map[string][]Partition{"t0": partitions(1), "t1": partitions(2), "t2": partitions(3)},
			want:   want{"b": {"t0-0", "t1-0", "t1-1"}, "c": {"t2-0", "t2-1", "t2-2"}},
			first:  want{"b": {"t0-0", "t1-0"}, "c": {"t2-0", "t2-1", "t2-2"}},
		},
		{
			name: "unequal subscriptions: the load passes through a member between",
			members: []Member{
				owning(t, member("a", "", "t"), 2, "t-0", "t-1", "t-2"),
				owning(t, member("b", "", "t", "u"), 2, "u-0", "u-1"),
				owning(t, member("c", "", "u"), 2, "u-2"),
			},
			topics: map[string][]Partition{"t": partitions(3), "u": partitions(3)},
			want:   want{"a": {"t-0", "t-1"}, "b": {"t-2", "u-0"}, "c": {"u-1", "u-2"}},
			first:  want{"a": {"t-0", "t-1"}, "b": {"u-0"}, "c": {"u-2"}},
		},
		{
			name:    "partition ids need not begin at 0 nor be in order",
			members: []Member{owning(t, member("a", "", "t"), 1, "t-9"), member("b", "", "t")},
			topics:  map[string][]Partition{"t": {{ID: 9}, {ID: 4}, {ID: 9}, {ID: 5}}},
			want:    want{"a": {"t-5", "t-9"}, "b": {"t-4"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := Input{Members: tt.members, Topics: tt.topics}
			got, err := Sticky{}.Assign(in)
			require.NoError(t, err)
			require.Equal(t, tt.want, plain(got))
			if tt.first == nil {
				tt.first = tt.want
			}
			first, err := CooperativeSticky{}.Assign(in)
			require.NoError(t, err)
			require.Equal(t, tt.first, plain(first))
		})
	}
}

func TestCooperativeStickyTakesTheGenerationFromWhereItIs(t *testing.T) {
	claims := func(generation int32, userData string) Member {
		m := owning(t, member("b", "", "t"), generation, "t-0", "t-1")
		m.UserData = []byte(userData)
		return m
	}
	rival := owning(t, member("a", "", "t"), 5, "t-0")
	tests := []struct {
		name string
		m    Member
		wins bool
	}{
		{"of the subscription", claims(6, ""), true},
		{"of the subscription, whatever the user data says", claims(4, "\x00\x00\x00\x06"), false},
		{"of the user data, below version 2 of the subscription", claims(-1, "\x00\x00\x00\x06"), true},
		{"of the user data, with more behind", claims(-1, "\x00\x00\x00\x06..."), true},
		{"of user data that is cut", claims(-1, "\x00\x00\x06"), false},
		{"of nowhere", claims(-1, ""), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			topics := map[string][]Partition{"t": partitions(2)}
			got, err := CooperativeSticky{}.Assign(Input{Members: []Member{rival, tt.m, member("c", "", "t")}, Topics: topics})
			require.NoError(t, err)
			if tt.wins {
				require.Equal(t, map[string][]string{"b": {"t-0"}}, plain(got))
			} else {
				require.Equal(t, map[string][]string{"a": {"t-0"}, "b": {"t-1"}}, plain(got))
			}
		})
	}
}

// Eager and cooperative members are in one group while it changes over: the eager
// ones own nothing when they join.
func TestCooperativeStickyWithMembersThatGaveUpAll(t *testing.T) {
	in := Input{
		Members: []Member{
			owning(t, member("a", "", "t"), 5, "t-0", "t-1", "t-2"),
			member("b", "", "t"),
			owning(t, member("c", "", "t"), -1, "t-3"), // a subscription of version 1
		},
		Topics: map[string][]Partition{"t": partitions(6)},
	}
	got, err := CooperativeSticky{}.Assign(in)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"a": {"t-0", "t-1"}, "b": {"t-5"}, "c": {"t-3", "t-4"}}, plain(got))
}

// Several consumers of one process use the same Config (B51).
func TestStickyStateIsPerConsumer(t *testing.T) {
	configured := Sticky{}
	first, second := configured.NewInstance(), configured.NewInstance()
	require.Equal(t, "sticky", first.Name())
	require.Nil(t, first.(UserDataProvider).UserData([]string{"t"}), "it was assigned nothing so far")

	mine := []TopicPartition{{Topic: "t", Partition: 3}, {Topic: "t", Partition: 1}}
	first.(Observer).OnAssigned(MemberAssignment{Partitions: mine}, 7)
	mine[0].Partition = 9
	second.(Observer).OnAssigned(MemberAssignment{Partitions: []TopicPartition{{Topic: "u"}}}, 8)

	require.Equal(t, "\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x07",
		string(first.(UserDataProvider).UserData([]string{"t"})))
	require.Equal(t, "\x00\x00\x00\x01\x00\x01u\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x08",
		string(second.(UserDataProvider).UserData([]string{"u"})))

	first.(Observer).OnAssigned(MemberAssignment{}, 9)
	require.Equal(t, "\x00\x00\x00\x00\x00\x00\x00\x09", string(first.(UserDataProvider).UserData(nil)))
}

func TestCooperativeStickyStateIsPerConsumer(t *testing.T) {
	first, second := CooperativeSticky{}.NewInstance(), CooperativeSticky{}.NewInstance()
	first.(Observer).OnAssigned(MemberAssignment{}, 7)
	require.Equal(t, []byte{0, 0, 0, 7}, first.(UserDataProvider).UserData(nil))
	require.Equal(t, []byte{0xff, 0xff, 0xff, 0xff}, second.(UserDataProvider).UserData(nil))
}

// Twelve consumers with different topics, of which some come and go (B51): what they
// say through their instances never claims a partition twice.
func TestStickyInstancesTellTheTruth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(51, 51))
	topics := make(map[string][]Partition)
	for i := range 5 {
		topics[fmt.Sprintf("t%d", i)] = partitions(4)
	}
	type consumer struct {
		id       string
		topics   []string
		instance Assignor
	}
	var consumers []consumer
	join := func(n int) {
		c := consumer{id: fmt.Sprintf("c%02d", n), instance: Sticky{}.NewInstance()}
		for i := range 5 {
			if (n+i)%3 > 0 {
				c.topics = append(c.topics, fmt.Sprintf("t%d", i))
			}
		}
		consumers = append(consumers, c)
	}
	for n := range 12 {
		join(n)
	}
	for generation := range int32(10) {
		in := Input{Topics: topics}
		for _, c := range consumers {
			m := member(c.id, "", c.topics...)
			m.UserData = c.instance.(UserDataProvider).UserData(c.topics)
			in.Members = append(in.Members, m)
		}
		claims := make(map[string]string)
		for _, m := range in.Members {
			for text, claimed := range decoded(t, m.UserData) {
				require.Equal(t, generation-1, claimed, m.ID)
				require.Empty(t, claims[text], text)
				claims[text] = m.ID
			}
		}
		got, err := consumers[0].instance.Assign(in)
		require.NoError(t, err)
		requireExactlyOnce(t, in, got)
		for _, c := range consumers {
			c.instance.(Observer).OnAssigned(got[c.id], generation)
		}
		gone := rnd.IntN(len(consumers))
		consumers = slices.Delete(consumers, gone, gone+1)
		join(12 + int(generation))
	}
}

// Two topics of 18 partitions and nine members; one comes, one leaves (B50).
func TestStickyNineMembers(t *testing.T) {
	in := Input{Topics: map[string][]Partition{"t": partitions(18), "u": partitions(18)}}
	for i := range 9 {
		in.Members = append(in.Members, member(fmt.Sprintf("m%d", i), "", "t", "u"))
	}
	step := func(kept int) {
		got, err := Sticky{}.Assign(in)
		require.NoError(t, err)
		requireExactlyOnce(t, in, got)
		requireEven(t, in, got, "")
		requireEven(t, in, got, "t")
		requireEven(t, in, got, "u")
		require.Equal(t, kept, measure(t, in, plain(got), holders(in)).kept)
		in = after(t, in, got, 1)
	}
	step(0)
	step(36)
	in.Members = append(in.Members, member("m9", "", "t", "u"))
	step(33) // ten members: the new one gets three
	in.Members = slices.Delete(in.Members, 4, 5)
	step(32) // nine again: all that m4 had finds room
}

func TestStickyLeavesScarceRacksToThoseWhoNeedThem(t *testing.T) {
	in := Input{
		Members: []Member{member("a", "", "t"), member("b", "", "t"), member("c", "", "t")},
		Topics:  map[string][]Partition{"t": partitions(3)},
	}
	in.Members[0].Rack, in.Members[1].Rack, in.Members[2].Rack = "x", "y", "y"
	in.Topics["t"][0].Racks = []string{"x", "y"}
	in.Topics["t"][1].Racks = []string{"x"}
	in.Topics["t"][2].Racks = []string{"y"}
	got, err := Sticky{}.Assign(in)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"a": {"t-1"}, "b": {"t-0"}, "c": {"t-2"}}, plain(got))
}

func TestStickyUsesRacksBetweenEquals(t *testing.T) {
	near := func(racks ...string) []Partition {
		ps := partitions(len(racks))
		for i, rack := range racks {
			ps[i].Racks = []string{rack}
		}
		return ps
	}
	in := func(mixed bool, topics map[string][]Partition, members ...Member) Input {
		if mixed { // a member that reads another topic calls for the other algorithm
			members = append(members, member("z", "", "other"))
			topics["other"] = partitions(1)
		}
		for i := range members {
			if members[i].ID != "z" {
				members[i].Rack = "rack-" + members[i].ID
			}
		}
		return Input{Members: members, Topics: topics}
	}
	for _, mixed := range []bool{false, true} {
		got, err := Sticky{}.Assign(in(mixed, map[string][]Partition{"t": near("rack-b", "rack-a", "rack-b", "rack-a")},
			member("a", "", "t"), member("b", "", "t")))
		require.NoError(t, err)
		require.Equal(t, []string{"t-1", "t-3"}, plain(got)["a"], "members get what is near")

		got, err = Sticky{}.Assign(in(mixed, map[string][]Partition{"t": near("rack-b", "rack-b", "rack-b", "")},
			member("a", "", "t"), member("b", "", "t")))
		require.NoError(t, err)
		require.Len(t, plain(got)["a"], 2, "the balance counts for more")

		got, err = Sticky{}.Assign(in(mixed, map[string][]Partition{"t": near("rack-b", "rack-a")},
			owning(t, member("a", "", "t"), 1, "t-0"), owning(t, member("b", "", "t"), 1, "t-1")))
		require.NoError(t, err)
		require.Equal(t, []string{"t-0"}, plain(got)["a"], "what a member has counts for more")

		got, err = Sticky{}.Assign(in(mixed, map[string][]Partition{"t": near("rack-b", "rack-a", "rack-b", "rack-a")},
			owning(t, member("a", "", "t"), 1, "t-0", "t-1", "t-2", "t-3"), member("b", "", "t")))
		require.NoError(t, err)
		require.Equal(t, []string{"t-1", "t-3"}, plain(got)["a"], "a member gives up what is far")
	}
}

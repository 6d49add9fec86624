package assignors

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// decoded reads user data: partition to the generation of the claim.
func decoded(t *testing.T, data []byte) map[string]int32 {
	t.Helper()
	claims := make(map[string]int32)
	generation, ok := stickyGeneration(data)
	if !ok {
		return claims
	}
	eachStickyTopic(data, func(topic, ids []byte) {
		for ; len(ids) > 0; ids = ids[4:] {
			tp := TopicPartition{Topic: string(topic), Partition: int32(binary.BigEndian.Uint32(ids))}
			claims[tp.String()] = generation
		}
	})
	return claims
}

func TestStickyData(t *testing.T) {
	const v0 = "\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01"
	tests := []struct {
		name, data string
		want       map[string]int32
	}{
		{"none", "", map[string]int32{}},
		{"version 0, without a generation", v0, map[string]int32{"t-0": -1, "t-1": -1}},
		{"version 1", v0 + "\x00\x00\x00\x07", map[string]int32{"t-0": 7, "t-1": 7}},
		{"version 1, cut in the generation", v0 + "\x00\x00\x07", map[string]int32{"t-0": -1, "t-1": -1}},
		{"a later version, with more behind", v0 + "\x00\x00\x00\x07more", map[string]int32{"t-0": 7, "t-1": 7}},
		{"a generation that cannot be", v0 + "\x80\x00\x00\x00", map[string]int32{"t-0": -1, "t-1": -1}},
		{"cut in the partitions", v0[:len(v0)-1], map[string]int32{}},
		{"cut in the name", "\x00\x00\x00\x01\x00\x05t\x00\x00\x00\x00", map[string]int32{}},
		{"more topics than there are", "\x7f\xff\xff\xff", map[string]int32{}},
		{"fewer topics than none", "\xff\xff\xff\xff\x00\x00\x00\x01", map[string]int32{}},
		{"more partitions than there are", "\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff", map[string]int32{}},
		{"fewer partitions than none", "\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff", map[string]int32{}},
		{"a name that is null", "\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00", map[string]int32{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, decoded(t, []byte(tt.data)))
		})
	}
}

// B52
func TestStickyDataCutAnywhere(t *testing.T) {
	whole := owning(t, member("a", "", "t", "u"), 4, "t-0", "t-1", "u-0")
	other := owning(t, member("b", "", "t", "u"), 3, "t-0", "u-1")
	topics := map[string][]Partition{"t": partitions(3), "u": partitions(2)}
	for n := range whole.UserData {
		cut := whole
		cut.UserData = whole.UserData[:n]
		in := Input{Members: []Member{cut, other}, Topics: topics}
		got, err := Sticky{}.Assign(in)
		require.NoError(t, err)
		requireExactlyOnce(t, in, got)
		require.Subset(t, plain(got)["b"], []string{"t-0", "u-1"}, "the other's claims hold")
	}
}

// FuzzStickyData feeds the sticky assignors with whatever members of other clients
// might send: nothing panics, each partition is given exactly once, evenly.
func FuzzStickyData(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x07"), []byte{}, int32(3))
	f.Add([]byte("\x00\x00\x00\x02\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x00\x01u\x00\x00\x00\x01\x00\x00\x00\x03"), []byte("\x00\x00"), int32(-1))
	f.Fuzz(func(t *testing.T, one, two []byte, generation int32) {
		for _, topics := range [][]string{{"t", "u"}, {"u"}} {
			in := Input{
				Members: []Member{member("a", "", "t", "u"), member("b", "", topics...), member("c", "", topics...)},
				Topics:  map[string][]Partition{"t": partitions(3), "u": partitions(5)},
			}
			in.Members[0].UserData, in.Members[1].UserData = one, two
			in.Members[0].Generation = generation
			for i, m := range in.Members {
				eachStickyTopic(m.UserData, func(topic, ids []byte) {
					for ; len(ids) > 0; ids = ids[4:] {
						tp := TopicPartition{Topic: string(topic), Partition: int32(binary.BigEndian.Uint32(ids))}
						in.Members[i].Owned = append(in.Members[i].Owned, tp)
					}
				})
			}
			got, err := Sticky{}.Assign(in)
			require.NoError(t, err)
			requireExactlyOnce(t, in, got)
			requireEven(t, in, got, "")

			first, err := CooperativeSticky{}.Assign(in)
			require.NoError(t, err)
			requireHandover(t, in, first)
		}
	})
}

// requireHandover checks that a partition which another member claims is assigned to
// nobody, unless the claim is older than the assigned member's own.
func requireHandover(t *testing.T, in Input, first Assignment) {
	t.Helper()
	for _, m := range in.Members {
		for _, tp := range first[m.ID].Partitions {
			for _, other := range in.Members {
				if other.ID == m.ID || !slices.Contains(other.Owned, tp) {
					continue
				}
				require.Contains(t, m.Owned, tp, "%s moves to %s at once", tp, m.ID)
				require.Greater(t, cooperativeGeneration(&m), cooperativeGeneration(&other), "%s has two owners", tp)
			}
		}
	}
}

package group

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func tps(topic string, partitions ...int32) []TopicPartition {
	var out []TopicPartition
	for _, p := range partitions {
		out = append(out, TopicPartition{Topic: topic, Partition: p})
	}
	return out
}

func TestSubscriptionIsReadByAnIndependentDecoder(t *testing.T) {
	s := Subscription{
		Topics: []string{"a", "b"}, UserData: []byte{1, 2}, Generation: 7, Rack: "r1",
		Owned: append(tps("a", 0, 2), tps("b", 1)...),
	}
	var m kmsg.ConsumerMemberMetadata
	require.NoError(t, m.ReadFrom(s.AppendTo(nil)))
	require.Equal(t, int16(3), m.Version)
	require.Equal(t, s.Topics, m.Topics)
	require.Equal(t, s.UserData, m.UserData)
	require.Equal(t, int32(7), m.Generation)
	require.Equal(t, "r1", *m.Rack)
	require.Len(t, m.OwnedPartitions, 2)
	require.Equal(t, []int32{0, 2}, m.OwnedPartitions[0].Partitions)

	back, err := DecodeSubscription(s.AppendTo(nil))
	require.NoError(t, err)
	require.Equal(t, s, back)
}

func TestSubscriptionOfOtherClients(t *testing.T) {
	owned := kmsg.ConsumerMemberMetadataOwnedPartition{Topic: "t", Partitions: []int32{3}}
	member := kmsg.ConsumerMemberMetadata{
		Topics: []string{"t"}, UserData: []byte("u"), Generation: 4,
		OwnedPartitions: []kmsg.ConsumerMemberMetadataOwnedPartition{owned},
	}
	for version := int16(0); version <= 3; version++ {
		member.Version = version
		s, err := DecodeSubscription(member.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, []string{"t"}, s.Topics)
		require.Equal(t, []byte("u"), s.UserData)
		require.Equal(t, version >= 1, len(s.Owned) == 1)
		require.Equal(t, map[bool]int32{true: 4, false: -1}[version >= 2], s.Generation)
	}
	for _, tt := range []struct {
		name, bytes string
		want        Subscription
		fails       bool
	}{
		{"a version to come is read as the newest known one", "0009 00000001 000174 ffffffff 00000000 00000005 0000 beef",
			Subscription{Topics: []string{"t"}, Generation: 5}, false},
		{"null topics are none", "0000 ffffffff ffffffff", Subscription{Generation: -1}, false},
		{"v1 without its owned partitions", "0001 00000001 000174 ffffffff", Subscription{Topics: []string{"t"}, Generation: -1}, false},
		{"nothing at all", "", Subscription{}, true},
		{"a negative version", "ffff 00000000 ffffffff", Subscription{}, true},
		{"more topics than bytes", "0000 7fffffff 000174", Subscription{}, true},
		{"a negative count", "0000 fffffffe ffffffff", Subscription{}, true},
		{"a null topic", "0000 00000001 ffff ffffffff", Subscription{}, true},
		{"user data that is cut", "0000 00000000 00000009 01", Subscription{}, true},
		{"a negative partition", "0001 00000000 ffffffff 00000001 000174 00000001 80000000", Subscription{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := hex.DecodeString(removeSpaces(tt.bytes))
			require.NoError(t, err)
			s, err := DecodeSubscription(b)
			if tt.fails {
				var blob *BlobError
				require.ErrorAs(t, err, &blob)
				require.Equal(t, Subscription{Generation: -1}, s)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, s)
		})
	}
}

func TestAssignment(t *testing.T) {
	a := Assignment{Partitions: append(tps("a", 1, 0), tps("b", 0)...), UserData: []byte("x")}
	var m kmsg.ConsumerMemberAssignment
	require.NoError(t, m.ReadFrom(a.AppendTo(nil)))
	require.Equal(t, int16(0), m.Version)
	require.Equal(t, []int32{1, 0}, m.Topics[0].Partitions)
	back, err := DecodeAssignment(a.AppendTo(nil))
	require.NoError(t, err)
	require.Equal(t, a, back)

	empty, err := DecodeAssignment(nil)
	require.NoError(t, err, "leaders send no bytes to members without partitions")
	require.Empty(t, empty.Partitions)

	double, err := DecodeAssignment((&Assignment{Partitions: tps("a", 1, 1)}).AppendTo(nil))
	require.NoError(t, err)
	require.Equal(t, tps("a", 1), double.Partitions)
}

func TestBlobsCutAtEveryByte(t *testing.T) {
	s := Subscription{Topics: []string{"topic"}, UserData: []byte{1}, Owned: tps("topic", 1), Generation: 1, Rack: "r"}
	whole := s.AppendTo(nil)
	for n := range whole {
		back, err := DecodeSubscription(whole[:n])
		if err == nil {
			require.Equal(t, s.Topics, back.Topics, "cut at %d", n)
		}
	}
	a := Assignment{Partitions: tps("topic", 1, 2), UserData: []byte{1}}
	whole = a.AppendTo(nil)
	for n := 1; n < len(whole); n++ {
		back, err := DecodeAssignment(whole[:n])
		if err == nil {
			require.Equal(t, a.Partitions, back.Partitions, "cut at %d", n)
		}
	}
}

func removeSpaces(s string) string {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if r != ' ' {
			out = append(out, r)
		}
	}
	return string(out)
}

func FuzzBlobs(f *testing.F) {
	s := Subscription{Topics: []string{"topic"}, UserData: []byte{1}, Owned: tps("topic", 1), Generation: 1, Rack: "r"}
	f.Add(s.AppendTo(nil))
	f.Add((&Assignment{Partitions: tps("t", 1, 2)}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := DecodeSubscription(b); err == nil {
			again, err := DecodeSubscription(s.AppendTo(nil))
			require.NoError(t, err)
			require.Equal(t, len(s.Topics), len(again.Topics))
			require.ElementsMatch(t, s.Owned, again.Owned)
		}
		if a, err := DecodeAssignment(b); err == nil {
			again, err := DecodeAssignment(a.AppendTo(nil))
			require.NoError(t, err)
			require.ElementsMatch(t, a.Partitions, again.Partitions)
		}
	})
}

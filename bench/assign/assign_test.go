package assign

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafkaconsumer/kafka/assignors"
)

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
		fresh := NewGroup(shape.members, shape.topics, shape.partitions, shape.mixed)
		settled, err := fresh.Settled()
		require.NoError(b, err)
		for _, state := range []struct {
			name string
			Group
		}{{"from scratch", fresh}, {"one left", settled}} {
			for _, kind := range []struct {
				ours   assignors.Assignor
				theirs kgo.GroupBalancer
			}{
				{assignors.Sticky{}, kgo.StickyBalancer()},
				{assignors.CooperativeSticky{}, kgo.CooperativeStickyBalancer()},
			} {
				name := shape.name + "/" + state.name + "/" + kind.ours.Name()
				b.Run(name+"/kafka", func(b *testing.B) {
					in := state.Input()
					b.ReportAllocs()
					for b.Loop() {
						_, err := kind.ours.Assign(in)
						require.NoError(b, err)
					}
				})
				b.Run(name+"/franz-go", func(b *testing.B) {
					balance, err := state.Franz(kind.theirs)
					require.NoError(b, err)
					b.ReportAllocs()
					for b.Loop() {
						require.NoError(b, balance())
					}
				})
			}
		}
	}
}

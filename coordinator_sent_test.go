package kafka

import (
	"testing"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/stretchr/testify/require"
)

// B07
func TestOffsetsCommittedForADeletedTopicAreNotThoseOfTheNewOne(t *testing.T) {
	tp, other, unknown := TopicPartition{Topic: "t"}, TopicPartition{Topic: "other"}, TopicPartition{Topic: "no id"}
	md := func(t byte) *cluster.Metadata {
		return &cluster.Metadata{Topics: map[string]*cluster.Topic{
			"t": {ID: [16]byte{t}}, "other": {ID: [16]byte{9}}, "no id": {},
		}}
	}
	offsets := func(o int64) map[TopicPartition]OffsetAndMetadata {
		return map[TopicPartition]OffsetAndMetadata{tp: {Offset: o}, other: {Offset: o}, unknown: {Offset: o}}
	}
	for _, tc := range []struct {
		name         string
		found, wantT int64
		then         byte
	}{
		{"the same topic", 100, 100, 1},
		{"created again", 100, 0, 2},
		{"created again, and somebody else has committed", 7, 7, 2},
		{"not known now", 100, 100, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s sentCommits
			for _, id := range []byte{1, 0} { // and between the two
				what := commitment{offsets: offsets(100)}
				what.topics = idsOf(what, md(id))
				s.note(what)
			}
			found := offsets(tc.found)
			s.correct(found, md(tc.then))
			want := offsets(tc.found)
			want[tp] = OffsetAndMetadata{Offset: tc.wantT}
			require.Equal(t, want, found)
		})
	}
}

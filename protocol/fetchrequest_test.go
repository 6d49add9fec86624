package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	idA = [16]byte{0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0xb0}
	idB = [16]byte{0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0}
)

func sampleFetchRequest() *FetchRequest {
	return &FetchRequest{
		MaxWaitMillis: 500, MinBytes: 1, MaxBytes: 52_428_800, IsolationLevel: 1,
		SessionID: 0x11223344, SessionEpoch: 7, Rack: "rack-1",
		Topics: []FetchTopic{
			{Name: "a", ID: idA, Partitions: []FetchPartition{
				{Partition: 0, CurrentLeaderEpoch: 5, FetchOffset: 1 << 40, LastFetchedEpoch: 4, MaxBytes: 1_048_576},
				{Partition: 300, CurrentLeaderEpoch: -1, FetchOffset: 0, LastFetchedEpoch: -1, MaxBytes: 2_097_152},
			}},
			{Name: "topic-b", ID: idB, Partitions: []FetchPartition{}},
		},
		Forgotten: []ForgottenTopic{{Name: "topic-b", ID: idB, Partitions: []int32{1, 2}}},
	}
}

// kmsgFetchRequest says q with kmsg.
func kmsgFetchRequest(q *FetchRequest, version int16) *kmsg.FetchRequest {
	k := kmsg.NewPtrFetchRequest()
	k.Version = version
	k.MaxWaitMillis, k.MinBytes = q.MaxWaitMillis, q.MinBytes
	if version >= 3 {
		k.MaxBytes = q.MaxBytes
	}
	if version >= 4 {
		k.IsolationLevel = q.IsolationLevel
	}
	if version >= 7 {
		k.SessionID, k.SessionEpoch = q.SessionID, q.SessionEpoch
	}
	if version >= 11 {
		k.Rack = q.Rack
	}
	for _, t := range q.Topics {
		kt := kmsg.NewFetchRequestTopic()
		kt.Topic, kt.TopicID = topicAt(version, t.Name, t.ID)
		for _, p := range t.Partitions {
			kp := kmsg.NewFetchRequestTopicPartition()
			kp.Partition, kp.FetchOffset, kp.PartitionMaxBytes = p.Partition, p.FetchOffset, p.MaxBytes
			if version >= 9 {
				kp.CurrentLeaderEpoch = p.CurrentLeaderEpoch
			}
			if version >= 12 {
				kp.LastFetchedEpoch = p.LastFetchedEpoch
			}
			kt.Partitions = append(kt.Partitions, kp)
		}
		k.Topics = append(k.Topics, kt)
	}
	for _, t := range q.Forgotten {
		if version < 7 {
			break
		}
		kt := kmsg.NewFetchRequestForgottenTopic()
		kt.Topic, kt.TopicID = topicAt(version, t.Name, t.ID)
		kt.Partitions = t.Partitions
		k.ForgottenTopics = append(k.ForgottenTopics, kt)
	}
	return k
}

func topicAt(version int16, name string, id [16]byte) (string, [16]byte) {
	if version >= fetchTopicIDs {
		return "", id
	}
	return name, [16]byte{}
}

func TestFetchRequestIsReadByKmsgAtEveryVersion(t *testing.T) {
	requests := map[string]*FetchRequest{
		"a full request":   sampleFetchRequest(),
		"an empty request": {SessionEpoch: -1},
	}
	for name, q := range requests {
		for version := FetchMinVersion; version <= FetchMaxVersion; version++ {
			got := q.AppendTo([]byte("head"), version)
			require.Equal(t, "head", string(got[:4]))
			got = got[4:]

			want := kmsgFetchRequest(q, version)
			require.Equal(t, want.AppendTo(nil), got, "%s at v%d", name, version)

			read := kmsg.NewPtrFetchRequest()
			read.Version = version
			require.NoError(t, read.ReadFrom(got))
			require.Equal(t, int32(-1), read.ReplicaID)
			require.Equal(t, want, read, "%s at v%d", name, version)
			require.Equal(t, got, read.AppendTo(nil))
		}
	}
}

func TestFetchRequestAllocatesNothingWithRoom(t *testing.T) {
	q := sampleFetchRequest()
	buf := make([]byte, 0, 1024)
	for version := FetchMinVersion; version <= FetchMaxVersion; version++ {
		require.Zero(t, testing.AllocsPerRun(100, func() { q.AppendTo(buf, version) }), version)
	}
}

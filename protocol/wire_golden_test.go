package protocol

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wireGolden reads a file of hexadecimal bytes; # begins a comment.
func wireGolden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "wire", name+".hex"))
	require.NoError(t, err)
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	return b
}

func TestFetchRequestGoldenBytes(t *testing.T) {
	q := &FetchRequest{
		MaxWaitMillis: 500, MinBytes: 1, MaxBytes: 50 << 20, IsolationLevel: 1,
		SessionID: 42, SessionEpoch: 7, Rack: "eu-1",
		Topics: []FetchTopic{{Name: "orders", ID: idA, Partitions: []FetchPartition{
			{Partition: 0, CurrentLeaderEpoch: 5, FetchOffset: 100, LastFetchedEpoch: 4, MaxBytes: 1 << 20},
			{Partition: 3, CurrentLeaderEpoch: -1, FetchOffset: 1000, LastFetchedEpoch: -1, MaxBytes: 1 << 20},
		}}},
		Forgotten: []ForgottenTopic{{Name: "old", ID: idB, Partitions: []int32{9}}},
	}
	for name, version := range map[string]int16{
		"fetch_request_v0": 0, "fetch_request_v11": 11, "fetch_request_v12": 12, "fetch_request_v16": 16,
	} {
		require.Equal(t, wireGolden(t, name), q.AppendTo(nil, version), name)
	}
}

func TestFetchResponseGoldenBytes(t *testing.T) {
	const none = -1
	noLeader := LeaderIDEpoch{none, none}
	tests := []struct {
		version int16
		name    string
		want    collected
	}{
		{0, "fetch_response_v0", collected{Parts: []collectedPart{
			{FetchedPartition{
				Topic: []byte("orders"), HighWatermark: 102, LastStableOffset: none, LogStartOffset: none,
				PreferredReadReplica: none, RecordBytes: 5, CurrentLeader: noLeader,
			}, "hello"},
			{FetchedPartition{
				Topic: []byte("orders"), Partition: 3, ErrorCode: UnknownTopicOrPartition, HighWatermark: none,
				LastStableOffset: none, LogStartOffset: none, PreferredReadReplica: none, CurrentLeader: noLeader,
			}, ""},
		}}},
		{11, "fetch_response_v11", collected{Throttle: 250, SessionID: 42, Parts: []collectedPart{
			{FetchedPartition{
				Topic: []byte("orders"), HighWatermark: 102, LastStableOffset: 101, LogStartOffset: 1,
				Aborted: []AbortedTxn{{77, 100}}, PreferredReadReplica: none, RecordBytes: 5, CurrentLeader: noLeader,
			}, "hello"},
			{FetchedPartition{
				Topic: []byte("orders"), Partition: 3, HighWatermark: 1000, LastStableOffset: 1000,
				PreferredReadReplica: 2, CurrentLeader: noLeader,
			}, ""},
		}}},
		{12, "fetch_response_v12", collected{Parts: []collectedPart{
			{FetchedPartition{
				Topic: []byte("orders"), HighWatermark: 102, LastStableOffset: 101, LogStartOffset: 1,
				PreferredReadReplica: none, Diverging: EpochEndOffset{4, 80}, HasDiverging: true, CurrentLeader: noLeader,
			}, ""},
			{FetchedPartition{
				Topic: []byte("orders"), Partition: 3, ErrorCode: NotLeaderOrFollower, HighWatermark: none,
				LastStableOffset: none, LogStartOffset: none, Aborted: []AbortedTxn{}, PreferredReadReplica: none,
				CurrentLeader: LeaderIDEpoch{2, 9},
			}, ""},
		}}},
		{16, "fetch_response_v16", collected{
			SessionID: 42, Endpoints: []NodeEndpoint{{2, "b2", 9092, "rack1"}},
			Parts: []collectedPart{
				{FetchedPartition{
					TopicID: idA, HighWatermark: 102, LastStableOffset: 101, LogStartOffset: 1,
					Aborted: []AbortedTxn{{77, 100}}, PreferredReadReplica: none, RecordBytes: 5, CurrentLeader: noLeader,
				}, "hello"},
				{FetchedPartition{
					TopicID: idA, Partition: 3, ErrorCode: NotLeaderOrFollower, HighWatermark: none,
					LastStableOffset: none, LogStartOffset: none, PreferredReadReplica: none,
					CurrentLeader: LeaderIDEpoch{2, 9},
				}, ""},
			},
		}},
	}
	for _, tt := range tests {
		got, err := collectBytes(wireGolden(t, tt.name), tt.version)
		require.NoError(t, err, tt.name)
		requireSame(t, tt.want, got, tt.name)
	}
}

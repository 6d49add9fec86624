package testbroker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
)

// fetchRequest asks for partition 0 of the topic "orders".
func fetchRequest(id [16]byte, offset int64, maxWait int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = maxWait, 1, 1<<20
	req.SessionEpoch = -1
	req.Topics = []kmsg.FetchRequestTopic{{Topic: "orders", TopicID: id, Partitions: []kmsg.FetchRequestTopicPartition{wanted(0, offset)}}}
	return req
}

func wanted(partition int32, offset int64) kmsg.FetchRequestTopicPartition {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	return p
}

func only(t *testing.T, resp *kmsg.FetchResponse) kmsg.FetchResponseTopicPartition {
	t.Helper()
	require.Zero(t, resp.ErrorCode)
	require.Len(t, resp.Topics, 1)
	require.Len(t, resp.Topics[0].Partitions, 1)
	return resp.Topics[0].Partitions[0]
}

func orders(t *testing.T, opts ...Option) (*Cluster, *client, [16]byte) {
	t.Helper()
	c := New(t, opts...)
	c.CreateTopic("orders", 1)
	return c, dial(t, c, 1), c.TopicID("orders")
}

func TestFetchAnswersAsSoonAsRecordsAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, cl, id := orders(t)
		start := time.Now()
		p := only(t, ask[*kmsg.FetchResponse](cl, 16, fetchRequest(id, 0, 500)))
		require.Empty(t, p.RecordBatches)
		require.Equal(t, 500*time.Millisecond, time.Since(start))

		start = time.Now()
		time.AfterFunc(200*time.Millisecond, func() { c.ProduceValues("orders", 0, "a") })
		p = only(t, ask[*kmsg.FetchResponse](cl, 16, fetchRequest(id, 0, 5000)))
		require.NotEmpty(t, p.RecordBatches)
		require.Equal(t, int64(1), p.HighWatermark)
		require.Equal(t, 200*time.Millisecond, time.Since(start))

		start = time.Now()
		req := fetchRequest(id, 0, 5000)
		req.MinBytes = 100_000
		require.NotEmpty(t, only(t, ask[*kmsg.FetchResponse](cl, 16, req)).RecordBatches)
		require.Equal(t, 5*time.Second, time.Since(start), "too few bytes wait to the end")
	})
}

func TestFetchSizes(t *testing.T) {
	c, cl, id := orders(t)
	one := batch.V2{Records: []Record{{Value: make([]byte, 1000)}}}
	c.AppendBatch("orders", 0, one)
	c.AppendBatch("orders", 0, one)
	c.AppendBatch("orders", 0, one)
	size := len(one.Bytes())
	for _, tc := range []struct {
		name              string
		version           int16
		max, partitionMax int32
		want              int
	}{
		{"the first batch comes whole above the partition's limit", 4, 1 << 20, 10, size},
		{"the first batch comes whole above the request's limit", 16, 10, 1 << 20, size},
		{"the last batch is cut", 16, 1 << 20, int32(size + 100), size + 100},
		{"the request's limit cuts too", 16, int32(2*size + 5), 1 << 20, 2*size + 5},
		{"below version 3 the first batch is cut", 2, 1 << 20, 10, 10},
		{"everything fits", 16, 1 << 20, 1 << 20, 3 * size},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := fetchRequest(id, 0, 0)
			req.MaxBytes = tc.max
			req.Topics[0].Partitions[0].PartitionMaxBytes = tc.partitionMax
			require.Len(t, only(t, ask[*kmsg.FetchResponse](cl, tc.version, req)).RecordBatches, tc.want)
		})
	}
}

func TestFetchGivesALaterPartitionNothingWhenItsFirstBatchDoesNotFit(t *testing.T) {
	c := New(t)
	c.CreateTopic("orders", 2)
	c.Produce("orders", 0, Record{Value: make([]byte, 1000)})
	c.Produce("orders", 1, Record{Value: make([]byte, 1000)})
	req := fetchRequest(c.TopicID("orders"), 0, 0)
	req.MaxBytes = 1100
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, wanted(1, 0))
	parts := ask[*kmsg.FetchResponse](dial(t, c, 1), 16, req).Topics[0].Partitions
	require.NotEmpty(t, parts[0].RecordBatches)
	require.Empty(t, parts[1].RecordBatches)
}

func TestFetchErrors(t *testing.T) {
	c, cl, id := orders(t, WithNodes(2))
	c.ProduceValues("orders", 0, "a", "b")
	c.SetLeaderEpoch("orders", 0, 5)
	c.SetLogStart("orders", 0, 1)
	code := func(cl *client, version int16, change func(*kmsg.FetchRequest)) kmsg.FetchResponseTopicPartition {
		req := fetchRequest(id, 2, 60_000)
		change(req)
		return only(t, ask[*kmsg.FetchResponse](cl, version, req))
	}
	first := func(r *kmsg.FetchRequest) *kmsg.FetchRequestTopicPartition { return &r.Topics[0].Partitions[0] }

	require.Equal(t, codeOffsetOutOfRange, code(cl, 4, func(r *kmsg.FetchRequest) { first(r).FetchOffset = 3 }).ErrorCode)
	require.Equal(t, codeOffsetOutOfRange, code(cl, 4, func(r *kmsg.FetchRequest) { first(r).FetchOffset = 0 }).ErrorCode)
	require.Equal(t, codeUnknownTopic, code(cl, 12, func(r *kmsg.FetchRequest) { r.Topics[0].Topic = "gone" }).ErrorCode)
	require.Equal(t, codeUnknownTopicID, code(cl, 13, func(r *kmsg.FetchRequest) { r.Topics[0].TopicID = [16]byte{9} }).ErrorCode)
	require.Equal(t, codeUnknownTopic, code(cl, 13, func(r *kmsg.FetchRequest) { first(r).Partition = 7 }).ErrorCode)
	require.Equal(t, codeFencedLeaderEpoch, code(cl, 9, func(r *kmsg.FetchRequest) { first(r).CurrentLeaderEpoch = 4 }).ErrorCode)
	require.Equal(t, codeUnknownLeaderEpoch, code(cl, 9, func(r *kmsg.FetchRequest) { first(r).CurrentLeaderEpoch = 6 }).ErrorCode)
	p := code(dial(t, c, 2), 15, func(*kmsg.FetchRequest) {})
	require.Equal(t, codeNotLeader, p.ErrorCode)
	require.Equal(t, int32(-1), p.CurrentLeader.LeaderID)
	p = code(dial(t, c, 2), 16, func(*kmsg.FetchRequest) {})
	require.Equal(t, int32(1), p.CurrentLeader.LeaderID)
	require.Equal(t, int32(5), p.CurrentLeader.LeaderEpoch)

	resp := ask[*kmsg.FetchResponse](dial(t, c, 2), 16, fetchRequest(id, 2, 60_000))
	require.Equal(t, "node1.test", resp.Brokers[0].Host)
}

func TestFetchTellsADivergingEpoch(t *testing.T) {
	c, cl, id := orders(t)
	c.ProduceValues("orders", 0, "a", "b")
	c.SetLeader("orders", 0, 1)
	c.ProduceValues("orders", 0, "c")
	req := fetchRequest(id, 3, 60_000)
	req.Topics[0].Partitions[0].LastFetchedEpoch = 0
	p := only(t, ask[*kmsg.FetchResponse](cl, 12, req))
	require.Zero(t, p.DivergingEpoch.Epoch)
	require.Equal(t, int64(2), p.DivergingEpoch.EndOffset)
	require.Empty(t, p.RecordBatches)

	req.Topics[0].Partitions[0].FetchOffset = 2
	require.NotEmpty(t, only(t, ask[*kmsg.FetchResponse](cl, 12, req)).RecordBatches)
}

func TestFetchReadCommitted(t *testing.T) {
	c, cl, id := orders(t)
	producer := batch.Producer{ID: 7, Epoch: 1}
	txn := batch.V2{Producer: &producer, Transactional: true, Records: []Record{{Value: []byte("x")}, {Value: []byte("y")}}}
	c.ProduceValues("orders", 0, "before") // 0
	c.AppendBatch("orders", 0, txn)        // 1-2
	c.ProduceValues("orders", 0, "after")  // 3
	req := fetchRequest(id, 0, 0)
	req.IsolationLevel = 1
	p := only(t, ask[*kmsg.FetchResponse](cl, 11, req))
	require.Equal(t, int64(1), p.LastStableOffset)
	require.Equal(t, int64(4), p.HighWatermark)
	require.Empty(t, p.AbortedTransactions)
	open := len(p.RecordBatches)

	list := listRequest("orders", 0, timeLatest)
	list.IsolationLevel = 1
	require.Equal(t, int64(1), ask[*kmsg.ListOffsetsResponse](cl, 5, list).Topics[0].Partitions[0].Offset)

	c.AppendBatch("orders", 0, batch.Marker(0, producer, false)) // 4
	p = only(t, ask[*kmsg.FetchResponse](cl, 11, req))
	require.Equal(t, int64(5), p.LastStableOffset)
	require.Greater(t, len(p.RecordBatches), open)
	require.Len(t, p.AbortedTransactions, 1)
	require.Equal(t, int64(7), p.AbortedTransactions[0].ProducerID)
	require.Equal(t, int64(1), p.AbortedTransactions[0].FirstOffset)

	c.AppendBatch("orders", 0, txn)                             // 5-6
	c.AppendBatch("orders", 0, batch.Marker(0, producer, true)) // 7
	req.Topics[0].Partitions[0].FetchOffset = 5
	p = only(t, ask[*kmsg.FetchResponse](cl, 11, req))
	require.Equal(t, int64(8), p.LastStableOffset)
	require.Empty(t, p.AbortedTransactions)
}

func TestFetchSendsAConsumerToItsRack(t *testing.T) {
	c, leader, id := orders(t, WithNodes(2), WithRack(1, "a"), WithRack(2, "b"))
	c.ProduceValues("orders", 0, "x")
	req := fetchRequest(id, 0, 60_000)
	req.Rack = "b"
	p := only(t, ask[*kmsg.FetchResponse](leader, 12, req))
	require.Equal(t, int32(2), p.PreferredReadReplica)
	require.Empty(t, p.RecordBatches)
	require.NotEmpty(t, only(t, ask[*kmsg.FetchResponse](dial(t, c, 2), 12, req)).RecordBatches)
}

func TestFetchSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		c.CreateTopic("orders", 3)
		cl := dial(t, c, 1)
		id := c.TopicID("orders")
		req := fetchRequest(id, 0, 100)
		req.SessionEpoch = 0
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, wanted(1, 0), wanted(2, 0))
		resp := ask[*kmsg.FetchResponse](cl, 16, req)
		require.NotZero(t, resp.SessionID)
		require.Len(t, resp.Topics[0].Partitions, 3)
		require.Equal(t, 1, c.Sessions(1))

		next := func(epoch int32) *kmsg.FetchRequest {
			r := fetchRequest(id, 0, 100)
			r.SessionID, r.SessionEpoch, r.Topics = resp.SessionID, epoch, nil
			return r
		}
		require.Empty(t, ask[*kmsg.FetchResponse](cl, 16, next(1)).Topics, "nothing is new")

		c.ProduceValues("orders", 1, "a")
		require.Equal(t, int32(1), only(t, ask[*kmsg.FetchResponse](cl, 16, next(2))).Partition)

		forget := next(3)
		forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{TopicID: id, Partitions: []int32{1}}}
		require.Empty(t, ask[*kmsg.FetchResponse](cl, 16, forget).Topics)

		require.Equal(t, codeInvalidFetchSessionEpoch, ask[*kmsg.FetchResponse](cl, 16, next(3)).ErrorCode)
		c.DropSessions(1)
		require.Equal(t, codeFetchSessionIDNotFound, ask[*kmsg.FetchResponse](cl, 16, next(4)).ErrorCode)
	})
}

func TestFetchSessionEndsWithEpochMinusOne(t *testing.T) {
	c, cl, id := orders(t)
	req := fetchRequest(id, 0, 0)
	req.SessionEpoch = 0
	req.SessionID = ask[*kmsg.FetchResponse](cl, 12, req).SessionID
	require.Equal(t, 1, c.Sessions(1))
	req.SessionEpoch = -1
	require.Zero(t, ask[*kmsg.FetchResponse](cl, 12, req).SessionID)
	require.Zero(t, c.Sessions(1))
}

func listRequest(topic string, partition int32, millis int64) *kmsg.ListOffsetsRequest {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.MaxNumOffsets = partition, millis, 10
	return &kmsg.ListOffsetsRequest{ReplicaID: -1, Topics: []kmsg.ListOffsetsRequestTopic{{
		Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p},
	}}}
}

func TestListOffsets(t *testing.T) {
	c, cl, _ := orders(t, WithNodes(2))
	at := func(millis int64) Record { return Record{Timestamp: time.UnixMilli(millis)} }
	c.Produce("orders", 0, at(1000), at(3000), at(2000))
	c.SetLeader("orders", 0, 2)
	c.SetLeader("orders", 0, 1)
	c.Produce("orders", 0, at(2500))
	for _, tc := range []struct {
		name              string
		asked             int64
		offset, timestamp int64
		epoch             int32
	}{
		{"the end", timeLatest, 4, -1, 2},
		{"the beginning", timeEarliest, 0, -1, 0},
		{"the first record that is young enough", 1001, 1, 3000, 0},
		{"exactly its time", 3000, 1, 3000, 0},
		{"nothing that young", 3001, -1, -1, -1},
		{"the youngest", timeMax, 1, 3000, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := ask[*kmsg.ListOffsetsResponse](cl, 8, listRequest("orders", 0, tc.asked)).Topics[0].Partitions[0]
			require.Zero(t, p.ErrorCode)
			require.Equal(t, tc.offset, p.Offset)
			require.Equal(t, tc.timestamp, p.Timestamp)
			require.Equal(t, tc.epoch, p.LeaderEpoch)
		})
	}
	p := ask[*kmsg.ListOffsetsResponse](cl, 0, listRequest("orders", 0, timeLatest)).Topics[0].Partitions[0]
	require.Equal(t, []int64{4, 0}, p.OldStyleOffsets)
	p = ask[*kmsg.ListOffsetsResponse](dial(t, c, 2), 8, listRequest("orders", 0, timeLatest)).Topics[0].Partitions[0]
	require.Equal(t, codeNotLeader, p.ErrorCode)
	p = ask[*kmsg.ListOffsetsResponse](cl, 8, listRequest("gone", 0, timeLatest)).Topics[0].Partitions[0]
	require.Equal(t, codeUnknownTopic, p.ErrorCode)
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	c, cl, _ := orders(t)
	c.ProduceValues("orders", 0, "a", "b")
	c.SetLeaderEpoch("orders", 0, 3)
	c.ProduceValues("orders", 0, "c")
	for _, tc := range []struct {
		name         string
		asked, epoch int32
		end          int64
	}{
		{"an old epoch ends where the next began", 0, 0, 2},
		{"an epoch between gives the one before", 2, 0, 2},
		{"the current epoch ends at the log's end", 3, 3, 3},
		{"an epoch from the future is unknown", 4, -1, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.LeaderEpoch = tc.asked
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "orders", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
			got := ask[*kmsg.OffsetForLeaderEpochResponse](cl, 4, req).Topics[0].Partitions[0]
			require.Equal(t, tc.epoch, got.LeaderEpoch)
			require.Equal(t, tc.end, got.EndOffset)
		})
	}
	c.Truncate("orders", 0, 1)
	require.Equal(t, int64(1), c.EndOffset("orders", 0))
}

func TestAppendedBytesComeBackAsTheyAre(t *testing.T) {
	c, cl, id := orders(t)
	c.Append("orders", 0, []byte("any bytes"), 4)
	c.Append("orders", 0, []byte(" at all"), 9)
	p := only(t, ask[*kmsg.FetchResponse](cl, 12, fetchRequest(id, 3, 0)))
	require.Equal(t, "any bytes at all", string(p.RecordBatches))
	require.Equal(t, int64(10), p.HighWatermark)
	c.SetHighWatermark("orders", 0, 5)
	p = only(t, ask[*kmsg.FetchResponse](cl, 12, fetchRequest(id, 0, 0)))
	require.Equal(t, "any bytes", string(p.RecordBatches))
}

func TestFetchSessionsGiveThePartitionsTheirTurn(t *testing.T) {
	c := New(t)
	c.CreateTopic("orders", 2)
	for range 2 {
		c.Produce("orders", 0, Record{Value: make([]byte, 1000)})
		c.Produce("orders", 1, Record{Value: make([]byte, 1000)})
	}
	cl := dial(t, c, 1)
	id := c.TopicID("orders")
	req := fetchRequest(id, 0, 0)
	req.SessionEpoch, req.MaxBytes = 0, 100
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, wanted(1, 0))
	resp := ask[*kmsg.FetchResponse](cl, 16, req)
	require.NotEmpty(t, resp.Topics[0].Partitions[0].RecordBatches)

	req.SessionID, req.SessionEpoch = resp.SessionID, 1
	req.Topics[0].Partitions = []kmsg.FetchRequestTopicPartition{wanted(0, 1)}
	p := only(t, ask[*kmsg.FetchResponse](cl, 16, req))
	require.Equal(t, int32(1), p.Partition, "the one that got nothing comes first")
	require.NotEmpty(t, p.RecordBatches)

	req.SessionEpoch = 2
	req.Topics[0].Partitions = []kmsg.FetchRequestTopicPartition{wanted(1, 1)}
	p = only(t, ask[*kmsg.FetchResponse](cl, 16, req))
	require.Zero(t, p.Partition)
	require.Equal(t, int64(2), p.HighWatermark)
}

func TestFetchWithoutSessionsNeverNamesOne(t *testing.T) {
	c, cl, id := orders(t, WithoutFetchSessions(), WithClusterID("other"))
	req := fetchRequest(id, 0, 0)
	req.SessionEpoch = 0
	require.Zero(t, ask[*kmsg.FetchResponse](cl, 12, req).SessionID)
	require.Zero(t, c.Sessions(1))
	require.Equal(t, "other", *ask[*kmsg.MetadataResponse](cl, 9, kmsg.NewPtrMetadataRequest()).ClusterID)
}

func TestBatchesWithAWrongHeaderAreFound(t *testing.T) {
	c, cl, id := orders(t)
	c.AppendBatch("orders", 0, batch.V2{Records: make([]Record, 3), LastOffsetDelta: new(int32(-5))})
	c.AppendBatch("orders", 0, batch.V2{LastOffsetDelta: new(int32(4))}) // all compacted away
	require.Equal(t, int64(8), c.EndOffset("orders", 0))
	require.NotEmpty(t, only(t, ask[*kmsg.FetchResponse](cl, 12, fetchRequest(id, 2, 0))).RecordBatches)
	require.NotEmpty(t, only(t, ask[*kmsg.FetchResponse](cl, 12, fetchRequest(id, 7, 0))).RecordBatches)
}

func TestASessionTellsWhenTheLogMoves(t *testing.T) {
	c, cl, id := orders(t)
	c.ProduceValues("orders", 0, "a", "b")
	c.ProduceValues("orders", 0, "c")
	req := fetchRequest(id, 3, 0)
	req.SessionEpoch = 0
	req.SessionID = ask[*kmsg.FetchResponse](cl, 12, req).SessionID
	req.Topics = nil
	next := func() *kmsg.FetchResponse {
		req.SessionEpoch++
		return ask[*kmsg.FetchResponse](cl, 12, req)
	}
	require.Empty(t, next().Topics)
	c.SetLogStart("orders", 0, 2)
	require.Equal(t, int64(2), only(t, next()).LogStartOffset)
	require.Empty(t, next().Topics)
	c.SetHighWatermark("orders", 0, 2)
	require.Equal(t, int64(2), only(t, next()).HighWatermark)
	require.Empty(t, next().Topics)
}

func TestABatchThatReachesBeyondTheHighWatermarkIsNotGiven(t *testing.T) {
	c, cl, id := orders(t)
	c.ProduceValues("orders", 0, "a", "b", "c")
	c.SetHighWatermark("orders", 0, 2)
	require.Empty(t, only(t, ask[*kmsg.FetchResponse](cl, 12, fetchRequest(id, 0, 0))).RecordBatches)
	p := ask[*kmsg.ListOffsetsResponse](cl, 5, listRequest("orders", 0, 0)).Topics[0].Partitions[0]
	require.Zero(t, p.Offset)
	c.SetHighWatermark("orders", 0, 0)
	p = ask[*kmsg.ListOffsetsResponse](cl, 5, listRequest("orders", 0, 0)).Topics[0].Partitions[0]
	require.Equal(t, int64(-1), p.Offset)
	c.SetHighWatermark("orders", 0, -1)
	c.SetLogStart("orders", 0, 1)
	p = ask[*kmsg.ListOffsetsResponse](cl, 5, listRequest("orders", 0, 0)).Topics[0].Partitions[0]
	require.Equal(t, int64(1), p.Offset)
}

func TestTruncationEndsTransactionsAndEpochs(t *testing.T) {
	c, cl, id := orders(t)
	c.ProduceValues("orders", 0, "a")
	c.SetLeader("orders", 0, 1)
	c.ProduceValues("orders", 0, "b")
	c.SetLeader("orders", 0, 1)
	c.AppendBatch("orders", 0, batch.V2{Producer: &batch.Producer{ID: 7}, Transactional: true, Records: make([]Record, 1)})
	c.Truncate("orders", 0, 1)
	p := only(t, ask[*kmsg.FetchResponse](cl, 12, fetchRequest(id, 0, 0)))
	require.Equal(t, int64(1), p.LastStableOffset)

	req := fetchRequest(id, 1, 60_000)
	req.Topics[0].Partitions[0].LastFetchedEpoch = 1
	p = only(t, ask[*kmsg.FetchResponse](cl, 12, req))
	require.Zero(t, p.DivergingEpoch.Epoch, "nothing of epoch 1 is left")
	require.Equal(t, int64(1), p.DivergingEpoch.EndOffset)
	req.Topics[0].Partitions[0].LastFetchedEpoch = 9
	require.Equal(t, codeOffsetOutOfRange, only(t, ask[*kmsg.FetchResponse](cl, 12, req)).ErrorCode)
	c.ProduceValues("orders", 0, "c", "d")
	require.Equal(t, int64(3), only(t, ask[*kmsg.FetchResponse](cl, 12, fetchRequest(id, 0, 0))).LastStableOffset)
}

package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	keyFetch           int16 = 1
	keyListOffsets     int16 = 2
	keyMetadata        int16 = 3
	keyOffsetCommit    int16 = 8
	keyOffsetFetch     int16 = 9
	keyFindCoordinator int16 = 10
	keyJoinGroup       int16 = 11
	keyHeartbeat       int16 = 12
	keyLeaveGroup      int16 = 13
)

// tp0 is what most tests read.
var tp0 = TopicPartition{Topic: "t"}

// bubble runs test in a synctest bubble with a cluster that has topic t with the
// given number of partitions.
func bubble(t *testing.T, partitions int32, test func(t *testing.T, b *testbroker.Cluster), opts ...testbroker.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t, opts...)
		b.CreateTopic("t", partitions)
		test(t, b)
	})
}

// realTime runs test outside of a bubble: zstd's pooled decoders cannot go in and out.
func realTime(t *testing.T, partitions int32, test func(t *testing.T, b *testbroker.Cluster), opts ...testbroker.Option) {
	t.Helper()
	b := testbroker.New(t, opts...)
	b.CreateTopic("t", partitions)
	test(t, b)
}

// reader returns a consumer that has the partitions assigned, closed with the test.
func reader(t *testing.T, cfg Config, tps ...TopicPartition) *Consumer {
	t.Helper()
	c := openConsumer(t, cfg)
	require.NoError(t, c.Assign(tps...))
	return c
}

func position(t *testing.T, c *Consumer, tp TopicPartition) int64 {
	t.Helper()
	o, err := c.Position(t.Context(), tp)
	require.NoError(t, err)
	return o
}

// values makes records of a batch with the given offset deltas.
func values(deltas ...int64) []batch.Record {
	records := make([]batch.Record, len(deltas))
	for i, d := range deltas {
		records[i] = batch.Record{Value: fmt.Append(nil, d), OffsetDelta: &d}
	}
	return records
}

// fetchedOffsets returns the offsets that Fetch requests asked for, in order, of one
// partition.
func fetchedOffsets(b *testbroker.Cluster, partition int32) []int64 {
	var offsets []int64
	for _, r := range b.Requests(keyFetch) {
		for _, topic := range r.Message.(*kmsg.FetchRequest).Topics {
			for _, p := range topic.Partitions {
				if p.Partition == partition {
					offsets = append(offsets, p.FetchOffset)
				}
			}
		}
	}
	return offsets
}

// untilPosition polls until the position is offset, and returns the records.
func untilPosition(t *testing.T, c *Consumer, tp TopicPartition, offset int64) []Record {
	t.Helper()
	var got []Record
	for deadline := time.Now().Add(10 * time.Second); position(t, c, tp) != offset; {
		require.True(t, time.Now().Before(deadline), "position stays at %d", position(t, c, tp))
		records, err := c.Poll(t.Context(), 50*time.Millisecond)
		require.NoError(t, err)
		got = slices.AppendSeq(got, records.All())
	}
	return got
}

// B04
func TestPositionMovesOverOffsetsWithoutRecords(t *testing.T) {
	for _, isolation := range []IsolationLevel{ReadUncommitted, ReadCommitted} {
		t.Run(fmt.Sprintf("isolation level %d", isolation), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				b.AppendBatch("t", 0, batch.V2{Records: values(0, 1, 2, 3, 4)})
				b.AppendBatch("t", 0, batch.V2{LastOffsetDelta: new(int32(4))})
				b.AppendBatch("t", 0, batch.V2{Records: values(0, 1, 2, 3, 4)})
				b.AppendBatch("t", 0, batch.V2{Records: values(0, 1, 2), LastOffsetDelta: new(int32(4))})
				b.AppendBatch("t", 0, batch.V2{Records: values(0, 1, 2, 3, 4)})
				producer := batch.Producer{ID: 7}
				b.AppendBatch("t", 0, batch.V2{Producer: &producer, Transactional: true, Records: values(0, 1, 2, 3)})
				b.AppendBatch("t", 0, batch.Marker(0, producer, false))
				want := slices.Concat(span(0, 4), span(10, 17), span(20, 24))
				if isolation == ReadUncommitted {
					want = append(want, span(25, 28)...)
				}
				cfg := fast(b)
				cfg.GroupID, cfg.IsolationLevel = "g", isolation
				c := reader(t, cfg, tp0)
				require.Equal(t, want, offsetsOf(untilPosition(t, c, tp0, 30)))
				lag, known := c.Lag(tp0)
				require.True(t, known)
				require.Zero(t, lag)
				require.NoError(t, c.Commit(t.Context()))
				require.EqualValues(t, 30, b.CommittedOffset("g", "t", 0))

				_, err := c.Poll(t.Context(), time.Second)
				require.NoError(t, err)
				asked := fetchedOffsets(b, 0)
				require.EqualValues(t, 30, asked[len(asked)-1])
				below := slices.DeleteFunc(asked, func(o int64) bool { return o == 30 })
				require.Equal(t, slices.Compact(slices.Clone(below)), below, "an offset was asked for twice")
			})
		})
	}
}

// B04
func TestPositionMovesOverEachBatchOfItsOwnAnswer(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := reader(t, fast(b), tp0)
		for round := range int64(5) { // each batch is alone in its answer
			b.AppendBatch("t", 0, batch.V2{LastOffsetDelta: new(int32(9))})
			require.Empty(t, untilPosition(t, c, tp0, 10*(round+1)))
		}
	})
}

// B04
func TestIdleReadOfAbortedTailIsCommittedAutomatically(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		producer := batch.Producer{ID: 7}
		b.AppendBatch("t", 0, batch.V2{Producer: &producer, Transactional: true, Records: values(0, 1, 2, 3)})
		b.AppendBatch("t", 0, batch.Marker(0, producer, false))
		cfg := fast(b)
		cfg.GroupID, cfg.Topics, cfg.IsolationLevel = "g", []string{"t"}, ReadCommitted
		cfg.DisableAutoCommit, cfg.AutoCommitInterval = false, 100*time.Millisecond
		c := openConsumer(t, cfg)
		for range 10 {
			records, err := c.Poll(t.Context(), 200*time.Millisecond)
			require.NoError(t, err)
			require.Zero(t, records.Len())
		}
		require.EqualValues(t, 5, b.CommittedOffset("g", "t", 0))
	})
}

// mixedFormats is one run of bytes with three formats: v0 messages 0 and 1, a gzip
// wrapper of v1 with 2 to 4, and v2 batches 5 to 7, 8 and 9 (lz4), 10 and 11 (zstd).
func mixedFormats() []byte {
	inner := make([]batch.Message, 3)
	for i := range inner {
		inner[i] = batch.Message{Offset: int64(2 + i), Value: fmt.Append(nil, 2+i)}
	}
	v2 := func(base int64, codec batch.Codec, n int) []byte {
		b := batch.V2{BaseOffset: base, Codec: codec}
		for i := range n {
			b.Records = append(b.Records, batch.Record{Value: fmt.Append(nil, int(base)+i)})
		}
		return b.Bytes()
	}
	return slices.Concat(
		batch.Message{Offset: 0, Value: []byte("0")}.Bytes(),
		batch.Message{Offset: 1, Value: []byte("1")}.Bytes(),
		batch.Wrapper{Magic: 1, Codec: batch.Gzip, Messages: inner}.Bytes(),
		v2(5, batch.None, 3), v2(8, batch.LZ4, 2), v2(10, batch.Zstd, 2),
	)
}

// B06
func TestSeveralFormatsInOneAnswerAreReadInOrder(t *testing.T) {
	realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		next := batch.V2{BaseOffset: 12, Records: values(0)}
		next.Records[0].Value = []byte("12")
		b.Append("t", 0, mixedFormats(), 11)
		b.Append("t", 0, next.Bytes(), 12)
		cut := b.On(keyFetch).Once().Edit(func(_ testbroker.Request, resp kmsg.Response) {
			p := &resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
			p.RecordBatches = append(mixedFormats(), next.Bytes()[:40]...)
		})
		c := reader(t, patient(fast(b)), tp0)
		got := pollN(t, c, 13)
		require.Equal(t, span(0, 12), offsetsOf(got))
		for _, r := range got {
			require.Equal(t, fmt.Sprint(r.Offset), string(r.Value))
		}
		require.Equal(t, 1, cut.Used())
		require.Equal(t, []int64{0, 12}, fetchedOffsets(b, 0)[:2])
	})
}

// B25
func TestHeadersKeepNullEmptyOrderAndBytes(t *testing.T) {
	realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		headers := []batch.Header{
			{Key: "a", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "a", Value: []byte("1")},
			{Key: "", Value: []byte("empty key")}, {Key: "bytes", Value: []byte{0xC3, 0x28}}, {Key: "标题", Value: []byte("x")},
		}
		for i := range 2000 {
			headers = append(headers, batch.Header{Key: fmt.Sprint(i), Value: fmt.Append(nil, i)})
		}
		for _, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4, batch.Zstd} {
			b.AppendBatch("t", 0, batch.V2{Codec: codec, Records: []batch.Record{
				{Headers: headers}, {Key: []byte{}, Value: []byte{}},
			}})
		}
		c := reader(t, patient(fast(b)), tp0)
		for i, r := range pollN(t, c, 10) {
			if i%2 == 1 {
				require.NotNil(t, r.Key)
				require.NotNil(t, r.Value)
				require.Empty(t, slices.Collect(r.Headers()))
				continue
			}
			require.Nil(t, r.Key)
			require.Nil(t, r.Value)
			require.Equal(t, -1, r.SerializedKeySize())
			require.Equal(t, -1, r.SerializedValueSize())
			got := slices.Collect(r.Headers())
			require.Len(t, got, len(headers))
			for i, h := range headers {
				require.Equal(t, h.Key, got[i].Key)
				require.Equal(t, h.Value == nil, got[i].Value == nil, "header %d", i)
				require.True(t, bytes.Equal(h.Value, got[i].Value), "header %d", i)
			}
		}
	})
}

// absurdBatches are batches with right checksums that cannot be.
func absurdBatches() map[string]batch.V2 {
	one := func(change func(*batch.Record)) batch.V2 {
		r := batch.Record{Key: []byte("k"), Value: []byte("v")}
		change(&r)
		return batch.V2{Records: []batch.Record{r}}
	}
	records := values(0, 1, 2)
	return map[string]batch.V2{
		"a record count of -1":               {Records: records, Count: new(int32(-1))},
		"a record count of 2^31-1":           {Records: records, Count: new(int32(1<<31 - 1))},
		"a count of 2^31-1, compressed":      {Codec: batch.Gzip, Records: records, Count: new(int32(1<<31 - 1))},
		"fewer records than the count":       {Records: records, Count: new(int32(4))},
		"more records than the count":        {Records: records, Count: new(int32(2))},
		"a negative last offset delta":       {Records: records, LastOffsetDelta: new(int32(-1))},
		"a batch length below the header":    {Records: records, Length: new(int32(20))},
		"a negative batch length":            {Records: records, Length: new(int32(-1))},
		"an unknown magic":                   {Records: records, Magic: new(int8(9))},
		"an unknown codec":                   {Records: records, Attributes: new(int16(7))},
		"a record longer than the batch":     one(func(r *batch.Record) { r.Length = new(int64(1 << 30)) }),
		"a negative record length":           one(func(r *batch.Record) { r.Length = new(int64(-5)) }),
		"a key length of -2":                 one(func(r *batch.Record) { r.KeyLength = new(int64(-2)) }),
		"a value length of 10^9":             one(func(r *batch.Record) { r.ValueLength = new(int64(1e9)) }),
		"a header count of -1":               one(func(r *batch.Record) { r.HeaderCount = new(int64(-1)) }),
		"a header count of 10^9":             one(func(r *batch.Record) { r.HeaderCount = new(int64(1e9)) }),
		"a varint of 11 bytes":               one(func(r *batch.Record) { r.Raw = bytes.Repeat([]byte{0xff}, 11) }),
		"nothing decompressed, records > 0":  {Codec: batch.Gzip, Records: records, Payload: []byte{}},
		"a snappy block of no bytes":         {Codec: batch.Snappy, Records: records, Compress: func([]byte) []byte { return nil }},
		"a snappy block that claims 2^31 B":  {Codec: batch.Snappy, Records: records, Compress: claimsMuch},
		"compressed bytes that are not such": {Codec: batch.LZ4, Records: records, Compress: func([]byte) []byte { return []byte("no frame") }},
	}
}

func claimsMuch([]byte) []byte { return append(binary.AppendUvarint(nil, 1<<31), 0, 1, 2) }

// B28
func TestAbsurdBatchIsAnErrorThatSeekGetsPast(t *testing.T) {
	for name, absurd := range absurdBatches() {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) { readPastAbsurd(t, b, absurd.Bytes, nil) })
		})
	}
}

// B28
func TestAbsurdMessageSetIsAnErrorThatSeekGetsPast(t *testing.T) {
	message := batch.Message{Offset: 3, Value: []byte("v")}
	inner := batch.Wrapper{Magic: 1, Codec: batch.Gzip, Messages: []batch.Message{message}}.Bytes()
	for name, bytes := range map[string][]byte{
		"a wrapper inside a wrapper":      batch.Message{Offset: 3, Magic: 1, Codec: batch.Gzip, Value: batch.CompressGzip(inner)}.Bytes(),
		"a wrapper of nothing":            batch.Message{Offset: 3, Magic: 1, Codec: batch.Gzip, Value: batch.CompressGzip(nil)}.Bytes(),
		"a key length of -2":              batch.Message{Offset: 3, Magic: 1, KeyLength: new(int32(-2)), Value: []byte("v")}.Bytes(),
		"a value length beyond the bytes": batch.Message{Offset: 3, ValueLength: new(int32(1 << 30)), Value: []byte("v")}.Bytes(),
		"a wrong checksum":                batch.Message{Offset: 3, CRC: new(uint32(1)), Value: []byte("v")}.Bytes(),
		"a size below the header":         batch.Message{Offset: 3, Size: new(int32(3)), Value: []byte("v")}.Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) { readPastAbsurd(t, b, nil, bytes) })
		})
	}
}

// readPastAbsurd has partition 0 hold records 0 to 2, the absurd batch at 3 and
// records from 6 on, and partition 1 ten good ones.
func readPastAbsurd(t *testing.T, b *testbroker.Cluster, v2 func() []byte, message []byte) {
	b.AppendBatch("t", 0, batch.V2{Records: values(0, 1, 2)})
	if v2 != nil {
		message = v2()
		binary.BigEndian.PutUint64(message, 3)
	}
	b.Append("t", 0, message, 5)
	b.AppendBatch("t", 0, batch.V2{Records: values(0, 1, 2)})
	produce(b, "t", 1, 5)
	other := TopicPartition{Topic: "t", Partition: 1}
	c := reader(t, fast(b), tp0, other)
	before := allocated()

	got := map[int32][]int64{}
	var faults int
	for i := range 20 {
		records, err := c.Poll(t.Context(), 100*time.Millisecond)
		if err != nil {
			faults++
			requireCorruptAt(t, err, 3)
			require.Equal(t, span(0, 2), got[0], "the records before it come first")
			if i < 15 {
				produce(b, "t", 1, 1)
			}
			continue
		}
		for r := range records.All() {
			got[r.Partition] = append(got[r.Partition], r.Offset)
		}
	}
	require.Positive(t, faults)
	require.Equal(t, span(0, 2), got[0])
	require.Equal(t, span(0, b.EndOffset("t", 1)-1), got[1], "the other partition goes on")
	require.EqualValues(t, 3, position(t, c, tp0))
	require.Less(t, allocated()-before, uint64(32<<20))

	require.NoError(t, c.Seek(tp0, 6))
	require.Equal(t, span(6, 8), offsetsOf(pollN(t, c, 3)))
}

func requireCorruptAt(t *testing.T, err error, offset int64) {
	t.Helper()
	var at *PartitionError
	require.ErrorAs(t, err, &at)
	require.Equal(t, tp0, at.TopicPartition())
	var corrupt *CorruptRecordError
	var large *BatchTooLargeError
	switch {
	case errorsAs(err, &corrupt):
		require.Equal(t, offset, corrupt.BatchOffset)
	case errorsAs(err, &large):
		require.Equal(t, offset, large.BatchOffset)
	default:
		require.Fail(t, "not an error about a batch", "%v", err)
	}
}

// allocated is what was allocated so far, the bound of how the heap can have grown.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// B28
func TestDecompressionBombIsTooLarge(t *testing.T) {
	realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		payload := make([]byte, 64<<20)
		b.AppendBatch("t", 0, batch.V2{Codec: batch.Zstd, Records: values(0, 1), Payload: payload})
		b.AppendBatch("t", 0, batch.V2{Records: values(0)})
		cfg := patient(fast(b))
		cfg.MaxBatchBytes = 4 << 20
		c := reader(t, cfg, tp0)
		before := allocated()
		_, err := c.Poll(t.Context(), time.Minute)
		require.ErrorIs(t, err, ErrBatchTooLarge)
		require.Less(t, allocated()-before, uint64(32<<20))
		var large *BatchTooLargeError
		require.ErrorAs(t, err, &large)
		next, known := large.NextOffset()
		require.True(t, known)
		require.EqualValues(t, 2, next)
		require.NoError(t, c.Seek(tp0, next))
		require.Equal(t, []int64{2}, offsetsOf(pollN(t, c, 1)))
	})
}

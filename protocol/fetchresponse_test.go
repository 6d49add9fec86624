package protocol

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// collected is a whole Fetch response with the records that go with its
// partitions.
type collected struct {
	Throttle  int32
	ErrorCode ErrorCode
	SessionID int32
	Endpoints []NodeEndpoint
	Parts     []collectedPart
}

type collectedPart struct {
	FetchedPartition
	Records string
}

// collect decodes the response that r is at, its records in pieces.
func collect(r *Reader, version int16, piece int) (c collected, err error) {
	var resp FetchResponse
	if err := resp.Begin(r, version); err != nil {
		return c, err
	}
	c.Throttle, c.ErrorCode, c.SessionID = resp.ThrottleMillis, resp.ErrorCode, resp.SessionID
	var part FetchedPartition
	for {
		ok, err := resp.Next(&part)
		if err != nil {
			return c, err
		}
		if !ok {
			break
		}
		var records []byte
		for resp.RecordsLeft() > 0 {
			buf := make([]byte, min(piece, resp.RecordsLeft()))
			if err := resp.ReadRecords(buf); err != nil {
				return c, err
			}
			records = append(records, buf...)
		}
		if err := resp.EndPartition(&part); err != nil {
			return c, err
		}
		keep := part
		keep.Topic, keep.Aborted = bytes.Clone(part.Topic), slices.Clone(part.Aborted)
		c.Parts = append(c.Parts, collectedPart{keep, string(records)})
	}
	if err := resp.End(); err != nil {
		return c, err
	}
	c.Endpoints = resp.NodeEndpoints
	return c, nil
}

func collectBytes(body []byte, version int16) (collected, error) {
	r := NewReader(bytes.NewReader(wireFrame(body...)), 0)
	if _, err := r.Frame(); err != nil {
		return collected{}, err
	}
	return collect(r, version, 100)
}

// fromKmsg says what collect should give for a response that kmsg has read.
func fromKmsg(k *kmsg.FetchResponse) collected {
	c := collected{Throttle: k.ThrottleMillis, ErrorCode: ErrorCode(k.ErrorCode), SessionID: k.SessionID}
	for _, t := range k.Topics {
		for _, p := range t.Partitions {
			part := FetchedPartition{
				TopicID: t.TopicID, Partition: p.Partition, ErrorCode: ErrorCode(p.ErrorCode),
				HighWatermark: p.HighWatermark, LastStableOffset: p.LastStableOffset, LogStartOffset: p.LogStartOffset,
				PreferredReadReplica: p.PreferredReadReplica, RecordBytes: int32(len(p.RecordBatches)),
				Diverging:     EpochEndOffset{p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset},
				HasDiverging:  p.DivergingEpoch.Epoch >= 0,
				CurrentLeader: LeaderIDEpoch{p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch},
			}
			if part.Diverging == (EpochEndOffset{-1, -1}) {
				part.Diverging = EpochEndOffset{}
			}
			if k.Version < fetchTopicIDs {
				part.Topic = []byte(t.Topic)
			}
			if p.AbortedTransactions != nil {
				part.Aborted = []AbortedTxn{}
			}
			for _, a := range p.AbortedTransactions {
				part.Aborted = append(part.Aborted, AbortedTxn{a.ProducerID, a.FirstOffset})
			}
			c.Parts = append(c.Parts, collectedPart{part, string(p.RecordBatches)})
		}
	}
	for _, b := range k.Brokers {
		e := NodeEndpoint{NodeID: b.NodeID, Host: b.Host, Port: b.Port}
		if b.Rack != nil {
			e.Rack = *b.Rack
		}
		c.Endpoints = append(c.Endpoints, e)
	}
	return c
}

// requireSame compares without telling empty lists of partitions, endpoints
// and names from absent ones.
func requireSame(t *testing.T, want, got collected, msg ...any) {
	t.Helper()
	for _, c := range []*collected{&want, &got} {
		if len(c.Endpoints) == 0 {
			c.Endpoints = nil
		}
		for i := range c.Parts {
			if len(c.Parts[i].Topic) == 0 {
				c.Parts[i].Topic = nil
			}
		}
	}
	require.Equal(t, want, got, msg...)
}

func kmsgFetchPartition(number int32, records []byte, aborted ...kmsg.FetchResponseTopicPartitionAbortedTransaction) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition = number
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = 1000+int64(number), 900, 100
	p.PreferredReadReplica = 3
	p.RecordBatches = records
	p.AbortedTransactions = aborted
	return p
}

// sampleFetchResponse holds every form of every field.
func sampleFetchResponse(version int16) *kmsg.FetchResponse {
	k := kmsg.NewPtrFetchResponse()
	k.Version = version
	k.ThrottleMillis, k.ErrorCode, k.SessionID = 250, int16(FetchSessionIDNotFound), 0x11223344

	txn := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
	txn.ProducerID, txn.FirstOffset = 77, 950
	other := txn
	other.ProducerID = 78
	other.UnknownTags.Set(9, []byte("later"))

	failed := kmsgFetchPartition(1, nil)
	failed.ErrorCode = int16(NotLeaderOrFollower)
	failed.HighWatermark = -1
	failed.CurrentLeader.LeaderID, failed.CurrentLeader.LeaderEpoch = 2, 9
	failed.CurrentLeader.UnknownTags.Set(3, []byte("x"))
	diverged := kmsgFetchPartition(2, []byte{})
	diverged.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	diverged.DivergingEpoch.Epoch, diverged.DivergingEpoch.EndOffset = 4, 800
	diverged.SnapshotID.Epoch, diverged.SnapshotID.EndOffset = 4, 700
	diverged.UnknownTags.Set(200, []byte("not known yet"))

	a := kmsg.NewFetchResponseTopic()
	a.Topic, a.TopicID = topicAt(version, "a", idA)
	a.Partitions = []kmsg.FetchResponseTopicPartition{
		kmsgFetchPartition(0, bytes.Repeat([]byte("0123456789"), 60), txn, other), failed, diverged,
	}
	a.UnknownTags.Set(1, []byte("y"))
	none := kmsg.NewFetchResponseTopic()
	none.Topic, none.TopicID = topicAt(version, "none", [16]byte{1})
	b := kmsg.NewFetchResponseTopic()
	b.Topic, b.TopicID = topicAt(version, "topic-b", idB)
	b.Partitions = []kmsg.FetchResponseTopicPartition{kmsgFetchPartition(7, []byte("tail"))}
	k.Topics = []kmsg.FetchResponseTopic{a, none, b}

	if version >= fetchEndpoints {
		rack := "rack-1"
		one, two := kmsg.NewFetchResponseBroker(), kmsg.NewFetchResponseBroker()
		one.NodeID, one.Host, one.Port, one.Rack = 2, "broker-2.example", 9092, &rack
		two.NodeID, two.Host, two.Port = 3, "broker-3.example", 9093
		two.UnknownTags.Set(5, []byte("z"))
		k.Brokers = []kmsg.FetchResponseBroker{one, two}
		k.UnknownTags.Set(7, []byte("more"))
	}
	return k
}

// reread gives k as kmsg reads it back: without what the version leaves out.
func reread(t *testing.T, k *kmsg.FetchResponse) (*kmsg.FetchResponse, []byte) {
	t.Helper()
	body := k.AppendTo(nil)
	again := kmsg.NewPtrFetchResponse()
	again.Version = k.Version
	require.NoError(t, again.ReadFrom(body))
	return again, body
}

func TestFetchResponseOfKmsgIsReadAtEveryVersion(t *testing.T) {
	for version := FetchMinVersion; version <= FetchMaxVersion; version++ {
		for _, k := range []*kmsg.FetchResponse{sampleFetchResponse(version), {Version: version}} {
			again, body := reread(t, k)
			want := fromKmsg(again)
			sources := map[string]io.Reader{
				"all at once":  bytes.NewReader(wireFrame(body...)),
				"byte by byte": iotest.OneByteReader(bytes.NewReader(wireFrame(body...))),
				"in halves":    iotest.HalfReader(bytes.NewReader(wireFrame(body...))),
			}
			for name, src := range sources {
				for _, piece := range []int{1, 7, 1 << 20} {
					r := NewReader(src, 0)
					_, err := r.Frame()
					require.NoError(t, err)
					got, err := collect(r, version, piece)
					require.NoError(t, err, "v%d %s", version, name)
					requireSame(t, want, got, "v%d %s", version, name)
					src = bytes.NewReader(wireFrame(body...))
				}
			}
		}
	}
}

func TestFetchResponseThatIsCutIsAnError(t *testing.T) {
	for version := FetchMinVersion; version <= FetchMaxVersion; version++ {
		body := sampleFetchResponse(version).AppendTo(nil)
		for cut := range body {
			_, err := collectBytes(body[:cut], version)
			var malformed *MalformedError
			require.ErrorAs(t, err, &malformed, "v%d cut at byte %d", version, cut)
			require.Equal(t, "Fetch", malformed.API)

			r := NewReader(bytes.NewReader(wireFrame(body...)[:4+cut]), 0)
			_, err = r.Frame()
			require.NoError(t, err)
			_, err = collect(r, version, 100)
			require.Equal(t, io.ErrUnexpectedEOF, err, "v%d, connection ends at byte %d", version, cut)
		}
		_, err := collectBytes(append(body, 0), version)
		requireMalformed(t, err, "end at byte")
	}
}

func TestFetchResponseWithAnyByteChangedDoesNoHarm(t *testing.T) {
	for version := FetchMinVersion; version <= FetchMaxVersion; version++ {
		body := sampleFetchResponse(version).AppendTo(nil)
		for i := range body {
			for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
				changed := bytes.Clone(body)
				changed[i] = b
				if _, err := collectBytes(changed, version); err != nil {
					var malformed *MalformedError
					require.ErrorAs(t, err, &malformed)
				}
			}
		}
	}
}

func TestFetchResponseRefusesWhatIsNotAllowed(t *testing.T) {
	partition := func(rest ...byte) []byte { // v0 up to the records' length
		head := []byte{0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}
		return append(head, rest...)
	}
	tests := []struct {
		name    string
		version int16
		body    []byte
		text    string
	}{
		{"records beyond the frame", 0, partition(0, 0, 0, 5, 1, 2, 3, 4), "records at byte 29: length 5, 4 bytes are left"},
		{"a negative length of records", 0, partition(0xff, 0xff, 0xff, 0xfe), "records at byte 29: length -2"},
		{"more topics than can be there", 0, []byte{0, 0, 0, 2, 0, 0, 0, 0, 0, 0}, "topics at byte 4: 2 elements of at least 6 bytes"},
		{"a null topic name", 0, []byte{0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0}, "topic at byte 6: null"},
		{"more partitions than can be there", 0, []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 2, 3}, "partitions at byte 10: 1 elements of at least 18 bytes"},
		{"a diverging epoch longer than its tag", 12,
			append(partition12(), 1, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0), "longer than its length"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := collectBytes(tt.body, tt.version)
			requireMalformed(t, err, tt.text)
		})
	}
	got, err := collectBytes(partition(0xff, 0xff, 0xff, 0xff), 0)
	require.NoError(t, err)
	require.Equal(t, int64(9), got.Parts[0].HighWatermark)
	require.Zero(t, got.Parts[0].RecordBytes)
}

// partition12 is a v12 response with one partition, up to its tags.
func partition12() []byte {
	k := kmsg.NewPtrFetchResponse()
	k.Version = 12
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic = "t"
	topic.Partitions = []kmsg.FetchResponseTopicPartition{kmsgFetchPartition(0, nil)}
	k.Topics = append(k.Topics, topic)
	body := k.AppendTo(nil)
	return body[:len(body)-3] // the tags of the partition, topic and response
}

func TestDivergingEpochOfMinusOneIsNone(t *testing.T) {
	body := append(partition12(), 1, 0, 13)
	body = append(body, bytes.Repeat([]byte{0xff}, 12)...)
	got, err := collectBytes(append(body, 0, 0, 0), 12)
	require.NoError(t, err)
	require.False(t, got.Parts[0].HasDiverging)
}

func TestNextPassesOverRecordsThatWereNotRead(t *testing.T) {
	for version := FetchMinVersion; version <= FetchMaxVersion; version++ {
		_, body := reread(t, sampleFetchResponse(version))
		r := readerOf(t, body...)
		var resp FetchResponse
		var part FetchedPartition
		require.NoError(t, resp.Begin(r, version))
		var numbers []int32
		for ok, err := resp.Next(&part); ok; ok, err = resp.Next(&part) {
			require.NoError(t, err)
			numbers = append(numbers, part.Partition)
			if part.RecordBytes > 4 {
				require.Equal(t, "0123", string(resp.PeekBatch(4)))
				require.NoError(t, resp.ReadRecords(make([]byte, 2)))
			}
		}
		require.Equal(t, []int32{0, 1, 2, 7}, numbers)
		require.NoError(t, resp.End())
	}
}

func TestEndPassesOverPartitionsThatWereNotAskedFor(t *testing.T) {
	_, body := reread(t, sampleFetchResponse(16))
	r := readerOf(t, body...)
	var resp FetchResponse
	require.NoError(t, resp.Begin(r, 16))
	require.NoError(t, resp.End())
	require.Len(t, resp.NodeEndpoints, 2)
	require.Zero(t, r.Remaining())
}

func TestRecordsEndWhereThePartitionDoes(t *testing.T) {
	_, body := reread(t, sampleFetchResponse(11))
	r := readerOf(t, body...)
	var resp FetchResponse
	var part FetchedPartition
	require.NoError(t, resp.Begin(r, 11))
	_, err := resp.Next(&part)
	require.NoError(t, err)
	require.Equal(t, int32(600), part.RecordBytes)
	require.NoError(t, resp.ReadRecords(make([]byte, 590)))
	require.Equal(t, 10, resp.RecordsLeft())
	require.Equal(t, "0123456789", string(resp.PeekBatch(57)))
	require.NoError(t, resp.ReadRecords(make([]byte, 10)))
	require.Nil(t, resp.PeekBatch(1))
	requireMalformed(t, resp.ReadRecords(make([]byte, 1)), "1 bytes asked for, 0 are left")
}

func TestFetchResponseCanBeUsedAgain(t *testing.T) {
	_, full := reread(t, sampleFetchResponse(16))
	_, empty := reread(t, &kmsg.FetchResponse{Version: 16})
	var resp FetchResponse
	require.NoError(t, resp.Begin(readerOf(t, full...), 16))
	require.NoError(t, resp.End())
	require.NoError(t, resp.Begin(readerOf(t, empty...), 16))
	require.NoError(t, resp.End())
	require.Empty(t, resp.NodeEndpoints)
	require.Zero(t, resp.ThrottleMillis)
	require.Zero(t, resp.SessionID)
}

func TestConnectionErrorWithinRecordsPassesAsItIs(t *testing.T) {
	_, body := reread(t, sampleFetchResponse(11))
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(bytes.NewReader(wireFrame(body...)[:200]), iotest.ErrReader(broken)), 0)
	_, err := r.Frame()
	require.NoError(t, err)
	_, err = collect(r, 11, 50)
	require.Equal(t, broken, err)
}

func TestFetchResponseMakesNoRoomForWhatDoesNotCome(t *testing.T) {
	// The aborted list of a v4 partition claims 5,000,000 transactions.
	body := []byte{
		0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9,
		0, 0x4c, 0x4b, 0x40,
	}
	src := append([]byte{0x05, 0xf5, 0xe1, 0}, append(body, make([]byte, 160)...)...)
	r := NewReader(bytes.NewReader(src), 0)
	_, err := r.Frame()
	require.NoError(t, err)
	got := bytesAllocated(func() { _, err = collect(r, 4, 100) })
	require.Equal(t, io.ErrUnexpectedEOF, err)
	require.Less(t, got, uint64(1<<16))
}

func TestPartitionsCostNoAllocation(t *testing.T) {
	for _, version := range []int16{0, 4, 11, 12, 16} {
		k := kmsg.NewPtrFetchResponse()
		k.Version = version
		txn := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		for i := range 10 {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = topicAt(version, "topic-"+string(rune('a'+i)), idA)
			for number := range int32(100) {
				p := kmsgFetchPartition(number, make([]byte, 100), txn, txn)
				p.CurrentLeader.LeaderID, p.DivergingEpoch.Epoch = 1, 1
				topic.Partitions = append(topic.Partitions, p)
			}
			k.Topics = append(k.Topics, topic)
		}
		src := bytes.NewReader(wireFrame(k.AppendTo(nil)...))
		r := NewReader(src, 4096)
		var resp FetchResponse
		var part FetchedPartition
		records := make([]byte, 60)
		walk := func() {
			src.Seek(0, io.SeekStart)
			n, _ := r.Frame()
			resp.Begin(r, version)
			count := 0
			for ok, _ := resp.Next(&part); ok; ok, _ = resp.Next(&part) {
				resp.PeekBatch(17)
				resp.ReadRecords(records)
				resp.EndPartition(&part)
				count++
			}
			if err := resp.End(); err != nil || count != 1000 || n == 0 {
				t.Fatalf("v%d: %d partitions, %v", version, count, err)
			}
		}
		require.Zero(t, testing.AllocsPerRun(10, walk), "v%d", version)
	}
}

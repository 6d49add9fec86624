package fetch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	newest = protocol.FetchMaxVersion
	mib    = 1 << 20
)

// A rig is a Table, a clock, and answers written by another codec than the one that
// reads them.
type rig struct {
	t     testing.TB
	table *Table
	now   time.Time
	limit Limits
}

func newRig(t testing.TB, change ...func(*Limits)) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Unix(1000, 0), limit: Limits{
		FetchMaxBytes: 50 * mib, MaxPartitionFetchBytes: mib, MaxBatchBytes: 256 * mib, MaxFrameBytes: 128 * mib,
		MaxBufferedBytes: 64 * mib, ReplicaLease: 5 * time.Minute, Patience: 90 * time.Second,
		Policy:  func() Policy { return TimeEarliest },
		Backoff: func(failures int) time.Duration { return 100 * time.Millisecond << min(failures, 3) },
	}}
	for _, c := range change {
		c(&r.limit)
	}
	r.table = NewTable(r.limit)
	return r
}

func tpOf(partition int32) protocol.TopicPartition {
	return protocol.TopicPartition{Topic: "t", Partition: partition}
}

// idOf is the id of a topic in its first life.
func idOf(topic string) (id [16]byte) {
	copy(id[:], "id of "+topic)
	return id
}

func (r *rig) p(partition int32) *Partition { return r.table.Get(tpOf(partition)) }

// assign assigns partitions 0 to n-1, lets them go and puts them at offset 0 with
// broker 1 as leader in epoch 5.
func (r *rig) assign(n int32) {
	r.t.Helper()
	var tps []protocol.TopicPartition
	for i := range n {
		tps = append(tps, tpOf(i))
	}
	r.table.Assign(tps, false)
	r.table.Release(tps...)
	r.lead(1, 5, tps...)
	for _, tp := range tps {
		if p := r.table.Get(tp); !p.known() {
			r.table.Seek(p, 0, -1)
		}
	}
}

// lead makes broker the leader of the partitions.
func (r *rig) lead(broker, epoch int32, tps ...protocol.TopicPartition) {
	of := make(map[protocol.TopicPartition]bool)
	for _, tp := range tps {
		of[tp] = true
	}
	r.table.UpdateLeaders(func(tp protocol.TopicPartition) Leader {
		return Leader{Known: of[tp], Broker: broker, Epoch: epoch, TopicID: idOf(tp.Topic)}
	})
}

// plan builds the next request to broker, which there must be.
func (r *rig) plan(broker int32, version int16) *Session {
	r.t.Helper()
	s := r.table.Session(broker)
	require.NotNil(r.t, s, "broker %d leads nothing", broker)
	require.True(r.t, r.table.Plan(s, version, r.now), "nothing to ask for")
	return s
}

// idle requires that there is nothing to ask broker for.
func (r *rig) idle(broker int32) {
	r.t.Helper()
	s := r.table.Session(broker)
	if s == nil {
		return
	}
	hungry, _ := r.table.Hungry(s, r.now)
	require.False(r.t, hungry, "there is something to ask broker %d for", broker)
	require.False(r.t, r.table.Plan(s, newest, r.now))
}

// asked returns what a request asks for: partition and offset.
func asked(q *Request) map[int32]int64 {
	m := make(map[int32]int64)
	for _, t := range q.Wire.Topics {
		for _, p := range t.Partitions {
			m[p.Partition] = p.FetchOffset
		}
	}
	return m
}

// forgotten returns the partitions that a request has the broker forget.
func forgotten(q *Request) []int32 {
	var numbers []int32
	for _, t := range q.Wire.Forgotten {
		numbers = append(numbers, t.Partitions...)
	}
	return numbers
}

// An ans is what a broker answers for a partition. The zero value of replica and
// leader means none.
type ans struct {
	partition int32
	topic     string // "" is t
	id        [16]byte
	code      protocol.ErrorCode
	hw        int64 // 0: 1000, and 0 without records
	lso       int64
	start     int64
	records   []byte
	replica   int32
	diverging *protocol.EpochEndOffset
	leader    *protocol.LeaderIDEpoch
	aborted   []protocol.AbortedTxn
}

// none is a high watermark, or a last stable offset, of 0.
const none = -2

func (a *ans) wire() kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.ErrorCode, p.RecordBatches = a.partition, int16(a.code), a.records
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = a.hw, a.lso, a.start
	switch a.hw {
	case 0:
		if p.HighWatermark = 1000; len(a.records) == 0 {
			p.HighWatermark = 0
		}
	case none:
		p.HighWatermark = 0
	}
	switch a.lso {
	case 0:
		p.LastStableOffset = p.HighWatermark
	case none:
		p.LastStableOffset = 0
	}
	p.PreferredReadReplica = -1
	if a.replica > 0 {
		p.PreferredReadReplica = a.replica
	}
	if a.diverging != nil {
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = a.diverging.Epoch, a.diverging.EndOffset
	}
	if a.leader != nil {
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = a.leader.ID, a.leader.Epoch
	}
	for _, txn := range a.aborted {
		x := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		x.ProducerID, x.FirstOffset = txn.ProducerID, txn.FirstOffset
		p.AbortedTransactions = append(p.AbortedTransactions, x)
	}
	return p
}

// A top is what stands at the top of an answer.
type top struct {
	code    protocol.ErrorCode
	session int32 // -1: 0; 0: 77
}

func (r *rig) read(q *Request, t top, answers []ans) *protocol.FetchResponse {
	r.t.Helper()
	reader := protocol.NewReader(bytes.NewReader(frame(q, t, answers)), 4096)
	reader.SetMax(1 << 30)
	_, err := reader.Frame()
	require.NoError(r.t, err)
	out := new(protocol.FetchResponse)
	require.NoError(r.t, ReadAnswer(q, out, reader))
	return out
}

// frame is an answer to q as it comes over the wire.
func frame(q *Request, t top, answers []ans) []byte {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.ErrorCode = q.Version, int16(t.code)
	resp.SessionID = 77
	if t.session != 0 {
		resp.SessionID = max(t.session, 0)
	}
	for i := range answers {
		a := &answers[i]
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = "t", idOf("t")
		if a.topic != "" {
			topic.Topic, topic.TopicID = a.topic, idOf(a.topic)
		}
		if a.id != ([16]byte{}) {
			topic.TopicID = a.id
		}
		topic.Partitions = append(topic.Partitions, a.wire())
		resp.Topics = append(resp.Topics, topic)
	}
	body := resp.AppendTo(nil)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// answer answers the session's request.
func (r *rig) answer(s *Session, answers ...ans) {
	r.t.Helper()
	r.answerTop(s, top{}, answers...)
}

func (r *rig) answerTop(s *Session, t top, answers ...ans) bool {
	r.t.Helper()
	return r.table.Apply(s, r.read(&s.Request, t, answers), r.now)
}

// fetch plans a request to broker 1 and answers it.
func (r *rig) fetch(answers ...ans) {
	r.t.Helper()
	r.answer(r.plan(1, newest), answers...)
}

// decode decodes everything that may be decoded.
func (r *rig) decode() {
	for {
		task, ok := r.table.NextDecode()
		if !ok {
			return
		}
		task.Run()
		r.table.DecodeDone(&task)
	}
}

// take hands over at most limit records and returns their partitions and offsets.
func (r *rig) take(limit int) (got []string) {
	r.t.Helper()
	cuts := r.table.Take(limit, nil)
	for i := range cuts {
		c := &cuts[i]
		for k := c.From; k < c.To; k++ {
			got = append(got, fmt.Sprintf("%d/%d", c.TP().Partition, c.Seg.Offset(k)))
		}
	}
	for i := range cuts {
		require.True(r.t, r.table.HandOver(&cuts[i], cuts[i].Len()))
	}
	return got
}

// drain decodes and hands over until nothing comes any more.
func (r *rig) drain() (got []string) {
	r.t.Helper()
	for {
		r.decode()
		more := r.take(1000)
		if more == nil && !r.table.HasUndecoded() {
			return got
		}
		got = append(got, more...)
	}
}

func (r *rig) position(partition int32) int64 {
	o, _ := r.table.Position(r.p(partition))
	return o.Offset
}

// fault returns the only standing fault.
func (r *rig) fault() error {
	r.t.Helper()
	faults := r.table.Faults()
	require.Len(r.t, faults, 1)
	return faults[0].Err
}

// resets returns the reports of kind.
func reportsOf(reports []Report, kind ReportKind) (of []Report) {
	for _, r := range reports {
		if r.Kind == kind {
			of = append(of, r)
		}
	}
	return of
}

// numbered are n records of the given size.
func numbered(n, size int) []batch.Record {
	records := make([]batch.Record, n)
	for i := range records {
		records[i].Value = make([]byte, size)
	}
	return records
}

// v2 is a batch of n records from base on, written in epoch 5.
func v2(base int64, n int, change ...func(*batch.V2)) []byte {
	b := batch.V2{BaseOffset: base, LeaderEpoch: 5, Records: numbered(n, 10)}
	for _, c := range change {
		c(&b)
	}
	return b.Bytes()
}

// names are "partition/offset" from first to last.
func names(partition int32, first, last int64) (out []string) {
	for o := first; o <= last; o++ {
		out = append(out, fmt.Sprintf("%d/%d", partition, o))
	}
	return out
}

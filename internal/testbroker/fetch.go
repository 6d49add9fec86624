package testbroker

import (
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetching is one Fetch while it is being answered.
type fetching struct {
	c       *Cluster
	node    *node
	req     *kmsg.FetchRequest
	session *session
	parts   []*fetchPart
	full    bool // every partition is in the answer
}

type fetched struct {
	part *fetchPart
	out  kmsg.FetchResponseTopicPartition
}

// fetch answers when MinBytes are there, a partition has an error to tell, or
// MaxWait is over. It returns nil when the connection ended before.
func (c *Cluster) fetch(cn *conn, req *kmsg.FetchRequest) kmsg.Response {
	f := &fetching{c: c, node: cn.node, req: req}
	c.mu.Lock()
	var code int16
	f.session, code = c.sessionLocked(cn.node, req)
	if code != 0 {
		c.mu.Unlock()
		resp := kmsg.NewPtrFetchResponse()
		resp.ErrorCode = code
		return resp
	}
	f.full = f.session == nil || req.SessionEpoch == 0
	if f.session != nil {
		f.parts = f.session.parts
	} else {
		f.parts = fetchParts(req)
	}
	timer := time.NewTimer(time.Duration(max(req.MaxWaitMillis, 0)) * time.Millisecond)
	defer timer.Stop()
	expired := len(f.parts) == 0 || req.MaxWaitMillis <= 0
	for {
		results, size, urgent := f.readLocked()
		if expired || urgent || size >= int(req.MinBytes) {
			resp := f.answerLocked(results)
			c.mu.Unlock()
			return resp
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			expired = true
		case <-cn.done:
			return nil
		}
		c.mu.Lock()
	}
}

func (f *fetching) readLocked() (results []fetched, size int, urgent bool) {
	budget := math.MaxInt
	if f.req.Version >= 3 {
		budget = int(max(f.req.MaxBytes, 0))
	}
	for _, part := range f.parts {
		out := f.partitionLocked(part, min(budget, int(max(part.asked.PartitionMaxBytes, 0))), size == 0)
		size += len(out.RecordBatches)
		budget = max(budget-len(out.RecordBatches), 0)
		urgent = urgent || out.ErrorCode != 0 || out.DivergingEpoch.Epoch >= 0 || out.PreferredReadReplica >= 0
		results = append(results, fetched{part, out})
	}
	return results, size, urgent
}

func (f *fetching) answerLocked(results []fetched) kmsg.Response {
	resp := kmsg.NewPtrFetchResponse()
	for i := range results {
		r := &results[i]
		if f.session != nil && !r.part.tell(&r.out) && !f.full {
			continue
		}
		r.part.addTo(resp, r.out)
		f.hintLocked(resp, &r.out)
	}
	if f.session != nil {
		resp.SessionID = f.session.id
		f.rotate(results)
	}
	return resp
}

// addTo puts a partition's answer behind the others, under its topic.
func (f *fetchPart) addTo(resp *kmsg.FetchResponse, out kmsg.FetchResponseTopicPartition) {
	last := len(resp.Topics) - 1
	if last < 0 || resp.Topics[last].Topic != f.name || resp.Topics[last].TopicID != f.topic {
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = f.name, f.topic
		resp.Topics = append(resp.Topics, t)
		last++
	}
	resp.Topics[last].Partitions = append(resp.Topics[last].Partitions, out)
}

// rotate gives the partitions that got nothing their turn first next time.
func (f *fetching) rotate(results []fetched) {
	for _, r := range results {
		if i := slices.Index(f.session.parts, r.part); i >= 0 && len(r.out.RecordBatches) > 0 {
			f.session.parts = append(slices.Delete(slices.Clone(f.session.parts), i, i+1), r.part)
		}
	}
}

// hintLocked names the address of the leader that a partition hints at (KIP-951).
func (f *fetching) hintLocked(resp *kmsg.FetchResponse, out *kmsg.FetchResponseTopicPartition) {
	leader := out.CurrentLeader.LeaderID
	known := slices.ContainsFunc(resp.Brokers, func(b kmsg.FetchResponseBroker) bool { return b.NodeID == leader })
	if f.req.Version < 16 || leader < 1 || known {
		return
	}
	n := f.c.node(leader)
	b := kmsg.NewFetchResponseBroker()
	b.NodeID, b.Host, b.Port = n.id, n.host, n.port
	if rack, ok := f.c.opts.racks[n.id]; ok {
		b.Rack = &rack
	}
	resp.Brokers = append(resp.Brokers, b)
}

func (f *fetching) topicLocked(part *fetchPart) (*topic, int16) {
	if f.req.Version < 13 {
		return f.c.topics[part.name], codeUnknownTopic
	}
	return f.c.ids[part.topic], codeUnknownTopicID
}

func (f *fetching) partitionLocked(part *fetchPart, limit int, first bool) kmsg.FetchResponseTopicPartition {
	out := kmsg.NewFetchResponseTopicPartition()
	out.Partition, out.RecordBatches = part.asked.Partition, []byte{}
	out.HighWatermark = -1
	t, missing := f.topicLocked(part)
	if t == nil {
		out.ErrorCode = missing
		return out
	}
	var p *partitionLog
	p, out.ErrorCode = f.c.ledLocked(f.node, t, part.asked.Partition, part.asked.CurrentLeaderEpoch)
	if out.ErrorCode == codeNotLeader && f.req.Version >= 11 && slices.Contains(p.replicas, f.node.id) && len(f.c.opts.racks) > 0 {
		out.ErrorCode = 0 // KIP-392: a follower serves consumers
	}
	switch out.ErrorCode {
	case 0:
		f.recordsLocked(p, &part.asked, &out, limit, first)
	case codeNotLeader, codeFencedLeaderEpoch:
		if f.req.Version >= 16 { // KIP-951, though the field is there from version 12 on
			out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = p.leader, p.epoch
		}
	}
	return out
}

func (f *fetching) recordsLocked(p *partitionLog, asked *kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition, limit int, first bool) {
	if asked.FetchOffset < p.start || asked.FetchOffset > p.end {
		out.ErrorCode = codeOffsetOutOfRange
		return
	}
	out.HighWatermark, out.LastStableOffset, out.LogStartOffset = p.highWatermark(), p.lastStable(), p.start
	if replica := f.closerLocked(p); replica > 0 {
		out.PreferredReadReplica = replica
		return
	}
	if f.req.Version >= 12 && asked.LastFetchedEpoch >= 0 {
		epoch, end := p.endOfEpoch(asked.LastFetchedEpoch)
		if epoch < 0 {
			out.ErrorCode = codeOffsetOutOfRange
			return
		}
		if end < asked.FetchOffset || epoch < asked.LastFetchedEpoch {
			out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = epoch, end
			return
		}
	}
	bound := p.highWatermark()
	committed := f.req.Version >= 4 && f.req.IsolationLevel == 1
	if committed {
		bound = p.lastStable()
	}
	var upTo int64
	out.RecordBatches, upTo = p.read(asked.FetchOffset, bound, limit, first, f.req.Version < 3)
	if committed {
		out.AbortedTransactions = p.abortedBetween(asked.FetchOffset, upTo)
	}
}

// closerLocked is the follower in the consumer's rack to which a leader sends
// it, 0 for none.
func (f *fetching) closerLocked(p *partitionLog) int32 {
	if f.req.Version < 11 || f.req.Rack == "" || p.leader != f.node.id || f.c.opts.racks[p.leader] == f.req.Rack {
		return 0
	}
	for _, id := range p.replicas {
		if f.c.opts.racks[id] == f.req.Rack {
			return id
		}
	}
	return 0
}

// read gives whole batches below bound from the one with offset on, up to limit
// bytes; the last may be cut. With first, the first batch comes whole whatever
// its size, else one above the limit does not come at all; with cut (versions
// below 3) the limit is kept and the first may be cut too.
func (p *partitionLog) read(offset, bound int64, limit int, first, cut bool) (out []byte, upTo int64) {
	upTo = offset
	for _, b := range p.batches {
		if b.last < offset {
			continue
		}
		if b.last >= bound {
			break
		}
		if len(out) == 0 && !cut && len(b.bytes) > limit {
			if !first {
				break
			}
			limit = len(b.bytes)
		}
		if len(out) >= limit {
			break
		}
		out = append(out, b.bytes[:min(len(b.bytes), limit-len(out))]...)
		upTo = b.last + 1
	}
	if out == nil {
		out = []byte{}
	}
	return out, upTo
}

func (p *partitionLog) abortedBetween(from, upTo int64) []kmsg.FetchResponseTopicPartitionAbortedTransaction {
	out := []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	for _, a := range p.aborted {
		if a.marker >= from && a.first < upTo {
			t := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			t.ProducerID, t.FirstOffset = a.producer, a.first
			out = append(out, t)
		}
	}
	return out
}

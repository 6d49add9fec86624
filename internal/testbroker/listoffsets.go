package testbroker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ledLocked finds a partition that the node leads, or the error code that says
// why it is not to be had there. An epoch of -1 is not checked.
func (c *Cluster) ledLocked(n *node, t *topic, partition, epoch int32) (*partitionLog, int16) {
	if t == nil || partition < 0 || int(partition) >= len(t.partitions) {
		return nil, codeUnknownTopic
	}
	p := t.partitions[partition]
	switch {
	case p.leader != n.id:
		return p, codeNotLeader
	case epoch >= 0 && epoch < p.epoch:
		return p, codeFencedLeaderEpoch
	case epoch >= 0 && epoch > p.epoch:
		return p, codeUnknownLeaderEpoch
	}
	return p, 0
}

func (c *Cluster) listOffsets(n *node, req *kmsg.ListOffsetsRequest) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = t.Topic
		for _, asked := range t.Partitions {
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition = asked.Partition
			var p *partitionLog
			p, part.ErrorCode = c.ledLocked(n, c.topics[t.Topic], asked.Partition, asked.CurrentLeaderEpoch)
			switch {
			case part.ErrorCode != 0:
			case req.Version == 0:
				part.OldStyleOffsets = p.oldOffsets(asked.Timestamp, int(asked.MaxNumOffsets))
			default:
				part.Offset, part.Timestamp = p.lookUp(asked.Timestamp, req.IsolationLevel == 1)
				if part.Offset >= 0 {
					part.LeaderEpoch = p.epochAt(part.Offset)
				}
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

const (
	timeLatest        = -1
	timeEarliest      = -2
	timeMax           = -3
	timeEarliestLocal = -4
)

// lookUp answers one ListOffsets question of version 1 or above; -1, -1 is none.
func (p *partitionLog) lookUp(millis int64, committed bool) (offset, timestamp int64) {
	end := p.highWatermark()
	if committed {
		end = p.lastStable()
	}
	switch millis {
	case timeLatest:
		return end, -1
	case timeEarliest, timeEarliestLocal:
		return p.start, -1
	case timeMax:
		offset, timestamp = -1, -1
		for _, t := range p.times() {
			if t.offset < end && t.millis > timestamp {
				offset, timestamp = t.offset, t.millis
			}
		}
		return offset, timestamp
	}
	for _, t := range p.times() {
		if t.offset < end && t.millis >= millis {
			return t.offset, t.millis
		}
	}
	return -1, -1
}

// times gives what is known of timestamps: of each record that was produced as
// one, and of an appended batch only the largest, said of its first offset.
func (p *partitionLog) times() []offsetTime {
	var out []offsetTime
	for _, b := range p.batches {
		if b.times == nil && b.maxTime >= 0 {
			out = append(out, offsetTime{b.first, b.maxTime})
		}
		for _, t := range b.times {
			if t.offset >= p.start {
				out = append(out, t)
			}
		}
	}
	return out
}

// oldOffsets answers version 0, which knows the starts of log segments only: the
// log counts as one segment, so a time finds nothing younger than its start.
func (p *partitionLog) oldOffsets(millis int64, most int) []int64 {
	all := []int64{p.highWatermark(), p.start}
	if millis != timeLatest {
		all = all[1:]
	}
	return slices.Clip(all[:min(max(most, 0), len(all))])
}

func (p *partitionLog) epochAt(offset int64) int32 {
	epoch := p.epoch
	for _, e := range slices.Backward(p.epochs) {
		if epoch = e.epoch; e.start <= offset {
			break
		}
	}
	return epoch
}

func (c *Cluster) offsetForLeaderEpoch(n *node, req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = t.Topic
		for _, asked := range t.Partitions {
			part := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			part.Partition = asked.Partition
			var p *partitionLog
			p, part.ErrorCode = c.ledLocked(n, c.topics[t.Topic], asked.Partition, asked.CurrentLeaderEpoch)
			if part.ErrorCode == 0 {
				part.LeaderEpoch, part.EndOffset = p.endOfEpoch(asked.LeaderEpoch)
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

package testbroker

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// session is an incremental fetch session (KIP-227). Its partitions stand in
// the order in which they get their turn: those that gave records go to the end.
type session struct {
	id    int32
	epoch int32 // the one that the next request must carry
	parts []*fetchPart
}

// fetchPart is one partition of a Fetch, with what a session last told of it.
type fetchPart struct {
	name  string
	topic [16]byte
	asked kmsg.FetchRequestTopicPartition

	told      bool
	highWater int64
	logStart  int64
}

func (f *fetchPart) is(name string, topic [16]byte, partition int32) bool {
	return f.name == name && f.topic == topic && f.asked.Partition == partition
}

func fetchParts(req *kmsg.FetchRequest) []*fetchPart {
	var parts []*fetchPart
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			parts = append(parts, &fetchPart{name: t.Topic, topic: t.TopicID, asked: p})
		}
	}
	return parts
}

// sessionLocked finds or makes the session of a request. A nil session with
// code 0 means a request without one.
func (c *Cluster) sessionLocked(n *node, req *kmsg.FetchRequest) (s *session, code int16) {
	switch {
	case req.Version < 7:
		return nil, 0
	case req.SessionEpoch == -1:
		delete(n.sessions, req.SessionID)
		return nil, 0
	case req.SessionEpoch == 0:
		delete(n.sessions, req.SessionID)
		if c.opts.noSessions {
			return nil, 0
		}
		s = &session{id: int32(c.nextIDLocked()), epoch: 1, parts: fetchParts(req)}
		n.sessions[s.id] = s
		return s, 0
	}
	s = n.sessions[req.SessionID]
	switch {
	case s == nil:
		return nil, codeFetchSessionIDNotFound
	case s.epoch != req.SessionEpoch:
		return nil, codeInvalidFetchSessionEpoch
	}
	if s.epoch++; s.epoch == math.MaxInt32 {
		s.epoch = 1
	}
	s.update(req)
	return s, 0
}

func (s *session) update(req *kmsg.FetchRequest) {
	for _, f := range fetchParts(req) {
		i := slices.IndexFunc(s.parts, func(p *fetchPart) bool { return p.is(f.name, f.topic, f.asked.Partition) })
		if i < 0 {
			s.parts = append(s.parts, f)
		} else {
			s.parts[i].asked = f.asked
		}
	}
	for _, t := range req.ForgottenTopics {
		for _, partition := range t.Partitions {
			s.parts = slices.DeleteFunc(s.parts, func(p *fetchPart) bool { return p.is(t.Topic, t.TopicID, partition) })
		}
	}
}

// tell notes what an answer says of a partition and tells whether an
// incremental answer must hold it.
func (f *fetchPart) tell(out *kmsg.FetchResponseTopicPartition) bool {
	news := !f.told || len(out.RecordBatches) > 0 || out.ErrorCode != 0 || out.DivergingEpoch.Epoch >= 0 ||
		out.PreferredReadReplica >= 0 || out.HighWatermark != f.highWater || out.LogStartOffset != f.logStart
	f.told, f.highWater, f.logStart = out.ErrorCode == 0, out.HighWatermark, out.LogStartOffset
	return news
}

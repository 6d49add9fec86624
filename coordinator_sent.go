package kafka

import (
	"sync"

	"github.com/kafkaconsumer/kafka/internal/cluster"
)

// sentCommits remembers for which topics offsets were committed. Below version 10 a commit
// names its topics, not their ids (KIP-516): one that is sent when a topic was deleted and
// created again, and nothing has told this consumer yet, stores an offset of the old
// topic for the new one.
type sentCommits struct {
	mu   sync.Mutex
	last map[TopicPartition]sentCommit
}

type sentCommit struct {
	topicID [16]byte // of the topic that the offsets are of
	stored  offsetOf // zero: none
	tried   offsetOf // sent last, and may or may not be stored; zero: none
}

// offsetOf is an offset and the topic that it is of.
type offsetOf struct {
	topicID [16]byte
	offset  int64
}

// note takes in a commit that is about to be sent.
func (s *sentCommits) note(what commitment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = make(map[TopicPartition]sentCommit)
	}
	for tp, o := range what.offsets {
		last := s.last[tp]
		if id := what.topics[tp]; id != ([16]byte{}) { // else it is gone, and these are still offsets of it
			last.topicID = id
		}
		last.tried = offsetOf{last.topicID, o.Offset}
		s.last[tp] = last
	}
}

// answered takes in what became of the commit that was noted last. One that was refused
// is not remembered: an offset like it that is found later is somebody else's.
func (s *sentCommits) answered(what commitment, a commitAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tp := range what.offsets {
		last := s.last[tp]
		switch err := a.of(tp); {
		case err == nil:
			last.stored, last.tried = last.tried, offsetOf{}
		case isNotStored(err):
			last.tried = offsetOf{}
		}
		s.last[tp] = last
	}
}

// correct puts the beginning of the new topic in place of offsets of an old one.
func (s *sentCommits) correct(found map[TopicPartition]OffsetAndMetadata, md *cluster.Metadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tp, o := range found {
		now := topicID(md, tp.Topic)
		if now == ([16]byte{}) {
			continue
		}
		last := s.last[tp]
		for _, sent := range []offsetOf{last.stored, last.tried} {
			if sent.topicID != ([16]byte{}) && sent.topicID != now && sent.offset == o.Offset {
				found[tp] = OffsetAndMetadata{}
			}
		}
	}
}

// idsOf returns the ids of the topics that offsets are of, where nothing was read from
// them as metadata has them.
func idsOf(what commitment, md *cluster.Metadata) map[TopicPartition][16]byte {
	ids := make(map[TopicPartition][16]byte, len(what.offsets))
	for tp := range what.offsets {
		if ids[tp] = what.topics[tp]; ids[tp] == [16]byte{} {
			ids[tp] = topicID(md, tp.Topic)
		}
	}
	return ids
}

// leaveOutRecreated takes out of a commit what is of a topic that was deleted and
// created again since it was read: it is an offset of nothing now, and the table of
// positions, which learns of it a moment after metadata, begins anew (decision 7).
func (co *coordinator) leaveOutRecreated(c *commitCall, md *cluster.Metadata) {
	for tp := range c.offsets {
		now, then := topicID(md, tp.Topic), c.topics[tp]
		if now == then || now == [16]byte{} || then == [16]byte{} {
			continue
		}
		co.log.Info("kafka: an offset is not committed, its topic was deleted and created again",
			"partition", tp, "offset", c.offsets[tp].Offset)
		delete(c.offsets, tp)
	}
}

// topicID returns zero for a topic that is not known, or whose broker knows no ids.
func topicID(md *cluster.Metadata, topic string) (id [16]byte) {
	if t := md.Topic(topic); t != nil {
		id = t.ID
	}
	return id
}

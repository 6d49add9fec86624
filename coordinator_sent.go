package kafka

import (
	"sync"

	"github.com/kafkaconsumer/kafka/internal/cluster"
)

// sentCommits remembers for which topics offsets were committed. A commit names its
// topics, not their ids (KIP-516): one that is sent when a topic was deleted and
// created again, and nothing has told this consumer yet, stores an offset of the old
// topic for the new one.
type sentCommits struct {
	mu   sync.Mutex
	last map[TopicPartition]sentCommit
}

type sentCommit struct {
	offset  int64
	topicID [16]byte // as metadata had it when the commit was made
}

// note takes in a commit that is about to be sent.
func (s *sentCommits) note(offsets map[TopicPartition]OffsetAndMetadata, md *cluster.Metadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = make(map[TopicPartition]sentCommit)
	}
	for tp, o := range offsets {
		id := topicID(md, tp.Topic)
		if id == ([16]byte{}) { // it is gone, and these are still offsets of it
			id = s.last[tp].topicID
		}
		s.last[tp] = sentCommit{offset: o.Offset, topicID: id}
	}
}

// correct puts the beginning of the new topic in place of offsets of an old one.
func (s *sentCommits) correct(found map[TopicPartition]OffsetAndMetadata, md *cluster.Metadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tp, o := range found {
		sent, ok := s.last[tp]
		if !ok || sent.offset != o.Offset || sent.topicID == ([16]byte{}) {
			continue
		}
		if id := topicID(md, tp.Topic); id != ([16]byte{}) && id != sent.topicID {
			found[tp] = OffsetAndMetadata{}
		}
	}
}

// topicID returns zero for a topic that is not known, or whose broker knows no ids.
func topicID(md *cluster.Metadata, topic string) (id [16]byte) {
	if t := md.Topic(topic); t != nil {
		id = t.ID
	}
	return id
}

package kafka

import (
	"errors"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// From version 10 on, OffsetCommit and OffsetFetch have the ids of topics (KIP-516), so
// that an offset of a topic that was deleted is never one of the topic of the same name
// that was created after it. commitByName and committedByName are the newest versions
// with names, for topics whose ids are not known.
const commitByName, committedByName = 9, 9

// topicNames are the topics of a request by their ids.
type topicNames map[[16]byte]string

// add notes a topic, and returns false when its id is not known.
func (n topicNames) add(name string, id [16]byte) bool {
	n[id] = name
	return id != [16]byte{}
}

// of returns the name of a topic in an answer, which has its name or its id.
func (n topicNames) of(name string, id [16]byte) string {
	if id != ([16]byte{}) {
		return n[id]
	}
	return name
}

// lookupID returns the id to ask for committed offsets with, zero to ask by the name: of a
// topic that is gone for sure, as brokers do not answer for its id any more.
func lookupID(t *cluster.Topic) (id [16]byte) {
	if t == nil || t.Err == protocol.UnknownTopicOrPartition && t.UnknownConfirmed() {
		return id
	}
	return t.ID
}

// nameUnknown makes of the answer that a topic's id is not known the one about its name,
// which is what callers know, and what older versions answer.
func nameUnknown(err error) error {
	answer, ok := errors.AsType[*BrokerError](err)
	if !ok || answer.Code != protocol.UnknownTopicID {
		return err
	}
	named := *answer
	named.Code = protocol.UnknownTopicOrPartition
	return &named
}

// namesOf returns the topics of a commit; whole is false when the ids of some are not
// known.
func namesOf(req *kmsg.OffsetCommitRequest) (names topicNames, whole bool) {
	names, whole = topicNames{}, true
	for _, t := range req.Topics {
		whole = names.add(t.Topic, t.TopicID) && whole
	}
	return names, whole
}

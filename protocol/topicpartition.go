package protocol

import "strconv"

// A TopicPartition names one partition of a topic. It is comparable and may be
// used as a map key.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns the form that Kafka's own tools print: topic-partition.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.FormatInt(int64(tp.Partition), 10)
}

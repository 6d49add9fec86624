package assignors

import (
	"encoding/binary"
	"slices"
)

// The user data of "sticky" is an array of topics with arrays of partitions, and
// behind it, from version 1 on, the generation (KIP-341). No field tells the version:
// data that ends too early for a generation is version 0. Bytes behind are ignored.

// appendStickyData writes version 1.
func appendStickyData(dst []byte, partitions []TopicPartition, generation int32) []byte {
	byTopic := make(map[string][]int32)
	for _, tp := range partitions {
		byTopic[tp.Topic] = append(byTopic[tp.Topic], tp.Partition)
	}
	topics := make([]string, 0, len(byTopic))
	for topic := range byTopic {
		topics = append(topics, topic)
	}
	slices.Sort(topics)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(topics)))
	for _, topic := range topics {
		ids := byTopic[topic]
		slices.Sort(ids)
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(topic)))
		dst = append(dst, topic...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(ids)))
		for _, id := range ids {
			dst = binary.BigEndian.AppendUint32(dst, uint32(id))
		}
	}
	return binary.BigEndian.AppendUint32(dst, uint32(generation))
}

// stickyGeneration returns the generation in user data, -1 if there is none, and
// whether the data can be read at all.
func stickyGeneration(data []byte) (generation int32, ok bool) {
	rest, ok := eachStickyTopic(data, func([]byte, []byte) {})
	if ok && len(rest) >= 4 {
		return max(-1, int32(binary.BigEndian.Uint32(rest))), true
	}
	return -1, ok
}

// eachStickyTopic calls do with each topic and its partitions, four bytes each, and
// returns what is behind the array.
func eachStickyTopic(data []byte, do func(topic, ids []byte)) (rest []byte, ok bool) {
	if len(data) < 4 {
		return nil, false
	}
	topics := int32(binary.BigEndian.Uint32(data))
	data = data[4:]
	if topics < 0 {
		return nil, false
	}
	for range topics {
		if len(data) < 2 {
			return nil, false
		}
		n := int(int16(binary.BigEndian.Uint16(data)))
		data = data[2:]
		if n < 0 || len(data) < n+4 {
			return nil, false
		}
		topic, count := data[:n], int64(int32(binary.BigEndian.Uint32(data[n:])))
		data = data[n+4:]
		if count < 0 || int64(len(data)) < 4*count {
			return nil, false
		}
		do(topic, data[:4*count])
		data = data[4*count:]
	}
	return data, true
}

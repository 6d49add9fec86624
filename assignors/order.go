package assignors

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// sortedMembers returns the members in the order in which Kafka's own range and
// round-robin assignors serve them: static members by instance id (KIP-345), then
// dynamic ones by member id. All members of a group must agree on it, those of
// other clients included.
func sortedMembers(members []Member) []Member {
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b Member) int {
		static, otherStatic := a.InstanceID != "", b.InstanceID != ""
		switch {
		case static && otherStatic:
			return cmp.Or(compareStrings(a.InstanceID, b.InstanceID), compareStrings(a.ID, b.ID))
		case static:
			return -1
		case otherStatic:
			return 1
		default:
			return compareStrings(a.ID, b.ID)
		}
	})
	return sorted
}

// compareStrings orders strings by their UTF-16 units, as Java does: a member id
// begins with the client id, which may hold any character. The order differs from
// Go's for characters from U+E000 to U+FFFF beside those above.
func compareStrings(a, b string) int {
	restA, restB := a, b
	for restA != "" && restB != "" {
		x, n := utf8.DecodeRuneInString(restA)
		y, m := utf8.DecodeRuneInString(restB)
		if x != y {
			if (x > 0xFFFF) != (y > 0xFFFF) && min(x, y) >= 0xE000 {
				return cmp.Compare(y, x)
			}
			return cmp.Compare(x, y)
		}
		restA, restB = restA[n:], restB[m:]
	}
	// Bytes that are no UTF-8 are all alike above; a and b still need one order.
	return cmp.Or(cmp.Compare(len(restA), len(restB)), strings.Compare(a, b))
}

// subscribers returns the members of each topic that exists, in the given order of
// members. A member that names a topic twice counts once.
func subscribers(members []Member, topics map[string][]Partition) map[string][]Member {
	byTopic := make(map[string][]Member)
	for _, m := range members {
		for _, topic := range m.Topics {
			if _, ok := topics[topic]; !ok {
				continue
			}
			of := byTopic[topic]
			if len(of) > 0 && of[len(of)-1].ID == m.ID {
				continue
			}
			byTopic[topic] = append(of, m)
		}
	}
	return byTopic
}

// sortedTopics returns the keys in order.
func sortedTopics(byTopic map[string][]Member) []string {
	topics := make([]string, 0, len(byTopic))
	for topic := range byTopic {
		topics = append(topics, topic)
	}
	slices.SortFunc(topics, compareStrings)
	return topics
}

// partitionIDs returns the ids in order, each once.
func partitionIDs(partitions []Partition) []int32 {
	ids := make([]int32, len(partitions))
	for i, p := range partitions {
		ids[i] = p.ID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// add gives a member more partitions of a topic.
func (a Assignment) add(member, topic string, partitions ...int32) {
	ma := a[member]
	for _, p := range partitions {
		ma.Partitions = append(ma.Partitions, TopicPartition{Topic: topic, Partition: p})
	}
	a[member] = ma
}

package assignors

import (
	"slices"
	"testing"
)

// holders is the dumb model of whose claim holds: by generation, nobody's when two
// claim with the same, and only of what exists and is subscribed to.
func holders(in Input) map[TopicPartition]string {
	generations := make(map[TopicPartition]int32)
	holders := make(map[TopicPartition]string)
	for _, m := range in.Members {
		for _, tp := range m.Owned {
			if !slices.ContainsFunc(in.Topics[tp.Topic], func(p Partition) bool { return p.ID == tp.Partition }) || !slices.Contains(m.Topics, tp.Topic) {
				continue
			}
			generation, claimed := generations[tp]
			switch {
			case !claimed || m.Generation > generation:
				holders[tp], generations[tp] = m.ID, m.Generation
			case m.Generation == generation && holders[tp] != m.ID:
				holders[tp] = ""
			}
		}
	}
	return holders
}

// quality is how good an assignment is.
type quality struct {
	kept       int // partitions that stayed with their holders
	unevenness int // the differences of loads, over all pairs of members
	spread     int // the greatest differences within each topic, summed up
}

func measure(t *testing.T, in Input, got map[string][]string, holders map[TopicPartition]string) quality {
	t.Helper()
	var q quality
	perTopic := make(map[string]map[string]int)
	for id, tps := range got {
		for _, text := range tps {
			tp := parsed(t, text)
			if holders[tp] == id {
				q.kept++
			}
			if perTopic[tp.Topic] == nil {
				perTopic[tp.Topic] = make(map[string]int)
			}
			perTopic[tp.Topic][id]++
		}
	}
	for i, m := range in.Members {
		for _, other := range in.Members[:i] {
			if len(m.Topics) > 0 && len(other.Topics) > 0 {
				q.unevenness += max(len(got[m.ID])-len(got[other.ID]), len(got[other.ID])-len(got[m.ID]))
			}
		}
	}
	for topic := range in.Topics {
		fewest, most := 1<<30, 0
		for _, m := range in.Members {
			if slices.Contains(m.Topics, topic) {
				n := perTopic[topic][m.ID]
				fewest, most = min(fewest, n), max(most, n)
			}
		}
		q.spread += max(0, most-fewest)
	}
	return q
}

// best is the dumb model of an assignment: the most even loads that there are, by the
// sum of their squares, and the most partitions that can be kept then. It tries all.
func best(in Input, holders map[TopicPartition]string) (squares, kept int) {
	type partition struct {
		readers []int
		holder  string
	}
	var partitions []partition
	for topic, list := range in.Topics {
		var readers []int
		for i, m := range in.Members {
			if slices.Contains(m.Topics, topic) {
				readers = append(readers, i)
			}
		}
		for _, p := range list {
			if len(readers) > 0 {
				partitions = append(partitions, partition{readers, holders[TopicPartition{Topic: topic, Partition: p.ID}]})
			}
		}
	}
	squares = 1 << 30
	loads := make([]int, len(in.Members))
	var try func(i, keeps int)
	try = func(i, keeps int) {
		if i == len(partitions) {
			sum := sumOfSquares(loads)
			if sum < squares || sum == squares && keeps > kept {
				squares, kept = sum, keeps
			}
			return
		}
		for _, reader := range partitions[i].readers {
			more := 0
			if in.Members[reader].ID == partitions[i].holder {
				more = 1
			}
			loads[reader]++
			try(i+1, keeps+more)
			loads[reader]--
		}
	}
	try(0, 0)
	return squares, kept
}

func sumOfSquares(loads []int) (sum int) {
	for _, load := range loads {
		sum += load * load
	}
	return sum
}

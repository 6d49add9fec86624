package kafka

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kafkaconsumer/kafka/internal/fetch"
)

// A solo is the member of a consumer without a group: all partitions of the
// topics subscribed to are its own. It hands out the same steps as a coordinator.
type solo struct {
	wake  func()
	looks atomic.Uint64 // numbers what update is told

	mu   sync.Mutex
	want []TopicPartition
	have []TopicPartition
	step *rebalanceStep
}

// update says which partitions there are, as of a look. Older looks than the newest count
// for nothing.
func (s *solo) update(want []TopicPartition, look uint64) {
	fetch.SortPartitions(want)
	s.mu.Lock()
	changed := look == s.looks.Load() && !slices.Equal(want, s.want)
	if changed {
		s.want = want
	}
	s.mu.Unlock()
	if changed {
		s.wake()
	}
}

func (s *solo) polled() {}

func (s *solo) takeError() error { return nil }

func (s *solo) nextStep() *rebalanceStep {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step != nil {
		return s.step
	}
	gone, added := without(s.have, s.want), without(s.want, s.have)
	switch {
	case len(gone) > 0:
		s.step = &rebalanceStep{kind: stepRevoke, partitions: gone}
	case len(added) > 0:
		s.step = &rebalanceStep{kind: stepAssign, partitions: added, assignment: s.want}
	}
	return s.step
}

func (s *solo) stepDone(st *rebalanceStep) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.kind == stepAssign {
		s.have = st.assignment
	} else {
		s.have = without(s.have, st.partitions)
	}
	s.step = nil
}

// without returns the partitions of a, which is sorted, that are not in b.
func without(a, b []TopicPartition) []TopicPartition {
	in := make(map[TopicPartition]bool, len(b))
	for _, tp := range b {
		in[tp] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(tp TopicPartition) bool { return in[tp] })
}

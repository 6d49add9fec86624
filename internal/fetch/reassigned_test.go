package fetch

import (
	"testing"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// only returns one partition in a list.
func only(partition int32) []protocol.TopicPartition {
	return []protocol.TopicPartition{tpOf(partition)}
}

func TestLookUpsOfAnEarlierAssignmentAreVoid(t *testing.T) {
	answers := map[string]struct {
		byGroup bool
		answer  func(*Table, Lookup)
	}{
		"a committed offset":      {true, func(t *Table, l Lookup) { t.CommittedFound(l, 7, -1) }},
		"no committed offset":     {true, func(t *Table, l Lookup) { t.CommittedNone(l, false) }},
		"an offset found by time": {false, func(t *Table, l Lookup) { t.ResetFound(l, 0, -1) }},
	}
	for name, test := range answers {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			wanted := func() []Lookup {
				committed, _ := r.table.WantCommitted(r.now)
				resets, _ := r.table.WantResets(r.now)
				return append(committed, resets...)
			}
			r.table.Assign(only(0), test.byGroup)
			late := wanted()
			require.Len(t, late, 1)
			r.table.Assign(only(1), test.byGroup)
			r.table.Assign(only(0), test.byGroup)
			for _, l := range wanted() {
				if l.TP == tpOf(0) && test.byGroup {
					r.table.CommittedFound(l, 20, -1)
				} else if l.TP == tpOf(0) {
					r.table.ResetFound(l, 20, -1)
				}
			}
			test.answer(r.table, late[0])
			at, known := r.table.Position(r.p(0))
			require.True(t, known)
			require.EqualValues(t, 20, at.Offset)
		})
	}
}

package fetch

import "testing"

// Below Fetch v3 a partition's size may be more than all room there is.
func TestOneOldBrokerDoesNotTakeTheRoomOfAnother(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxBufferedBytes = 64 << 10 })
	r.assign(2)
	r.lead(1, 5, tpOf(0))
	r.lead(2, 5, tpOf(1))
	first, other := r.plan(1, 2), r.plan(2, 2)
	for range 10 {
		r.answer(first, ans{partition: 0})
		first = r.plan(1, 2)
		r.answer(other, ans{partition: 1})
		other = r.plan(2, 2)
	}
}

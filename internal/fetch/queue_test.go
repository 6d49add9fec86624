package fetch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQueueIsInOrderAndUsesItsMemoryAgain(t *testing.T) {
	var q queue[*int]
	next, first := 0, 0
	push := func() {
		q.push(new(next))
		next++
	}
	pop := func() {
		require.Equal(t, first, **q.at(0))
		require.Equal(t, first, *q.pop())
		first++
	}
	for range 3 {
		push()
	}
	for range 1000 { // it never runs empty
		push()
		pop()
		require.Equal(t, 3, q.len())
		require.Len(t, q.all(), 3)
	}
	require.LessOrEqual(t, cap(q.items), 16)
	for q.len() > 0 {
		pop()
	}
	for _, item := range q.items[:cap(q.items)] {
		require.Nil(t, item, "what left is not kept")
	}
	q.push(new(7))
	require.Equal(t, 7, *q.pop())
}

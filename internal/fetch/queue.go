package fetch

// A queue is first in, first out. It uses its memory again as items leave it.
type queue[T any] struct {
	items []T // those before head have left
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

// all returns the items in order; at returns one of them.
func (q *queue[T]) all() []T    { return q.items[q.head:] }
func (q *queue[T]) at(i int) *T { return &q.items[q.head+i] }

func (q *queue[T]) push(item T) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.all())
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item)
}

// pop takes the first item, which there must be.
func (q *queue[T]) pop() T {
	item := q.items[q.head]
	clear(q.items[q.head : q.head+1])
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return item
}

// drop forgets all items, and the memory.
func (q *queue[T]) drop() { *q = queue[T]{} }

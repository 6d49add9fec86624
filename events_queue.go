package kafka

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// eventQueueSize is how many events may wait for OnEvent.
const eventQueueSize = 1024

// An eventQueue calls OnEvent on a goroutine of its own, which newEventQueue starts
// and close ends and awaits.
type eventQueue struct {
	log    *slog.Logger
	events chan Event
	ended  chan struct{}

	mu      sync.Mutex
	closed  bool
	dropped int
}

func newEventQueue(onEvent func(Event), log *slog.Logger) *eventQueue {
	q := &eventQueue{log: log}
	if onEvent == nil {
		return q
	}
	q.events = make(chan Event, eventQueueSize)
	q.ended = make(chan struct{})
	go func() {
		defer close(q.ended)
		for e := range q.events {
			onEvent(e)
		}
	}()
	return q
}

// add queues an event. It does not block.
func (q *eventQueue) add(e Event) {
	if q.events == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	select {
	case q.events <- e:
	default:
		if q.dropped++; q.dropped == 1 {
			q.log.Warn("kafka: OnEvent is too slow, events are dropped", "event", e.String())
		}
	}
}

// close ends the goroutine and awaits it, as long as ctx lasts: OnEvent may hang.
func (q *eventQueue) close(ctx context.Context) {
	if q.events == nil {
		return
	}
	q.mu.Lock()
	q.closed = true
	close(q.events)
	q.mu.Unlock()
	select {
	case <-q.ended:
	case <-ctx.Done():
	}
}

// problems are errors that the next Poll returns. One that stands is passed on at
// most once per interval.
type problems struct {
	interval time.Duration

	mu      sync.Mutex
	pending []problem
	told    map[string]time.Time
}

// A problem is an error, and its text by which it is known.
type problem struct {
	key string
	err error
}

func (p *problems) add(err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	key := err.Error()
	if last, ok := p.told[key]; ok && now.Sub(last) < p.interval {
		return
	}
	if p.told == nil || len(p.told) > maxToldProblems {
		p.told = make(map[string]time.Time)
	}
	p.told[key] = now
	if waits := func(q problem) bool { return q.key == key }; !slices.ContainsFunc(p.pending, waits) {
		p.pending = append(p.pending, problem{key, err})
	}
}

// maxToldProblems bounds the memory of what was told.
const maxToldProblems = 1000

func (p *problems) take() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending) == 0 {
		return nil
	}
	err := p.pending[0].err
	p.pending = p.pending[1:]
	return err
}

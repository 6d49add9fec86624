package kafka

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A trickleModel is what a test knows of a consumer that reads two partitions, and of what
// others do to it meanwhile. One goroutine reads, another disturbs.
type trickleModel struct {
	t   *testing.T
	b   *testbroker.Cluster
	c   *Consumer
	rng *rand.Rand // of the reader

	mu    sync.Mutex
	next  [2]int64   // the offset that comes next
	moved [2][]int64 // where others set the position while a read was under way
	reads bool       // one is under way
	held  [2]bool    // paused before the read that is under way began
	n     int        // records read
	lent  int        // reads behind which a loop was lent
}

func modelPartition(p int) TopicPartition { return TopicPartition{Topic: "t", Partition: int32(p)} }

// reading runs one read, of which nothing may be handed over of what was paused before.
func (m *trickleModel) reading(read func() []Record) {
	m.mu.Lock()
	m.reads, m.moved, m.held = true, [2][]int64{}, [2]bool{}
	for _, tp := range m.c.Paused() {
		m.held[tp.Partition] = true
	}
	m.mu.Unlock()
	records := read()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads = false
	for _, r := range records {
		m.take(r)
	}
	for p, moved := range m.moved {
		if len(moved) > 0 { // whether before or behind what was read cannot be told
			offset, err := m.c.Position(m.t.Context(), modelPartition(p))
			require.NoError(m.t, err)
			m.next[p] = offset
		}
	}
	if lentLoop(m.c) != nil {
		m.lent++
	}
}

func (m *trickleModel) take(r Record) {
	p := r.Partition
	require.False(m.t, m.held[p], "a record of a paused partition: %d/%d", p, r.Offset)
	if r.Offset != m.next[p] {
		require.Contains(m.t, m.moved[p], r.Offset, "partition %d, expected %d", p, m.next[p])
	}
	require.Equal(m.t, strconv.FormatInt(r.Offset, 10), string(r.Value))
	m.next[p] = r.Offset + 1
	m.n++
}

// read reads in one of the ways that there are.
func (m *trickleModel) read() {
	ctx, cancel := context.WithCancel(m.t.Context())
	defer cancel()
	timeouts := []time.Duration{0, 1, time.Millisecond, 5 * time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond}
	timeout := timeouts[m.rng.IntN(len(timeouts))]
	switch m.rng.IntN(12) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
		timeout = -1
	case 1:
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
		m.iterate(ctx)
		return
	case 2:
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
		m.receive(ctx, cancel)
		return
	}
	m.reading(func() (got []Record) {
		records, err := m.c.Poll(ctx, timeout)
		if ctx.Err() == nil {
			require.NoError(m.t, err)
		}
		for r := range records.All() {
			got = append(got, r.Clone())
		}
		records.Release()
		return got
	})
}

func (m *trickleModel) iterate(ctx context.Context) {
	most := m.rng.IntN(4)
	m.reading(func() (got []Record) {
		for r, err := range m.c.Records(ctx) {
			if err != nil {
				require.ErrorIs(m.t, err, ctx.Err())
				break
			}
			got = append(got, r)
			if len(got) > most {
				break
			}
		}
		return got
	})
}

func (m *trickleModel) receive(ctx context.Context, cancel func()) {
	most := m.rng.IntN(4)
	m.reading(func() (got []Record) {
		for r := range m.c.Messages(ctx) {
			if got = append(got, r); len(got) > most {
				cancel()
			}
		}
		return got
	})
}

// disturb does something that may happen at any time, from another goroutine.
func (m *trickleModel) disturb(rng *rand.Rand) {
	p := rng.IntN(2)
	tp := modelPartition(p)
	switch rng.IntN(20) {
	case 0:
		m.b.CutConns(1 + int32(rng.IntN(2)))
	case 1:
		m.b.SetLeader("t", tp.Partition, 1+int32(rng.IntN(2)))
	case 2:
		m.b.SetLeader("t", 0, 1)
		m.b.SetLeader("t", 1, 1)
	case 3:
		m.b.DropSessions(1 + int32(rng.IntN(2)))
	case 4:
		m.seek(rng, p)
	case 5:
		assert.NoError(m.t, m.c.Pause(tp))
		time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
		m.mu.Lock()
		m.held[p] = false
		err := m.c.Resume(tp)
		m.mu.Unlock()
		assert.NoError(m.t, err)
	case 6:
		_, err := m.c.Health()
		assert.NoError(m.t, err)
		m.c.Metrics()
	default:
		produce(m.b, "t", tp.Partition, 1+rng.IntN(2)*rng.IntN(3))
	}
}

func (m *trickleModel) seek(rng *rand.Rand, p int) {
	to := rng.Int64N(m.b.EndOffset("t", int32(p)) + 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	assert.NoError(m.t, m.c.Seek(modelPartition(p), to))
	if m.reads {
		m.moved[p] = append(m.moved[p], to)
	} else {
		m.next[p] = to
	}
}

// disturbAlways disturbs until stop is called.
func (m *trickleModel) disturbAlways(rng *rand.Rand) (stop func()) {
	ctx, cancel := context.WithCancel(m.t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			m.disturb(rng)
			time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
		}
	}()
	return func() { cancel(); <-stopped }
}

func TestWhateverHappensWhilePollReadsAnswersItself(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	realTime(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		b.SetLeader("t", 0, 1)
		b.SetLeader("t", 1, 1)
		cfg := patient(fast(b))
		cfg.FetchMaxWait = 20 * time.Millisecond
		cfg.RetryBackoff, cfg.RetryBackoffMax = time.Millisecond, 10*time.Millisecond
		cfg.ReconnectBackoff, cfg.ReconnectBackoffMax = time.Millisecond, 10*time.Millisecond
		m := &trickleModel{t: t, b: b, c: reader(t, cfg, modelPartition(0), modelPartition(1)), rng: rand.New(rand.NewPCG(seed, 0))}
		stop := m.disturbAlways(rand.New(rand.NewPCG(seed, 1)))
		defer stop()
		for began := time.Now(); time.Since(began) < 1500*time.Millisecond; {
			m.read()
			if m.rng.IntN(10) == 0 {
				time.Sleep(time.Duration(m.rng.IntN(15)) * time.Millisecond)
			}
		}
		stop()
		for began := time.Now(); m.next[0] < b.EndOffset("t", 0) || m.next[1] < b.EndOffset("t", 1); {
			require.Less(t, time.Since(began), time.Minute, "at %v", m.next)
			m.read()
		}
		t.Logf("%d records, %d reads left a loop lent", m.n, m.lent)
		closed := make(chan error)
		go func() { closed <- m.c.Close(context.Background()) }()
		for {
			if _, err := m.c.Poll(t.Context(), 10*time.Millisecond); err != nil {
				require.ErrorIs(t, err, ErrClosed)
				break
			}
		}
		require.NoError(t, <-closed)
	}, testbroker.WithTCP(), testbroker.WithNodes(2))
}

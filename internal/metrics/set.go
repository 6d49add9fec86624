package metrics

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A Set holds all that one consumer measures. Its methods, and those of its parts, may
// be called from any goroutine.
type Set struct {
	Client Client
	Fetch  Fetch
	Group  Group

	windows  Windows
	now      func() time.Time
	origin   time.Time
	clientID string
	grouped  bool

	changes atomic.Uint64 // of which nodes, topics and partitions there are

	mu    sync.Mutex
	nodes map[int32]*Node
}

// New returns a Set for a consumer, which is a member of a group or is not. now is the
// clock by which what it measures is dated.
func New(w Windows, clientID string, grouped bool, now func() time.Time) *Set {
	w.Samples = int(min(int64(w.Samples), math.MaxInt64/int64(w.Length))) // so that all of them together are a time
	s := &Set{windows: w, clientID: clientID, grouped: grouped, now: now, origin: now(), nodes: make(map[int32]*Node)}
	s.Client.init(s)
	s.Fetch.init(s)
	s.Group.init(s)
	return s
}

// Changes is a number that grows when a node, a topic or a partition begins or ends to
// be measured.
func (s *Set) Changes() uint64 { return s.changes.Load() }

// newMoment returns a moment that was not noted.
func (s *Set) newMoment() moment { return moment{origin: s.origin} }

// A moment is when something happened last.
type moment struct {
	origin time.Time
	at     atomic.Int64 // ns since origin, and 1; 0: never
}

func (m *moment) note(now time.Time) { m.at.Store(int64(now.Sub(m.origin)) + 1) }

// since returns how long before now it was, false if it never was.
func (m *moment) since(now time.Time) (time.Duration, bool) {
	at := m.at.Load()
	return max(now.Sub(m.origin)-time.Duration(at-1), 0), at != 0
}

// ago returns since in seconds, -1 for never, as Java does.
func (m *moment) ago(now time.Time) float64 {
	if d, ever := m.since(now); ever {
		return d.Seconds()
	}
	return -1
}

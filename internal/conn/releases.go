package conn

import (
	"context"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// Releases remembers which brokers are too old to be asked for their versions, so that
// one connection to each finds out for all, and which ones are not, so that a
// disturbance never makes them look old. Brokers of one cluster share it. Its methods
// may be called from any goroutine. Where is what is dialled, so that two brokers behind one
// name are told apart.
type Releases struct {
	mu          sync.Mutex
	modern      map[string]bool // answered ApiVersions
	modernNodes map[int32]bool
	old         map[string]oldBroker
	seenOld     bool                        // there was one
	told        map[string]protocol.Release // what was logged
	turns       map[string]chan struct{}    // each holds a token while a connection probes
}

// An oldBroker is one without ApiVersions.
type oldBroker struct {
	release protocol.Release
	at      time.Time // when it was found
}

// NewReleases returns Releases that know nothing.
func NewReleases() *Releases {
	return &Releases{
		modern: map[string]bool{}, modernNodes: map[int32]bool{}, old: map[string]oldBroker{},
		told: map[string]protocol.Release{}, turns: map[string]chan struct{}{},
	}
}

// release returns the release of a broker that is known to be old.
func (r *Releases) release(where string) (protocol.Release, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.old[where]
	return b.release, ok
}

// isModern tells whether the node, or whoever listens there, has ever answered ApiVersions.
func (r *Releases) isModern(node int32, where string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.modern[where] || r.modernNodes[node]
}

// answeredVersions notes that a broker answered ApiVersions.
func (r *Releases) answeredVersions(node int32, where string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.old, where)
	r.modern[where] = true
	if node >= 0 {
		r.modernNodes[node] = true
	}
}

// foundOld notes the release of a broker without ApiVersions.
func (r *Releases) foundOld(where string, release protocol.Release) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seenOld = true
	r.old[where] = oldBroker{release, time.Now()}
}

// forget is for a connection that was begun at a time and failed: the broker may come
// back as another release. What was found since is kept.
func (r *Releases) forget(where string, begun time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, ok := r.old[where]; ok && !b.at.After(begun) {
		delete(r.old, where)
	}
}

// news tells, once for each, that a broker is of a release.
func (r *Releases) news(where string, release protocol.Release) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, ok := r.told[where]; ok && before == release {
		return false
	}
	r.told[where] = release
	return true
}

// turn waits until no other connection probes the broker, if the cluster has old ones:
// a request that 0.9 does not know makes it lose others that arrive in the same moment
// (KAFKA-3547), such as another connection's probe. done must be called.
func (r *Releases) turn(ctx context.Context, where string) (done func(), err error) {
	r.mu.Lock()
	if !r.seenOld || r.modern[where] {
		r.mu.Unlock()
		return func() {}, nil
	}
	token := r.turns[where]
	if token == nil {
		token = make(chan struct{}, 1)
		r.turns[where] = token
	}
	r.mu.Unlock()
	select {
	case token <- struct{}{}:
		return func() { <-token }, nil
	case <-ctx.Done():
		return nil, ctxError(ctx)
	}
}

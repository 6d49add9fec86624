//go:build !race

package fetch

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Under the race detector buffers come back only when they are released.

// counts returns how many buffers are free and how many slabs come back by themselves.
func (p *pool) counts() (free, tracked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free), p.tracked
}

// afterCollections collects garbage until ok.
func afterCollections(t *testing.T, ok func() bool, why string) {
	t.Helper()
	require.Eventually(t, func() bool {
		runtime.GC()
		return ok()
	}, 30*time.Second, time.Millisecond, why)
}

func TestABufferComesBackWhenNobodyRefersToItsBytes(t *testing.T) {
	var p pool
	kept := append(p.get(false).b, "kept"...)
	p.get(false)
	afterCollections(t, func() bool { free, _ := p.counts(); return free == 1 }, "the other one comes back")
	for range 3 {
		runtime.GC()
		p.mu.Lock()
		for _, buf := range p.free {
			copy(buf.b[:4], "gone")
		}
		p.mu.Unlock()
	}
	require.Equal(t, "kept", string(kept))
}

func TestABufferComesBackAgainAndAgain(t *testing.T) {
	var p pool
	for range 5 {
		p.get(false)
		afterCollections(t, func() bool { free, _ := p.counts(); return free > 0 }, "it comes back")
		_, tracked := p.counts()
		require.Equal(t, 1, tracked)
	}
}

func TestBuffersThatDoNotComeBackAreNotGivenOut(t *testing.T) {
	var p pool
	var kept []*buffer
	for range maxTracked {
		kept = append(kept, p.get(false))
	}
	require.Nil(t, p.get(false))
	released := p.get(true)
	require.NotNil(t, released, "it comes back by being released")
	p.put(released)
	require.Same(t, released, p.get(false))
	runtime.KeepAlive(kept)
}

func TestUnusedBuffersAreGivenUp(t *testing.T) {
	var p pool
	for range 10 {
		defer p.put(p.get(true))
	}
	func() {
		var all []*buffer
		for range 10 {
			all = append(all, p.get(true))
		}
		for _, buf := range all {
			p.put(buf)
		}
	}()
	afterCollections(t, func() bool { free, tracked := p.counts(); return free == 0 && tracked == 10 }, "only those in use stay")
	require.True(t, p.watched)
}

package metrics

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWindowsWithoutEndOverflowNothing(t *testing.T) {
	now := time.UnixMilli(0)
	s := New(Windows{Samples: math.MaxInt, Length: time.Hour}, "me", false, func() time.Time { return now })
	s.Open(1).Sent(100)
	now = now.Add(1000 * time.Hour)
	require.EqualValues(t, 1, s.Client.sent.Read(now).count)
	require.Positive(t, s.Client.sent.Read(now).Rate())
}

// Whatever is measured and whoever looks, at the same time.
func TestASetIsForManyGoroutines(t *testing.T) {
	s := New(Windows{Samples: 2, Length: time.Microsecond}, "me", true, time.Now)
	var wg, looks sync.WaitGroup
	stop := make(chan struct{})
	looks.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.Collect(nil, time.Now())
			}
		}
	})
	for id := range int32(4) {
		wg.Go(func() {
			for range 200 {
				n := s.Open(id)
				n.Sent(10)
				n.Received(20, time.Millisecond)
				n.Throttled(0)
				n.Authenticated(false, time.Millisecond, true)
				p := s.Fetch.Partition("t", id)
				p.Topic().Brought(7, time.Now())
				p.Gone()
				s.Group.Rebalanced(time.Second, time.Now())
				n.Closed()
			}
		})
	}
	wg.Wait()
	close(stop)
	looks.Wait()
	require.EqualValues(t, 800, s.Client.sent.Count())
	require.EqualValues(t, 800, s.Client.authenticated.Count())
	require.EqualValues(t, 800, s.Client.closed.Count())
	require.Zero(t, s.Client.open.Load())
	require.EqualValues(t, 800, s.Group.rebalance.Count())
	time.Sleep(10 * time.Microsecond)
	for _, v := range s.Collect(nil, time.Now()) {
		require.NotEqual(t, nodeGroup, v.Group, "nodes without connections are forgotten")
	}
}

// A connection whose node turns out to be another one is neither closed nor opened.
func TestAConnectionMovesToAnotherNode(t *testing.T) {
	s := New(Windows{Samples: 2, Length: time.Minute}, "me", false, time.Now)
	boot := s.Open(-1)
	boot.Sent(10)
	node := boot.Move(3)
	node.Sent(20)
	require.EqualValues(t, 1, s.Client.opened.Count())
	require.EqualValues(t, 1, s.Client.open.Load())
	require.Zero(t, s.Client.closed.Count())
	require.Zero(t, boot.open)
	require.Equal(t, 1, node.open)
	require.EqualValues(t, 2, s.Client.sent.Count())
	require.EqualValues(t, 1, node.sent.Count())
	node.Closed()
	require.Zero(t, s.Client.open.Load())
}

package cluster

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// openMeters counts the open connections by node, and all that were opened.
type openMeters struct {
	mu     sync.Mutex
	open   map[int32]int
	opened int
}

func (o *openMeters) add(node int32, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[node] += n; o.open[node] == 0 {
		delete(o.open, node)
	}
}

func (o *openMeters) meter(node int32, was conn.Meter) conn.Meter {
	if m, moves := was.(openMeter); moves {
		o.add(m.node, -1)
	} else {
		o.opened++
	}
	o.add(node, 1)
	return openMeter{o, node}
}

type openMeter struct {
	*openMeters
	node int32
}

func (m openMeter) Sent(int)                                {}
func (m openMeter) Received(int, time.Duration)             {}
func (m openMeter) Throttled(time.Duration)                 {}
func (m openMeter) Authenticated(bool, time.Duration, bool) {}
func (m openMeter) Closed()                                 { m.add(m.node, -1) }

// A bootstrap server that turns out to be a broker need not be dialled again.
func TestTheConnectionOfABootstrapServerIsThatOfItsBroker(t *testing.T) {
	for name, find := range map[string]bool{"metadata tells": false, "the coordinator is told first": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				tb := testbroker.New(t)
				meters := &openMeters{open: map[int32]int{}}
				cfg := testConfig(t, tb.Dial, tb.Addrs()...)
				cfg.Conn.Meter = meters.meter
				c := New(cfg)
				defer c.Close()
				found := make(chan error, 1)
				if find {
					tb.On(protocol.KeyMetadata).Once().Delay(headStart / 2) // else others are asked too
					go func() { _, err := c.FindCoordinator(t.Context(), "g"); found <- err }()
				}
				require.NoError(t, c.Bootstrap(t.Context()))
				if find {
					require.NoError(t, <-found)
				}
				_, err := c.Do(t.Context(), 1, conn.Control, kmsg.NewPtrListGroupsRequest())
				require.NoError(t, err)
				require.Equal(t, 1, tb.Conns(1))
				require.Equal(t, 1, tb.Count(protocol.KeyApiVersions))
				require.Equal(t, map[int32]int{1: 1}, meters.open)
				require.Equal(t, 1, meters.opened)

				tb.On(protocol.KeyListGroups).Once().Close()
				_, err = c.Do(t.Context(), 1, conn.Control, kmsg.NewPtrListGroupsRequest())
				broken, ok := errors.AsType[*conn.Error](err)
				require.True(t, ok)
				require.EqualValues(t, 1, broken.Node)
				synctest.Wait()
				require.Empty(t, meters.open)
			})
		})
	}
}

func TestABootstrapServerByAnotherNameIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t)
		tb.On(protocol.KeyMetadata).Edit(func(_ testbroker.Request, resp kmsg.Response) {
			resp.(*kmsg.MetadataResponse).Brokers[0].Host = "another.test"
		})
		c := start(t, tb, nil)
		synctest.Wait()
		require.Zero(t, tb.Conns(1))
		b, ok := c.Broker(1)
		require.True(t, ok)
		require.False(t, b.Connected())
	})
}

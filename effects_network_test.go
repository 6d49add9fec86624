package kafka

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClientIDIsInEachRequest(t *testing.T) {
	for id, want := range map[string]string{"": "kafka-go-consumer-" + Version, "billing-1": "billing-1"} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			cfg := fast(b)
			cfg.ClientID, cfg.GroupID, cfg.Topics = id, "g", []string{"t"}
			c := openConsumer(t, cfg)
			_, err := c.Poll(t.Context(), 5*time.Second)
			require.NoError(t, err)
			require.NoError(t, c.Close(t.Context()))
			keys := map[int16]bool{}
			for _, req := range b.Requests(testbroker.AnyKey) {
				keys[req.Key] = true
				require.Equal(t, want, req.ClientID)
			}
			require.Greater(t, len(keys), 6)
		})
	}
}

// A wire counts the requests that were written to a connection, by API.
type wire struct {
	net.Conn
	mu    *sync.Mutex
	sent  map[int16]int
	frame []byte
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.frame = append(w.frame, p...)
	for len(w.frame) >= 6 {
		size := 4 + int(binary.BigEndian.Uint32(w.frame))
		if len(w.frame) < size {
			break
		}
		w.sent[int16(binary.BigEndian.Uint16(w.frame[4:]))]++
		w.frame = w.frame[size:]
	}
	w.mu.Unlock()
	return w.Conn.Write(p)
}

func TestRequestsOnTheirWayAreBounded(t *testing.T) {
	for most, want := range map[int]int{0: 5, 1: 1, 3: 3, 10: 8} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			var mu sync.Mutex
			sent := map[int16]int{}
			cfg := fast(b)
			cfg.MaxInFlightRequestsPerConnection, cfg.MetadataMaxAge, cfg.GroupID = most, time.Hour, "g"
			cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := b.Dial(ctx, network, addr)
				return &wire{Conn: c, mu: &mu, sent: sent}, err
			}
			c := openConsumer(t, cfg)
			_, err := c.Committed(t.Context(), tp0)
			require.NoError(t, err)
			held := b.On(keyOffsetFetch).Hold()
			mu.Lock()
			clear(sent)
			mu.Unlock()
			var calls sync.WaitGroup
			for range 8 {
				calls.Go(func() { _, _ = c.Committed(t.Context(), tp0) })
			}
			synctest.Wait()
			mu.Lock()
			onTheirWay := sent[keyOffsetFetch]
			mu.Unlock()
			held.Release()
			calls.Wait()
			require.Equal(t, want, onTheirWay, "with %d", most)
		})
	}
}

// gaps returns the times between moments.
func gaps(times []time.Time) []time.Duration {
	var out []time.Duration
	for i := 1; i < len(times); i++ {
		out = append(out, times[i].Sub(times[i-1]))
	}
	return out
}

// requireBackoff checks that gaps double from base to most, each varied by 20 %.
func requireBackoff(t *testing.T, gaps []time.Duration, base, most time.Duration) {
	t.Helper()
	require.NotEmpty(t, gaps)
	for i, gap := range gaps {
		want := float64(min(base<<i, most))
		require.InDelta(t, want, float64(gap), 0.21*want, "gap %d of %v", i, gaps)
	}
}

func TestRetryBackoffIsBetweenAttemptsOfARequest(t *testing.T) {
	for _, tt := range []struct{ base, most time.Duration }{
		{100 * time.Millisecond, time.Second}, {400 * time.Millisecond, 1600 * time.Millisecond}, {time.Second, 500 * time.Millisecond},
	} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			cfg := fast(b)
			cfg.RetryBackoff, cfg.RetryBackoffMax, cfg.MetadataMaxAge, cfg.GroupID = tt.base, tt.most, time.Hour, "g"
			c := openConsumer(t, cfg)
			const coordinatorLoads = 14
			b.On(keyOffsetFetch).Times(6).Fail(coordinatorLoads)
			_, err := c.Committed(t.Context(), tp0)
			require.NoError(t, err)
			var times []time.Time
			for _, req := range b.Requests(keyOffsetFetch) {
				times = append(times, req.Time)
			}
			require.Len(t, times, 7)
			requireBackoff(t, gaps(times), min(tt.base, tt.most), tt.most)
		})
	}
}

// dials has the consumer's dials recorded, by address.
func dials(b *testbroker.Cluster, cfg *Config) func(addr string) []time.Time {
	var mu sync.Mutex
	at := map[string][]time.Time{}
	dial := cfg.Dialer
	cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		at[addr] = append(at[addr], time.Now())
		mu.Unlock()
		return dial(ctx, network, addr)
	}
	return func(addr string) []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(at[addr])
	}
}

func TestReconnectBackoffIsBetweenAttemptsAtABroker(t *testing.T) {
	for _, tt := range []struct{ base, most time.Duration }{
		{50 * time.Millisecond, time.Second}, {time.Second, 8 * time.Second}, {-1, time.Second},
	} {
		bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
			b.SetLeader("t", 0, 2)
			cfg := fast(b)
			cfg.ReconnectBackoff, cfg.ReconnectBackoffMax, cfg.RetryBackoff = tt.base, tt.most, -1
			cfg.BootstrapServers, cfg.MetadataMaxAge = b.Addrs()[:1], time.Hour
			of := dials(b, &cfg)
			c := openConsumer(t, cfg)
			b.StopNode(2)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := c.EndOffsets(ctx, tp0)
			require.Error(t, err)
			times := of(b.Addr(2))
			if tt.base < 0 {
				require.Greater(t, len(times), 100)
				return
			}
			requireBackoff(t, gaps(times), tt.base, tt.most)
		}, testbroker.WithNodes(2))
	}
}

func TestConnectionsMaxIdleClosesAndUseOpensAgain(t *testing.T) {
	for _, tt := range []struct {
		idle time.Duration
		left int
	}{{time.Minute, 0}, {0, 0}, {-1, 1}, {time.Hour, 1}} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			cfg := fast(b)
			cfg.ConnectionsMaxIdle, cfg.MetadataMaxAge = tt.idle, 24*time.Hour
			c := openConsumer(t, cfg)
			open := func() int { synctest.Wait(); return b.Conns(1) }
			ends := func() {
				_, err := c.EndOffsets(t.Context(), tp0)
				require.NoError(t, err)
			}
			ends()
			require.Equal(t, 1, open())
			time.Sleep(50 * time.Second)
			require.Equal(t, 1, open())
			require.True(t, c.BootstrapConnected())
			time.Sleep(10 * time.Minute)
			require.Equal(t, tt.left, open(), "with %v", tt.idle)
			require.Equal(t, tt.left == 1, c.BootstrapConnected())
			ends()
			require.Equal(t, 1, open())
		})
	}
}

func TestRequestTimeoutBoundsAnAnswer(t *testing.T) {
	for _, limit := range []time.Duration{2 * time.Second, 20 * time.Second} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			cfg := fast(b)
			cfg.RequestTimeout, cfg.MetadataMaxAge = limit, time.Hour
			of := dials(b, &cfg)
			c := openConsumer(t, cfg)
			before := len(of(b.Addr(1)))
			b.On(keyListOffsets).Once().Drop()
			began := time.Now()
			_, err := c.EndOffsets(t.Context(), tp0)
			require.NoError(t, err, "the next attempt is answered")
			require.InDelta(t, limit, time.Since(began), float64(500*time.Millisecond))
			require.Greater(t, len(of(b.Addr(1))), before, "by another connection")
		})
	}
}

func TestDefaultAPITimeoutBoundsCallsWithoutADeadline(t *testing.T) {
	for _, limit := range []time.Duration{5 * time.Second, 40 * time.Second} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			cfg := fast(b)
			cfg.DefaultAPITimeout = limit
			c := openConsumer(t, cfg)
			b.On(keyListOffsets).Drop()
			took := func(ctx context.Context) time.Duration {
				began := time.Now()
				_, err := c.EndOffsets(ctx, tp0)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				return time.Since(began)
			}
			require.Equal(t, limit, took(context.WithoutCancel(t.Context())))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.Equal(t, time.Minute, took(ctx), "a deadline of one's own counts")
		})
	}
}

func TestSocketConnectionSetupTimeoutBoundsADial(t *testing.T) {
	for _, limit := range []time.Duration{0, 3 * time.Second} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			b.HangDials(1, true)
			cfg := fast(b)
			cfg.SocketConnectionSetupTimeout = limit
			began := time.Now()
			_, err := NewConsumer(t.Context(), cfg)
			require.ErrorContains(t, err, "usable connection within")
			want := limit
			if limit == 0 {
				want = 10 * time.Second
			}
			require.Equal(t, want, time.Since(began))
		})
	}
}

func TestAPIVersionAutoTimeoutBoundsTheQuestionForTheVersion(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, 4 * time.Second} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			b.On(testbroker.AnyKey).Drop()
			cfg := fast(b)
			cfg.APIVersionAutoTimeout = limit
			began := time.Now()
			_, err := NewConsumer(t.Context(), cfg)
			require.ErrorContains(t, err, "APIVersionAutoTimeout")
			require.InDelta(t, limit, time.Since(began), float64(10*time.Millisecond))
		})
	}
}

func TestAPIVersionBoundsWhatIsUsed(t *testing.T) {
	newest := func(release string) (versions map[int16]int16) {
		versions = map[int16]int16{}
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			produce(b, "t", 0, 1)
			cfg := fast(b)
			cfg.APIVersion = release
			c := reader(t, cfg, tp0)
			pollN(t, c, 1)
			for _, req := range b.Requests(testbroker.AnyKey) {
				versions[req.Key] = max(versions[req.Key], req.Version)
			}
		})
		return versions
	}
	old := newest("0.11")
	require.EqualValues(t, 5, old[keyFetch])
	require.EqualValues(t, 4, old[keyMetadata])
	require.EqualValues(t, 2, old[keyListOffsets])
	free := newest("")
	require.Greater(t, free[keyFetch], int16(11))
	require.Greater(t, free[keyMetadata], int16(9))
}

func TestAnAnswerBeyondReceiveMessageMaxBytesIsNotRead(t *testing.T) {
	for _, most := range []int32{1 << 20, 4 << 20} {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			cfg := fast(b)
			cfg.FetchMaxBytes, cfg.MaxPartitionFetchBytes = 1, 1
			cfg.ReceiveMessageMaxBytes = most + 2
			b.On(keyListOffsets).Once().Raw(func(r testbroker.Request) []byte {
				frame := binary.BigEndian.AppendUint32(nil, 2<<20)
				return append(binary.BigEndian.AppendUint32(frame, uint32(r.Correlation)), make([]byte, 100)...)
			})
			c := openConsumer(t, cfg)
			began := time.Now()
			_, err := c.EndOffsets(t.Context(), tp0)
			require.NoError(t, err)
			if most < 2<<20 {
				require.Less(t, time.Since(began), time.Second, "the connection was given up at once")
				return
			}
			require.GreaterOrEqual(t, time.Since(began), cfg.RequestTimeout, "the rest was waited for")
		})
	}
}

func TestTheDialerMakesEachConnection(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		b.SetLeader("t", 1, 2)
		produce(b, "t", 0, 1)
		produce(b, "t", 1, 1)
		cfg := fast(b)
		cfg.BootstrapServers = []string{strings.ToUpper(b.Addr(1))}
		var bootstrap atomic.Bool
		dial := cfg.Dialer
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			assert.Equal(t, "tcp", network)
			if addr == strings.ToUpper(b.Addr(1)) {
				bootstrap.Store(true)
				addr = b.Addr(1)
			}
			return dial(ctx, network, addr)
		}
		of := dials(b, &cfg)
		c := reader(t, cfg, tpAt(0), tpAt(1))
		require.Len(t, pollN(t, c, 2), 2)
		require.True(t, bootstrap.Load(), "names come as they were configured")
		require.NotEmpty(t, of(b.Addr(1)))
		require.NotEmpty(t, of(b.Addr(2)))
	}, testbroker.WithNodes(2))
}

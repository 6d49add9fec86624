package kafka

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

// A broker answers the requests of one connection one after the other, so that what a
// user waits for must not queue behind a long poll or a join.
func TestHeldFetchAndJoinHoldUpNothingElse(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 10)
		c := joiner(t, b, nil)
		pollN(t, c, 10)
		fetches := b.On(keyFetch).Hold()
		joins := b.On(keyJoinGroup).Hold()
		began := time.Now()
		require.True(t, fetches.WaitHeld(1, 5*time.Second))
		require.NoError(t, c.EnforceRebalance("a test"))
		_, err := c.Poll(t.Context(), 100*time.Millisecond)
		require.NoError(t, err)
		require.True(t, joins.WaitHeld(1, 5*time.Second))

		cfg := fast(b)
		cfg.GroupID = "by hand"
		m := openConsumer(t, cfg)
		require.NoError(t, m.Assign(tp0))
		for time.Since(began) < 5*time.Second {
			asked := time.Now()
			_, err := m.Position(t.Context(), tp0)
			require.NoError(t, err)
			require.NoError(t, m.Commit(t.Context()))
			_, err = c.Committed(t.Context(), tp0)
			require.NoError(t, err)
			_, err = c.EndOffsets(t.Context(), tp0)
			require.NoError(t, err)
			require.Less(t, time.Since(asked), 100*time.Millisecond)
			time.Sleep(100 * time.Millisecond)
		}
		fetches.Release()
		joins.Release()
	})
}

func TestUnreachableServersAreNamedEachWithItsReason(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()

	addrs := []string{
		strings.TrimPrefix(web.URL, "http://"),
		strings.TrimPrefix(secure.URL, "https://"),
		closed.Addr().String(),
		silent.Addr().String(),
		"no-such-host.invalid:9092",
	}
	began := time.Now()
	_, err = NewConsumer(t.Context(), Config{
		BootstrapServers: addrs, APIVersionAutoTimeout: 3 * time.Second, Logger: fast(testbroker.New(t)).Logger,
	})
	require.Error(t, err)
	require.Less(t, time.Since(began), 25*time.Second, "not RequestTimeout")
	for _, addr := range addrs {
		require.ErrorContains(t, err, addr)
	}
	require.ErrorContains(t, err, "TLS")
	require.ErrorContains(t, err, "refused")
}

func TestNewConsumerKeepsToItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = NewConsumer(ctx, Config{BootstrapServers: []string{silent.Addr().String()}, APIVersionAutoTimeout: time.Minute})
	require.Error(t, err)
	require.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
	require.Less(t, time.Since(began), 30*time.Second)
}

// B47
func TestServersAreTriedUntilOneAnswers(t *testing.T) {
	b := testbroker.New(t, testbroker.WithTCP())
	b.CreateTopic("t", 1)
	produce(b, "t", 0, 3)
	_, port, err := net.SplitHostPort(b.Addrs()[0])
	require.NoError(t, err)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for _, servers := range [][]string{
		{"no-such-host.invalid:9092", "127.0.0.1:" + port},
		{closed.Addr().String() + ",LOCALHOST:" + port + ", localhost:" + port},
		{"localhost.:" + port, "localhost:" + port},
	} {
		cfg := patient(fast(b))
		cfg.Dialer, cfg.BootstrapServers = nil, servers
		c := reader(t, cfg, tp0)
		require.Equal(t, span(0, 2), offsetsOf(pollN(t, c, 3)))
		require.NoError(t, c.Close(t.Context()))
	}
}

// A SASL listener answers ApiVersions and closes on anything else before SASL is done.
func TestListenerThatWantsSASLIsHintedAt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.On(keyMetadata).Close()
		_, err := NewConsumer(t.Context(), fast(b))
		require.ErrorContains(t, err, "wants SASL")
	})
}

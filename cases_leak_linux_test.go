package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// B40: neither descriptors nor goroutines are left, whatever became of a consumer.
func TestConsumersLeaveNothingBehind(t *testing.T) {
	for _, tc := range []struct {
		name    string
		works   bool
		options func() []testbroker.Option
		change  func(cfg *Config)
		rules   func(b *testbroker.Cluster)
	}{
		{name: "a broker that works", works: true},
		{name: "a broker of 0.8.2", works: true, options: func() []testbroker.Option {
			return []testbroker.Option{testbroker.WithRelease("0.8.2")}
		}},
		{name: "a broker of 0.9", works: true, options: func() []testbroker.Option {
			return []testbroker.Option{testbroker.WithRelease("0.9")}
		}},
		{name: "a port that refuses", change: func(cfg *Config) { cfg.BootstrapServers = []string{closedPort()} }},
		{name: "a broker that closes on the first request", rules: func(b *testbroker.Cluster) { b.On(testbroker.AnyKey).Close() }},
		{name: "a broker that closes on the second request", rules: func(b *testbroker.Cluster) { b.On(keyMetadata).Close() }},
		{name: "a broker that is silent", change: func(cfg *Config) { cfg.APIVersionAutoTimeout = 100 * time.Millisecond },
			rules: func(b *testbroker.Cluster) { b.On(testbroker.AnyKey).Drop() }},
		{name: "no TLS", change: func(cfg *Config) {
			cfg.SecurityProtocol, cfg.TLS = SecuritySSL, &tls.Config{MinVersion: tls.VersionTLS12}
			cfg.SocketConnectionSetupTimeout = 100 * time.Millisecond
		}},
		{name: "a wrong password", options: func() []testbroker.Option { return []testbroker.Option{withSASL(1, 2)} },
			change: func(cfg *Config) {
				cfg.SecurityProtocol, cfg.SASLMechanism = SecuritySASLPlaintext, "PLAIN"
				cfg.SASLUsername, cfg.SASLPassword = "alice", "wrong"
			},
			rules: func(b *testbroker.Cluster) { plainServer("alice", "right").install(b, false) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			options := []testbroker.Option{testbroker.WithTCP()}
			if tc.options != nil {
				options = append(options, tc.options()...)
			}
			b := testbroker.New(t, options...)
			b.CreateTopic("t", 1)
			if tc.rules != nil {
				tc.rules(b)
			}
			cfg := patient(fast(b))
			cfg.Dialer = nil
			if tc.change != nil {
				tc.change(&cfg)
			}
			openAndClose(t, cfg, tc.works) // what the first one leaves for good, such as the resolver's files
			files, goroutines := openFiles(t), runtime.NumGoroutine()
			const at, rounds = 20, 5
			for range rounds {
				var wg sync.WaitGroup
				for range at {
					wg.Go(func() { openAndClose(t, cfg, tc.works) })
				}
				wg.Wait()
			}
			// The other ends of the connections are in this process too.
			require.Eventually(t, func() bool {
				return openFiles(t) <= files+2 && runtime.NumGoroutine() <= goroutines+2
			}, time.Minute, 10*time.Millisecond)
		})
	}
}

func openAndClose(t *testing.T, cfg Config, works bool) {
	c, err := NewConsumer(t.Context(), cfg)
	if !works {
		if err == nil {
			t.Error("a consumer without a broker")
		}
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	if err := c.Assign(tp0); err != nil {
		t.Error(err)
	}
	if _, err := c.Poll(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// closedPort returns an address at which nobody listens.
func closedPort() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

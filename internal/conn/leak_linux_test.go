package conn

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/leakcheck"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// No descriptor and no goroutine is left, whatever became of the connection
// (B40).
func TestNothingIsLeftOpen(t *testing.T) {
	_, good := listen(t, "127.0.0.1:0", (*peer).serve)
	_, cutting := listen(t, "127.0.0.1:0", func(p *peer) { p.next() })
	_, refusing := listen(t, "127.0.0.1:0", func(p *peer) {
		p.greet()
		p.authenticate(58)
	})
	_, noTLS := listen(t, "127.0.0.1:0", func(p *peer) { p.Write([]byte("no TLS")) })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := int32(closed.Addr().(*net.TCPAddr).Port)
	closed.Close()
	for _, tc := range []struct {
		name string
		port int32
		ok   bool
		edit func(cfg *Config)
	}{
		{"a broker that works", good, true, func(*Config) {}},
		{"a broker that closes on the probe", cutting, false, func(*Config) {}},
		{"a port where nobody listens", nobody, false, func(*Config) {}},
		{"a wrong password", refusing, false, func(cfg *Config) { cfg.Auth = plain(0) }},
		{"a failed TLS handshake", noTLS, false, func(cfg *Config) {
			cfg.TLS = func(string) *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := openFiles(t)
			for range 50 {
				cfg := tcpConfig("127.0.0.1")
				tc.edit(cfg)
				b := NewBroker(cfg, 1, Addr{"kafka.example", tc.port})
				_, err := b.Do(context.Background(), Control, heartbeat("m"))
				require.Equal(t, tc.ok, err == nil, err)
				if tc.ok {
					_, err = b.Link(context.Background(), Fetch)
					require.NoError(t, err)
				}
				b.Close()
			}
			// The other ends of the connections are in this process too.
			require.Eventually(t, func() bool { return openFiles(t) <= before+2 }, time.Minute, 10*time.Millisecond)
		})
	}
}

//go:build unix

package secure

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
)

const (
	// patience bounds what must succeed.
	patience = consume.Patience
	// promptly bounds what must fail at once: no retries until a timeout.
	promptly = 15 * time.Second
)

// secrets are what must be in no output (B36).
func secrets() []string {
	list := []string{alicePassword, oddPassword, kerberosPassword, keyPassword, wrongPassword}
	for _, u := range [][2]string{{alice, alicePassword}, {odd, oddPassword}, {oddASCII, oddPassword}, {alice, wrongPassword}} {
		plain := "\x00" + u[0] + "\x00" + u[1]
		list = append(list, plain, base64.StdEncoding.EncodeToString([]byte(plain)))
	}
	for _, s := range list {
		quoted := fmt.Sprintf("%q", s)
		if inner := quoted[1 : len(quoted)-1]; inner != s {
			list = append(list, inner)
		}
	}
	return list
}

// requireNoSecret requires that output holds none of the secrets, nor of extra.
func requireNoSecret(t testing.TB, what, output string, extra ...string) {
	t.Helper()
	for _, s := range append(secrets(), extra...) {
		if strings.Contains(output, s) {
			t.Errorf("%s holds the secret %q", what, s)
		}
	}
}

// A journal is a log of everything, shown when the test fails.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

// newConsumer makes a consumer that logs all it can. That no secret is in the log, in
// the error or in what prints of the two is checked here.
func newConsumer(t *testing.T, cfg kafka.Config, extraSecrets ...string) (*kafka.Consumer, error) {
	t.Helper()
	j := &journal{}
	cfg.Logger = slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.Level(math.MinInt32)}))
	if cfg.AutoOffsetReset == (kafka.OffsetReset{}) {
		cfg.AutoOffsetReset = kafka.ResetEarliest
	}
	// On a busy machine brokers take their time, also to refuse.
	cfg.SocketConnectionSetupTimeout, cfg.APIVersionAutoTimeout = patience, patience
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := kafka.NewConsumer(ctx, cfg)
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		requireNoSecret(t, "the Config as "+verb, fmt.Sprintf(verb, cfg), extraSecrets...)
		requireNoSecret(t, "the Consumer as "+verb, fmt.Sprintf(verb, c), extraSecrets...)
		requireNoSecret(t, "the error as "+verb, fmt.Sprintf(verb, err), extraSecrets...)
	}
	t.Cleanup(func() {
		if c != nil {
			consume.Close(t, c)
		}
		requireNoSecret(t, "the log", j.String(), extraSecrets...)
		if t.Failed() {
			t.Logf("the consumer's log:\n%s", j)
		}
	})
	return c, err
}

// requireReads requires that a consumer with cfg gets all records of the topic.
func requireReads(t *testing.T, cfg kafka.Config, extraSecrets ...string) {
	t.Helper()
	c, err := newConsumer(t, cfg, extraSecrets...)
	require.NoError(t, err)
	require.NoError(t, c.Subscribe([]string{topic}))
	require.Len(t, consume.Poll(t, c, events), events)
}

// requireRefused requires that NewConsumer fails soon, for a reason that the text
// gives.
func requireRefused(t *testing.T, cfg kafka.Config, texts ...string) error {
	t.Helper()
	start := time.Now()
	_, err := newConsumer(t, cfg)
	require.Error(t, err)
	require.Less(t, time.Since(start), promptly)
	for _, text := range texts {
		require.ErrorContains(t, err, text)
	}
	return err
}

// requireUnauthenticated is requireRefused with the error for it.
func requireUnauthenticated(t *testing.T, cfg kafka.Config, texts ...string) {
	t.Helper()
	err := requireRefused(t, cfg, texts...)
	var e *kafka.AuthenticationError
	require.ErrorAs(t, err, &e)
	require.Equal(t, cfg.BootstrapServers[0], e.Address)
}

// A wire is a Dialer that counts connections and keeps what is sent.
type wire struct {
	dials atomic.Int64
	sent  journal
	hosts map[string]string // where to connect to, by host; others as they are
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.dials.Add(1)
	if host, port, err := net.SplitHostPort(addr); err == nil && w.hosts[host] != "" {
		addr = net.JoinHostPort(w.hosts[host], port)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &tappedConn{conn, w}, err
}

type tappedConn struct {
	net.Conn
	wire *wire
}

func (c *tappedConn) Write(p []byte) (int, error) {
	_, _ = c.wire.sent.Write(p)
	return c.Conn.Write(p)
}

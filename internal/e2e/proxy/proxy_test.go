//go:build unix

package proxy_test

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/e2e/proxy"
)

// echo is a broker that answers each request with its bytes.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

type client struct{ net.Conn }

func connect(t *testing.T, p *proxy.Proxy) client {
	c, err := p.Dial(t.Context(), "tcp", "anywhere:1")
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return client{c}
}

const (
	frameLen = 20
	// patience bounds what must come.
	patience = time.Minute
	// silence is how long nothing must come.
	silence = 200 * time.Millisecond
)

// ask sends a request of an API.
func (c client) ask(t *testing.T, key int16) {
	t.Helper()
	frame := binary.BigEndian.AppendUint32(nil, frameLen-4)
	frame = binary.BigEndian.AppendUint16(frame, uint16(key))
	_, err := c.Write(append(frame, "fourteen bytes"...))
	require.NoError(t, err)
}

// read reads n bytes, or what of them comes within a time.
func (c client) read(t *testing.T, n int, within time.Duration) ([]byte, error) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
	got := make([]byte, n)
	read, err := io.ReadFull(c, got)
	return got[:read], err
}

func requireAnswer(t *testing.T, c client, key int16) {
	t.Helper()
	c.ask(t, key)
	_, err := c.read(t, frameLen, patience)
	require.NoError(t, err)
}

func requireSilence(t *testing.T, c client, key int16) {
	t.Helper()
	c.ask(t, key)
	requireNothing(t, c)
}

func requireNothing(t *testing.T, c client) {
	t.Helper()
	got, err := c.read(t, 1, silence)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Empty(t, got)
}

func TestProxyFreezesConnectionsByWhatTheyCarried(t *testing.T) {
	p := proxy.Start(t, echo(t))
	fetch, group := connect(t, p), connect(t, p)
	requireAnswer(t, fetch, 1)
	requireAnswer(t, group, 12)
	require.Equal(t, 1, p.Freeze(proxy.Both, 1))
	requireSilence(t, fetch, 1)
	requireAnswer(t, group, 12)
	requireAnswer(t, connect(t, p), 1)
	require.Equal(t, 3, p.Connects())
	require.Eventually(t, func() bool { return p.Asked(1) == 3 }, patience, time.Millisecond, "what is swallowed counts")
	require.Equal(t, int64(2*frameLen), p.Answered(1), "one of them was swallowed")
}

func TestProxyPassesHalfOfAnAnswer(t *testing.T) {
	p := proxy.Start(t, echo(t))
	c := connect(t, p)
	halved := p.Halve(1)
	requireAnswer(t, c, 3)
	c.ask(t, 1)
	_, err := c.read(t, frameLen/2, patience)
	require.NoError(t, err)
	requireNothing(t, c)
	<-halved
	requireSilence(t, c, 3)
}

func TestProxyIsSilentRefusesAndComesBack(t *testing.T) {
	p := proxy.Start(t, echo(t))
	before := connect(t, p)
	requireAnswer(t, before, 1)
	p.Silence(true)
	requireSilence(t, before, 1)
	requireSilence(t, connect(t, p), 1)
	p.Silence(false)
	_, err := before.read(t, 1, patience)
	require.ErrorIs(t, err, syscall.ECONNRESET, "cut")
	requireAnswer(t, connect(t, p), 1)

	p.Refuse()
	_, err = p.Dial(t.Context(), "tcp", "")
	require.ErrorContains(t, err, "refused")
	p.Allow(t)
	requireAnswer(t, connect(t, p), 1)
}

func TestProxyDelays(t *testing.T) {
	p := proxy.Start(t, echo(t))
	c := connect(t, p)
	p.Delay(50 * time.Millisecond)
	began := time.Now()
	requireAnswer(t, c, 1)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond, "both ways")
}

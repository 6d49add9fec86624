//go:build unix

package proxy_test

import (
	"encoding/binary"
	"io"
	"net"
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

// ask sends a request of an API and reads n bytes of the answer.
func (c client) ask(key int16, n int) ([]byte, error) {
	frame := binary.BigEndian.AppendUint32(nil, 16)
	frame = binary.BigEndian.AppendUint16(frame, uint16(key))
	frame = append(frame, "fourteen bytes"...)
	if _, err := c.Write(frame); err != nil {
		return nil, err
	}
	got := make([]byte, n)
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	read, err := io.ReadFull(c, got)
	return got[:read], err
}

const frameLen = 20

func requireAnswer(t *testing.T, c client, key int16) {
	t.Helper()
	_, err := c.ask(key, frameLen)
	require.NoError(t, err)
}

func requireSilence(t *testing.T, c client, key int16) {
	t.Helper()
	got, err := c.ask(key, frameLen)
	require.ErrorContains(t, err, "timeout")
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
	require.Equal(t, 3, p.Asked(1))
	require.Equal(t, int64(2*frameLen), p.Answered(1), "one of them was swallowed")
}

func TestProxyPassesHalfOfAnAnswer(t *testing.T) {
	p := proxy.Start(t, echo(t))
	c := connect(t, p)
	halved := p.Halve(1)
	requireAnswer(t, c, 3)
	got, err := c.ask(1, frameLen)
	require.ErrorContains(t, err, "timeout")
	require.Len(t, got, frameLen/2)
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
	_, err := before.Read(make([]byte, 1))
	require.Error(t, err, "cut")
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

package conn

import (
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// echo answers Fetch requests with nothing, and allocates nothing.
func echo(p *peer) {
	p.greet()
	request := make([]byte, 4<<10)
	answer := answerFrame(0, true, nil)
	for {
		if _, err := io.ReadFull(p, request[:4]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(request)
		if _, err := io.ReadFull(p, request[:n]); err != nil {
			return
		}
		copy(answer[4:8], request[4:8])
		if _, err := p.Write(answer); err != nil {
			return
		}
	}
}

func newExchange(t testing.TB) func() {
	ps := newPeers(t, echo)
	l := openLink(t, ps.config())
	ctx := t.Context()
	l.CloseWith(ctx)
	body := func(dst []byte) []byte { return append(dst, 0) }
	read := func(*protocol.Reader) error { return nil }
	return func() {
		if err := l.Stream(ctx, protocol.KeyFetch, 12, true, body, read, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStreamHardlyAllocates(t *testing.T) {
	exchange := newExchange(t)
	exchange()
	require.LessOrEqual(t, testing.AllocsPerRun(100, exchange), 1.0)
}

func BenchmarkStream(b *testing.B) {
	exchange := newExchange(b)
	b.ReportAllocs()
	for b.Loop() {
		exchange()
	}
}

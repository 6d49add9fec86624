package kafka

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// impostors are servers that are not Kafka. Each answers one connection.
var impostors = []struct {
	name  string
	serve func(conn net.Conn)
}{
	{"a web server", func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") }},
	{"random bytes", func(conn net.Conn) {
		bytes := make([]byte, 1000)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range bytes {
			bytes[i] = byte(rng.Uint32())
		}
		_, _ = conn.Write(bytes)
	}},
	{"a length of 2 GiB, and then nothing", func(conn net.Conn) {
		_, _ = conn.Write([]byte{0x7f, 0xff, 0xff, 0xff})
		_, _ = io.Copy(io.Discard, conn)
	}},
	{"an allowed length, and then nothing", func(conn net.Conn) {
		_, _ = conn.Write([]byte{0x05, 0, 0, 0, 0, 0, 0, 1})
		_, _ = io.Copy(io.Discard, conn)
	}},
	{"a count of 2^31-1", func(conn net.Conn) {
		head := make([]byte, 12)
		_, _ = io.ReadFull(conn, head)
		answer := append([]byte{0, 0, 0, 10}, head[8:12]...) // with the right correlation id
		_, _ = conn.Write(append(answer, 0, 0, 0x7f, 0xff, 0xff, 0xff))
		_, _ = io.Copy(io.Discard, conn)
	}},
	{"something that closes", func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }},
	{"something silent", func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }},
}

// B29: a broker's advertised address leads to something else.
func TestAdvertisedAddressThatIsNotABroker(t *testing.T) {
	const elsewhere = "elsewhere.test:1234"
	for _, impostor := range impostors {
		t.Run(impostor.name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
				b.On(keyMetadata).Edit(func(_ testbroker.Request, resp kmsg.Response) {
					node := &resp.(*kmsg.MetadataResponse).Brokers[1]
					node.Host, node.Port = "elsewhere.test", 1234
				})
				produce(b, "t", 0, 5)
				var dials atomic.Int64
				cfg := fast(b)
				cfg.BootstrapServers = b.Addrs()[:1]
				cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr != elsewhere {
						return b.Dial(ctx, network, addr)
					}
					dials.Add(1)
					client, server := net.Pipe()
					go func() {
						defer server.Close()
						impostor.serve(server)
					}()
					return client, nil
				}
				before := allocated()
				c := reader(t, cfg, inTopic(0), inTopic(1))
				require.Len(t, pollPast(t, c, 5), 5, "the other partition is read")
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, err := c.EndOffsets(ctx, inTopic(1))
				require.ErrorContains(t, err, elsewhere)
				require.LessOrEqual(t, dials.Load(), int64(100), "10 a second")
				require.Less(t, allocated()-before, uint64(64<<20))
			}, testbroker.WithNodes(2))
		})
	}
}

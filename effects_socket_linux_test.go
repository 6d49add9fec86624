package kafka

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
)

// Linux keeps twice what is asked for, for its own use.
func TestSocketsHaveTheirBuffersAndOptions(t *testing.T) {
	realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		var (
			mu      sync.Mutex
			sockets []syscall.RawConn
		)
		cfg := patient(fast(b))
		cfg.Dialer, cfg.ReceiveBufferBytes, cfg.SendBufferBytes = nil, 20_000, 30_000
		cfg.SocketControl = func(_, _ string, c syscall.RawConn) error {
			mu.Lock()
			defer mu.Unlock()
			sockets = append(sockets, c)
			var err error
			return errors.Join(err, c.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_TOS, 0x10)
			}))
		}
		c := openConsumer(t, cfg)
		_, err := c.EndOffsets(t.Context(), tp0)
		require.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		option := func(level, name int) (value int) {
			require.NoError(t, sockets[len(sockets)-1].Control(func(fd uintptr) {
				value, err = syscall.GetsockoptInt(int(fd), level, name)
			}))
			require.NoError(t, err)
			return value
		}
		require.Equal(t, 2*20_000, option(syscall.SOL_SOCKET, syscall.SO_RCVBUF))
		require.Equal(t, 2*30_000, option(syscall.SOL_SOCKET, syscall.SO_SNDBUF))
		require.Equal(t, 0x10, option(syscall.IPPROTO_IP, syscall.IP_TOS))
		require.Equal(t, 1, option(syscall.IPPROTO_TCP, syscall.TCP_NODELAY))

		cfg.SocketControl = func(string, string, syscall.RawConn) error { return errors.New("this option is not allowed") }
		_, err = NewConsumer(t.Context(), cfg)
		require.ErrorContains(t, err, "this option is not allowed")
	}, testbroker.WithTCP())
}

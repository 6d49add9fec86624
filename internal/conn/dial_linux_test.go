package conn

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireSocketOptions checks the buffer sizes, of which Linux keeps the
// double, and that small requests are not held back.
func requireSocketOptions(t *testing.T, c *net.TCPConn, receive, send int) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	get := func(level, option int) (value int) {
		require.NoError(t, raw.Control(func(fd uintptr) { value, err = syscall.GetsockoptInt(int(fd), level, option) }))
		require.NoError(t, err)
		return value
	}
	require.Equal(t, 2*receive, get(syscall.SOL_SOCKET, syscall.SO_RCVBUF))
	require.Equal(t, 2*send, get(syscall.SOL_SOCKET, syscall.SO_SNDBUF))
	require.NotZero(t, get(syscall.IPPROTO_TCP, syscall.TCP_NODELAY))
}

//go:build !linux

package conn

import (
	"net"
	"testing"
)

// requireSocketOptions looks only on Linux, whose rounding of the sizes is
// known.
func requireSocketOptions(*testing.T, *net.TCPConn, int, int) {}

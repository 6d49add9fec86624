package testbroker

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafkaconsumer/kafka/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// client is a connection that sends kmsg requests, one at a time.
type client struct {
	t           testing.TB
	nc          net.Conn
	correlation int32
}

func dial(t testing.TB, c *Cluster, node int32) *client {
	t.Helper()
	nc, err := c.Dial(t.Context(), "tcp", c.Addr(node))
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	return &client{t: t, nc: nc}
}

func (cl *client) send(req kmsg.Request) {
	cl.t.Helper()
	require.NoError(cl.t, cl.write(req))
}

func (cl *client) write(req kmsg.Request) error {
	cl.correlation++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester")).AppendRequest(nil, req, cl.correlation)
	_, err := cl.nc.Write(frame)
	return err
}

// receive reads one answer to req and decodes it.
func (cl *client) receive(req kmsg.Request) (kmsg.Response, error) {
	var length [4]byte
	if _, err := io.ReadFull(cl.nc, length[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(cl.nc, body); err != nil {
		return nil, err
	}
	require.Equal(cl.t, cl.correlation, int32(binary.BigEndian.Uint32(body)))
	resp := req.ResponseKind()
	body = body[4:]
	if resp.IsFlexible() && req.Key() != keyApiVersions {
		require.Zero(cl.t, body[0])
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// try fails when the node closes the connection, before the request is written or after.
func (cl *client) try(req kmsg.Request) (kmsg.Response, error) {
	cl.t.Helper()
	if err := cl.write(req); err != nil {
		return nil, err
	}
	return cl.receive(req)
}

// ask sends a request in a version and returns the decoded answer.
func ask[R kmsg.Response](cl *client, version int16, req kmsg.Request) R {
	cl.t.Helper()
	req.SetVersion(version)
	resp, err := cl.try(req)
	require.NoError(cl.t, err)
	return resp.(R)
}

func ctxWithTimeout(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

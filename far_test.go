package kafka

import (
	"context"
	"net"
	"sync"
	"time"
)

// far returns a Dialer to where each round trip takes so long, that of opening a
// connection too. What is written in the meantime is on its way together.
func far(dial Dialer, roundTrip time.Duration) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		time.Sleep(roundTrip)
		near, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &farConn{Conn: near, delay: roundTrip, sent: make(chan parcel, 1000), closed: make(chan struct{})}
		go c.deliver()
		return c, nil
	}
}

// A farConn holds what is written back for a while. deliver ends when it is closed.
type farConn struct {
	net.Conn
	delay  time.Duration
	sent   chan parcel
	closed chan struct{}
	once   sync.Once
}

type parcel struct {
	data []byte
	due  time.Time
}

func (c *farConn) Write(b []byte) (int, error) {
	select {
	case c.sent <- parcel{append([]byte(nil), b...), time.Now().Add(c.delay)}:
		return len(b), nil
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *farConn) deliver() {
	for {
		select {
		case p := <-c.sent:
			time.Sleep(time.Until(p.due))
			_, _ = c.Conn.Write(p.data)
		case <-c.closed:
			return
		}
	}
}

func (c *farConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

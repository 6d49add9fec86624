package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/certs"
	"github.com/stretchr/testify/require"
)

// trickling returns a consumer whose fetch loop is lent: records come one by one.
func trickling(t *testing.T, b *testbroker.Cluster, cfg Config) *Consumer {
	t.Helper()
	cfg.FetchMaxWait = time.Second
	c := openConsumer(t, cfg)
	require.NoError(t, c.Assign(tp0))
	produce(b, "t", 0, 1)
	pollN(t, c, 1)
	for range 2 {
		require.Equal(t, time.Duration(0), pollNext(t, b, c))
	}
	require.NotNil(t, lentLoop(c))
	return c
}

func lentLoop(c *Consumer) *fetchLoop {
	c.fetcher.lending.mu.Lock()
	defer c.fetcher.lending.mu.Unlock()
	return c.fetcher.lending.loop
}

// pollNext polls for a record that is written while Poll waits, and returns how long after
// that it came.
func pollNext(t *testing.T, b *testbroker.Cluster, c *Consumer) time.Duration {
	t.Helper()
	var written time.Time
	time.AfterFunc(10*time.Millisecond, func() {
		written = time.Now()
		produce(b, "t", 0, 1)
	})
	records, err := c.Poll(t.Context(), 5*time.Second)
	require.NoError(t, err)
	require.Equal(t, 1, records.Len())
	return time.Since(written)
}

func TestPollThatReadsAnswersItselfKeepsToItsTimeout(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := trickling(t, b, fast(b))
		for _, timeout := range []time.Duration{700 * time.Millisecond, 30 * time.Millisecond, 3 * time.Second, 1} {
			began := time.Now()
			records, err := c.Poll(t.Context(), timeout)
			require.NoError(t, err)
			require.Zero(t, records.Len())
			require.Equal(t, timeout, time.Since(began))
		}
		require.Equal(t, time.Duration(0), pollNext(t, b, c))
	})
}

func TestPollThatReadsAnswersItselfEndsWithItsContext(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := trickling(t, b, fast(b))
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 70*time.Millisecond)
			began := time.Now()
			_, err := c.Poll(ctx, -1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 70*time.Millisecond, time.Since(began))
			cancel()
			require.Equal(t, time.Duration(0), pollNext(t, b, c))
		}
	})
}

func TestPollThatReadsAnswersItselfIsWokenByOthers(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := trickling(t, b, fast(b))
		time.AfterFunc(50*time.Millisecond, func() { require.NoError(t, c.Seek(tp0, 1)) })
		began := time.Now()
		records, err := c.Poll(t.Context(), 5*time.Second)
		require.NoError(t, err)
		require.Equal(t, 2, records.Len())
		require.Less(t, time.Since(began), 100*time.Millisecond, "a seek does not wait for the long poll")
	})
}

func TestCloseEndsAPollThatReadsAnswersItself(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := trickling(t, b, fast(b))
		time.AfterFunc(50*time.Millisecond, func() { _ = c.Close(t.Context()) })
		began := time.Now()
		_, err := c.Poll(t.Context(), -1)
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, 50*time.Millisecond, time.Since(began))
	})
}

func TestRecordsAreFetchedWhileNobodyPolls(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := trickling(t, b, fast(b))
		produce(b, "t", 0, 1)
		time.Sleep(lentFor)
		synctest.Wait()
		require.Nil(t, lentLoop(c))
		produce(b, "t", 0, 1)
		synctest.Wait()
		records, err := c.Poll(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, 2, records.Len(), "both were there before Poll")
		require.Equal(t, time.Duration(0), pollNext(t, b, c))
		require.Equal(t, time.Duration(0), pollNext(t, b, c))
		require.NotNil(t, lentLoop(c), "and the application reads itself again")
	})
}

func TestPollDoesNotWaitForTheRestOfAnAnswer(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := trickling(t, b, fast(b))
		conns := connections(b)
		synctest.Wait()
		b.On(keyFetch).Once().Trickle(20, 40*time.Millisecond)
		require.Equal(t, time.Duration(0), pollNext(t, b, c), "the answer to a request from before")
		time.AfterFunc(10*time.Millisecond, func() { produce(b, "t", 0, 1) })
		began := time.Now()
		records, err := c.Poll(t.Context(), 100*time.Millisecond)
		require.NoError(t, err)
		require.Zero(t, records.Len())
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		require.Len(t, pollN(t, c, 1), 1)
		require.Equal(t, time.Duration(0), pollNext(t, b, c))
		require.Equal(t, conns, connections(b), "the connection is kept")
	})
}

// What has come of an answer when Poll's time is over is not lost, over TLS neither.
func TestPollReadsAnswersOverTLSInPieces(t *testing.T) {
	ca := certs.New("ca")
	leaf := ca.Issue([]string{"node1.test"})
	option, _ := tlsCluster(func(int32) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{leaf.TLS()}} })
	realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		cfg := patient(fast(b))
		cfg.SecurityProtocol, cfg.SSLCAFile = SecuritySSL, writeFile(t, "ca.pem", ca.PEM())
		c := reader(t, cfg, tp0)
		produce(b, "t", 0, 1)
		pollN(t, c, 1)
		conns := connections(b)
		b.On(keyFetch).Trickle(15, time.Millisecond)
		produced, polled, lent := 0, 0, false
		for began := time.Now(); polled < 50 || !lent; {
			require.Less(t, time.Since(began), 20*time.Second, "lent: %v, polled: %d", lent, polled)
			if polled == produced {
				produce(b, "t", 0, 1)
				produced++
			}
			records, err := c.Poll(t.Context(), 3*time.Millisecond)
			require.NoError(t, err)
			polled += records.Len()
			lent = lent || lentLoop(c) != nil
		}
		require.Equal(t, conns, connections(b), "the connection is kept")
	}, option)
}

// connections returns how many connections were fetched over.
func connections(b *testbroker.Cluster) int {
	seen := map[int]bool{}
	for _, r := range b.Requests(keyFetch) {
		seen[r.Conn] = true
	}
	return len(seen)
}

func TestPollGoesOnWhenTheConnectionItReadsFromIsLost(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := trickling(t, b, fast(b))
		synctest.Wait()
		b.On(keyFetch).Once().Close()
		require.Equal(t, time.Duration(0), pollNext(t, b, c), "the answer to a request from before")
		require.Less(t, pollNext(t, b, c), time.Second)
		require.Equal(t, time.Duration(0), pollNext(t, b, c))
	})
}

// timeless is a connection that knows no deadlines.
type timeless struct{ net.Conn }

func (timeless) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// heedless is one that says nothing of that.
type heedless struct{ net.Conn }

func (heedless) SetReadDeadline(time.Time) error { return nil }

// brittle is one that is of no use behind a deadline, as those of websockets are.
type brittle struct{ net.Conn }

func (c brittle) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func TestPollLeavesOddConnectionsOfADialerAlone(t *testing.T) {
	for name, odd := range map[string]func(net.Conn) net.Conn{
		"without deadlines":             func(c net.Conn) net.Conn { return timeless{c} },
		"that ignore deadlines":         func(c net.Conn) net.Conn { return heedless{c} },
		"that do not survive deadlines": func(c net.Conn) net.Conn { return brittle{c} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				cfg := fast(b)
				cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := b.Dial(ctx, network, addr)
					return odd(nc), err
				}
				cfg.FetchMaxWait = time.Second
				c := openConsumer(t, cfg)
				require.NoError(t, c.Assign(tp0))
				produce(b, "t", 0, 1)
				pollN(t, c, 1)
				conns := connections(b)
				for range 3 {
					require.Equal(t, time.Duration(0), pollNext(t, b, c))
					began := time.Now()
					records, err := c.Poll(t.Context(), 30*time.Millisecond)
					require.NoError(t, err)
					require.Zero(t, records.Len())
					require.Equal(t, 30*time.Millisecond, time.Since(began))
				}
				require.Equal(t, conns, connections(b), "the connection is kept")
			})
		})
	}
}

func TestRecordsAreFetchedWhileTheApplicationWorks(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := trickling(t, b, fast(b))
		polled := 0
		for range 2 {
			for range 4 {
				time.Sleep(20 * time.Millisecond)
				produce(b, "t", 0, 1)
			}
			synctest.Wait()
			records, err := c.Poll(t.Context(), time.Second)
			require.NoError(t, err)
			polled += records.Len()
			synctest.Wait()
		}
		require.Equal(t, 8, polled)
	})
}

func TestWhoDoesNotWaitIsNotKeptFromRecords(t *testing.T) {
	t.Run("Poll that returns at once", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			c := trickling(t, b, fast(b))
			produce(b, "t", 0, 1)
			n := 0
			for range 2 {
				synctest.Wait()
				records, err := c.Poll(t.Context(), 0)
				require.NoError(t, err)
				n += records.Len()
			}
			require.Equal(t, 1, n)
		})
	})
	t.Run("Messages", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			c := trickling(t, b, fast(b))
			produce(b, "t", 0, 1)
			began := time.Now()
			<-c.Messages(t.Context())
			require.Equal(t, time.Duration(0), time.Since(began))
		})
	})
}

// An answer that waits while nobody polls does not look late.
func TestAnAnswerThatWaitsForPollIsNotLate(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		cfg := fast(b)
		cfg.RequestTimeout = 1200 * time.Millisecond // and FetchMaxWait is 1 s
		c := trickling(t, b, cfg)
		conns := connections(b)
		records, err := c.Poll(t.Context(), 950*time.Millisecond)
		require.NoError(t, err)
		require.Zero(t, records.Len())
		time.Sleep(3 * time.Second)
		require.Equal(t, conns, connections(b), "the connection is kept")
		require.Equal(t, time.Duration(0), pollNext(t, b, c))
	})
}

// slow is a socket of a machine on which a moment passes before it is read from.
type slow struct{ net.Conn }

func (slow) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

func (c slow) Read(b []byte) (int, error) {
	time.Sleep(time.Microsecond)
	return c.Conn.Read(b)
}

func TestPollsThatHardlyWaitGetRecords(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		cfg := fast(b)
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := b.Dial(ctx, network, addr)
			return slow{nc}, err
		}
		cfg.FetchMaxWait = time.Second
		c := reader(t, cfg, tp0)
		produce(b, "t", 0, 1)
		pollN(t, c, 1)
		for lentLoop(c) == nil {
			pollNext(t, b, c)
		}
		produce(b, "t", 0, 1)
		n := 0
		for range 1000 {
			records, err := c.Poll(t.Context(), time.Nanosecond)
			require.NoError(t, err)
			n += records.Len()
			time.Sleep(time.Microsecond)
		}
		require.Equal(t, 1, n)
	})
}

package conn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestLinkDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			r := p.expect(protocol.KeyFindCoordinator)
			require.Equal(t, int16(4), r.version, "the highest that both know")
			resp := kmsg.NewPtrFindCoordinatorResponse()
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.Host, c.Port = "g", "there", 7
			resp.Coordinators = append(resp.Coordinators, c)
			p.answer(r, resp)
			r = p.expect(protocol.KeyFindCoordinator)
			require.Equal(t, int16(3), r.version, "as Limit wants it")
			resp = kmsg.NewPtrFindCoordinatorResponse()
			resp.Host = "here"
			p.answer(r, resp)
			p.drain()
		})
		l := openLink(t, ps.config())
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKeys = []string{"g"}
		resp, err := l.Do(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, "there", resp.(*kmsg.FindCoordinatorResponse).Coordinators[0].Host)
		resp, err = l.Do(t.Context(), Limit(kmsg.NewPtrFindCoordinatorRequest(), 0, 3))
		require.NoError(t, err)
		require.Equal(t, "here", resp.(*kmsg.FindCoordinatorResponse).Host)

		_, err = l.Do(t.Context(), Limit(kmsg.NewPtrFindCoordinatorRequest(), 5, 6))
		unsupported, ok := errors.AsType[*protocol.UnsupportedVersionError](err)
		require.True(t, ok, err)
		require.Equal(t, int32(1), unsupported.Broker)
		require.Equal(t, "FindCoordinator", unsupported.API)
		require.NoError(t, l.Err(), "nothing was sent")
		require.Equal(t, int32(1), l.Node())
		require.Equal(t, testAddr, l.Addr())
	})
}

// fetchBody stands for the bodies of a Fetch request and its answer.
func fetchBody(dst []byte) []byte {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(12)
	return req.AppendTo(dst)
}

func stream(t *testing.T, l *Link, read func(r *protocol.Reader) error) error {
	t.Helper()
	return l.Stream(t.Context(), protocol.KeyFetch, 12, true, fetchBody, read, 10*time.Second)
}

func TestLinkStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			for range 2 {
				r := p.expect(protocol.KeyFetch)
				frame := answerFrame(r.id, true, []byte{1, 2, 3, 4, 5, 6})
				_, _ = p.Write(frame[:7])
				time.Sleep(time.Second)
				_, _ = p.Write(frame[7:])
			}
			p.drain()
		})
		l := openLink(t, ps.config())
		err := stream(t, l, func(r *protocol.Reader) error {
			require.Equal(t, 6, r.Remaining(), "the header is consumed, and the answer bounds what can be read")
			require.Equal(t, int32(0x01020304), r.Int32())
			require.Equal(t, int16(0x0506), r.Int16())
			return r.Err()
		})
		require.NoError(t, err)
		err = stream(t, l, func(r *protocol.Reader) error {
			r.Int32()
			return r.Err()
		})
		require.ErrorContains(t, err, "2 bytes are left over")
		requireOp(t, err, OpRead)
		require.Error(t, l.Err(), "the link is closed")
		requireOp(t, stream(t, l, func(*protocol.Reader) error { return nil }), OpRead)
	})
}

func TestLinkAwaitsAnAnswerForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			for range 2 {
				r := p.expect(protocol.KeyFetch)
				frame := answerFrame(r.id, true, []byte{1, 2, 3, 4})
				time.Sleep(2 * time.Second)
				_, _ = p.Write(frame[:7])
				time.Sleep(time.Second)
				_, _ = p.Write(frame[7:])
			}
			p.drain()
		})
		l := openLink(t, ps.config())
		l.CloseWith(t.Context())
		require.True(t, l.IsReady())
		l.renewAt = time.Now().Add(time.Millisecond)
		require.False(t, l.IsReady(), "until a request is sent the authentication may be due")
		l.renewAt = time.Time{}
		for range 2 {
			began := time.Now()
			require.NoError(t, l.Send(protocol.KeyFetch, 12, true, fetchBody))
			require.NoError(t, l.AwaitUntil(began.Add(time.Second)))
			require.False(t, l.Await())
			require.Equal(t, time.Second, time.Since(began))
			require.NoError(t, l.AwaitUntil(began.Add(2500*time.Millisecond)))
			require.False(t, l.Await())
			require.Equal(t, 2500*time.Millisecond, time.Since(began))
			require.False(t, l.HasWhole())
			require.NoError(t, l.AwaitUntil(time.Time{}))
			require.True(t, l.Await())
			require.Equal(t, 3*time.Second, time.Since(began))
			require.True(t, l.HasWhole())
			require.NoError(t, l.Receive(func(r *protocol.Reader) error {
				require.Equal(t, int32(0x01020304), r.Int32())
				return r.Err()
			}))
			require.Equal(t, 3*time.Second, l.Took())
		}
		require.NoError(t, l.Send(protocol.KeyFetch, 12, true, fetchBody))
		began := time.Now()
		require.True(t, l.Await(), "there is an error to be found")
		requireOp(t, l.Receive(func(*protocol.Reader) error { return nil }), OpTimeout)
		require.Equal(t, l.cfg.RequestTimeout, time.Since(began))
		require.False(t, l.IsReady())
	})
}

func TestLinkStreamClosesWhenReadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.Write(answerFrame(p.expect(protocol.KeyFetch).id, true, make([]byte, 100)))
			p.drain()
		})
		l := openLink(t, ps.config())
		boom := errors.New("boom")
		require.ErrorIs(t, stream(t, l, func(*protocol.Reader) error { return boom }), boom)
		require.ErrorIs(t, l.Err(), boom)
	})
}

func TestLinkFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script func(p *peer, r request)
		op     string
		text   string
		is     error
		after  time.Duration
	}{
		{
			"silence", func(p *peer, r request) { p.drain() },
			OpTimeout, "no answer to Heartbeat within 10s", os.ErrDeadlineExceeded, 10 * time.Second,
		},
		{
			"half an answer, then silence",
			func(p *peer, r request) {
				p.Write(answerFrame(r.id, true, make([]byte, 100))[:50])
				p.drain()
			},
			OpTimeout, "no answer to Heartbeat within 10s", os.ErrDeadlineExceeded, 10 * time.Second,
		},
		{
			"half an answer, then close", func(p *peer, r request) { p.Write(answerFrame(r.id, true, make([]byte, 100))[:50]) },
			OpRead, "unexpected EOF", io.ErrUnexpectedEOF, 0,
		},
		{"close", func(p *peer, r request) {}, OpRead, "closed the connection before it had answered Heartbeat", io.EOF, 0},
		{
			"the answer to another request",
			func(p *peer, r request) {
				p.Write(answerFrame(r.id+1, true, make([]byte, 100)))
				p.drain()
			},
			OpRead, "unexpected correlation id", ErrOutOfOrder, 0,
		},
		{
			"correlation id 0",
			func(p *peer, r request) {
				p.Write(answerFrame(0, true, make([]byte, 100)))
				p.drain()
			},
			OpRead, "unexpected correlation id", ErrOutOfOrder, 0,
		},
		{
			"a frame beyond the maximum",
			func(p *peer, r request) {
				p.Write(binary.BigEndian.AppendUint32(nil, 50<<20+1))
				p.drain()
			},
			OpRead, "frame length", nil, 0,
		},
		{
			"a negative length",
			func(p *peer, r request) {
				p.Write([]byte{0xff, 0xff, 0xff, 0xff})
				p.drain()
			},
			OpRead, "negative", nil, 0,
		},
		{
			"a control answer beyond what is decoded",
			func(p *peer, r request) {
				frame := answerFrame(r.id, true, nil)
				binary.BigEndian.PutUint32(frame, 20<<20)
				p.Write(frame)
				p.drain()
			},
			OpRead, "more than the 16777216 allowed", nil, 0,
		},
		{
			"a TLS alert",
			func(p *peer, r request) {
				p.Write([]byte{0x15, 3, 3, 0, 2, 2, 0x46})
				p.drain()
			},
			OpRead, "TLS", nil, 0,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					p.greet()
					tc.script(p, p.expect(protocol.KeyHeartbeat))
				})
				cfg := ps.config()
				cfg.RequestTimeout, cfg.MaxFrame = 10*time.Second, 50<<20
				l := openLink(t, cfg)
				start := time.Now()
				_, err := l.Do(t.Context(), heartbeat("m"))
				require.Equal(t, tc.after, time.Since(start))
				e := requireOp(t, err, tc.op)
				require.Equal(t, int32(1), e.Node)
				require.Equal(t, testAddr, e.Addr)
				require.ErrorContains(t, err, tc.text)
				require.ErrorContains(t, err, "broker 1 at broker.test:9092")
				if tc.is != nil {
					require.ErrorIs(t, err, tc.is)
				}
				require.Equal(t, tc.op == OpTimeout, e.Timeout())
				require.Same(t, err, l.Err(), "the link is closed for that reason")
				_, again := l.Do(t.Context(), heartbeat("m"))
				require.Same(t, err, again)
			})
		})
	}
}

// An absurd length costs no memory: only what arrived is held (B29).
func TestLinkDoesNotAllocateWhatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			frame := answerFrame(p.expect(protocol.KeyMetadata).id, true, nil)
			binary.BigEndian.PutUint32(frame, 99_000_000)
			p.Write(frame)
			p.drain()
		})
		l := openLink(t, ps.config())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := l.Do(t.Context(), kmsg.NewPtrMetadataRequest())
		runtime.ReadMemStats(&after)
		requireOp(t, err, OpTimeout)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
	})
}

func TestLinkSurvivesAnAnswerThatDoesNotDecode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.Write(answerFrame(p.expect(protocol.KeyHeartbeat).id, true, []byte{1}))
			r := p.expect(protocol.KeyHeartbeat)
			p.answer(r, r.ResponseKind())
			p.drain()
		})
		l := openLink(t, ps.config())
		_, err := l.Do(t.Context(), heartbeat("m"))
		_, malformed := errors.AsType[*protocol.MalformedError](err)
		require.True(t, malformed, err)
		_, err = l.Do(t.Context(), heartbeat("m"))
		require.NoError(t, err)
	})
}

func TestLinkContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.drain()
		})
		l := openLink(t, ps.config())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.Do(ctx, heartbeat("m"))
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, l.Err(), "nothing was sent")

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err = l.Do(ctx, heartbeat("m"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		require.Error(t, l.Err(), "an answer may still come, so the link is of no use")
	})
}

func TestLinkCloseUnblocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.drain()
		})
		l := openLink(t, ps.config())
		time.AfterFunc(time.Second, l.Close)
		_, err := l.Do(t.Context(), heartbeat("m"))
		require.ErrorIs(t, err, ErrClosed)
		<-l.Done()
		l.Close()
	})
}

func TestLinkBlockedWriteTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			time.Sleep(time.Minute) // reads nothing
		})
		l := openLink(t, ps.config())
		start := time.Now()
		_, err := l.Do(t.Context(), heartbeat("m"))
		requireOp(t, err, OpTimeout)
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestLinkIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		cfg := ps.config()
		cfg.MaxIdle = time.Minute
		l := openLink(t, cfg)
		for range 3 {
			time.Sleep(59 * time.Second)
			_, err := l.Do(t.Context(), heartbeat("m"))
			require.NoError(t, err)
		}
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		require.NoError(t, l.Err())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.ErrorIs(t, l.Err(), ErrIdle)
	})
}

func TestLinkIsNotIdleWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			r := p.expect(protocol.KeyFetch)
			time.Sleep(20 * time.Second)
			p.Write(answerFrame(r.id, true, nil))
			p.drain()
		})
		cfg := ps.config()
		cfg.MaxIdle = 15 * time.Second
		l := openLink(t, cfg)
		err := l.Stream(t.Context(), protocol.KeyFetch, 12, true, fetchBody, func(*protocol.Reader) error { return nil }, 30*time.Second)
		require.NoError(t, err)
	})
}

func TestLinkThrottle(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request kmsg.Request
		asked   time.Duration
		want    time.Duration
	}{
		{"as long as the broker asks for", heartbeat("m"), 3 * time.Second, 3 * time.Second},
		{"at most the request timeout", heartbeat("m"), 20 * 24 * time.Hour, 30 * time.Second},
		{"not below KIP-219, where the broker waited", Limit(heartbeat("m"), 0, 1), 3 * time.Second, 0},
		{"negative", heartbeat("m"), -time.Second, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					p.greet()
					p.answer(p.expect(protocol.KeyHeartbeat), throttled(tc.asked))
					p.answer(p.expect(protocol.KeyHeartbeat), throttled(0))
					p.drain()
				})
				l := openLink(t, ps.config())
				start := time.Now()
				_, err := l.Do(t.Context(), tc.request)
				require.NoError(t, err)
				require.Zero(t, time.Since(start), "the answer itself does not wait")
				_, err = l.Do(t.Context(), tc.request)
				require.NoError(t, err)
				require.Equal(t, tc.want, time.Since(start))
			})
		})
	}
}

func TestLinkThrottleEndsWithContextAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		l := openLink(t, ps.config())
		l.Throttle(20*time.Second, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Do(ctx, heartbeat("m"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, l.Err(), "nothing was sent")
		time.AfterFunc(time.Second, l.Close)
		_, err = l.Do(t.Context(), heartbeat("m"))
		require.ErrorIs(t, err, ErrClosed)
	})
}

// Brokers of 0.8.2 answer the first look-up of a coordinator with correlation
// id 0, while the offsets topic does not exist yet.
func TestLinkForgivesCorrelationIDZeroOf082(t *testing.T) {
	for _, tc := range []struct {
		release string
		ok      bool
	}{{"0.8.2", true}, {"0.9", false}} {
		t.Run(tc.release, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					r := p.expect(protocol.KeyFindCoordinator)
					resp := kmsg.NewPtrFindCoordinatorResponse()
					resp.ErrorCode = 15
					p.Write(answerFrame(0, false, resp.AppendTo(nil)))
					require.Equal(t, int16(0), r.version)
					p.drain()
				})
				cfg := ps.config()
				cfg.Clamp = release(t, tc.release)
				l := openLink(t, cfg)
				resp, err := l.Do(t.Context(), kmsg.NewPtrFindCoordinatorRequest())
				if !tc.ok {
					require.ErrorIs(t, err, ErrOutOfOrder)
					return
				}
				require.NoError(t, err)
				require.Equal(t, int16(15), resp.(*kmsg.FindCoordinatorResponse).ErrorCode)
			})
		})
	}
}

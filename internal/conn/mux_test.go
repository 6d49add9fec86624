package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func openMux(t *testing.T, cfg *Config) *Mux {
	t.Helper()
	m := NewMux(openLink(t, cfg))
	t.Cleanup(m.Close)
	return m
}

// ask sends a heartbeat on a goroutine of its own and returns where its
// outcome will be.
func ask(ctx context.Context, m *Mux, member string) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		resp, err := m.Do(ctx, heartbeat(member))
		ch <- outcome{resp, err}
	}()
	synctest.Wait()
	return ch
}

// named is an answer by which a test recognises its request.
func named(n int32) *kmsg.HeartbeatResponse {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.ErrorCode = int16(n)
	return resp
}

func TestMuxPipelinesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		hold := make(chan struct{})
		ps := newPeers(t, func(p *peer) {
			p.greet()
			requests := make(chan request, 100)
			go func() {
				defer close(requests)
				for {
					r, ok := p.next()
					if !ok {
						return
					}
					mu.Lock()
					got = append(got, r.Request.(*kmsg.HeartbeatRequest).MemberID)
					mu.Unlock()
					requests <- r
				}
			}()
			<-hold
			for r := range requests {
				var n int32
				fmt.Sscan(r.Request.(*kmsg.HeartbeatRequest).MemberID, &n)
				p.answer(r, named(n))
			}
		})
		received := func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(got)
		}
		cfg := ps.config()
		cfg.MaxInFlight = 3
		m := openMux(t, cfg)
		var outcomes []<-chan outcome
		var want []string
		for i := range 10 {
			outcomes = append(outcomes, ask(t.Context(), m, fmt.Sprint(i)))
			want = append(want, fmt.Sprint(i))
		}
		require.Equal(t, want[:3], received(), "MaxInFlight are written, the others wait")
		close(hold)
		for i, ch := range outcomes {
			o := <-ch
			require.NoError(t, o.err)
			require.Equal(t, int16(i), o.resp.(*kmsg.HeartbeatResponse).ErrorCode, "each gets its own answer")
		}
		require.Equal(t, want, received())
	})
}

func TestMuxTimeoutFailsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.answer(p.expect(protocol.KeyHeartbeat), named(0))
			p.drain()
		})
		cfg := ps.config()
		cfg.RequestTimeout, cfg.MaxInFlight = 10*time.Second, 2
		m := openMux(t, cfg)
		require.NoError(t, (<-ask(t.Context(), m, "ok")).err)
		start := time.Now()
		first := ask(t.Context(), m, "first")
		time.Sleep(4 * time.Second)
		second, queued := ask(t.Context(), m, "second"), ask(t.Context(), m, "queued")
		for _, ch := range []<-chan outcome{first, second, queued} {
			o := <-ch
			e := requireOp(t, o.err, OpTimeout)
			require.True(t, e.Timeout())
			require.ErrorIs(t, o.err, os.ErrDeadlineExceeded)
			require.NotErrorIs(t, o.err, context.DeadlineExceeded, "it is not the caller's context that ended")
		}
		require.Equal(t, 10*time.Second, time.Since(start))
		<-m.Done()
		requireOp(t, m.Err(), OpTimeout)
		_, err := m.Do(t.Context(), heartbeat("late"))
		requireOp(t, err, OpTimeout)
	})
}

func TestMuxTimeoutCountsFromTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			for {
				r, ok := p.next()
				if !ok {
					return
				}
				time.Sleep(8 * time.Second)
				p.answer(r, named(0))
			}
		})
		cfg := ps.config()
		cfg.RequestTimeout, cfg.MaxInFlight = 10*time.Second, 1
		m := openMux(t, cfg)
		var outcomes []<-chan outcome
		for range 4 {
			outcomes = append(outcomes, ask(t.Context(), m, "m"))
		}
		for _, ch := range outcomes {
			require.NoError(t, (<-ch).err, "what waits in the queue is not late")
		}
	})
}

func TestMuxDoTimeoutWaitsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			r := p.expect(protocol.KeyJoinGroup)
			time.Sleep(time.Minute)
			p.answer(r, r.ResponseKind())
			p.drain()
		})
		m := openMux(t, ps.config())
		_, err := m.DoTimeout(t.Context(), kmsg.NewPtrJoinGroupRequest(), 2*time.Minute)
		require.NoError(t, err)
	})
}

func TestMuxContextAbandonsOnlyItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		ps := newPeers(t, func(p *peer) {
			p.greet()
			for i := int32(0); ; i++ {
				r, ok := p.next()
				if !ok {
					return
				}
				mu.Lock()
				got = append(got, r.Request.(*kmsg.HeartbeatRequest).MemberID)
				mu.Unlock()
				time.Sleep(5 * time.Second)
				p.answer(r, named(i))
			}
		})
		cfg := ps.config()
		cfg.MaxInFlight = 1
		m := openMux(t, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		written, queued := ask(ctx, m, "written"), ask(ctx, m, "queued")
		kept := ask(t.Context(), m, "kept")
		start := time.Now()
		require.ErrorIs(t, (<-written).err, context.DeadlineExceeded)
		require.ErrorIs(t, (<-queued).err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		o := <-kept
		require.NoError(t, o.err)
		require.Equal(t, int16(1), o.resp.(*kmsg.HeartbeatResponse).ErrorCode, "the abandoned answer was read and dropped")
		require.NoError(t, m.Err())
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"written", "kept"}, got, "what was abandoned in the queue is not sent")
	})
}

func TestMuxEndedContextSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		m := openMux(t, ps.config())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := m.Do(ctx, heartbeat("m"))
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestMuxFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script func(p *peer, r request)
		is     error
		text   string
	}{
		{"a wrong correlation id", func(p *peer, r request) { p.Write(answerFrame(r.id+1, true, make([]byte, 6))); p.drain() }, ErrOutOfOrder, "Heartbeat"},
		{
			"answers in the wrong order",
			func(p *peer, r request) {
				second := p.expect(protocol.KeyHeartbeat)
				p.answer(second, named(0))
				p.drain()
			},
			ErrOutOfOrder, "Heartbeat",
		},
		{"the broker closes", func(p *peer, r request) {}, io.EOF, "closed the connection before it had answered Heartbeat"},
		{"half an answer", func(p *peer, r request) { p.Write(answerFrame(r.id, true, make([]byte, 60))[:30]) }, io.ErrUnexpectedEOF, "before it had answered Heartbeat"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					p.greet()
					tc.script(p, p.expect(protocol.KeyHeartbeat))
				})
				m := openMux(t, ps.config())
				outcomes := []<-chan outcome{ask(t.Context(), m, "a"), ask(t.Context(), m, "b")}
				for _, ch := range outcomes {
					o := <-ch
					require.ErrorIs(t, o.err, tc.is)
					_, ok := errors.AsType[*Error](o.err)
					require.True(t, ok, "%T", o.err)
				}
				require.ErrorContains(t, m.Err(), tc.text)
				<-m.Link().Done()
			})
		})
	}
}

func TestMuxUnsolicitedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.Write(answerFrame(99, false, nil))
			p.drain()
		})
		m := openMux(t, ps.config())
		<-m.Done()
		require.ErrorIs(t, m.Err(), ErrOutOfOrder)
	})
}

func TestMuxNoticesAClosedConnectionAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			time.Sleep(time.Second)
		})
		m := openMux(t, ps.config())
		start := time.Now()
		<-m.Done()
		require.Equal(t, time.Second, time.Since(start))
		requireOp(t, m.Err(), OpRead)
	})
}

func TestMuxSurvivesAnAnswerThatDoesNotDecode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.Write(answerFrame(p.expect(protocol.KeyHeartbeat).id, true, []byte{1}))
			p.answer(p.expect(protocol.KeyHeartbeat), named(7))
			p.drain()
		})
		m := openMux(t, ps.config())
		first := <-ask(t.Context(), m, "m")
		_, malformed := errors.AsType[*protocol.MalformedError](first.err)
		require.True(t, malformed, first.err)
		require.NoError(t, (<-ask(t.Context(), m, "m")).err)
	})
}

func TestMuxThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Time
		ps := newPeers(t, func(p *peer) {
			p.greet()
			for {
				r, ok := p.next()
				if !ok {
					return
				}
				mu.Lock()
				at = append(at, time.Now())
				first := len(at) == 1
				mu.Unlock()
				if first {
					p.answer(r, throttled(4*time.Second))
				} else {
					p.answer(r, named(0))
				}
			}
		})
		m := openMux(t, ps.config())
		start := time.Now()
		require.NoError(t, (<-ask(t.Context(), m, "a")).err)
		require.Zero(t, time.Since(start), "the answer that brings the throttle does not wait")
		outcomes := []<-chan outcome{ask(t.Context(), m, "b"), ask(t.Context(), m, "c")}
		for _, ch := range outcomes {
			require.NoError(t, (<-ch).err)
		}
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, at, 3)
		require.Equal(t, 4*time.Second, at[1].Sub(start))
		require.Equal(t, 4*time.Second, at[2].Sub(start))
	})
}

func TestMuxIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			for {
				r, ok := p.next()
				if !ok {
					return
				}
				time.Sleep(25 * time.Second) // longer than MaxIdle
				p.answer(r, named(0))
			}
		})
		cfg := ps.config()
		cfg.MaxIdle = 20 * time.Second
		m := openMux(t, cfg)
		for range 3 {
			require.NoError(t, (<-ask(t.Context(), m, "m")).err, "a connection that waits for an answer is not idle")
			time.Sleep(19 * time.Second)
		}
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		require.NoError(t, m.Err())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.ErrorIs(t, m.Err(), ErrIdle)
		_, err := m.Do(t.Context(), heartbeat("m"))
		_, unsent := errors.AsType[*unsentError](err)
		require.True(t, unsent, "it may be sent on another connection")
		require.ErrorIs(t, err, ErrIdle)
	})
}

func TestMuxCloseUnblocksEverything(t *testing.T) {
	for _, tc := range []struct {
		name string
		peer func(p *peer)
	}{
		{"while the broker is silent", (*peer).drain},
		{"while the broker reads nothing", func(p *peer) { time.Sleep(20 * time.Second) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					p.greet()
					tc.peer(p)
				})
				cfg := ps.config()
				cfg.MaxInFlight = 2
				m := openMux(t, cfg)
				var outcomes []<-chan outcome
				for range 4 {
					outcomes = append(outcomes, ask(t.Context(), m, "m"))
				}
				start := time.Now()
				m.Close()
				for _, ch := range outcomes {
					require.ErrorIs(t, (<-ch).err, ErrClosed)
				}
				require.Zero(t, time.Since(start))
				m.Close()
				_, err := m.Do(t.Context(), heartbeat("m"))
				require.ErrorIs(t, err, ErrClosed)
			})
		})
	}
}

func TestMuxBlockedWriteTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			time.Sleep(time.Minute)
		})
		m := openMux(t, ps.config())
		start := time.Now()
		requireOp(t, (<-ask(t.Context(), m, "m")).err, OpTimeout)
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestMuxUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		m := openMux(t, ps.config())
		var wg sync.WaitGroup
		errs := make(chan error, 100)
		for i := range 20 {
			wg.Go(func() {
				for range 50 {
					ctx := t.Context()
					if i%4 == 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithCancel(ctx)
						go cancel()
					}
					if _, err := m.Do(ctx, heartbeat("m")); err != nil && !errors.Is(err, context.Canceled) {
						errs <- err
						return
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		require.NoError(t, <-errs)
	})
}

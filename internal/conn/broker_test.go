package conn

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/logbuffer"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func openBroker(t *testing.T, cfg *Config) *Broker {
	t.Helper()
	b := NewBroker(cfg, 1, testAddr)
	t.Cleanup(b.Close)
	return b
}

// beat sends a heartbeat on a goroutine of its own.
func beat(ctx context.Context, b *Broker, role Role) <-chan error {
	ch := make(chan error, 1)
	go func() {
		_, err := b.Do(ctx, role, heartbeat("m"))
		ch <- err
	}()
	synctest.Wait()
	return ch
}

func TestBrokerOpensAConnectionPerRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		b := openBroker(t, ps.config())
		_, known := b.Versions()
		require.False(t, known)
		require.False(t, b.Connected())
		require.Empty(t, ps.dialled(), "nothing is opened before it is used")
		for range 3 {
			require.NoError(t, <-beat(t.Context(), b, Control))
		}
		require.Len(t, ps.dialled(), 1)
		require.NoError(t, <-beat(t.Context(), b, Group))
		require.Len(t, ps.dialled(), 2)
		versions, known := b.Versions()
		require.True(t, known)
		_, err := versions.Pick(protocol.KeyHeartbeat, 0, 4)
		require.NoError(t, err)
		l, err := b.Link(t.Context(), Fetch)
		require.NoError(t, err)
		require.Len(t, ps.dialled(), 3)
		other, err := b.Link(t.Context(), Fetch)
		require.NoError(t, err)
		require.NotSame(t, l, other)
		require.True(t, b.Connected())

		_, err = b.Do(t.Context(), Fetch, heartbeat("m"))
		require.ErrorContains(t, err, "fetch")
		_, err = b.Link(t.Context(), Control)
		require.ErrorContains(t, err, "control")
	})
}

func TestBrokerWaitersShareOneDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		ps.slow = 3 * time.Second
		b := openBroker(t, ps.config())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		hasty := beat(ctx, b, Control)
		var patient []<-chan error
		for range 5 {
			patient = append(patient, beat(t.Context(), b, Control))
		}
		start := time.Now()
		err := <-hasty
		require.ErrorIs(t, err, context.DeadlineExceeded)
		requireOp(t, err, OpDial)
		require.Equal(t, time.Second, time.Since(start))
		for _, ch := range patient {
			require.NoError(t, <-ch)
		}
		require.Len(t, ps.dialled(), 1)
	})
}

func TestBrokerKeepsADialThatNobodyWaitsForAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		ps.slow = 3 * time.Second
		b := openBroker(t, ps.config())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, <-beat(ctx, b, Control), context.DeadlineExceeded)
		time.Sleep(5 * time.Second)
		start := time.Now()
		require.NoError(t, <-beat(t.Context(), b, Control))
		require.Zero(t, time.Since(start))
		require.Len(t, ps.dialled(), 1)
	})
}

func TestBrokerBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		ps.setFail(syscall.ECONNREFUSED)
		b := openBroker(t, ps.config())
		for i := range 8 {
			role := []Role{Control, Group}[i%2]
			err := <-beat(t.Context(), b, role)
			require.ErrorIs(t, err, syscall.ECONNREFUSED, "each waiter gets the reason")
			requireOp(t, err, OpDial)
		}
		require.ErrorIs(t, b.Err(), syscall.ECONNREFUSED)
		dials := ps.dialled()
		require.Len(t, dials, 8)
		for i, want := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
			want *= time.Millisecond
			require.InDelta(t, float64(want), float64(dials[i+1].Sub(dials[i])), float64(want)/5+1, "wait %d, whatever the role", i+1)
		}

		ps.setFail(nil)
		require.NoError(t, <-beat(t.Context(), b, Control))
		require.NoError(t, b.Err())
		ps.setFail(syscall.ECONNREFUSED)
		require.ErrorIs(t, <-beat(t.Context(), b, Group), syscall.ECONNREFUSED)
		start := time.Now()
		require.ErrorIs(t, <-beat(t.Context(), b, Group), syscall.ECONNREFUSED)
		require.LessOrEqual(t, time.Since(start), 60*time.Millisecond, "a success resets it")
	})
}

func TestBrokerBackoffKeepsToTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		ps.setFail(syscall.ECONNREFUSED)
		cfg := ps.config()
		cfg.ReconnectBackoff, cfg.ReconnectBackoffMax = time.Minute, time.Minute
		b := openBroker(t, cfg)
		require.Error(t, <-beat(t.Context(), b, Control))
		for _, try := range []func(ctx context.Context) error{
			func(ctx context.Context) error { return <-beat(ctx, b, Control) },
			func(ctx context.Context) error { _, err := b.Link(ctx, Fetch); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			err := try(ctx)
			cancel()
			require.Equal(t, time.Second, time.Since(start))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, syscall.ECONNREFUSED, "it says what was wrong before")
		}
		require.Len(t, ps.dialled(), 1)

		b.SetAddr(testAddr)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, <-beat(ctx, b, Control), "the same address: nothing new")
		ps.setFail(nil)
		b.SetAddr(Addr{"moved.test", 9093})
		start := time.Now()
		_, err := b.Link(t.Context(), Fetch)
		require.NoError(t, err)
		require.Zero(t, time.Since(start), "another address does not wait")
		require.Equal(t, Addr{"moved.test", 9093}, b.Addr())
	})
}

func TestBrokerThatMovedIsNotBlamedForItsOldAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		ps.setFail(syscall.ECONNREFUSED)
		ps.slow = time.Second
		cfg := ps.config()
		cfg.ReconnectBackoff, cfg.ReconnectBackoffMax = time.Minute, time.Minute
		b := openBroker(t, cfg)
		waiting := beat(t.Context(), b, Control)
		b.SetAddr(Addr{"moved.test", 9093})
		require.ErrorIs(t, <-waiting, syscall.ECONNREFUSED)
		ps.setFail(nil)
		start := time.Now()
		require.NoError(t, <-beat(t.Context(), b, Control))
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestBrokerFailuresTogetherCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		ps.setFail(syscall.ECONNREFUSED)
		ps.slow = time.Second
		b := openBroker(t, ps.config())
		control, group := beat(t.Context(), b, Control), beat(t.Context(), b, Group)
		require.Error(t, <-control)
		require.Error(t, <-group)
		require.Equal(t, 2, len(ps.dialled()))
		ps.setFail(nil)
		start := time.Now()
		require.NoError(t, <-beat(t.Context(), b, Control))
		require.LessOrEqual(t, time.Since(start), time.Second+60*time.Millisecond)
	})
}

func TestBrokerReconnectsAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			if p.number == 0 {
				r := p.expect(protocol.KeyHeartbeat)
				p.answer(r, r.ResponseKind())
				p.expect(protocol.KeyHeartbeat)
				return
			}
			for {
				r, ok := p.next()
				if !ok {
					return
				}
				p.answer(r, r.ResponseKind())
			}
		})
		b := openBroker(t, ps.config())
		require.NoError(t, <-beat(t.Context(), b, Control))
		err := <-beat(t.Context(), b, Control)
		requireOp(t, err, OpRead)
		require.False(t, b.Connected())
		start := time.Now()
		require.NoError(t, <-beat(t.Context(), b, Control))
		require.InDelta(t, float64(50*time.Millisecond), float64(time.Since(start)), float64(10*time.Millisecond)+1)
	})
}

// A broker that greets and then always closes is not asked every 50 ms.
func TestBrokerBackoffGrowsUntilARequestIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).greet)
		b := openBroker(t, ps.config())
		for range 5 {
			l, err := b.Link(t.Context(), Fetch)
			require.NoError(t, err)
			_, err = l.Do(t.Context(), heartbeat("m"))
			require.Error(t, err)
		}
		dials := ps.dialled()
		require.Greater(t, dials[4].Sub(dials[3]), 300*time.Millisecond)
	})
}

func TestBrokerIdleConnectionIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		cfg := ps.config()
		cfg.MaxIdle = time.Minute
		b := openBroker(t, cfg)
		require.NoError(t, <-beat(t.Context(), b, Control))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.False(t, b.Connected())
		require.NoError(t, b.Err(), "no fault of the broker")
		start := time.Now()
		require.NoError(t, <-beat(t.Context(), b, Control))
		require.Zero(t, time.Since(start), "no backoff either")
		require.Len(t, ps.dialled(), 2)
	})
}

// A request that meets the idle close, or the end of a session, goes to the
// next connection: nothing of it was written.
func TestBrokerResendsWhatWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.authenticate(0)
			for {
				r, ok := p.next()
				if !ok {
					return
				}
				time.Sleep(20 * time.Second)
				p.answer(r, r.ResponseKind())
			}
		})
		cfg := ps.config()
		cfg.Auth = plain(100 * time.Second)
		b := openBroker(t, cfg)
		require.NoError(t, <-beat(t.Context(), b, Control))
		time.Sleep(64 * time.Second)
		first := beat(t.Context(), b, Control)
		time.Sleep(12 * time.Second)
		second := beat(t.Context(), b, Control)
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		require.Len(t, ps.dialled(), 2)
	})
}

func TestBrokerAuthenticationFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.authenticate(58)
			p.drain()
		})
		var logged logbuffer.Buffer
		cfg := ps.config()
		cfg.Auth = plain(0)
		cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		b := openBroker(t, cfg)
		start := time.Now()
		for range 10 {
			err := <-beat(t.Context(), b, Control)
			_, ok := errors.AsType[*AuthError](err)
			require.True(t, ok, "%T: %v", err, err)
			_, err = b.Link(t.Context(), Fetch)
			require.ErrorIs(t, err, protocol.SaslAuthenticationFailed)
		}
		require.Zero(t, time.Since(start), "it is told at once")
		require.Len(t, ps.dialled(), 1, "and not tried again at once")
		time.Sleep(700 * time.Millisecond)
		require.Error(t, <-beat(t.Context(), b, Control))
		require.Len(t, ps.dialled(), 1, "nor before ReconnectBackoffMax is over")
		time.Sleep(500 * time.Millisecond)
		require.Error(t, <-beat(t.Context(), b, Control))
		require.Len(t, ps.dialled(), 2)
		require.Equal(t, 1, strings.Count(logged.String(), "level=ERROR"), logged.String())
	})
}

func TestBrokerOpenConnectionWorksWhileAnotherCannotAuthenticate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			if p.number > 0 {
				p.authenticate(58)
				return
			}
			p.authenticate(0)
			for {
				r, ok := p.next()
				if !ok {
					return
				}
				p.answer(r, r.ResponseKind())
			}
		})
		cfg := ps.config()
		cfg.Auth = plain(0)
		b := openBroker(t, cfg)
		require.NoError(t, <-beat(t.Context(), b, Control))
		require.Error(t, <-beat(t.Context(), b, Group))
		require.NoError(t, <-beat(t.Context(), b, Control))
	})
}

func TestBrokerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.drain()
		})
		b := openBroker(t, ps.config())
		control := beat(t.Context(), b, Control)
		l, err := b.Link(t.Context(), Fetch)
		require.NoError(t, err)
		streaming := make(chan error, 1)
		go func() { streaming <- stream(t, l, func(*protocol.Reader) error { return nil }) }()
		synctest.Wait()
		ps.mu.Lock()
		ps.block = true
		ps.mu.Unlock()
		dialling := beat(t.Context(), b, Group)
		linking := make(chan error, 1)
		go func() { _, err := b.Link(t.Context(), Side); linking <- err }()
		synctest.Wait()
		start := time.Now()
		b.Close()
		for _, ch := range []<-chan error{control, streaming, dialling, linking} {
			err := <-ch
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorIs(t, err, net.ErrClosed)
			_, ok := errors.AsType[*Error](err)
			require.True(t, ok, "%T", err)
		}
		require.Zero(t, time.Since(start))
		require.ErrorIs(t, <-beat(t.Context(), b, Control), ErrClosed)
		_, err = b.Link(t.Context(), Fetch)
		require.ErrorIs(t, err, ErrClosed)
		require.False(t, b.Connected())
		b.Close()
	})
}

func TestBrokerCloseDuringBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		ps.setFail(syscall.ECONNREFUSED)
		cfg := ps.config()
		cfg.ReconnectBackoff, cfg.ReconnectBackoffMax = time.Hour, time.Hour
		b := openBroker(t, cfg)
		require.Error(t, <-beat(t.Context(), b, Control))
		waiting := beat(t.Context(), b, Control)
		b.Close()
		require.ErrorIs(t, <-waiting, ErrClosed)
	})
}

// A dial that hangs ends with SetupTimeout, and its waiters get the reason.
func TestBrokerBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, (*peer).serve)
		ps.block = true
		b := openBroker(t, ps.config())
		start := time.Now()
		err := <-beat(t.Context(), b, Control)
		require.Equal(t, 10*time.Second, time.Since(start))
		require.True(t, requireOp(t, err, OpDial).Timeout())
		require.Error(t, b.Err(), "it counts as a failure")
	})
}

// Nothing waits behind a long poll or a join (design decision 11).
func TestBrokerControlGoesOnWhileFetchAndJoinAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const held = 5 * time.Second
		ps := newPeers(t, func(p *peer) {
			p.greet()
			for {
				r, ok := p.next()
				if !ok {
					return
				}
				if r.key == protocol.KeyJoinGroup || r.key == protocol.KeyFetch {
					time.Sleep(held)
				}
				p.answer(r, r.ResponseKind())
			}
		})
		b := openBroker(t, ps.config())
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := b.DoTimeout(t.Context(), Group, kmsg.NewPtrJoinGroupRequest(), time.Minute)
			require.NoError(t, err)
			require.Equal(t, held, time.Since(start))
		})
		wg.Go(func() {
			l, err := b.Link(t.Context(), Fetch)
			require.NoError(t, err)
			defer l.Close()
			err = stream(t, l, func(r *protocol.Reader) error { return r.Discard(r.Remaining()) })
			require.NoError(t, err)
			require.Equal(t, held, time.Since(start))
		})
		time.Sleep(time.Second)
		for range 3 {
			before := time.Now()
			require.NoError(t, <-beat(t.Context(), b, Control))
			require.Zero(t, time.Since(before))
			time.Sleep(time.Second)
		}
		wg.Wait()
	})
}

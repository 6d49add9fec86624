package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A session is renewed on the same connection, when what was sent is answered;
// what comes meanwhile is sent after it, in its order.
func TestMuxRenewsItsAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.authenticate(0)
			r := p.expect(protocol.KeyHeartbeat)
			require.Equal(t, "written", r.Request.(*kmsg.HeartbeatRequest).MemberID)
			time.Sleep(20 * time.Second)
			p.answer(r, named(0))
			p.authenticate(0)
			for _, member := range []string{"held", "held too"} {
				r := p.expect(protocol.KeyHeartbeat)
				require.Equal(t, member, r.Request.(*kmsg.HeartbeatRequest).MemberID)
				p.answer(r, named(0))
			}
			p.drain()
		})
		cfg := ps.config()
		var began []time.Time
		cfg.Auth = authFunc(func(ctx context.Context, host string, rt Exchange) (time.Duration, error) {
			began = append(began, time.Now())
			return plain(100*time.Second)(ctx, host, rt)
		})
		m := openMux(t, cfg)
		time.Sleep(84 * time.Second)
		written := ask(t.Context(), m, "written")
		time.Sleep(12 * time.Second)
		held := ask(t.Context(), m, "held")
		synctest.Wait()
		heldToo := ask(t.Context(), m, "held too")
		for _, answer := range []<-chan outcome{written, held, heldToo} {
			require.NoError(t, (<-answer).err)
		}
		require.Len(t, ps.dialled(), 1)
		require.Len(t, began, 2)
		require.Equal(t, 104*time.Second, began[1].Sub(began[0]), "what was sent is answered first")
	})
}

// Renewals under load lose no answer and change no order: the broker answers
// each request with its number, over many sessions of a connection.
func TestMuxRenewsUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const askers, rounds, lifetime = 8, 200, 3 * time.Second
		var (
			mu      sync.Mutex
			renewed int
			seen    []string
		)
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.authenticate(0)
			ends := time.Now().Add(lifetime)
			for {
				r, ok := p.next()
				if !ok {
					return
				}
				if r.key == protocol.KeySaslHandshake {
					p.answer(r, r.ResponseKind())
					r = p.expect(protocol.KeySaslAuthenticate)
					p.answer(r, kmsg.NewPtrSASLAuthenticateResponse())
					ends = time.Now().Add(lifetime)
					mu.Lock()
					renewed++
					mu.Unlock()
					continue
				}
				if !time.Now().Before(ends) {
					t.Error("a request came after the session had ended")
					return
				}
				req := r.Request.(*kmsg.HeartbeatRequest)
				mu.Lock()
				seen = append(seen, req.MemberID)
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				p.answer(r, named(int32(len(req.MemberID))))
			}
		})
		cfg := ps.config()
		cfg.Auth = plain(lifetime)
		m := openMux(t, cfg)
		var wg sync.WaitGroup
		for a := range askers {
			wg.Go(func() {
				for i := range rounds {
					name := fmt.Sprintf("%d-%03d-%s", a, i, string(make([]byte, (a*rounds+i)%97)))
					resp, err := m.Do(context.Background(), heartbeat(name))
					if err != nil {
						t.Errorf("request %d of %d: %v", i, a, err)
						return
					}
					require.Equal(t, int16(len(name)), resp.(*kmsg.HeartbeatResponse).ErrorCode)
				}
			})
		}
		wg.Wait()
		require.Len(t, ps.dialled(), 1)
		mu.Lock()
		defer mu.Unlock()
		require.Greater(t, renewed, 3)
		require.Len(t, seen, askers*rounds, "nothing is lost or sent twice")
		for a := range askers {
			mine := slices.DeleteFunc(slices.Clone(seen), func(s string) bool { return s[0] != byte('0'+a) })
			require.True(t, slices.IsSorted(mine))
		}
	})
}

// JoinGroup may be held for minutes, during which the session cannot be renewed.
func TestMuxRenewsBeforeARequestThatOutlastsTheSession(t *testing.T) {
	for _, tc := range []struct {
		name    string
		age     time.Duration
		timeout time.Duration
		renews  bool
	}{
		{"it would end in it", 50 * time.Second, 5 * time.Minute, true},
		{"it would not", 50 * time.Second, 31 * time.Second, false},
		{"the request is short", 80 * time.Second, 30 * time.Second, false},
		{"the session is new", 500 * time.Millisecond, 5 * time.Minute, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					p.greet()
					p.authenticate(0)
					if tc.renews {
						p.authenticate(0)
					}
					r := p.expect(protocol.KeyJoinGroup)
					time.Sleep(tc.timeout - time.Second)
					p.answer(r, r.ResponseKind())
					p.drain()
				})
				cfg := ps.config()
				cfg.Auth = plain(100 * time.Second)
				m := openMux(t, cfg)
				time.Sleep(tc.age)
				_, err := m.DoTimeout(t.Context(), kmsg.NewPtrJoinGroupRequest(), tc.timeout)
				require.NoError(t, err)
			})
		})
	}
}

func TestMuxWhoseRenewalFails(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script func(p *peer)
		auth   bool
		text   string
	}{
		{"the credentials are refused", func(p *peer) { p.authenticate(58); p.drain() }, true, "SASL_AUTHENTICATION_FAILED"},
		{"the broker closes", func(p *peer) { p.expect(protocol.KeySaslHandshake) }, false, "before it had answered SaslHandshake"},
		{"the broker is silent", func(p *peer) { p.drain() }, false, "within 10s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					p.greet()
					p.authenticate(0)
					tc.script(p)
				})
				cfg := ps.config()
				cfg.Auth = plain(100 * time.Second)
				m := openMux(t, cfg)
				time.Sleep(96 * time.Second)
				first, second := ask(t.Context(), m, "a"), ask(t.Context(), m, "b")
				for _, answer := range []<-chan outcome{first, second} {
					err := (<-answer).err
					require.ErrorContains(t, err, tc.text)
					_, refused := errors.AsType[*AuthError](err)
					require.Equal(t, tc.auth, refused, "%v", err)
				}
			})
		})
	}
}

// alertConn is a connection whose other side sent an alert before it closed.
type alertConn struct {
	net.Conn
	alert error
}

func (alertConn) SetReadDeadline(time.Time) error { return nil }
func (c alertConn) Read([]byte) (int, error)      { return 0, c.alert }

func TestAlertBehindABrokenConnection(t *testing.T) {
	alert := &net.OpError{Op: "remote error", Err: tls.AlertError(116)}
	l := &Link{conn: alertConn{alert: alert}}
	require.Equal(t, error(alert), l.alertBehind(syscall.EPIPE))
	require.Equal(t, errors.ErrUnsupported, l.alertBehind(errors.ErrUnsupported), "the connection is not broken")
	l.conn = alertConn{alert: io.EOF}
	require.Equal(t, error(syscall.EPIPE), l.alertBehind(syscall.EPIPE), "there is no alert")
	l.raw = l.conn
	require.Equal(t, error(syscall.EPIPE), l.alertBehind(syscall.EPIPE), "there is no TLS")
}

func TestClosingAMuxEndsItsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.authenticate(0)
			p.drain()
		})
		cfg := ps.config()
		first := true
		cfg.Auth = authFunc(func(ctx context.Context, host string, rt Exchange) (time.Duration, error) {
			if first {
				first = false
				return plain(10*time.Second)(ctx, host, rt)
			}
			<-ctx.Done() // as a provider of tokens that hangs
			return 0, ctx.Err()
		})
		m := openMux(t, cfg)
		time.Sleep(time.Minute)
		held := ask(t.Context(), m, "held")
		synctest.Wait()
		began := time.Now()
		m.Close()
		require.ErrorIs(t, (<-held).err, ErrClosed)
		require.Zero(t, time.Since(began))
	})
}

package conn

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

func TestLinkEndsWithTheContextThatItIsBoundTo(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context, l *Link) error{
		"in use": func(ctx context.Context, l *Link) error {
			_, err := l.Do(ctx, heartbeat("m"))
			return err
		},
		"idle": func(ctx context.Context, l *Link) error {
			<-ctx.Done()
			synctest.Wait()
			return l.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					p.greet()
					p.drain()
				})
				l := openLink(t, ps.config())
				ctx, cancel := context.WithCancel(t.Context())
				l.CloseWith(ctx)
				time.AfterFunc(time.Second, cancel)
				start := time.Now()
				err := use(ctx, l)
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, time.Second, time.Since(start))
				requireOp(t, err, OpTimeout)
			})
		})
	}
}

// The alarm's timer is not set anew for each request, so it fires too early for later
// ones.
func TestLinkTimesOutByItsLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			for range 10 {
				r := p.expect(protocol.KeyHeartbeat)
				p.answer(r, r.ResponseKind())
			}
			p.drain()
		})
		l := openLink(t, ps.config())
		for range 10 {
			time.Sleep(7 * time.Second)
			_, err := l.Do(t.Context(), heartbeat("m"))
			require.NoError(t, err)
		}
		start := time.Now()
		_, err := l.Do(t.Context(), heartbeat("m"))
		requireOp(t, err, OpTimeout)
		require.ErrorContains(t, err, "no answer to Heartbeat within 30s")
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

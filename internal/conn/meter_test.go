package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

// calls are what the meters of all connections were told, by time in seconds since the
// start.
type calls struct {
	start time.Time

	mu   sync.Mutex
	list []string
}

func (c *calls) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf("%v ", time.Since(c.start))+fmt.Sprintf(format, args...))
}

func (c *calls) all() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

func (c *calls) meter(node int32, was Meter) Meter {
	if m, moves := was.(meterFor); moves {
		c.add("moved %d to %d", m.node, node)
	} else {
		c.add("open %d", node)
	}
	return meterFor{c, node}
}

type meterFor struct {
	*calls
	node int32
}

func (m meterFor) Sent(bytes int)                      { m.add("sent %d", bytes) }
func (m meterFor) Received(bytes int, d time.Duration) { m.add("received %d after %v", bytes, d) }
func (m meterFor) Throttled(d time.Duration)           { m.add("throttled %v", d) }
func (m meterFor) Closed()                             { m.add("closed %d", m.node) }

func (m meterFor) Authenticated(again bool, took time.Duration, ok bool) {
	m.add("authenticated again=%v after %v ok=%v", again, took, ok)
}

// lateAndThrottled answers what comes after ApiVersions a second late.
func lateAndThrottled(p *peer) {
	p.greet()
	for {
		r, ok := p.next()
		if !ok {
			return
		}
		time.Sleep(time.Second)
		p.answer(r, throttled(250*time.Millisecond))
	}
}

func TestAMeterIsToldWhatGoesOverALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &calls{start: time.Now()}
		cfg := newPeers(t, lateAndThrottled).config()
		cfg.Meter = told.meter
		l := openLink(t, cfg)
		_, err := l.Do(t.Context(), heartbeat("member"))
		require.NoError(t, err)
		err = l.Stream(t.Context(), protocol.KeyHeartbeat, 4, true, heartbeatBody,
			func(r *protocol.Reader) error { _, err := r.Body(nil); return err }, 0)
		require.NoError(t, err)
		l.Close()
		l.Close()
		require.Equal(t, []string{
			"0s open 1",
			"0s sent 35", "0s received 79 after 0s",
			"0s sent 35", "1s received 16 after 1s", "1s throttled 250ms",
			"1.25s sent 35", "2.25s received 16 after 1s",
			"2.25s closed 1",
		}, told.all())
	})
}

func heartbeatBody(dst []byte) []byte {
	req := heartbeat("member")
	req.SetVersion(4)
	return req.AppendTo(dst)
}

func TestAMeterIsToldWhatGoesOverAMux(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &calls{start: time.Now()}
		cfg := newPeers(t, lateAndThrottled).config()
		cfg.Meter = told.meter
		m := openMux(t, cfg)
		_, err := m.Do(t.Context(), heartbeat("member"))
		require.NoError(t, err)
		m.Close()
		require.Equal(t, []string{
			"0s open 1",
			"0s sent 35", "0s received 79 after 0s",
			"0s sent 35", "1s received 16 after 1s", "1s throttled 250ms",
			"1s closed 1",
		}, told.all())
	})
}

func TestAMeterIsToldOfAuthentications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &calls{start: time.Now()}
		cfg := newPeers(t, (*peer).serve).config()
		cfg.Meter = told.meter
		refuse := false
		cfg.Auth = authFunc(func(context.Context, string, Exchange) (time.Duration, error) {
			time.Sleep(time.Second)
			if refuse {
				return 0, errors.New("wrong password")
			}
			return 10 * time.Second, nil
		})
		l := openLink(t, cfg)
		time.Sleep(10 * time.Second)
		_, err := l.Do(t.Context(), heartbeat("member"))
		require.NoError(t, err)
		refuse = true
		time.Sleep(10 * time.Second)
		_, err = l.Do(t.Context(), heartbeat("member"))
		require.Error(t, err)
		_, err = Dial(t.Context(), cfg, 1, testAddr)
		require.Error(t, err)
		var got []string
		for _, call := range told.all() {
			var at, what string
			if _, err := fmt.Sscan(call, &at, &what); err == nil && what == "authenticated" {
				got = append(got, call)
			}
		}
		require.Equal(t, []string{
			"1s authenticated again=false after 1s ok=true",
			"12s authenticated again=true after 1s ok=true",
			"23s authenticated again=true after 1s ok=false",
			"24s authenticated again=false after 1s ok=false",
		}, got)
	})
}

func TestAMeterIsToldOfAuthenticationsOfAMux(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &calls{start: time.Now()}
		cfg := newPeers(t, (*peer).serve).config()
		cfg.Meter = told.meter
		cfg.Auth = authFunc(func(context.Context, string, Exchange) (time.Duration, error) { return 10 * time.Second, nil })
		m := openMux(t, cfg)
		time.Sleep(10 * time.Second)
		_, err := m.Do(t.Context(), heartbeat("member"))
		require.NoError(t, err)
		require.Contains(t, told.all(), "0s authenticated again=false after 0s ok=true")
		require.Contains(t, told.all(), "10s authenticated again=true after 0s ok=true")
	})
}

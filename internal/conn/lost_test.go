package conn

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// losing gives the configuration for a broker of a release that loses some of the requests,
// told by their numbers, and takes its time for each answer. It returns what is received.
func losing(t *testing.T, release string, takes time.Duration, lost ...int) (cfg *Config, ps *peers, received func() []int16) {
	var mu sync.Mutex
	var keys []int16
	o := oldPeer{release: release, takes: takes, loses: func(r request) bool {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.key)
		return slices.Contains(lost, len(keys)-1)
	}}
	ps = newPeers(t, o.serve)
	cfg = ps.config()
	cfg.Clamp = mustRelease(release)
	return cfg, ps, func() []int16 {
		mu.Lock()
		defer mu.Unlock()
		return keys
	}
}

// KAFKA-3547: 0.9 loses what comes in the moment in which another client asks it for its
// version.
func TestWhat09LosesIsSentAgain(t *testing.T) {
	const beat, canary = protocol.KeyHeartbeat, protocol.KeyMetadata
	for _, tc := range []struct {
		name  string
		lost  []int
		takes time.Duration
		after time.Duration
		want  []int16
	}{
		{"nothing", nil, 0, 0, []int16{beat}},
		{"a request", []int{0}, 0, 2 * time.Second, []int16{beat, canary, beat}},
		{"a request and the canary behind it", []int{0, 1}, 0, 4 * time.Second, []int16{beat, canary, canary, beat}},
		{"a request twice", []int{0, 2}, 0, 4 * time.Second, []int16{beat, canary, beat, canary, beat}},
		{"only time", nil, 5 * time.Second, 5 * time.Second, []int16{beat, canary, canary}},
		{"a canary behind a request that takes time", []int{1}, 5 * time.Second, 5 * time.Second, []int16{beat, canary, canary}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Run("of a mux", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg, ps, received := losing(t, "0.9", tc.takes, tc.lost...)
					m := openMux(t, cfg)
					start := time.Now()
					_, err := m.Do(t.Context(), heartbeat("m"))
					require.NoError(t, err)
					require.Equal(t, tc.after, time.Since(start))
					require.Equal(t, tc.want, received())
					time.Sleep(time.Minute)
					_, err = m.Do(t.Context(), heartbeat("m"))
					require.NoError(t, err, "the connection goes on")
					require.Len(t, ps.dialled(), 1)
				})
			})
			t.Run("of a stream", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg, ps, received := losing(t, "0.9", tc.takes, tc.lost...)
					l := openLink(t, cfg)
					start := time.Now()
					require.NoError(t, streamHeartbeat(t.Context(), l))
					require.Equal(t, tc.after, time.Since(start))
					require.Equal(t, tc.want, received())
					time.Sleep(time.Second)
					require.NoError(t, streamHeartbeat(t.Context(), l), "the connection goes on")
					require.Len(t, ps.dialled(), 1)
				})
			})
		})
	}
}

// streamHeartbeat sends a heartbeat by Stream.
func streamHeartbeat(ctx context.Context, l *Link) error {
	body := func(dst []byte) []byte { return heartbeat("m").AppendTo(dst) }
	read := func(r *protocol.Reader) error { return r.Discard(r.Remaining()) }
	return l.Stream(ctx, protocol.KeyHeartbeat, 0, false, body, read, 0)
}

func TestWhatIsLostAgainAndAgainIsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		ps := newPeers(t, oldPeer{release: "0.9", loses: func(r request) bool {
			n.Add(1)
			return r.key == protocol.KeyHeartbeat
		}}.serve)
		cfg := ps.config()
		cfg.Clamp = release(t, "0.9")
		start := time.Now()
		_, err := openMux(t, cfg).Do(t.Context(), heartbeat("m"))
		requireOp(t, err, OpTimeout)
		require.Equal(t, defaultRequestTimeout/4, time.Since(start))
		require.LessOrEqual(t, n.Load(), int64(2*15))
		start = time.Now()
		requireOp(t, streamHeartbeat(t.Context(), openLink(t, cfg)), OpTimeout)
		require.Equal(t, defaultRequestTimeout, time.Since(start))
	})
}

func TestWhatIsLostIsSentAgainOnlyForThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, _, received := losing(t, "0.9", 0, 0)
		m := openMux(t, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.Do(ctx, heartbeat("m"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		require.Equal(t, []int16{protocol.KeyHeartbeat, protocol.KeyMetadata}, received())
	})
}

// Else the two would change places, and a commit be written over a later one.
func TestWhatIsLostIsNotSentAgainBehindAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, _, received := losing(t, "0.9", 0, 0)
		m := openMux(t, cfg)
		first := ask(t.Context(), m, "1")
		second := ask(t.Context(), m, "2")
		require.ErrorIs(t, (<-first).err, ErrOutOfOrder)
		require.ErrorIs(t, (<-second).err, ErrOutOfOrder)
		require.Len(t, received(), 2)
	})
}

// The canaries behind a request that is held wait as long as it does.
func TestARequestThatIsHeldIsNotHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, ps, received := losing(t, "0.9", time.Minute)
		m := openMux(t, cfg)
		_, err := m.DoTimeout(t.Context(), heartbeat("m"), 2*time.Minute)
		require.NoError(t, err)
		require.Equal(t, []int16{protocol.KeyHeartbeat, protocol.KeyMetadata, protocol.KeyMetadata}, received())
		require.Len(t, ps.dialled(), 1)
	})
}

// A canary behind a request that took its time may be lost too.
func TestALostCanaryDoesNotMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, ps, received := losing(t, "0.9", 3*time.Second, 1)
		m := openMux(t, cfg)
		for range 2 {
			_, err := m.Do(t.Context(), heartbeat("m"))
			require.NoError(t, err)
		}
		require.Equal(t, []int16{protocol.KeyHeartbeat, protocol.KeyMetadata, protocol.KeyHeartbeat}, received())
		require.Len(t, ps.dialled(), 1)
	})
}

// A broker of 0.9 may also read nothing more from a connection. 30 s are long for that.
func TestSilenceOf09IsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		ps := newPeers(t, func(p *peer) {
			if n.Add(1)%2 == 1 {
				p.drain()
			}
			oldPeer{release: "0.9", takes: time.Second}.serve(p)
		})
		cfg := ps.config()
		cfg.Clamp, cfg.FetchMaxWait = release(t, "0.9"), time.Second
		b := NewBroker(cfg, 1, testAddr)
		defer b.Close()
		start := time.Now()
		_, err := b.Do(t.Context(), Control, heartbeat("m"))
		requireOp(t, err, OpTimeout)
		require.Equal(t, defaultRequestTimeout/4, time.Since(start))
		_, err = b.DoTimeout(t.Context(), Control, heartbeat("m"), 0)
		require.NoError(t, err)

		l, err := b.Link(t.Context(), Fetch)
		require.NoError(t, err)
		start = time.Now()
		requireOp(t, sendHeartbeat(l), OpTimeout)
		require.Equal(t, defaultRequestTimeout/4+cfg.FetchMaxWait, time.Since(start))
		l, err = b.Link(t.Context(), Fetch)
		require.NoError(t, err)
		require.NoError(t, sendHeartbeat(l))
		l.Close()
	})
}

// sendHeartbeat sends a heartbeat by Send.
func sendHeartbeat(l *Link) error {
	l.CloseWith(context.Background())
	err := l.Send(protocol.KeyHeartbeat, 0, false, func(dst []byte) []byte { return heartbeat("m").AppendTo(dst) })
	if err != nil {
		return err
	}
	return l.Receive(func(r *protocol.Reader) error { return r.Discard(r.Remaining()) })
}

func TestOnly09IsSentCanaries(t *testing.T) {
	for _, other := range []string{"0.8.2", "0.10.0", "4.0"} {
		synctest.Test(t, func(t *testing.T) {
			var extra atomic.Int64
			ps := newPeers(t, func(p *peer) {
				r, ok := p.next()
				if ok && r.key == protocol.KeyApiVersions {
					p.answer(r, versionsAnswer())
					_, ok = p.next()
				}
				for ; ok; _, ok = p.next() {
					extra.Add(1)
				}
			})
			cfg := ps.config()
			cfg.Clamp = release(t, other)
			_, err := openMux(t, cfg).Do(t.Context(), kmsg.NewPtrMetadataRequest())
			requireOp(t, err, OpTimeout)
			require.LessOrEqual(t, extra.Load(), int64(1), other)
		})
	}
}

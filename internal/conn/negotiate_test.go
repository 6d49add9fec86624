package conn

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/logbuffer"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// oldPeer answers as brokers before 0.10 do: what the release knows, and on all else it
// closes, or with skips, as 0.9 does, does nothing. zeroID is the fault of 0.8.2.
type oldPeer struct {
	release string
	skips   bool
	zeroID  bool
	loses   func(r request) bool // nil: nothing
	takes   time.Duration        // for each answer
}

func (o oldPeer) serve(p *peer) {
	r, err := protocol.ParseRelease(o.release)
	if err != nil {
		p.t.Error(err)
	}
	// Answers stand in a buffer of the connection until they are read.
	answers := make(chan request, 10)
	var sending sync.WaitGroup
	sending.Go(func() {
		for req := range answers {
			time.Sleep(o.takes)
			p.answer(req, req.ResponseKind())
		}
	})
	defer sending.Wait()
	defer close(answers)
	for {
		req, ok := p.next()
		if !ok {
			return
		}
		switch top, known := r.MaxVersion(req.key); {
		case o.loses != nil && o.loses(req):
		case known && req.version <= top:
			if o.zeroID && req.key == protocol.KeyFindCoordinator {
				req.id = 0
			}
			answers <- req
		case !o.skips:
			return
		}
	}
}

func TestOldBrokersAreFound(t *testing.T) {
	for _, tc := range []struct {
		name  string
		peer  oldPeer
		want  string
		dials int
		after time.Duration
	}{
		{"0.8.0", oldPeer{release: "0.8.0"}, "0.8.0", 6, 0},
		{"0.8.1", oldPeer{release: "0.8.1"}, "0.8.1", 5, 0},
		{"0.8.2", oldPeer{release: "0.8.2"}, "0.8.2", 4, 0},
		{"0.8.2 without a topic for offsets", oldPeer{release: "0.8.2", zeroID: true}, "0.8.2", 4, 0},
		{"0.9", oldPeer{release: "0.9", skips: true}, "0.9", 2, 500 * time.Millisecond},
		{"0.9 mended", oldPeer{release: "0.9"}, "0.9", 3, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, tc.peer.serve)
				cfg := ps.config()
				cfg.ProbeTimeout = 2 * time.Second
				var log logbuffer.Buffer
				cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				cfg.Releases = NewReleases()
				start := time.Now()
				l := openLink(t, cfg)
				require.Equal(t, tc.after, time.Since(start))
				require.Equal(t, release(t, tc.want), l.Versions().Release())
				_, err := l.Do(t.Context(), kmsg.NewPtrMetadataRequest())
				require.NoError(t, err)
				require.Len(t, ps.dialled(), tc.dials)

				again := openLink(t, cfg)
				require.Equal(t, release(t, tc.want), again.Versions().Release())
				_, err = again.Do(t.Context(), kmsg.NewPtrMetadataRequest())
				require.NoError(t, err)
				require.Len(t, ps.dialled(), tc.dials+1, "the next connection asks nothing")
				require.Equal(t, tc.after, time.Since(start))
				require.Equal(t, 1, strings.Count(log.String(), "broker version found"))
				require.Contains(t, log.String(), "version="+tc.want)
			})
		})
	}
}

// KAFKA-3547: 0.9 may lose what comes in the moment in which it swallows another client's
// ApiVersions.
func TestWhatAnOldBrokerLosesIsSentAgain(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lost  func(r request, number int) bool
		dials int
		after time.Duration
	}{
		{"the first canary", func(r request, number int) bool { return r.key == protocol.KeyMetadata && number == 1 }, 2, 1000 * time.Millisecond},
		{"ListGroups", func(r request, number int) bool { return r.key == protocol.KeyListGroups && number == 2 }, 3, 500 * time.Millisecond},
		{"ListGroups and the canary behind it", func(r request, number int) bool { return number == 2 || number == 3 }, 3, 1000 * time.Millisecond},
		{"the canary behind ListGroups", func(r request, number int) bool { return number == 3 }, 3, 1000 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := oldPeer{release: "0.9", skips: true}
				var number atomic.Int64 // of the request, from 0
				o.loses = func(r request) bool { return tc.lost(r, int(number.Add(1))-1) }
				ps := newPeers(t, o.serve)
				cfg := ps.config()
				cfg.ProbeTimeout = 2 * time.Second
				start := time.Now()
				l := openLink(t, cfg)
				require.Equal(t, release(t, "0.9"), l.Versions().Release())
				require.Equal(t, tc.after, time.Since(start))
				require.Len(t, ps.dialled(), tc.dials)
				_, err := l.Do(t.Context(), kmsg.NewPtrMetadataRequest())
				require.NoError(t, err)
			})
		})
	}
}

// A canary is sent twice to a broker that takes its time, which answers both.
func TestSlowOldBrokersAreFound(t *testing.T) {
	for _, name := range []string{"0.8.0", "0.8.1", "0.8.2", "0.9"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := oldPeer{release: name, skips: name == "0.9", takes: silence + 100*time.Millisecond}
				ps := newPeers(t, o.serve)
				cfg := ps.config()
				cfg.ProbeTimeout = 20 * time.Second
				l := openLink(t, cfg)
				require.Equal(t, release(t, name), l.Versions().Release())
				_, err := l.Do(t.Context(), kmsg.NewPtrMetadataRequest())
				require.NoError(t, err)
			})
		})
	}
}

// cutting closes the connections with the numbers given on their first request and
// hands the others to serve.
func cutting(serve func(p *peer), numbers ...int) func(p *peer) {
	return func(p *peer) {
		if slices.Contains(numbers, p.number) {
			p.next()
			return
		}
		serve(p)
	}
}

// modern answers every request of a new broker, whatever comes first.
func modern(p *peer) {
	for {
		r, ok := p.next()
		if !ok {
			return
		}
		if r.key == protocol.KeyApiVersions {
			p.answer(r, versionsAnswer())
			continue
		}
		p.answer(r, r.ResponseKind())
	}
}

// slowly is modern with a first connection that takes its time.
func slowly(p *peer, d time.Duration) {
	if p.number == 0 {
		r, _ := p.next()
		time.Sleep(d)
		p.answer(r, versionsAnswer())
	}
	modern(p)
}

func TestNewBrokersAreNotTakenForOldOnes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		serve func(p *peer)
		dials int
	}{
		{"one connection was cut", cutting(modern, 0), 2},
		{"three connections were cut", cutting(modern, 0, 1, 2), 4},
		{"ApiVersions took its time", func(p *peer) { slowly(p, time.Second) }, 2},
		{
			"ApiVersions took its time before it was refused", func(p *peer) {
				r := p.expect(protocol.KeyApiVersions)
				if p.number == 0 {
					time.Sleep(time.Second)
				}
				p.refuse(r)
				modern(p)
			}, 2,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, tc.serve)
				cfg := ps.config()
				cfg.ProbeTimeout = 2 * time.Second
				l := openLink(t, cfg)
				_, ok := l.Versions().Range(protocol.KeyApiVersions)
				require.True(t, ok, "a table of its own")
				_, err := l.Do(t.Context(), heartbeat("m"))
				require.NoError(t, err)
				require.Len(t, ps.dialled(), tc.dials)
			})
		})
	}
}

// Where a broker cannot be one without ApiVersions, or must not be asked, nothing else is
// sent, and a failure is a failure.
func TestOldKindsAreNotProbed(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(t *testing.T, cfg *Config)
		text string
	}{
		{"with SASL", func(t *testing.T, cfg *Config) { cfg.Auth = plain(0) }, `set APIVersion to "0.9"`},
		{"with APIVersion", func(t *testing.T, cfg *Config) { cfg.Clamp = release(t, "0.10.2") }, "APIVersion says that this one is 0.10.2 or newer"},
		{"of a broker that answered before", func(t *testing.T, cfg *Config) {
			cfg.Releases = NewReleases()
			cfg.Releases.answeredVersions(1, "elsewhere:9092")
		}, "SecurityProtocol"},
		{"of an address that answered before", func(t *testing.T, cfg *Config) {
			cfg.Releases = NewReleases()
			cfg.Releases.answeredVersions(-1, testAddr.String())
		}, "SecurityProtocol"},
	} {
		for _, skips := range []bool{false, true} {
			t.Run(tc.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var requests atomic.Int64
					ps := newPeers(t, func(p *peer) {
						for {
							r, ok := p.next()
							if !ok {
								return
							}
							requests.Add(1)
							require.Equal(t, protocol.KeyApiVersions, r.key)
							if !skips {
								return
							}
						}
					})
					cfg := ps.config()
					cfg.ProbeTimeout = 2 * time.Second
					tc.edit(t, cfg)
					_, err := Dial(t.Context(), cfg, 1, testAddr)
					e := requireOp(t, err, OpAPIVersions)
					require.Equal(t, skips, e.Timeout())
					if !skips {
						require.ErrorContains(t, err, tc.text)
					}
					require.Len(t, ps.dialled(), 1)
					require.EqualValues(t, 1, requests.Load())
				})
			})
		}
	}
}

func TestBrokerThatAnsweredBeforeItClosedIsNoOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.refuse(p.expect(protocol.KeyApiVersions))
			p.expect(protocol.KeyApiVersions)
		})
		_, err := Dial(t.Context(), ps.config(), 1, testAddr)
		requireOp(t, err, OpAPIVersions)
		require.Len(t, ps.dialled(), 1)
	})
}

// A black hole, a frozen broker or one with too much to do is not an old one.
func TestSilenceIsATimeout(t *testing.T) {
	for _, tc := range []struct {
		name  string
		serve func(p *peer)
	}{
		{"nothing is answered", (*peer).drain},
		{"nothing is answered after a hang-up", cutting((*peer).drain, 0)},
		{"connections are not made after a hang-up", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, tc.serve)
				if tc.serve == nil {
					ps.script = func(p *peer) {
						p.next()
						ps.mu.Lock()
						ps.block = true
						ps.mu.Unlock()
					}
				}
				cfg := ps.config()
				cfg.ProbeTimeout = 2 * time.Second
				start := time.Now()
				_, err := Dial(t.Context(), cfg, 1, testAddr)
				require.True(t, requireOp(t, err, OpAPIVersions).Timeout())
				require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's context has not ended")
				require.ErrorContains(t, err, "no answer that tells the broker's version within 2s")
				require.ErrorContains(t, err, "APIVersionAutoTimeout")
				require.Equal(t, 2*time.Second, time.Since(start))
			})
		})
	}
}

// A broker that went away may come back as a newer one.
func TestOldBrokerThatFailedIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := oldPeer{release: "0.8.2"}
		ps := newPeers(t, old.serve)
		b := openBroker(t, ps.config())
		require.NoError(t, <-metadataOf(t.Context(), b))
		v, _ := b.Versions()
		require.Equal(t, release(t, "0.8.2"), v.Release())

		ps.mu.Lock()
		ps.script = modern
		for _, c := range ps.conns {
			c.Close()
		}
		ps.mu.Unlock()
		synctest.Wait()
		require.NoError(t, <-metadataOf(t.Context(), b))
		v, _ = b.Versions()
		_, ok := v.Range(protocol.KeyApiVersions)
		require.True(t, ok)
	})
}

func metadataOf(ctx context.Context, b *Broker) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := b.Do(ctx, Control, kmsg.NewPtrMetadataRequest())
		done <- err
	}()
	return done
}

// KAFKA-3547: a probe makes 0.9 lose what other connections send in the same moment, so
// that connections of one consumer do not probe a broker at the same time.
func TestConnectionsProbeAnOldBrokerOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, oldPeer{release: "0.9", skips: true}.serve)
		cfg := ps.config()
		cfg.Releases = NewReleases()
		cfg.Releases.foundOld("another:9092", release(t, "0.9"))
		links := make(chan *Link, 4)
		for range cap(links) {
			go func() {
				l, err := Dial(t.Context(), cfg, 1, testAddr)
				require.NoError(t, err)
				links <- l
			}()
		}
		for range cap(links) {
			(<-links).Close()
		}
		require.Len(t, ps.dialled(), 2+3, "the first one probes on two connections, the others not at all")
	})
}

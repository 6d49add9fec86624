package conn

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refuse answers an ApiVersions request as a broker that does not know its
// version: in the layout of version 0.
func (p *peer) refuse(r request, keys ...kmsg.ApiVersionsResponseApiKey) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = int16(protocol.UnsupportedVersion)
	resp.ApiKeys = keys
	p.Write(answerFrame(r.id, false, resp.AppendTo(nil)))
}

func TestNegotiation(t *testing.T) {
	for _, tc := range []struct {
		name   string
		clamp  string
		script func(p *peer) // until the versions are known
		key    int16
		want   int16
	}{
		{
			"the newest ApiVersions first", "",
			func(p *peer) {
				r := p.expect(protocol.KeyApiVersions)
				require.Equal(t, int16(4), r.version)
				p.answer(r, versionsAnswer())
			},
			protocol.KeyMetadata, 12,
		},
		{
			"a broker before 2.4 refuses with an empty list", "",
			func(p *peer) {
				p.refuse(p.expect(protocol.KeyApiVersions))
				r := p.expect(protocol.KeyApiVersions)
				require.Equal(t, int16(0), r.version)
				p.answer(r, versionsAnswer())
			},
			protocol.KeyMetadata, 12,
		},
		{
			"a later broker says what it knows", "",
			func(p *peer) {
				entry := kmsg.NewApiVersionsResponseApiKey()
				entry.ApiKey, entry.MaxVersion = protocol.KeyApiVersions, 3
				p.refuse(p.expect(protocol.KeyApiVersions), entry)
				r := p.expect(protocol.KeyApiVersions)
				require.Equal(t, int16(3), r.version)
				p.answer(r, versionsAnswer())
			},
			protocol.KeyMetadata, 12,
		},
		{
			"a refusal that names what it refused is not believed", "",
			func(p *peer) {
				entry := kmsg.NewApiVersionsResponseApiKey()
				entry.ApiKey, entry.MaxVersion = protocol.KeyApiVersions, 99
				p.refuse(p.expect(protocol.KeyApiVersions), entry)
				r := p.expect(protocol.KeyApiVersions)
				require.Equal(t, int16(3), r.version)
				p.answer(r, versionsAnswer())
			},
			protocol.KeyMetadata, 12,
		},
		{
			"a clamp lowers ApiVersions and everything else", "0.10.1",
			func(p *peer) {
				r := p.expect(protocol.KeyApiVersions)
				require.Equal(t, int16(0), r.version)
				p.answer(r, versionsAnswer())
			},
			protocol.KeyMetadata, 2,
		},
		{"a clamp below 0.10 asks nothing", "0.9", func(p *peer) {}, protocol.KeyHeartbeat, 0},
		{"a clamp to 0.8.2 asks nothing", "0.8.2", func(p *peer) {}, protocol.KeyMetadata, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					tc.script(p)
					r := p.expect(tc.key)
					require.Equal(t, tc.want, r.version)
					p.answer(r, r.ResponseKind())
					p.drain()
				})
				cfg := ps.config()
				if tc.clamp != "" {
					cfg.Clamp = release(t, tc.clamp)
				}
				l := openLink(t, cfg)
				version, err := l.Versions().Pick(tc.key, 0, 100)
				require.NoError(t, err)
				require.Equal(t, tc.want, version)
				_, err = l.Do(t.Context(), kmsg.RequestForKey(tc.key))
				require.NoError(t, err)
			})
		})
	}
}

func TestNegotiationFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script func(p *peer, r request)
		text   string
		after  time.Duration
	}{
		{"something that closes on everything", func(p *peer, r request) {}, "older than 0.10, but this one did not answer", 0},
		{"something silent", func(p *peer, r request) { p.drain() }, "no answer that tells the broker's version within 2s", 2 * time.Second},
		{"a TLS listener", func(p *peer, r request) { p.Write([]byte{0x15, 3, 3, 0, 2, 2, 0x46}); p.drain() }, "TLS", 0},
		{"a web server", func(p *peer, r request) { p.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, "HTTP", 0},
		{"garbage", func(p *peer, r request) { p.Write([]byte{0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}); p.drain() }, "correlation id", 0},
		{
			"an error code",
			func(p *peer, r request) {
				resp := kmsg.NewPtrApiVersionsResponse()
				resp.ErrorCode = int16(protocol.InvalidRequest)
				p.answer(r, resp)
				p.drain()
			},
			"INVALID_REQUEST", 0,
		},
		{
			"a refusal of version 0 too",
			func(p *peer, r request) {
				p.refuse(r)
				p.refuse(p.expect(protocol.KeyApiVersions))
				p.drain()
			},
			"UNSUPPORTED_VERSION", 0,
		},
		{
			"an absurd count of APIs", func(p *peer, r request) {
				p.Write(answerFrame(r.id, false, []byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}))
				p.drain()
			}, "malformed", 0,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					if r, ok := p.next(); ok {
						tc.script(p, r)
					}
				})
				cfg := ps.config()
				cfg.ProbeTimeout = 2 * time.Second
				start := time.Now()
				_, err := Dial(t.Context(), cfg, -1, testAddr)
				require.Equal(t, tc.after, time.Since(start))
				requireOp(t, err, OpAPIVersions)
				require.ErrorContains(t, err, tc.text)
				require.ErrorContains(t, err, "broker at broker.test:9092")
			})
		})
	}
}

// B46
func TestSlowProbeIsNotAnOldBroker(t *testing.T) {
	for _, tc := range []struct {
		budget time.Duration
		ok     bool
	}{{10 * time.Second, true}, {2 * time.Second, false}} {
		t.Run(tc.budget.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					slowly(p, 4*time.Second)
				})
				cfg := ps.config()
				cfg.ProbeTimeout = tc.budget
				l, err := Dial(t.Context(), cfg, 1, testAddr)
				if tc.ok {
					require.NoError(t, err)
					l.Close()
					return
				}
				require.True(t, requireOp(t, err, OpAPIVersions).Timeout())
			})
		})
	}
}

func TestSetupTimeoutBoundsTheWholeSetup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			r, _ := p.next()
			time.Sleep(2 * time.Second)
			p.refuse(r)
			p.drain()
		})
		cfg := ps.config()
		cfg.SetupTimeout = 3 * time.Second
		start := time.Now()
		_, err := Dial(t.Context(), cfg, 1, testAddr)
		require.True(t, requireOp(t, err, OpAPIVersions).Timeout())
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's context has not ended")
		require.Equal(t, 3*time.Second, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = Dial(ctx, cfg, 1, testAddr)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestSoftwareName(t *testing.T) {
	allowed := regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)
	for in, want := range map[string]string{
		"kafka-go": "kafka-go", "": "unknown", "---": "unknown", "my client/2 (test)": "my-client-2--test",
		"v1.0.0+dirty": "v1.0.0-dirty", "-x-": "x", "(devel)": "devel", "größe": "gr--e",
	} {
		require.Equal(t, want, softwareField(in))
		require.Regexp(t, allowed, softwareField(in))
	}
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			r := p.expect(protocol.KeyApiVersions)
			req := r.Request.(*kmsg.ApiVersionsRequest)
			require.Equal(t, "kafka-go", req.ClientSoftwareName)
			require.Equal(t, "devel", req.ClientSoftwareVersion)
			p.answer(r, versionsAnswer())
			p.drain()
		})
		cfg := ps.config()
		cfg.SoftwareVersion = "(devel)"
		openLink(t, cfg)
	})
}

// authFunc is an Authenticator.
type authFunc func(ctx context.Context, host string, rt Exchange) (time.Duration, error)

func (f authFunc) Authenticate(ctx context.Context, host string, rt Exchange) (time.Duration, error) {
	return f(ctx, host, rt)
}

// plain sends a handshake and one token and accepts whatever comes back.
func plain(lifetime time.Duration) authFunc {
	return func(ctx context.Context, host string, rt Exchange) (time.Duration, error) {
		if _, err := rt.Do(ctx, kmsg.NewPtrSASLHandshakeRequest()); err != nil {
			return 0, err
		}
		resp, err := rt.Do(ctx, kmsg.NewPtrSASLAuthenticateRequest())
		if err != nil {
			return 0, fmt.Errorf("authenticating: %w", err)
		}
		if code := resp.(*kmsg.SASLAuthenticateResponse).ErrorCode; code != 0 {
			return 0, protocol.ErrorCode(code)
		}
		return lifetime, nil
	}
}

// authenticate answers what plain sends.
func (p *peer) authenticate(code int16) {
	r := p.expect(protocol.KeySaslHandshake)
	p.answer(r, r.ResponseKind())
	r = p.expect(protocol.KeySaslAuthenticate)
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	resp.ErrorCode = code
	p.answer(r, resp)
}

func TestSASL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.authenticate(0)
			r := p.expect(protocol.KeyHeartbeat)
			p.answer(r, named(0))
			p.drain()
		})
		cfg := ps.config()
		var host string
		cfg.Auth = authFunc(func(ctx context.Context, h string, rt Exchange) (time.Duration, error) {
			host = h
			return plain(0)(ctx, h, rt)
		})
		l := openLink(t, cfg)
		require.Equal(t, "broker.test", host)
		_, err := l.Do(t.Context(), heartbeat("m"))
		require.NoError(t, err)
	})
}

func TestSASLRawTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			buf := make([]byte, 9)
			_, err := p.Read(buf)
			require.NoError(t, err)
			require.Equal(t, "\x00\x00\x00\x05token", string(buf))
			p.Write([]byte("\x00\x00\x00\x03yes"))
			p.drain()
		})
		cfg := ps.config()
		cfg.Auth = authFunc(func(ctx context.Context, _ string, rt Exchange) (time.Duration, error) {
			answer, err := rt.Token(ctx, []byte("token"))
			require.NoError(t, err)
			require.Equal(t, "yes", string(answer))
			return 0, nil
		})
		openLink(t, cfg)
	})
}

func TestSASLFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script func(p *peer)
		auth   bool // an AuthError
		is     error
		text   string
	}{
		{"wrong password", func(p *peer) { p.authenticate(58); p.drain() }, true, protocol.SaslAuthenticationFailed, "SASL_AUTHENTICATION_FAILED"},
		{"the broker closes", func(p *peer) { p.expect(protocol.KeySaslHandshake) }, false, nil, "credentials"},
		{"the broker is silent", func(p *peer) { p.drain() }, false, nil, "no usable connection within 10s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeers(t, func(p *peer) {
					p.greet()
					tc.script(p)
				})
				cfg := ps.config()
				cfg.Auth = plain(0)
				_, err := Dial(t.Context(), cfg, 1, testAddr)
				require.ErrorContains(t, err, tc.text)
				if tc.is != nil {
					require.ErrorIs(t, err, tc.is)
				}
				if !tc.auth {
					requireOp(t, err, OpSASL)
					return
				}
				e, ok := errors.AsType[*AuthError](err)
				require.True(t, ok, err)
				require.Equal(t, OpSASL, e.Op)
			})
		})
	}
}

// A session that ends is renewed on the same connection before it does
// (KIP-368).
func TestLinkRenewsItsAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.authenticate(0)
			p.answer(p.expect(protocol.KeyHeartbeat), named(0))
			p.authenticate(0)
			p.answer(p.expect(protocol.KeyHeartbeat), named(0))
			p.authenticate(58)
			p.drain()
		})
		cfg := ps.config()
		cfg.Auth = plain(100 * time.Second)
		l := openLink(t, cfg)
		time.Sleep(84 * time.Second)
		_, err := l.Do(t.Context(), heartbeat("m"))
		require.NoError(t, err)
		time.Sleep(12 * time.Second)
		_, err = l.Do(t.Context(), heartbeat("m"))
		require.NoError(t, err)
		time.Sleep(96 * time.Second)
		_, err = l.Do(t.Context(), heartbeat("m"))
		_, ok := errors.AsType[*AuthError](err)
		require.True(t, ok, err)
		require.Error(t, l.Err())
	})
}

func TestLinkRenewedForEverIsNotRenewedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			p.greet()
			p.authenticate(0)
			p.authenticate(0)
			p.answer(p.expect(protocol.KeyHeartbeat), named(0))
			p.answer(p.expect(protocol.KeyHeartbeat), named(0))
			p.drain()
		})
		cfg := ps.config()
		lifetimes := []time.Duration{100 * time.Second, 0}
		cfg.Auth = authFunc(func(ctx context.Context, host string, rt Exchange) (time.Duration, error) {
			lifetime := lifetimes[0]
			lifetimes = lifetimes[1:]
			return plain(lifetime)(ctx, host, rt)
		})
		l := openLink(t, cfg)
		for range 2 {
			time.Sleep(time.Hour)
			_, err := l.Do(t.Context(), heartbeat("m"))
			require.NoError(t, err)
		}
	})
}

package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/certs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// secure are the settings of fast with a user and a password.
func secure(b *testbroker.Cluster, mechanism string) Config {
	cfg := fast(b)
	cfg.SecurityProtocol, cfg.SASLMechanism = SecuritySASLPlaintext, mechanism
	switch mechanism {
	case "OAUTHBEARER":
		cfg.SASLOAuthTokenProvider = fakeTokens{"sesame-token"}
	case "GSSAPI":
		cfg.SASL = threeSteps{}
	default:
		cfg.SASLUsername, cfg.SASLPassword = `a=b, "c" ü`, "sesame's = ,ö"
	}
	return cfg
}

// threeSteps is a mechanism of three messages, the last of which needs no answer, as
// GSSAPI has it.
type threeSteps struct{}

func (threeSteps) Mechanism() string { return "GSSAPI" }
func (threeSteps) Start(context.Context, string) (SASLSession, []byte, error) {
	return new(threeStepsSession), []byte("step 1"), nil
}

type threeStepsSession struct{ step int }

func (s *threeStepsSession) Next(_ context.Context, server []byte) ([]byte, bool, error) {
	s.step++
	if want := fmt.Sprintf("answer %d", s.step); string(server) != want {
		return nil, false, fmt.Errorf("the broker says %q in place of %q", server, want)
	}
	return fmt.Appendf(nil, "step %d", s.step+1), s.step == 2, nil
}

func threeStepsServer() *saslServer {
	return &saslServer{mechanisms: []string{"GSSAPI"}, begin: func(string) serverExchange {
		step := 0
		return func(message []byte) ([]byte, bool, error) {
			step++
			if want := fmt.Sprintf("step %d", step); string(message) != want {
				return nil, true, fmt.Errorf("the client says %q in place of %q", message, want)
			}
			if step == 3 {
				return nil, true, nil
			}
			return fmt.Appendf(nil, "answer %d", step), false, nil
		}
	}}
}

func serverFor(t *testing.T, mechanism string, cfg Config) *saslServer {
	switch mechanism {
	case "PLAIN":
		return plainServer(cfg.SASLUsername, cfg.SASLPassword)
	case "OAUTHBEARER":
		return oauthServer("sesame-token")
	case "GSSAPI":
		return threeStepsServer()
	}
	return scramServer(t, cfg.SASLUsername, cfg.SASLPassword)
}

var allMechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"}

// B38
func TestFramingFollowsTheHandshakeForEveryMechanism(t *testing.T) {
	for _, mechanism := range allMechanisms {
		for _, v := range []struct{ handshake, authenticate int16 }{{0, -1}, {1, 0}, {1, 1}, {1, 2}} {
			t.Run(fmt.Sprintf("%s, SaslHandshake v%d, SaslAuthenticate v%d", mechanism, v.handshake, v.authenticate), func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
					produce(b, "t", 0, 5)
					cfg := secure(b, mechanism)
					server := serverFor(t, mechanism, cfg)
					server.install(b, v.handshake == 0)
					c := openConsumer(t, cfg)
					ends, err := c.EndOffsets(t.Context(), tp0)
					require.NoError(t, err)
					require.EqualValues(t, 5, ends[tp0])
					for _, r := range b.Requests(keySASLHandshake) {
						require.Equal(t, v.handshake, r.Version)
					}
					for _, r := range b.Requests(keySASLAuthenticate) {
						require.Equal(t, v.authenticate, r.Version)
					}
					exchanges, messages := server.count()
					require.Positive(t, exchanges)
					if v.handshake == 0 {
						require.Zero(t, b.Count(keySASLAuthenticate))
					} else {
						require.Equal(t, messages, b.Count(keySASLAuthenticate))
					}
					server.requireProven(t, b)
				}, withSASL(v.handshake, v.authenticate))
			})
		}
	}
}

// B38: brokers of 0.9 have no handshake, and read tokens of GSSAPI from the first byte on.
func TestGSSAPIOf09BeginsWithItsTokens(t *testing.T) {
	server := threeStepsServer()
	tokens := testbroker.WithTokens(func() func([]byte) ([]byte, bool) {
		exchange := server.begin("GSSAPI")
		return func(token []byte) ([]byte, bool) {
			answer, done, err := exchange(token)
			if err != nil {
				return nil, false
			}
			return answer, done
		}
	})
	for _, tc := range []struct{ mechanism, version, text string }{
		{"GSSAPI", "0.9", ""},
		{"GSSAPI", "", `set APIVersion to "0.9"`},
		{"GSSAPI", "0.8.2", "SaslHandshake needs version 0-1, which came with Kafka 0.10 (before, there is GSSAPI in 0.9 only), broker has none"},
		{"PLAIN", "0.9", "SaslHandshake needs version 0-1, which came with Kafka 0.10 (before, there is GSSAPI in 0.9 only), broker has none"},
	} {
		t.Run(tc.mechanism+" with APIVersion "+tc.version, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produceOld(b, "t", 0, 5)
				cfg := secure(b, tc.mechanism)
				cfg.APIVersion = tc.version
				c, err := NewConsumer(t.Context(), cfg)
				if tc.text != "" {
					require.ErrorContains(t, err, tc.text)
					require.Zero(t, b.Count(testbroker.AnyKey))
					return
				}
				require.NoError(t, err)
				defer c.Close(t.Context())
				require.NoError(t, c.Assign(tp0))
				pollN(t, c, 5)
			}, testbroker.WithRelease("0.9"), tokens)
		})
	}
}

func TestReadingOverSASL(t *testing.T) {
	for _, mechanism := range allMechanisms {
		t.Run(mechanism, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 50)
				cfg := secure(b, mechanism)
				serverFor(t, mechanism, cfg).install(b, false)
				cfg.GroupID, cfg.Topics = "g", []string{"t"}
				c := openConsumer(t, cfg)
				require.Equal(t, span(0, 49), offsetsOf(pollN(t, c, 50)))
				require.NoError(t, c.Commit(t.Context()))
			}, withSASL(1, 2), testbroker.WithNodes(2))
		})
	}
}

// The broker's session ends every few seconds, on each connection, while records and
// commits flow (KIP-368).
func TestReauthenticationUnderLoad(t *testing.T) {
	for _, mechanism := range allMechanisms {
		t.Run(mechanism, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
				cfg := secure(b, mechanism)
				server := serverFor(t, mechanism, cfg)
				server.lifetime = 2500
				server.install(b, false)
				cfg.GroupID, cfg.Topics = "g", []string{"t"}
				c := openConsumer(t, cfg)
				tp1, next := TopicPartition{Topic: "t", Partition: 1}, map[TopicPartition]int64{}
				for range 200 {
					produce(b, "t", 0, 3)
					produce(b, "t", 1, 3)
					records, err := c.Poll(t.Context(), 200*time.Millisecond)
					require.NoError(t, err)
					for r := range records.All() {
						require.Equal(t, next[r.TopicPartition()], r.Offset)
						next[r.TopicPartition()]++
					}
					require.NoError(t, c.CommitAsync(nil, func(_ context.Context, _ map[TopicPartition]OffsetAndMetadata, err error) {
						require.NoError(t, err)
					}))
					time.Sleep(50 * time.Millisecond)
				}
				for _, r := range pollN(t, c, 1200-int(next[tp0]+next[tp1])) {
					require.Equal(t, next[r.TopicPartition()], r.Offset)
					next[r.TopicPartition()]++
				}
				require.NoError(t, c.Commit(t.Context()))
				require.EqualValues(t, 600, b.CommittedOffset("g", "t", 0))

				last := map[int]time.Time{}
				for _, r := range b.Requests(testbroker.AnyKey) {
					switch r.Key {
					case keyAPIVersions:
					case keySASLHandshake:
						last[r.Conn] = r.Time
					case keySASLAuthenticate:
					default:
						require.Less(t, r.Time.Sub(last[r.Conn]), 2500*time.Millisecond, "request %d after the session's end", r.Key)
					}
				}
				require.LessOrEqual(t, len(last), 5, "connections are kept")
				exchanges, _ := server.count()
				require.Greater(t, exchanges, 2*len(last))
				require.Equal(t, 1, b.Count(keyJoinGroup)-b.Count(keyJoinGroup)/2, "nobody joins anew")
			}, withSASL(1, 2))
		})
	}
}

// refusedLogin makes a consumer that the brokers refuse and returns the error, which
// must come at once.
func refusedLogin(t *testing.T, b *testbroker.Cluster, cfg Config) *AuthenticationError {
	t.Helper()
	began := time.Now()
	_, err := NewConsumer(t.Context(), cfg)
	require.Less(t, time.Since(began), 2*time.Second)
	e, ok := errors.AsType[*AuthenticationError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, b.Addrs()[0], e.Address)
	require.LessOrEqual(t, b.Count(keySASLHandshake), 1, "one attempt")
	require.NotContains(t, err.Error(), "sesame")
	require.NotContains(t, err.Error(), "\n", "the broker's text is escaped")
	return e
}

func TestWrongCredentialsAreFinal(t *testing.T) {
	for _, tc := range []struct {
		name   string
		server func(t *testing.T) *saslServer
		cfg    func(b *testbroker.Cluster) Config
		says   []string
		code   ErrorCode
	}{
		{
			"PLAIN", func(*testing.T) *saslServer { return plainServer("u", "other") },
			func(b *testbroker.Cluster) Config { return secure(b, "PLAIN") },
			[]string{"SASL_AUTHENTICATION_FAILED", "Invalid username or password"}, 58,
		},
		{
			"SCRAM, wrong password", func(t *testing.T) *saslServer { return scramServer(t, `a=b, "c" ü`, "other") },
			func(b *testbroker.Cluster) Config { return secure(b, "SCRAM-SHA-256") },
			[]string{"SASL_AUTHENTICATION_FAILED", "invalid credentials with SASL mechanism"}, 58,
		},
		{
			"SCRAM, unknown user", func(t *testing.T) *saslServer { return scramServer(t, "other", "other") },
			func(b *testbroker.Cluster) Config { return secure(b, "SCRAM-SHA-512") },
			[]string{"SASL_AUTHENTICATION_FAILED", "invalid credentials"}, 58,
		},
		{
			"OAUTHBEARER", func(*testing.T) *saslServer { return oauthServer("other") },
			func(b *testbroker.Cluster) Config { return secure(b, "OAUTHBEARER") },
			[]string{"SASL_AUTHENTICATION_FAILED", "the token is refused", "invalid_token"}, 58,
		},
		{
			"an expired token", func(*testing.T) *saslServer { return oauthServer("sesame-token") },
			func(b *testbroker.Cluster) Config {
				cfg := secure(b, "OAUTHBEARER")
				cfg.SASLOAuthTokenProvider = tokenFunc(func(context.Context) (Token, error) {
					return Token{Value: "sesame-token", Lifetime: time.Now().Add(-time.Second)}, nil
				})
				return cfg
			},
			[]string{"has expired at"}, 0,
		},
		{
			"a provider that fails", func(*testing.T) *saslServer { return oauthServer("sesame-token") },
			func(b *testbroker.Cluster) Config {
				cfg := secure(b, "OAUTHBEARER")
				cfg.SASLOAuthTokenProvider = tokenFunc(func(context.Context) (Token, error) { return Token{}, errors.New("no login today") })
				return cfg
			},
			[]string{"no login today"}, 0,
		},
		{
			"a mechanism that the broker lacks", func(*testing.T) *saslServer {
				s := plainServer("u", "p")
				s.mechanisms = []string{"PLAIN", "GSSAPI\n"}
				return s
			},
			func(b *testbroker.Cluster) Config { return secure(b, "SCRAM-SHA-256") },
			[]string{"UNSUPPORTED_SASL_MECHANISM", `the broker offers "PLAIN", "GSSAPI\n", not SCRAM-SHA-256`}, 33,
		},
		{
			"a refusal with control characters", func(*testing.T) *saslServer {
				s := plainServer("", "")
				s.begin = func(string) serverExchange {
					return func([]byte) ([]byte, bool, error) { return nil, true, errors.New("no\n\x1b[31mlevel=INFO") }
				}
				return s
			},
			func(b *testbroker.Cluster) Config { return secure(b, "PLAIN") },
			[]string{`"no\n\x1b[31mlevel=INFO"`}, 58,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				tc.server(t).install(b, false)
				err := refusedLogin(t, b, tc.cfg(b))
				for _, text := range tc.says {
					require.ErrorContains(t, err, text)
				}
				if tc.code != 0 {
					require.ErrorIs(t, err, tc.code)
				}
			}, withSASL(1, 2))
		})
	}
}

type tokenFunc func(ctx context.Context) (Token, error)

func (f tokenFunc) Token(ctx context.Context) (Token, error) { return f(ctx) }

// A password that is changed under a running consumer: Poll says so at once and again,
// without a storm of attempts, and goes on when it is right again.
func TestCredentialsRevokedWhileReading(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 5)
		cfg := secure(b, "PLAIN")
		server := plainServer(cfg.SASLUsername, cfg.SASLPassword)
		server.install(b, false)
		cfg.GroupID, cfg.Topics = "g", []string{"t"}
		c := openConsumer(t, cfg)
		pollN(t, c, 5)

		good := server.begin
		server.mu.Lock()
		server.begin = func(string) serverExchange {
			return func([]byte) ([]byte, bool, error) { return nil, true, errors.New("Authentication failed: revoked") }
		}
		server.mu.Unlock()
		b.CutConns(1)
		b.ForgetRequests()
		began, told := time.Now(), 0
		for time.Since(began) < 20*time.Second {
			polled := time.Now()
			_, err := c.Poll(t.Context(), time.Second)
			require.LessOrEqual(t, time.Since(polled), 1500*time.Millisecond)
			if err == nil {
				continue
			}
			e, ok := errors.AsType[*AuthenticationError](err)
			require.True(t, ok, "%v", err)
			require.ErrorContains(t, e, "Authentication failed: revoked")
			if told++; told == 1 {
				require.Less(t, time.Since(began), 3*time.Second)
			}
		}
		require.Greater(t, told, 3)
		require.Less(t, b.Count(keySASLHandshake), 60, "attempts in 20 s on all connections")

		server.mu.Lock()
		server.begin = good
		server.mu.Unlock()
		produce(b, "t", 0, 5)
		var last int64
		for _, r := range pollKeeping(t, c, 10, 15*time.Second) { // it joined anew, and nothing was committed
			last = r.Offset
		}
		require.EqualValues(t, 9, last)
	}, withSASL(1, 2))
}

func TestAuthorizationDeniedIsLoudAndQuiet(t *testing.T) {
	for _, tc := range []struct {
		name string
		deny func(b *testbroker.Cluster)
		code ErrorCode
	}{
		{"on the topic, by Metadata", func(b *testbroker.Cluster) { b.On(keyMetadata).Fail(29) }, 29},
		{"on the topic, by Fetch", func(b *testbroker.Cluster) { b.On(keyFetch).Fail(29) }, 29},
		{"on the topic, by ListOffsets", func(b *testbroker.Cluster) { b.On(keyListOffsets).Fail(29) }, 29},
		{"on the group, by FindCoordinator", func(b *testbroker.Cluster) { b.On(keyFindCoordinator).Fail(30) }, 30},
		{"on the group, by JoinGroup", func(b *testbroker.Cluster) { b.On(keyJoinGroup).Fail(30) }, 30},
		{"on the group, by OffsetFetch", func(b *testbroker.Cluster) { b.On(keyOffsetFetch).Fail(30) }, 30},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				cfg := fast(b)
				cfg.GroupID = "g"
				tc.deny(b) // first: the coordinator is looked up as soon as there is a consumer
				c := openConsumer(t, cfg)
				require.NoError(t, c.Subscribe([]string{"t"}))
				began, told := time.Now(), 0
				for time.Since(began) < 10*time.Second {
					_, err := c.Poll(t.Context(), time.Second)
					if err == nil {
						continue
					}
					require.ErrorIs(t, err, tc.code)
					if told++; told == 1 {
						require.Less(t, time.Since(began), 3*time.Second, "%v", err)
					}
				}
				require.Positive(t, told)
				require.Less(t, b.Count(testbroker.AnyKey), 250)
			})
		})
	}
}

// B34
func TestScramServerThatLies(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first func(nonce string) string // nil: an honest one
		last  string
		says  string
	}{
		{"one iteration", first("", 1), "", "at least 4096"},
		{"no iterations", first("", 0), "", "at least 4096"},
		{"fewer than none", first("", -5), "", "not a number in range"},
		{"iterations without end", first("", 1<<31-1), "", "at most 1000000"},
		{"a count that is none", func(n string) string { return "r=" + n + "x,s=c2FsdA==,i=4096x" }, "", "not a number"},
		{"another nonce", func(string) string { return "r=other,s=c2FsdA==,i=4096" }, "", "nonce does not continue"},
		{"a salt that is none", func(n string) string { return "r=" + n + "x,s=%,i=4096" }, "", "not base64"},
		{"an extension", first("m=x,", 4096), "", "extension"},
		{"attributes that come twice", func(n string) string { return "r=" + n + "x,s=c2FsdA==,i=4096,i=4096" }, "", "twice"},
		{"a wrong signature", nil, "v=" + base64.StdEncoding.EncodeToString(make([]byte, 64)), "signature is wrong"},
		{"no signature", nil, "", "malformed"},
		{"an error", nil, "e=invalid-proof\x1b[2J", `"invalid-proof\x1b[2J"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				cfg := secure(b, "SCRAM-SHA-512")
				server := scramServer(t, cfg.SASLUsername, cfg.SASLPassword)
				honest := server.begin
				server.begin = func(mechanism string) serverExchange {
					step, exchange := 0, honest(mechanism)
					return func(message []byte) ([]byte, bool, error) {
						step++
						switch {
						case step == 1 && tc.first != nil:
							_, nonce, _ := strings.Cut(string(message), ",r=")
							return []byte(tc.first(nonce)), false, nil
						case step == 2:
							return []byte(tc.last), true, nil
						}
						return exchange(message)
					}
				}
				server.install(b, false)
				err := refusedLogin(t, b, cfg)
				require.ErrorContains(t, err, tc.says)
				_, messages := server.count()
				if tc.first != nil {
					require.Equal(t, 1, messages, "no proof is sent")
				}
				require.LessOrEqual(t, messages, 2)
				time.Sleep(10 * time.Second)
				require.Zero(t, b.Count(keyMetadata))
				last := b.Requests(testbroker.AnyKey)
				require.Equal(t, keySASLAuthenticate, last[len(last)-1].Key, "nothing leaves the client afterwards")
			}, withSASL(1, 2))
		})
	}
}

func first(before string, iterations int) func(string) string {
	return func(nonce string) string { return fmt.Sprintf("%sr=%sx,s=c2FsdA==,i=%d", before, nonce, iterations) }
}

// tlsCluster is an option that puts TLS before all nodes, each with its certificate,
// and notes the names that clients ask for.
func tlsCluster(server func(node int32) *tls.Config) (testbroker.Option, func() []string) {
	var (
		mu    sync.Mutex
		names []string
	)
	option := testbroker.WithConnWrapper(func(node int32, raw net.Conn) net.Conn {
		cfg := server(node).Clone()
		cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			mu.Lock()
			defer mu.Unlock()
			names = append(names, hello.ServerName)
			return nil, nil
		}
		return tls.Server(raw, cfg)
	})
	return option, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return names
	}
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// B35
func TestCertificatesAreVerified(t *testing.T) {
	ca, other := certs.New("ca"), certs.New("other")
	caFile := writeFile(t, "ca.pem", ca.PEM())
	right := ca.Issue([]string{"node1.test", "node2.test"})
	one := ca.Issue([]string{"node1.test"})
	for _, tc := range []struct {
		name      string
		bootstrap *certs.Leaf // of node 1
		node2     *certs.Leaf // of the node that leads, reached by its advertised name
		skip      bool
		says      string // "" when it works
		later     bool   // the refusal comes from Poll
	}{
		{"right", right, right, false, "", false},
		{"another name", ca.Issue([]string{"x.test"}), right, false, "not node1.test", false},
		{"another name, unchecked", ca.Issue([]string{"x.test"}), ca.Issue([]string{"y.test"}), true, "", false},
		{"expired", ca.Issue([]string{"node1.test"}, certs.Expired), right, false, "expired", false},
		{"unknown authority", other.Issue([]string{"node1.test"}), right, false, "unknown authority", false},
		{"unknown authority, name unchecked", other.Issue([]string{"node1.test"}), right, true, "unknown authority", false},
		{"the advertised node has another name", one, one, false, "not node2.test", true},
		{"the advertised node is expired", one, ca.Issue([]string{"node2.test"}, certs.Expired), false, "expired", true},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(tc.name+", "+tls.VersionName(version), func(t *testing.T) {
				option, names := tlsCluster(func(node int32) *tls.Config {
					leaf := tc.bootstrap
					if node == 2 {
						leaf = tc.node2
					}
					return &tls.Config{Certificates: []tls.Certificate{leaf.TLS()}, MinVersion: version, MaxVersion: version}
				})
				realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
					b.SetLeader("t", 0, 2)
					produce(b, "t", 0, 5)
					cfg := patient(secure(b, "PLAIN"))
					server := plainServer(cfg.SASLUsername, cfg.SASLPassword)
					server.install(b, false)
					cfg.SecurityProtocol, cfg.SSLCAFile, cfg.SSLSkipHostnameCheck = SecuritySASLSSL, caFile, tc.skip
					cfg.BootstrapServers = b.Addrs()[:1]
					c, err := NewConsumer(t.Context(), cfg)
					if err == nil {
						defer func() { _ = c.Close(context.Background()) }()
						require.NoError(t, c.Assign(tp0))
						for n := 0; err == nil && n < 5; {
							var records *Records
							records, err = c.Poll(t.Context(), 5*time.Second)
							if err == nil {
								n += records.Len()
							}
						}
						require.Equal(t, tc.later, err != nil, "%v", err)
					}
					if tc.says == "" {
						require.NoError(t, err)
						require.Contains(t, names(), "node1.test")
						require.Contains(t, names(), "node2.test")
						return
					}
					_, ok := errors.AsType[*AuthenticationError](err)
					require.True(t, ok, "%v", err)
					require.ErrorContains(t, err, tc.says)
					if !tc.later {
						_, messages := server.count()
						require.Zero(t, messages, "nothing secret is sent before the server is verified")
						require.Zero(t, b.Count(testbroker.AnyKey))
					}
				}, withSASL(1, 2), testbroker.WithNodes(2), option)
			})
		}
	}
}

// B35
func TestNamesInTLS(t *testing.T) {
	ca := certs.New("ca")
	caFile := writeFile(t, "ca.pem", ca.PEM())
	for _, tc := range []struct {
		name, host string
		leaf       *certs.Leaf
		sni        string
		says       string
	}{
		{"a host name", "broker.test", ca.Issue([]string{"broker.test"}), "broker.test", ""},
		{"a trailing dot", "broker.test.", ca.Issue([]string{"broker.test"}), "broker.test", ""},
		{"a wildcard", "b1.broker.test", ca.Issue([]string{"*.broker.test"}), "b1.broker.test", ""},
		{"an address", "127.0.0.1", ca.Issue([]string{"127.0.0.1"}), "", ""},
		{"an address of version 6", "[::1]", ca.Issue([]string{"::1"}), "", ""},
		{"an address that the certificate lacks", "127.0.0.1", ca.Issue([]string{"localhost"}), "", "doesn't contain any IP SANs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			option, names := tlsCluster(func(int32) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{tc.leaf.TLS()}} })
			realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				node := b.Addrs()[0]
				b.On(keyMetadata).Edit(func(_ testbroker.Request, resp kmsg.Response) {
					resp.(*kmsg.MetadataResponse).Brokers[0].Host = strings.Trim(tc.host, "[]")
				})
				cfg := patient(fast(b))
				cfg.BootstrapServers = []string{tc.host + ":9092"}
				cfg.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) { return b.Dial(ctx, network, node) }
				cfg.SecurityProtocol, cfg.SSLCAFile = SecuritySSL, caFile
				c, err := NewConsumer(t.Context(), cfg)
				if tc.says != "" {
					require.ErrorContains(t, err, tc.says)
					return
				}
				require.NoError(t, err)
				defer func() { require.NoError(t, c.Close(context.Background())) }()
				require.NoError(t, c.Assign(tp0)) // which opens a second connection
				require.Eventually(t, func() bool { return len(names()) >= 2 }, 10*time.Second, time.Millisecond)
				for _, name := range names() {
					require.Equal(t, tc.sni, name)
				}
			}, option)
		})
	}
}

// Client certificates, revocation and files that change reach the connections.
func TestTLSFilesAreUsed(t *testing.T) {
	t.Run("in memory", func(t *testing.T) { tlsFilesAreUsed(t, func(*Config) {}) })
	t.Run("over TCP", func(t *testing.T) { tlsFilesAreUsed(t, func(cfg *Config) { cfg.Dialer = nil }, testbroker.WithTCP()) })
}

func tlsFilesAreUsed(t *testing.T, edit func(cfg *Config), options ...testbroker.Option) {
	ca := certs.New("ca")
	caFile := writeFile(t, "ca.pem", ca.PEM())
	mine, server := ca.Issue(nil), ca.Issue([]string{"node1.test", "127.0.0.1"})
	option, _ := tlsCluster(func(int32) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{server.TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
	})
	realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		cfg := patient(fast(b))
		edit(&cfg)
		cfg.SecurityProtocol, cfg.SSLCAFile = SecuritySSL, caFile
		_, err := NewConsumer(t.Context(), cfg)
		_, ok := errors.AsType[*AuthenticationError](err)
		require.True(t, ok, "%v", err)
		require.ErrorContains(t, err, "does it ask for a client certificate")

		cfg.SSLCertFile, cfg.SSLKeyFile = writeFile(t, "cert.pem", mine.PEM()), writeFile(t, "key.pem", mine.KeyPEM())
		cfg.SSLCRLFile = writeFile(t, "crl.pem", ca.CRL(time.Hour))
		c := openConsumer(t, cfg)
		_, err = c.EndOffsets(t.Context(), tp0)
		require.NoError(t, err)

		require.NoError(t, os.WriteFile(cfg.SSLCRLFile, ca.CRL(time.Hour, server), 0o600))
		b.CutConns(1)
		_, err = c.EndOffsets(t.Context(), tp0)
		require.ErrorContains(t, err, "it was revoked on")

		cfg.SSLCRLFile, cfg.SSLKeyFile = "", writeFile(t, "other.pem", ca.Issue(nil).KeyPEM())
		cfg.SSLCAFile = filepath.Join(t.TempDir(), "none.pem")
		b.ForgetRequests()
		_, err = NewConsumer(t.Context(), cfg)
		for _, text := range []string{"Config.SSLCAFile", "no such file", "Config.SSLKeyFile", "does not match"} {
			require.ErrorContains(t, err, text)
		}
		_, ok = errors.AsType[*ConfigError](err)
		require.True(t, ok)
		require.Zero(t, b.Count(testbroker.AnyKey), "nothing is sent")
	}, append(options, option)...)
}

// B30
func TestTransportsThatDoNotMatch(t *testing.T) {
	ca := certs.New("ca")
	tlsOption, _ := tlsCluster(func(int32) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{ca.Issue([]string{"node1.test"}).TLS()}}
	})
	noSASL := func(b *testbroker.Cluster) {
		b.On(keySASLHandshake).Reply(func(kmsg.Request) kmsg.Response {
			resp := kmsg.NewPtrSASLHandshakeResponse()
			resp.ErrorCode = 34
			return resp
		})
	}
	for _, tc := range []struct {
		name    string
		options []testbroker.Option
		script  func(b *testbroker.Cluster)
		cfg     func(cfg *Config)
		says    string
	}{
		{"plaintext to a TLS port", []testbroker.Option{tlsOption}, nil, func(*Config) {}, "TLS"},
		{
			"plaintext to what answers with an alert", nil, func(b *testbroker.Cluster) {
				b.On(keyAPIVersions).Raw(func(testbroker.Request) []byte { return []byte{0x15, 3, 3, 0, 2, 2, 0x46} })
			}, func(*Config) {}, "TLS",
		},
		{
			"SASL without TLS to what answers with an alert", nil, func(b *testbroker.Cluster) {
				b.On(keyAPIVersions).Raw(func(testbroker.Request) []byte { return []byte{0x15, 3, 3, 0, 2, 2, 0x46} })
			}, func(cfg *Config) { *cfg = withPassword(*cfg, SecuritySASLPlaintext) }, "TLS",
		},
		{"SASL without TLS to a TLS port", []testbroker.Option{tlsOption}, nil, func(cfg *Config) { *cfg = withPassword(*cfg, SecuritySASLPlaintext) }, "TLS"},
		{"TLS to a plaintext port", nil, nil, func(cfg *Config) { cfg.SecurityProtocol = SecuritySSL }, "without TLS"},
		{"SASL over TLS to a plaintext port", nil, nil, func(cfg *Config) { *cfg = withPassword(*cfg, SecuritySASLSSL) }, "without TLS"},
		{
			"SASL to a port that does not know it", nil, nil,
			func(cfg *Config) { *cfg = withPassword(*cfg, SecuritySASLPlaintext) }, "SaslHandshake",
		},
		{
			"SASL to a port that does not want it", []testbroker.Option{withSASL(1, 2)}, noSASL,
			func(cfg *Config) { *cfg = withPassword(*cfg, SecuritySASLPlaintext) }, "SecurityProtocol",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var wire recorder
			options := append([]testbroker.Option{testbroker.WithConnWrapper(func(_ int32, c net.Conn) net.Conn { return wire.wrap(c) })}, tc.options...)
			realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				if tc.script != nil {
					tc.script(b)
				}
				cfg := patient(fast(b))
				tc.cfg(&cfg)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := NewConsumer(ctx, cfg)
				runtime.ReadMemStats(&after)
				require.ErrorContains(t, err, tc.says)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(50<<20))
				require.NotContains(t, wire.String(), "sesame")
				for _, r := range b.Requests(testbroker.AnyKey) {
					require.NotContains(t, string(r.Frame), "sesame")
				}
			}, options...)
		})
	}
}

func withPassword(cfg Config, protocol SecurityProtocol) Config {
	cfg.SecurityProtocol, cfg.SASLMechanism, cfg.SASLUsername, cfg.SASLPassword = protocol, "PLAIN", "sesame-user", "sesame-password"
	return cfg
}

// A recorder keeps what is written: by clients, or to a log.
type recorder struct {
	mu   sync.Mutex
	data bytes.Buffer
}

type recorded struct {
	net.Conn
	r *recorder
}

func (r *recorder) wrap(c net.Conn) net.Conn { return recorded{c, r} }

func (c recorded) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	_, _ = c.r.Write(p[:n])
	return n, err
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.String()
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.Write(p)
}

// B36
func TestNoSecretGetsOut(t *testing.T) {
	for _, mechanism := range allMechanisms {
		for _, accepted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, accepted %v", mechanism, accepted), func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
					produce(b, "t", 0, 5)
					var out recorder
					cfg := secure(b, mechanism)
					if mechanism == "PLAIN" || strings.HasPrefix(mechanism, "SCRAM") {
						cfg.SASLUsername, cfg.SASLPassword = "sesame-user", "sesame-password"
					}
					cfg.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
					cfg.GroupID, cfg.Topics = "g", []string{"t"}
					server := serverFor(t, mechanism, cfg)
					if !accepted {
						server.begin = func(string) serverExchange {
							return func([]byte) ([]byte, bool, error) { return nil, true, errors.New("no") }
						}
					}
					server.lifetime = 2000
					server.install(b, false)
					c, err := NewConsumer(t.Context(), cfg)
					print := func(values ...any) {
						for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
							for _, value := range values {
								_, _ = fmt.Fprintf(&out, verb+"\n", value)
							}
						}
						for _, value := range values {
							cfg.Logger.Info("value", "value", value)
						}
					}
					print(cfg, &cfg, err)
					if accepted {
						require.NoError(t, err)
						pollN(t, c, 5)
						time.Sleep(5 * time.Second)
						_, _ = c.Poll(t.Context(), time.Second)
						b.CutConns(1)
						_, err := c.Poll(t.Context(), time.Second)
						print(c, struct{ C *Consumer }{c}, []any{c}, err)
						measured, err := c.Metrics()
						print(measured, err)
						func() {
							defer func() { print(recover()) }()
							panic(fmt.Sprintf("%+v %v", c, cfg))
						}()
						require.NoError(t, c.Close(t.Context()))
					} else {
						require.Error(t, err)
					}
					secrets := []string{"sesame", fmt.Sprintf("%x", "sesame"), fmt.Sprintf("%X", "sesame"), strings.Trim(fmt.Sprint([]byte("sesame")), "[]")}
					server.mu.Lock()
					defer server.mu.Unlock()
					require.NotEmpty(t, server.messages)
					for _, message := range server.messages {
						if mechanism != "GSSAPI" && len(message) > 5 {
							secrets = append(secrets, message, base64.StdEncoding.EncodeToString([]byte(message)))
						}
						if _, proof, ok := strings.Cut(message, ",p="); ok {
							secrets = append(secrets, proof)
						}
					}
					requireNoSecret(t, secrets, out.String(), mechanism)
				}, withSASL(1, 2))
			})
		}
	}
}

// B36
func TestKeyPasswordGetsNowhere(t *testing.T) {
	ca := certs.New("ca")
	leaf := ca.Issue(nil)
	cfg := Config{
		SecurityProtocol: SecuritySSL, SSLPassword: "sesame", SSLCertFile: writeFile(t, "cert.pem", leaf.PEM()),
		SSLKeyFile: writeFile(t, "key.pem", leaf.KeyPEM()), SSLCAFile: writeFile(t, "ca.pem", ca.PEM()),
	}
	_, err := NewConsumer(t.Context(), cfg)
	require.ErrorContains(t, err, "Config.SSLPassword = (hidden)")
	for _, verb := range []string{"%v", "%+v", "%#v", "%q"} {
		require.NotContains(t, fmt.Sprintf(verb, err), "sesame")
	}
}

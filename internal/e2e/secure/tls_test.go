//go:build unix

package secure

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
)

const keyPassword = "the key's, Pa55=word"

// tlsTo is how to reach a listener with TLS.
func (f *fixture) tlsTo(listener string) kafka.Config {
	return kafka.Config{
		BootstrapServers: []string{f.ListenerAddr(1, listener)},
		SecurityProtocol: kafka.SecuritySSL,
		SSLCAFile:        f.ca.File,
	}
}

func TestTLS(t *testing.T) {
	on(t, func(t *testing.T, f *fixture) {
		for _, test := range []struct {
			name string
			to   string
			with func(t *testing.T, cfg *kafka.Config)
		}{
			{"one-way", "ONEWAY", func(*testing.T, *kafka.Config) {}},
			{"TLS 1.2 with one cipher suite", "ONEWAY", func(_ *testing.T, cfg *kafka.Config) {
				cfg.SSLCAFile = ""
				cfg.TLS = &tls.Config{RootCAs: f.ca.Pool(), MaxVersion: tls.VersionTLS12,
					CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
			}},
			{"cipher suites by name", "ONEWAY", func(_ *testing.T, cfg *kafka.Config) {
				cfg.SSLCiphers = []string{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}
			}},
			{"mutual", "MUTUAL", func(_ *testing.T, cfg *kafka.Config) {
				cfg.SSLCertFile, cfg.SSLKeyFile = f.client.CertFile, f.client.KeyFile
			}},
			{"mutual with certificate and key in one file", "MUTUAL", func(_ *testing.T, cfg *kafka.Config) {
				cfg.SSLCertFile = f.client.Store
			}},
			{"mutual with a key encrypted as PKCS#8", "MUTUAL", func(t *testing.T, cfg *kafka.Config) {
				cfg.SSLCertFile, cfg.SSLPassword = f.client.CertFile, keyPassword
				cfg.SSLKeyFile = f.client.Encrypted(t, keyPassword, false)
			}},
			{"mutual with a key encrypted in the legacy form", "MUTUAL", func(t *testing.T, cfg *kafka.Config) {
				cfg.SSLCertFile, cfg.SSLPassword = f.client.CertFile, keyPassword
				cfg.SSLKeyFile = f.client.Encrypted(t, keyPassword, true)
			}},
			{"a wrong name that is not to be checked", "WRONGNAME", func(_ *testing.T, cfg *kafka.Config) {
				cfg.SSLSkipHostnameCheck = true
			}},
		} {
			t.Run(test.name, func(t *testing.T) {
				cfg := f.tlsTo(test.to)
				test.with(t, &cfg)
				requireReads(t, cfg)
			})
		}
	})
}

// B35: each fault of a certificate is refused, with its reason and at once.
func TestCertificatesThatAreRefused(t *testing.T) {
	on(t, func(t *testing.T, f *fixture) {
		skip := func(cfg *kafka.Config) { cfg.SSLSkipHostnameCheck = true }
		for _, test := range []struct {
			name string
			to   string
			with func(cfg *kafka.Config)
			want string
		}{
			{"another host name", "WRONGNAME", nil, "127.0.0.1"},
			{"no IP SAN, though the common name is the address", "NOIPSAN", nil, "doesn't contain any IP SANs"},
			{"expired", "EXPIRED", nil, "expired"},
			{"expired, its name not checked", "EXPIRED", skip, "expired"},
			{"an unknown authority", "FOREIGN", nil, "unknown authority"},
			{"an unknown authority, the name not checked", "FOREIGN", skip, "unknown authority"},
			{"the system's authorities alone", "ONEWAY", func(cfg *kafka.Config) { cfg.SSLCAFile = "" }, "unknown authority"},
			{"no certificate of the client", "MUTUAL", nil, "certificate"},
		} {
			t.Run(test.name, func(t *testing.T) {
				cfg := f.tlsTo(test.to)
				if test.with != nil {
					test.with(&cfg)
				}
				requireUnauthenticated(t, cfg, test.want)
			})
		}
		t.Run("a broker that is advertised by a name that its certificate lacks", func(t *testing.T) {
			w := &wire{hosts: map[string]string{"other.test": "127.0.0.1"}}
			cfg := f.tlsTo("RENAMED")
			cfg.Dialer = w.dial
			c, err := newConsumer(t, cfg)
			require.NoError(t, err, "the bootstrap address is in the certificate")
			requirePollFails(t, c, func(err error) {
				var e *kafka.AuthenticationError
				require.ErrorAs(t, err, &e)
				require.ErrorContains(t, err, "other.test")
			})
			cfg.SSLSkipHostnameCheck = true
			requireReads(t, cfg)
		})
	})
}

// requirePollFails requires that Poll gives an error soon, not only logs it.
func requirePollFails(t *testing.T, c *kafka.Consumer, check func(err error)) {
	t.Helper()
	require.NoError(t, c.Subscribe([]string{topic}))
	requireNextPollFails(t, c, check)
}

func requireNextPollFails(t *testing.T, c *kafka.Consumer, check func(err error)) {
	t.Helper()
	for end := time.Now().Add(promptly); time.Now().Before(end); {
		if recs, err := c.Poll(t.Context(), time.Second); err != nil {
			check(err)
			return
		} else {
			require.Zero(t, recs.Len())
		}
	}
	require.Fail(t, "Poll gives no error")
}

// B35: nothing is sent over TLS before the server is verified, and names are sent as
// SNI while addresses are not.
func TestNothingIsSentBeforeTheServerIsVerified(t *testing.T) {
	on(t, func(t *testing.T, f *fixture) {
		hello := make(chan string, 10)
		heard := make(chan []byte, 10)
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
			GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
				hello <- h.ServerName
				c := f.serverCertificates(t)["WRONGNAME"].TLS
				return &c, nil
			},
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				b, _ := io.ReadAll(conn) // the handshake fails in it
				heard <- b
				_ = conn.Close()
			}
		}()
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		for host, sni := range map[string]string{"127.0.0.1": "", "broker.test": "broker.test"} {
			w := &wire{hosts: map[string]string{"broker.test": "127.0.0.1"}}
			requireUnauthenticated(t, kafka.Config{
				BootstrapServers: []string{net.JoinHostPort(host, port)}, Dialer: w.dial,
				SecurityProtocol: kafka.SecuritySASLSSL, SSLCAFile: f.ca.File,
				SASLMechanism: "PLAIN", SASLUsername: alice, SASLPassword: alicePassword,
			}, "certificate")
			require.Equal(t, sni, <-hello)
			require.Empty(t, <-heard)
			requireNoSecret(t, "the connection", w.sent.String())
		}
	})
}

// B30: a client whose transport does not fit the listener fails at once, says what
// may be wrong, and neither sends a password nor takes the other side's bytes for a
// length to allocate.
func TestTransportsThatDoNotFit(t *testing.T) {
	on(t, func(t *testing.T, f *fixture) {
		for _, test := range []struct {
			name     string
			addr     string
			security kafka.SecurityProtocol
			want     string
		}{
			{"a plain client on a TLS listener", f.ListenerAddr(1, "ONEWAY"), kafka.SecurityPlaintext, "TLS"},
			{"a plain client on a mutual TLS listener", f.ListenerAddr(1, "MUTUAL"), kafka.SecurityPlaintext, "TLS"},
			{"a plain SASL client on a TLS listener", f.ListenerAddr(1, "SASLTLS"), kafka.SecuritySASLPlaintext, "TLS"},
			{"a TLS client on a plain listener", f.Addr(1), kafka.SecuritySSL, "TLS"},
			{"a TLS and SASL client on a plain SASL listener", f.ListenerAddr(1, "SASL"), kafka.SecuritySASLSSL, "TLS"},
			{"a SASL client on a plain listener", f.Addr(1), kafka.SecuritySASLPlaintext, "ILLEGAL_SASL_STATE"},
			{"a plain client on a SASL listener", f.ListenerAddr(1, "SASL"), kafka.SecurityPlaintext, "closed the connection"},
			{"a TLS client on a TLS and SASL listener", f.ListenerAddr(1, "SASLTLS"), kafka.SecuritySSL, "closed the connection"},
		} {
			t.Run(test.name, func(t *testing.T) {
				w := &wire{}
				cfg := kafka.Config{BootstrapServers: []string{test.addr}, SecurityProtocol: test.security, Dialer: w.dial}
				switch test.security {
				case kafka.SecuritySASLPlaintext, kafka.SecuritySASLSSL:
					cfg.SASLMechanism, cfg.SASLUsername, cfg.SASLPassword = "PLAIN", alice, alicePassword
				}
				switch test.security {
				case kafka.SecuritySSL, kafka.SecuritySASLSSL:
					cfg.SSLCAFile = f.ca.File
				}
				before := allocated()
				requireRefused(t, cfg, test.want)
				require.Less(t, allocated()-before, uint64(32<<20))
				requireNoSecret(t, "the connection", w.sent.String(), "\x00"+alice+"\x00")
			})
		}
	})
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

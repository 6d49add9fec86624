package conn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// listen serves connections to a loopback address over TCP.
func listen(t *testing.T, address string, script func(p *peer)) (net.Listener, int32) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	require.NoError(t, err)
	ps := newPeers(t, script)
	accepting := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-accepting }) // before ps waits for those that were accepted
	go func() {
		defer close(accepting)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			ps.mu.Lock()
			p := &peer{t: t, Conn: c, number: len(ps.conns)}
			ps.conns = append(ps.conns, c)
			ps.mu.Unlock()
			ps.wg.Go(func() {
				defer c.Close()
				script(p)
			})
		}
	}()
	return ln, int32(ln.Addr().(*net.TCPAddr).Port)
}

func tcpConfig(ips ...string) *Config {
	return &Config{
		Logger:     slog.New(slog.DiscardHandler),
		LookupHost: func(context.Context, string) ([]string, error) { return ips, nil },
	}
}

// 127.0.0.2 and the like are loopback addresses on which nothing listens. B47.
func TestDialTriesAllAddresses(t *testing.T) {
	_, port := listen(t, "127.0.0.1:0", (*peer).serve)
	cfg := tcpConfig("127.0.0.2", "127.0.0.3", "127.0.0.1")
	l, err := Dial(t.Context(), cfg, 1, Addr{"Kafka.Example.", port})
	if err != nil && errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Skip("this system has no more than one loopback address: ", err)
	}
	require.NoError(t, err)
	defer l.Close()
	_, err = l.Do(t.Context(), heartbeat("m"))
	require.NoError(t, err)
}

// B47
func TestDialLeavesTimeBehindABlackHole(t *testing.T) {
	_, port := listen(t, "127.0.0.1:0", (*peer).serve)
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", portString(port)))
	if err != nil {
		t.Skip("this system has no more than one loopback address: ", err)
	}
	defer ln.Close() // accepts in the kernel, and never answers
	cfg := tcpConfig("127.0.0.2", "127.0.0.1")
	cfg.SetupTimeout = 4 * time.Second
	start := time.Now()
	l, err := Dial(t.Context(), cfg, 1, Addr{"kafka.example", port})
	require.NoError(t, err, "which it would be behind the timeout")
	defer l.Close()
	require.GreaterOrEqual(t, time.Since(start), 1600*time.Millisecond)
}

func portString(port int32) string { return Addr{"", port}.String()[1:] }

func TestDialTellsWhyEachAddressFailed(t *testing.T) {
	ln, port := listen(t, "127.0.0.1:0", func(p *peer) { p.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) })
	defer ln.Close()
	_, err := Dial(t.Context(), tcpConfig("127.0.0.2", "127.0.0.1"), 4, Addr{"kafka.example", port})
	requireOp(t, err, OpDial)
	require.ErrorContains(t, err, "broker 4 at kafka.example:")
	require.ErrorContains(t, err, "127.0.0.2: dial: ")
	require.ErrorContains(t, err, "127.0.0.1: api versions: ")
	require.ErrorContains(t, err, "HTTP")
}

// B47
func TestDialResolvesEachTime(t *testing.T) {
	_, port := listen(t, "127.0.0.1:0", (*peer).serve)
	var lookups atomic.Int32
	cfg := tcpConfig()
	cfg.LookupHost = func(_ context.Context, host string) ([]string, error) {
		if host != "kafka.example" {
			return nil, errors.New("another name: " + host)
		}
		if lookups.Add(1) == 1 {
			return nil, errors.New("no such host")
		}
		return []string{"127.0.0.1"}, nil
	}
	_, err := Dial(t.Context(), cfg, 1, Addr{"kafka.example", port})
	requireOp(t, err, OpDial)
	require.ErrorContains(t, err, "no such host")
	for range 2 {
		l, err := Dial(t.Context(), cfg, 1, Addr{"kafka.example", port})
		require.NoError(t, err)
		l.Close()
	}
	require.Equal(t, int32(3), lookups.Load())

	cfg.LookupHost = func(context.Context, string) ([]string, error) { return nil, nil }
	_, err = Dial(t.Context(), cfg, 1, Addr{"kafka.example", port})
	require.ErrorContains(t, err, "no addresses")
	l, err := Dial(t.Context(), cfg, 1, Addr{"127.0.0.1", port})
	require.NoError(t, err, "an address is not looked up")
	l.Close()
}

func TestDialOfABootstrapServerByItsCanonicalName(t *testing.T) {
	_, port := listen(t, "127.0.0.1:0", (*peer).serve)
	cfg := tcpConfig("127.0.0.1")
	cfg.CanonicalBootstrap = true
	cfg.LookupAddr = func(_ context.Context, addr string) ([]string, error) { return []string{"canonical.example."}, nil }
	for _, tt := range []struct {
		node int32
		host string
	}{{-1, "canonical.example"}, {1, "kafka.example"}} {
		l, err := Dial(t.Context(), cfg, tt.node, Addr{"kafka.example", port})
		require.NoError(t, err)
		require.Equal(t, tt.host, l.addr.Host)
		require.Equal(t, "127.0.0.1", l.raw.RemoteAddr().(*net.TCPAddr).IP.String())
		l.Close()
	}
}

func TestDialSocketOptions(t *testing.T) {
	_, port := listen(t, "127.0.0.1:0", (*peer).serve)
	cfg := tcpConfig()
	cfg.ReceiveBufferBytes, cfg.SendBufferBytes = 20_000, 30_000
	var controlled string
	cfg.Control = func(_, address string, _ syscall.RawConn) error {
		controlled = address
		return nil
	}
	addr := Addr{"127.0.0.1", port}
	l, err := Dial(t.Context(), cfg, 1, addr)
	require.NoError(t, err)
	defer l.Close()
	require.Equal(t, addr.String(), controlled)
	requireSocketOptions(t, l.raw.(*net.TCPConn), 20_000, 30_000)

	cfg.Control = func(string, string, syscall.RawConn) error { return errors.New("not allowed") }
	_, err = Dial(t.Context(), cfg, 1, addr)
	require.ErrorContains(t, err, "not allowed")
}

func TestCustomDialerGetsTheNameUnresolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeers(t, func(p *peer) {
			require.Equal(t, "broker.test:9092", p.addr)
			p.serve()
		})
		cfg := ps.config()
		cfg.LookupHost = func(context.Context, string) ([]string, error) {
			t.Error("the name was resolved")
			return nil, nil
		}
		openLink(t, cfg)
	})
}

// certificate makes a self-signed one for a name and the pool that trusts it.
func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTLS(t *testing.T) {
	cert, pool := certificate(t, "kafka.example")
	_, strangers := certificate(t, "kafka.example")
	speakTLS := func(conf *tls.Config) func(p *peer) {
		return func(p *peer) {
			conn := tls.Server(p.Conn, conf)
			if conn.Handshake() != nil {
				return
			}
			q := *p
			q.Conn = conn
			if _, err := conn.Read(nil); err == nil {
				q.serve()
			}
		}
	}
	server := speakTLS(&tls.Config{Certificates: []tls.Certificate{cert}})
	for _, tc := range []struct {
		name   string
		host   string
		client *tls.Config
		script func(p *peer)
		op     string // of the failure; "" when it works
		auth   bool   // an AuthError
		text   string
	}{
		{"a trusted certificate", "kafka.example", &tls.Config{RootCAs: pool}, server, "", false, ""},
		{"a trailing dot in the name", "kafka.example.", &tls.Config{RootCAs: pool}, server, "", false, ""},
		{"a server name of its own", "other.example", &tls.Config{RootCAs: pool, ServerName: "kafka.example"}, server, "", false, ""},
		{"another name", "other.example", &tls.Config{RootCAs: pool}, server, OpTLS, true, "other.example"},
		{"an unknown authority", "kafka.example", &tls.Config{RootCAs: strangers}, server, OpTLS, true, "unknown authority"},
		{
			"no client certificate where one is needed", "kafka.example", &tls.Config{RootCAs: pool},
			speakTLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}), OpTLS, true, "certificate",
		},
		{
			"no client certificate, TLS 1.2", "kafka.example", &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12},
			speakTLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}), OpTLS, true, "certificate",
		},
		{
			"no common version", "kafka.example", &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12},
			speakTLS(&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}), OpTLS, true, "protocol version",
		},
		{
			"a listener without TLS that closes", "kafka.example", &tls.Config{RootCAs: pool},
			func(p *peer) { io.ReadFull(p, make([]byte, 4)) }, OpTLS, false, "a listener without TLS",
		},
		{
			"a listener without TLS that answers", "kafka.example", &tls.Config{RootCAs: pool},
			func(p *peer) { p.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); p.drain() }, OpTLS, true, "does not speak TLS",
		},
		{"silence", "kafka.example", &tls.Config{RootCAs: pool}, (*peer).drain, OpTLS, false, "no usable connection within 1s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, port := listen(t, "127.0.0.1:0", tc.script)
			cfg := tcpConfig("127.0.0.1")
			if cfg.SetupTimeout = time.Minute; tc.name == "silence" {
				cfg.SetupTimeout = time.Second
			}
			cfg.TLS = func(host string) *tls.Config {
				require.Equal(t, strings.TrimSuffix(tc.host, "."), host, "certificates have no trailing dots")
				return tc.client
			}
			l, err := Dial(t.Context(), cfg, 1, Addr{tc.host, port})
			if tc.op == "" {
				require.NoError(t, err)
				defer l.Close()
				_, err = l.Do(t.Context(), heartbeat("m"))
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.text)
			if auth, ok := errors.AsType[*AuthError](err); tc.auth {
				require.True(t, ok, "%T: %v", err, err)
				require.Equal(t, tc.op, auth.Op)
				return
			}
			requireOp(t, err, tc.op)
		})
	}
}

// A plaintext client on a real TLS port fails at once, with a hint (B30).
func TestPlaintextClientOnATLSPort(t *testing.T) {
	cert, _ := certificate(t, "kafka.example")
	_, port := listen(t, "127.0.0.1:0", func(p *peer) {
		_ = tls.Server(p.Conn, &tls.Config{Certificates: []tls.Certificate{cert}}).Handshake()
	})
	_, err := Dial(t.Context(), tcpConfig("127.0.0.1"), 1, Addr{"kafka.example", port})
	requireOp(t, err, OpAPIVersions)
	require.ErrorContains(t, err, "TLS")
	require.ErrorContains(t, err, "SecurityProtocol")
}

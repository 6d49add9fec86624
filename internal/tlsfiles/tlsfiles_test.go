package tlsfiles

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker/certs"
	"github.com/stretchr/testify/require"
)

// write puts data into a file of a folder of the test's own.
func write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// touch makes a file look changed, whatever the file system's clock is.
func touch(t *testing.T, path string) {
	t.Helper()
	later := time.Now().Add(time.Duration(1+len(path)) * time.Hour)
	require.NoError(t, os.Chtimes(path, later, later))
}

// shake lets a client with the given configuration talk to a server and returns
// what each side says.
func shake(t *testing.T, client *tls.Config, server *tls.Config, host string) (clientErr, serverErr error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		raw, err := listener.Accept()
		if err == nil {
			defer raw.Close()
			conn := tls.Server(raw, server)
			// With TLS 1.3 the client hears of a refusal by the first read only.
			if err = conn.Handshake(); err == nil {
				_, err = conn.Write([]byte("x"))
			}
		}
		done <- err
	}()
	client = client.Clone()
	client.ServerName = host
	raw, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	conn := tls.Client(raw, client)
	if clientErr = conn.Handshake(); clientErr == nil {
		_, clientErr = conn.Read(make([]byte, 1))
	}
	raw.Close()
	return clientErr, <-done
}

func source(t *testing.T, f Files) *Source {
	t.Helper()
	f.Logger = slog.New(slog.DiscardHandler)
	s, err := New(f)
	require.NoError(t, err)
	return s
}

func TestVerification(t *testing.T) {
	dir := t.TempDir()
	ca, other := certs.New("ca"), certs.New("other")
	caFile := write(t, dir, "ca.pem", append([]byte("a comment\n"), ca.PEM()...))
	right, wrongName := ca.Issue([]string{"broker.test"}), ca.Issue([]string{"elsewhere.test"})
	self := certs.New("self")
	for _, tc := range []struct {
		name   string
		server *certs.Leaf
		skip   bool
		says   string // "" when it is accepted
	}{
		{"the right certificate", right, false, ""},
		{"another name", wrongName, false, "valid for elsewhere.test, not broker.test"},
		{"another name that is not checked", wrongName, true, ""},
		{"another authority", other.Issue([]string{"broker.test"}), false, "unknown authority"},
		{"another authority without the name", other.Issue([]string{"broker.test"}), true, "unknown authority"},
		{"an expired one", ca.Issue([]string{"broker.test"}, certs.Expired), false, "expired"},
		{"an expired one without the name", ca.Issue([]string{"x.test"}, certs.Expired), true, "expired"},
		{"one for clients only, without the name", ca.Issue([]string{"broker.test"}, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}), true, "incompatible key usage"},
		{"a self-signed one without the name", &certs.Leaf{Cert: self.Cert, Key: self.Key}, true, "unknown authority"},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(tc.name+", "+tls.VersionName(version), func(t *testing.T) {
				s := source(t, Files{CA: caFile, SkipHostname: tc.skip})
				server := &tls.Config{Certificates: []tls.Certificate{tc.server.TLS()}, MinVersion: version, MaxVersion: version}
				err, _ := shake(t, s.Config(), server, "broker.test")
				if tc.says == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, tc.says)
			})
		}
	}
	err, _ := shake(t, source(t, Files{CA: caFile}).Config(),
		&tls.Config{Certificates: []tls.Certificate{right.TLS()}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "broker.test")
	require.ErrorContains(t, err, "protocol version")
}

func TestClientCertificate(t *testing.T) {
	dir := t.TempDir()
	ca := certs.New("ca")
	caFile := write(t, dir, "ca.pem", ca.PEM())
	mine := ca.Issue(nil)
	both := write(t, dir, "both.pem", append(mine.KeyPEM(), mine.PEM()...))
	certFile, keyFile := write(t, dir, "cert.pem", mine.PEM()), write(t, dir, "key.pem", mine.KeyPEM())
	server := &tls.Config{
		Certificates: []tls.Certificate{ca.Issue([]string{"broker.test"}).TLS()},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	}
	for name, f := range map[string]Files{
		"two files": {CA: caFile, Cert: certFile, Key: keyFile},
		"one file":  {CA: caFile, Cert: both},
	} {
		t.Run(name, func(t *testing.T) {
			err, serverErr := shake(t, source(t, f).Config(), server, "broker.test")
			require.NoError(t, err)
			require.NoError(t, serverErr)
		})
	}
	err, _ := shake(t, source(t, Files{CA: caFile}).Config(), server, "broker.test")
	require.ErrorContains(t, err, "certificate required")
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	ca, leaf := certs.New("ca"), certs.New("ca").Issue(nil)
	caFile, certFile, keyFile := write(t, dir, "ca.pem", ca.PEM()), write(t, dir, "cert.pem", leaf.PEM()), write(t, dir, "key.pem", leaf.KeyPEM())
	otherKey := write(t, dir, "other.pem", ca.Issue(nil).KeyPEM())
	der := write(t, dir, "ca.der", ca.Cert.Raw)
	jks := write(t, dir, "store.jks", []byte{0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2})
	empty := write(t, dir, "empty.pem", nil)
	broken := write(t, dir, "broken.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no")}))
	for _, tc := range []struct {
		name  string
		files Files
		role  Role
		says  string
	}{
		{"no authorities", Files{CA: filepath.Join(dir, "none")}, RoleCA, "no such file"},
		{"a folder", Files{CA: dir}, RoleCA, "directory"},
		{"an empty file", Files{CA: empty}, RoleCA, "it is empty"},
		{"DER", Files{CA: der}, RoleCA, "looks like DER"},
		{"a Java keystore", Files{CA: jks}, RoleCA, "Java keystore"},
		{"a broken certificate", Files{CA: broken}, RoleCA, "certificate 1"},
		{"a key in place of authorities", Files{CA: keyFile}, RoleCA, "no PEM certificate"},
		{"no key", Files{Cert: certFile}, RoleCert, "no PEM private key"},
		{"a key that is not there", Files{Cert: certFile, Key: filepath.Join(dir, "none")}, RoleKey, "no such file"},
		{"another certificate's key", Files{Cert: certFile, Key: otherKey}, RoleKey, "private key does not match"},
		{"a key in place of the certificate", Files{Cert: keyFile}, RoleCert, "no PEM certificate"},
		{"a password for an open key", Files{Cert: certFile, Key: keyFile, Password: "secret"}, RolePassword, "not encrypted"},
		{"no revocation list", Files{CRL: caFile}, RoleCRL, "no PEM revocation list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := New(tc.files)
			e, ok := errors.AsType[*FileError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, tc.role, e.Role)
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "secret")
		})
	}
	_, err := New(Files{CA: empty, CRL: empty})
	require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), 2, "all faults are told at once")
}

func TestFilesThatChange(t *testing.T) {
	dir := t.TempDir()
	before, after := certs.New("before"), certs.New("after")
	caFile := write(t, dir, "ca.pem", before.PEM())
	log := new(bytes.Buffer)
	s, err := New(Files{CA: caFile, Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	accepts := func(ca *certs.Authority) bool {
		server := &tls.Config{Certificates: []tls.Certificate{ca.Issue([]string{"broker.test"}).TLS()}}
		err, _ := shake(t, s.Config(), server, "broker.test")
		return err == nil
	}
	require.True(t, accepts(before))
	require.False(t, accepts(after))

	write(t, dir, "ca.pem", after.PEM())
	touch(t, caFile)
	require.True(t, accepts(after))
	require.False(t, accepts(before))

	write(t, dir, "ca.pem", []byte("half written"))
	require.True(t, accepts(after), "what cannot be used changes nothing")
	require.True(t, accepts(after))
	require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), "and is told once")
	require.NoError(t, os.Remove(caFile))
	require.True(t, accepts(after))

	write(t, dir, "ca.pem", before.PEM())
	require.True(t, accepts(before))
}

func TestRevocation(t *testing.T) {
	dir := t.TempDir()
	ca, other := certs.New("ca"), certs.New("ca") // of the same name
	caFile := write(t, dir, "ca.pem", ca.PEM())
	good, bad := ca.Issue([]string{"broker.test"}), ca.Issue([]string{"broker.test"})
	for _, tc := range []struct {
		name   string
		crl    []byte
		server *certs.Leaf
		says   string
	}{
		{"not revoked", ca.CRL(time.Hour, bad), good, ""},
		{"revoked", ca.CRL(time.Hour, good, bad), bad, "it was revoked on"},
		{"revoked by an expired list", ca.CRL(-time.Hour, bad), bad, "it was revoked on"},
		{"an expired list", ca.CRL(-time.Hour), good, "expired"},
		{"a forged list", other.CRL(time.Hour), good, "not signed by its issuer"},
		{"a forged list that revokes", other.CRL(time.Hour, good), good, "not signed by its issuer"},
		{"a list of another issuer", certs.New("b").CRL(time.Hour), good, "no revocation list of its issuer"},
		{"several lists", append(append(other.CRL(time.Hour), ca.CRL(-time.Hour)...), ca.CRL(time.Hour)...), good, ""},
		{"revoked by one of several", append(ca.CRL(time.Hour), ca.CRL(2*time.Hour, bad)...), bad, "it was revoked on"},
	} {
		for _, skip := range []bool{false, true} {
			t.Run(tc.name, func(t *testing.T) {
				s := source(t, Files{CA: caFile, CRL: write(t, dir, "crl.pem", tc.crl), SkipHostname: skip})
				server := &tls.Config{Certificates: []tls.Certificate{tc.server.TLS()}}
				err, _ := shake(t, s.Config(), server, "broker.test")
				if tc.says == "" {
					require.NoError(t, err)
					return
				}
				_, ok := errors.AsType[*RevocationError](err)
				require.True(t, ok, "%v", err)
				require.ErrorContains(t, err, tc.says)
			})
		}
	}
	t.Run("a list that does not list all", func(t *testing.T) {
		list := &x509.RevocationList{
			Number: good.Cert.SerialNumber, ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour),
			ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 27}, Critical: true, Value: []byte{2, 1, 1}}},
		}
		der, err := x509.CreateRevocationList(rand.Reader, list, ca.Cert, ca.Key)
		require.NoError(t, err)
		_, err = New(Files{CRL: write(t, dir, "delta.pem", pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))})
		require.ErrorContains(t, err, "critical extension 2.5.29.27")
	})
}

func TestSuites(t *testing.T) {
	s, faults := ParseSuites([]string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_AES_128_GCM_SHA256"})
	require.Empty(t, faults)
	require.Equal(t, Suites{tls12: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}}, s)
	s, faults = ParseSuites(nil)
	require.Empty(t, faults)
	require.Zero(t, s)
	for name, says := range map[string]string{
		"": "empty", "HIGH": "list expressions", "ECDHE+AESGCM": "list expressions", "A:B": "list expressions", "!aNULL": "list expressions",
		"DHE-RSA-AES256-GCM-SHA384": "Go does not have it", "TLS_DHE_RSA_WITH_AES_128_CBC_SHA": "Go does not have it", "aes": "not the name",
	} {
		_, faults := ParseSuites([]string{name})
		require.Len(t, faults, 1, name)
		require.ErrorContains(t, faults[0], says)
	}
	known := map[uint16]bool{}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		known[suite.ID] = suite.SupportedVersions[0] != tls.VersionTLS13
	}
	for name, id := range openSSLNames {
		require.True(t, known[id], name)
	}
	require.Len(t, openSSLNames, func() (n int) {
		for _, chosen := range known {
			if chosen {
				n++
			}
		}
		return n
	}(), "each suite of TLS 1.2 has its OpenSSL name")
}

func TestSuitesAreOffered(t *testing.T) {
	ca := certs.New("ca")
	f := Files{CA: write(t, t.TempDir(), "ca.pem", ca.PEM())}
	offers := func(names ...string) (suites, versions []uint16) {
		f.Suites, _ = ParseSuites(names)
		server := &tls.Config{
			Certificates: []tls.Certificate{ca.Issue([]string{"broker.test"}).TLS()},
			GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				suites, versions = hello.CipherSuites, hello.SupportedVersions
				return nil, nil
			},
		}
		err, _ := shake(t, source(t, f).Config(), server, "broker.test")
		require.NoError(t, err)
		return suites, versions
	}
	const one = tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
	suites, versions := offers("ECDHE-ECDSA-AES128-GCM-SHA256")
	require.Contains(t, suites, uint16(one))
	require.NotContains(t, suites, uint16(tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384))
	require.Contains(t, suites, uint16(tls.TLS_AES_256_GCM_SHA384), "TLS 1.3 stays on")
	require.Contains(t, versions, uint16(tls.VersionTLS12))
	suites, versions = offers("TLS_AES_128_GCM_SHA256")
	require.NotContains(t, suites, uint16(one))
	require.NotContains(t, versions, uint16(tls.VersionTLS12), "nothing of TLS 1.2 was named")
}

// The forms that OpenSSL writes, made by itself where it is installed.
func TestEncryptedKeysOfOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl command")
	}
	dir := t.TempDir()
	leaf := certs.New("ca").Issue(nil)
	certFile, open := write(t, dir, "cert.pem", leaf.PEM()), write(t, dir, "open.pem", leaf.KeyPEM())
	const password = "pa ss,=wörd"
	for name, args := range map[string]string{
		"PBES2 AES-128 SHA-256": "pkcs8 -topk8 -v2 aes-128-cbc",
		"PBES2 AES-192 SHA-1":   "pkcs8 -topk8 -v2 aes-192-cbc -v2prf hmacWithSHA1",
		"PBES2 AES-256 SHA-512": "pkcs8 -topk8 -v2 aes-256-cbc -v2prf hmacWithSHA512",
		"PBES2 3DES":            "pkcs8 -topk8 -v2 des3",
		"legacy AES-256":        "ec -aes256",
		"legacy 3DES":           "ec -des3",
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(dir, "closed.pem")
			cmd := exec.Command("openssl", append(strings.Fields(args), "-in", open, "-out", out, "-passout", "pass:"+password)...)
			text, err := cmd.CombinedOutput()
			require.NoError(t, err, string(text))
			_, err = New(Files{Cert: certFile, Key: out, Password: password})
			require.NoError(t, err)
			for _, wrong := range []string{"", "pa ss", password + " "} {
				_, err = New(Files{Cert: certFile, Key: out, Password: wrong})
				e, ok := errors.AsType[*FileError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, RolePassword, e.Role, "%v", err)
				require.NotContains(t, err.Error(), "pa ss")
			}
		})
	}
	for name, args := range map[string]string{"scrypt": "pkcs8 -topk8 -scrypt", "PBES2 Camellia": "pkcs8 -topk8 -v2 camellia-128-cbc"} {
		t.Run(name+" is refused", func(t *testing.T) {
			out := filepath.Join(dir, "closed.pem")
			text, err := exec.Command("openssl", append(strings.Fields(args), "-in", open, "-out", out, "-passout", "pass:p")...).CombinedOutput()
			require.NoError(t, err, string(text))
			_, err = New(Files{Cert: certFile, Key: out, Password: "p"})
			require.ErrorContains(t, err, "converts it")
		})
	}
}

// A file may be anything.
func FuzzPrivateKey(f *testing.F) {
	leaf := certs.New("ca").Issue(nil)
	f.Add(leaf.KeyDER())
	f.Add([]byte{0x30, 0})
	f.Fuzz(func(t *testing.T, der []byte) {
		if len(der) > 4096 {
			return
		}
		_, _ = decryptPKCS8(der, "p")
		_, _ = privateKey(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: der}), "p")
	})
}

//go:build unix

// Package certs makes certificates for tests, right ones and wrong ones, as the PEM
// files that brokers and clients read.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// An Authority issues certificates.
type Authority struct {
	File string // its own certificate

	dir  string
	cert *x509.Certificate
	der  []byte
	key  *ecdsa.PrivateKey
}

// A Leaf is what a certificate is to say; the zero value of Start and End means
// that it is valid now.
type Leaf struct {
	Name       string // subject, and the files' names
	DNS        []string
	IPs        []string
	Start, End time.Time
}

// A Certificate is one with its key.
type Certificate struct {
	CertFile string // the chain
	KeyFile  string // PKCS#8
	Store    string // key and chain in one, as Kafka's PEM stores want it
	TLS      tls.Certificate
}

// New makes an authority with files in dir.
func New(t testing.TB, dir, name string) *Authority {
	t.Helper()
	a := &Authority{dir: dir, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	var err error
	a.der, err = x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	check(t, err)
	a.cert, err = x509.ParseCertificate(a.der)
	check(t, err)
	a.File = write(t, dir, name+".crt", block("CERTIFICATE", a.der))
	return a
}

// Issue makes a certificate for servers and clients.
func (a *Authority) Issue(t testing.TB, l Leaf) Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: l.Name}, DNSNames: l.DNS,
		NotBefore: l.Start, NotAfter: l.End, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if l.Start.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if l.End.IsZero() {
		template.NotAfter = time.Now().Add(12 * time.Hour)
	}
	for _, ip := range l.IPs {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	check(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	chain := append(block("CERTIFICATE", der), block("CERTIFICATE", a.der)...)
	keyPEM := block("PRIVATE KEY", pkcs8)
	return Certificate{
		CertFile: write(t, a.dir, l.Name+".crt", chain),
		KeyFile:  write(t, a.dir, l.Name+".key", keyPEM),
		Store:    write(t, a.dir, l.Name+".pem", append(keyPEM, chain...)),
		TLS:      tls.Certificate{Certificate: [][]byte{der, a.der}, PrivateKey: key},
	}
}

// Pool holds the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Encrypted gives the key in a file encrypted by openssl: as PKCS#8, or in the
// legacy form of PEM.
func (c Certificate) Encrypted(t testing.TB, password string, legacy bool) string {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		proc.Missing(t, "encrypted keys need openssl")
	}
	out := c.KeyFile + ".pkcs8"
	args := []string{"pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", c.KeyFile, "-out", out, "-passout", "pass:" + password}
	if legacy {
		out = c.KeyFile + ".legacy"
		args = []string{"ec", "-aes256", "-in", c.KeyFile, "-out", out, "-passout", "pass:" + password}
	}
	check(t, proc.Run(append([]string{"openssl"}, args...)...))
	return out
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	check(t, err)
	return n
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func write(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	check(t, os.WriteFile(file, content, 0o600))
	return file
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

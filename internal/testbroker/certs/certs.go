// Package certs makes certificates and revocation lists for tests.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// An Authority signs certificates.
type Authority struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// A Leaf is a certificate that an Authority signed, with its key.
type Leaf struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// must is for what fails only when the test itself is wrong.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("certs: %v", err))
	}
	return v
}

func newKey() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

func serial() *big.Int { return must(rand.Int(rand.Reader, big.NewInt(1<<62))) }

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	der := must(x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey))
	return must(x509.ParseCertificate(der))
}

// New makes an authority that holds from an hour ago for a year.
func New(name string) *Authority {
	key := newKey()
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return &Authority{sign(template, template, key, key), key}
}

// Issue makes a certificate for server and client use, for host names and IP
// addresses. It holds from an hour ago for ten days; edits may change that.
func (a *Authority) Issue(hosts []string, edits ...func(*x509.Certificate)) *Leaf {
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "leaf"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, 10),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	for _, edit := range edits {
		edit(template)
	}
	key := newKey()
	return &Leaf{sign(template, a.Cert, key, a.Key), key}
}

// Expired is an edit of Issue: the certificate ended an hour ago.
func Expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-time.Hour)
}

// CRL makes the PEM of a revocation list that begins now and ends after d, which
// may be negative.
func (a *Authority) CRL(d time.Duration, revoked ...*Leaf) []byte {
	now := time.Now()
	list := &x509.RevocationList{Number: serial(), ThisUpdate: now.Add(-time.Hour), NextUpdate: now.Add(d)}
	if d < 0 {
		list.ThisUpdate = now.Add(2 * d)
	}
	for _, leaf := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: leaf.Cert.SerialNumber, RevocationTime: now.Add(-time.Minute)})
	}
	return encode("X509 CRL", must(x509.CreateRevocationList(rand.Reader, list, a.Cert, a.Key)))
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte { return encode("CERTIFICATE", a.Cert.Raw) }

// Pool returns the authority as what is trusted.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Cert)
	return pool
}

// PEM returns the certificate.
func (l *Leaf) PEM() []byte { return encode("CERTIFICATE", l.Cert.Raw) }

// KeyDER returns the key by PKCS #8.
func (l *Leaf) KeyDER() []byte { return must(x509.MarshalPKCS8PrivateKey(l.Key)) }

// KeyPEM returns the key by PKCS #8, not encrypted.
func (l *Leaf) KeyPEM() []byte { return encode("PRIVATE KEY", l.KeyDER()) }

// TLS returns the certificate as crypto/tls wants it.
func (l *Leaf) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{l.Cert.Raw}, PrivateKey: l.Key, Leaf: l.Cert}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

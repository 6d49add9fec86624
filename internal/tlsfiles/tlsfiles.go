// Package tlsfiles makes TLS configurations of PEM files: authorities, a client
// certificate with its key, and certificate revocation lists. The files are
// looked at for each new connection and read again when they changed.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// Files says what to make a configuration of. An empty name means none: the
// system's authorities, no certificate, no revocation list.
type Files struct {
	CA, Cert, Key, CRL string
	// Inline holds PEM in place of files: what is there for a role counts, and its
	// file is not looked at.
	Inline map[Role][]byte
	// Password decrypts Key.
	Password string
	// SkipHostname leaves the name in the server's certificate unchecked.
	SkipHostname bool
	// Suites are from ParseSuites.
	Suites Suites
	// Logger is told when files that changed cannot be used. Nil:
	// slog.Default().
	Logger *slog.Logger
}

// A Role is which file an error is about.
type Role string

// The roles.
const (
	RoleCA   Role = "CA"
	RoleCert Role = "Cert"
	RoleKey  Role = "Key"
	RoleCRL  Role = "CRL"
	// RolePassword is when the key cannot be decrypted with the password.
	RolePassword Role = "Password"
)

// A FileError says why a file cannot be used. It holds nothing of its content.
type FileError struct {
	Role Role
	Name string // "" for what is inline
	Err  error
}

// Error names the file and what is wrong.
func (e *FileError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s: %v", e.Role, e.Err)
	}
	return fmt.Sprintf("%s file %q: %v", e.Role, e.Name, e.Err)
}

// Unwrap returns what is wrong.
func (e *FileError) Unwrap() error { return e.Err }

// A Source gives a configuration for each new connection. Its methods may be
// called from any goroutine.
type Source struct {
	files Files
	state atomic.Pointer[state]
}

// state is what was read last and what the files looked like then. It is not
// changed once it is stored.
type state struct {
	stamps [4]stamp
	roots  *x509.CertPool // nil: the system's
	cert   *tls.Certificate
	crls   *revocations // nil: none
}

// stamp tells whether a file changed.
type stamp struct {
	modified time.Time
	size     int64
}

// New reads the files, all of which must be good. The error joins a *FileError
// for each one at fault.
func New(files Files) (*Source, error) {
	if files.Logger == nil {
		files.Logger = slog.Default()
	}
	s := &Source{files: files}
	// The stamps come first: a change while the files are read is seen later.
	st := &state{stamps: s.stamps()}
	if err := st.read(&s.files); err != nil {
		return nil, err
	}
	s.state.Store(st)
	return s, nil
}

func (s *Source) stamps() (out [4]stamp) {
	for i, name := range []string{s.files.CA, s.files.Cert, s.files.Key, s.files.CRL} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(name); err == nil {
			out[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return out
}

func (st *state) read(f *Files) error {
	var faults []error
	note := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	var err error
	st.roots, err = readRoots(f.input(RoleCA, f.CA))
	note(err)
	st.cert, err = readCertificate(f.input(RoleCert, f.Cert), f.input(RoleKey, f.Key), f.Password)
	note(err)
	st.crls, err = readRevocations(f.input(RoleCRL, f.CRL))
	note(err)
	return errors.Join(faults...)
}

// current returns what the files hold now. Files that changed and cannot be
// used, such as a certificate whose new key is not there yet, leave what they
// held before in force.
func (s *Source) current() *state {
	old, stamps := s.state.Load(), s.stamps()
	if stamps == old.stamps {
		return old
	}
	next := &state{stamps: stamps}
	if err := next.read(&s.files); err != nil {
		kept := *old
		kept.stamps = stamps // told once, and read again after the next change
		next = &kept
		if s.state.CompareAndSwap(old, next) {
			s.files.Logger.Warn("kafka: TLS files changed and cannot be used, what they held before stays in force", "error", err)
		}
		return next
	}
	if s.state.CompareAndSwap(old, next) {
		s.files.Logger.Info("kafka: TLS files changed and were read again")
	}
	return next
}

// Config returns a configuration for one new connection. Its ServerName is left
// for the caller to set.
func (s *Source) Config() *tls.Config {
	st := s.current()
	c := &tls.Config{
		RootCAs:      st.roots,
		MinVersion:   tls.VersionTLS12,
		CipherSuites: s.files.Suites.tls12,
	}
	if s.files.Suites.only13 {
		c.MinVersion = tls.VersionTLS13
	}
	if st.cert != nil {
		// It is sent whatever authorities the server hints at: a refusal that
		// names it says more than one for want of a certificate.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return st.cert, nil }
	}
	if s.files.SkipHostname {
		// The chain is verified below, in place of crypto/tls.
		c.InsecureSkipVerify = true
	}
	if s.files.SkipHostname || st.crls != nil {
		c.VerifyConnection = func(cs tls.ConnectionState) error { return st.verify(cs, time.Now()) }
	}
	return c
}

// verify checks the server's chain if crypto/tls did not, and its certificate
// against the revocation lists.
func (st *state) verify(cs tls.ConnectionState, now time.Time) error {
	if len(cs.PeerCertificates) == 0 {
		return errors.New("the server has no certificate")
	}
	leaf, chains := cs.PeerCertificates[0], cs.VerifiedChains
	if len(chains) == 0 {
		options := x509.VerifyOptions{Roots: st.roots, CurrentTime: now, Intermediates: x509.NewCertPool()}
		for _, c := range cs.PeerCertificates[1:] {
			options.Intermediates.AddCert(c)
		}
		var err error
		if chains, err = leaf.Verify(options); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: cs.PeerCertificates, Err: err}
		}
	}
	if st.crls == nil {
		return nil
	}
	return st.crls.check(chains, now)
}

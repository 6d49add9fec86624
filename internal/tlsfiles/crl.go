package tlsfiles

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// revocations are certificate revocation lists (RFC 5280).
type revocations struct{ lists []*x509.RevocationList }

func readRevocations(in input) (*revocations, error) {
	if in.none() {
		return nil, nil
	}
	name := in.name
	data, err := in.read()
	if err != nil {
		return nil, err
	}
	r := new(revocations)
	for _, block := range blocks(data) {
		if block.Type != "X509 CRL" {
			continue
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, &FileError{RoleCRL, name, fmt.Errorf("list %d: %w", len(r.lists)+1, err)}
		}
		for _, ext := range list.Extensions {
			if ext.Critical {
				return nil, &FileError{RoleCRL, name, fmt.Errorf(
					"list %d has the critical extension %v, so it may not list all that is revoked; a complete list is needed", len(r.lists)+1, ext.Id)}
			}
		}
		r.lists = append(r.lists, list)
	}
	if len(r.lists) == 0 {
		return nil, &FileError{RoleCRL, name, errors.New("there is no PEM revocation list in it" + notPEM(data))}
	}
	return r, nil
}

// A RevocationError says why the revocation lists do not let a server's
// certificate pass.
type RevocationError struct {
	Serial string
	Issuer string
	Reason string
}

// Error names the certificate by its serial number and issuer.
func (e *RevocationError) Error() string {
	return fmt.Sprintf("certificate with serial number %s of issuer %q: %s", e.Serial, e.Issuer, e.Reason)
}

// check lets a certificate pass that is not revoked by any list of its issuer,
// when there is a list which its issuer signed and which is in force.
func (r *revocations) check(chains [][]*x509.Certificate, now time.Time) error {
	var err error
	for _, chain := range chains {
		leaf, issuer := chain[0], chain[0]
		if len(chain) > 1 {
			issuer = chain[1]
		}
		reason, revoked := r.judge(leaf, issuer, now)
		if reason == "" {
			return nil
		}
		fault := &RevocationError{Serial: fmt.Sprintf("%x", leaf.SerialNumber), Issuer: leaf.Issuer.String(), Reason: reason}
		if revoked {
			return fault
		}
		err = fault
	}
	return err
}

// judge returns what is wrong with leaf, "" if nothing, and whether it is
// revoked beyond doubt.
func (r *revocations) judge(leaf, issuer *x509.Certificate, now time.Time) (reason string, revoked bool) {
	reason = "there is no revocation list of its issuer"
	good := false
	for _, list := range r.lists {
		if !bytes.Equal(list.RawIssuer, leaf.RawIssuer) {
			continue
		}
		if list.CheckSignatureFrom(issuer) != nil {
			reason = "the revocation list was not signed by its issuer"
			continue
		}
		for _, entry := range list.RevokedCertificateEntries {
			if entry.SerialNumber.Cmp(leaf.SerialNumber) == 0 {
				return fmt.Sprintf("it was revoked on %s", entry.RevocationTime.UTC().Format(time.DateOnly)), true
			}
		}
		switch {
		case now.Before(list.ThisUpdate):
			reason = fmt.Sprintf("the revocation list begins at %s only", list.ThisUpdate.UTC().Format(time.RFC3339))
		case list.NextUpdate.IsZero():
			reason = "the revocation list does not say until when it holds"
		case now.After(list.NextUpdate):
			reason = fmt.Sprintf("the revocation list expired at %s", list.NextUpdate.UTC().Format(time.RFC3339))
		default:
			good = true
		}
	}
	if good {
		reason = ""
	}
	return reason, false
}

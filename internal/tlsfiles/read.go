package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// maxFile bounds what is read of a file, so that a wrong name such as that of a
// device does not fill the memory. The system's bundles have some 250 KiB.
const maxFile = 32 << 20

// An input is a file, or PEM in its place.
type input struct {
	role   Role
	name   string
	inline []byte
}

func (f *Files) input(role Role, name string) input {
	if inline := f.Inline[role]; len(inline) > 0 {
		return input{role: role, inline: inline}
	}
	return input{role: role, name: name}
}

func (in input) none() bool { return in.name == "" && in.inline == nil }

func (in input) read() ([]byte, error) {
	if in.inline != nil {
		return in.inline, nil
	}
	return readFile(in.role, in.name)
}

func readFile(role Role, name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		err = errors.New("it is a directory")
	}
	if err == nil && info.Size() > maxFile {
		err = fmt.Errorf("it has %d bytes, more than the %d allowed", info.Size(), maxFile)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err // the name stands in the FileError
		}
		return nil, &FileError{role, name, err}
	}
	return data, nil
}

// blocks returns the PEM blocks of data.
func blocks(data []byte) (list []*pem.Block) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return list
		}
		list = append(list, block)
	}
}

func readRoots(in input) (*x509.CertPool, error) {
	if in.none() {
		return nil, nil
	}
	name := in.name
	data, err := in.read()
	if err != nil {
		return nil, err
	}
	pool, n := x509.NewCertPool(), 0
	for _, block := range blocks(data) {
		if block.Type != "CERTIFICATE" && block.Type != "TRUSTED CERTIFICATE" {
			continue
		}
		n++
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, &FileError{RoleCA, name, fmt.Errorf("certificate %d: %w", n, err)}
		}
		pool.AddCert(cert)
	}
	if n == 0 {
		return nil, &FileError{RoleCA, name, errors.New("there is no PEM certificate in it" + notPEM(data))}
	}
	return pool, nil
}

// notPEM guesses what a file is instead.
func notPEM(data []byte) string {
	switch {
	case len(data) == 0:
		return "; it is empty"
	case bytes.HasPrefix(data, []byte{0xfe, 0xed, 0xfe, 0xed}):
		return "; it is a Java keystore (keytool -list -rfc shows its certificates as PEM)"
	case data[0] == 0x30:
		return "; it looks like DER or PKCS#12 (openssl turns it into PEM)"
	}
	return ""
}

// readCertificate reads a client's chain and key, which may be in one file: there is
// then no key.
func readCertificate(cert, key input, password string) (*tls.Certificate, error) {
	if cert.none() {
		return nil, nil
	}
	chain, err := cert.read()
	if err != nil {
		return nil, err
	}
	if !hasBlock(chain, func(kind string) bool { return kind == "CERTIFICATE" }) {
		return nil, &FileError{RoleCert, cert.name, errors.New("there is no PEM certificate in it" + notPEM(chain))}
	}
	keys := chain
	if key.none() {
		key = cert
	} else if keys, err = key.read(); err != nil {
		return nil, err
	}
	der, err := privateKey(keys, password)
	switch {
	case errors.Is(err, errPassword):
		return nil, &FileError{RolePassword, key.name, err}
	case err != nil:
		return nil, &FileError{key.role, key.name, err}
	}
	pair, err := tls.X509KeyPair(chain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		if cert.name != "" {
			err = fmt.Errorf("with the certificate in %q: %w", cert.name, err)
		}
		return nil, &FileError{key.role, key.name, err}
	}
	return &pair, nil
}

func isKey(kind string) bool { return kind == "PRIVATE KEY" || strings.HasSuffix(kind, " PRIVATE KEY") }

func hasBlock(data []byte, wanted func(kind string) bool) bool {
	for _, block := range blocks(data) {
		if wanted(block.Type) {
			return true
		}
	}
	return false
}

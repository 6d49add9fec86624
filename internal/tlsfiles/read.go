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

func readRoots(name string) (*x509.CertPool, error) {
	if name == "" {
		return nil, nil
	}
	data, err := readFile(RoleCA, name)
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

// readCertificate reads a client's chain and key, which may be in one file: key
// is then "".
func readCertificate(cert, key, password string) (*tls.Certificate, error) {
	if cert == "" {
		return nil, nil
	}
	chain, err := readFile(RoleCert, cert)
	if err != nil {
		return nil, err
	}
	if !hasBlock(chain, func(kind string) bool { return kind == "CERTIFICATE" }) {
		return nil, &FileError{RoleCert, cert, errors.New("there is no PEM certificate in it" + notPEM(chain))}
	}
	keys, keyRole := chain, RoleCert
	if key == "" {
		key = cert
	} else {
		keyRole = RoleKey
		if keys, err = readFile(RoleKey, key); err != nil {
			return nil, err
		}
	}
	der, err := privateKey(keys, password)
	switch {
	case errors.Is(err, errPassword):
		return nil, &FileError{RolePassword, key, err}
	case err != nil:
		return nil, &FileError{keyRole, key, err}
	}
	pair, err := tls.X509KeyPair(chain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		return nil, &FileError{keyRole, key, fmt.Errorf("with the certificate in %q: %w", cert, err)}
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

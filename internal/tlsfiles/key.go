package tlsfiles

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
)

// errPassword is why an encrypted key stays closed.
var errPassword = errors.New("the password does not open the private key")

const convertHint = `(openssl pkcs8 -topk8 -v2 aes-256-cbc converts it)`

// privateKey returns the first private key of a PEM file, decrypted.
func privateKey(data []byte, password string) (der []byte, err error) {
	for _, block := range blocks(data) {
		if !isKey(block.Type) {
			continue
		}
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY":
			return decryptPKCS8(block.Bytes, password)
		case block.Headers["DEK-Info"] != "":
			return decryptLegacy(block, password)
		case password != "":
			return nil, fmt.Errorf("%w: the key is not encrypted, leave the password out", errPassword)
		}
		return block.Bytes, nil
	}
	return nil, errors.New("there is no PEM private key in it" + notPEM(data))
}

// decryptLegacy opens the form of "Proc-Type: 4,ENCRYPTED" (RFC 1423).
func decryptLegacy(block *pem.Block, password string) ([]byte, error) {
	if password == "" {
		return nil, fmt.Errorf("%w: the key is encrypted and there is no password", errPassword)
	}
	//lint:ignore SA1019 the form is weak, but such files exist, and who holds the file and the password holds the key
	der, err := x509.DecryptPEMBlock(block, []byte(password))
	if errors.Is(err, x509.IncorrectPasswordError) || err == nil && !isDER(der) {
		return nil, fmt.Errorf("%w: it is wrong", errPassword)
	}
	return der, err
}

// isDER catches the wrong passwords, one in some 250, whose result has a valid
// padding.
func isDER(b []byte) bool {
	var value asn1.RawValue
	rest, err := asn1.Unmarshal(b, &value)
	return err == nil && len(rest) == 0 && value.Tag == asn1.TagSequence
}

// The structures of PKCS #8 and of PBES2 (RFC 5208, RFC 8018).
type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

type pbes2Parameters struct {
	KDF    pkix.AlgorithmIdentifier
	Cipher pkix.AlgorithmIdentifier
}

type pbkdf2Parameters struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

// prfs are the functions of PBKDF2 by their OID.
var prfs = map[string]func() hash.Hash{
	"":                    sha1.New, // the default
	"1.2.840.113549.2.7":  sha1.New,
	"1.2.840.113549.2.8":  sha256.New224,
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
}

type blockCipher struct {
	keyLength int
	new       func(key []byte) (cipher.Block, error)
}

// ciphers are the block ciphers, all of them with CBC, by their OID.
var ciphers = map[string]blockCipher{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

// maxKeyIterations bounds the time that a file can cost; openssl uses 2048.
const maxKeyIterations = 2_000_000

// decryptPKCS8 opens an EncryptedPrivateKeyInfo by PBES2.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	if password == "" {
		return nil, fmt.Errorf("%w: the key is encrypted and there is no password", errPassword)
	}
	var key encryptedKey
	if !unmarshal(der, &key) {
		return nil, errors.New("the encrypted private key is malformed")
	}
	if !key.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, fmt.Errorf("the key is encrypted by algorithm %v, only PBES2 is supported %s", key.Algorithm.Algorithm, convertHint)
	}
	var scheme pbes2Parameters
	if !unmarshal(key.Algorithm.Parameters.FullBytes, &scheme) {
		return nil, errors.New("the parameters of PBES2 are malformed")
	}
	c, ok := ciphers[scheme.Cipher.Algorithm.String()]
	if !ok {
		return nil, fmt.Errorf("the key is encrypted by cipher %v, which is not supported %s", scheme.Cipher.Algorithm, convertHint)
	}
	derived, err := deriveKey(scheme.KDF, password, c.keyLength)
	if err != nil {
		return nil, err
	}
	block, err := c.new(derived)
	if err != nil {
		return nil, err
	}
	var iv []byte
	if !unmarshal(scheme.Cipher.Parameters.FullBytes, &iv) || len(iv) != block.BlockSize() ||
		len(key.Data) == 0 || len(key.Data)%block.BlockSize() != 0 {
		return nil, errors.New("the encrypted private key is malformed")
	}
	plain := make([]byte, len(key.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, key.Data)
	if plain, ok = unpad(plain, block.BlockSize()); !ok || !isDER(plain) {
		return nil, fmt.Errorf("%w: it is wrong", errPassword)
	}
	return plain, nil
}

func deriveKey(kdf pkix.AlgorithmIdentifier, password string, length int) ([]byte, error) {
	if !kdf.Algorithm.Equal(oidPBKDF2) {
		return nil, fmt.Errorf("the key is encrypted with key derivation %v, only PBKDF2 is supported %s", kdf.Algorithm, convertHint)
	}
	var p pbkdf2Parameters
	if !unmarshal(kdf.Parameters.FullBytes, &p) || p.KeyLength != 0 && p.KeyLength != length {
		return nil, errors.New("the parameters of PBKDF2 are malformed")
	}
	prf, ok := prfs[p.PRF.Algorithm.String()]
	if !ok {
		return nil, fmt.Errorf("the key is encrypted with PBKDF2 by function %v, which is not supported %s", p.PRF.Algorithm, convertHint)
	}
	if p.Iterations < 1 || p.Iterations > maxKeyIterations {
		return nil, fmt.Errorf("the key asks for %d iterations, allowed are 1 to %d", p.Iterations, maxKeyIterations)
	}
	return pbkdf2.Key(prf, password, p.Salt, p.Iterations, length)
}

func unmarshal(der []byte, into any) bool {
	rest, err := asn1.Unmarshal(der, into)
	return err == nil && len(rest) == 0
}

// unpad takes off the padding of RFC 8018, section 6.1.1.
func unpad(b []byte, size int) ([]byte, bool) {
	n := int(b[len(b)-1])
	if n == 0 || n > size || n > len(b) {
		return nil, false
	}
	for _, c := range b[len(b)-n:] {
		if int(c) != n {
			return nil, false
		}
	}
	return b[:len(b)-n], true
}

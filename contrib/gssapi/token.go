package gssapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/crypto/etype"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/types"
)

// maxToken bounds what a broker may send. Its tokens are of some hundred bytes.
const maxToken = 64 << 10

// The kinds of tokens of context establishment (RFC 4121, section 4.1).
const (
	tokenAPReq = 0x0100
	tokenAPRep = 0x0200
	tokenError = 0x0300
)

// oidKerberos is the object identifier 1.2.840.113554.1.2.2 in DER.
var oidKerberos = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}

var errFraming = errors.New("the broker's token is not one of Kerberos")

// frame puts a message of Kerberos into the framing of the first tokens (RFC 2743,
// section 3.1).
func frame(kind uint16, message []byte) []byte {
	n := len(oidKerberos) + 2 + len(message)
	out := append([]byte{0x60}, derLength(n)...)
	out = append(out, oidKerberos...)
	out = binary.BigEndian.AppendUint16(out, kind)
	return append(out, message...)
}

func derLength(n int) []byte {
	switch {
	case n < 0x80:
		return []byte{byte(n)}
	case n < 1<<8:
		return []byte{0x81, byte(n)}
	case n < 1<<16:
		return []byte{0x82, byte(n >> 8), byte(n)}
	}
	return []byte{0x83, byte(n >> 16), byte(n >> 8), byte(n)}
}

// unframe is the reverse of frame.
func unframe(token []byte) (kind uint16, message []byte, err error) {
	if len(token) < 2 || token[0] != 0x60 {
		return 0, nil, errFraming
	}
	n, rest := int(token[1]), token[2:]
	if n >= 0x80 {
		size := n & 0x7f
		if size == 0 || size > 3 || size > len(rest) {
			return 0, nil, errFraming
		}
		n = 0
		for _, b := range rest[:size] {
			n = n<<8 | int(b)
		}
		rest = rest[size:]
	}
	if n != len(rest) || !bytes.HasPrefix(rest, oidKerberos) || n < len(oidKerberos)+2 {
		return 0, nil, errFraming
	}
	rest = rest[len(oidKerberos):]
	return binary.BigEndian.Uint16(rest), rest[2:], nil
}

// Flags of a wrap token (RFC 4121, section 4.2.2).
const (
	flagAcceptor = 1 << iota
	flagSealed
	flagAcceptorSubkey
)

const wrapHeader = 16

// wrap signs a message, without encrypting it (RFC 4121, section 4.2.6.2).
func wrap(key types.EncryptionKey, usage uint32, flags byte, sequence uint64, message []byte) ([]byte, error) {
	e, err := aes(key)
	if err != nil {
		return nil, err
	}
	sum, err := checksum(e, key, usage, flags, sequence, message)
	if err != nil {
		return nil, err
	}
	out := header(flags, uint16(len(sum)), sequence)
	out = append(out, message...)
	return append(out, sum...), nil
}

func header(flags byte, checksumBytes uint16, sequence uint64) []byte {
	out := []byte{0x05, 0x04, flags, 0xff}
	out = binary.BigEndian.AppendUint16(out, checksumBytes)
	out = binary.BigEndian.AppendUint16(out, 0) // not rotated
	return binary.BigEndian.AppendUint64(out, sequence)
}

// checksum is over the message and the header, whose two counts are zero for it.
func checksum(e etype.EType, key types.EncryptionKey, usage uint32, flags byte, sequence uint64, message []byte) ([]byte, error) {
	signed := append(bytes.Clone(message), header(flags, 0, sequence)...)
	return e.GetChecksumHash(key.KeyValue, signed, usage)
}

// unwrap checks the acceptor's signature and returns the message. key gives the key
// for the flags of the token.
func unwrap(token []byte, usage uint32, key func(subkey bool) (types.EncryptionKey, error)) ([]byte, error) {
	if len(token) < wrapHeader || token[0] != 0x05 || token[1] != 0x04 || token[3] != 0xff {
		return nil, errors.New("the broker's token is not a wrap token of RFC 4121")
	}
	flags := token[2]
	if flags&flagAcceptor == 0 {
		return nil, errors.New("the broker's wrap token is not one of an acceptor")
	}
	if flags&flagSealed != 0 {
		return nil, errors.New("the broker's wrap token is encrypted, which RFC 4752 does not allow here")
	}
	k, err := key(flags&flagAcceptorSubkey != 0)
	if err != nil {
		return nil, err
	}
	e, err := aes(k)
	if err != nil {
		return nil, err
	}
	sumBytes := int(binary.BigEndian.Uint16(token[4:]))
	rotation := int(binary.BigEndian.Uint16(token[6:]))
	body := token[wrapHeader:]
	if sumBytes != e.GetHMACBitLength()/8 || sumBytes > len(body) {
		return nil, errors.New("the checksum of the broker's wrap token has a wrong length")
	}
	rotation %= len(body)
	body = append(bytes.Clone(body[rotation:]), body[:rotation]...)
	message, sum := body[:len(body)-sumBytes], body[len(body)-sumBytes:]
	want, err := checksum(e, k, usage, flags, binary.BigEndian.Uint64(token[8:]), message)
	if err != nil {
		return nil, err
	}
	if !equal(sum, want) {
		return nil, errors.New("the signature of the broker's wrap token is wrong")
	}
	return message, nil
}

// keyBytes has the encryption types that tokens of RFC 4121 are made with, those
// with AES, and the length of their keys.
var keyBytes = map[int32]int{
	etypeID.AES128_CTS_HMAC_SHA1_96:    16,
	etypeID.AES256_CTS_HMAC_SHA1_96:    32,
	etypeID.AES128_CTS_HMAC_SHA256_128: 16,
	etypeID.AES256_CTS_HMAC_SHA384_192: 32,
}

// aes gives the encryption type of a key.
func aes(key types.EncryptionKey) (etype.EType, error) {
	size, ok := keyBytes[key.KeyType]
	if !ok {
		return nil, fmt.Errorf("encryption type %d is not supported, those with AES are", key.KeyType)
	}
	if len(key.KeyValue) != size {
		return nil, fmt.Errorf("a key of encryption type %d has %d bytes", key.KeyType, len(key.KeyValue))
	}
	return crypto.GetEtype(key.KeyType)
}

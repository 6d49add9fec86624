package gssapi

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Flags of the context that is asked for (RFC 4121, section 4.1.1.1).
const (
	contextMutual    = 2
	contextIntegrity = 32
)

// noProtection is the bit for "no security layer" (RFC 4752, section 3.3).
const noProtection = 1

// A session is one exchange: present the ticket, check the broker's proof, answer
// its offer of security layers.
//
//	client                       broker
//	AP-REQ                 →
//	                       ←     AP-REP
//	empty                  →
//	                       ←     wrapped: layers and maximum size
//	wrapped: no protection →
type session struct {
	next     func(token []byte) (answer []byte, done bool, err error) // what the next token is for
	accepted func()                                                   // called once, when the broker has proved itself

	key      types.EncryptionKey // of the ticket
	subkey   types.EncryptionKey // of the broker; KeyType 0: none
	time     time.Time           // of the authenticator
	micros   int
	sequence uint64
}

func newSession(t *ticket, accepted func()) (*session, []byte, error) {
	if _, err := aes(t.key); err != nil {
		return nil, nil, err
	}
	auth, err := types.NewAuthenticator(t.realm, t.client)
	if err != nil {
		return nil, nil, err
	}
	sum := make([]byte, 24) // the flags come after the hash of channel bindings, which is zero for none
	binary.LittleEndian.PutUint32(sum, 16)
	binary.LittleEndian.PutUint32(sum[20:], contextMutual|contextIntegrity)
	auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: sum}
	req, err := messages.NewAPReq(t.ticket, t.key, auth)
	if err != nil {
		return nil, nil, err
	}
	types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
	message, err := req.Marshal()
	if err != nil {
		return nil, nil, err
	}
	s := &session{
		accepted: accepted, key: t.key, time: auth.CTime, micros: auth.Cusec, sequence: uint64(auth.SeqNumber),
	}
	s.next = s.proof
	return s, frame(tokenAPReq, message), nil
}

// Next takes the broker's next token. The last answer has no reply of its own: a
// broker that reads raw tokens sends nothing after it.
func (s *session) Next(_ context.Context, server []byte) (answer []byte, done bool, err error) {
	if len(server) > maxToken {
		err = fmt.Errorf("the broker's token has %d bytes, more than the %d allowed", len(server), maxToken)
	} else {
		answer, done, err = s.next(server)
	}
	if err != nil {
		s.next = s.over
		return nil, false, fmt.Errorf("gssapi: %w", err)
	}
	return answer, done, nil
}

func (s *session) over([]byte) ([]byte, bool, error) {
	return nil, false, errors.New("a token of the broker after the end of the exchange")
}

// proof takes the AP-REP, by which the broker shows that it could read the ticket.
func (s *session) proof(token []byte) ([]byte, bool, error) {
	kind, message, err := unframe(token)
	if err != nil {
		return nil, false, err
	}
	switch kind {
	case tokenAPRep:
	case tokenError:
		var refusal messages.KRBError
		if err := refusal.Unmarshal(message); err != nil {
			return nil, false, errFraming
		}
		return nil, false, fmt.Errorf("the broker refuses the ticket: %w", refusal)
	default:
		return nil, false, errFraming
	}
	part, err := s.decryptProof(message)
	if err != nil {
		return nil, false, err
	}
	if part.CTime.Unix() != s.time.Unix() || part.Cusec != s.micros {
		return nil, false, errors.New("the broker's proof is not for this exchange")
	}
	if part.Subkey.KeyType != 0 {
		if _, err := aes(part.Subkey); err != nil {
			return nil, false, err
		}
		s.subkey = part.Subkey
	}
	s.accepted()
	s.next = s.layers
	return []byte{}, false, nil
}

func (s *session) decryptProof(message []byte) (part messages.EncAPRepPart, err error) {
	var rep messages.APRep
	if err := rep.Unmarshal(message); err != nil {
		return part, fmt.Errorf("the broker's proof: %w", err)
	}
	e, err := aes(s.key)
	if err != nil {
		return part, err
	}
	// The library slices without a look at the length.
	if len(rep.EncPart.Cipher) < e.GetConfounderByteSize()+e.GetHMACBitLength()/8 {
		return part, errors.New("the broker's proof is too short")
	}
	plain, err := crypto.DecryptEncPart(rep.EncPart, s.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return part, fmt.Errorf("the broker's proof: %w", err)
	}
	return part, part.Unmarshal(plain)
}

// layers takes the offer of security layers and asks for none. No authorization
// identity is sent, which means the one of the ticket.
func (s *session) layers(token []byte) ([]byte, bool, error) {
	offer, err := unwrap(token, keyusage.GSSAPI_ACCEPTOR_SEAL, s.keyFor)
	if err != nil {
		return nil, false, err
	}
	if len(offer) != 4 {
		return nil, false, fmt.Errorf("the broker's offer of security layers has %d bytes instead of 4", len(offer))
	}
	// With no layer at all the size must be zero, says RFC 4752; Java sends 65536.
	if offer[0]&noProtection == 0 {
		return nil, false, fmt.Errorf("the broker insists on a security layer (offer %#02x), which Kafka does not have", offer[0])
	}
	key, flags := s.key, byte(0)
	if s.subkey.KeyType != 0 {
		key, flags = s.subkey, flagAcceptorSubkey
	}
	answer, err := wrap(key, keyusage.GSSAPI_INITIATOR_SEAL, flags, s.sequence, []byte{noProtection, 0, 0, 0})
	if err != nil {
		return nil, false, err
	}
	s.next = s.over
	return answer, true, nil
}

func (s *session) keyFor(subkey bool) (types.EncryptionKey, error) {
	if !subkey {
		return s.key, nil
	}
	if s.subkey.KeyType == 0 {
		return s.key, errors.New("the broker's wrap token has a key that was not agreed on")
	}
	return s.subkey, nil
}

func equal(a, b []byte) bool { return hmac.Equal(a, b) }

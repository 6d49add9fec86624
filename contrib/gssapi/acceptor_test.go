package gssapi

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"
)

const (
	testRealm = "TEST.EXAMPLE"
	testSPN   = "kafka/broker.test"
)

// An issuer stands for the KDC: it knows the service's key.
type issuer struct {
	keytab *keytab.Keytab
	etype  int32
	issued int
}

func newIssuer(t *testing.T, etype int32) *issuer {
	t.Helper()
	kt := keytab.New()
	require.NoError(t, kt.AddEntry(testSPN, testRealm, "the service's password", time.Now(), 1, etype))
	return &issuer{keytab: kt, etype: etype}
}

func (i *issuer) obtain(spn string) (*ticket, error) {
	i.issued++
	alice := types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "alice")
	service := types.NewPrincipalName(nametype.KRB_NT_SRV_HST, spn)
	now, end := time.Now().UTC(), time.Now().UTC().Add(time.Hour)
	tkt, key, err := messages.NewTicket(alice, testRealm, service, testRealm, types.NewKrbFlags(), i.keytab, i.etype, 1, now, now, end, end)
	return &ticket{ticket: tkt, key: key, client: alice, realm: testRealm, end: end}, err
}

// An acceptor is the broker's side of one exchange, by the RFCs. Its fields make it
// deviate.
type acceptor struct {
	issuer *issuer
	step   int
	key    types.EncryptionKey
	req    messages.APReq

	subkey    bool // a key of its own in the AP-REP
	skew      int  // added to the microseconds that the AP-REP repeats
	offer     []byte
	rotate    uint16 // right rotation of the wrap token
	corrupt   bool   // the signature of the offer
	flags     byte   // more flags of the wrap token
	rawAnswer []byte // the AP-REP token, in place of the right one

	chosen []byte // what the client answered to the offer
}

// next takes the client's next token. The answer to the last one is nil.
func (a *acceptor) next(token []byte) (answer []byte, err error) {
	a.step++
	switch a.step {
	case 1:
		return a.prove(token)
	case 2:
		if len(token) != 0 {
			return nil, errors.New("the client's second token is not empty")
		}
		return a.offerLayers()
	case 3:
		return nil, a.choose(token)
	}
	return nil, errors.New("a token too many")
}

func (a *acceptor) prove(token []byte) ([]byte, error) {
	kind, message, err := unframe(token)
	if err != nil || kind != tokenAPReq {
		return nil, errors.Join(errFraming, err)
	}
	if err := a.req.Unmarshal(message); err != nil {
		return nil, err
	}
	if ok, err := a.req.Verify(a.issuer.keytab, time.Minute, types.HostAddress{}, nil); !ok {
		return nil, err
	}
	auth := a.req.Authenticator
	if auth.Cksum.CksumType != 0x8003 || binary.LittleEndian.Uint32(auth.Cksum.Checksum[20:])&2 == 0 {
		return nil, errors.New("mutual authentication was not asked for")
	}
	if a.rawAnswer != nil {
		return a.rawAnswer, nil
	}
	ticketKey := a.req.Ticket.DecryptedEncPart.Key
	a.key = ticketKey
	part := messages.EncAPRepPart{CTime: auth.CTime, Cusec: auth.Cusec + a.skew, SequenceNumber: 77}
	if a.subkey {
		e, err := crypto.GetEtype(ticketKey.KeyType)
		if err != nil {
			return nil, err
		}
		if part.Subkey, err = types.GenerateEncryptionKey(e); err != nil {
			return nil, err
		}
		a.key = part.Subkey
	}
	plain, err := asn1.Marshal(part)
	if err != nil {
		return nil, err
	}
	sealed, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(plain, asnAppTag.EncAPRepPart), ticketKey, keyusage.AP_REP_ENCPART, 1)
	if err != nil {
		return nil, err
	}
	rep, err := asn1.Marshal(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: sealed})
	return frame(tokenAPRep, asn1tools.AddASNAppTag(rep, asnAppTag.APREP)), err
}

func (a *acceptor) wrapFlags() byte {
	if a.subkey {
		return a.flags | flagAcceptor | flagAcceptorSubkey
	}
	return a.flags | flagAcceptor
}

func (a *acceptor) offerLayers() ([]byte, error) {
	offer := a.offer
	if offer == nil {
		offer = []byte{7, 0, 0x80, 0}
	}
	token, err := wrap(a.key, keyusage.GSSAPI_ACCEPTOR_SEAL, a.wrapFlags(), 77, offer)
	if err != nil {
		return nil, err
	}
	if a.corrupt {
		token[len(token)-1] ^= 1
	}
	if a.rotate > 0 {
		body := token[wrapHeader:]
		cut := len(body) - int(a.rotate)%len(body)
		token = append(token[:wrapHeader:wrapHeader], append(append([]byte{}, body[cut:]...), body[:cut]...)...)
		binary.BigEndian.PutUint16(token[6:], a.rotate)
	}
	return token, nil
}

// choose reads the client's wrap token without unwrap, which takes only those of
// acceptors.
func (a *acceptor) choose(token []byte) error {
	e, err := aes(a.key)
	if err != nil {
		return err
	}
	size := e.GetHMACBitLength() / 8
	if len(token) < wrapHeader+size || token[2] != a.wrapFlags()&^flagAcceptor {
		return errors.New("a wrong wrap token")
	}
	cut := len(token) - size
	want, err := checksum(e, a.key, keyusage.GSSAPI_INITIATOR_SEAL, token[2], binary.BigEndian.Uint64(token[8:]), token[wrapHeader:cut])
	if err != nil {
		return err
	}
	if !equal(want, token[cut:]) {
		return errors.New("the client's signature is wrong")
	}
	if got := uint64(a.req.Authenticator.SeqNumber); got != binary.BigEndian.Uint64(token[8:]) {
		return errors.New("the sequence does not start as the authenticator says")
	}
	a.chosen = token[wrapHeader:cut]
	return nil
}

// testEtypes are those that the library can make session keys of: it takes the
// keys of aes256-sha384 for shorter than they are.
var testEtypes = map[string]int32{
	"aes128-sha1": etypeID.AES128_CTS_HMAC_SHA1_96, "aes256-sha1": etypeID.AES256_CTS_HMAC_SHA1_96,
	"aes128-sha256": etypeID.AES128_CTS_HMAC_SHA256_128,
}

package gssapi

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"
)

// exchange runs a whole exchange and returns the client's error.
func exchange(t *testing.T, c *Client, a *acceptor) error {
	t.Helper()
	s, token, err := c.Start(t.Context(), "Broker.Test.")
	if err != nil {
		return err
	}
	for done := false; !done; {
		answer, err := a.next(token)
		require.NoError(t, err, "the broker's side")
		if token, done, err = s.Next(t.Context(), answer); err != nil {
			return err
		}
	}
	_, err = a.next(token)
	require.NoError(t, err, "the broker's side, last token")
	_, _, err = s.Next(t.Context(), nil)
	require.ErrorContains(t, err, "after the end")
	return nil
}

func TestTheExchangeEndsWithoutASecurityLayer(t *testing.T) {
	for name, etype := range testEtypes {
		t.Run(name, func(t *testing.T) {
			issuer := newIssuer(t, etype)
			for _, a := range []*acceptor{
				{}, {subkey: true}, {rotate: 12}, {rotate: 12345, subkey: true},
				{offer: []byte{noProtection, 0, 0, 0}}, {offer: []byte{noProtection, 1, 0, 0}},
			} {
				a.issuer = issuer
				require.NoError(t, exchange(t, newClient(Config{}, issuer.obtain), a))
				require.Equal(t, []byte{noProtection, 0, 0, 0}, a.chosen)
			}
		})
	}
}

func TestABrokerThatDoesNotProveItselfIsRefused(t *testing.T) {
	for _, test := range []struct {
		name string
		a    acceptor
		want string
	}{
		{"the time of another exchange", acceptor{skew: 1}, "not for this exchange"},
		{"a token that is not framed", acceptor{rawAnswer: []byte("no")}, "not one of Kerberos"},
		{"no token", acceptor{rawAnswer: []byte{}}, "not one of Kerberos"},
		{"an AP-REQ sent back", acceptor{rawAnswer: frame(tokenAPReq, []byte{1})}, "not one of Kerberos"},
		{"an empty AP-REP", acceptor{rawAnswer: frame(tokenAPRep, nil)}, "proof"},
		{"an AP-REP with a short cipher", acceptor{rawAnswer: frame(tokenAPRep, shortProof(t))}, "too short"},
		{"an error that is none", acceptor{rawAnswer: frame(tokenError, []byte{1})}, "not one of Kerberos"},
		{"a token beyond the bound", acceptor{rawAnswer: make([]byte, maxToken+1)}, "more than the"},
		{"a corrupt signature", acceptor{corrupt: true}, "signature"},
		{"an encrypted offer", acceptor{flags: flagSealed}, "encrypted"},
		{"a key that was not agreed on", acceptor{flags: flagAcceptorSubkey}, "not agreed on"},
		{"no layer without protection", acceptor{offer: []byte{6, 0, 1, 0}}, "insists on a security layer"},
		{"an offer that is too short", acceptor{offer: []byte{1, 0, 0}}, "3 bytes instead of 4"},
		{"an offer that is too long", acceptor{offer: []byte{1, 0, 0, 0, 0}}, "5 bytes instead of 4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.a.issuer = newIssuer(t, etypeID.AES256_CTS_HMAC_SHA1_96)
			err := exchange(t, newClient(Config{}, test.a.issuer.obtain), &test.a)
			require.ErrorContains(t, err, test.want)
			require.Nil(t, test.a.chosen)
		})
	}
}

func TestWrapTokensOfEachEncryptionType(t *testing.T) {
	for etype, size := range keyBytes {
		key := types.EncryptionKey{KeyType: etype, KeyValue: bytes.Repeat([]byte{7}, size)}
		keyFor := func(bool) (types.EncryptionKey, error) { return key, nil }
		token, err := wrap(key, keyusage.GSSAPI_ACCEPTOR_SEAL, flagAcceptor, 3, []byte{7, 0, 0, 0})
		require.NoError(t, err)
		message, err := unwrap(token, keyusage.GSSAPI_ACCEPTOR_SEAL, keyFor)
		require.NoError(t, err)
		require.Equal(t, []byte{7, 0, 0, 0}, message)
		key.KeyValue = key.KeyValue[1:]
		_, err = unwrap(token, keyusage.GSSAPI_ACCEPTOR_SEAL, keyFor)
		require.ErrorContains(t, err, "bytes", "a key that is too short")
	}
}

func TestWrapTokensAreCheckedAtEachByte(t *testing.T) {
	key := types.EncryptionKey{KeyType: etypeID.AES128_CTS_HMAC_SHA1_96, KeyValue: bytes.Repeat([]byte{7}, 16)}
	keyFor := func(bool) (types.EncryptionKey, error) { return key, nil }
	token, err := wrap(key, keyusage.GSSAPI_ACCEPTOR_SEAL, flagAcceptor, 3, []byte{7, 0, 0, 0})
	require.NoError(t, err)
	message, err := unwrap(token, keyusage.GSSAPI_ACCEPTOR_SEAL, keyFor)
	require.NoError(t, err)
	require.Equal(t, []byte{7, 0, 0, 0}, message)
	for i := range token {
		_, err := unwrap(token[:i], keyusage.GSSAPI_ACCEPTOR_SEAL, keyFor)
		require.Error(t, err, "cut at %d", i)
		changed := bytes.Clone(token)
		if i == 6 {
			continue // a rotation by a multiple of the length is none
		}
		changed[i] ^= 0x0d
		_, err = unwrap(changed, keyusage.GSSAPI_ACCEPTOR_SEAL, keyFor)
		require.Error(t, err, "byte %d changed", i)
	}
	_, err = unwrap(token, keyusage.GSSAPI_INITIATOR_SEAL, keyFor)
	require.Error(t, err, "a key for another use")
}

// The token of RFC 4121 as another implementation made it: the one that gokrb5's
// own tests hold.
func TestAWrapTokenOfAnotherImplementation(t *testing.T) {
	value, err := hex.DecodeString("14f9bde6b50ec508201a97f74c4e5bd3")
	require.NoError(t, err)
	key := types.EncryptionKey{KeyType: etypeID.AES128_CTS_HMAC_SHA1_96, KeyValue: value}
	challenge, err := hex.DecodeString("050401ff000c000000000000575e85d601010000853b728d5268525a1386c19f")
	require.NoError(t, err)
	message, err := unwrap(challenge, keyusage.GSSAPI_ACCEPTOR_SEAL, func(bool) (types.EncryptionKey, error) { return key, nil })
	require.NoError(t, err)
	require.Equal(t, []byte{1, 1, 0, 0}, message)
	answer, err := wrap(key, keyusage.GSSAPI_INITIATOR_SEAL, 0, 0, []byte{1, 1, 0, 0})
	require.NoError(t, err)
	require.Equal(t, "050400ff000c000000000000000000000101000079a033510b6f127212242b97", hex.EncodeToString(answer))
}

func TestFramesOfEachLength(t *testing.T) {
	for _, n := range []int{0, 1, 100, 114, 115, 127, 128, 255, 256, 65535, 65536} {
		message := bytes.Repeat([]byte{1}, n)
		token := frame(tokenAPRep, message)
		kind, got, err := unframe(token)
		require.NoError(t, err)
		require.Equal(t, uint16(tokenAPRep), kind)
		require.Equal(t, message, append([]byte{}, got...))
		for _, cut := range []int{0, 1, 2, 3, 5, 12, len(token) - 1} {
			_, _, err := unframe(token[:cut])
			require.Error(t, err, "%d bytes cut at %d", n, cut)
		}
		_, _, err = unframe(append(token, 0))
		require.Error(t, err, "a byte too many")
	}
}

func FuzzUnframe(f *testing.F) {
	f.Add(frame(tokenAPRep, []byte("x")))
	f.Add([]byte{0x60, 0x83, 0xff})
	f.Fuzz(func(t *testing.T, token []byte) {
		if kind, message, err := unframe(token); err == nil {
			require.LessOrEqual(t, len(message), len(token))
			_ = kind
		}
	})
}

func TestOlderEncryptionTypesAreRefused(t *testing.T) {
	issuer := newIssuer(t, etypeID.RC4_HMAC)
	_, _, err := newClient(Config{}, issuer.obtain).Start(t.Context(), "broker.test")
	require.ErrorContains(t, err, "encryption type 23 is not supported")
}

func TestAcceptedTicketsAreUsedAgain(t *testing.T) {
	issuer := newIssuer(t, etypeID.AES256_CTS_HMAC_SHA1_96)
	c := newClient(Config{}, issuer.obtain)
	require.NoError(t, exchange(t, c, &acceptor{issuer: issuer}))
	require.NoError(t, exchange(t, c, &acceptor{issuer: issuer}))
	require.Equal(t, 1, issuer.issued)

	require.Error(t, exchange(t, c, &acceptor{issuer: issuer, skew: 1}))
	require.NoError(t, exchange(t, c, &acceptor{issuer: issuer}))
	require.Equal(t, 2, issuer.issued, "a ticket that was refused is not used again")

	for _, kept := range c.tickets.kept[testSPN] {
		kept.end = time.Now().Add(expiryMargin)
	}
	require.NoError(t, exchange(t, c, &acceptor{issuer: issuer}))
	require.Equal(t, 3, issuer.issued, "an expired ticket is not used")
}

func TestAWaitForTheKDCEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	issuer := newIssuer(t, etypeID.AES256_CTS_HMAC_SHA1_96)
	c := newClient(Config{}, func(spn string) (*ticket, error) {
		<-release
		return issuer.obtain(spn)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for range 2 { // the one that asks and one that waits for it
		_, _, err := c.Start(ctx, "broker.test")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	close(release)
	require.NoError(t, exchange(t, c, &acceptor{issuer: issuer}))
}

func TestTheBrokersPrincipal(t *testing.T) {
	for _, test := range []struct {
		cfg        Config
		host, want string
	}{
		{Config{}, "Broker1.Example.COM.", "kafka/broker1.example.com"},
		{Config{ServiceName: "events"}, "127.0.0.1", "events/127.0.0.1"},
		{Config{DomainName: "cluster.example.com"}, "10.0.0.1", "kafka/cluster.example.com"},
	} {
		require.Equal(t, test.want, newClient(test.cfg, nil).servicePrincipal(test.host))
	}
	c := newClient(Config{ServiceName: "events", DomainName: "a.test"}, nil)
	require.Equal(t, "other/a.test", c.WithKerberosNames("other", "").(*Client).servicePrincipal("h"))
	require.Equal(t, "events/b.test", c.WithKerberosNames("", "b.test").(*Client).servicePrincipal("h"))
}

func TestNothingPrintsThePassword(t *testing.T) {
	file := writeFile(t, "[libdefaults]\n default_realm = A\n")
	cfg := Config{ConfigFile: file, Principal: "alice", Password: "sesame"}
	c, err := New(cfg)
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(verb, cfg), "sesame")
		require.NotContains(t, fmt.Sprintf(verb, &cfg), "sesame")
		require.NotContains(t, fmt.Sprintf(verb, c), "sesame")
		require.NotContains(t, fmt.Sprintf(verb, struct{ C any }{c}), "sesame")
	}
}

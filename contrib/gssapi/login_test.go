package gssapi

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// shortProof is an AP-REP whose encrypted part is shorter than its checksum.
func shortProof(t *testing.T) []byte {
	t.Helper()
	rep, err := asn1.Marshal(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: types.EncryptedData{EType: 18, Cipher: []byte{1, 2, 3}}})
	require.NoError(t, err)
	return asn1tools.AddASNAppTag(rep, asnAppTag.APREP)
}

func TestFaultsOfAConfig(t *testing.T) {
	good := writeFile(t, "[libdefaults]\n default_realm = A\n")
	noRealm := writeFile(t, "[libdefaults]\n")
	for _, test := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"two credentials", Config{ConfigFile: good, Principal: "a", Keytab: "k", Password: "p"}, "at most one"},
		{"no krb5.conf", Config{ConfigFile: good + "x"}, "krb5.conf"},
		{"no principal", Config{ConfigFile: good, Password: "p"}, "Principal is needed"},
		{"no realm", Config{ConfigFile: noRealm, Principal: "a", Password: "p"}, "has no realm"},
		{"a cache of another kind", Config{ConfigFile: good, CredentialCache: "KEYRING:persistent:0"}, "only files"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.cfg)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestTheDefaultsComeFromTheEnvironment(t *testing.T) {
	good := writeFile(t, "[libdefaults]\n default_realm = ENV\n")
	t.Setenv("KRB5_CONFIG", filepath.Join(t.TempDir(), "none")+string(filepath.ListSeparator)+good)
	t.Setenv("KRB5CCNAME", "FILE:/somewhere/cache")
	l, err := newLogin(Config{})
	require.NoError(t, err)
	require.Equal(t, "ENV", l.krb5.LibDefaults.DefaultRealm)
	require.Equal(t, "/somewhere/cache", l.cache)

	l, err = newLogin(Config{Principal: "alice/x", Password: "p"})
	require.NoError(t, err)
	require.Equal(t, "ENV", l.realm)
	l, err = newLogin(Config{Principal: "a@b@OTHER", Password: "p"})
	require.NoError(t, err)
	require.Equal(t, "OTHER", l.realm)
}

func TestFilesThatAreMissingOrCutAreErrors(t *testing.T) {
	conf := writeFile(t, "[libdefaults]\n default_realm = A\n")
	for name, cfg := range map[string]Config{
		"no cache":     {CredentialCache: filepath.Join(t.TempDir(), "none")},
		"a cut cache":  {CredentialCache: writeFile(t, "\x05\x04\x00\x0c\x00")},
		"empty cache":  {CredentialCache: writeFile(t, "")},
		"no keytab":    {Principal: "a", Keytab: filepath.Join(t.TempDir(), "none")},
		"a cut keytab": {Principal: "a", Keytab: writeFile(t, "\x05\x02\x00\x00\x00\x50\x00")},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.ConfigFile = conf
			c, err := New(cfg)
			require.NoError(t, err)
			for range 2 {
				_, _, err = c.Start(t.Context(), "broker.test")
				require.ErrorContains(t, err, "ticket for kafka/broker.test")
			}
		})
	}
}

// A KDC that answers nonsense makes an error, not a panic.
func TestNonsenseOfAKDCIsAnError(t *testing.T) {
	for name, answer := range map[string][]byte{
		"nothing": {}, "zeros": make([]byte, 64), "an AS-REP cut": {0x6b, 0x03, 0x30, 0x01, 0xa0}, "text": bytes.Repeat([]byte("x"), 100),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = conn.Read(make([]byte, 4096))
					_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
					_ = conn.Close()
				}
			}()
			conf := writeFile(t, "[libdefaults]\n default_realm = A\n udp_preference_limit = 1\n[realms]\n A = {\n  kdc = "+l.Addr().String()+"\n }\n")
			c, err := New(Config{ConfigFile: conf, Principal: "a", Password: "sesame"})
			require.NoError(t, err)
			_, _, err = c.Start(t.Context(), "broker.test")
			require.Error(t, err)
			require.NotContains(t, err.Error(), "sesame")
		})
	}
}

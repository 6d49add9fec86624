package sasl

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/xdg-go/scram"
)

func TestPlain(t *testing.T) {
	session, first := Plain("us,er=\"ü", "pa ss'")
	require.Equal(t, "\x00us,er=\"ü\x00pa ss'", string(first))
	answer, done, err := session.Next(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, done)
	require.Nil(t, answer)
	_, _, err = session.Next(t.Context(), nil)
	require.Error(t, err)
}

// server is the other side, by the same library's server half.
func server(t *testing.T, mechanism, username, password string, iterations int) *scram.ServerConversation {
	t.Helper()
	hash := scram.SHA256
	if mechanism == ScramSHA512 {
		hash = scram.SHA512
	}
	client, err := hash.NewClientUnprepped(username, password, "")
	require.NoError(t, err)
	stored, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt", Iters: iterations})
	require.NoError(t, err)
	s, err := hash.NewServer(func(name string) (scram.StoredCredentials, error) {
		if name != username {
			return scram.StoredCredentials{}, fmt.Errorf("no user %q", name)
		}
		return stored, nil
	})
	require.NoError(t, err)
	return s.NewConversation()
}

func TestScram(t *testing.T) {
	for _, mechanism := range []string{ScramSHA256, ScramSHA512} {
		for username, password := range map[string]string{
			"user": "secret", "a=b,c": "d,e=f", `"quoted" name`: "it's", "größe": "пароль 🔑", "u\u00a0v": "\u00ad\u00a0",
		} {
			t.Run(mechanism+" "+username, func(t *testing.T) {
				peer := server(t, mechanism, username, password, 4096)
				session, message, err := Scram(mechanism, username, password)
				require.NoError(t, err)
				for step := 1; ; step++ {
					reply, err := peer.Step(string(message))
					require.NoError(t, err)
					answer, done, err := session.Next(t.Context(), []byte(reply))
					require.NoError(t, err)
					require.Equal(t, step == 2, done)
					if message = answer; done {
						require.Nil(t, message)
						break
					}
				}
				require.True(t, peer.Valid())
			})
		}
	}
}

// The example of RFC 7677, whose nonce cannot be chosen here, is in the library's
// own tests; here it is what a server may not do.
func TestScramRefusesAServersFirstMessage(t *testing.T) {
	salt := base64.StdEncoding.EncodeToString([]byte("salt"))
	for _, tc := range []struct{ name, message, says string }{
		{"one iteration", "r=NONCEx,s=" + salt + ",i=1", "at least 4096"},
		{"4095 iterations", "r=NONCEx,s=" + salt + ",i=4095", "at least 4096"},
		{"no iterations", "r=NONCEx,s=" + salt + ",i=0", "at least 4096"},
		{"a negative count", "r=NONCEx,s=" + salt + ",i=-5", "not a number in range"},
		{"a count with a sign", "r=NONCEx,s=" + salt + ",i=+4096", "not a number in range"},
		{"a count with letters", "r=NONCEx,s=" + salt + ",i=4096x", `"4096x" is not a number`},
		{"a count in hexadecimal", "r=NONCEx,s=" + salt + ",i=0x2000", "not a number in range"},
		{"an absurd count", "r=NONCEx,s=" + salt + ",i=2147483647", "at most 1000000"},
		{"one more than allowed", "r=NONCEx,s=" + salt + ",i=1000001", "at most 1000000"},
		{"a count beyond all bounds", "r=NONCEx,s=" + salt + ",i=99999999999999999999", "not a number in range"},
		{"another nonce", "r=other,s=" + salt + ",i=4096", "does not continue"},
		{"our nonce alone", "r=NONCE,s=" + salt + ",i=4096", "does not continue"},
		{"a salt that is not base64", "r=NONCEx,s=***,i=4096", "salt is not base64"},
		{"an empty salt", "r=NONCEx,s=,i=4096", "salt is not base64"},
		{"an extension that must be known", "m=x,r=NONCEx,s=" + salt + ",i=4096", "extension"},
		{"such an extension at the end", "r=NONCEx,s=" + salt + ",i=4096,m=x", "extension"},
		{"a nonce that comes twice", "r=NONCEx,s=" + salt + ",i=4096,r=NONCEy", "comes twice"},
		{"a count that comes twice", "r=NONCEx,s=" + salt + ",i=4096,i=4097", "comes twice"},
		{"another order", "s=" + salt + ",r=NONCEx,i=4096", "not in its place"},
		{"no count", "r=NONCEx,s=" + salt, "missing"},
		{"nothing", "", "malformed"},
		{"garbage", "\xff\xfe", "malformed"},
		{"a novel", "r=NONCEx,s=" + salt + ",i=4096,x=" + strings.Repeat("x", 5000), "more than the 4096 allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			session, first, err := Scram(ScramSHA512, "u", "secret")
			require.NoError(t, err)
			_, nonce, _ := strings.Cut(string(first), ",r=")
			began := time.Now()
			answer, done, err := session.Next(t.Context(), []byte(strings.ReplaceAll(tc.message, "NONCE", nonce)))
			require.ErrorContains(t, err, tc.says)
			require.Less(t, time.Since(began), 20*time.Second, "nothing was computed")
			require.Nil(t, answer, "no proof leaves the client")
			require.False(t, done)
		})
	}
}

func TestScramRefusesAServersLastMessage(t *testing.T) {
	for _, tc := range []struct{ name, message, says string }{
		{"a wrong signature", "v=" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "signature is wrong"},
		{"an empty signature", "v=", "signature is wrong"},
		{"no signature", "", "malformed"},
		{"another attribute", "x=1", "missing or not in its place"},
		{"a signature that is not base64", "v=***", "not base64"},
		{"a server error", "e=other-error", `the server refuses: "other-error"`},
		{"a server error to be escaped", "e=\x1b[2J\nline", `"\x1b[2J\nline"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			peer := server(t, ScramSHA256, "u", "secret", 4096)
			session, message, err := Scram(ScramSHA256, "u", "secret")
			require.NoError(t, err)
			reply, err := peer.Step(string(message))
			require.NoError(t, err)
			_, _, err = session.Next(t.Context(), []byte(reply))
			require.NoError(t, err)
			answer, done, err := session.Next(t.Context(), []byte(tc.message))
			require.ErrorContains(t, err, tc.says)
			require.Nil(t, answer)
			require.False(t, done)
		})
	}
}

func TestScramToleratesExtensionsThatNeedNotBeKnown(t *testing.T) {
	session, first, err := Scram(ScramSHA256, "u", "secret")
	require.NoError(t, err)
	_, nonce, _ := strings.Cut(string(first), ",r=")
	answer, _, err := session.Next(t.Context(), []byte("r="+nonce+"x,s=c2FsdA==,i=4096,tokenauth=1"))
	require.ErrorContains(t, err, "malformed", "an attribute's name is one letter")
	require.Nil(t, answer)
	session, first, err = Scram(ScramSHA256, "u", "secret")
	require.NoError(t, err)
	_, nonce, _ = strings.Cut(string(first), ",r=")
	answer, _, err = session.Next(t.Context(), []byte("r="+nonce+"x,s=c2FsdA==,i=4096,x=1"))
	require.NoError(t, err)
	require.NotNil(t, answer)
}

func TestOAuthBearer(t *testing.T) {
	session, first, err := OAuthBearer("abc.def-_~+/==", map[string]string{"zone": "b c", "logicalCluster": "lkc-1"})
	require.NoError(t, err)
	require.Equal(t, "n,,\x01auth=Bearer abc.def-_~+/==\x01logicalCluster=lkc-1\x01zone=b c\x01\x01", string(first))
	answer, done, err := session.Next(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, done)
	require.Nil(t, answer)
}

func TestOAuthBearerRefused(t *testing.T) {
	session, _, err := OAuthBearer("secret", nil)
	require.NoError(t, err)
	answer, done, err := session.Next(t.Context(), []byte(`{"status":"invalid_token","scope":"kafka"}`+"\n"))
	require.Equal(t, []byte{1}, answer)
	require.False(t, done)
	require.ErrorContains(t, err, `the token is refused: "{\"status\":\"invalid_token\"`)
	require.NotContains(t, err.Error(), "\n")
	_, _, err = session.Next(t.Context(), []byte("more"))
	require.ErrorIs(t, err, errMore)
}

func TestOAuthBearerMessagesCannotBeForged(t *testing.T) {
	for _, token := range []string{"", "a b", "a\x01auth=Bearer x", "a\n", "ä"} {
		_, first, err := OAuthBearer(token, nil)
		require.Error(t, err)
		require.Nil(t, first)
		require.NotContains(t, err.Error(), "Bearer x")
	}
	for name, value := range map[string]string{"auth": "x", "": "x", "a1": "x", "a-b": "x", "ä": "x", "ok": "secret\x01auth=x", "no": ""} {
		_, _, err := OAuthBearer("t", map[string]string{name: value})
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "secret")
	}
}

// FuzzScram lets a server say anything.
func FuzzScram(f *testing.F) {
	f.Add("r=NONCEx,s=c2FsdA==,i=4096", "v=AAAA")
	f.Add("r=NONCEx,s=c2FsdA==,i=5000", "e=unknown-user")
	f.Fuzz(func(t *testing.T, first, last string) {
		session, message, err := Scram(ScramSHA256, "u", "secret")
		require.NoError(t, err)
		_, nonce, _ := strings.Cut(string(message), ",r=")
		if answer, _, err := session.Next(t.Context(), []byte(strings.ReplaceAll(first, "NONCE", nonce))); err != nil {
			require.Nil(t, answer)
			return
		}
		_, done, err := session.Next(t.Context(), []byte(last))
		require.Error(t, err, "nobody can guess the signature")
		require.False(t, done)
	})
}

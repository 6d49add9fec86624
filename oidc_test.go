package kafka

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An issuer is a token endpoint by a function, without a network.
type issuer func(req *http.Request, form url.Values) (status int, body string)

func (f issuer) RoundTrip(req *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	if err := req.ParseForm(); err != nil {
		return nil, err
	}
	status, body := f(req, req.PostForm)
	rec.WriteHeader(status)
	_, _ = rec.WriteString(body)
	return rec.Result(), nil
}

func oidcConfig(f issuer) OIDCConfig {
	return OIDCConfig{
		TokenURL: "https://id.test/token", ClientID: "me:too", ClientSecret: "sesame %&=+ö",
		HTTPClient: &http.Client{Transport: f},
	}
}

func TestOIDCRequest(t *testing.T) {
	for _, inForm := range []bool{false, true} {
		cfg := oidcConfig(func(req *http.Request, form url.Values) (int, string) {
			require.Equal(t, http.MethodPost, req.Method)
			require.Equal(t, "https://id.test/token", req.URL.String())
			user, secret, basic := req.BasicAuth()
			require.Equal(t, !inForm, basic)
			want := url.Values{"grant_type": {"client_credentials"}, "scope": {"a b"}, "audience": {"kafka"}}
			if inForm {
				want["client_id"], want["client_secret"] = []string{"me:too"}, []string{"sesame %&=+ö"}
			} else {
				require.Equal(t, "me%3Atoo", user, "RFC 6749, section 2.3.1")
				require.Equal(t, url.QueryEscape("sesame %&=+ö"), secret)
			}
			require.Equal(t, want, form)
			return 200, `{"access_token":"tok","token_type":"bearer","expires_in":3600}`
		})
		cfg.SecretInForm, cfg.Scope, cfg.Form = inForm, "a b", url.Values{"audience": {"kafka"}}
		cfg.Extensions = map[string]string{"pool": "p1"}
		token, err := OIDCClientCredentials(cfg).Token(t.Context())
		require.NoError(t, err)
		require.Equal(t, "tok", token.Value)
		require.Equal(t, cfg.Extensions, token.Extensions)
		require.WithinDuration(t, time.Now().Add(time.Hour), token.Lifetime, time.Minute)
	}
}

func TestOIDCTokensAreKeptAndRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, fails := 0, false
		p := OIDCClientCredentials(oidcConfig(func(*http.Request, url.Values) (int, string) {
			asked++
			if fails {
				return 503, "busy"
			}
			return 200, fmt.Sprintf(`{"access_token":"t%d","expires_in":"100"}`, asked)
		}))
		token := func() string {
			token, err := p.Token(t.Context())
			require.NoError(t, err)
			return token.Value
		}
		require.Equal(t, "t1", token())
		time.Sleep(79 * time.Second)
		require.Equal(t, "t1", token())
		time.Sleep(2 * time.Second)
		require.Equal(t, "t2", token())
		fails = true
		time.Sleep(81 * time.Second)
		for range 5 {
			require.Equal(t, "t2", token(), "it holds yet")
		}
		require.Equal(t, 3, asked, "and the endpoint is left in peace")
		time.Sleep(20 * time.Second)
		_, err := p.Token(t.Context())
		require.ErrorContains(t, err, "HTTP status 503")
		fails = false
		require.Equal(t, "t5", token())
	})
}

func TestOIDCAsksOnceForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := OIDCClientCredentials(oidcConfig(func(*http.Request, url.Values) (int, string) {
			asked++
			time.Sleep(time.Second)
			return 200, `{"access_token":"t","expires_in":100}`
		}))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, err := p.Token(t.Context())
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Equal(t, 1, asked)
		time.Sleep(time.Hour)
		go func() { _, _ = p.Token(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := p.Token(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
	})
}

func TestOIDCLifetimeOfAJWT(t *testing.T) {
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, end.Unix()))
	for token, want := range map[string]time.Time{
		"h." + claims + ".s": end, "opaque": {}, "h.***.s": {}, "a.b.c": {},
	} {
		p := OIDCClientCredentials(oidcConfig(func(*http.Request, url.Values) (int, string) {
			return 200, fmt.Sprintf(`{"access_token":%q}`, token)
		}))
		got, err := p.Token(t.Context())
		require.NoError(t, err)
		require.True(t, want.Equal(got.Lifetime), token)
	}
}

func TestOIDCFailures(t *testing.T) {
	answer := func(status int, body string) issuer {
		return func(*http.Request, url.Values) (int, string) { return status, body }
	}
	for _, tc := range []struct {
		name, says string
		cfg        OIDCConfig
	}{
		{"refused", `HTTP status 401, "invalid_client: wrong \x1b (hidden)"`, oidcConfig(answer(401, `{"error":"invalid_client","error_description":"wrong \u001b sesame %&=+ö"}`))},
		{"not JSON", "not the JSON of a token", oidcConfig(answer(200, "<html>"))},
		{"no token", "no access_token", oidcConfig(answer(200, `{}`))},
		{"a token of another kind", `is "mac", not Bearer`, oidcConfig(answer(200, `{"access_token":"t","token_type":"mac"}`))},
		{"a redirect", "HTTP status 302", oidcConfig(answer(302, ""))},
		{"plain http", "must be https", OIDCConfig{TokenURL: "http://id.test/t", ClientID: "c", ClientSecret: "sesame"}},
		{"no URL", "must be an https URL", OIDCConfig{ClientID: "c", ClientSecret: "sesame"}},
		{"credentials in the URL", "must not hold credentials", OIDCConfig{TokenURL: "https://u:sesame@id.test", ClientID: "c", ClientSecret: "sesame"}},
		{"no secret", "needs ClientID and ClientSecret", OIDCConfig{TokenURL: "https://id.test", ClientID: "c"}},
		{"nobody listens", "connection refused", OIDCConfig{TokenURL: "http://127.0.0.1:1/t?key=sesame", ClientID: "c", ClientSecret: "sesame"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := OIDCClientCredentials(tc.cfg).Token(t.Context())
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "sesame")
		})
	}
}

func TestOIDCShowsNoSecret(t *testing.T) {
	cfg := oidcConfig(nil)
	cfg.TokenURL = "https://user:sesame@id.test/token?sesame=1"
	p := OIDCClientCredentials(cfg)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, value := range []any{cfg, &cfg, p, []any{cfg}, Token{Value: "sesame"}, &Token{Value: "sesame", Extensions: map[string]string{"a": "sesame"}}} {
			text := fmt.Sprintf(verb, value)
			require.NotContains(t, text, "sesame")
			require.NotContains(t, strings.ToLower(text), fmt.Sprintf("%x", "sesame"))
		}
	}
	text, err := json.Marshal([]any{Token{Value: "sesame"}})
	require.NoError(t, err)
	require.NotContains(t, string(text), "sesame")
}

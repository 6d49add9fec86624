package kafka

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// An OIDCConfig says where, and as whom, OIDCClientCredentials gets its tokens.
type OIDCConfig struct {
	// TokenURL is the token endpoint. It must be https, but for a loopback address.
	//
	// Kafka property: sasl.oauthbearer.token.endpoint.url.
	TokenURL string
	// ClientID and ClientSecret are sent by HTTP Basic authentication, or in the
	// form when SecretInForm is set. The secret is never printed.
	//
	// Kafka properties: sasl.oauthbearer.client.credentials.client.id and …secret.
	ClientID     string
	ClientSecret string `json:"-"`
	SecretInForm bool
	// Scope is what is asked for. Empty means the endpoint's default.
	//
	// Kafka property: sasl.oauthbearer.scope.
	Scope string
	// Form holds further fields of the request, such as an audience.
	Form url.Values
	// Extensions go with each token to the brokers (KIP-342).
	Extensions map[string]string
	// HTTPClient makes the requests. Nil means one with a timeout of 10s. It
	// follows no redirects, which could take the secret elsewhere.
	HTTPClient *http.Client
}

// String returns where tokens come from, without secrets.
func (c OIDCConfig) String() string {
	return fmt.Sprintf("kafka.OIDCConfig{TokenURL: %q, ClientID: %q, ClientSecret: (hidden)}", endpointText(c.TokenURL), c.ClientID)
}

// GoString returns the same text as String.
func (c OIDCConfig) GoString() string { return c.String() }

// Format writes the same text as String for every verb.
func (c OIDCConfig) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue returns the same text as String.
func (c OIDCConfig) LogValue() slog.Value { return slog.StringValue(c.String()) }

// endpointText is a URL without what may hold a secret.
func endpointText(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return string(hiddenValue)
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

const (
	oidcTimeout = 10 * time.Second
	// oidcFresh is the part of a token's lifetime after which the next one is asked
	// for, so that a session never begins with one about to end.
	oidcFresh = 0.8
	// oidcRetry is how long a token that still holds is used without asking again
	// when the endpoint failed.
	oidcRetry = 10 * time.Second
	// oidcMaxAnswer bounds what is read of an answer.
	oidcMaxAnswer = 1 << 20
)

// OIDCClientCredentials returns a provider that gets tokens from an OpenID Connect
// or OAuth 2.0 token endpoint by the grant client_credentials (RFC 6749, section
// 4.4), as Java's does for the properties sasl.oauthbearer.… (KIP-768).
//
// A token is kept until four fifths of its lifetime are over; then the next one is
// got, and if that fails the old one serves as long as it holds. One request is made
// at a time. Errors say what the endpoint answered, without secrets; those of a
// wrong cfg come with the first token too. One provider may serve any number of
// consumers.
func OIDCClientCredentials(cfg OIDCConfig) TokenProvider {
	cfg.Extensions = maps.Clone(cfg.Extensions)
	form := make(url.Values, len(cfg.Form)+2)
	for name, values := range cfg.Form {
		form[name] = slices.Clone(values)
	}
	cfg.Form = form
	client := http.Client{Timeout: oidcTimeout}
	if cfg.HTTPClient != nil {
		client = *cfg.HTTPClient
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p := &oidcProvider{cfg: cfg, client: &client, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

// An oidcProvider is a TokenProvider. Whoever holds turn may use what is below it.
type oidcProvider struct {
	cfg    OIDCConfig
	client *http.Client

	turn  chan struct{}
	token Token
	fresh time.Time // until then token serves without asking
}

// String hides the secret.
func (p *oidcProvider) String() string { return "kafka.OIDCClientCredentials(" + p.cfg.String() + ")" }

// Format writes the same text as String for every verb.
func (p *oidcProvider) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }

func (p *oidcProvider) Token(ctx context.Context) (Token, error) {
	select {
	case <-p.turn:
		defer func() { p.turn <- struct{}{} }()
	case <-ctx.Done():
		return Token{}, ctx.Err()
	}
	now := time.Now()
	if now.Before(p.fresh) {
		return p.copy(), nil
	}
	token, err := p.ask(ctx, now)
	if err != nil {
		if p.token.Value != "" && time.Until(p.token.Lifetime) > oidcRetry {
			p.fresh = time.Now().Add(oidcRetry)
			return p.copy(), nil
		}
		return Token{}, fmt.Errorf("OAUTHBEARER: no token from %s: %w", endpointText(p.cfg.TokenURL), err)
	}
	p.token, p.fresh = token, now
	if !token.Lifetime.IsZero() {
		p.fresh = now.Add(time.Duration(oidcFresh * float64(token.Lifetime.Sub(now))))
	}
	return p.copy(), nil
}

// copy keeps the token's extensions from being changed by who gets it.
func (p *oidcProvider) copy() Token {
	t := p.token
	t.Extensions = maps.Clone(t.Extensions)
	return t
}

func (p *oidcProvider) ask(ctx context.Context, now time.Time) (Token, error) {
	req, err := p.request(ctx)
	if err != nil {
		return Token{}, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // the URL stands before already
		}
		return Token{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, oidcMaxAnswer))
	if err != nil {
		return Token{}, err
	}
	var answer oidcAnswer
	malformed := json.Unmarshal(body, &answer) != nil
	switch {
	case resp.StatusCode != http.StatusOK:
		return Token{}, fmt.Errorf("HTTP status %d%s", resp.StatusCode, p.reason(answer))
	case malformed:
		return Token{}, errors.New("the answer is not the JSON of a token")
	case answer.AccessToken == "":
		return Token{}, fmt.Errorf("the answer has no access_token%s", p.reason(answer))
	case answer.TokenType != "" && !strings.EqualFold(answer.TokenType, "bearer"):
		return Token{}, fmt.Errorf("the token's type is %.64q, not Bearer", answer.TokenType)
	}
	return Token{Value: answer.AccessToken, Lifetime: answer.lifetime(now), Extensions: p.cfg.Extensions}, nil
}

// endpoint returns the URL to send the secret to, if that may be done.
func (c OIDCConfig) endpoint() (*url.URL, error) {
	u, err := url.Parse(c.TokenURL)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("OIDCConfig.TokenURL must be an https URL")
	case u.Scheme != "https" && !(u.Scheme == "http" && isLoopback(u.Hostname())):
		return nil, errors.New("OIDCConfig.TokenURL must be https, since the client secret is sent there")
	case u.User != nil:
		return nil, errors.New("OIDCConfig.TokenURL must not hold credentials")
	case c.ClientID == "" || c.ClientSecret == "":
		return nil, errors.New("OIDCConfig needs ClientID and ClientSecret")
	}
	return u, nil
}

func (p *oidcProvider) request(ctx context.Context) (*http.Request, error) {
	u, err := p.cfg.endpoint()
	if err != nil {
		return nil, err
	}
	form := maps.Clone(p.cfg.Form)
	form.Set("grant_type", "client_credentials")
	if p.cfg.Scope != "" {
		form.Set("scope", p.cfg.Scope)
	}
	if p.cfg.SecretInForm {
		form.Set("client_id", p.cfg.ClientID)
		form.Set("client_secret", p.cfg.ClientSecret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("OIDCConfig.TokenURL must be an https URL")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if !p.cfg.SecretInForm {
		req.SetBasicAuth(url.QueryEscape(p.cfg.ClientID), url.QueryEscape(p.cfg.ClientSecret))
	}
	return req, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// reason is the endpoint's own text, which might repeat what it was sent.
func (p *oidcProvider) reason(a oidcAnswer) string {
	if a.Error == "" {
		return ""
	}
	text := a.Error
	if a.Description != "" {
		text += ": " + a.Description
	}
	for _, secret := range []string{p.cfg.ClientSecret, url.QueryEscape(p.cfg.ClientSecret)} {
		text = strings.ReplaceAll(text, secret, string(hiddenValue))
	}
	return fmt.Sprintf(", %.500q", text)
}

// oidcAnswer is the JSON of a token endpoint.
type oidcAnswer struct {
	AccessToken string      `json:"access_token"`
	TokenType   string      `json:"token_type"`
	ExpiresIn   json.Number `json:"expires_in"`
	Error       string      `json:"error"`
	Description string      `json:"error_description"`
}

// lifetime is when the token ends, by expires_in or else by its own claim if it is a
// JWT; zero when neither tells.
func (a *oidcAnswer) lifetime(now time.Time) time.Time {
	if seconds, err := a.ExpiresIn.Float64(); err == nil && seconds > 0 && seconds < 1e9 {
		return now.Add(time.Duration(seconds * float64(time.Second)))
	}
	parts := strings.Split(a.AccessToken, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Expires <= 0 || claims.Expires > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0)
}

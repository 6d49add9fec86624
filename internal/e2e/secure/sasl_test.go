//go:build unix

package secure

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/protocol"
)

const wrongPassword = "not the Pa55word"

// saslTo is how to reach a SASL listener with TLS (SASLTLS) or without.
func (f *fixture) saslTo(listener string) kafka.Config {
	cfg := kafka.Config{
		BootstrapServers: []string{f.ListenerAddr(1, listener)},
		SecurityProtocol: kafka.SecuritySASLPlaintext,
	}
	if listener == "SASLTLS" {
		cfg.SecurityProtocol, cfg.SSLCAFile = kafka.SecuritySASLSSL, f.ca.File
	}
	return cfg
}

func (f *fixture) passwordTo(listener, mechanism, user, password string) kafka.Config {
	cfg := f.saslTo(listener)
	cfg.SASLMechanism, cfg.SASLUsername, cfg.SASLPassword = mechanism, user, password
	return cfg
}

var passwordMechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

// unsecured makes tokens that are not signed, which brokers take for tests.
type unsecured struct{ lifetime time.Duration }

func (u unsecured) value(now time.Time) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"sub":"alice","iat":%d,"exp":%d}`, now.Unix(), now.Add(u.lifetime).Unix())
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "."
}

func (u unsecured) Token(context.Context) (kafka.Token, error) {
	now := time.Now()
	return kafka.Token{Value: u.value(now), Lifetime: now.Add(u.lifetime)}, nil
}

// tokenSecret is in all tokens of unsecured.
const tokenSecret = "eyJhbGciOiJub25lIn0."

func TestSASL(t *testing.T) {
	on(t, func(t *testing.T, f *fixture) {
		for _, listener := range []string{"SASL", "SASLTLS"} {
			for _, mechanism := range passwordMechanisms {
				t.Run(listener+" "+mechanism, func(t *testing.T) {
					requireReads(t, f.passwordTo(listener, mechanism, alice, alicePassword))
				})
				t.Run(listener+" "+mechanism+" with an odd name and password", func(t *testing.T) {
					name := oddASCII
					if mechanism == "PLAIN" {
						name = odd
					}
					cfg := f.passwordTo(listener, mechanism, name, oddPassword)
					cfg.GroupID = "odd-" + listener + mechanism
					requireReads(t, cfg)
				})
			}
			t.Run(listener+" OAUTHBEARER", func(t *testing.T) {
				cfg := f.saslTo(listener)
				cfg.SASLMechanism, cfg.SASLOAuthTokenProvider = "OAUTHBEARER", unsecured{time.Hour}
				requireReads(t, cfg, tokenSecret)
			})
		}
	})
}

func TestLoginsThatAreRefused(t *testing.T) {
	on(t, func(t *testing.T, f *fixture) {
		for _, mechanism := range passwordMechanisms {
			t.Run(mechanism+" with a wrong password", func(t *testing.T) {
				requireUnauthenticated(t, f.passwordTo("SASL", mechanism, alice, wrongPassword), "SASL_AUTHENTICATION_FAILED")
			})
			t.Run(mechanism+" with an unknown user", func(t *testing.T) {
				requireUnauthenticated(t, f.passwordTo("SASLTLS", mechanism, "nobody", wrongPassword), "SASL_AUTHENTICATION_FAILED")
			})
		}
		t.Run("a mechanism that is not offered", func(t *testing.T) {
			cfg := f.passwordTo("ONLYPLAIN", "SCRAM-SHA-256", alice, alicePassword)
			requireUnauthenticated(t, cfg, "PLAIN", "SCRAM-SHA-256")
			_, err := newConsumer(t, cfg)
			require.ErrorIs(t, err, protocol.UnsupportedSaslMechanism)
		})
		t.Run("a token that the broker takes for expired", func(t *testing.T) {
			cfg := f.saslTo("SASL")
			cfg.SASLMechanism, cfg.SASLOAuthTokenProvider = "OAUTHBEARER", expired{}
			requireUnauthenticated(t, cfg, "OAUTHBEARER")
		})
	})
}

// expired gives tokens that claim to live on although they do not.
type expired struct{}

func (expired) Token(context.Context) (kafka.Token, error) {
	return kafka.Token{Value: unsecured{time.Minute}.value(time.Now().Add(-time.Hour)), Lifetime: time.Now().Add(time.Hour)}, nil
}

//go:build unix

package secure

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/contrib/gssapi"
	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/kdc"
)

// B38: 0.11 knows only SaslHandshake version 0 and raw tokens, 2.8 both kinds in
// their older versions.
func TestOlderHandshakes(t *testing.T) {
	for _, release := range []string{"2.8.2", "0.11.0.3"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			broker.NeedJava(t)
			f := newOldFixture(t, release)
			for _, mechanism := range passwordMechanisms {
				t.Run(mechanism, func(t *testing.T) {
					cfg := f.passwordTo("SASL", mechanism, alice, alicePassword)
					cfg.GroupID = "old-" + mechanism
					requireReads(t, cfg)
				})
				t.Run(mechanism+" with a wrong password", func(t *testing.T) {
					requireRefused(t, f.passwordTo("SASL", mechanism, alice, wrongPassword), "sasl")
				})
			}
			t.Run("a mechanism that is not offered", func(t *testing.T) {
				cfg := f.saslTo("SASL")
				cfg.SASLMechanism, cfg.SASLOAuthTokenProvider = "OAUTHBEARER", unsecured{}
				requireUnauthenticated(t, cfg, "PLAIN", "OAUTHBEARER")
			})
			t.Run("GSSAPI", func(t *testing.T) {
				kdc.Need(t)
				requireReads(t, f.kerberosTo(t, "SASL", gssapi.Config{Principal: alice, Password: kerberosPassword}))
			})
		})
	}
}

// newOldFixture starts a release whose brokers take the settings of SASL from a file
// of Java's.
func newOldFixture(t *testing.T, release string) *fixture {
	f := &fixture{dir: t.TempDir()}
	mechanisms := "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
	jaas := plainLogin(alice, alicePassword) + "\norg.apache.kafka.common.security.scram.ScramLoginModule required;\n"
	opts := []broker.Option{
		broker.Listeners(broker.Listener{Name: "SASL", Security: "SASL_PLAINTEXT"}),
		broker.Property("sasl.kerberos.service.name", "kafka"),
		broker.ScramUser(alice, alicePassword),
	}
	if kdc.Installed() {
		f.kdc = kdc.Start(t)
		f.kdc.Report(t)
		opts = append(opts, kerberos(t, f.kdc)...)
		jaas += krb5Login(f.kdc.Keytab(t, servicePrincipal), servicePrincipal) + "\n"
		mechanisms += ",GSSAPI"
		// The other way for brokers to sign: by a key of their own.
		opts = append(opts, broker.JavaProperty("sun.security.krb5.acceptor.subkey", "true"))
	}
	file := filepath.Join(f.dir, "jaas.conf")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "KafkaServer {\n%s};\n", jaas), 0o600))
	opts = append(opts,
		broker.Property("sasl.enabled.mechanisms", mechanisms),
		broker.JavaProperty("java.security.auth.login.config", file),
		broker.JavaProperty("zookeeper.sasl.client", "false"))
	f.Cluster = broker.Start(t, release, opts...)
	f.java = java.For(t, f.Cluster)
	f.java.CreateTopic(t, topic, 3, nil)
	fill(t, f.java, topic, events)
	return f
}

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
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/own"
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

// B38: 0.9 knows no SaslHandshake: a connection begins with the tokens of GSSAPI. Its
// listeners have the names of their protocols.
func TestKerberosOf09(t *testing.T) {
	const oldest, listener = "0.9.0.1", "SASL_PLAINTEXT"
	t.Parallel()
	broker.NeedJava(t)
	kdc.Need(t)
	f := &fixture{dir: t.TempDir(), kdc: kdc.Start(t)}
	f.kdc.Report(t)
	opts := kerberos(t, f.kdc)
	file := filepath.Join(f.dir, "jaas.conf")
	login := krb5Login(f.kdc.Keytab(t, servicePrincipal), servicePrincipal)
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "KafkaServer {\n%s\n};\n", login), 0o600))
	opts = append(opts,
		broker.Listeners(broker.Listener{Name: listener, Security: listener}),
		broker.Property("sasl.kerberos.service.name", "kafka"),
		broker.JavaProperty("java.security.auth.login.config", file),
		broker.JavaProperty("zookeeper.sasl.client", "false"))
	f.Cluster = broker.Start(t, oldest, opts...)
	clients := own.Start(t, f.Cluster)
	clients.CreateTopic(t, topic, 3, nil)
	records := make([]outside.Record, events)
	for i := range records {
		records[i] = outside.To(topic, int32(i%3), "", fmt.Sprint(i))
	}
	clients.Produce(t, nil, records...)

	credentials := gssapi.Config{Principal: alice, Password: kerberosPassword}
	t.Run("APIVersion 0.9", func(t *testing.T) {
		cfg := f.kerberosTo(t, listener, credentials)
		cfg.APIVersion, cfg.GroupID = "0.9", "kerberos"
		requireReads(t, cfg)
	})
	t.Run("no APIVersion", func(t *testing.T) {
		requireRefused(t, f.kerberosTo(t, listener, credentials), `set APIVersion to "0.9"`)
	})
}

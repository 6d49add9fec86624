//go:build unix

package secure

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/contrib/gssapi"
	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/kdc"
)

// The brokers are dialled by their address.
const servicePrincipal = "kafka/127.0.0.1@" + kdc.Realm

func krb5Login(keytab, principal string) string {
	return fmt.Sprintf(`com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="%s" principal="%s";`, keytab, principal)
}

// kerberos makes the principals and gives the brokers' options.
func kerberos(t *testing.T, k *kdc.KDC) []broker.Option {
	k.Service(t, servicePrincipal)
	k.User(t, "alice", kerberosPassword)
	return []broker.Option{broker.JavaProperty("java.security.krb5.conf", k.Conf())}
}

const kerberosPassword = "alice's kerberos Pa55word"

// kerberosTo is how to reach a listener with Kerberos.
func (f *fixture) kerberosTo(t *testing.T, listener string, cfg gssapi.Config) kafka.Config {
	t.Helper()
	if cfg.ConfigFile == "" {
		cfg.ConfigFile = f.kdc.Conf()
	}
	auth, err := gssapi.New(cfg)
	require.NoError(t, err)
	to := f.saslTo(listener)
	to.SASLMechanism, to.SASL = gssapi.Mechanism, auth
	return to
}

func TestKerberos(t *testing.T) {
	on(t, func(t *testing.T, f *fixture) {
		kdc.Need(t)
		for name, cfg := range f.kerberosCredentials(t) {
			for _, listener := range []string{"SASL", "SASLTLS"} {
				t.Run(name+" to "+listener, func(t *testing.T) {
					requireReads(t, f.kerberosTo(t, listener, cfg))
				})
			}
		}
		for _, enctype := range []string{
			"aes128-cts-hmac-sha1-96", "aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha256-128", "aes256-cts-hmac-sha384-192",
		} {
			t.Run(enctype, func(t *testing.T) {
				requireReads(t, f.kerberosTo(t, "SASL", gssapi.Config{
					ConfigFile: f.kdc.ConfWith(t, enctype), Principal: alice, Password: kerberosPassword,
				}))
			})
		}
		t.Run("in a group, with the names of the brokers in the consumer's Config", func(t *testing.T) {
			cfg := f.kerberosTo(t, "SASL", gssapi.Config{Principal: alice, Password: kerberosPassword, ServiceName: "nosuch"})
			cfg.GroupID = "kerberos"
			cfg.SASLKerberosServiceName, cfg.SASLKerberosDomainName = "kafka", "127.0.0.1"
			requireReads(t, cfg)
		})
		t.Run("a wrong password", func(t *testing.T) {
			cfg := f.kerberosTo(t, "SASL", gssapi.Config{Principal: alice, Password: wrongPassword})
			requireUnauthenticated(t, cfg, "gssapi")
		})
		t.Run("an unknown user", func(t *testing.T) {
			cfg := f.kerberosTo(t, "SASL", gssapi.Config{Principal: "nobody", Password: wrongPassword})
			requireUnauthenticated(t, cfg, "KDC_ERR_C_PRINCIPAL_UNKNOWN")
		})
		t.Run("a service that the KDC does not know", func(t *testing.T) {
			cfg := f.kerberosTo(t, "SASL", gssapi.Config{Principal: alice, Password: kerberosPassword, ServiceName: "nosuch"})
			requireUnauthenticated(t, cfg, "nosuch/127.0.0.1", "KDC_ERR_S_PRINCIPAL_UNKNOWN")
		})
		t.Run("a ticket for another service", func(t *testing.T) {
			f.kdc.Service(t, "other/127.0.0.1")
			cfg := f.kerberosTo(t, "SASL", gssapi.Config{Principal: alice, Password: kerberosPassword, ServiceName: "other"})
			requireUnauthenticated(t, cfg, "SASL_AUTHENTICATION_FAILED")
		})
	})
}

// kerberosCredentials are the ways to log in.
func (f *fixture) kerberosCredentials(t *testing.T) map[string]gssapi.Config {
	return map[string]gssapi.Config{
		"password":         {Principal: alice, Password: kerberosPassword},
		"keytab":           {Principal: alice + "@" + kdc.Realm, Keytab: f.kdc.Keytab(t, alice)},
		"credential cache": {CredentialCache: f.kdc.Kinit(t, alice, kerberosPassword)},
	}
}

//go:build unix

// Package secure holds the tests of TLS, SASL and authorization against real
// brokers. They share one Kafka 4.4.0 with a listener for each way to connect.
package secure

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/certs"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/kdc"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

func TestMain(m *testing.M) { proc.Main(m) }

// release is the one that most tests use.
const release = "4.4.0"

// The users of PLAIN and SCRAM. The odd ones have what mechanisms and configuration
// files treat specially. Brokers take names for SCRAM in ASCII alone.
const (
	alice, alicePassword = "alice", "alice's-Pa55word"
	odd, oddPassword     = `we=ird, "quo\ted" 'Ünï' €`, `p=a,s "s\w'ö rd %2C=3D €`
	oddASCII             = `we=ird, "quo\ted" 'user' =2C`
)

// topic is what all read; events is how many records it has.
const (
	topic  = "events"
	events = 30
)

// fixture is what the tests share.
type fixture struct {
	*broker.Cluster
	java   *java.Driver
	dir    string
	ca     *certs.Authority
	right  certs.Certificate // of the brokers
	client certs.Certificate
	kdc    *kdc.KDC // nil: not installed
}

var shared struct {
	sync.Once
	fixture *fixture
}

// on runs a test against the shared cluster, in a subtest named after its release.
func on(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Run(release, func(t *testing.T) {
		broker.NeedJava(t)
		shared.Do(func() { shared.fixture = newFixture(t) })
		require.NotNil(t, shared.fixture, "the cluster did not start")
		// Shows the brokers' log with a failed test.
		shared.fixture.Cluster = broker.SharedAs(t, "secure", release)
		if shared.fixture.kdc != nil {
			shared.fixture.kdc.Report(t)
		}
		test(t, shared.fixture)
	})
}

func newFixture(t *testing.T) *fixture {
	dir, err := os.MkdirTemp("", "secure-")
	require.NoError(t, err)
	proc.AtExit(func() { _ = os.RemoveAll(dir) })
	f := &fixture{dir: dir, ca: certs.New(t, dir, "ca")}
	f.right = f.ca.Issue(t, certs.Leaf{Name: "broker", DNS: []string{"localhost"}, IPs: []string{"127.0.0.1"}})
	f.client = f.ca.Issue(t, certs.Leaf{Name: "client"})

	var opts []broker.Option
	if kdc.Installed() {
		f.kdc = kdc.Start(t)
		opts = append(opts, kerberos(t, f.kdc)...)
	}
	opts = append(opts, f.listeners(t)...)
	f.Cluster = broker.SharedAs(t, "secure", release, opts...)
	f.java = java.For(t, f.Cluster)
	f.java.CreateTopic(t, topic, 3, nil)
	fill(t, f.java, topic, events)
	return f
}

func fill(t *testing.T, d *java.Driver, topic string, n int) {
	t.Helper()
	records := make([]outside.Record, n)
	for i := range records {
		records[i] = outside.To(topic, int32(i%3), "", fmt.Sprint(i))
	}
	d.Produce(t, nil, records...)
}

// serverCertificates are the listeners that speak TLS, each with its certificate.
func (f *fixture) serverCertificates(t *testing.T) map[string]certs.Certificate {
	foreign := certs.New(t, f.dir, "foreign-ca")
	return map[string]certs.Certificate{
		"MUTUAL": f.right, "ONEWAY": f.right, "SASLTLS": f.right, "RENAMED": f.right,
		"WRONGNAME": f.ca.Issue(t, certs.Leaf{Name: "wrongname", DNS: []string{"other.test"}}),
		"NOIPSAN":   f.ca.Issue(t, certs.Leaf{Name: "127.0.0.1", DNS: []string{"localhost"}}),
		"EXPIRED": f.ca.Issue(t, certs.Leaf{
			Name: "expired", IPs: []string{"127.0.0.1"}, Start: time.Now().Add(-48 * time.Hour), End: time.Now().Add(-24 * time.Hour),
		}),
		"FOREIGN": foreign.Issue(t, certs.Leaf{Name: "foreign", IPs: []string{"127.0.0.1"}}),
	}
}

func (f *fixture) listeners(t *testing.T) []broker.Option {
	mechanisms := []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}
	if f.kdc != nil {
		mechanisms = append(mechanisms, "GSSAPI")
	}
	list := []broker.Listener{
		{Name: "SASL", Security: "SASL_PLAINTEXT"},
		{Name: "REAUTH", Security: "SASL_PLAINTEXT"},
		{Name: "ONLYPLAIN", Security: "SASL_PLAINTEXT"},
	}
	p := map[string]string{
		"authorizer.class.name":                           "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                                     "User:ANONYMOUS",
		"allow.everyone.if.no.acl.found":                  "true",
		"sasl.enabled.mechanisms":                         strings.Join(mechanisms, ","),
		"ssl.truststore.type":                             "PEM",
		"ssl.truststore.location":                         f.ca.File,
		"sasl.kerberos.service.name":                      "kafka",
		"listener.name.mutual.ssl.client.auth":            "required",
		"listener.name.reauth.connections.max.reauth.ms":  fmt.Sprint(sessionLifetime.Milliseconds()),
		"listener.name.onlyplain.sasl.enabled.mechanisms": "PLAIN",
	}
	for name, c := range f.serverCertificates(t) {
		l := broker.Listener{Name: name, Security: "SSL"}
		switch name {
		case "SASLTLS":
			l.Security = "SASL_SSL"
		case "RENAMED":
			l.Host = "other.test"
		}
		list = append(list, l)
		prefix := "listener.name." + strings.ToLower(name) + ".ssl.keystore."
		p[prefix+"type"], p[prefix+"location"] = "PEM", c.Store
	}
	for _, name := range []string{"sasl", "sasltls", "reauth", "onlyplain"} {
		prefix := "listener.name." + name
		p[prefix+".plain.sasl.jaas.config"] = plainLogin(alice, alicePassword, odd, oddPassword)
		for _, m := range []string{"scram-sha-256", "scram-sha-512"} {
			p[prefix+"."+m+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
		p[prefix+".oauthbearer.sasl.jaas.config"] =
			`org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`
		if f.kdc != nil {
			p[prefix+".gssapi.sasl.jaas.config"] = krb5Login(f.kdc.Keytab(t, servicePrincipal), servicePrincipal)
		}
	}
	return []broker.Option{
		broker.Listeners(list...), broker.Properties(p),
		broker.ScramUser(alice, alicePassword), broker.ScramUser(oddASCII, oddPassword),
	}
}

// plainLogin is the setting for PLAIN with users and their passwords in turn.
func plainLogin(users ...string) string {
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	login := "org.apache.kafka.common.security.plain.PlainLoginModule required"
	for i := 0; i < len(users); i += 2 {
		login += " " + quote("user_"+users[i]) + "=" + quote(users[i+1])
	}
	return login + ";"
}

// tool runs a command-line tool of Kafka against the shared cluster.
func (f *fixture) tool(t *testing.T, class string, args ...string) {
	t.Helper()
	line, err := broker.JVM(f.Version, "128m")
	require.NoError(t, err)
	line = append(append(line, class, "--bootstrap-server", f.Addr(1)), args...)
	out, err := exec.Command(line[0], line[1:]...).CombinedOutput()
	require.NoError(t, err, "%s: %s", filepath.Base(class), out)
}

package kafka

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/certs"
)

func TestKeysOfTLSFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		m    map[string]string
		want Config
	}{
		"Java's": {map[string]string{
			"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem", "ssl.keystore.type": "pem",
			"ssl.keystore.location": "mine.pem", "ssl.key.password": "p", "ssl.endpoint.identification.algorithm": "",
			"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2, TLSv1.3",
		}, Config{
			SecurityProtocol: SecuritySSL, SSLCAFile: "ca.pem", SSLCertFile: "mine.pem", SSLPassword: "p", SSLSkipHostnameCheck: true,
			SSLCiphers: []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"},
		}},
		"librdkafka's": {map[string]string{
			"security.protocol": "ssl", "ssl.ca.location": "ca.pem", "ssl.certificate.location": "cert.pem", "ssl.key.location": "key.pem",
			"ssl.crl.location": "crl.pem", "ssl.cipher.suites": "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256",
			"ssl.endpoint.identification.algorithm": "https", "enable.ssl.certificate.verification": "true",
		}, Config{
			SecurityProtocol: SecuritySSL, SSLCAFile: "ca.pem", SSLCertFile: "cert.pem", SSLKeyFile: "key.pem", SSLCRLFile: "crl.pem",
			SSLCiphers: []string{"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := ConfigFromMap(tt.m)
			require.NoError(t, err)
			require.Equal(t, tt.want, c)
			require.NoError(t, c.validate())
		})
	}
}

// inOneLine writes PEM as it stands in properties whose lines go on.
func inOneLine(pem []byte, between string) string {
	return strings.ReplaceAll(strings.TrimSpace(string(pem)), "\n", between)
}

func TestPEMInsideProperties(t *testing.T) {
	ca := certs.New("ca")
	mine, server := ca.Issue(nil), ca.Issue([]string{"node1.test", "127.0.0.1"})
	option, _ := tlsCluster(func(int32) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{server.TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
	})
	for name, between := range map[string]string{"lines": `\n`, "spaces": " ", "nothing": "\\\n  ", "lines that go on": "\\n\\\n"} {
		t.Run(name, func(t *testing.T) {
			realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				text := strings.Join([]string{
					"bootstrap.servers=" + strings.Join(b.Addrs(), ","), "security.protocol=SSL",
					"ssl.truststore.type=PEM", "ssl.truststore.certificates=" + inOneLine(ca.PEM(), between),
					"ssl.keystore.type=PEM", "ssl.keystore.certificate.chain=" + inOneLine(mine.PEM(), between),
					"ssl.keystore.key=" + inOneLine(mine.KeyPEM(), between),
				}, "\n")
				cfg, err := ConfigFromProperties(strings.NewReader(text))
				require.NoError(t, err)
				cfg.Dialer, cfg.Logger = b.Dial, fast(b).Logger
				c := openConsumer(t, patient(cfg))
				_, err = c.EndOffsets(t.Context(), tp0)
				require.NoError(t, err)
			}, option)
		})
	}
}

func TestPEMInsideValuesBesideFiles(t *testing.T) {
	ca := certs.New("ca")
	mine := ca.Issue(nil)
	c, err := ConfigFromMap(map[string]string{
		"security.protocol": "ssl", "ssl.ca.location": writeFile(t, "ca.pem", ca.PEM()), "ssl.certificate.pem": string(mine.PEM()), "ssl.key.pem": string(mine.KeyPEM()),
		"ssl.endpoint.identification.algorithm": "none", "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256",
	})
	require.NoError(t, err)
	require.NoError(t, c.validate())
	require.True(t, c.TLS.InsecureSkipVerify, "the name is not checked")
	require.NotNil(t, c.TLS.VerifyConnection, "the chain is")
	require.Equal(t, uint16(tls.VersionTLS13), c.TLS.MinVersion)
	require.Equal(t, Config{SecurityProtocol: SecuritySSL, TLS: c.TLS}, c, "no field of files is left beside TLS")

	c, err = ConfigFromMap(map[string]string{"ssl.truststore.certificates": string(ca.PEM())})
	require.NoError(t, err)
	require.ErrorContains(t, c.validate(), "SecurityProtocol PLAINTEXT does not use it", "PLAINTEXT is Java's default")
}

func TestFaultsOfPEMShowNothingOfIt(t *testing.T) {
	ca := certs.New("ca")
	mine, other := ca.Issue(nil), ca.Issue(nil)
	broken := "-----BEGIN PRIVATE KEY-----\nU0VTQU1F\n-----END PRIVATE KEY-----"
	for name, tt := range map[string]struct {
		m    map[string]string
		key  string
		says string
	}{
		"no PEM":                       {map[string]string{"ssl.truststore.certificates": "SESAME"}, "ssl.truststore.certificates", "no PEM certificate"},
		"a key without its chain":      {map[string]string{"ssl.keystore.key": "SESAME"}, "ssl.keystore.key", "it needs ssl.keystore.certificate.chain"},
		"a chain without a key":        {map[string]string{"ssl.keystore.certificate.chain": string(mine.PEM())}, "ssl.keystore.certificate.chain", "no PEM private key"},
		"a key that is broken":         {map[string]string{"ssl.keystore.certificate.chain": string(mine.PEM()), "ssl.keystore.key": broken}, "ssl.keystore.key", "failed to parse"},
		"the key of another":           {map[string]string{"ssl.keystore.certificate.chain": string(mine.PEM()), "ssl.keystore.key": string(other.KeyPEM())}, "ssl.keystore.key", "does not match"},
		"a password for an open key":   {map[string]string{"ssl.keystore.certificate.chain": string(mine.PEM()), "ssl.keystore.key": string(mine.KeyPEM()), "ssl.key.password": "SESAME"}, "ssl.key.password", "not encrypted"},
		"a file and PEM":               {map[string]string{"ssl.truststore.location": "x", "ssl.truststore.certificates": string(ca.PEM())}, "ssl.truststore.certificates", "together with ssl.truststore.location"},
		"a file that is not there":     {map[string]string{"ssl.keystore.location": "/none", "ssl.truststore.certificates": string(ca.PEM())}, "ssl.keystore.location", "no such file"},
		"PEM in place of a file":       {map[string]string{"ssl.keystore.location": "-----BEGIN SESAME"}, "", ""},
		"an unknown suite":             {map[string]string{"ssl.truststore.certificates": string(ca.PEM()), "ssl.cipher.suites": "HIGH"}, "ssl.cipher.suites", `"HIGH"`},
		"a key broken into other keys": {map[string]string{"MIIEvQIBADANBgkqhkiG9w0BAQEFAASESAME": "", "password": "SESAME", "SESAME;": ""}, "(hidden)", "not a key"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := ConfigFromMap(tt.m)
			if tt.key != "" {
				require.Equal(t, tt.key, keyFaults(t, err)[0].Key)
				require.ErrorContains(t, err, tt.says)
			}
			for _, text := range []string{fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", keyFaults(t, err)), c.String(), fmt.Sprint(c.validate())} {
				for _, secret := range []string{"SESAME", "U0VTQU1F", "MII"} {
					require.NotContains(t, text, secret)
				}
			}
		})
	}
}

const javaModules = "org.apache.kafka.common.security."

func TestKeysOfSASL(t *testing.T) {
	for name, tt := range map[string]struct {
		m    map[string]string
		want Config
	}{
		"PLAIN": {map[string]string{
			"sasl.mechanism": "PLAIN", "sasl.jaas.config": javaModules + `plain.PlainLoginModule required username="alice" password="a\"b;c";`,
		}, Config{SASLMechanism: "PLAIN", SASLUsername: "alice", SASLPassword: `a"b;c`}},
		"SCRAM": {map[string]string{
			"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": javaModules + "scram.ScramLoginModule REQUIRED\n username='alice' password='p';",
		}, Config{SASLMechanism: "SCRAM-SHA-512", SASLUsername: "alice", SASLPassword: "p"}},
		"librdkafka's": {map[string]string{
			"sasl.mechanisms": "SCRAM-SHA-256", "sasl.username": "alice", "sasl.password": " p ",
		}, Config{SASLMechanism: "SCRAM-SHA-256", SASLUsername: "alice", SASLPassword: " p "}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.m["security.protocol"], tt.want.SecurityProtocol = "SASL_SSL", SecuritySASLSSL
			c, err := ConfigFromMap(tt.m)
			require.NoError(t, err)
			require.Equal(t, tt.want, c)
			require.NoError(t, c.validate())
		})
	}
}

func TestKeysOfTokens(t *testing.T) {
	asked := make(chan string, 1)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		id, secret, _ := req.BasicAuth()
		asked <- id + " " + secret + " " + req.FormValue("scope")
		fmt.Fprint(w, `{"access_token":"tok","expires_in":300}`)
	}))
	defer endpoint.Close()
	for name, m := range map[string]map[string]string{
		"Java's since 4.1": {
			"sasl.oauthbearer.client.credentials.client.id": "me", "sasl.oauthbearer.client.credentials.client.secret": "s", "sasl.oauthbearer.scope": "read",
			"sasl.jaas.config": javaModules + `oauthbearer.OAuthBearerLoginModule required extension_pool="p1";`,
		},
		"Java's before": {
			"sasl.jaas.config":                  javaModules + `oauthbearer.OAuthBearerLoginModule required clientId="me" clientSecret="s" scope="read" extension_pool="p1";`,
			"sasl.login.callback.handler.class": javaModules + "oauthbearer.secured.OAuthBearerLoginCallbackHandler",
		},
		"librdkafka's": {
			"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": "s", "sasl.oauthbearer.scope": "read",
			"sasl.oauthbearer.extensions": "pool=p1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m["sasl.mechanism"], m["security.protocol"], m["sasl.oauthbearer.token.endpoint.url"] = "OAUTHBEARER", "SASL_SSL", endpoint.URL
			c, err := ConfigFromMap(m)
			require.NoError(t, err)
			require.NoError(t, c.validate())
			token, err := c.SASLOAuthTokenProvider.Token(t.Context())
			require.NoError(t, err)
			require.Equal(t, "tok", token.Value)
			require.Equal(t, map[string]string{"pool": "p1"}, token.Extensions)
			require.Equal(t, "me s read", <-asked)
		})
	}
}

func TestKerberosNamesItsModule(t *testing.T) {
	c, err := ConfigFromMap(map[string]string{
		"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "broker",
		"sasl.jaas.config": `com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/sesame.keytab" principal="c@R";`,
	})
	require.ErrorContains(t, err, gssapiImport)
	require.NotContains(t, err.Error(), "sesame")
	require.True(t, keyFaults(t, err)[0].Unused)
	require.Equal(t, "broker", c.SASLKerberosServiceName)
	c.SASL = fakeKerberos{}
	c.SASLMechanism = "TEST"
	require.NoError(t, c.validate())
}

func TestFaultsOfSASLShowNoSecret(t *testing.T) {
	plain := javaModules + "plain.PlainLoginModule required username=\"sesame-user\" password=\"sesame\""
	oauth := func(url, id, secret string) map[string]string {
		return map[string]string{
			"sasl.oauthbearer.token.endpoint.url": url, "sasl.oauthbearer.client.id": id, "sasl.oauthbearer.client.secret": secret,
		}
	}
	for name, tt := range map[string]struct {
		m    map[string]string
		key  string
		says string
	}{
		"no semicolon":             {map[string]string{"sasl.jaas.config": plain}, "sasl.jaas.config", "line 1: it must end with a semicolon"},
		"two modules":              {map[string]string{"sasl.jaas.config": plain + ";\n" + plain + ";"}, "sasl.jaas.config", "one login module"},
		"an unknown module":        {map[string]string{"sasl.jaas.config": "sesame.LoginModule required;"}, "sasl.jaas.config", "[OAuthBearerLoginModule PlainLoginModule ScramLoginModule]"},
		"an unknown option":        {map[string]string{"sasl.jaas.config": plain + " tokenauth=sesame;"}, "sasl.jaas.config", "the option tokenauth of its PlainLoginModule is not supported"},
		"a password with a quote":  {map[string]string{"sasl.jaas.config": javaModules + `plain.PlainLoginModule required password="a" sesame="x";`}, "sasl.jaas.config", "an option of its PlainLoginModule is not supported"},
		"another mechanism":        {map[string]string{"sasl.jaas.config": plain + ";", "sasl.mechanism": "SCRAM-SHA-256"}, "sasl.jaas.config", `its PlainLoginModule is for PLAIN, and sasl.mechanism is "SCRAM-SHA-256"`},
		"credentials twice":        {map[string]string{"sasl.jaas.config": plain + ";", "sasl.password": "sesame"}, "sasl.password", "together with sasl.jaas.config"},
		"two passwords":            {map[string]string{"sasl.oauthbearer.client.secret": "sesame1", "sasl.oauthbearer.client.credentials.client.secret": "sesame2"}, "sasl.oauthbearer.client.secret", "sets the same"},
		"a token without a secret": {oauth("https://id.test/sesame", "me", ""), "sasl.oauthbearer.client.credentials.client.secret", "needs it"},
		"a token over plain HTTP":  {oauth("http://sesame:sesame@id.test", "me", "sesame"), "sasl.oauthbearer.token.endpoint.url", "it must be https"},
		"a token from a file":      {oauth("file:///sesame", "me", "sesame"), "sasl.oauthbearer.token.endpoint.url", "https"},
		"extensions without =":     {map[string]string{"sasl.oauthbearer.extensions": "sesame"}, "sasl.oauthbearer.extensions", "name=value"},
		"a handler":                {map[string]string{"sasl.login.callback.handler.class": "org.example.Handler"}, "sasl.login.callback.handler.class", "a class of Java cannot be run"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := ConfigFromMap(tt.m)
			faults := keyFaults(t, err)
			require.Equal(t, tt.key, faults[0].Key, "%v", err)
			require.ErrorContains(t, err, tt.says)
			for _, text := range []string{fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", *faults[0]), c.String(), fmt.Sprint(c.validate())} {
				require.NotContains(t, text, "sesame")
			}
		})
	}
}

package kafka

import (
	"crypto/tls"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/assignors"
)

func control(string, string, syscall.RawConn) error { return nil }

func TestRulesBetweenFields(t *testing.T) {
	eager, cooperative := []assignors.Protocol{assignors.Eager}, []assignors.Protocol{assignors.Cooperative}
	tests := []struct {
		name  string
		cfg   Config
		field string // "" when all is well
		says  string
	}{
		{"fetch wait as long as the request timeout", Config{FetchMaxWait: time.Second, RequestTimeout: time.Second}, "FetchMaxWait", "less than RequestTimeout (1s)"},
		{"request timeout below the default fetch wait", Config{RequestTimeout: 100 * time.Millisecond}, "RequestTimeout", "greater than FetchMaxWait (500ms)"},
		{"no fetch wait with a short request timeout", Config{FetchMaxWait: -1, RequestTimeout: 100 * time.Millisecond}, "", ""},
		{"connections idle out before a request times out", Config{ConnectionsMaxIdle: 30 * time.Second}, "ConnectionsMaxIdle", "greater than RequestTimeout (30s)"},
		{"connections that never idle out", Config{ConnectionsMaxIdle: -1, RequestTimeout: time.Hour}, "", ""},
		{"session as short as the default heartbeat", Config{SessionTimeout: 3 * time.Second}, "SessionTimeout", "greater than HeartbeatInterval (3s)"},
		{"session and heartbeat shortened together", Config{SessionTimeout: 2 * time.Second, HeartbeatInterval: time.Second}, "", ""},
		{"answers larger than the guard allows", Config{FetchMaxBytes: 100_000_000}, "ReceiveMessageMaxBytes", "at least FetchMaxBytes + MaxPartitionFetchBytes + 1 MiB = 102097152"},
		{"guard exactly large enough", Config{FetchMaxBytes: 100_000_000, ReceiveMessageMaxBytes: 102097152}, "", ""},
		{"guard one byte short", Config{FetchMaxBytes: 100_000_000, ReceiveMessageMaxBytes: 102097151}, "ReceiveMessageMaxBytes", "at least"},
		{"receive buffer beside a dialer", Config{Dialer: aDialer, ReceiveBufferBytes: 1}, "ReceiveBufferBytes", "together with Dialer"},
		{"send buffer beside a dialer", Config{Dialer: aDialer, SendBufferBytes: 1}, "SendBufferBytes", "together with Dialer"},
		{"socket control beside a dialer", Config{Dialer: aDialer, SocketControl: control}, "SocketControl", "together with Dialer"},
		{"the system's buffers beside a dialer", Config{Dialer: aDialer, ReceiveBufferBytes: -1, SendBufferBytes: -1}, "", ""},
		{"socket settings without a dialer", Config{SocketControl: control, SendBufferBytes: 1}, "", ""},
		{"TLS alone means SSL", Config{TLS: &tls.Config{}}, "", ""},
		{"SSL with the system's authorities", Config{SecurityProtocol: SecuritySSL}, "", ""},
		{"TLS on a plain transport", Config{SecurityProtocol: SecurityPlaintext, TLS: &tls.Config{}}, "TLS", "PLAINTEXT does not use it"},
		{"TLS beside SSL fields", Config{TLS: &tls.Config{}, SSLCAFile: "f"}, "SSLCAFile", "together with TLS"},
		{"SSL fields on a plain transport", Config{SSLKeyFile: "f"}, "SSLKeyFile", "PLAINTEXT does not use it"},
		{"a SASL client", Config{SecurityProtocol: SecuritySASLPlaintext, SASL: fakeSASL{}}, "", ""},
		{"a SASL client over TLS", Config{SecurityProtocol: SecuritySASLSSL, SASL: &fakeSASL{}, TLS: &tls.Config{}}, "", ""},
		{"a SASL client that is a nil pointer", Config{SecurityProtocol: SecuritySASLSSL, SASL: (*fakeSASL)(nil)}, "SASL", "nil pointer"},
		{"SASL without a mechanism", Config{SecurityProtocol: SecuritySASLSSL}, "SASLMechanism", "SASL_SSL needs it, or SASL"},
		{"a SASL client that is not used", Config{SASL: fakeSASL{}}, "SASL", "PLAINTEXT does not use it"},
		{"a user name that is not used", Config{SASLUsername: "u", SecurityProtocol: SecuritySSL}, "SASLUsername", "SSL does not use it"},
		{"mechanism and client both", Config{SecurityProtocol: SecuritySASLSSL, SASL: fakeSASL{}, SASLMechanism: "PLAIN"}, "SASLMechanism", `SASL authenticates by "TEST"`},
		{"mechanism and client of the same name", Config{SecurityProtocol: SecuritySASLSSL, SASL: fakeSASL{}, SASLMechanism: "TEST"}, "", ""},
		{"a client beside a password", Config{SecurityProtocol: SecuritySASLSSL, SASL: fakeSASL{}, SASLPassword: "p"}, "SASLPassword", "SASL does not use it"},
		{"PLAIN", Config{SecurityProtocol: SecuritySASLSSL, SASLMechanism: "PLAIN", SASLUsername: "u", SASLPassword: "p"}, "", ""},
		{"PLAIN without a password", Config{SecurityProtocol: SecuritySASLSSL, SASLMechanism: "PLAIN", SASLUsername: "u"}, "SASLPassword", "SASLMechanism PLAIN needs it"},
		{"PLAIN beside a token", Config{SecurityProtocol: SecuritySASLSSL, SASLMechanism: "PLAIN", SASLOAuthTokenProvider: fakeTokens{}}, "SASLOAuthTokenProvider", "SASLMechanism PLAIN does not use it"},
		{"SCRAM", Config{SecurityProtocol: SecuritySASLPlaintext, SASLMechanism: "SCRAM-SHA-512", SASLUsername: "u", SASLPassword: "p"}, "", ""},
		{"SCRAM without a user", Config{SecurityProtocol: SecuritySASLPlaintext, SASLMechanism: "SCRAM-SHA-256", SASLPassword: "p"}, "SASLUsername", "needs it"},
		{"SCRAM beside Kerberos", Config{SecurityProtocol: SecuritySASLPlaintext, SASLMechanism: "SCRAM-SHA-256", SASLKerberosDomainName: "d"}, "SASLKerberosDomainName", "SCRAM-SHA-256 does not use it"},
		{"OAUTHBEARER", Config{SecurityProtocol: SecuritySASLSSL, SASLMechanism: "OAUTHBEARER", SASLOAuthTokenProvider: fakeTokens{}}, "", ""},
		{"OAUTHBEARER without a provider", Config{SecurityProtocol: SecuritySASLSSL, SASLMechanism: "OAUTHBEARER"}, "SASLOAuthTokenProvider", "needs it"},
		{"OAUTHBEARER with a nil pointer", Config{SecurityProtocol: SecuritySASLSSL, SASLMechanism: "OAUTHBEARER", SASLOAuthTokenProvider: (*fakeTokens)(nil)}, "SASLOAuthTokenProvider", "nil pointer"},
		{"GSSAPI without its client", Config{SecurityProtocol: SecuritySASLSSL, SASLMechanism: "GSSAPI"}, "SASLMechanism", "github.com/kafkaconsumer/kafka/contrib/gssapi"},
		{"Kerberos names with a client that takes none", Config{SecurityProtocol: SecuritySASLSSL, SASL: fakeSASL{}, SASLKerberosServiceName: "s"}, "SASLKerberosServiceName", "no KerberosClient"},
		{"Kerberos names with a client that takes them", Config{SecurityProtocol: SecuritySASLSSL, SASL: fakeKerberos{}, SASLMechanism: "TEST", SASLKerberosServiceName: "s"}, "", ""},
		{"a key without a certificate", Config{SecurityProtocol: SecuritySSL, SSLKeyFile: "f"}, "SSLKeyFile", "needs SSLCertFile"},
		{"a password without a certificate", Config{SecurityProtocol: SecuritySSL, SSLPassword: "p"}, "SSLPassword", "needs SSLCertFile"},
		{"a certificate and its key in one file", Config{SecurityProtocol: SecuritySSL, SSLCertFile: "f", SSLPassword: "p"}, "", ""},
		{"all SSL fields", Config{SecurityProtocol: SecuritySSL, SSLCAFile: "f", SSLCertFile: "f", SSLKeyFile: "f", SSLPassword: "p", SSLCRLFile: "f", SSLCiphers: []string{"TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, SSLSkipHostnameCheck: true}, "", ""},
		{"an OpenSSL list of suites", Config{SecurityProtocol: SecuritySSL, SSLCiphers: []string{"ECDHE+AESGCM:!aNULL"}}, "SSLCiphers", "list expressions are not supported"},
		{"a suite that Go lacks", Config{SecurityProtocol: SecuritySSL, SSLCiphers: []string{"DHE-RSA-AES256-GCM-SHA384"}}, "SSLCiphers", "Go does not have it"},
		{"an instance id without a group", Config{GroupInstanceID: "i"}, "GroupInstanceID", "needs a GroupID"},
		{"assignors without a common protocol", Config{PartitionAssignmentStrategy: []assignors.Assignor{fakeAssignor{"a", eager}, fakeAssignor{"b", cooperative}}}, "PartitionAssignmentStrategy", "no rebalance protocol that all of them support"},
		{"assignors that have the eager protocol in common", Config{PartitionAssignmentStrategy: []assignors.Assignor{fakeAssignor{"a", eager}, fakeAssignor{"b", []assignors.Protocol{1, 0}}}}, "", ""},
		{"an assignor listed twice", Config{PartitionAssignmentStrategy: []assignors.Assignor{assignors.Range{}, fakeAssignor{"range", eager}}}, "PartitionAssignmentStrategy", `"range" is listed twice`},
		{"an assignor without a name", Config{PartitionAssignmentStrategy: []assignors.Assignor{fakeAssignor{" ", eager}}}, "PartitionAssignmentStrategy", "has no name"},
		{"an assignor without a protocol", Config{PartitionAssignmentStrategy: []assignors.Assignor{fakeAssignor{"a", nil}}}, "PartitionAssignmentStrategy", "supports no rebalance protocol"},
		{"an assignor that is a nil pointer", Config{PartitionAssignmentStrategy: []assignors.Assignor{(*fakeAssignor)(nil)}}, "PartitionAssignmentStrategy", "assignor 0 is nil"},
		{"a metric reporter that is a nil pointer", Config{MetricReporters: []MetricReporter{(*fakeReporter)(nil)}}, "MetricReporters", "one of them is nil"},
		{"a mechanism that does not exist", Config{SASLMechanism: "plain", SecurityProtocol: SecuritySASLSSL}, "SASLMechanism", `"SCRAM-SHA-512"`},
		{"a release that does not exist", Config{APIVersion: "3"}, "APIVersion", "allowed are 0.8.0"},
		{"the oldest release", Config{APIVersion: "0.8.0"}, "", ""},
		{"a topic name of 249 characters", Config{Topics: []string{strings.Repeat("x", 249)}}, "", ""},
		{"a topic name of 250 characters", Config{Topics: []string{strings.Repeat("x", 250)}}, "Topics", "at most 249"},
		{"a topic name with a foreign letter", Config{Topics: []string{"größe"}}, "Topics", "'ö'"},
		{"a bare IPv6 address", Config{BootstrapServers: []string{"::1"}}, "BootstrapServers", "[::1]:9092"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			faults := faultsOf(t, tt.cfg)
			if tt.field == "" {
				require.Empty(t, faults)
				return
			}
			found := false
			for _, fault := range faults {
				found = found || fault.Field == tt.field && strings.Contains(fault.Reason, tt.says)
			}
			require.True(t, found, "%v", faults)
		})
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	c := Config{
		Topics:            []string{"good", "b@d", ""},
		BootstrapServers:  []string{"h:0,ok:1", "[::1"},
		GroupID:           " ",
		FetchMaxBytes:     -1,
		MaxPollRecords:    -5,
		SessionTimeout:    time.Second,
		AutoOffsetReset:   ResetByDuration(-time.Hour),
		SecurityProtocol:  "KERBEROS",
		IsolationLevel:    9,
		APIVersion:        "x",
		DefaultAPITimeout: -1,
	}
	require.ElementsMatch(t, []string{
		"Topics", "Topics", "BootstrapServers", "BootstrapServers", "GroupID", "FetchMaxBytes", "MaxPollRecords", "SessionTimeout",
		"AutoOffsetReset", "SecurityProtocol", "IsolationLevel", "APIVersion", "DefaultAPITimeout",
	}, faultyFields(t, c))

	err := c.validate()
	var first *ConfigError
	require.True(t, errors.As(err, &first))
	for _, text := range []string{
		`kafka: Config.Topics = "b@d": not a legal topic name: it has '@' in it`,
		`kafka: Config.BootstrapServers = "h:0": the port must be a number`,
		`kafka: Config.MaxPollRecords = -5: it must not be negative`,
		`kafka: Config.SessionTimeout = 1s: it must be greater than HeartbeatInterval (3s)`,
		`kafka: Config.AutoOffsetReset = by_duration:PT-1H: the duration must not be negative`,
		`kafka: Config.SecurityProtocol = "KERBEROS": allowed are ["PLAINTEXT" "SSL" "SASL_PLAINTEXT" "SASL_SSL"]`,
	} {
		require.ErrorContains(t, err, text)
	}
}

func TestAutoCommitNeedsAGroup(t *testing.T) {
	require.True(t, Config{}.withDefaults().DisableAutoCommit)
	require.False(t, Config{GroupID: "g"}.withDefaults().DisableAutoCommit)
	require.True(t, Config{GroupID: "g", DisableAutoCommit: true}.withDefaults().DisableAutoCommit)
}

func TestTLSAloneMeansSSL(t *testing.T) {
	require.Equal(t, SecuritySSL, Config{TLS: &tls.Config{}}.withDefaults().SecurityProtocol)
}

func TestSignsThatAreKept(t *testing.T) {
	c := Config{ConnectionsMaxIdle: -1, ConsumerTimeout: -1}.withDefaults()
	require.Negative(t, c.ConnectionsMaxIdle)
	require.Negative(t, c.ConsumerTimeout)
}

package kafka

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/assignors"
)

// secretive holds a secret in each place that a Config has for one, and in some
// where a user may put one by mistake.
func secretive() (c Config, secrets []string) {
	key := "-----BEGIN PRIVATE KEY-----\nsesame-key"
	c = Config{
		BootstrapServers:       []string{"user:sesame-url@broker:9092"},
		GroupID:                "billing",
		SecurityProtocol:       SecuritySASLSSL,
		TLS:                    &tls.Config{Certificates: []tls.Certificate{{PrivateKey: []byte("sesame-tls"), OCSPStaple: []byte("sesame-tls")}}},
		SSLKeyFile:             key,
		SSLPassword:            "sesame-ssl",
		SASLMechanism:          "PLAIN",
		SASLUsername:           "sesame-user",
		SASLPassword:           "sesame-sasl",
		SASLOAuthTokenProvider: fakeTokens{"sesame-token"},
		SASL:                   fakeSASL{"sesame-client"},
		MetricsSampleWindow:    -time.Second,
	}
	secrets = []string{"sesame", base64.StdEncoding.EncodeToString([]byte("\x00sesame-user\x00sesame-sasl"))}
	for _, s := range []string{"sesame-tls", "sesame-ssl", "sesame-sasl", "sesame-user", "sesame-token", "sesame-client", "sesame-url", "sesame-key"} {
		secrets = append(secrets, fmt.Sprintf("%x", s), fmt.Sprintf("%X", s), fmt.Sprintf("% x", s), fmt.Sprint([]byte(s)))
	}
	return c, secrets
}

func requireNoSecret(t *testing.T, secrets []string, text, where string) {
	t.Helper()
	for _, secret := range secrets {
		require.NotContains(t, text, secret, where)
	}
}

func TestNoVerbPrintsASecret(t *testing.T) {
	c, secrets := secretive()
	filled := c.withDefaults()
	type app struct {
		Name   string
		Config Config
	}
	type pointing struct{ Config *Config }
	for name, value := range map[string]any{
		"value":          c,
		"filled":         filled,
		"pointer":        &c,
		"inside":         app{"a", c},
		"pointer inside": pointing{&c},
		"slice":          []Config{c},
		"map":            map[string]*Config{"c": &c},
		"any":            []any{c, &c},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%T", "%10.3v", "%!"} {
			requireNoSecret(t, secrets, fmt.Sprintf(verb, value), name+" "+verb)
		}
		requireNoSecret(t, secrets, fmt.Sprintln(value), name)
		text, _ := json.Marshal(value)
		requireNoSecret(t, secrets, string(text), name+" as JSON")
	}
}

func TestAPointerInAnUnexportedFieldHidesAll(t *testing.T) {
	c, secrets := secretive()
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		requireNoSecret(t, secrets, fmt.Sprintf(verb, struct{ config *Config }{&c}), verb)
	}
}

func TestNoLogShowsASecret(t *testing.T) {
	c, secrets := secretive()
	var out bytes.Buffer
	options := &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, options), slog.NewJSONHandler(&out, options)} {
		log := slog.New(handler)
		log.Info("value", "config", c)
		log.Info("pointer", "config", &c)
		log.Info("inside", "app", struct{ Config Config }{c})
		log.With("config", c).WithGroup("g").Info("with", slog.Any("c", c))
	}
	requireNoSecret(t, secrets, out.String(), "log")
	require.Contains(t, out.String(), "config.GroupID=billing")
	require.Contains(t, out.String(), `"SASLPassword":"(hidden)"`)
}

func TestNoErrorShowsASecret(t *testing.T) {
	c, secrets := secretive()
	err := c.validate()
	require.ErrorContains(t, err, "Config.SASLPassword = (hidden)")
	require.ErrorContains(t, err, "Config.SSLPassword = (hidden)")
	require.ErrorContains(t, err, `Config.BootstrapServers = "(hidden)@broker:9092"`)
	for _, verb := range []string{"%v", "%+v", "%#v", "%q"} {
		requireNoSecret(t, secrets, fmt.Sprintf(verb, err), verb)
	}
	for _, fault := range faultsOf(t, c) {
		requireNoSecret(t, secrets, fmt.Sprintf("%+v %#v", *fault, fault), fault.Field)
	}
}

func TestConfigPrintsWhatIsSet(t *testing.T) {
	require.Equal(t, "kafka.Config{}", Config{}.String())
	require.Equal(t, `kafka.Config{SASLPassword: (hidden)}`, Config{SASLPassword: "p"}.GoString())
	require.Equal(t,
		`kafka.Config{BootstrapServers: ["a:1" "b"], GroupID: "g", FetchMaxWait: 2s, AutoOffsetReset: earliest, `+
			`PartitionAssignmentStrategy: ["roundrobin" "nil"], MaxPollRecords: 7, Dialer: (set), SecurityProtocol: "SASL_SSL", TLS: (set), `+
			`SASLPassword: (hidden), IsolationLevel: 1, RebalanceListener: (set)}`,
		fmt.Sprint(&Config{
			BootstrapServers:            []string{"a:1", "b"},
			GroupID:                     "g",
			FetchMaxWait:                2 * time.Second,
			AutoOffsetReset:             ResetEarliest,
			PartitionAssignmentStrategy: []assignors.Assignor{assignors.RoundRobin{}, nil},
			MaxPollRecords:              7,
			Dialer:                      aDialer,
			SecurityProtocol:            SecuritySASLSSL,
			TLS:                         &tls.Config{},
			SASLPassword:                "p",
			IsolationLevel:              ReadCommitted,
			RebalanceListener:           aListener,
		}))
	var none *Config
	require.NotPanics(t, func() { _ = fmt.Sprintf("%v %+v", none, none) })
}

package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"math"
	"net"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/assignors"
)

// A fieldRule is what holds for one field of Config. Exactly one of bad and
// anyValue is given unless the field is among the unbuilt ones.
type fieldRule struct {
	def      any    // what zero becomes; nil: it stays zero
	good     any    // a value that is kept as it is
	bad      []any  // values that are refused with an error about this field
	anyValue string // why there is nothing to refuse
	negative any    // what a negative value becomes; nil: it is kept or refused
}

var (
	aDialer   Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, errors.ErrUnsupported }
	aLogger          = slog.New(slog.DiscardHandler)
	aListener        = RebalanceListener{OnRevoked: func(context.Context, *Consumer, []TopicPartition) error { return nil }}
)

var fieldRules = map[string]fieldRule{
	"Topics":                           {good: []string{"a.b_c-D9"}, bad: []any{[]string{"a b"}, []string{""}, []string{"."}, []string{".."}}},
	"BootstrapServers":                 {def: []string{"localhost:9092"}, good: []string{"h:1,[::1]"}, bad: []any{[]string{""}, []string{"::1"}, []string{"h:x"}, []string{"http://h"}}},
	"ClientID":                         {def: "kafka-go-consumer-" + Version, good: "me", bad: []any{"\xff", strings.Repeat("x", 1<<15)}},
	"GroupID":                          {good: "g", bad: []any{" \t", "\xff", strings.Repeat("x", 1<<15)}},
	"FetchMinBytes":                    {def: int32(1), good: int32(7), negative: int32(0), anyValue: "a broker takes what it can get"},
	"FetchMaxWait":                     {def: 500 * time.Millisecond, good: time.Second, negative: time.Duration(0), bad: []any{30 * time.Second, time.Duration(math.MaxInt64)}},
	"FetchMaxBytes":                    {def: int32(52428800), good: int32(1), bad: []any{int32(-1)}},
	"MaxPartitionFetchBytes":           {def: int32(1048576), good: int32(1), bad: []any{int32(-1)}},
	"RequestTimeout":                   {def: 30 * time.Second, good: time.Minute, bad: []any{-time.Second, 9 * time.Minute}},
	"RetryBackoff":                     {def: 100 * time.Millisecond, good: time.Hour, negative: time.Duration(0), anyValue: "RetryBackoffMax bounds it"},
	"RetryBackoffMax":                  {def: time.Second, good: time.Hour, bad: []any{-time.Second}},
	"ReconnectBackoff":                 {def: 50 * time.Millisecond, good: time.Hour, negative: time.Duration(0), anyValue: "ReconnectBackoffMax bounds it"},
	"ReconnectBackoffMax":              {def: time.Second, good: time.Hour, bad: []any{-time.Second}},
	"MaxInFlightRequestsPerConnection": {def: 5, good: 1, bad: []any{-1}},
	"AutoOffsetReset":                  {good: ResetByDuration(time.Hour), bad: []any{ResetByDuration(-1)}},
	"DisableAutoCommit":                {def: true, good: true, anyValue: "a boolean (true without a group)"},
	"AutoCommitInterval":               {def: 5 * time.Second, good: time.Hour, negative: time.Duration(0), anyValue: "any interval will do"},
	"OnCommit":                         {good: func(map[TopicPartition]OffsetAndMetadata, error) {}, anyValue: "a callback"},
	"SkipCRCCheck":                     {good: true, anyValue: "a boolean"},
	"MetadataMaxAge":                   {def: 5 * time.Minute, good: time.Second, negative: time.Duration(0), anyValue: "any age will do"},
	"PartitionAssignmentStrategy": {
		def:  []assignors.Assignor{assignors.Range{}, assignors.RoundRobin{}},
		good: []assignors.Assignor{assignors.RoundRobin{}},
		bad:  []any{[]assignors.Assignor{nil}, []assignors.Assignor{fakeAssignor{}}, []assignors.Assignor{assignors.Range{}, assignors.Range{}}},
	},
	"MaxPollRecords":               {def: 500, good: 1, bad: []any{-1}},
	"MaxPollInterval":              {def: 5 * time.Minute, good: time.Second, bad: []any{-time.Second, time.Microsecond, time.Duration(math.MaxInt64)}},
	"SessionTimeout":               {def: 10 * time.Second, good: 4 * time.Second, bad: []any{-time.Second, time.Microsecond, time.Duration(math.MaxInt64)}},
	"HeartbeatInterval":            {def: 3 * time.Second, good: time.Second, bad: []any{-time.Second, 10 * time.Second}},
	"ReceiveBufferBytes":           {good: 65536, bad: []any{-2, math.MaxInt32 + 1}},
	"SendBufferBytes":              {good: -1, bad: []any{-2, math.MaxInt32 + 1}},
	"SocketControl":                {good: func(string, string, syscall.RawConn) error { return nil }, anyValue: "a callback; beside Dialer it is refused"},
	"Dialer":                       {good: aDialer, anyValue: "a callback"},
	"ConsumerTimeout":              {good: time.Second, anyValue: "negative means not to wait"},
	"SecurityProtocol":             {def: SecurityPlaintext, good: SecuritySSL, bad: []any{SecurityProtocol("TLS"), SecurityProtocol("ssl")}},
	"TLS":                          {good: &tls.Config{ServerName: "s"}, anyValue: "crypto/tls judges it; beside PLAINTEXT it is refused"},
	"SSLSkipHostnameCheck":         {good: true, bad: []any{true}},
	"SSLCAFile":                    {good: "ca.pem", bad: []any{"unused.pem", "-----BEGIN CERTIFICATE-----"}},
	"SSLCertFile":                  {good: "cert.pem", bad: []any{"unused.pem"}},
	"SSLKeyFile":                   {good: "key.pem", bad: []any{"unused.pem"}},
	"SSLPassword":                  {good: "secret", bad: []any{"unused"}},
	"SSLCRLFile":                   {good: "crl.pem", bad: []any{"unused.pem"}},
	"SSLCiphers":                   {good: []string{"ECDHE-RSA-AES128-GCM-SHA256"}, bad: []any{[]string{""}, []string{"HIGH:!aNULL"}, []string{"DHE-RSA-AES256-SHA"}, []string{"unknown"}}},
	"APIVersion":                   {good: "0.10.1", bad: []any{"0.7", "newest", "99.0"}},
	"APIVersionAutoTimeout":        {def: 2 * time.Second, good: time.Second, bad: []any{-time.Second}},
	"ConnectionsMaxIdle":           {def: 9 * time.Minute, good: -time.Second, bad: []any{time.Second}},
	"MetricReporters":              {good: []MetricReporter{fakeReporter{}}, bad: []any{[]MetricReporter{nil}, []MetricReporter{(*fakeReporter)(nil)}}},
	"MetricsNumSamples":            {def: 2, good: 3, bad: []any{-1}},
	"MetricsSampleWindow":          {def: 30 * time.Second, good: time.Second, bad: []any{-time.Second}},
	"IncludeInternalTopics":        {good: true, anyValue: "a boolean"},
	"SASLMechanism":                {good: "PLAIN", bad: []any{"LOGIN"}},
	"SASLUsername":                 {good: "user", bad: []any{"a\x00b", "\xff"}},
	"SASLPassword":                 {good: "secret", bad: []any{"a\x00b", "\xff"}},
	"SASLKerberosServiceName":      {good: "broker", bad: []any{"unused"}},
	"SASLKerberosDomainName":       {good: "example.org", bad: []any{"unused"}},
	"SASLOAuthTokenProvider":       {good: fakeTokens{}, bad: []any{(*fakeTokens)(nil)}},
	"SASL":                         {good: fakeSASL{}, bad: []any{(*fakeSASL)(nil)}},
	"GroupInstanceID":              {good: "i1", bad: []any{"a b", ".."}},
	"GroupProtocol":                {def: GroupProtocolClassic, good: GroupProtocolConsumer, bad: []any{GroupProtocol("other")}},
	"GroupRemoteAssignor":          {good: "uniform"},
	"IsolationLevel":               {good: ReadCommitted, bad: []any{IsolationLevel(2), IsolationLevel(-1)}},
	"ClientRack":                   {good: "rack1", bad: []any{"\xff"}},
	"AllowAutoCreateTopics":        {good: true, anyValue: "a boolean"},
	"ClientDNSLookup":              {def: DNSUseAllIPs, good: DNSResolveCanonicalBootstrapServersOnly, bad: []any{ClientDNSLookup("default")}},
	"ReceiveMessageMaxBytes":       {def: int32(100_000_000), good: int32(math.MaxInt32), bad: []any{int32(-1), int32(54525951)}},
	"DefaultAPITimeout":            {def: time.Minute, good: time.Second, bad: []any{-time.Second}},
	"SocketConnectionSetupTimeout": {def: 10 * time.Second, good: time.Second, bad: []any{-time.Second}},
	"DisableFetchSessions":         {good: true, anyValue: "a boolean"},
	"MaxBufferedBytes":             {def: int64(64 << 20), good: int64(1), bad: []any{int64(-1)}},
	"MaxBatchBytes":                {def: int64(256 << 20), good: int64(math.MaxInt32), bad: []any{int64(-1), int64(math.MaxInt32 + 1)}},
	"Logger":                       {def: slog.Default(), good: aLogger, anyValue: "any logger will do"},
	"OnEvent":                      {good: func(Event) {}, anyValue: "a callback"},
	"RebalanceListener":            {good: aListener, anyValue: "callbacks"},
}

// A field that NewConsumer copies is what it was in the consumer.
func TestTheConsumerKeepsEveryField(t *testing.T) {
	for f := range reflect.TypeFor[Config]().Fields() {
		good := fieldRules[f.Name].good
		c := newConsumer(with(f.Name, good).withDefaults(), nil)
		same(t, good, fieldOf(c.cfg, f.Name), f.Name)
		c.cluster.Close()
		c.cancel(ErrClosed)
		c.events.close(t.Context())
	}
}

// with returns a Config with one field set.
func with(field string, value any) Config {
	var c Config
	reflect.ValueOf(&c).Elem().FieldByName(field).Set(reflect.ValueOf(value))
	return c
}

func fieldOf(c Config, field string) any { return reflect.ValueOf(c).FieldByName(field).Interface() }

// same compares values of which some are functions.
func same(t *testing.T, want, got any, field string) {
	t.Helper()
	w, g := reflect.ValueOf(want), reflect.ValueOf(got)
	switch {
	case w.Kind() == reflect.Func:
		require.Equal(t, w.Pointer(), g.Pointer(), field)
	case field == "RebalanceListener":
		require.NotNil(t, got.(RebalanceListener).OnRevoked)
	default:
		require.Equal(t, want, got, field)
	}
}

// faultsOf returns the faults of c as a user finds them.
func faultsOf(t *testing.T, c Config) []*ConfigError {
	t.Helper()
	err := c.validate()
	if err == nil {
		return nil
	}
	var faults []*ConfigError
	for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
		var fault *ConfigError
		require.ErrorAs(t, err, &fault)
		faults = append(faults, fault)
	}
	return faults
}

func faultyFields(t *testing.T, c Config) (fields []string) {
	t.Helper()
	for _, fault := range faultsOf(t, c) {
		fields = append(fields, fault.Field)
	}
	return fields
}

func isUnbuilt(field string) bool {
	for _, u := range unbuiltFields {
		if u.field == field && u.used == nil {
			return true
		}
	}
	return false
}

func TestEveryFieldHasItsRule(t *testing.T) {
	require.Empty(t, faultsOf(t, Config{}))
	filled := Config{}.withDefaults()
	for f := range reflect.TypeFor[Config]().Fields() {
		t.Run(f.Name, func(t *testing.T) {
			rule, ok := fieldRules[f.Name]
			require.True(t, ok, "fieldRules lacks it")

			got := fieldOf(filled, f.Name)
			if rule.def == nil {
				require.True(t, reflect.ValueOf(filled).FieldByName(f.Name).IsZero(), "zero became %v", got)
			} else {
				same(t, rule.def, got, f.Name)
			}
			same(t, rule.good, fieldOf(with(f.Name, rule.good).withDefaults(), f.Name), f.Name)

			known := isUnbuilt(f.Name) || len(rule.bad) > 0
			require.NotEqual(t, known, rule.anyValue != "", "it needs bad values, or a reason why there are none")
			for _, bad := range rule.bad {
				require.Contains(t, faultyFields(t, with(f.Name, bad)), f.Name, "%v was taken", bad)
			}
			if rule.negative != nil {
				c := with(f.Name, reflect.ValueOf(-3).Convert(f.Type).Interface())
				require.Equal(t, rule.negative, fieldOf(c.withDefaults(), f.Name))
				require.Empty(t, faultsOf(t, c))
			}
		})
	}
	require.Len(t, fieldRules, reflect.TypeFor[Config]().NumField())
}

// TestWhatIsNotBuiltIsRefused walks all that this version has a name for only.
func TestWhatIsNotBuiltIsRefused(t *testing.T) {
	uses := map[string]any{
		"GroupProtocol": GroupProtocolConsumer,
	}
	for _, u := range unbuiltFields {
		t.Run(u.field, func(t *testing.T) {
			value := uses[u.field]
			if u.used == nil {
				value = fieldRules[u.field].good
			}
			c := with(u.field, value)
			reasons := ""
			for _, fault := range faultsOf(t, c) {
				if fault.Field == u.field {
					reasons += fault.Reason + "\n"
				}
			}
			require.Contains(t, reasons, u.what)
			require.Contains(t, u.what, "not built yet")
		})
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		doc := ""
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			// One comment may speak of several fields that follow each other.
			doc = cmp.Or(f.Doc.Text(), doc)
			for _, name := range f.Names {
				require.Regexp(t, `\b`+name.Name+`\b`, doc, "the comment does not speak of it")
			}
		}
		return false
	})
}

func TestWithDefaultsSharesNothing(t *testing.T) {
	var c Config
	for f := range reflect.TypeFor[Config]().Fields() {
		reflect.ValueOf(&c).Elem().FieldByName(f.Name).Set(reflect.ValueOf(fieldRules[f.Name].good))
	}
	filled := c.withDefaults()
	for f := range reflect.TypeFor[Config]().Fields() {
		mine, theirs := reflect.ValueOf(filled).FieldByName(f.Name), reflect.ValueOf(c).FieldByName(f.Name)
		switch f.Type.Kind() {
		case reflect.Slice, reflect.Map:
			require.NotEqual(t, theirs.Pointer(), mine.Pointer(), "%s is shared", f.Name)
		case reflect.Pointer:
			require.Equal(t, f.Name == "Logger", theirs.Pointer() == mine.Pointer(), "%s is shared", f.Name)
		}
	}
}

func TestCheckingEditsNothing(t *testing.T) {
	c := Config{Topics: []string{"x y"}, BootstrapServers: []string{"a,b"}, FetchMinBytes: -1, TLS: &tls.Config{}}
	_ = c.validate()
	require.Equal(t, []string{"x y"}, c.Topics)
	require.Equal(t, []string{"a,b"}, c.BootstrapServers)
	require.Equal(t, int32(-1), c.FetchMinBytes)
	require.Empty(t, c.TLS.ServerName)
	require.Zero(t, c.RequestTimeout)
}

type fakeAssignor struct {
	name      string
	protocols []assignors.Protocol
}

func (a fakeAssignor) Name() string                                         { return a.name }
func (a fakeAssignor) Protocols() []assignors.Protocol                      { return a.protocols }
func (a fakeAssignor) Assign(assignors.Input) (assignors.Assignment, error) { return nil, nil }

type fakeReporter struct{}

func (fakeReporter) MetricChanged(Metric)     {}
func (fakeReporter) MetricRemoved(MetricName) {}
func (fakeReporter) Close()                   {}

type fakeTokens struct{ token string }

func (f fakeTokens) Token(context.Context) (Token, error) { return Token{Value: f.token}, nil }

type fakeSASL struct{ password string }

func (fakeSASL) Mechanism() string { return "TEST" }
func (fakeSASL) Start(context.Context, string) (SASLSession, []byte, error) {
	return nil, nil, errors.ErrUnsupported
}

type fakeKerberos struct{ fakeSASL }

func (f fakeKerberos) WithKerberosNames(string, string) SASLClient { return f }

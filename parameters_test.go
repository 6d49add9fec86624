package kafka

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/assignors"
)

// A parameterRow is what docs/parameters.md says of a field beyond what the code tells.
type parameterRow struct {
	python  string // kafka-python's names
	def     string // in place of what withDefaults makes of zero
	allowed string
	since   string // the first Kafka release in which brokers heed it; "" any
	proof   string // the test that shows its effect, with its folder unless that is the root
}

const (
	anyText     = "UTF-8, 32,767 bytes at most"
	atLeastZero = "more than 0"
	negativeIs0 = "any; negative is 0"
	aBoolean    = "true, false"
)

var parameterRows = map[string]parameterRow{
	"Topics":                           {python: "*topics", allowed: "legal names: a-z A-Z 0-9 . _ -, 249 characters at most", proof: "TestTopicsAreSubscribedToAtOnce"},
	"BootstrapServers":                 {python: "bootstrap_servers", allowed: "host, host:port; IPv6 in brackets", proof: "TestServersAreTriedUntilOneAnswers"},
	"ClientID":                         {python: "client_id", allowed: anyText, proof: "TestClientIDIsInEachRequest"},
	"GroupID":                          {python: "group_id", allowed: anyText + ", not blank", since: "0.8.1 for commits, 0.9 for groups", proof: "TestConsumerWithoutAGroup"},
	"FetchMinBytes":                    {python: "fetch_min_bytes", allowed: negativeIs0, proof: "TestFetchMinBytesAreWaitedForUpToFetchMaxWait"},
	"FetchMaxWait":                     {python: "fetch_max_wait_ms", allowed: negativeIs0 + "; less than RequestTimeout", proof: "TestFetchMinBytesAreWaitedForUpToFetchMaxWait"},
	"FetchMaxBytes":                    {python: "fetch_max_bytes", allowed: atLeastZero, since: "0.10.1", proof: "TestFetchMaxBytesBoundsAnAnswer"},
	"MaxPartitionFetchBytes":           {python: "max_partition_fetch_bytes", allowed: atLeastZero, proof: "TestMaxPartitionFetchBytesBoundsAPartition"},
	"RequestTimeout":                   {python: "request_timeout_ms", allowed: "more than FetchMaxWait, less than ConnectionsMaxIdle", proof: "TestRequestTimeoutBoundsAnAnswer"},
	"RetryBackoff":                     {python: "retry_backoff_ms", allowed: negativeIs0, proof: "TestRetryBackoffIsBetweenAttemptsOfARequest"},
	"RetryBackoffMax":                  {allowed: atLeastZero, proof: "TestRetryBackoffIsBetweenAttemptsOfARequest"},
	"ReconnectBackoff":                 {python: "reconnect_backoff_ms", allowed: negativeIs0, proof: "TestReconnectBackoffIsBetweenAttemptsAtABroker"},
	"ReconnectBackoffMax":              {python: "reconnect_backoff_max_ms", allowed: atLeastZero, proof: "TestReconnectBackoffIsBetweenAttemptsAtABroker"},
	"MaxInFlightRequestsPerConnection": {python: "max_in_flight_requests_per_connection", allowed: atLeastZero, proof: "TestRequestsOnTheirWayAreBounded"},
	"AutoOffsetReset":                  {python: "auto_offset_reset", def: "latest", allowed: "earliest, latest, none, a duration of 0 or more", since: "0.10.1 for durations", proof: "TestAutoOffsetResetSaysWhereToBegin"},
	"DisableAutoCommit":                {python: "enable_auto_commit", def: "false; true without a group", allowed: aBoolean, since: "0.8.1", proof: "TestCloseCommitsOnlyWhatItShould"},
	"AutoCommitInterval":               {python: "auto_commit_interval_ms", allowed: negativeIs0, since: "0.8.1", proof: "TestAutoCommitIntervalIsBetweenCommits"},
	"OnCommit":                         {python: "default_offset_commit_callback", allowed: "any", proof: "TestCommitCallbacksComeInOrder"},
	"SkipCRCCheck":                     {python: "check_crcs", allowed: aBoolean, proof: "TestSkipCRCCheckTakesWhatIsThere"},
	"MetadataMaxAge":                   {python: "metadata_max_age_ms", allowed: negativeIs0, proof: "TestMetadataMaxAgeIsHowOldMetadataGets"},
	"PartitionAssignmentStrategy":      {python: "partition_assignment_strategy", allowed: "assignors with names of their own and a protocol in common", since: "0.9", proof: "TestACustomAssignorGetsPlainDataAndDecides"},
	"MaxPollRecords":                   {python: "max_poll_records", allowed: atLeastZero, proof: "TestMaxPollRecordsBoundsAPollNotAFetch"},
	"MaxPollInterval":                  {python: "max_poll_interval_ms", allowed: "1 ms to 24.8 days", since: "0.9; 0.10.1 as the rebalance timeout", proof: "TestAnApplicationThatIsTooSlowIsToldHowSlowAndJoinsAgain"},
	"SessionTimeout":                   {python: "session_timeout_ms", allowed: "1 ms to 24.8 days, more than HeartbeatInterval; brokers have limits", since: "0.9", proof: "TestASilentCoordinatorIsNoticedAfterAThirdOfTheSessionTimeout"},
	"HeartbeatInterval":                {python: "heartbeat_interval_ms", allowed: "less than SessionTimeout", since: "0.9", proof: "TestHeartbeatIntervalIsBetweenHeartbeats"},
	"ReceiveBufferBytes":               {python: "receive_buffer_bytes", def: "the system's", allowed: "more than 0; -1: the system's; not with Dialer", proof: "TestSocketsHaveTheirBuffersAndOptions"},
	"SendBufferBytes":                  {python: "send_buffer_bytes", def: "the system's", allowed: "more than 0; -1: the system's; not with Dialer", proof: "TestSocketsHaveTheirBuffersAndOptions"},
	"SocketControl":                    {python: "socket_options", allowed: "any; not with Dialer", proof: "TestSocketsHaveTheirBuffersAndOptions"},
	"Dialer":                           {python: "proxy_url (3.0)", allowed: "any", proof: "TestTheDialerMakesEachConnection"},
	"ConsumerTimeout":                  {python: "consumer_timeout_ms", def: "never", allowed: "any; negative: when nothing is buffered", proof: "TestSilentEndsOfIterations"},
	"SecurityProtocol":                 {python: "security_protocol", def: "PLAINTEXT; SSL with TLS", allowed: "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", since: "0.9 for SSL, 0.10 for SASL", proof: "TestTransportsThatDoNotMatch"},
	"TLS":                              {python: "ssl_context", allowed: "any; not with SSL… fields", since: "0.9", proof: "internal/e2e/secure: TestTLS"},
	"SSLSkipHostnameCheck":             {python: "ssl_check_hostname", allowed: aBoolean, since: "0.9", proof: "TestCertificatesAreVerified"},
	"SSLCAFile":                        {python: "ssl_cafile", allowed: "a PEM file", since: "0.9", proof: "TestTLSFilesAreUsed"},
	"SSLCertFile":                      {python: "ssl_certfile", allowed: "a PEM file", since: "0.9", proof: "TestTLSFilesAreUsed"},
	"SSLKeyFile":                       {python: "ssl_keyfile", allowed: "a PEM file; with SSLCertFile", since: "0.9", proof: "TestTLSFilesAreUsed"},
	"SSLPassword":                      {python: "ssl_password", allowed: "of an encrypted key", since: "0.9", proof: "internal/e2e/secure: TestTLS"},
	"SSLCRLFile":                       {python: "ssl_crlfile", allowed: "a PEM file", since: "0.9", proof: "TestTLSFilesAreUsed"},
	"SSLCiphers":                       {python: "ssl_ciphers", allowed: "names of suites that Go has; no list expressions", since: "0.9", proof: "internal/e2e/secure: TestTLS"},
	"APIVersion":                       {python: "api_version", allowed: "0.8.0 to the newest release that is known", proof: "TestAPIVersionBoundsWhatIsUsed"},
	"APIVersionAutoTimeout":            {python: "api_version_auto_timeout_ms", allowed: atLeastZero, proof: "TestAPIVersionAutoTimeoutBoundsTheQuestionForTheVersion"},
	"ConnectionsMaxIdle":               {python: "connections_max_idle_ms", allowed: "more than RequestTimeout; negative: never", proof: "TestConnectionsMaxIdleClosesAndUseOpensAgain"},
	"MetricReporters":                  {python: "metric_reporters", allowed: "none of them nil", proof: "TestReportersHearOfWhatAppearsChangesAndGoes"},
	"MetricsNumSamples":                {python: "metrics_num_samples", allowed: atLeastZero, proof: "TestTheSampleWindowsChangeARate"},
	"MetricsSampleWindow":              {python: "metrics_sample_window_ms", allowed: atLeastZero, proof: "TestTheSampleWindowsChangeARate"},
	"IncludeInternalTopics":            {python: "exclude_internal_topics", allowed: aBoolean, proof: "TestIncludeInternalTopicsLetsAPatternMatchThem"},
	"SASLMechanism":                    {python: "sasl_mechanism", allowed: "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI; SASL's own", since: "0.10; SCRAM 0.10.2, OAUTHBEARER 2.0", proof: "TestReadingOverSASL"},
	"SASLUsername":                     {python: "sasl_plain_username", allowed: "UTF-8 without NUL", since: "0.10", proof: "TestWrongCredentialsAreFinal"},
	"SASLPassword":                     {python: "sasl_plain_password", allowed: "UTF-8 without NUL", since: "0.10", proof: "TestWrongCredentialsAreFinal"},
	"SASLKerberosServiceName":          {python: "sasl_kerberos_service_name", def: "kafka", allowed: "any; with a KerberosClient", since: "0.10", proof: "internal/e2e/secure: TestKerberos"},
	"SASLKerberosDomainName":           {python: "sasl_kerberos_domain_name", def: "the broker's host", allowed: "any; with a KerberosClient", since: "0.10", proof: "internal/e2e/secure: TestKerberos"},
	"SASLOAuthTokenProvider":           {python: "sasl_oauth_token_provider", allowed: "not nil; with OAUTHBEARER", since: "2.0", proof: "TestReadingOverSASL"},
	"SASL":                             {allowed: "not nil; of SASLMechanism, if that is set", since: "0.10", proof: "TestFramingFollowsTheHandshakeForEveryMechanism"},
	"GroupInstanceID":                  {python: "group_instance_id (3.0)", allowed: "a legal name; with GroupID", since: "2.3", proof: "TestStaticConsumersKeepTheirPartitionsOverARestart"},
	"GroupProtocol":                    {allowed: "classic; consumer is refused: not built yet", since: "4.0 for consumer", proof: "TestWhatIsNotBuiltIsRefused"},
	"GroupRemoteAssignor":              {allowed: "none; any other is refused: not built yet", since: "4.0", proof: "TestWhatIsNotBuiltIsRefused"},
	"IsolationLevel":                   {python: "isolation_level (3.0)", def: "ReadUncommitted", allowed: "ReadUncommitted, ReadCommitted", since: "0.11", proof: "TestEndOfALogWithAnOpenTransaction"},
	"ClientRack":                       {python: "client_rack (3.0)", allowed: anyText, since: "2.4", proof: "TestFollowerInTheRackIsFetchedFrom"},
	"AllowAutoCreateTopics":            {python: "allow_auto_create_topics (3.0)", allowed: aBoolean, proof: "TestAllowAutoCreateTopicsLetsTheBrokerMakeThem"},
	"ClientDNSLookup":                  {python: "client_dns_lookup (3.0)", allowed: "use_all_dns_ips, resolve_canonical_bootstrap_servers_only", proof: "TestBootstrapServersGoByTheirCanonicalNames"},
	"ReceiveMessageMaxBytes":           {python: "receive_message_max_bytes (3.0)", allowed: "at least FetchMaxBytes + MaxPartitionFetchBytes + 1 MiB", proof: "TestAnAnswerBeyondReceiveMessageMaxBytesIsNotRead"},
	"DefaultAPITimeout":                {python: "default_api_timeout_ms (3.1)", allowed: atLeastZero, proof: "TestDefaultAPITimeoutBoundsCallsWithoutADeadline"},
	"SocketConnectionSetupTimeout":     {python: "socket_connection_setup_timeout_ms (3.1)", allowed: atLeastZero, proof: "TestSocketConnectionSetupTimeoutBoundsADial"},
	"DisableFetchSessions":             {python: "enable_incremental_fetch_sessions (3.0)", allowed: aBoolean, since: "1.1", proof: "TestDisableFetchSessionsAsksForEverythingEachTime"},
	"MaxBufferedBytes":                 {allowed: atLeastZero, proof: "TestFullBufferHoldsTheNextFetchUntilAPoll"},
	"MaxBatchBytes":                    {allowed: "1 to 2 GiB - 1", proof: "TestDecompressionBombIsTooLarge"},
	"Logger":                           {def: "slog.Default()", allowed: "any", proof: "TestTopicThatDoesNotExistIsToldOfOnce"},
	"OnEvent":                          {allowed: "any", proof: "TestTopicThatDoesNotExistIsToldOfOnce"},
	"RebalanceListener":                {python: "listener of subscribe()", allowed: "any", proof: "TestCallbacksAreToldOfSetsAsTheProtocolSays"},
}

// otherParameters are kafka-python's that have no field.
var otherParameters = [][2]string{
	{"key_deserializer, value_deserializer", "arguments of `Typed`"},
	{"selector", "none: Go's runtime waits for sockets"},
	{"bootstrap_timeout_ms (3.0)", "the context of `NewConsumer`"},
	{"sasl_kerberos_name (3.0)", "`SASLKerberosServiceName` and `SASLKerberosDomainName`"},
	{"kafka_client (3.0)", "none; `Dialer` for tests"},
	{"metrics_enabled, metric_group_prefix (3.0)", "none: metrics are always counted, under their own names"},
	{"socket_connection_setup_timeout_max_ms (3.1)", "none: one bound holds for each attempt"},
}

// kafkaPython are the parameters of KafkaConsumer 2.0.2.
const kafkaPython = `*topics bootstrap_servers client_id group_id key_deserializer value_deserializer fetch_min_bytes fetch_max_wait_ms fetch_max_bytes
	max_partition_fetch_bytes request_timeout_ms retry_backoff_ms reconnect_backoff_ms reconnect_backoff_max_ms max_in_flight_requests_per_connection
	auto_offset_reset enable_auto_commit auto_commit_interval_ms default_offset_commit_callback check_crcs metadata_max_age_ms partition_assignment_strategy
	max_poll_records max_poll_interval_ms session_timeout_ms heartbeat_interval_ms receive_buffer_bytes send_buffer_bytes socket_options consumer_timeout_ms
	security_protocol ssl_context ssl_check_hostname ssl_cafile ssl_certfile ssl_keyfile ssl_password ssl_crlfile ssl_ciphers api_version
	api_version_auto_timeout_ms connections_max_idle_ms metric_reporters metrics_num_samples metrics_sample_window_ms selector exclude_internal_topics
	sasl_mechanism sasl_plain_username sasl_plain_password sasl_kerberos_service_name sasl_kerberos_domain_name sasl_oauth_token_provider`

// TestParameterTable compares docs/parameters.md with what the code says. After a wanted
// change: go test -run TestParameterTable . -update
func TestParameterTable(t *testing.T) {
	docs, tests := fieldDocs(t), testFunctions(t)
	var b strings.Builder
	b.WriteString(parametersHead)
	for f := range reflect.TypeFor[Config]().Fields() {
		row, ok := parameterRows[f.Name]
		require.True(t, ok, "parameterRows lacks %s", f.Name)
		require.NotEmpty(t, row.allowed, f.Name)
		require.NotEmpty(t, docs[f.Name], f.Name)
		require.True(t, tests[row.proof], "there is no test %s, the proof of %s", row.proof, f.Name)
		fmt.Fprintf(&b, "| `%s` %s | %s | %s | %s | %s | %s | %s | %s |\n", f.Name, typeName(f.Type), orDash(code(row.python)), keysOf(t, f.Name),
			defaultOf(f.Name, row), row.allowed, orDash(row.since), cell(docs[f.Name]), code(row.proof))
	}
	require.Len(t, parameterRows, reflect.TypeFor[Config]().NumField())
	b.WriteString(parametersOthers)
	for _, other := range otherParameters {
		fmt.Fprintf(&b, "| %s | %s |\n", code(other[0]), other[1])
	}
	writeKeysWithoutEffect(&b)
	requireText(t, "docs/parameters.md", b.String())
}

func TestEveryParameterOfKafkaPythonHasItsPlace(t *testing.T) {
	var all strings.Builder
	for _, row := range parameterRows {
		all.WriteString(row.python + ", ")
	}
	for _, other := range otherParameters {
		all.WriteString(other[0] + ", ")
	}
	n := 0
	for name := range strings.FieldsSeq(kafkaPython) {
		n++
		require.Regexp(t, `(^|[ ,])`+regexp.QuoteMeta(name)+`[ ,]`, all.String())
	}
	require.Equal(t, 53, n, "52 parameters, of which one row has two")
}

// requireText compares a generated file, or writes it.
func requireText(t *testing.T, path, text string) {
	t.Helper()
	if *updateAPI {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	old := strings.Split(strings.ReplaceAll(string(want), "\r\n", "\n"), "\n")
	for i, line := range strings.Split(text, "\n") {
		require.Less(t, i, len(old), "%s is too short; if it is wanted: go test -run %s . -update", path, t.Name())
		require.Equal(t, old[i], line, "%s, line %d; if it is wanted: go test -run %s . -update", path, i+1, t.Name())
	}
}

// fieldDocs returns the comments of Config's fields, without the lines that name
// properties.
func fieldDocs(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	require.NoError(t, err)
	docs := make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		doc := ""
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			doc = cmp.Or(f.Doc.Text(), doc) // one comment may speak of several fields
			for _, name := range f.Names {
				docs[name.Name] = regexp.MustCompile(`(?s)\n\n(Kafka propert|kafka-python:).*`).ReplaceAllString(doc, "")
			}
		}
		return false
	})
	return docs
}

// testFunctions returns the names of all tests, with their folder in front if that is not
// the root.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			name := fn.Name.Name
			if dir := filepath.ToSlash(filepath.Dir(path)); dir != "." {
				name = dir + ": " + name
			}
			found[name] = true
		}
		return nil
	}))
	return found
}

func typeName(t reflect.Type) string {
	name := t.String()
	if t.Kind() == reflect.Func && t.Name() == "" {
		name = "func"
	}
	return strings.ReplaceAll(name, "kafka.", "")
}

func defaultOf(field string, row parameterRow) string {
	if row.def != "" {
		return row.def
	}
	switch def := fieldRules[field].def.(type) {
	case nil:
		if reflect.ValueOf(Config{}).FieldByName(field).Kind() == reflect.Bool {
			return "false"
		}
		return "none"
	case []string:
		return strings.Join(def, ", ")
	case []assignors.Assignor:
		return strings.Join(assignorNames(def), ", ")
	case time.Duration:
		return strings.TrimSuffix(strings.Replace(def.String(), "m0s", "m", 1), "h0m")
	default:
		return fmt.Sprint(def)
	}
}

// keysOf returns the keys that set a field: Java's, and librdkafka's in italics.
func keysOf(t *testing.T, field string) string {
	java := javaKeys(t, "consumer")
	var ours, theirs []string
	for _, k := range slices.Concat(configKeys, securityKeys) {
		if k.field != field {
			continue
		}
		for _, name := range append([]string{k.name}, k.others...) {
			if slices.Contains(java, name) {
				ours = append(ours, "`"+name+"`")
			} else {
				theirs = append(theirs, "*"+name+"*")
			}
		}
	}
	return orDash(strings.Join(append(ours, theirs...), " "))
}

func orDash(s string) string { return cmp.Or(s, "–") }

// code sets names apart from text.
func code(names string) string {
	if names == "" {
		return ""
	}
	return "`" + names + "`"
}

// cell makes one line of a comment.
func cell(doc string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(doc), " "), "|", `\|`)
}

const parametersHead = `# Parameters

Made by ` + "`go test -run TestParameterTable . -update`" + ` from the code: the comments of ` + "`Config`" + `, its defaults, the keys that
` + "`ConfigFromProperties` and `ConfigFromMap`" + ` read, and the tests that show each effect. Names of librdkafka are in italics. "From" is the
first Kafka release whose brokers heed it. The zero value of a field means the default. A number of 0 in a properties file is a 0, not the
default: where Kafka allows it, the field becomes negative.

| field, type | kafka-python | Java, *librdkafka* | default | allowed | from | meaning | proved by |
|---|---|---|---|---|---|---|---|
`

const parametersOthers = `
## Parameters of kafka-python without a field

| kafka-python | here |
|---|---|
`

func writeKeysWithoutEffect(b *strings.Builder) {
	b.WriteString("\n## Keys with one value\n\nWhat these ask for is settled. Other values are reported as unused.\n\n| key | what is done | why no other |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(fixedKeys)) {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, strings.Join(fixedKeys[name].values, " or "), fixedKeys[name].reason)
	}
	b.WriteString("\n## Keys without an effect\n\nThey are known and reported as unused.\n\n| why | keys |\n|---|---|\n")
	for _, reason := range slices.Sorted(maps.Keys(unusedByReason)) {
		keys := slices.Sorted(strings.FieldsSeq(unusedByReason[reason]))
		fmt.Fprintf(b, "| %s | `%s` |\n", reason, strings.Join(keys, "` `"))
	}
}

// Tests that the documentation names exist.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	tests := testFunctions(t)
	for _, path := range []string{"docs/delivery-guarantees.md", "docs/porting-from-kafka-python.md", "docs/porting-from-java.md"} {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(data), -1) {
			require.True(t, tests[m[1]], "%s names %s, which does not exist", path, m[1])
		}
	}
}

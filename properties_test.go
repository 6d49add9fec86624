package kafka

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// keyFaults takes apart what ConfigFromMap says.
func keyFaults(t *testing.T, err error) (faults []*ConfigError) {
	t.Helper()
	if err == nil {
		return nil
	}
	for _, err := range leaves(err) {
		fault, ok := err.(*ConfigError)
		require.True(t, ok, "%T", err)
		faults = append(faults, fault)
	}
	return faults
}

// javaKeys returns the keys that a client of Java's knows; see
// internal/javaconf/testdata/ConfigVectors.java.
func javaKeys(t *testing.T, client string) (keys []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/config/kafka-4.4.0-keys.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if of, key, _ := strings.Cut(strings.TrimSpace(line), " "); of == client {
			keys = append(keys, key)
		}
	}
	require.NotEmpty(t, keys)
	return keys
}

func TestEveryKeyOfJavasClientsIsKnown(t *testing.T) {
	for _, client := range []string{"consumer", "producer", "admin"} {
		for _, key := range javaKeys(t, client) {
			require.Contains(t, knownKeys, key)
		}
	}
	for name := range keysByName {
		require.NotContains(t, unusedKeys, name)
		require.NotContains(t, fixedKeys, name)
	}
	for name := range fixedKeys {
		require.NotContains(t, unusedKeys, name)
	}
	require.Len(t, slices.Compact(slices.Clone(knownKeys)), len(knownKeys), "a key is there twice")
}

// keyExamples have a value of each key that sets a field by itself, and what the field
// is then.
var keyExamples = map[string][]struct {
	text string
	want any
}{
	"bootstrap.servers":                     {{"a:1, b ,c:3", []string{"a:1", "b", "c:3"}}},
	"client.id":                             {{" me ", "me"}, {"", ""}},
	"group.id":                              {{"g", "g"}},
	"fetch.min.bytes":                       {{"0", int32(-1)}, {"7", int32(7)}, {"+7", int32(7)}},
	"fetch.max.wait.ms":                     {{"0", time.Duration(-1e6)}, {"250", 250 * time.Millisecond}},
	"fetch.max.bytes":                       {{"0", int32(1)}, {"1000", int32(1000)}},
	"max.partition.fetch.bytes":             {{"0", int32(1)}, {"1000", int32(1000)}},
	"request.timeout.ms":                    {{"40000", 40 * time.Second}},
	"retry.backoff.ms":                      {{"0", time.Duration(-1e6)}, {"200", 200 * time.Millisecond}},
	"retry.backoff.max.ms":                  {{"2000", 2 * time.Second}},
	"reconnect.backoff.ms":                  {{"0", time.Duration(-1e6)}, {"200", 200 * time.Millisecond}},
	"reconnect.backoff.max.ms":              {{"2000", 2 * time.Second}},
	"auto.offset.reset":                     {{"earliest", ResetEarliest}, {"none", ResetNone}, {"by_duration:PT1H", ResetByDuration(time.Hour)}, {"smallest", ResetEarliest}, {"error", ResetNone}, {"end", ResetLatest}},
	"enable.auto.commit":                    {{"false", true}, {"TRUE", false}},
	"auto.commit.interval.ms":               {{"0", time.Duration(-1e6)}, {"1000", time.Second}},
	"check.crcs":                            {{"false", true}, {"true", false}},
	"metadata.max.age.ms":                   {{"0", time.Duration(-1e6)}, {"1000", time.Second}},
	"max.poll.records":                      {{"10", 10}},
	"max.poll.interval.ms":                  {{"60000", time.Minute}},
	"session.timeout.ms":                    {{"45000", 45 * time.Second}},
	"heartbeat.interval.ms":                 {{"1000", time.Second}},
	"receive.buffer.bytes":                  {{"-1", 0}, {"0", 0}, {"65536", 65536}},
	"send.buffer.bytes":                     {{"-1", 0}, {"131072", 131072}},
	"api.version.request.timeout.ms":        {{"3000", 3 * time.Second}},
	"connections.max.idle.ms":               {{"-1", time.Duration(-1e6)}, {"60000", time.Minute}},
	"metrics.num.samples":                   {{"3", 3}},
	"metrics.sample.window.ms":              {{"1000", time.Second}},
	"exclude.internal.topics":               {{"false", true}, {"true", false}},
	"group.instance.id":                     {{"i-1", "i-1"}},
	"group.protocol":                        {{"CONSUMER", GroupProtocolConsumer}, {"classic", GroupProtocolClassic}},
	"group.remote.assignor":                 {{"uniform", "uniform"}},
	"isolation.level":                       {{"read_committed", ReadCommitted}, {"read_uncommitted", ReadUncommitted}},
	"client.rack":                           {{"rack1", "rack1"}},
	"allow.auto.create.topics":              {{"true", true}, {"false", false}},
	"client.dns.lookup":                     {{"use_all_dns_ips", DNSUseAllIPs}, {"resolve_canonical_bootstrap_servers_only", DNSResolveCanonicalBootstrapServersOnly}},
	"receive.message.max.bytes":             {{"200000000", int32(200_000_000)}},
	"default.api.timeout.ms":                {{"1000", time.Second}},
	"queued.max.messages.kbytes":            {{"1024", int64(1 << 20)}, {"2097151", int64(2097151) << 10}},
	"security.protocol":                     {{"sasl_ssl", SecuritySASLSSL}, {"PLAINTEXT", SecurityPlaintext}},
	"socket.connection.setup.timeout.ms":    {{"1000", time.Second}},
	"max.in.flight.requests.per.connection": {{"1", 1}},
	"partition.assignment.strategy": {
		{"org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
			[]assignors.Assignor{assignors.Range{}, assignors.CooperativeSticky{}}},
		{"roundrobin, sticky, cooperative-sticky", []assignors.Assignor{assignors.RoundRobin{}, assignors.Sticky{}, assignors.CooperativeSticky{}}},
		{"org.apache.kafka.clients.consumer.RoundRobinAssignor , StickyAssignor", []assignors.Assignor{assignors.RoundRobin{}, assignors.Sticky{}}},
	},
}

func TestKeysSetTheirFields(t *testing.T) {
	for _, k := range configKeys {
		require.Contains(t, keyExamples, k.name)
		for _, example := range keyExamples[k.name] {
			for _, name := range append([]string{k.name}, k.others...) {
				c, err := ConfigFromMap(map[string]string{name: example.text})
				require.NoError(t, err, "%s=%s", name, example.text)
				require.Equal(t, example.want, fieldOf(c, k.field), "%s=%s", name, example.text)
				reflect.ValueOf(&c).Elem().FieldByName(k.field).SetZero()
				require.Zero(t, c, "%s sets more than %s", name, k.field)
			}
		}
	}
	require.Len(t, keyExamples, len(configKeys))
}

func TestValuesThatKeysDoNotTake(t *testing.T) {
	for key, texts := range map[string][]string{
		"bootstrap.servers":                     {"", " , "},
		"fetch.min.bytes":                       {"", "-1", "x", "1.5", "2147483648", "1_000", "0x10"},
		"fetch.max.wait.ms":                     {"-1", "500ms", "9223372036855"},
		"fetch.max.bytes":                       {"-1"},
		"request.timeout.ms":                    {"0", "-1"},
		"max.poll.records":                      {"0", "-5"},
		"metadata.max.age.ms":                   {"-1", "99999999999999999999"},
		"connections.max.idle.ms":               {"0"},
		"receive.buffer.bytes":                  {"-2"},
		"enable.auto.commit":                    {"", "yes", "1"},
		"auto.offset.reset":                     {"", "first", "by_duration:1h", "by_duration:PT-1H"},
		"isolation.level":                       {"", "committed"},
		"security.protocol":                     {"", "TLS"},
		"client.dns.lookup":                     {"default"},
		"partition.assignment.strategy":         {"", "org.example.OwnAssignor", "Range"},
		"queued.max.messages.kbytes":            {"0", "x"},
		"ssl.keystore.type":                     {"JKS", "PKCS12"},
		"ssl.truststore.type":                   {"JKS"},
		"ssl.endpoint.identification.algorithm": {"LDAPS"},
	} {
		for _, text := range texts {
			c, err := ConfigFromMap(map[string]string{key: text})
			faults := keyFaults(t, err)
			require.Len(t, faults, 1, "%s=%s", key, text)
			require.Equal(t, key, faults[0].Key)
			require.False(t, faults[0].Unused)
			require.NotEmpty(t, faults[0].Field)
			require.Contains(t, faults[0].Value, strings.TrimSpace(text))
			require.NoError(t, c.validate(), "%s=%s left something behind", key, text)
		}
	}
}

func TestAllFaultsOfKeysAreReportedAtOnce(t *testing.T) {
	c, err := ConfigFromProperties(strings.NewReader(strings.Join([]string{
		"# as a tool of Java's has it",
		"bootstrap.servers = a:1,b:2",
		"group.id = billing",
		"max.poll.recrods = 10",
		"fetch.min.bytes = none",
		"key.deserializer = org.apache.kafka.common.serialization.StringDeserializer",
		"interceptor.classes =",
		"acks = all",
		"ssl.enabled.protocols = TLSv1.3",
		"metadata.recovery.strategy = rebootstrap",
		"spring.kafka.client.id = x",
		"bootstrap_servers = x",
		"no.such.thing.at.all = x",
	}, "\n")))
	require.Equal(t, Config{BootstrapServers: []string{"a:1", "b:2"}, GroupID: "billing"}, c)
	require.Equal(t, strings.Join([]string{
		`kafka: max.poll.recrods: line 4: this key is not known; did you mean max.poll.records?`,
		`kafka: key.deserializer: it has no effect here: deserializers are arguments of Typed, such as kafka.String`,
		`kafka: interceptor.classes: it has no effect here: there are no interceptors: wrap the loop`,
		`kafka: acks: it has no effect here: it is a producer's, and this is a consumer`,
		`kafka: ssl.enabled.protocols = "TLSv1.3": TLS 1.2 and 1.3 are on; Config.TLS can choose`,
		`kafka: spring.kafka.client.id: line 11: this key is not known; did you mean client.id?`,
		`kafka: bootstrap_servers: line 12: this key is not known; did you mean bootstrap.servers?`,
		`kafka: no.such.thing.at.all: line 13: this key is not known`,
		`kafka: fetch.min.bytes = "none": it must be a whole number, of 2147483647 at most`,
	}, "\n"), err.Error())
	unused := 0
	for _, fault := range keyFaults(t, err) {
		if fault.Unused {
			unused++
		}
	}
	require.Equal(t, 4, unused)
	first, ok := errors.AsType[*ConfigError](err)
	require.True(t, ok)
	require.Equal(t, "max.poll.recrods", first.Key)
}

func TestTheNearestKeyIsNamed(t *testing.T) {
	for key, want := range map[string]string{
		"group_id": "group.id", "groupId": "group.id", "GroupID": "group.id", "gruop.id": "group.id",
		"fetchMinBytes": "fetch.min.bytes", "consumer.override.max.poll.records": "max.poll.records",
		"sasl.plain.username": "", "session.timout.ms": "session.timeout.ms", "\ufeffbootstrap.servers": "bootstrap.servers",
		"enable_auto_commit": "enable.auto.commit", "partition.assignment.strategies": "partition.assignment.strategy",
		"x": "", "": "", "kafka": "", strings.Repeat("x", 10000): "",
	} {
		got, _ := nearestKey(key)
		require.Equal(t, want, got, key)
	}
}

func TestNamesOfTheSameKeyMustAgree(t *testing.T) {
	c, err := ConfigFromMap(map[string]string{"fetch.wait.max.ms": "7", "fetch.max.wait.ms": "7"})
	require.NoError(t, err)
	require.Equal(t, 7*time.Millisecond, c.FetchMaxWait)
	_, err = ConfigFromMap(map[string]string{"fetch.wait.max.ms": "7", "fetch.max.wait.ms": "8"})
	require.EqualError(t, err, `kafka: fetch.wait.max.ms = "7": fetch.max.wait.ms sets the same to another value`)
}

func TestPropertiesAreUTF8OrLatin1(t *testing.T) {
	for _, text := range []string{"group.id=größe €", "group.id=gr\\u00f6\\u00dfe \\u20ac"} {
		c, err := ConfigFromProperties(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, "größe €", c.GroupID)
	}
	c, err := ConfigFromProperties(strings.NewReader("group.id=gr\xf6\xdfe"))
	require.NoError(t, err)
	require.Equal(t, "größe", c.GroupID)
}

func TestPropertiesThatCannotBeRead(t *testing.T) {
	_, err := ConfigFromProperties(strings.NewReader("group.id=g\nsasl.password=sesame\\u00"))
	require.EqualError(t, err, `kafka: properties: line 2: \u must be followed by four hexadecimal digits (a backslash itself is written \\)`)
	_, ok := errors.AsType[*ConfigError](err)
	require.True(t, ok)
	_, err = ConfigFromProperties(iotest.ErrReader(os.ErrPermission))
	require.ErrorIs(t, err, os.ErrPermission)
	_, err = ConfigFromProperties(strings.NewReader(strings.Repeat("#", maxProperties+1)))
	require.ErrorContains(t, err, "more than 16777216 bytes")
}

// What was read works: the consumer that is made of it does as told.
func TestConsumerByProperties(t *testing.T) {
	b := testbroker.New(t)
	b.CreateTopic("t", 1)
	produce(b, "t", 0, 5)
	cfg, err := ConfigFromProperties(strings.NewReader(strings.Join([]string{
		"bootstrap.servers=" + strings.Join(b.Addrs(), ","),
		"auto.offset.reset=earliest", "max.poll.records=2", "client.id=by-properties", "fetch.min.bytes=0",
	}, "\n")))
	require.NoError(t, err)
	cfg.Dialer = b.Dial
	c := reader(t, patient(cfg), tp0)
	records, err := c.Poll(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, 2, records.Len())
	for _, req := range b.Requests(keyFetch) {
		require.Equal(t, "by-properties", req.ClientID)
		require.Zero(t, req.Message.(*kmsg.FetchRequest).MinBytes)
	}
	cfg, err = ConfigFromMap(map[string]string{"fetch.max.wait.ms": "30000"})
	require.NoError(t, err)
	_, err = NewConsumer(t.Context(), cfg)
	require.ErrorContains(t, err, "Config.FetchMaxWait = 30s: it must be less than RequestTimeout")
}

func FuzzConfigFromProperties(f *testing.F) {
	f.Add("a=b\nssl.keystore.key=-----BEGIN PRIVATE KEY-----\\\nAAAA", "x.PlainLoginModule required password=\"", "\";")
	f.Add("sasl.jaas.config=x.PlainLoginModule required password=\"a\\", "https://", "/")
	f.Add("!", "x.PlainLoginModule required ", "=x;")
	f.Add("bootstrap.servers=a\nmax.poll.records", "-----BEGIN CERTIFICATE-----\nAAAA", "\n-----END CERTIFICATE-----")
	f.Fuzz(func(t *testing.T, text, before, after string) {
		c, _ := ConfigFromProperties(strings.NewReader(text))
		_ = c.validate()
		const secret = "sesame·öffne·dich"
		m := make(map[string]string)
		for name, k := range keysByName {
			if k.secret {
				m[name] = before + secret + after
			}
		}
		c, err := ConfigFromMap(m)
		for _, shown := range []string{fmt.Sprintf("%+v", err), fmt.Sprintf("%+v", c), fmt.Sprint(c.validate())} {
			require.NotContains(t, shown, secret)
		}
	})
}

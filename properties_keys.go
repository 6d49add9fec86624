package kafka

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka/assignors"
)

// A configKey is a key that has an effect.
type configKey struct {
	name   string   // Java's, or librdkafka's where Java has none
	others []string // further names of it, by librdkafka
	field  string   // the field of Config that it sets
	zero   zeroRule
	not    bool // the field says the opposite
	secret bool // its value is never shown
	raw    bool // spaces around the value belong to it
	// parse sets the field in place of what its type tells; its error is the reason.
	parse func(c *Config, text string) error
}

// A zeroRule says what a number of 0, and a negative one, become.
type zeroRule int

const (
	zeroRefused  zeroRule = iota // 0 would be the default, and makes no sense
	zeroReal                     // 0 is a real 0, for which the field is negative
	zeroLeast                    // 0 has the effect of 1
	zeroSystem                   // 0 and -1 are what the system has
	negativeKept                 // a negative value means never
)

// configKeys are all of them but those of ssl.… and sasl.…, which depend on each other;
// see properties_security.go.
var configKeys = []configKey{
	{name: "bootstrap.servers", others: []string{"metadata.broker.list"}, field: "BootstrapServers"},
	{name: "client.id", field: "ClientID"},
	{name: "group.id", field: "GroupID"},
	{name: "fetch.min.bytes", field: "FetchMinBytes", zero: zeroReal},
	{name: "fetch.max.wait.ms", others: []string{"fetch.wait.max.ms"}, field: "FetchMaxWait", zero: zeroReal},
	{name: "fetch.max.bytes", field: "FetchMaxBytes", zero: zeroLeast},
	{name: "max.partition.fetch.bytes", others: []string{"fetch.message.max.bytes"}, field: "MaxPartitionFetchBytes", zero: zeroLeast},
	{name: "request.timeout.ms", others: []string{"socket.timeout.ms"}, field: "RequestTimeout"},
	{name: "retry.backoff.ms", field: "RetryBackoff", zero: zeroReal},
	{name: "retry.backoff.max.ms", field: "RetryBackoffMax"},
	{name: "reconnect.backoff.ms", field: "ReconnectBackoff", zero: zeroReal},
	{name: "reconnect.backoff.max.ms", field: "ReconnectBackoffMax"},
	{name: "max.in.flight.requests.per.connection", others: []string{"max.in.flight"}, field: "MaxInFlightRequestsPerConnection"},
	{name: "auto.offset.reset", field: "AutoOffsetReset", parse: parseReset},
	{name: "enable.auto.commit", others: []string{"auto.commit.enable"}, field: "DisableAutoCommit", not: true},
	{name: "auto.commit.interval.ms", field: "AutoCommitInterval", zero: zeroReal},
	{name: "check.crcs", field: "SkipCRCCheck", not: true},
	{name: "metadata.max.age.ms", others: []string{"topic.metadata.refresh.interval.ms"}, field: "MetadataMaxAge", zero: zeroReal},
	{name: "partition.assignment.strategy", field: "PartitionAssignmentStrategy", parse: parseStrategy},
	{name: "max.poll.records", field: "MaxPollRecords"},
	{name: "max.poll.interval.ms", field: "MaxPollInterval"},
	{name: "session.timeout.ms", field: "SessionTimeout"},
	{name: "heartbeat.interval.ms", field: "HeartbeatInterval"},
	{name: "receive.buffer.bytes", others: []string{"socket.receive.buffer.bytes"}, field: "ReceiveBufferBytes", zero: zeroSystem},
	{name: "send.buffer.bytes", others: []string{"socket.send.buffer.bytes"}, field: "SendBufferBytes", zero: zeroSystem},
	{name: "api.version.request.timeout.ms", field: "APIVersionAutoTimeout"},
	{name: "connections.max.idle.ms", field: "ConnectionsMaxIdle", zero: negativeKept},
	{name: "metrics.num.samples", field: "MetricsNumSamples"},
	{name: "metrics.sample.window.ms", field: "MetricsSampleWindow"},
	{name: "exclude.internal.topics", field: "IncludeInternalTopics", not: true},
	{name: "group.instance.id", field: "GroupInstanceID"},
	{name: "group.protocol", field: "GroupProtocol", parse: func(c *Config, text string) error {
		return choose(&c.GroupProtocol, text, GroupProtocolClassic, GroupProtocolConsumer)
	}},
	{name: "group.remote.assignor", field: "GroupRemoteAssignor"},
	{name: "isolation.level", field: "IsolationLevel", parse: parseIsolation},
	{name: "client.rack", field: "ClientRack"},
	{name: "allow.auto.create.topics", field: "AllowAutoCreateTopics"},
	{name: "client.dns.lookup", field: "ClientDNSLookup", parse: func(c *Config, text string) error {
		return choose(&c.ClientDNSLookup, text, DNSUseAllIPs, DNSResolveCanonicalBootstrapServersOnly)
	}},
	{name: "receive.message.max.bytes", field: "ReceiveMessageMaxBytes"},
	{name: "default.api.timeout.ms", field: "DefaultAPITimeout"},
	{name: "socket.connection.setup.timeout.ms", field: "SocketConnectionSetupTimeout"},
	{name: "queued.max.messages.kbytes", field: "MaxBufferedBytes", parse: parseKilobytes},
	{name: "security.protocol", field: "SecurityProtocol", parse: func(c *Config, text string) error {
		return choose(&c.SecurityProtocol, text, SecurityPlaintext, SecuritySSL, SecuritySASLPlaintext, SecuritySASLSSL)
	}},
}

// keysByName has configKeys and securityKeys by each of their names.
var keysByName = indexKeys(configKeys, securityKeys)

func indexKeys(lists ...[]configKey) map[string]*configKey {
	byName := make(map[string]*configKey)
	for _, list := range lists {
		for i := range list {
			k := &list[i]
			byName[k.name] = k
			for _, other := range k.others {
				byName[other] = k
			}
		}
	}
	return byName
}

// knownKeys are all names that are known, with an effect or without, sorted.
var knownKeys = func() (names []string) {
	for name := range keysByName {
		names = append(names, name)
	}
	for name := range fixedKeys {
		names = append(names, name)
	}
	for name := range unusedKeys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}()

// set sets the field of a key that was given.
func (r *keyReader) set(k *configKey) {
	v, ok := r.values[k.name]
	if !ok {
		return
	}
	var err error
	if k.parse != nil {
		err = k.parse(&r.cfg, v.text)
	} else {
		err = k.setField(reflect.ValueOf(&r.cfg).Elem().FieldByName(k.field), v.text)
	}
	if err != nil {
		r.fault(k, v, "%v", trimmed{err})
	}
}

// setField sets a field by its type.
func (k *configKey) setField(field reflect.Value, text string) error {
	switch field.Interface().(type) {
	case string:
		field.SetString(text)
	case bool:
		on, err := parseBool(text)
		field.SetBool(on != k.not && err == nil)
		return err
	case []string:
		list := splitList(text, ',')
		if len(list) == 0 {
			return errors.New("it must not be empty")
		}
		field.Set(reflect.ValueOf(list))
	case time.Duration:
		n, err := k.zero.parse(text, math.MaxInt64/int64(time.Millisecond))
		field.SetInt(n * int64(time.Millisecond))
		return err
	default:
		n, err := k.zero.parse(text, math.MaxInt32)
		field.SetInt(n)
		return err
	}
	return nil
}

// parse reads a number as the field has it; 0 beside an error.
func (z zeroRule) parse(text string, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil, n > most:
		return 0, fmt.Errorf("it must be a whole number, of %d at most", most)
	case n > 0:
		return n, nil
	}
	switch {
	case z == zeroReal && n == 0:
		return -1, nil
	case z == zeroLeast && n == 0:
		return 1, nil
	case z == zeroSystem && n >= -1:
		return 0, nil
	case z == negativeKept && n < 0:
		return -1, nil
	case z == negativeKept:
		return 0, errors.New("at least 1 is needed; a negative number means never")
	case z == zeroReal, z == zeroLeast:
		return 0, errors.New("it must not be negative")
	case z == zeroSystem:
		return 0, errors.New("it must be positive, or -1 for what the system has")
	default:
		return 0, errors.New("at least 1 is needed")
	}
}

// parseBool reads what Java takes for a boolean.
func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("allowed are true and false")
}

// splitList splits a list as Java does, which allows spaces around its commas; an empty
// text is an empty list.
func splitList(text string, separators ...rune) []string {
	if text == "" {
		return nil
	}
	var list []string
	for part := range strings.FieldsFuncSeq(text, func(c rune) bool { return slices.Contains(separators, c) }) {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// choose sets a field that takes one of a few texts, whatever their case.
func choose[T ~string](field *T, text string, allowed ...T) error {
	for _, a := range allowed {
		if strings.EqualFold(text, string(a)) {
			*field = a
			return nil
		}
	}
	return fmt.Errorf("allowed are %q", allowed)
}

func parseIsolation(c *Config, text string) error {
	switch strings.ToLower(text) {
	case "read_uncommitted":
		c.IsolationLevel = ReadUncommitted
	case "read_committed":
		c.IsolationLevel = ReadCommitted
	default:
		return errors.New(`allowed are ["read_uncommitted" "read_committed"]`)
	}
	return nil
}

// parseReset takes librdkafka's and kafka-python's words too.
func parseReset(c *Config, text string) error {
	switch strings.ToLower(text) {
	case "smallest", "beginning":
		text = "earliest"
	case "largest", "end":
		text = "latest"
	case "error":
		text = "none"
	}
	reset, err := ParseOffsetReset(text)
	if err != nil {
		return err
	}
	if reset.duration < 0 {
		return errors.New("the duration must not be negative")
	}
	c.AutoOffsetReset = reset
	return nil
}

// strategies are the assignors by librdkafka's names.
var strategies = map[string]assignors.Assignor{
	"range": assignors.Range{}, "roundrobin": assignors.RoundRobin{}, "sticky": assignors.Sticky{}, "cooperative-sticky": assignors.CooperativeSticky{},
}

// javaAssignor is how Java's classes of assignors are named.
var javaAssignor = regexp.MustCompile(`^(?:org\.apache\.kafka\.clients\.consumer\.)?(Range|RoundRobin|Sticky|CooperativeSticky)Assignor$`)

func parseStrategy(c *Config, text string) error {
	var list []assignors.Assignor
	for _, name := range splitList(text, ',') {
		short := name
		if m := javaAssignor.FindStringSubmatch(name); m != nil {
			short = strings.ReplaceAll(strings.ToLower(m[1]), "cooperativesticky", "cooperative-sticky")
		}
		a := strategies[short]
		if a == nil {
			return fmt.Errorf("%q is not one of range, roundrobin, sticky and cooperative-sticky, by these names or by Java's classes; "+
				"others go into Config.PartitionAssignmentStrategy", name)
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		return errors.New("it must not be empty")
	}
	c.PartitionAssignmentStrategy = list
	return nil
}

func parseKilobytes(c *Config, text string) error {
	n, err := zeroRefused.parse(text, math.MaxInt32)
	c.MaxBufferedBytes = n << 10
	return err
}

package kafka

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/protocol"
)

// maxStringBytes is the longest string that a request's header and the older
// forms of its body can hold.
const maxStringBytes = math.MaxInt16

// validate returns every fault of c, each a *ConfigError, joined; nil if there is
// none. c is what the caller gave, before withDefaults; it is not edited, nothing
// is sent and no file is read.
func (c Config) validate() error {
	c = c.withDefaults()
	v := validator{cfg: &c, fields: reflect.ValueOf(c)}
	v.unbuilt()
	v.names()
	v.servers()
	v.sizes()
	v.durations()
	v.sockets()
	v.choices()
	v.tls()
	v.sasl()
	v.assignors()
	return errors.Join(v.faults...)
}

// A validator gathers the faults of one Config.
type validator struct {
	cfg    *Config
	fields reflect.Value
	faults []error
}

// fault notes that a field's value is wrong.
func (v *validator) fault(field, reason string, args ...any) {
	value := valueText(printable(field, v.fields.FieldByName(field)))
	v.faultOf(field, value, reason, args...)
}

// faultOf is fault for one element of a field.
func (v *validator) faultOf(field, value, reason string, args ...any) {
	v.faults = append(v.faults, &ConfigError{Field: field, Value: value, Reason: fmt.Sprintf(reason, args...)})
}

func (v *validator) unbuilt() {
	for _, u := range unbuiltFields {
		if u.in(v.cfg) {
			v.fault(u.field, "%s", u.what)
		}
	}
}

func (v *validator) names() {
	for _, topic := range v.cfg.Topics {
		if err := checkTopicName(topic); err != nil {
			v.faultOf("Topics", fmt.Sprintf("%q", topic), "%v", err)
		}
	}
	for _, field := range []string{"ClientID", "GroupID", "ClientRack"} {
		switch s := v.fields.FieldByName(field).String(); {
		case len(s) > maxStringBytes:
			v.faultOf(field, fmt.Sprintf("%q…", s[:32]), "it has %d bytes, at most %d are allowed", len(s), maxStringBytes)
		case !utf8.ValidString(s):
			v.fault(field, "it must be UTF-8")
		}
	}
	if id := v.cfg.GroupID; id != "" && strings.TrimSpace(id) == "" {
		v.fault("GroupID", "it must not be blank; empty means no group")
	}
	if id := v.cfg.GroupInstanceID; id != "" {
		if v.cfg.GroupID == "" {
			v.fault("GroupInstanceID", "it needs a GroupID")
		}
		if err := checkLegalName(id); err != nil {
			v.fault("GroupInstanceID", "%v", err)
		}
	}
}

// checkTopicName tells what is wrong with the name of a topic, if anything.
func checkTopicName(topic string) error {
	if err := checkLegalName(topic); err != nil {
		return fmt.Errorf("not a legal topic name: %w", err)
	}
	return nil
}

// checkLegalName checks the rule that Kafka has for topics and instance ids.
func checkLegalName(s string) error {
	const most = 249
	switch {
	case s == "" || s == "." || s == "..":
		return errors.New(`it must not be empty, "." or ".."`)
	case len(s) > most:
		return fmt.Errorf("it has %d characters, at most %d are allowed", len(s), most)
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		default:
			return fmt.Errorf("it has %q in it, allowed are a-z, A-Z, 0-9, '.', '_' and '-'", r)
		}
	}
	return nil
}

func (v *validator) servers() {
	_, err := conn.ParseServers(v.cfg.BootstrapServers)
	for _, err := range leaves(err) {
		var fault *conn.AddrError
		if errors.As(err, &fault) {
			v.faultOf("BootstrapServers", valueText(printableText("BootstrapServers", fault.Value)), "%s", fault.Reason)
		}
	}
}

// leaves takes a joined error apart.
func leaves(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

func (v *validator) sizes() {
	for _, field := range []string{
		"FetchMaxBytes", "MaxPartitionFetchBytes", "MaxInFlightRequestsPerConnection", "MaxPollRecords",
		"ReceiveMessageMaxBytes", "MaxBufferedBytes", "MaxBatchBytes",
	} {
		if v.fields.FieldByName(field).Int() < 0 {
			v.fault(field, "it must not be negative; zero means the default")
		}
	}
	for _, field := range []string{"ReceiveBufferBytes", "SendBufferBytes"} {
		if n := v.fields.FieldByName(field).Int(); n < -1 || n > math.MaxInt32 {
			v.fault(field, "allowed are 0 to %d, and -1 for what the operating system chooses", math.MaxInt32)
		}
	}
	if v.cfg.MaxBatchBytes > math.MaxInt32 {
		v.fault("MaxBatchBytes", "at most %d (2 GiB - 1) are allowed", math.MaxInt32)
	}
	// An answer holds what was asked for, one batch that is larger than its
	// partition's share, and what stands around the records.
	need := int64(v.cfg.FetchMaxBytes) + int64(v.cfg.MaxPartitionFetchBytes) + 1<<20
	if limit := v.cfg.ReceiveMessageMaxBytes; limit >= 0 && int64(limit) < need {
		v.fault("ReceiveMessageMaxBytes", "it must be at least FetchMaxBytes + MaxPartitionFetchBytes + 1 MiB = %d", need)
	}
}

func (v *validator) durations() {
	c := v.cfg
	for _, field := range []string{
		"RequestTimeout", "RetryBackoffMax", "ReconnectBackoffMax", "MaxPollInterval", "SessionTimeout", "HeartbeatInterval",
		"APIVersionAutoTimeout", "DefaultAPITimeout", "SocketConnectionSetupTimeout", "MetricsSampleWindow",
	} {
		if v.fields.FieldByName(field).Int() < 0 {
			v.fault(field, "it must not be negative; zero means the default")
		}
	}
	// These go to a broker as 32-bit milliseconds.
	const longest = math.MaxInt32 * time.Millisecond
	for _, field := range []string{"FetchMaxWait", "SessionTimeout", "MaxPollInterval"} {
		if time.Duration(v.fields.FieldByName(field).Int()) > longest {
			v.fault(field, "at most %v is allowed", longest)
		}
	}
	for _, field := range []string{"SessionTimeout", "MaxPollInterval"} {
		if d := v.fields.FieldByName(field).Int(); d >= 0 && d < int64(time.Millisecond) {
			v.fault(field, "at least 1ms is needed")
		}
	}
	v.less("FetchMaxWait", "RequestTimeout")
	v.less("RequestTimeout", "ConnectionsMaxIdle")
	v.less("HeartbeatInterval", "SessionTimeout")
	if c.AutoOffsetReset.duration < 0 {
		v.fault("AutoOffsetReset", "the duration must not be negative")
	}
}

// less demands that one duration is less than another; a negative one is a fault
// already, or means never. The fault is that of the field which was set, if only
// one was.
func (v *validator) less(small, large string) {
	a, b := v.fields.FieldByName(small).Int(), v.fields.FieldByName(large).Int()
	if a < b || a < 0 || b < 0 {
		return
	}
	if defaults := reflect.ValueOf(Config{}.withDefaults()); a == defaults.FieldByName(small).Int() {
		v.fault(large, "it must be greater than %s (%v)", small, time.Duration(a))
		return
	}
	v.fault(small, "it must be less than %s (%v)", large, time.Duration(b))
}

// sockets: a Dialer makes its own sockets, so nothing could be set on them.
func (v *validator) sockets() {
	if v.cfg.Dialer == nil {
		return
	}
	for _, field := range []string{"ReceiveBufferBytes", "SendBufferBytes"} {
		if v.fields.FieldByName(field).Int() > 0 {
			v.fault(field, "it cannot be set together with Dialer")
		}
	}
	if v.cfg.SocketControl != nil {
		v.fault("SocketControl", "it cannot be set together with Dialer")
	}
}

func (v *validator) choices() {
	c := v.cfg
	oneOf(v, "SecurityProtocol", c.SecurityProtocol, SecurityPlaintext, SecuritySSL, SecuritySASLPlaintext, SecuritySASLSSL)
	oneOf(v, "GroupProtocol", c.GroupProtocol, GroupProtocolClassic, GroupProtocolConsumer)
	oneOf(v, "ClientDNSLookup", c.ClientDNSLookup, DNSUseAllIPs, DNSResolveCanonicalBootstrapServersOnly)
	if c.IsolationLevel != ReadUncommitted && c.IsolationLevel != ReadCommitted {
		v.fault("IsolationLevel", "allowed are ReadUncommitted (%d) and ReadCommitted (%d)", ReadUncommitted, ReadCommitted)
	}
	if c.APIVersion != "" {
		if _, err := protocol.ParseRelease(c.APIVersion); err != nil {
			v.fault("APIVersion", "%v", trimmed{err})
		}
	}
	if c.MetricsNumSamples < 0 {
		v.fault("MetricsNumSamples", "it must not be negative; zero means the default")
	}
	for _, r := range c.MetricReporters {
		if isNil(r) {
			v.fault("MetricReporters", "one of them is nil")
		}
	}
}

// oneOf checks a field with a fixed set of texts.
func oneOf[T ~string](v *validator, field string, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		v.fault(field, "allowed are %q", allowed)
	}
}

func (v *validator) assignors() {
	const field = "PartitionAssignmentStrategy"
	list := v.cfg.PartitionAssignmentStrategy
	seen := make(map[string]bool)
	whole := true
	for i, a := range list {
		if isNil(a) {
			v.fault(field, "assignor %d is nil", i)
			whole = false
			continue
		}
		name := a.Name()
		switch {
		case strings.TrimSpace(name) == "":
			v.fault(field, "assignor %d (%T) has no name", i, a)
		case len(name) > maxStringBytes:
			v.faultOf(field, fmt.Sprintf("%q…", name[:32]), "an assignor's name may have %d bytes", maxStringBytes)
		case seen[name]:
			v.fault(field, "%q is listed twice", name)
		}
		seen[name] = true
		if len(assignorProtocols(a)) == 0 {
			v.fault(field, "assignor %q supports no rebalance protocol", name)
			whole = false
		}
	}
	if _, ok := commonProtocol(list); !ok && whole {
		v.fault(field, "there is no rebalance protocol that all of them support")
	}
}

// assignorProtocols returns the protocols that a supports and that exist, each
// once.
func assignorProtocols(a assignors.Assignor) []assignors.Protocol {
	known := make([]assignors.Protocol, 0, 2)
	for _, p := range a.Protocols() {
		if (p == assignors.Eager || p == assignors.Cooperative) && !slices.Contains(known, p) {
			known = append(known, p)
		}
	}
	return known
}

// commonProtocol returns the highest rebalance protocol that all assignors
// support; false when there is none.
func commonProtocol(list []assignors.Assignor) (highest assignors.Protocol, ok bool) {
	supported := make(map[assignors.Protocol]int)
	for _, a := range list {
		if isNil(a) {
			return 0, false
		}
		for _, p := range assignorProtocols(a) {
			supported[p]++
		}
	}
	for p, n := range supported {
		if n == len(list) && (!ok || p > highest) {
			highest, ok = p, true
		}
	}
	return highest, ok
}

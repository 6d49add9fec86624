package kafka

import (
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka/assignors"
)

// A placeholder stands for a value that is not printed.
type placeholder string

const (
	hiddenValue placeholder = "(hidden)" // a secret that is set
	setValue    placeholder = "(set)"    // something without a useful text
)

// secretFields hold credentials.
var secretFields = map[string]bool{"SSLPassword": true, "SASLUsername": true, "SASLPassword": true}

// String returns the fields that are set, without secrets.
//
// The fmt package calls no methods on unexported fields. A struct that keeps a
// Config in one, and is printed, should have a String method itself, or keep a
// *Config, of which %v, %+v and %#v show no more than the address.
func (c Config) String() string {
	var b strings.Builder
	for name, value := range c.setFields {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name + ": " + valueText(value))
	}
	return "kafka.Config{" + b.String() + "}"
}

// GoString returns the same text as String, so that %#v shows no secrets.
func (c Config) GoString() string { return c.String() }

// Format writes the same text as String for every verb, so that none shows
// secrets.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue returns the fields that are set as a group, without secrets.
func (c Config) LogValue() slog.Value {
	var attrs []slog.Attr
	for name, value := range c.setFields {
		attrs = append(attrs, slog.Any(name, value))
	}
	return slog.GroupValue(attrs...)
}

// setFields yields the fields that are not zero, with values fit for printing.
func (c Config) setFields(yield func(name string, value any) bool) {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			continue
		}
		name := v.Type().Field(i).Name
		if !yield(name, printable(name, v.Field(i))) {
			return
		}
	}
}

// printable returns what may be printed of a field: a string, a list of strings,
// a number, a boolean, a duration or a placeholder. What it does not know stays
// unprinted, since it may hold anything.
func printable(name string, v reflect.Value) any {
	if secretFields[name] && !v.IsZero() {
		return hiddenValue
	}
	switch x := v.Interface().(type) {
	case time.Duration, bool, int, int32, int64, OffsetReset:
		return x
	case []string:
		texts := make([]string, len(x))
		for i, s := range x {
			texts[i] = printableText(name, s)
		}
		return texts
	case []assignors.Assignor:
		return assignorNames(x)
	}
	switch v.Kind() {
	case reflect.String:
		return printableText(name, v.String())
	case reflect.Int8:
		return v.Int()
	}
	if v.IsZero() {
		return placeholder("nil")
	}
	return setValue
}

// printableText hides the secrets that a text holds by mistake: a key in place of
// its file's name, and credentials in front of a server's name.
func printableText(name, s string) string {
	if strings.Contains(s, "-----BEGIN") {
		return string(hiddenValue)
	}
	if at := strings.LastIndexByte(s, '@'); at >= 0 && name == "BootstrapServers" {
		return string(hiddenValue) + s[at:]
	}
	return s
}

// assignorNames returns the names, "nil" for what has none.
func assignorNames(list []assignors.Assignor) []string {
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = "nil"
		if !isNil(a) {
			names[i] = a.Name()
		}
	}
	return names
}

// isNil also finds a nil pointer inside an interface, on which a method would
// panic.
func isNil(x any) bool {
	if x == nil {
		return true
	}
	v := reflect.ValueOf(x)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// valueText prints what printable returned.
func valueText(value any) string {
	switch x := value.(type) {
	case string:
		return fmt.Sprintf("%q", x)
	case []string:
		return fmt.Sprintf("%q", x)
	default:
		return fmt.Sprint(x)
	}
}

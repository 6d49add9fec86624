package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kafkaconsumer/kafka/internal/javaconf"
)

// maxProperties bounds what is read of a properties file.
const maxProperties = 16 << 20

// ConfigFromProperties reads a Config from a properties file as Java's clients have
// it, with the keys of ConfigFromMap. The form is that of java.util.Properties:
// key=value, comments, escapes, a backslash at the end of a line that goes on. The
// text is UTF-8; if it is not, ISO 8859-1, which Java takes each file for.
//
// The errors are those of ConfigFromMap and of r; a line that cannot be read is a
// *ConfigError too.
func ConfigFromProperties(r io.Reader) (Config, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxProperties+1))
	if err != nil {
		return Config{}, fmt.Errorf("kafka: reading properties: %w", err)
	}
	if len(data) > maxProperties {
		return Config{}, &ConfigError{Key: "properties", Reason: fmt.Sprintf("they have more than %d bytes", maxProperties)}
	}
	entries, err := javaconf.Properties(decodeText(data))
	if err != nil {
		return Config{}, &ConfigError{Key: "properties", Reason: err.Error()}
	}
	values, lines := make(map[string]string, len(entries)), make(map[string]int, len(entries))
	for _, e := range entries {
		values[e.Key], lines[e.Key] = e.Value, e.Line
	}
	return readKeys(values, lines)
}

// decodeText takes what is no UTF-8 for ISO 8859-1.
func decodeText(data []byte) string {
	if utf8.Valid(data) {
		return string(data)
	}
	runes := make([]rune, len(data))
	for i, b := range data {
		runes[i] = rune(b)
	}
	return string(runes)
}

// ConfigFromMap reads a Config from the keys of Java's consumer, such as
// max.poll.records, and from those of librdkafka where it names the same thing
// otherwise (metadata.broker.list, sasl.username, ssl.ca.location, …).
// docs/parameters.md lists them. Spaces around values are left out, as Java does.
//
// Values mean what they mean to Java: durations are in milliseconds, and a 0 is a 0,
// not the default, so that where Kafka allows a real 0 the field becomes negative.
// What is not in m is left zero and means the default of its field, which is not
// Java's or librdkafka's in each case (see docs/porting-from-java.md).
//
//   - partition.assignment.strategy takes Java's class names and librdkafka's names of
//     the assignors in package assignors.
//   - Key and trust stores are PEM, as files or inside the value (KIP-651). What is
//     inside the value becomes Config.TLS, and files named beside it are then read
//     once, here.
//   - sasl.jaas.config takes PlainLoginModule, ScramLoginModule and
//     OAuthBearerLoginModule; sasl.oauthbearer.token.endpoint.url and the client's
//     credentials become an OIDCClientCredentials. For Kerberos, set Config.SASL.
//
// Every fault is reported at once, each a *ConfigError, joined: values that cannot
// be read, keys that are not known, with the nearest one that is, and keys that Java
// or librdkafka knows and that have no effect here, with ConfigError.Unused set.
// Errors hold no secrets. The Config that comes with an error holds all that could be
// read, so that who has seen to it that only unused keys are left may go on with it.
// Rules between fields are checked by NewConsumer.
func ConfigFromMap(m map[string]string) (Config, error) { return readKeys(m, nil) }

// A keyReader makes a Config of keys and values.
type keyReader struct {
	cfg    Config
	lines  map[string]int      // where keys stand in their file; nil without one
	values map[string]keyValue // by the key's main name
	faults []error
}

// A keyValue is what a key was given.
type keyValue struct {
	key  string // as it was written: the main name or another one
	text string
}

func readKeys(m map[string]string, lines map[string]int) (Config, error) {
	r := keyReader{lines: lines, values: make(map[string]keyValue, len(m))}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(lines[a], lines[b]), cmp.Compare(a, b)) })
	for _, name := range names {
		r.sort(name, m[name])
	}
	for i := range configKeys {
		r.set(&configKeys[i])
	}
	r.security()
	return r.cfg, errors.Join(r.faults...)
}

// sort keeps what is known, and reports the rest.
func (r *keyReader) sort(name, text string) {
	if k := keysByName[name]; k != nil {
		if !k.raw {
			text = strings.TrimFunc(text, func(c rune) bool { return c <= ' ' })
		}
		if other, twice := r.values[k.name]; twice && other.text != text {
			r.fault(k, keyValue{name, text}, "%s sets the same to another value", other.key)
			return
		}
		r.values[k.name] = keyValue{name, text}
		return
	}
	if f, ok := fixedKeys[name]; ok {
		if !f.allows(text) {
			r.faults = append(r.faults, &ConfigError{Key: name, Value: valueText(printableText(name, text)), Reason: f.reason, Unused: true})
		}
		return
	}
	if reason, ok := unusedKeys[name]; ok {
		r.faults = append(r.faults, &ConfigError{Key: name, Reason: "it has no effect here: " + unusedReason(name, text, reason), Unused: true})
		return
	}
	r.unknown(name)
}

// fault notes that the value of a key is wrong.
func (r *keyReader) fault(k *configKey, v keyValue, reason string, args ...any) {
	text := valueText(printableText(k.field, v.text))
	if k.secret {
		text = string(hiddenValue)
	}
	r.faults = append(r.faults, &ConfigError{Field: k.field, Key: v.key, Value: text, Reason: fmt.Sprintf(reason, args...)})
}

// faultOf is fault for a key by its main name.
func (r *keyReader) faultOf(name, reason string, args ...any) {
	r.fault(keysByName[name], r.values[name], reason, args...)
}

// unknown reports a key that nobody knows. What does not look like a key may be a
// piece of a secret that was broken over lines, and is not shown.
func (r *keyReader) unknown(name string) {
	nearest, near := nearestKey(name)
	reason := "this key is not known"
	if near {
		reason += fmt.Sprintf("; did you mean %s?", nearest)
	}
	shown := name
	if !near && !looksLikeKey(name) {
		shown, reason = string(hiddenValue), "this is not a key (a value that goes on in the next line needs a backslash at its end)"
	}
	if line := r.lines[name]; line > 0 {
		reason = fmt.Sprintf("line %d: %s", line, reason)
	}
	r.faults = append(r.faults, &ConfigError{Key: shown, Reason: reason})
}

// looksLikeKey: keys are words of small letters and digits, with dots between them.
func looksLikeKey(name string) bool {
	if len(name) > 80 || !strings.ContainsAny(name, "._") {
		return false
	}
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// nearestKey returns the known key that is written most like name, if one is like it
// at all: other separators or capitals, a prefix as frameworks have, or slips.
func nearestKey(name string) (string, bool) {
	plain := plainKey(name)
	best, least := "", min(1+len(plain)/6, 4)
	for _, known := range knownKeys {
		other := plainKey(known)
		if len(plain) > 4 && strings.HasSuffix(name, "."+known) {
			return known, true
		}
		if d := editDistance(plain, other); d < least || d == least && best == "" {
			best, least = known, d
		}
	}
	return best, best != ""
}

// plainKey leaves only letters and digits, in lower case.
func plainKey(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, strings.ToLower(name))
}

// editDistance counts how many characters must be added, taken away or changed to make
// b of a. Texts whose lengths differ by more than any slip are not compared.
func editDistance(a, b string) int {
	const most = 20
	if len(a)-len(b) > most || len(b)-len(a) > most || len(a) > 200 {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := left
			if a[i] != b[j] {
				change++
			}
			left = row[j+1]
			row[j+1] = min(change, row[j]+1, left+1)
		}
	}
	return row[len(b)]
}

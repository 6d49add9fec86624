// Package javaconf reads what configures Java's clients: properties files, and the
// JAAS lines in them. What it reads is what Java reads, which vectors made by Java
// hold (testdata). It knows no keys.
//
// Errors tell where a fault is and never what stands there, since that may be a
// secret.
package javaconf

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// An Entry is one key of a properties file with its value.
type Entry struct {
	Key, Value string
	Line       int // where it begins; the first line is 1
}

// A SyntaxError says where a text cannot be read.
type SyntaxError struct {
	Line   int
	Reason string
}

// Error names the line and what is wrong in it.
func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Properties reads text as java.util.Properties does: comments begin with # or !, a
// key ends at =, : or a space, a line goes on after a backslash at its end, and
// \uXXXX is a UTF-16 unit. Of a key that comes twice, the last counts. The error is a
// *SyntaxError.
func Properties(text string) ([]Entry, error) {
	var entries []Entry
	r := lineReader{text: text, line: 1}
	for r.next() {
		key, value := split(r.logical)
		e := Entry{Line: r.begin}
		var ok, fine bool
		if e.Key, ok = unescape(key); ok {
			e.Value, fine = unescape(value)
		}
		if !ok || !fine {
			return nil, &SyntaxError{r.begin, `\u must be followed by four hexadecimal digits (a backslash itself is written \\)`}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// A lineReader joins the lines that go on after a backslash, and leaves out blank ones
// and comments.
type lineReader struct {
	text    string
	line    int    // of what text begins with
	begin   int    // of the logical line
	logical string // with its escapes
}

const blanks = " \t\f"

// next reads a logical line, and tells whether there was one.
func (r *lineReader) next() bool {
	for r.text != "" {
		r.begin = r.line
		line, more := r.natural()
		if line = strings.TrimLeft(line, blanks); line == "" {
			continue
		}
		if line[0] == '#' || line[0] == '!' {
			continue
		}
		var on bool
		if r.logical, on = goesOn(line); on {
			r.join(more)
		}
		if r.logical != "" || r.text == "" { // a backslash alone at the end is an empty key
			return true
		}
	}
	return false
}

// join adds the lines behind one that goes on. A line that holds nothing but its
// backslash begins nothing: what follows may still be a comment.
func (r *lineReader) join(more bool) {
	var b strings.Builder
	b.WriteString(r.logical)
	for on := true; on && more && b.Len() > 0; {
		var line string
		line, more = r.natural()
		line, on = goesOn(strings.TrimLeft(line, blanks))
		b.WriteString(line)
	}
	r.logical = b.String()
}

// goesOn takes off the backslash at the end of a line that goes on.
func goesOn(line string) (string, bool) {
	slashes := len(line) - len(strings.TrimRight(line, `\`))
	if slashes%2 == 0 {
		return line, false
	}
	return line[:len(line)-1], true
}

// natural takes one line off the text, which ends with \n, \r or both, and tells
// whether there was such an end.
func (r *lineReader) natural() (line string, ended bool) {
	end := strings.IndexAny(r.text, "\r\n")
	if end < 0 {
		line, r.text = r.text, ""
		return line, false
	}
	line = r.text[:end]
	next := end + 1
	if strings.HasPrefix(r.text[end:], "\r\n") {
		next++
	}
	r.text = r.text[next:]
	r.line++
	return line, true
}

// split finds the end of the key, and the begin of the value.
func split(line string) (key, value string) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		c := line[i]
		if c == '\\' {
			i++
			continue
		}
		if c == '=' || c == ':' || strings.IndexByte(blanks, c) >= 0 {
			end = i
			break
		}
	}
	key, value = line[:end], strings.TrimLeft(line[end:], blanks)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], blanks)
	}
	return key, value
}

// unescape resolves backslashes. Half of a surrogate pair becomes U+FFFD: it has no
// UTF-8.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	units := make([]uint16, 0, len(s))
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		if r == '\\' && s != "" {
			r, size = utf8.DecodeRuneInString(s)
			s = s[size:]
			if r == 'u' {
				unit, ok := hexUnit(s)
				if !ok {
					return "", false
				}
				units, s = append(units, unit), s[4:]
				continue
			}
			r = escaped(r)
		}
		units = utf16.AppendRune(units, r)
	}
	return string(utf16.Decode(units)), true
}

// hexUnit reads the four digits behind \u.
func hexUnit(s string) (uint16, bool) {
	if len(s) < 4 || strings.ContainsAny(s[:4], "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:4], 16, 16)
	return uint16(n), err == nil
}

// escaped is what a letter behind a backslash means.
func escaped(r rune) rune {
	switch r {
	case 't':
		return '\t'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 'f':
		return '\f'
	}
	return r
}

package javaconf

import (
	"strings"
	"unicode/utf8"
)

// A LoginModule is one entry of a JAAS configuration.
type LoginModule struct {
	Name    string // the class
	Options map[string]string
}

// JAAS reads the one entry of a JAAS line, as Kafka's clients read sasl.jaas.config:
//
//	class required name="value" name='value' name=word;
//
// with // and /* */ as comments. A word is of letters, digits and - _ $ . and
// begins with none of the digits, '-' and '.'; a quoted value has C's escapes. The
// error is a *SyntaxError.
func JAAS(text string) (LoginModule, error) {
	t := tokenizer{text: text, line: 1}
	m := LoginModule{Options: make(map[string]string)}
	fail := func(reason string) (LoginModule, error) {
		return LoginModule{}, &SyntaxError{t.line, reason}
	}
	name := t.next()
	if name.kind != tokenText {
		return fail("it must begin with the class of a login module")
	}
	m.Name = name.text
	if flag := t.next(); flag.kind != tokenText || !isControlFlag(flag.text) {
		return fail("behind the login module's class, required must follow")
	}
	for {
		key := t.next()
		switch {
		case key.kind == ';':
			if t.next().kind != tokenEnd {
				return fail("there must be one login module, and nothing behind its semicolon")
			}
			return m, nil
		case key.kind == tokenEnd:
			return fail("it must end with a semicolon")
		case key.kind != tokenText: // Java keeps these without a name, so that nothing finds them
			return fail("an option's name must be a word")
		}
		if t.next().kind != '=' {
			return fail("behind an option's name, = must follow; a value with other characters than letters must be quoted")
		}
		value := t.next()
		if value.kind != tokenText {
			return fail("an option has no value; a value with other characters than letters, such as a number, must be quoted")
		}
		m.Options[key.text] = value.text
	}
}

func isControlFlag(s string) bool {
	switch strings.ToLower(s) {
	case "required", "requisite", "sufficient", "optional":
		return true
	}
	return false
}

// A token is a text, the end, a number, or a character of its own kind.
type token struct {
	kind rune
	text string
}

const (
	tokenEnd    rune = -1
	tokenNumber rune = -2
	tokenText   rune = -3 // a word or quoted
)

// A tokenizer does what java.io.StreamTokenizer does with the settings of Kafka's.
type tokenizer struct {
	text string
	line int
}

// take returns the next character and goes behind it, tokenEnd at the end.
func (t *tokenizer) take() rune {
	c := t.peek()
	if c != tokenEnd {
		_, size := utf8.DecodeRuneInString(t.text)
		t.text = t.text[size:]
	}
	if c == '\n' {
		t.line++
	}
	return c
}

func (t *tokenizer) peek() rune {
	if t.text == "" {
		return tokenEnd
	}
	r, _ := utf8.DecodeRuneInString(t.text)
	return r
}

func (t *tokenizer) next() token {
	for {
		c := t.peek()
		switch {
		case c == tokenEnd:
			return token{kind: tokenEnd}
		case c <= ' ':
			t.take()
		case c == '/':
			t.comment()
		case c == '"' || c == '\'':
			return token{tokenText, t.quoted()}
		case isNumber(c):
			return t.number()
		case isWord(c):
			return token{tokenText, t.while(isWord)}
		default:
			return token{kind: t.take()}
		}
	}
}

// comment goes behind a comment. A single / begins one too, up to the line's end.
func (t *tokenizer) comment() {
	if rest, ok := strings.CutPrefix(t.text, "/*"); ok {
		inside, behind, _ := strings.Cut(rest, "*/")
		t.text, t.line = behind, t.line+strings.Count(inside, "\n")
		return
	}
	t.while(func(c rune) bool { return c != '\n' && c != '\r' })
}

func (t *tokenizer) while(wanted func(rune) bool) string {
	var b strings.Builder
	for c := t.peek(); c != tokenEnd && wanted(c); c = t.peek() {
		b.WriteRune(t.take())
	}
	return b.String()
}

// number goes behind what begins like a number. A sign alone is a character.
func (t *tokenizer) number() token {
	sign := t.peek() == '-'
	if sign {
		t.take()
		if c := t.peek(); c != '.' && !isDigit(c) {
			return token{kind: '-'}
		}
	}
	point := false
	for c := t.peek(); isDigit(c) || c == '.' && !point; c = t.peek() {
		point = point || c == '.'
		t.take()
	}
	return token{kind: tokenNumber}
}

// quoted reads up to the quote that opened, or the end of the line.
func (t *tokenizer) quoted() string {
	quote := t.take()
	var b strings.Builder
	for {
		switch c := t.peek(); {
		case c == tokenEnd || c == '\n' || c == '\r':
			return b.String()
		case c == quote:
			t.take()
			return b.String()
		case c == '\\':
			t.take()
			if c, ok := t.escape(); ok {
				b.WriteRune(c)
			}
		default:
			b.WriteRune(t.take())
		}
	}
}

// escape reads what follows a backslash: C's letters, or up to three octal digits.
func (t *tokenizer) escape() (rune, bool) {
	c := t.take()
	switch c {
	case 'a':
		return 7, true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'v':
		return '\v', true
	}
	if c < '0' || c > '7' {
		return c, c != tokenEnd
	}
	most := 3
	if c > '3' {
		most = 2
	}
	n := c - '0'
	for i := 1; i < most && t.peek() >= '0' && t.peek() <= '7'; i++ {
		n = n*8 + t.take() - '0'
	}
	return n, true
}

func isDigit(c rune) bool { return c >= '0' && c <= '9' }

// isNumber: so begins what Java takes for a number.
func isNumber(c rune) bool { return isDigit(c) || c == '-' || c == '.' }

func isWord(c rune) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', isDigit(c), c >= 0xa0:
		return true
	case c == '-', c == '_', c == '$', c == '.':
		return true
	}
	return false
}

package javaconf

import (
	"regexp"
	"strings"
)

var pemBlock = regexp.MustCompile(`(?s)-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END ([A-Z0-9 ]+)-----`)

// PEM writes the blocks of a text as encoding/pem reads them, each of its parts on a
// line of its own. In properties, spaces or nothing may stand where lines ended, which
// Java reads too. A text without blocks, and one with headers, which need their lines,
// stays as it is.
func PEM(text string) string {
	blocks := pemBlock.FindAllStringSubmatch(text, -1)
	if len(blocks) == 0 {
		return text
	}
	var b strings.Builder
	for _, m := range blocks {
		body := m[2]
		if strings.Contains(body, ":") {
			return text
		}
		body = strings.Join(strings.Fields(body), "")
		b.WriteString("-----BEGIN " + m[1] + "-----\n")
		for len(body) > 0 {
			n := min(64, len(body))
			b.WriteString(body[:n] + "\n")
			body = body[n:]
		}
		b.WriteString("-----END " + m[3] + "-----\n")
	}
	return b.String()
}

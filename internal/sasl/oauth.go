package sasl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// OAuthBearer starts an exchange by OAUTHBEARER (RFC 7628) with a token and
// extensions (KIP-342).
func OAuthBearer(token string, extensions map[string]string) (Session, []byte, error) {
	if err := checkToken(token); err != nil {
		return nil, nil, err
	}
	var b strings.Builder
	b.WriteString("n,,\x01auth=Bearer " + token)
	for _, name := range slices.Sorted(maps.Keys(extensions)) {
		if err := checkExtension(name, extensions[name]); err != nil {
			return nil, nil, err
		}
		b.WriteString("\x01" + name + "=" + extensions[name])
	}
	b.WriteString("\x01\x01")
	return new(oauthBearer), []byte(b.String()), nil
}

// checkToken keeps a token from changing the message around it.
func checkToken(token string) error {
	if token == "" {
		return errors.New("OAUTHBEARER: the token is empty")
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return errors.New("OAUTHBEARER: the token has characters that a bearer token cannot have")
		}
	}
	return nil
}

// checkExtension holds to what KIP-342 allows. The value may be a secret and is
// not repeated.
func checkExtension(name, value string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r > 'z' || !isLetter(byte(r)) }) {
		return fmt.Errorf("OAUTHBEARER: the extension's name %q must consist of letters", name)
	}
	if name == "auth" {
		return errors.New(`OAUTHBEARER: an extension must not be named "auth"`)
	}
	for _, c := range []byte(value) {
		if (c < ' ' || c > '~') && c != '\t' && c != '\r' && c != '\n' {
			return fmt.Errorf("OAUTHBEARER: the value of extension %q has characters that it must not have", name)
		}
	}
	if value == "" {
		return fmt.Errorf("OAUTHBEARER: the value of extension %q is empty", name)
	}
	return nil
}

type oauthBearer struct{ answered bool }

// Next takes the server's answer: nothing, or why it refuses the token. A
// refusal must be answered with one byte before the server ends the exchange.
func (o *oauthBearer) Next(_ context.Context, server []byte) ([]byte, bool, error) {
	switch {
	case o.answered:
		return nil, false, errMore
	case len(server) == 0:
		o.answered = true
		return nil, true, nil
	}
	o.answered = true
	return []byte{1}, false, fmt.Errorf("OAUTHBEARER: the token is refused: %s", quote(server))
}

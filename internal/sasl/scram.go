package sasl

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/xdg-go/scram"
)

// The mechanisms of the SCRAM family that Kafka has.
const (
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

const (
	// minIterations is what RFC 7677 demands: fewer make the proof, which
	// whoever listens can keep, cheap to guess from.
	minIterations = 4096
	// maxIterations bounds the time that a server can make this client spend.
	maxIterations = 1_000_000
	// maxScramMessage bounds the messages of a server; real ones have some 150
	// bytes.
	maxScramMessage = 4096
)

// Scram starts an exchange by SCRAM (RFC 5802). Username and password go in as
// they are, without SASLprep: Kafka stores and compares them so.
func Scram(mechanism, username, password string) (Session, []byte, error) {
	hash := scram.SHA256
	if mechanism == ScramSHA512 {
		hash = scram.SHA512
	}
	// The client is not kept: it would remember a key for each salt that a
	// server comes up with.
	client, err := hash.NewClientUnprepped(username, password, "")
	if err != nil {
		return nil, nil, err
	}
	s := &scramSession{conversation: client.NewConversation()}
	first, err := s.conversation.Step("")
	if err != nil {
		return nil, nil, err
	}
	_, s.nonce, _ = strings.Cut(first, ",r=")
	return s, []byte(first), nil
}

type scramSession struct {
	conversation *scram.ClientConversation
	nonce        string // ours
	step         int
}

// Next takes the server's first message, and then its last.
func (s *scramSession) Next(_ context.Context, server []byte) ([]byte, bool, error) {
	s.step++
	switch s.step {
	case 1:
		if err := checkServerFirst(server, s.nonce); err != nil {
			return nil, false, fmt.Errorf("SCRAM: the server's first message is refused: %w", err)
		}
		proof, err := s.conversation.Step(string(server))
		if err != nil {
			return nil, false, errors.New("SCRAM: the server's first message is refused")
		}
		return []byte(proof), false, nil
	case 2:
		if err := checkServerFinal(server); err != nil {
			return nil, false, fmt.Errorf("SCRAM: %w", err)
		}
		if _, err := s.conversation.Step(string(server)); err != nil || !s.conversation.Valid() {
			return nil, false, errors.New("SCRAM: the server's signature is wrong: it does not know the password, " +
				"and may not be the broker that it seems to be")
		}
		return nil, true, nil
	}
	return nil, false, errMore
}

// checkServerFirst judges a server's first message before anything is computed
// from it: r=nonce,s=salt,i=iterations and extensions behind.
func checkServerFirst(message []byte, nonce string) error {
	values, err := attributes(message, "rsi")
	if err != nil {
		return err
	}
	if r := values['r']; !strings.HasPrefix(r, nonce) || len(r) == len(nonce) {
		return errors.New("its nonce does not continue this client's")
	}
	if salt, err := base64.StdEncoding.DecodeString(values['s']); err != nil || len(salt) == 0 {
		return errors.New("its salt is not base64")
	}
	n, err := strconv.ParseUint(values['i'], 10, 31)
	switch {
	case err != nil:
		return fmt.Errorf("its iteration count %s is not a number in range", quote([]byte(values['i'])))
	case n < minIterations:
		return fmt.Errorf("it asks for %d iterations, which makes the password easy to guess; at least %d are needed", n, minIterations)
	case n > maxIterations:
		return fmt.Errorf("it asks for %d iterations; at most %d are computed", n, maxIterations)
	}
	return nil
}

// checkServerFinal judges the form of a server's last message: v=signature, or
// e=error.
func checkServerFinal(message []byte) error {
	if bytes.HasPrefix(message, []byte("e=")) {
		return fmt.Errorf("the server refuses: %s", quote(message[2:]))
	}
	values, err := attributes(message, "v")
	if err != nil {
		return fmt.Errorf("the server's last message is refused: %w", err)
	}
	if _, err := base64.StdEncoding.DecodeString(values['v']); err != nil {
		return errors.New("the server's last message is refused: its signature is not base64")
	}
	return nil
}

// attributes takes a message of the form a=value,b=value apart. It must begin
// with the wanted ones in their order; others may follow, but none twice, and
// not m, which stands for an extension that must be understood.
func attributes(message []byte, wanted string) (map[byte]string, error) {
	if len(message) > maxScramMessage {
		return nil, fmt.Errorf("it has %d bytes, more than the %d allowed", len(message), maxScramMessage)
	}
	values := make(map[byte]string)
	n := 0
	for field := range strings.SplitSeq(string(message), ",") {
		if len(field) < 2 || field[1] != '=' || !isLetter(field[0]) {
			return nil, errors.New("it is malformed")
		}
		name := field[0]
		switch _, twice := values[name]; {
		case name == 'm':
			return nil, errors.New("it demands an extension that this client does not know")
		case twice:
			return nil, fmt.Errorf("its attribute %q comes twice", name)
		case n < len(wanted) && name != wanted[n]:
			return nil, fmt.Errorf("its attribute %q is missing or not in its place", wanted[n])
		}
		values[name] = field[2:]
		n++
	}
	if n < len(wanted) {
		return nil, fmt.Errorf("its attribute %q is missing", wanted[n])
	}
	return values, nil
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

package sasl

import "context"

// Plain starts an exchange by PLAIN (RFC 4616): the message holds the user name
// and the password as they are. Neither may contain a NUL.
func Plain(username, password string) (Session, []byte) {
	return new(plain), []byte("\x00" + username + "\x00" + password)
}

type plain struct{ answered bool }

// Next takes the answer, which is empty: a refusal comes as an error code.
func (p *plain) Next(_ context.Context, _ []byte) ([]byte, bool, error) {
	if p.answered {
		return nil, false, errMore
	}
	p.answered = true
	return nil, true, nil
}

// Package sasl has the client's side of the SASL mechanisms that need nothing
// heavy: PLAIN, SCRAM and OAUTHBEARER. It only makes and judges messages; how
// they travel is its caller's business.
//
// A server's text is never repeated unescaped, and no secret is in any error.
package sasl

import (
	"context"
	"errors"
	"fmt"
)

// A Session is one exchange in progress. It belongs to one goroutine.
type Session interface {
	// Next takes a message of the server and returns the answer to it, and
	// whether the exchange is complete for the client. An answer beside an error
	// is to be sent before the exchange ends with the error.
	Next(ctx context.Context, server []byte) (answer []byte, done bool, err error)
}

// maxText bounds how much of a server's text goes into an error.
const maxText = 500

// quote makes a server's text safe to print.
func quote(text []byte) string {
	if len(text) > maxText {
		return fmt.Sprintf("%q…", text[:maxText])
	}
	return fmt.Sprintf("%q", text)
}

var errMore = errors.New("the server goes on after the exchange was complete")

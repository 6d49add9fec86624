package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// What was being done when a connection failed: the values of [Error.Op] and
// [AuthError.Op].
const (
	OpDial        = "dial"
	OpTLS         = "tls handshake"
	OpSASL        = "sasl"
	OpAPIVersions = "api versions"
	OpWrite       = "write"
	OpRead        = "read"
	OpTimeout     = "timeout"
	OpClose       = "close"
)

var (
	// ErrClosed is the reason of everything that fails because this side closed
	// the connection. It is a net.ErrClosed.
	ErrClosed = fmt.Errorf("connection closed by this client: %w", net.ErrClosed)
	// ErrIdle is the reason of a request on a connection that was closed because
	// nobody used it for Config.MaxIdle: open another. It is a net.ErrClosed.
	ErrIdle = fmt.Errorf("connection closed because it was idle: %w", net.ErrClosed)
)

// An Error is a failure of one connection. All requests on its way on that
// connection get the same one.
type Error struct {
	Node int32 // the broker's id, -1 for a bootstrap server
	Addr Addr
	Op   string // one of the Op constants
	Err  error
}

// Error names the broker, its address, what was being done and why it failed.
func (e *Error) Error() string { return describe(e.Node, e.Addr, e.Op, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Timeout tells whether the failure is that of a broker that did not answer in
// time.
func (e *Error) Timeout() bool {
	return errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
}

// An AuthError means that the two sides did not accept each other: TLS
// certificates or parameters, or SASL credentials. Trying again without a
// change is of no use.
type AuthError struct {
	Node int32 // the broker's id, -1 for a bootstrap server
	Addr Addr
	Op   string // OpTLS or OpSASL
	Err  error
}

// Error names the broker, its address, the step and why it failed.
func (e *AuthError) Error() string { return describe(e.Node, e.Addr, e.Op, e.Err) }

// Unwrap returns the reason.
func (e *AuthError) Unwrap() error { return e.Err }

func describe(node int32, addr Addr, op string, err error) string {
	if node < 0 {
		return fmt.Sprintf("broker at %s: %s: %v", addr, op, err)
	}
	return fmt.Sprintf("broker %d at %s: %s: %v", node, addr, op, err)
}

// timeoutError is os.ErrDeadlineExceeded that says what was waited for.
type timeoutError struct {
	what string
	d    time.Duration
}

func (e *timeoutError) Error() string        { return fmt.Sprintf("no %s within %v", e.what, e.d) }
func (e *timeoutError) Timeout() bool        { return true }
func (e *timeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// hintError adds what the user may try to an error.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() + "; " + e.hint }
func (e *hintError) Unwrap() error { return e.err }

// unsentError wraps the reason of a request of which no byte was written: it
// may be sent again on another connection.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// explainHangUp names the request whose answer did not come.
func (l *Link) explainHangUp(key int16, err error) error {
	if !isHangUp(err) {
		return err
	}
	err = fmt.Errorf("the broker closed the connection before it had answered %s: %w", protocol.APIName(key), err)
	if l.versions != nil && l.cfg.Clamp != (protocol.Release{}) && l.cfg.Clamp.Less(release0100) {
		return &hintError{err, fmt.Sprintf("a broker does so that does not know it: it may be older than %s, which APIVersion says, or 4.0 or newer", l.cfg.Clamp)}
	}
	if key == protocol.KeyMetadata && l.cfg.Auth == nil { // mostly the first request after ApiVersions
		return &hintError{err, "a listener that wants SASL does so (is SecurityProtocol right for this port?)"}
	}
	return err
}

// ctxError returns why ctx ended. It is ctx.Err() for errors.Is, unless a bound
// of this package has ended: that must not look like the end of the caller's
// context.
func ctxError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	var ours *timeoutError
	if errors.Is(cause, err) || errors.As(cause, &ours) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// withBound says which bound of this package ended ctx, if one did, in front of err,
// which may say no more than that it was too long.
func withBound(ctx context.Context, err error) error {
	var ours *timeoutError
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &ours) {
		return fmt.Errorf("%w: %w", ours, err)
	}
	return err
}

// isHangUp tells whether err is the other side's closing of the connection.
func isHangUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// isAlert tells whether err is the other side's TLS alert.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// isTLSRefusal tells whether a handshake ended because one side did not accept
// the other, rather than because the network failed.
func isTLSRefusal(err error) bool {
	var network net.Error
	if isAlert(err) {
		return true
	}
	// What crypto/tls itself finds wrong is of many types, some of them plain
	// text; the network's errors are of few.
	return !isHangUp(err) && !errors.As(err, &network)
}

// tlsHint explains the failures of a TLS handshake with something that does
// not speak TLS.
func tlsHint(err error) error {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record):
		return &hintError{err, "the listener does not speak TLS: is SecurityProtocol right for this port?"}
	case isHangUp(err):
		return &hintError{err, "the broker closed the connection during the TLS handshake: is this a listener without TLS, " +
			"or one that asks for a client certificate?"}
	case isAlert(err):
		return &hintError{err, "the broker refuses: does it ask for a client certificate, another one, or other TLS versions?"}
	}
	return err
}

// hint explains the failures of the first exchange, which are those of a wrong port
// more often than not. oldToo: the broker was asked what older ones know, too.
func (n *negotiation) hint(err error, oldToo bool) error {
	var malformed *protocol.MalformedError
	switch {
	case isHangUp(err):
		hint := "a listener that wants TLS does so (is SecurityProtocol right for this port?)"
		if n.cfg.TLS != nil {
			hint = "a broker that does not accept this client's certificate, or wants one, may do so"
		}
		return &hintError{err, hint + n.oldHint("so do brokers older than 0.10", oldToo)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &hintError{err, "APIVersionAutoTimeout bounds this: it is slow, or not a Kafka broker, or TLS is missing" +
			n.oldHint("brokers of version 0.9 never answer ApiVersions", oldToo)}
	case errors.As(err, &malformed), errors.Is(err, ErrOutOfOrder):
		return &hintError{err, "is this a Kafka broker, and SecurityProtocol right for this port?"}
	}
	return err
}

// oldHint says what to do about a broker that may be too old for ApiVersions.
func (n *negotiation) oldHint(old string, oldToo bool) string {
	switch {
	case oldToo:
		return "; " + old + ", but this one did not answer what they know either (if it is one, set APIVersion to its release)"
	case n.cfg.Clamp != (protocol.Release{}):
		return fmt.Sprintf("; %s, and APIVersion says that this one is %s or newer: set it to the broker's release, or leave it empty", old, n.cfg.Clamp)
	case n.cfg.Auth != nil:
		return `; ` + old + `: for SASL with version 0.9 set APIVersion to "0.9"`
	}
	return "" // it answered ApiVersions before
}

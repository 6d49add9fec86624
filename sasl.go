package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// release09 is the one release that has SASL without SaslHandshake.
var release09, _ = protocol.ParseRelease("0.9")

// A saslAuthenticator authenticates connections by a SASLClient.
type saslAuthenticator struct{ client SASLClient }

// Authenticate runs one exchange: SaslHandshake, then the mechanism's messages,
// framed as SaslAuthenticate requests where the broker has them (KIP-152) and raw
// where it has only version 0 of the handshake.
func (a saslAuthenticator) Authenticate(ctx context.Context, host string, rt conn.Exchange) (time.Duration, error) {
	framed, err := a.handshake(ctx, rt)
	if err != nil {
		return 0, err
	}
	session, message, err := a.client.Start(ctx, host)
	if err != nil {
		return 0, err
	}
	x := saslExchange{rt: rt, framed: framed}
	for done := false; message != nil || !done; {
		if done && !framed {
			return 0, rt.LastToken(ctx, message)
		}
		answer, err := x.send(ctx, message)
		if err != nil {
			return 0, err
		}
		if done {
			break
		}
		if message, done, err = session.Next(ctx, answer); err != nil {
			return 0, x.end(ctx, message, err)
		}
	}
	return sessionLifetime(x.lifetime, session), nil
}

// A saslExchange sends the mechanism's messages.
type saslExchange struct {
	rt       conn.Exchange
	framed   bool
	lifetime time.Duration // of the session, by the last answer; zero: for ever
}

func (x *saslExchange) send(ctx context.Context, message []byte) (answer []byte, err error) {
	if !x.framed {
		return x.rt.Token(ctx, message)
	}
	answer, x.lifetime, err = authenticateFramed(ctx, x.rt, message)
	return answer, err
}

// end sends the last message of an exchange that failed, if there is one, and adds
// what the broker says to it.
func (x *saslExchange) end(ctx context.Context, message []byte, err error) error {
	switch {
	case message == nil:
		return err
	case !x.framed:
		_ = x.rt.LastToken(ctx, message) // the broker closes the connection
		return err
	}
	_, last := x.send(ctx, message)
	if code, ok := errors.AsType[ErrorCode](last); ok {
		return fmt.Errorf("%w: %w", code, err)
	}
	return err
}

// sessionLifetime is the broker's bound on the session, or the end of the client's
// credentials if that is earlier. A broker without a bound may not know how to
// renew a session (KIP-368).
func sessionLifetime(broker time.Duration, session SASLSession) time.Duration {
	if s, ok := session.(interface{ expiry() time.Time }); ok && broker > 0 {
		if end := s.expiry(); !end.IsZero() {
			return max(min(broker, time.Until(end)), 1)
		}
	}
	return broker
}

// handshake agrees on the mechanism. Brokers of 0.9 have nothing to agree on: they read
// tokens of GSSAPI from the first byte on.
func (a saslAuthenticator) handshake(ctx context.Context, rt conn.Exchange) (framed bool, err error) {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = a.client.Mechanism()
	if rt.Versions().Release() == release09 && req.Mechanism == mechanismGSSAPI {
		return false, nil
	}
	resp, err := rt.Do(ctx, req)
	if err != nil {
		return false, needing(err, "which came with Kafka 0.10 (before, there is GSSAPI in 0.9 only)")
	}
	answer := resp.(*kmsg.SASLHandshakeResponse)
	switch code := ErrorCode(answer.ErrorCode); code {
	case protocol.None:
		return req.Version >= 1, nil
	case protocol.UnsupportedSaslMechanism:
		return false, fmt.Errorf("%w: the broker offers %s, not %s", code, mechanismList(answer.SupportedMechanisms), req.Mechanism)
	case protocol.IllegalSaslState:
		return false, fmt.Errorf("%w: is SecurityProtocol right for this port? A listener without SASL says so too", code)
	default:
		return false, code
	}
}

// mechanismList prints what a broker offers, which is its own text.
func mechanismList(names []string) string {
	const most = 20
	if len(names) == 0 {
		return "no mechanism"
	}
	quoted := make([]string, 0, most)
	for _, name := range names[:min(len(names), most)] {
		quoted = append(quoted, fmt.Sprintf("%.64q", name))
	}
	return strings.Join(quoted, ", ")
}

func authenticateFramed(ctx context.Context, rt conn.Exchange, message []byte) ([]byte, time.Duration, error) {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.SASLAuthBytes = message
	resp, err := rt.Do(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	answer := resp.(*kmsg.SASLAuthenticateResponse)
	if code := ErrorCode(answer.ErrorCode); code != protocol.None {
		if answer.ErrorMessage != nil {
			return nil, 0, fmt.Errorf("%w: %q", code, *answer.ErrorMessage)
		}
		return nil, 0, code
	}
	return answer.SASLAuthBytes, time.Duration(answer.SessionLifetimeMillis) * time.Millisecond, nil
}

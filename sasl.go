package kafka

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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
	var lifetime time.Duration
	for done := false; ; {
		if message == nil && done {
			return lifetime, nil
		}
		var answer []byte
		if framed {
			answer, lifetime, err = authenticateFramed(ctx, rt, message)
		} else {
			answer, err = rt.Token(ctx, message)
		}
		if err != nil {
			return 0, err
		}
		if done {
			return lifetime, nil
		}
		if message, done, err = session.Next(ctx, answer); err != nil {
			return 0, err
		}
	}
}

func (a saslAuthenticator) handshake(ctx context.Context, rt conn.Exchange) (framed bool, err error) {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = a.client.Mechanism()
	resp, err := rt.Do(ctx, req)
	if err != nil {
		return false, err
	}
	answer := resp.(*kmsg.SASLHandshakeResponse)
	switch code := ErrorCode(answer.ErrorCode); code {
	case protocol.None:
		return req.Version >= 1, nil
	case protocol.UnsupportedSaslMechanism:
		return false, fmt.Errorf("%w: the broker offers %s, not %s", code,
			strings.Join(answer.SupportedMechanisms, ", "), req.Mechanism)
	default:
		return false, code
	}
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

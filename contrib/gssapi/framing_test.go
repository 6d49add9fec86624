package gssapi

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
)

const (
	keySaslHandshake    int16 = 17
	keySaslAuthenticate int16 = 36
)

// kerberized gives a scripted broker that knows SaslHandshake up to a version and
// wants a whole exchange on each connection.
func kerberized(t *testing.T, handshake int16) (*testbroker.Cluster, *issuer) {
	t.Helper()
	table := testbroker.DefaultVersions()
	table[keySaslHandshake] = testbroker.VersionRange{Min: 0, Max: handshake}
	if handshake > 0 {
		table[keySaslAuthenticate] = testbroker.VersionRange{Min: 0, Max: 2}
	}
	c := testbroker.New(t, testbroker.WithVersions(table))
	c.CreateTopic("events", 1)
	return c, newIssuer(t, etypeID.AES256_CTS_HMAC_SHA1_96)
}

func handshakeAnswer(kmsg.Request) kmsg.Response {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.SupportedMechanisms = []string{Mechanism}
	return resp
}

// use makes a consumer that has to authenticate for what it does.
func use(t *testing.T, c *testbroker.Cluster, auth *Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	consumer, err := kafka.NewConsumer(ctx, kafka.Config{
		BootstrapServers: c.Addrs(), Dialer: c.Dial, Logger: slog.New(slog.DiscardHandler),
		SecurityProtocol: kafka.SecuritySASLPlaintext, SASL: auth,
	})
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, consumer.Close(context.Background())) }()
	tp := kafka.TopicPartition{Topic: "events"}
	ends, err := consumer.EndOffsets(ctx, tp)
	require.Equal(t, map[kafka.TopicPartition]int64{tp: 0}, ends)
	return err
}

// B38: tokens are framed as SaslAuthenticate requests after handshake version 1, and
// raw after version 0, where the broker sends nothing after the last one.
func TestTheFramingOfTokensIsThatOfTheHandshake(t *testing.T) {
	t.Run("framed after version 1", func(t *testing.T) {
		c, issuer := kerberized(t, 1)
		exchanges := map[int]*acceptor{}
		c.On(keySaslHandshake).Reply(handshakeAnswer)
		for n := 1; n <= 8; n++ {
			a := &acceptor{issuer: issuer}
			exchanges[n] = a
			c.On(keySaslAuthenticate).When(func(r testbroker.Request) bool { return r.Conn == n }).
				Reply(func(req kmsg.Request) kmsg.Response {
					resp := kmsg.NewPtrSASLAuthenticateResponse()
					answer, err := a.next(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes)
					if err != nil {
						text := err.Error()
						resp.ErrorCode, resp.ErrorMessage = 58, &text
					}
					resp.SASLAuthBytes = answer
					return resp
				})
		}
		require.NoError(t, use(t, c, newClient(Config{DomainName: "broker.test"}, issuer.obtain)))
		require.Equal(t, []byte{noProtection, 0, 0, 0}, exchanges[1].chosen)
		require.Zero(t, c.Count(keySaslAuthenticate)%3, "three messages for each exchange")
		for _, r := range c.Requests(keySaslHandshake) {
			require.Equal(t, int16(1), r.Version)
		}
	})
	t.Run("raw after version 0", func(t *testing.T) {
		c, issuer := kerberized(t, 0)
		var a *acceptor
		c.On(keySaslHandshake).Reply(func(req kmsg.Request) kmsg.Response {
			a = &acceptor{issuer: issuer}
			return handshakeAnswer(req)
		}).ThenTokens(func(token []byte) ([]byte, bool) {
			answer, err := a.next(token)
			return answer, err == nil && answer == nil
		})
		require.NoError(t, use(t, c, newClient(Config{DomainName: "broker.test"}, issuer.obtain)))
		require.Equal(t, []byte{noProtection, 0, 0, 0}, a.chosen)
		require.Zero(t, c.Count(keySaslAuthenticate))
	})
}

func TestABrokerThatRefusesEndsTheExchange(t *testing.T) {
	c, issuer := kerberized(t, 1)
	c.On(keySaslHandshake).Reply(handshakeAnswer)
	c.On(keySaslAuthenticate).Reply(func(kmsg.Request) kmsg.Response {
		resp := kmsg.NewPtrSASLAuthenticateResponse()
		text := "no such principal"
		resp.ErrorCode, resp.ErrorMessage = 58, &text
		return resp
	})
	err := use(t, c, newClient(Config{DomainName: "broker.test"}, issuer.obtain))
	var refused *kafka.AuthenticationError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "no such principal")
}

package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"
)

const (
	keyAPIVersions      int16 = 18
	keySASLHandshake    int16 = 17
	keySASLAuthenticate int16 = 36
)

// withSASL gives nodes the requests of SASL up to the given versions; a negative one
// means none.
func withSASL(handshake, authenticate int16) testbroker.Option {
	table := testbroker.DefaultVersions()
	for key, top := range map[int16]int16{keySASLHandshake: handshake, keySASLAuthenticate: authenticate} {
		if top >= 0 {
			table[key] = testbroker.VersionRange{Max: top}
		}
	}
	return testbroker.WithVersions(table)
}

// A saslExchange judges the messages of one exchange. An error is a refusal with its
// text; done says that nothing more is expected.
type serverExchange func(message []byte) (answer []byte, done bool, err error)

// A saslServer lets the nodes of a cluster ask for authentication.
type saslServer struct {
	mechanisms []string
	begin      func(mechanism string) serverExchange
	lifetime   int64 // of sessions, in milliseconds

	mu       sync.Mutex
	running  map[int]serverExchange // by connection
	proven   map[int]bool
	raw      serverExchange
	messages []string // of clients, in order
	begun    int
}

// install puts the server's rules into force. With raw, tokens are not framed.
func (s *saslServer) install(b *testbroker.Cluster, raw bool) {
	s.running, s.proven = map[int]serverExchange{}, map[int]bool{}
	handshake := b.On(keySASLHandshake).Reply(func(req kmsg.Request) kmsg.Response {
		resp := kmsg.NewPtrSASLHandshakeResponse()
		resp.SupportedMechanisms = s.mechanisms
		if !strings.Contains(strings.Join(s.mechanisms, ","), req.(*kmsg.SASLHandshakeRequest).Mechanism) {
			resp.ErrorCode = 33
		}
		return resp
	}).Edit(func(req testbroker.Request, resp kmsg.Response) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if resp.(*kmsg.SASLHandshakeResponse).ErrorCode == 0 {
			s.begun++
			s.raw = s.begin(req.Message.(*kmsg.SASLHandshakeRequest).Mechanism)
			s.running[req.Conn] = s.raw
		}
	})
	if raw {
		handshake.ThenTokens(s.token)
	}
	b.On(keySASLAuthenticate).Reply(func(kmsg.Request) kmsg.Response { return kmsg.NewPtrSASLAuthenticateResponse() }).Edit(s.authenticate)
}

func (s *saslServer) authenticate(req testbroker.Request, resp kmsg.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := resp.(*kmsg.SASLAuthenticateResponse)
	exchange := s.running[req.Conn]
	if exchange == nil {
		answer.ErrorCode = 34
		return
	}
	message := req.Message.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes
	s.messages = append(s.messages, string(message))
	bytes, done, err := exchange(message)
	switch {
	case err != nil:
		text := err.Error()
		answer.ErrorCode, answer.ErrorMessage = 58, &text
	default:
		answer.SASLAuthBytes, answer.SessionLifetimeMillis = bytes, s.lifetime
	}
	if done || err != nil {
		delete(s.running, req.Conn)
		s.proven[req.Conn] = err == nil
	}
}

func (s *saslServer) token(message []byte) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, string(message))
	answer, done, err := s.raw(message)
	if err != nil {
		return nil, true
	}
	return answer, done
}

func (s *saslServer) count() (exchanges, messages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun, len(s.messages)
}

// requireProven checks that nothing was asked for on a connection before it was
// authenticated.
func (s *saslServer) requireProven(t *testing.T, b *testbroker.Cluster) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	first := map[int][]int16{}
	for _, r := range b.Requests(testbroker.AnyKey) {
		first[r.Conn] = append(first[r.Conn], r.Key)
	}
	for conn, keys := range first {
		want := []int16{keyAPIVersions, keySASLHandshake}
		require.Equal(t, want[:min(2, len(keys))], keys[:min(2, len(keys))], "connection %d", conn)
	}
}

// plainServer takes one user.
func plainServer(username, password string) *saslServer {
	return &saslServer{mechanisms: []string{"PLAIN"}, begin: func(string) serverExchange {
		return func(message []byte) ([]byte, bool, error) {
			if !bytes.Equal(message, []byte("\x00"+username+"\x00"+password)) {
				return nil, true, errors.New("Authentication failed: Invalid username or password")
			}
			return []byte{}, true, nil
		}
	}}
}

// scramServer takes one user by both mechanisms.
func scramServer(t *testing.T, username, password string) *saslServer {
	return &saslServer{mechanisms: []string{"SCRAM-SHA-256", "SCRAM-SHA-512"}, begin: func(mechanism string) serverExchange {
		hash := scram.SHA256
		if mechanism == "SCRAM-SHA-512" {
			hash = scram.SHA512
		}
		client, err := hash.NewClientUnprepped(username, password, "")
		require.NoError(t, err)
		stored, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt", Iters: 4096})
		require.NoError(t, err)
		server, err := hash.NewServer(func(name string) (scram.StoredCredentials, error) {
			if name != username {
				return scram.StoredCredentials{}, fmt.Errorf("no such user")
			}
			return stored, nil
		})
		require.NoError(t, err)
		peer := server.NewConversation()
		return func(message []byte) ([]byte, bool, error) {
			answer, err := peer.Step(string(message))
			if err != nil {
				return nil, true, errors.New("Authentication failed during authentication due to invalid credentials with SASL mechanism " + mechanism)
			}
			return []byte(answer), peer.Done(), nil
		}
	}}
}

// oauthServer takes one token; to another it answers as RFC 7628 has it.
func oauthServer(token string) *saslServer {
	return &saslServer{mechanisms: []string{"OAUTHBEARER"}, begin: func(string) serverExchange {
		refused := false
		return func(message []byte) ([]byte, bool, error) {
			switch {
			case refused:
				return nil, true, fmt.Errorf("the client ended with %q", message)
			case bytes.HasPrefix(message, []byte("n,,\x01auth=Bearer "+token+"\x01")):
				return []byte{}, true, nil
			}
			refused = true
			return []byte(`{"status":"invalid_token"}`), false, nil
		}
	}}
}

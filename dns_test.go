package kafka

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/certs"
	"github.com/stretchr/testify/require"
)

// A nameServer answers DNS queries in memory: A by name, PTR by the reversed name.
type nameServer struct {
	addresses map[string][]net.IP
	names     map[string]string
}

// install makes it the resolver of the process for the time of the test.
func (s *nameServer) install(t *testing.T) {
	old := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = old })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		mine, theirs := net.Pipe()
		go s.serve(theirs)
		return mine, nil
	}}
}

// serve answers until the resolver hangs up. A pipe is a stream, in which two bytes of
// length stand before each message.
func (s *nameServer) serve(c net.Conn) {
	defer c.Close()
	for {
		var length [2]byte
		if _, err := c.Read(length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := c.Read(query); err != nil {
			return
		}
		answer := s.answer(query)
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	}
}

func (s *nameServer) answer(query []byte) []byte {
	const headerSize, pointerToName = 12, 0xc000 | 12
	var labels []string
	at := headerSize
	for query[at] != 0 {
		n := int(query[at])
		labels = append(labels, string(query[at+1:at+1+n]))
		at += 1 + n
	}
	question, kind := query[headerSize:at+5], binary.BigEndian.Uint16(query[at+1:])
	var data [][]byte
	switch name := strings.Join(labels, "."); kind {
	case 1: // A
		for _, ip := range s.addresses[name] {
			data = append(data, ip.To4())
		}
	case 12: // PTR
		if name := s.names[name]; name != "" {
			var encoded []byte
			for label := range strings.SplitSeq(name, ".") {
				encoded = append(append(encoded, byte(len(label))), label...)
			}
			data = append(data, append(encoded, 0))
		}
	}
	out := append(slices.Clone(query[:2]), 0x81, 0x80, 0, 1, 0, byte(len(data)), 0, 0, 0, 0)
	if len(data) == 0 && kind == 12 {
		out[3] |= 3 // there is no such name
	}
	out = append(out, question...)
	for _, d := range data {
		out = binary.BigEndian.AppendUint16(out, pointerToName)
		out = binary.BigEndian.AppendUint16(out, kind)
		out = append(out, 0, 1, 0, 0, 0, 60)
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(d))), d...)
	}
	return out
}

func TestBootstrapServersGoByTheirCanonicalNames(t *testing.T) {
	dns := nameServer{
		addresses: map[string][]net.IP{"kafka.test": {net.IPv4(192, 0, 2, 1), net.IPv4(192, 0, 2, 2), net.IPv4(192, 0, 2, 3)}},
		names:     map[string]string{"1.2.0.192.in-addr.arpa": "b1.kafka.test", "2.2.0.192.in-addr.arpa": "b2.kafka.test"},
	}
	dns.install(t)
	ca := certs.New("ca")
	option, sni := tlsCluster(func(int32) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{ca.Issue([]string{"b2.kafka.test", "node1.test"}).TLS()}}
	})
	realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		var (
			mu     sync.Mutex
			dialed []string
		)
		node := b.Addrs()[0]
		cfg := patient(fast(b))
		cfg.BootstrapServers, cfg.SecurityProtocol, cfg.SSLCAFile = []string{"kafka.test:9094"}, SecuritySSL, writeFile(t, "ca.pem", ca.PEM())
		cfg.ClientDNSLookup = DNSResolveCanonicalBootstrapServersOnly
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dialed = append(dialed, addr)
			if addr == "b1.kafka.test:9094" {
				return nil, errors.New("it is away")
			}
			return b.Dial(ctx, network, node)
		}
		c := openConsumer(t, cfg)
		_, err := c.EndOffsets(t.Context(), tp0)
		require.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"b1.kafka.test:9094", "b2.kafka.test:9094", node}, dialed[:3], "advertised names stay as they are")
		require.Equal(t, "b2.kafka.test", sni()[0], "TLS checks the canonical name")
	}, option)
}

func TestAddressesWithoutACanonicalNameStandForThemselves(t *testing.T) {
	(&nameServer{}).install(t)
	realTime(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		node := b.Addrs()[0]
		dialed := make(chan string, 100)
		cfg := patient(fast(b))
		cfg.BootstrapServers = []string{"192.0.2.3:9094"}
		cfg.ClientDNSLookup = DNSResolveCanonicalBootstrapServersOnly
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialed <- addr
			return b.Dial(ctx, network, node)
		}
		c := openConsumer(t, cfg)
		require.NoError(t, c.Close(t.Context()))
		require.Equal(t, "192.0.2.3:9094", <-dialed)

		cfg.BootstrapServers = []string{"none.test"}
		_, err := NewConsumer(t.Context(), cfg)
		require.ErrorContains(t, err, "broker at none.test:9092: dial: ")
		dns, ok := errors.AsType[*net.DNSError](err)
		require.True(t, ok, "%v", err)
		require.True(t, dns.IsNotFound)
	})
}

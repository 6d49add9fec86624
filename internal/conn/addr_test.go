package conn

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// B47
func TestParseServers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		servers []string
		want    []Addr
	}{
		{"host and port", []string{"kafka1:19092"}, []Addr{{"kafka1", 19092}}},
		{"no port", []string{"kafka1"}, []Addr{{"kafka1", 9092}}},
		{"IPv4", []string{"127.0.0.1:1"}, []Addr{{"127.0.0.1", 1}}},
		{"IPv6 in brackets", []string{"[::1]:9093"}, []Addr{{"::1", 9093}}},
		{"IPv6 without port", []string{"[::1]"}, []Addr{{"::1", 9092}}},
		{"IPv6 with zone", []string{"[fe80::1%eth0]:9093"}, []Addr{{"fe80::1%eth0", 9093}}},
		{"commas, spaces, and one comma too many", []string{"a:1, b:2 ,", "c"}, []Addr{{"a", 1}, {"b", 2}, {"c", 9092}}},
		{"duplicates in other spelling", []string{"Kafka.Example:1", "kafka.example:1", "kafka.example.:1", "kafka.example:2"}, []Addr{{"Kafka.Example", 1}, {"kafka.example.", 1}, {"kafka.example", 2}}},
		{"underscore and hyphen", []string{"my_kafka-1"}, []Addr{{"my_kafka-1", 9092}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseServers(tc.servers)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

// B47
func TestParseServersRefusals(t *testing.T) {
	for _, tc := range []struct {
		name, server, reason string
	}{
		{"nothing", "", "empty"},
		{"only a comma", ",", "not a name"},
		{"bare IPv6", "::1", "brackets"},
		{"bare IPv6 with port", "fe80::1:9092", "brackets"},
		{"open bracket", "[::1", "closing bracket"},
		{"name in brackets", "[kafka]:9092", "not an IPv6"},
		{"IPv4 in brackets", "[127.0.0.1]:9092", "not an IPv6"},
		{"text after the bracket", "[::1]9092", "only :port"},
		{"colon without port", "kafka:", "port"},
		{"colon without port after brackets", "[::1]:", "port"},
		{"port 0", "kafka:0", "port"},
		{"port too large", "kafka:65536", "port"},
		{"port is a name", "kafka:http", "port"},
		{"negative port", "kafka:-1", "port"},
		{"no host", ":9092", "not a name"},
		{"space inside", "kaf ka:9092", "not a name"},
		{"scheme", "SASL_SSL://kafka:9092", "leave out SASL_SSL://"},
		{"path", "kafka/x:9092", "not a name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseServers([]string{tc.server})
			addrErr, ok := errors.AsType[*AddrError](err)
			require.True(t, ok, err)
			require.Equal(t, tc.server, addrErr.Value)
			require.ErrorContains(t, err, tc.reason)
		})
	}

	_, err := ParseServers([]string{"ok:1", "::1", "x:y"})
	require.ErrorContains(t, err, `"::1"`, "every fault is told")
	require.ErrorContains(t, err, `"x:y"`, "every fault is told")
	_, err = ParseServers(nil)
	require.ErrorContains(t, err, "at least one")
}

func FuzzParseAddr(f *testing.F) {
	for _, s := range []string{"kafka:9092", "[::1]:1", "[fe80::1%eth0]", "::1", "a.b.:65535", "x://y", "[", "]", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		addr, err := ParseAddr(s)
		if err != nil {
			return
		}
		require.NotEmpty(t, addr.Host)
		again, err := ParseAddr(addr.String())
		require.NoError(t, err)
		require.Equal(t, addr, again)
	})
}

func TestAddrString(t *testing.T) {
	require.Equal(t, "kafka:9092", Addr{"kafka", 9092}.String())
	require.Equal(t, "[::1]:9092", Addr{"::1", 9092}.String())
}

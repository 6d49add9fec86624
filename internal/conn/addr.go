package conn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// DefaultPort is the port of an address that names none.
const DefaultPort = 9092

// An Addr is where a broker listens. Host is a name or an IP address without
// brackets.
type Addr struct {
	Host string
	Port int32
}

// String returns host:port, with an IPv6 address in brackets.
func (a Addr) String() string {
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// An AddrError says what is wrong with the text of an address.
type AddrError struct {
	Value  string // as it was given
	Reason string
}

// Error returns the address and what is wrong with it.
func (e *AddrError) Error() string { return fmt.Sprintf("address %q: %s", e.Value, e.Reason) }

// ParseServers parses bootstrap servers of the form host[:port]. An element may
// hold several of them, separated by commas. Duplicates are left out. The error
// joins one *[AddrError] per address at fault.
func ParseServers(servers []string) ([]Addr, error) {
	var (
		addrs  []Addr
		faults []error
		seen   = make(map[Addr]bool)
	)
	for _, server := range servers {
		for _, part := range splitServers(server) {
			addr, err := ParseAddr(part)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			if key := addr.canonical(); !seen[key] {
				seen[key] = true
				addrs = append(addrs, addr)
			}
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if len(addrs) == 0 {
		return nil, &AddrError{Reason: "at least one host[:port] is needed"}
	}
	return addrs, nil
}

// splitServers splits at commas and leaves out the empty pieces that a comma
// at the end makes; an element without any address stays as one piece, so that
// it is reported.
func splitServers(server string) []string {
	var parts []string
	for part := range strings.SplitSeq(server, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return []string{server}
	}
	return parts
}

// canonical makes equal what is equal to every resolver. A trailing dot is not: with it
// a name is looked up in DNS as it is, without it in the hosts file too.
func (a Addr) canonical() Addr {
	return Addr{Host: strings.ToLower(a.Host), Port: a.Port}
}

// ParseAddr parses host[:port]; the port is [DefaultPort] when there is none.
// An IPv6 address stands in brackets. The error is an *[AddrError].
func ParseAddr(s string) (Addr, error) {
	fail := func(reason string) (Addr, error) { return Addr{}, &AddrError{Value: s, Reason: reason} }
	if s == "" {
		return fail("it is empty; the form is host[:port]")
	}
	if scheme, _, ok := strings.Cut(s, "://"); ok {
		return fail(fmt.Sprintf("the form is host[:port]; leave out %s:// and choose it by SecurityProtocol", scheme))
	}
	var (
		host, port string
		hasPort    bool
	)
	if strings.HasPrefix(s, "[") {
		inside, rest, ok := strings.Cut(s[1:], "]")
		if !ok {
			return fail("the closing bracket of the IPv6 address is missing")
		}
		if ip, err := netip.ParseAddr(inside); err != nil || !ip.Is6() {
			return fail("what stands in brackets is not an IPv6 address")
		}
		if rest != "" && rest[0] != ':' {
			return fail("only :port may follow the closing bracket")
		}
		host, port, hasPort = inside, strings.TrimPrefix(rest, ":"), rest != ""
	} else {
		if strings.Count(s, ":") > 1 {
			return fail("an IPv6 address must stand in brackets, as in [::1]:9092")
		}
		host, port, hasPort = strings.Cut(s, ":")
		if !isHostname(host) {
			return fail("the host is not a name or an IP address")
		}
	}
	addr := Addr{Host: host, Port: DefaultPort}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return fail("the port must be a number from 1 to 65535")
		}
		addr.Port = int32(n)
	}
	return addr, nil
}

// isHostname accepts underscores too: container networks use them in names.
func isHostname(host string) bool {
	if strings.Trim(host, ".") == "" || len(host) > 254 {
		return false
	}
	for _, c := range []byte(host) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return !strings.Contains(host, "..")
}

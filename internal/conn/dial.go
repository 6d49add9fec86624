package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// Dial opens a connection to a broker and makes it ready for requests: TLS,
// ApiVersions, SASL. All addresses of the host are tried in turn, each with its
// share of what is left of Config.SetupTimeout, until one is ready. node is the
// broker's id, or -1 for a bootstrap server. The error is an *[Error] or, when
// the two sides did not accept each other, an *[AuthError].
func Dial(ctx context.Context, cfg *Config, node int32, addr Addr) (*Link, error) {
	return dial(ctx, cfg.filled(), node, addr, linkHooks{})
}

func dial(ctx context.Context, cfg *Config, node int32, addr Addr, hooks linkHooks) (*Link, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.SetupTimeout, &timeoutError{"usable connection", cfg.SetupTimeout})
	defer cancel()
	fail := func(err error) (*Link, error) {
		return nil, &Error{Node: node, Addr: addr, Op: OpDial, Err: err}
	}
	ips, err := addresses(ctx, cfg, node, addr.Host)
	if err != nil {
		return fail(err)
	}
	var faults addressErrors
	for i, ip := range ips {
		link, err := dialAddress(ctx, cfg, node, addr, ip, len(ips)-i, hooks)
		if err == nil {
			return link, nil
		}
		var auth *AuthError
		if len(ips) == 1 || errors.As(err, &auth) {
			return nil, err
		}
		faults = append(faults, addressError{ip: ip, err: err})
		if ctx.Err() != nil {
			break
		}
	}
	return fail(faults)
}

// addresses returns what to dial for a host: its IP addresses, or the host itself when
// a Dialer resolves names.
func addresses(ctx context.Context, cfg *Config, node int32, host string) ([]string, error) {
	if cfg.Dialer != nil && !cfg.canonical(node) {
		return []string{host}, nil
	}
	return resolve(ctx, cfg, host)
}

func resolve(ctx context.Context, cfg *Config, host string) ([]string, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{host}, nil
	}
	ips, err := cfg.LookupHost(ctx, host)
	if err == nil && len(ips) == 0 {
		err = fmt.Errorf("the name %q has no addresses", host)
	}
	return ips, err
}

// canonical tells whether the addresses of a node go by their canonical names.
func (c *Config) canonical(node int32) bool { return c.CanonicalBootstrap && node < 0 }

// canonicalName returns the name that DNS has for an address, or the address when there
// is none.
func canonicalName(ctx context.Context, cfg *Config, ip string) string {
	names, err := cfg.LookupAddr(ctx, ip)
	if err != nil || len(names) == 0 {
		cfg.Logger.Warn("kafka: an address of a bootstrap server has no canonical name", "address", ip, "error", err)
		return ip
	}
	return strings.TrimSuffix(names[0], ".")
}

// dialAddress tries one address of a host, of which `left` are to be tried yet: a
// black hole must leave time for the others (KIP-302).
func dialAddress(ctx context.Context, cfg *Config, node int32, addr Addr, ip string, left int, hooks linkHooks) (*Link, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		share := time.Until(deadline) / time.Duration(left)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, share, &timeoutError{"usable connection", share})
		defer cancel()
	}
	if cfg.canonical(node) {
		addr.Host = canonicalName(ctx, cfg, ip)
	}
	n := &negotiation{
		cfg: cfg, node: node, addr: addr, where: Addr{ip, addr.Port}.String(), hooks: hooks,
	}
	n.open = func(ctx context.Context) (net.Conn, error) { return dialTCP(ctx, cfg, n.where) }
	if cfg.Dialer != nil {
		n.where = addr.String()
		n.open = func(ctx context.Context) (net.Conn, error) { return cfg.Dialer(ctx, "tcp", n.where) }
	}
	return n.setup(ctx)
}

// dialTCP opens a socket. Go sets TCP_NODELAY and keep-alive by itself.
func dialTCP(ctx context.Context, cfg *Config, address string) (net.Conn, error) {
	dialer := net.Dialer{Control: cfg.Control}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if err := setBuffers(conn, cfg); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func setBuffers(conn net.Conn, cfg *Config) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	if cfg.ReceiveBufferBytes > 0 {
		if err := tcp.SetReadBuffer(cfg.ReceiveBufferBytes); err != nil {
			return fmt.Errorf("receive buffer of %d bytes: %w", cfg.ReceiveBufferBytes, err)
		}
	}
	if cfg.SendBufferBytes > 0 {
		if err := tcp.SetWriteBuffer(cfg.SendBufferBytes); err != nil {
			return fmt.Errorf("send buffer of %d bytes: %w", cfg.SendBufferBytes, err)
		}
	}
	return nil
}

// addressErrors are the reasons of a host's addresses, none of which worked.
type addressErrors []addressError

type addressError struct {
	ip  string
	err error
}

func (e addressErrors) Error() string {
	texts := make([]string, len(e))
	for i, a := range e {
		reason := a.err
		var inner *Error
		if errors.As(reason, &inner) { // its broker and address stand before already
			texts[i] = fmt.Sprintf("%s: %s: %v", a.ip, inner.Op, inner.Err)
			continue
		}
		texts[i] = fmt.Sprintf("%s: %v", a.ip, reason)
	}
	return strings.Join(texts, "; ")
}

func (e addressErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, a := range e {
		errs[i] = a.err
	}
	return errs
}

//go:build unix

// Package proxy is a TCP proxy in front of one broker that fails in the ways
// in which networks do. It passes on what it is given, byte for byte; it reads
// the frames of Kafka only to tell connections and answers apart.
package proxy

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// A Proxy passes connections on to a broker. Its methods may be called from
// any goroutine.
type Proxy struct {
	addr string
	wg   sync.WaitGroup

	mu       sync.Mutex // guards all below
	listener net.Listener
	upstream string
	links    map[*link]bool
	connects int
	silent   bool // new connections are swallowed
	closed   bool
	delay    time.Duration
	halve    map[int16]chan struct{} // by API key: closed when an answer was halved
	asked    map[int16]int           // requests, by API key
	answered map[int16]int64         // bytes of answers, by API key
}

// Start starts a proxy on a free port of 127.0.0.1. It passes on to upstream,
// a host:port; SetUpstream changes it. It ends with the test.
func Start(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p, err := Listen(upstream)
	if err != nil {
		t.Fatalf("start a proxy: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// Listen is Start for a proxy that its caller closes.
func Listen(upstream string) (*Proxy, error) {
	l, err := proc.Listen() // the port of which is still free after Refuse
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		addr: l.Addr().String(), listener: l, upstream: upstream,
		links: map[*link]bool{}, halve: map[int16]chan struct{}{}, asked: map[int16]int{}, answered: map[int16]int64{},
	}
	p.wg.Go(func() { p.accept(l) })
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Dial connects to the proxy whatever address it is given, as the
// kafka.Config.Dialer of a cluster of one node.
func (p *Proxy) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, p.addr)
}

// SetUpstream has new connections passed on to another address.
func (p *Proxy) SetUpstream(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = addr
}

// Connects tells how many connections were accepted so far.
func (p *Proxy) Connects() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connects
}

// Asked tells how many requests of an API went through so far.
func (p *Proxy) Asked(key int16) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[key]
}

// Answered tells how many bytes of answers to an API went through so far.
func (p *Proxy) Answered(key int16) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered[key]
}

// Delay holds each piece of data back for d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Freeze swallows from now on what the existing connections carry in the
// direction, without closing any. Keys restrict it to connections on which
// such a request was made. New connections work. It tells how many froze.
func (p *Proxy) Freeze(d Direction, keys ...int16) int {
	n := 0
	for _, l := range p.withKeys(keys) {
		l.freeze(d)
		n++
	}
	return n
}

// Silence swallows everything on existing and new connections, until it is
// called with false: then new ones work again, and those that froze are cut.
func (p *Proxy) Silence(on bool) {
	p.mu.Lock()
	p.silent = on
	p.mu.Unlock()
	if on {
		p.Freeze(Both)
	} else {
		p.Cut()
	}
}

// Halve lets half of the next answer to an API through and then freezes that
// connection. The channel is closed when that has happened.
func (p *Proxy) Halve(key int16) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.halve[key] == nil {
		p.halve[key] = make(chan struct{})
	}
	return p.halve[key]
}

// Cut resets all existing connections.
func (p *Proxy) Cut() {
	for _, l := range p.withKeys(nil) {
		l.reset()
	}
}

// Refuse cuts all connections and refuses new ones, until Allow.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.Cut()
}

// Allow ends Refuse.
func (p *Proxy) Allow(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.closed {
		return
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		t.Fatalf("listen again: %v", err)
	}
	p.listener = l
	p.wg.Go(func() { p.accept(l) })
}

// Close ends the proxy and all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.wg.Wait()
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.connects++
		upstream, silent := p.upstream, p.silent
		p.mu.Unlock()
		p.wg.Go(func() { p.serve(client, upstream, silent) })
	}
}

// serve carries one connection to its end.
func (p *Proxy) serve(client net.Conn, upstream string, silent bool) {
	server, err := net.DialTimeout("tcp", upstream, 5*time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server, keys: map[int16]bool{}}
	if silent {
		l.freeze(Both)
	}
	p.mu.Lock()
	if p.listener == nil || p.silent && !silent {
		p.mu.Unlock()
		l.reset()
		return
	}
	p.links[l] = true
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// withKeys gives the connections that carried a request of one of the keys;
// no keys: all.
func (p *Proxy) withKeys(keys []int16) []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*link
	for l := range p.links {
		if len(keys) == 0 || l.carried(keys) {
			found = append(found, l)
		}
	}
	return found
}

// takeHalve gives the channel of a Halve that is due for an API, or nil.
func (p *Proxy) takeHalve(key int16) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := p.halve[key]
	delete(p.halve, key)
	return done
}

func (p *Proxy) countAsked(key int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[key]++
}

func (p *Proxy) countAnswered(key int16, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered[key] += int64(n)
}

func (p *Proxy) pause() {
	p.mu.Lock()
	d := p.delay
	p.mu.Unlock()
	time.Sleep(d)
}

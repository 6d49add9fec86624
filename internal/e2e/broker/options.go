//go:build unix

package broker

import "maps"

type config struct {
	nodes      int
	properties map[string]string
	scramUsers []scramUser
	listeners  []Listener
	advertised []string // of the clients' listener, by node; nil: there is none
	jvm        []string
}

// An Option changes how a cluster is started.
type Option func(*config)

// Nodes is the number of brokers, 1 to 3. Without it there is one.
func Nodes(n int) Option { return func(c *config) { c.nodes = n } }

// Property sets a property of every broker, over the one of the template in
// testdata/brokers.
func Property(name, value string) Option {
	return func(c *config) { c.properties[name] = value }
}

// Properties sets several at once.
func Properties(p map[string]string) Option {
	return func(c *config) { maps.Copy(c.properties, p) }
}

// ClientListener gives each node of a KRaft cluster a second listener, for
// clients, that tells them to come to addrs instead, one for each node: to
// proxies that pass on to Cluster.ClientAddr. Brokers among each other and
// Bootstrap keep to the first listener.
func ClientListener(addrs ...string) Option {
	return func(c *config) { c.advertised = addrs }
}

// JavaProperty defines a system property of the brokers' JVMs.
func JavaProperty(name, value string) Option {
	return func(c *config) { c.jvm = append(c.jvm, "-D"+name+"="+value) }
}

func newConfig(opts []Option) *config {
	c := &config{nodes: 1, properties: map[string]string{}}
	for _, o := range opts {
		o(c)
	}
	return c
}

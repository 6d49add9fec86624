//go:build unix

package broker

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// A Listener is one that clients can use beside the plain one.
type Listener struct {
	Name     string // as in listener.name.NAME.…, in upper case
	Security string // SSL, SASL_PLAINTEXT, …
	Host     string // what it tells clients to come to; empty: 127.0.0.1
}

// Listeners gives every node further listeners on 127.0.0.1, each on a port of
// its own. What they need is set by Property. Brokers among each other and
// Bootstrap keep to the plain one. It does not go together with ClientListener.
func Listeners(list ...Listener) Option {
	return func(c *config) { c.listeners = append(c.listeners, list...) }
}

// ListenerAddr gives the address of a listener of a node.
func (c *Cluster) ListenerAddr(node int32, name string) string {
	port, ok := c.node(node).listenerPorts[name]
	if !ok {
		panic(fmt.Sprintf("broker: no listener %q", name))
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// addListeners adds the properties of the further listeners to override.
func (n *node) addListeners(override map[string]string, controllerPort string) error {
	list := n.cluster.conf.listeners
	ports, err := freePorts(len(list))
	if err != nil {
		return err
	}
	n.listenerPorts = map[string]int{}
	listeners := []string{"PLAINTEXT://" + n.addr()}
	advertised := []string{"PLAINTEXT://" + n.addr()}
	protocols := []string{"PLAINTEXT:PLAINTEXT"}
	for i, l := range list {
		n.listenerPorts[l.Name] = ports[i]
		host := l.Host
		if host == "" {
			host = "127.0.0.1"
		}
		listeners = append(listeners, fmt.Sprintf("%s://127.0.0.1:%d", l.Name, ports[i]))
		advertised = append(advertised, fmt.Sprintf("%s://%s:%d", l.Name, host, ports[i]))
		protocols = append(protocols, l.Name+":"+l.Security)
	}
	if n.cluster.version.kind == kraft {
		listeners = append(listeners, "CONTROLLER://127.0.0.1:"+controllerPort)
		protocols = append(protocols, "CONTROLLER:PLAINTEXT")
	}
	override["listeners"] = strings.Join(listeners, ",")
	override["advertised.listeners"] = strings.Join(advertised, ",")
	override["listener.security.protocol.map"] = strings.Join(protocols, ",")
	return nil
}

// escapeProperty writes a value so that Java reads it back from a properties file,
// which is Latin-1 to it.
func escapeProperty(value string) string {
	var b strings.Builder
	for i, r := range value {
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == ' ' && i == 0:
			b.WriteString(`\ `)
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		case r > 0x7e:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

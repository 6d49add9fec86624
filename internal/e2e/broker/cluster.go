//go:build unix

package broker

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

const (
	startTimeout = 4 * time.Minute
	stopGrace    = 10 * time.Second
	clusterID    = "b0JzZXJ2ZWRDbHVzdGVyMQ"
)

// A Cluster is a running Kafka. Node ids count from 1.
type Cluster struct {
	Version string

	version   version
	conf      *config
	dir       string
	nodes     []*node
	zookeeper *node // nil with KRaft
	reports   reports
	lost      error // why it cannot be made whole again; of tests that run one after the other
}

// Start starts a cluster for one test, waits until it serves and stops it
// when the test ends. Most tests do with Shared. Without Java and Maven the
// test is skipped; under CI it fails.
func Start(t testing.TB, version string, opts ...Option) *Cluster {
	t.Helper()
	NeedJava(t)
	c, err := start(version, opts)
	if err != nil {
		t.Fatalf("start Kafka %s: %v", version, err)
	}
	t.Cleanup(func() {
		c.reportFailure(t)
		c.stop()
	})
	return c
}

func start(name string, opts []Option) (*Cluster, error) {
	v, ok := versions[name]
	if !ok {
		return nil, fmt.Errorf("release %q is not in the table of package broker", name)
	}
	conf := newConfig(opts)
	if conf.nodes < 1 || conf.nodes > 3 {
		return nil, fmt.Errorf("a cluster of %d nodes: want 1 to 3", conf.nodes)
	}
	var errs []error
	// A free port can be taken by another program before the broker has it; what a
	// broker that ended says of that may be far up in its log.
	for range 3 {
		c := &Cluster{Version: name, version: v, conf: conf}
		err := c.start()
		if err == nil {
			return c, nil
		}
		c.stop()
		errs = append(errs, err)
		if !strings.Contains(err.Error(), " ended: ") {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (c *Cluster) start() error {
	dir, err := os.MkdirTemp("", "kafka-"+c.Version+"-")
	if err != nil {
		return err
	}
	c.dir = dir
	if err := c.layOut(); err != nil {
		return err
	}
	return c.launch()
}

// launch starts what was laid out and waits until it serves.
func (c *Cluster) launch() error {
	if c.zookeeper != nil {
		if err := c.zookeeper.launch(); err != nil {
			return err
		}
		if err := c.zookeeper.waitPort(startTimeout); err != nil {
			return err
		}
		if err := c.storeScramUsers(); err != nil {
			return err
		}
	}
	if err := c.launchAll(); err != nil {
		return err
	}
	if err := c.ready(c.nodes); err != nil || c.zookeeper != nil {
		return err
	}
	return c.alterScramUsers()
}

// launchAll formats and launches the nodes at the same time.
func (c *Cluster) launchAll() error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() {
			if errs[i] = n.format(); errs[i] == nil {
				errs[i] = n.launch()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// layOut chooses the ports and writes the properties files of all nodes.
func (c *Cluster) layOut() error {
	ports, err := freePorts(3*c.conf.nodes + 1)
	if err != nil {
		return err
	}
	clientPorts := ports[2*c.conf.nodes+1:]
	fill := map[string]string{"REPLICAS": strconv.Itoa(c.conf.nodes)}
	template := "kraft.properties.in"
	if c.version.kind == zookeeper {
		template = "zkbroker.properties.in"
		fill["ZOOKEEPER"] = "127.0.0.1:" + strconv.Itoa(ports[0])
		c.zookeeper = &node{cluster: c, name: "zookeeper", port: ports[0]}
		if err := c.zookeeper.configure("zookeeper.properties.in", fill, nil); err != nil {
			return err
		}
	}
	var voters []string
	for i := range c.conf.nodes {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, ports[2+2*i]))
	}
	fill["VOTERS"] = strings.Join(voters, ",")
	for i := range c.conf.nodes {
		n := &node{cluster: c, name: fmt.Sprintf("node-%d", i+1), id: int32(i + 1), port: ports[1+2*i]}
		fill["NODE"] = strconv.Itoa(i + 1)
		fill["CONTROLLER_PORT"] = strconv.Itoa(ports[2+2*i])
		override := maps.Clone(c.conf.properties)
		if c.conf.advertised != nil {
			n.clientPort = clientPorts[i]
			maps.Copy(override, n.listeners(fill["CONTROLLER_PORT"], c.conf.advertised[i]))
		}
		if c.conf.listeners != nil {
			if err := n.addListeners(override, fill["CONTROLLER_PORT"]); err != nil {
				return err
			}
		}
		if err := n.configure(template, fill, override); err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	return nil
}

// Bootstrap gives the address of every node.
func (c *Cluster) Bootstrap() []string {
	addrs := make([]string, 0, len(c.nodes))
	for _, n := range c.nodes {
		addrs = append(addrs, n.addr())
	}
	return addrs
}

// Addr gives the address of one node.
func (c *Cluster) Addr(node int32) string { return c.node(node).addr() }

// ClientAddr gives the address of a node's listener for clients, which there
// is with the option ClientListener.
func (c *Cluster) ClientAddr(node int32) string { return c.node(node).clientAddr() }

// Advertise changes where a node tells clients to come to, from its next start
// on.
func (c *Cluster) Advertise(t testing.TB, node int32, addr string) {
	t.Helper()
	if err := c.node(node).advertise(addr); err != nil {
		t.Fatalf("change what node %d advertises: %v", node, err)
	}
}

// Log gives the file that a node writes its log to.
func (c *Cluster) Log(node int32) string { return c.node(node).log() }

func (c *Cluster) node(id int32) *node {
	if id < 1 || int(id) > len(c.nodes) {
		panic(fmt.Sprintf("broker: no node %d in a cluster of %d", id, len(c.nodes)))
	}
	return c.nodes[id-1]
}

// stop ends the brokers all at once, then ZooKeeper: a broker that has lost
// its ZooKeeper does not heed SIGTERM.
func (c *Cluster) stop() {
	ended := make(chan struct{})
	for _, n := range c.nodes {
		go func() {
			// The last controllers cannot hand over to anybody and wait for
			// each other, and the data is thrown away: little patience.
			n.stop(time.Second)
			ended <- struct{}{}
		}()
	}
	for range c.nodes {
		<-ended
	}
	if c.zookeeper != nil {
		c.zookeeper.stop(stopGrace)
	}
	_ = os.RemoveAll(c.dir)
}

// freePorts gives ports that nobody listens on, each once.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := proc.Listen()
		if err != nil {
			return nil, err
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

func brokerFile(name string) (string, error) {
	root, err := proc.Root()
	return filepath.Join(root, "testdata", "brokers", name), err
}

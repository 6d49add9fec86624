//go:build unix

package broker

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// A node is one JVM of a cluster: a broker or the ZooKeeper.
type node struct {
	cluster *Cluster
	name    string
	id      int32 // 0: the ZooKeeper
	port    int
	process *proc.Process

	clientPort    int            // 0: there is no listener for clients
	listenerPorts map[string]int // of the further listeners, by name
}

func (n *node) addr() string       { return "127.0.0.1:" + strconv.Itoa(n.port) }
func (n *node) log() string        { return filepath.Join(n.cluster.dir, n.name+".log") }
func (n *node) properties() string { return filepath.Join(n.cluster.dir, n.name+".properties") }

func (n *node) clientAddr() string { return "127.0.0.1:" + strconv.Itoa(n.clientPort) }

// listeners gives the properties for a second listener.
func (n *node) listeners(controllerPort, advertised string) map[string]string {
	return map[string]string{
		"listeners":                      fmt.Sprintf("PLAINTEXT://%s,CLIENTS://%s,CONTROLLER://127.0.0.1:%s", n.addr(), n.clientAddr(), controllerPort),
		"advertised.listeners":           fmt.Sprintf("PLAINTEXT://%s,CLIENTS://%s", n.addr(), advertised),
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
	}
}

func (n *node) advertise(addr string) error {
	// Java takes the last of two equal names.
	line := fmt.Sprintf("advertised.listeners=PLAINTEXT://%s,CLIENTS://%s\n", n.addr(), addr)
	b, err := os.ReadFile(n.properties())
	if err != nil {
		return err
	}
	return os.WriteFile(n.properties(), append(b, line...), 0o600)
}

// configure fills a template in and writes the properties file of the node.
func (n *node) configure(template string, fill, override map[string]string) error {
	file, err := brokerFile(template)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(b)
	for name, value := range fill {
		text = strings.ReplaceAll(text, "@"+name+"@", value)
	}
	text = strings.ReplaceAll(text, "@PORT@", strconv.Itoa(n.port))
	text = strings.ReplaceAll(text, "@DATA@", filepath.Join(n.cluster.dir, n.name))
	// Java takes the last of two equal names.
	for name, value := range override {
		text += name + "=" + escapeProperty(value) + "\n"
	}
	return os.WriteFile(n.properties(), []byte(text), 0o600)
}

// format writes the cluster id into the storage of a KRaft node.
func (n *node) format() error {
	if n.cluster.version.kind != kraft {
		return nil
	}
	args, err := JVM(n.cluster.Version, "128m")
	if err != nil {
		return err
	}
	args = append(args, "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", n.properties())
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("format the storage of %s: %w\n%s", n.name, err, out)
	}
	return nil
}

func (n *node) launch() error {
	heap, main := "320m", "kafka.Kafka"
	if n.id == 0 {
		heap, main = "128m", "org.apache.zookeeper.server.quorum.QuorumPeerMain"
	}
	args, err := JVM(n.cluster.Version, heap, n.cluster.conf.jvm...)
	if err != nil {
		return err
	}
	n.process, err = proc.Start(proc.Options{
		Args: slices.Concat(args, []string{main, n.properties()}),
		Dir:  n.cluster.dir,
		Log:  n.log(),
	})
	return err
}

func (n *node) stop(grace time.Duration) {
	if n.process != nil {
		n.process.Stop(grace)
	}
}

// waitPort waits until the node accepts a connection.
func (n *node) waitPort(timeout time.Duration) error {
	return n.poll(timeout, func() error {
		conn, err := net.DialTimeout("tcp", n.addr(), time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// poll repeats ask until it succeeds; the end of the process ends it early, and whatever
// answers then on its port is another's.
func (n *node) poll(timeout time.Duration, ask func() error) error {
	deadline := time.After(timeout)
	for {
		err := ask()
		if err == nil && n.process.Running() {
			return nil
		}
		select {
		case <-n.process.Done():
			return fmt.Errorf("%s ended: %v\n%s", n.name, n.process.Err(), n.lastLines())
		case <-deadline:
			return fmt.Errorf("%s is not ready after %s: %w\n%s", n.name, timeout, err, n.lastLines())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

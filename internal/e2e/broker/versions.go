//go:build unix

package broker

import (
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// kind is how the nodes of a release are started.
type kind int

const (
	kraft     kind = iota // controllers of their own
	zookeeper             // beside a ZooKeeper from the same jars
)

// A version is one release of Kafka that tests can start. What Maven has to
// fetch for it is in testdata/brokers/kafka-VERSION.pom.xml.
type version struct {
	kind     kind
	tools    string            // release whose Java clients and tools talk to it; empty: only those of package own
	metadata int16             // version of Metadata that its readiness is asked with; 0: it does not know ApiVersions
	producer map[string]string // what Java's producer must be told for it
	unlisted bool              // its metadata names no brokers before there is a topic
}

var versions = map[string]version{
	"4.4.0":    {kind: kraft, tools: "4.4.0", metadata: 4},
	"3.9.2":    {kind: kraft, tools: "3.9.2", metadata: 4},
	"2.8.2":    {kind: zookeeper, tools: "3.9.2", metadata: 4},
	"0.11.0.3": {kind: zookeeper, tools: "3.9.2", metadata: 4},
	"1.1.1":    {kind: zookeeper, tools: "3.9.2", metadata: 4},
	"0.10.2.2": {kind: zookeeper, tools: "3.9.2", metadata: 1, producer: map[string]string{"enable.idempotence": "false"}},
	"0.9.0.1":  {kind: zookeeper},
	"0.8.2.2":  {kind: zookeeper, unlisted: true},
	"0.8.1.1":  {kind: zookeeper, unlisted: true},
	"0.8.0":    {kind: zookeeper, unlisted: true},
}

// Tools is the release whose Java clients and tools fit a broker: its own,
// or the oldest one at hand that still speaks to it; empty for brokers before
// 0.10.
func Tools(brokerVersion string) string { return versions[brokerVersion].tools }

// ProducerProperties gives the properties without which Java's producer does
// not work with a broker; they may be none.
func ProducerProperties(brokerVersion string) map[string]string {
	return versions[brokerVersion].producer
}

// NeedJava ends the test, as proc.Missing does, where Java or Maven is not
// installed.
func NeedJava(t testing.TB) {
	t.Helper()
	for _, name := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(name); err != nil {
			proc.Missing(t, fmt.Sprintf("real Kafka needs a JDK and Maven: no %q found", name))
		}
	}
}

// Classpath fetches the jars of a release when they are not in the cache and
// gives the Java class path of them.
func Classpath(release string) (string, error) {
	root, err := proc.Root()
	if err != nil {
		return "", err
	}
	pom := filepath.Join(root, "testdata", "brokers", "kafka-"+release+".pom.xml")
	key, err := os.ReadFile(pom)
	if err != nil {
		return "", fmt.Errorf("no such release: %w", err)
	}
	dir, err := proc.Cached("kafka/"+release, string(key), func(dir string) error {
		err := proc.Run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DoutputDirectory="+dir)
		if err != nil {
			return fmt.Errorf("fetch Kafka %s: %w", release, err)
		}
		return nil
	})
	return filepath.Join(dir, "*"), err
}

// Compile compiles Java sources against the jars of a release, unless the cache has
// their classes under that name, and gives the folder of the classes. It is another one
// for other sources: programs may run that were made of those.
func Compile(name, release string, sources []string) (string, error) {
	cp, err := Classpath(release)
	if err != nil {
		return "", err
	}
	var key string
	for _, s := range sources {
		b, err := os.ReadFile(s)
		if err != nil {
			return "", err
		}
		key += string(b)
	}
	return proc.Cached(fmt.Sprintf("%s-%08x", name, crc32.ChecksumIEEE([]byte(key))), key, func(dir string) error {
		return proc.Run(append([]string{"javac", "-nowarn", "-d", dir, "-cp", cp}, sources...)...)
	})
}

// JVM gives the java command with a small heap, a quick start and logs on
// standard error; the main class and its arguments follow.
func JVM(release, heap string, properties ...string) ([]string, error) {
	cp, err := Classpath(release)
	if err != nil {
		return nil, err
	}
	root, err := proc.Root()
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(root, "testdata", "brokers")
	args := []string{
		"java", "-Xms32m", "-Xmx" + heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true",
		"--add-opens=java.base/java.lang=ALL-UNNAMED", // snappy of 0.8 loads its native code by reflection
		"-Dlog4j.configuration=file:" + filepath.Join(conf, "log4j.properties"),
		"-Dlog4j2.configurationFile=" + filepath.Join(conf, "log4j2.yaml"),
	}
	return append(append(args, properties...), "-cp", cp), nil
}

// Before tells whether a release, such as "0.10.2.2", is older than another,
// such as "0.11".
func Before(release, other string) bool {
	return slices.Compare(numbers(release), numbers(other)) < 0
}

func numbers(release string) []int {
	var out []int
	for part := range strings.SplitSeq(release, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			panic(fmt.Sprintf("broker: %q is no release", release))
		}
		out = append(out, n)
	}
	return out
}

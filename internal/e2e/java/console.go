//go:build unix

package java

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/peer"
)

// ConsoleConsumer starts Kafka's console consumer on a topic, reading from
// the beginning where the group has no committed offset. Properties are those
// of Java's consumer.
func ConsoleConsumer(t testing.TB, c *broker.Cluster, group, topic string, properties map[string]string) *peer.Consumer {
	t.Helper()
	return peer.Start(t, ConsoleProgram(t, c.Version, c.Bootstrap(), group, topic, properties))
}

// ConsoleProgram is what ConsoleConsumer starts, for brokers of a version.
func ConsoleProgram(t testing.TB, version string, bootstrap []string, group, topic string, properties map[string]string) peer.Program {
	t.Helper()
	release := broker.Tools(version)
	line, err := broker.JVM(release, "128m")
	if err != nil {
		t.Fatalf("start the console consumer: %v", err)
	}
	formatter, property := "--property", "--consumer-property"
	if strings.HasPrefix(release, "4.") {
		formatter, property = "--formatter-property", "--command-property"
	}
	line = append(line, "org.apache.kafka.tools.consumer.ConsoleConsumer",
		"--bootstrap-server", join(bootstrap), "--topic", topic, "--group", group, "--from-beginning")
	for _, p := range []string{"print.partition", "print.offset", "print.key", "print.value"} {
		line = append(line, formatter, p+"=true")
	}
	for name, value := range properties {
		line = append(line, property, name+"="+value)
	}
	return peer.Program{Name: "Java's console consumer", Args: line, Parse: parseConsole}
}

// parseConsole reads "Partition:0\tOffset:5\tkey\tvalue".
func parseConsole(line string) (peer.Event, error) {
	fields := strings.SplitN(line, "\t", 4)
	var r peer.Record
	if len(fields) == 4 {
		_, err := fmt.Sscanf(fields[0]+" "+fields[1], "Partition:%d Offset:%d", &r.Partition, &r.Offset)
		r.Key, r.Value = fields[2], fields[3]
		return peer.Event{Record: &r}, err
	}
	return peer.Event{}, fmt.Errorf("not a line of the console consumer: %q", line)
}

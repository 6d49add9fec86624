package kafka_test

import (
	"fmt"
	"strings"

	"github.com/kafkaconsumer/kafka"
)

// A file that Java's tools have been using goes on being used. Keys that have no effect
// here are let pass; all other faults end the program.
func ExampleConfigFromProperties() {
	file := strings.NewReader(`
# consumer.properties
bootstrap.servers=broker1:9092,broker2:9092
group.id=billing
enable.auto.commit=false
isolation.level=read_committed
key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location=/etc/kafka/ca.pem
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
  username="billing" \
  password="not shown";
`)
	cfg, err := kafka.ConfigFromProperties(file)
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			if fault, ok := err.(*kafka.ConfigError); !ok || !fault.Unused {
				panic(err)
			}
			fmt.Println(err)
		}
	} else if err != nil {
		panic(err)
	}
	cfg.Topics = []string{"orders"}
	fmt.Println(cfg)
	// Output:
	// kafka: key.deserializer: it has no effect here: deserializers are arguments of Typed, such as kafka.String
	// kafka.Config{Topics: ["orders"], BootstrapServers: ["broker1:9092" "broker2:9092"], GroupID: "billing", DisableAutoCommit: true, SecurityProtocol: "SASL_SSL", SSLCAFile: "/etc/kafka/ca.pem", SASLMechanism: "SCRAM-SHA-512", SASLUsername: (hidden), SASLPassword: (hidden), IsolationLevel: 1}
}

// All faults come at once, each with its key.
func ExampleConfigFromMap() {
	_, err := kafka.ConfigFromMap(map[string]string{
		"bootstrap.servers": "localhost:9092",
		"max.poll.recrods":  "100",
		"fetch.min.bytes":   "many",
	})
	fmt.Println(err)
	// Output:
	// kafka: max.poll.recrods: this key is not known; did you mean max.poll.records?
	// kafka: fetch.min.bytes = "many": it must be a whole number, of 2147483647 at most
}

package gssapi_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/contrib/gssapi"
)

// A consumer that authenticates by a keytab. The brokers' principals are
// kafka/HOST, HOST being what BootstrapServers and the cluster call them.
func Example() {
	auth, err := gssapi.New(gssapi.Config{
		Principal: "reader@EXAMPLE.COM",
		Keytab:    "/etc/security/reader.keytab",
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	consumer, err := kafka.NewConsumer(ctx, kafka.Config{
		BootstrapServers: []string{"broker1.example.com:9094"},
		SecurityProtocol: kafka.SecuritySASLSSL,
		SASL:             auth,
		GroupID:          "readers",
		Topics:           []string{"events"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close(ctx)
	for record, err := range consumer.Records(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(record.Value))
	}
}

// The ticket that kinit got; something must renew it, such as k5start.
func Example_credentialCache() {
	auth, err := gssapi.New(gssapi.Config{
		CredentialCache: "/run/reader/krb5cc",
		ServiceName:     "kafka-prod",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(auth.Mechanism())
}

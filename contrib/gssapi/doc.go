// Package gssapi authenticates a consumer by Kerberos: the SASL mechanism GSSAPI
// (RFC 4752) over Kerberos 5 (RFC 4121), in Go throughout, without the system's
// Kerberos libraries. It is a module of its own so that programs without Kerberos
// do not download its dependencies.
//
//	auth, err := gssapi.New(gssapi.Config{
//		Principal: "reader@EXAMPLE.COM",
//		Keytab:    "/etc/security/reader.keytab",
//	})
//	…
//	consumer, err := kafka.NewConsumer(ctx, kafka.Config{
//		BootstrapServers: []string{"broker1.example.com:9094"},
//		SecurityProtocol: kafka.SecuritySASLSSL,
//		SASL:             auth,
//	})
//
// Brokers prove who they are, too: a broker that cannot read the ticket, or whose
// proof does not fit this exchange, is refused. No security layer is negotiated,
// as in every Kafka client: use SASL_SSL to have what follows encrypted.
//
// Encryption types with AES are supported (17 to 20); a KDC that gives a ticket
// with a session key of an older kind, such as RC4, is refused with an error.
package gssapi

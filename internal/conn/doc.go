// Package conn connects to brokers. A [Link] is one connection whose TLS
// handshake, version negotiation and SASL exchange are done; a [Mux] pipelines
// the requests of many goroutines over one; a [Broker] owns all connections to
// one node, opens them when they are first used and again, after a backoff,
// when they were lost.
//
// What a broker answers is handed on as it is: an error code inside an answer
// is not an error here.
package conn

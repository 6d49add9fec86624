// Package protocol is the wire layer of the consumer: frames and headers,
// version negotiation, error codes, a Fetch request encoder, a Fetch response
// decoder that works while the bytes arrive, and the decoding of record
// batches and legacy message sets.
//
// Control-plane requests and responses are kmsg's; DecodeResponse bounds what
// they may allocate before kmsg reads them.
//
// Everything here treats what a broker sends as untrusted: lengths and counts
// are checked against the bytes that are there before anything is allocated,
// and no input makes it panic.
//
// The package is public by its place and promises nothing before v1.
package protocol

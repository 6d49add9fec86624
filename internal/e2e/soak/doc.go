//go:build unix

// Package soak has groups of this library and of other clients share topics on
// real Kafka while members join, leave and are killed at random, and checks
// that no record is missed, none comes twice without a reason, no commit goes
// backward and nobody stands still.
package soak

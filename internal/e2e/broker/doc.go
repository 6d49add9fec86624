//go:build unix

// Package broker starts real Apache Kafka of several releases for tests: jars
// fetched by Maven into .cache/kafka, nodes on free ports of 127.0.0.1 with
// data in temporary folders, stopped when the test or the test binary ends.
package broker

// Package metrics measures what a consumer does: sensors add values up over sliding windows, meters hold the sensors of one
// thing that is measured (the client, a node, a topic, a partition, the group), and tables say which metrics are read off them.
// There is no goroutine, no clock and no I/O here: who records says when.
package metrics

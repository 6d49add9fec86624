// Package cluster knows which brokers there are and which of them leads what.
//
// A [Cluster] keeps an immutable snapshot of the metadata of the topics that
// its user is interested in ([Cluster.SetInterest]), refreshes it on age and on
// demand, and routes requests to nodes. How an answer changes the snapshot is
// decided by [Merge], which is pure.
package cluster

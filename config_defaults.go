package kafka

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/assignors"
)

// withDefaults returns a copy of c in which every field says what is meant by it:
// zero has become the default, and a negative value 0 where Kafka allows a real 0.
// It shares no slice and no *tls.Config with c. It must be applied once only: a 0
// that was negative would become the default.
//
// Two fields keep a sign that says something: a negative ConnectionsMaxIdle is
// never, a ConsumerTimeout of 0 is never and a negative one no wait at all.
func (c Config) withDefaults() Config {
	c.Topics = slices.Clone(c.Topics)
	c.BootstrapServers = slices.Clone(c.BootstrapServers)
	c.PartitionAssignmentStrategy = slices.Clone(c.PartitionAssignmentStrategy)
	c.SSLCiphers = slices.Clone(c.SSLCiphers)
	c.MetricReporters = slices.Clone(c.MetricReporters)
	if c.TLS != nil {
		c.TLS = c.TLS.Clone()
	}

	if len(c.BootstrapServers) == 0 {
		c.BootstrapServers = []string{"localhost:9092"}
	}
	if len(c.PartitionAssignmentStrategy) == 0 {
		c.PartitionAssignmentStrategy = []assignors.Assignor{assignors.Range{}, assignors.RoundRobin{}}
	}
	if c.SecurityProtocol == "" {
		c.SecurityProtocol = SecurityPlaintext
		if c.TLS != nil {
			c.SecurityProtocol = SecuritySSL
		}
	}
	if c.GroupID == "" {
		c.DisableAutoCommit = true
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.ClientID = cmp.Or(c.ClientID, "kafka-go-consumer-"+Version)
	c.GroupProtocol = cmp.Or(c.GroupProtocol, GroupProtocolClassic)
	c.ClientDNSLookup = cmp.Or(c.ClientDNSLookup, DNSUseAllIPs)
	c.defaultSizes()
	c.defaultDurations()
	return c
}

func (c *Config) defaultSizes() {
	c.FetchMinBytes = orZero(c.FetchMinBytes, 1)
	c.FetchMaxBytes = cmp.Or(c.FetchMaxBytes, 50<<20)
	c.MaxPartitionFetchBytes = cmp.Or(c.MaxPartitionFetchBytes, 1<<20)
	c.ReceiveMessageMaxBytes = cmp.Or(c.ReceiveMessageMaxBytes, 100_000_000)
	c.MaxBufferedBytes = cmp.Or(c.MaxBufferedBytes, 64<<20)
	c.MaxBatchBytes = cmp.Or(c.MaxBatchBytes, 256<<20)
	c.MaxInFlightRequestsPerConnection = cmp.Or(c.MaxInFlightRequestsPerConnection, 5)
	c.MaxPollRecords = cmp.Or(c.MaxPollRecords, 500)
	c.MetricsNumSamples = cmp.Or(c.MetricsNumSamples, 2)
}

func (c *Config) defaultDurations() {
	c.FetchMaxWait = orZero(c.FetchMaxWait, 500*time.Millisecond)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 30*time.Second)
	c.RetryBackoff = orZero(c.RetryBackoff, 100*time.Millisecond)
	c.RetryBackoffMax = cmp.Or(c.RetryBackoffMax, time.Second)
	c.ReconnectBackoff = orZero(c.ReconnectBackoff, 50*time.Millisecond)
	c.ReconnectBackoffMax = cmp.Or(c.ReconnectBackoffMax, time.Second)
	c.AutoCommitInterval = orZero(c.AutoCommitInterval, 5*time.Second)
	c.MetadataMaxAge = orZero(c.MetadataMaxAge, 5*time.Minute)
	c.MaxPollInterval = cmp.Or(c.MaxPollInterval, 5*time.Minute)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 10*time.Second)
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, 3*time.Second)
	c.APIVersionAutoTimeout = cmp.Or(c.APIVersionAutoTimeout, 2*time.Second)
	c.ConnectionsMaxIdle = cmp.Or(c.ConnectionsMaxIdle, 9*time.Minute)
	c.DefaultAPITimeout = cmp.Or(c.DefaultAPITimeout, time.Minute)
	c.MetricsSampleWindow = cmp.Or(c.MetricsSampleWindow, 30*time.Second)
	c.SocketConnectionSetupTimeout = cmp.Or(c.SocketConnectionSetupTimeout, 10*time.Second)
}

// orZero is for fields whose zero means the default and whose negative values
// mean 0.
func orZero[T ~int32 | ~int64](v, def T) T {
	return max(cmp.Or(v, def), 0)
}

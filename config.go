package kafka

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/kafkaconsumer/kafka/assignors"
)

// Version is the version of this library. Brokers see it in the ApiVersions
// request and in the default ClientID.
const Version = "0.1.0"

// A Config holds everything that can be set on a Consumer. The zero value of a
// field means its default, so Config{} reads from localhost:9092 without a group.
// NewConsumer copies it; later changes have no effect. Once passed to NewConsumer
// it may be reused.
//
// Durations are rounded down to the millisecond where they go to a broker.
type Config struct {
	// Topics is what to subscribe to: the same as a call of Subscribe right after
	// NewConsumer. Empty means no subscription yet.
	Topics []string
	// BootstrapServers are the brokers to ask first, as host or host:port (9092
	// when missing; IPv6 addresses in brackets). An element with commas is split.
	// They are tried in random order; each name is resolved at each dial and all
	// its addresses are tried. Empty means localhost:9092.
	//
	// Kafka property: bootstrap.servers.
	BootstrapServers []string
	// ClientID is in each request, for the brokers' logs and quotas. Empty means
	// kafka-go-consumer- and the library's Version.
	//
	// Kafka property: client.id.
	ClientID string
	// GroupID is the consumer group. Empty means none: Subscribe then assigns all
	// partitions of its topics to this consumer, nothing is committed, and Commit
	// and Committed return ErrNoGroup.
	//
	// Brokers before 0.9 have no groups: Subscribe does the same there, and each
	// consumer with this id reads everything. Offsets are committed under the id from
	// Kafka 0.8.1 on; at a 0.8.0 broker Commit and Committed return an
	// *UnsupportedVersionError, and automatic commits are off.
	//
	// Kafka property: group.id.
	GroupID string

	// FetchMinBytes is how much a broker gathers before it answers a fetch, unless
	// FetchMaxWait ends first. Zero means 1; negative means 0.
	//
	// Kafka property: fetch.min.bytes.
	FetchMinBytes int32
	// FetchMaxWait is the longest a broker may hold a fetch while fewer than
	// FetchMinBytes are there. Zero means 500ms; negative means 0. It must be less
	// than RequestTimeout.
	//
	// Kafka property: fetch.max.wait.ms.
	FetchMaxWait time.Duration
	// FetchMaxBytes bounds one fetch answer, softly: the first batch always comes
	// whole. Zero means 50 MiB. Brokers heed it from 0.10.1 on (KIP-74).
	//
	// Kafka property: fetch.max.bytes.
	FetchMaxBytes int32
	// MaxPartitionFetchBytes bounds what one fetch answer holds of one partition,
	// softly from Kafka 0.10.1 on; an older broker cuts messages at it, and the
	// consumer asks again with a larger size. Zero means 1 MiB.
	//
	// Kafka property: max.partition.fetch.bytes.
	MaxPartitionFetchBytes int32
	// RequestTimeout bounds each request from its sending to its answer; when it
	// is over, the connection is closed and made again. Zero means 30s. It must be
	// less than ConnectionsMaxIdle. JoinGroup waits for MaxPollInterval + 5s when
	// that is longer. Brokers of 0.9, which may fall silent or lose requests
	// (KAFKA-3547), have a quarter of it, but not less than 3s, for what they do not
	// hold back; what they lost is sent again.
	//
	// Kafka property: request.timeout.ms.
	RequestTimeout time.Duration
	// RetryBackoff is the wait before a failed request is sent again. It doubles
	// with each failure up to RetryBackoffMax, varies by 20 %, and starts again
	// with a success. Zero means 100ms; negative means no wait.
	//
	// Kafka property: retry.backoff.ms.
	RetryBackoff time.Duration
	// RetryBackoffMax bounds RetryBackoff. Zero means 1s.
	//
	// Kafka property: retry.backoff.max.ms.
	RetryBackoffMax time.Duration
	// ReconnectBackoff is the wait before a broker that could not be reached is
	// tried again. It doubles with each failure up to ReconnectBackoffMax and
	// varies by 20 %. Zero means 50ms; negative means no wait.
	//
	// Kafka property: reconnect.backoff.ms.
	ReconnectBackoff time.Duration
	// ReconnectBackoffMax bounds ReconnectBackoff. Zero means 1s.
	//
	// Kafka property: reconnect.backoff.max.ms.
	ReconnectBackoffMax time.Duration
	// MaxInFlightRequestsPerConnection is how many requests may wait for their
	// answers on one connection; more are queued. Zero means 5.
	//
	// kafka-python: max_in_flight_requests_per_connection.
	MaxInFlightRequestsPerConnection int
	// AutoOffsetReset says where to start in a partition without a committed
	// offset, and in one whose offset is outside the log. The zero value is
	// ResetLatest.
	//
	// Kafka property: auto.offset.reset.
	AutoOffsetReset OffsetReset
	// DisableAutoCommit turns off the commits that the consumer makes by itself:
	// every AutoCommitInterval, before a revocation and on Close, of the records
	// that are done (see the package documentation). They are off without a group.
	//
	// Kafka property: enable.auto.commit.
	DisableAutoCommit bool
	// AutoCommitInterval is the time between two automatic commits. Zero means 5s;
	// negative means at each Poll.
	//
	// Kafka property: auto.commit.interval.ms.
	AutoCommitInterval time.Duration
	// OnCommit is called with the result of automatic commits and of CommitAsync
	// calls without a callback of their own, in the order of the commits, inside a
	// later Poll, Commit, Close, iteration or channel receive. Nil means none.
	//
	// kafka-python: default_offset_commit_callback.
	OnCommit func(offsets map[TopicPartition]OffsetAndMetadata, err error)
	// SkipCRCCheck turns off the check of batches' checksums.
	//
	// Kafka property: check.crcs.
	SkipCRCCheck bool
	// MetadataMaxAge is the longest that metadata is used before it is fetched
	// again, and so the longest until new partitions and new topics of a pattern
	// are seen. Zero means 5min; negative means as often as RetryBackoff allows.
	//
	// Kafka property: metadata.max.age.ms.
	MetadataMaxAge time.Duration
	// PartitionAssignmentStrategy lists the assignors that this member offers its
	// group, the preferred one first. Empty means range, roundrobin. Rebalances are
	// cooperative when all of them support that, else eager.
	//
	// Kafka property: partition.assignment.strategy.
	PartitionAssignmentStrategy []assignors.Assignor
	// MaxPollRecords bounds how many records one Poll returns; the rest comes with
	// the next one, without another fetch. Zero means 500.
	//
	// Kafka property: max.poll.records.
	MaxPollRecords int
	// MaxPollInterval is the longest time between two polls; when it is over, the
	// consumer leaves the group and Poll returns a *PollIntervalError, then joins
	// again. It is also how long a rebalance waits for this member. Zero means
	// 5min.
	//
	// Kafka property: max.poll.interval.ms.
	MaxPollInterval time.Duration
	// SessionTimeout is how long the group goes without this member's heartbeat
	// before it is thrown out. Zero means 10s. The broker sets limits, by default 6s
	// and 30s before Kafka 0.10.1, and later 30min; Poll returns
	// INVALID_SESSION_TIMEOUT outside of them. Before 0.10.1 a rebalance waits only
	// so long, in place of MaxPollInterval, for a member that works on a batch.
	//
	// Kafka property: session.timeout.ms.
	SessionTimeout time.Duration
	// HeartbeatInterval is the time between two heartbeats. Zero means 3s. It must
	// be less than SessionTimeout.
	//
	// Kafka property: heartbeat.interval.ms.
	HeartbeatInterval time.Duration
	// ReceiveBufferBytes and SendBufferBytes are the sockets' SO_RCVBUF and
	// SO_SNDBUF. Zero and -1 mean what the operating system chooses. They cannot
	// be set together with Dialer.
	//
	// Kafka properties: receive.buffer.bytes, send.buffer.bytes.
	ReceiveBufferBytes int
	SendBufferBytes    int
	// SocketControl is called with each new socket before it is connected, to set
	// options on it (see net.Dialer). TCP_NODELAY is always set. It cannot be set
	// together with Dialer.
	//
	// kafka-python: socket_options.
	SocketControl func(network, address string, c syscall.RawConn) error
	// Dialer makes the connections, for proxies and tests. Nil means net.Dialer.
	Dialer Dialer
	// ConsumerTimeout ends an iteration (Records, RecordsUntilEnd, Messages)
	// silently when the next record does not come within it. Zero means never;
	// negative means when nothing is buffered.
	//
	// kafka-python: consumer_timeout_ms.
	ConsumerTimeout time.Duration
	// SecurityProtocol is how to talk to the brokers. Empty means
	// SecurityPlaintext, or SecuritySSL when TLS is set. Fields of TLS and SASL that
	// it does not use must not be set.
	//
	// Kafka property: security.protocol.
	SecurityProtocol SecurityProtocol
	// TLS is the whole TLS configuration. It is cloned; ServerName is set to the
	// host that is dialled when it is empty. With it no SSL… field may be set.
	//
	// kafka-python: ssl_context.
	TLS *tls.Config
	// SSLSkipHostnameCheck checks the server's certificate chain but not its name:
	// whoever holds any certificate of the same authorities can then pose as a
	// broker. Without it each connection checks the name that it was dialled by: the
	// bootstrap server's, then those that the brokers advertise.
	//
	// Kafka property: ssl.endpoint.identification.algorithm, set empty.
	SSLSkipHostnameCheck bool
	// SSLCAFile is a PEM file with the authorities to trust. Empty means the
	// system's. This file and those below are read by NewConsumer, which fails with
	// a *ConfigError when one cannot be used, and again for a new connection when
	// they changed; if they cannot be used then, what they held before stays in
	// force and Logger is told.
	//
	// Kafka property: ssl.truststore.location.
	SSLCAFile string
	// SSLCertFile and SSLKeyFile are PEM files with the client's certificate chain
	// and its private key, which may also stand in SSLCertFile. SSLPassword is for an
	// encrypted key: PKCS #8 by PBES2 with AES or 3DES, or the older form with
	// "Proc-Type: 4,ENCRYPTED". It is never printed, and a fault without such a key.
	//
	// Kafka properties: ssl.keystore.location, ssl.key.password.
	SSLCertFile string
	SSLKeyFile  string
	SSLPassword string
	// SSLCRLFile is a PEM file with certificate revocation lists. The server's
	// certificate, not those above it, must then be on none of its issuer's lists,
	// of which one must be in force. A list that is expired, that its issuer did not
	// sign, or that is not complete does not count.
	//
	// kafka-python: ssl_crlfile.
	SSLCRLFile string
	// SSLCiphers lists the TLS 1.2 cipher suites to offer, by IANA's or OpenSSL's
	// names, one each; suites that Go holds to be insecure must be named to be
	// offered. Those of TLS 1.3 cannot be chosen and are all on; a list of nothing
	// else turns TLS 1.2 off. Empty means Go's choice.
	//
	// Kafka property: ssl.cipher.suites.
	SSLCiphers []string
	// APIVersion is the Kafka release to be compatible with, from "0.8.0" to the
	// newest, such as "0.8.2", "0.9", "0.10.1" or "2.3": no newer form of a request is
	// used, and of a broker that is older, what that one has. Below
	// "0.10.0" no broker is asked what it is.
	//
	// "0.8.1" keeps offsets in ZooKeeper, on newer brokers too as long as they
	// can; from "0.8.2" on they are in Kafka, which knows nothing of the others.
	//
	// Empty means to ask each broker for itself, so that a cluster of mixed releases
	// works. Brokers before 0.10 cannot be asked, and are told by what they know; but
	// 0.9 does not take a request well that it does not know: what other clients send it
	// in the same moment may stay unanswered (KAFKA-3547). So set APIVersion where there
	// are brokers of 0.9. On listeners with SASL
	// brokers before 0.10 are not looked for: with those of 0.9 (GSSAPI only) APIVersion
	// must be "0.9".
	//
	// kafka-python: api_version.
	APIVersion string
	// APIVersionAutoTimeout bounds how long a broker is asked for its version when it
	// is connected to, in NewConsumer and later. Its end is a timeout, and never taken
	// for an old broker's silence. SocketConnectionSetupTimeout bounds it too. Zero
	// means 2s.
	//
	// kafka-python: api_version_auto_timeout_ms.
	APIVersionAutoTimeout time.Duration
	// ConnectionsMaxIdle closes a connection that was not used for this long; it
	// is opened again when needed. Zero means 9min; negative means never.
	//
	// Kafka property: connections.max.idle.ms.
	ConnectionsMaxIdle time.Duration
	// MetricReporters are told of each metric that appears, changes and goes. None
	// of them may be nil.
	//
	// Kafka property: metric.reporters.
	MetricReporters []MetricReporter
	// MetricsNumSamples and MetricsSampleWindow are over how many windows of what
	// length rates, averages and maxima are taken. A window begins with the first
	// value that comes when the one before is over. Zero means 2 and 30s; negative
	// values are errors.
	//
	// Kafka properties: metrics.num.samples, metrics.sample.window.ms.
	MetricsNumSamples   int
	MetricsSampleWindow time.Duration
	// IncludeInternalTopics lets a pattern match internal topics such as
	// __consumer_offsets. Topics named outright are not affected.
	//
	// Kafka property: exclude.internal.topics.
	IncludeInternalTopics bool
	// SASLMechanism is the mechanism to authenticate with: PLAIN, SCRAM-SHA-256,
	// SCRAM-SHA-512, OAUTHBEARER or GSSAPI. It, or SASL, is required with SASL_….
	// GSSAPI needs the client of github.com/kafkaconsumer/kafka/contrib/gssapi in
	// SASL. A broker that refuses, or is refused, is an *AuthenticationError.
	//
	// Kafka property: sasl.mechanism.
	SASLMechanism string
	// SASLUsername and SASLPassword are for PLAIN and SCRAM, in UTF-8 and sent as
	// they are: Kafka's brokers apply no SASLprep. They are never printed. PLAIN
	// sends the password itself, which SASL_PLAINTEXT lets everybody read.
	//
	// Kafka property: sasl.jaas.config.
	SASLUsername string
	SASLPassword string
	// SASLKerberosServiceName and SASLKerberosDomainName name the brokers'
	// principal for GSSAPI. Empty means kafka and the broker's host. They are told
	// to a SASL that is a KerberosClient.
	//
	// Kafka property: sasl.kerberos.service.name.
	SASLKerberosServiceName string
	SASLKerberosDomainName  string
	// SASLOAuthTokenProvider gives the tokens for OAUTHBEARER; see
	// OIDCClientCredentials for a ready one.
	//
	// kafka-python: sasl_oauth_token_provider.
	SASLOAuthTokenProvider TokenProvider
	// SASL authenticates by a mechanism of one's own, or of contrib/gssapi. If
	// SASLMechanism is set too it must be the same.
	SASL SASLClient

	// GroupInstanceID makes this a static member of the group (KIP-345): closing it
	// does not leave the group, and when it is started again within SessionTimeout it
	// gets the same partitions without a rebalance. Each member needs its own; of two
	// with the same, the older one fails with FENCED_INSTANCE_ID. Brokers must be of
	// 2.3 or later, else Poll returns an *UnsupportedVersionError. Allowed are up to
	// 249 of a-z, A-Z, 0-9, '.', '_' and '-'.
	//
	// Kafka property: group.instance.id.
	GroupInstanceID string
	// GroupProtocol is GroupProtocolClassic, which empty means too, or
	// GroupProtocolConsumer (KIP-848), which is not built yet.
	//
	// Kafka property: group.protocol.
	GroupProtocol GroupProtocol
	// GroupRemoteAssignor is the broker's assignor to use with
	// GroupProtocolConsumer. Not built yet.
	//
	// Kafka property: group.remote.assignor.
	GroupRemoteAssignor string
	// IsolationLevel says whether records of transactions that are open or were
	// aborted are read. The zero value is ReadUncommitted. ReadCommitted needs Kafka
	// 0.11: reading from an older broker, or with an APIVersion below "0.11", is an
	// *UnsupportedVersionError.
	//
	// Kafka property: isolation.level.
	IsolationLevel IsolationLevel
	// ClientRack is where this client is, for reading from a replica near by
	// (KIP-392). The group's leader is told it too, for assignors that heed racks
	// (KIP-881).
	//
	// Kafka property: client.rack.
	ClientRack string
	// AllowAutoCreateTopics lets the broker create a topic that does not exist
	// when it is subscribed to or assigned.
	//
	// Kafka property: allow.auto.create.topics (whose default is true).
	AllowAutoCreateTopics bool
	// ClientDNSLookup is DNSUseAllIPs, which empty means too, or
	// DNSResolveCanonicalBootstrapServersOnly.
	//
	// Kafka property: client.dns.lookup.
	ClientDNSLookup ClientDNSLookup
	// ReceiveMessageMaxBytes bounds one answer of a broker; a larger one closes the
	// connection, and a batch that makes it so is a *BatchTooLargeError. Zero means
	// 100 MB. It must be at least FetchMaxBytes + MaxPartitionFetchBytes + 1 MiB.
	ReceiveMessageMaxBytes int32
	// DefaultAPITimeout bounds each blocking call whose context has no deadline,
	// but Poll, Records and Messages. Zero means 60s.
	//
	// Kafka property: default.api.timeout.ms.
	DefaultAPITimeout time.Duration
	// SocketConnectionSetupTimeout bounds the making of a connection: TCP, TLS,
	// SASL and the question for the broker's version. Zero means 10s.
	//
	// Kafka property: socket.connection.setup.timeout.ms.
	SocketConnectionSetupTimeout time.Duration
	// DisableFetchSessions sends the whole list of partitions with each fetch
	// (KIP-227).
	DisableFetchSessions bool
	// MaxBufferedBytes bounds the memory of records that were fetched and not yet
	// handed over, compressed and decompressed, besides one batch per decoder and
	// one per broker. Zero means 64 MiB.
	MaxBufferedBytes int64
	// MaxBatchBytes bounds one batch when decompressed, its index included. Zero
	// means 256 MiB; 2 GiB - 1 is the most.
	MaxBatchBytes int64
	// Logger is where the consumer logs. Nil means slog.Default().
	Logger *slog.Logger
	// OnEvent is told of what happens without a call of the application's. It is
	// called on a goroutine of its own, one event at a time, and should return
	// soon: when 1,024 events wait, further ones are dropped and logged.
	OnEvent func(Event)
	// RebalanceListener is the listener of subscriptions made without one.
	RebalanceListener RebalanceListener
}

// A Dialer makes a connection to addr, a host:port whose host is as it was
// configured or advertised, unresolved.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// An IsolationLevel says which records of transactions are read.
type IsolationLevel int8

// The isolation levels.
const (
	// ReadUncommitted reads all records.
	ReadUncommitted IsolationLevel = iota
	// ReadCommitted reads up to the last stable offset, without the records of
	// aborted transactions (KIP-98).
	ReadCommitted
)

// A GroupProtocol is how a consumer talks to its group's coordinator.
type GroupProtocol string

// The group protocols.
const (
	GroupProtocolClassic  GroupProtocol = "classic"
	GroupProtocolConsumer GroupProtocol = "consumer"
)

// A ClientDNSLookup says how names of brokers are resolved.
type ClientDNSLookup string

// The ways to resolve names.
const (
	// DNSUseAllIPs tries all addresses of a name in turn.
	DNSUseAllIPs ClientDNSLookup = "use_all_dns_ips"
	// DNSResolveCanonicalBootstrapServersOnly replaces each bootstrap name by the
	// canonical names of its addresses, as Kerberos wants it: each address is looked
	// up in reverse, and the name that is found is what TLS checks, SASL is told and a
	// Dialer gets; an address without a name stands for itself. The names that brokers
	// advertise are used as they are. Who controls the DNS can choose the name that TLS
	// checks.
	DNSResolveCanonicalBootstrapServersOnly ClientDNSLookup = "resolve_canonical_bootstrap_servers_only"
)

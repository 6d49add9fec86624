package kafka

import (
	"slices"
	"strings"
)

// A fixedKey is one whose effect is settled here: some of its values say what is done
// anyway, the others cannot be had.
type fixedKey struct {
	values []string // as they are, but for their case
	reason string   // why no other one
}

func (f fixedKey) allows(text string) bool {
	return slices.ContainsFunc(f.values, func(v string) bool { return strings.EqualFold(v, strings.Join(splitList(text, ','), ",")) })
}

var fixedKeys = map[string]fixedKey{
	"enable.ssl.certificate.verification":           {[]string{"true"}, "certificates are always verified; Config.TLS can do otherwise"},
	"ssl.protocol":                                  {[]string{"TLS", "TLSv1.2", "TLSv1.3"}, "TLS 1.2 and 1.3 are on; Config.TLS can choose"},
	"ssl.enabled.protocols":                         {[]string{"TLSv1.2,TLSv1.3", "TLSv1.3,TLSv1.2"}, "TLS 1.2 and 1.3 are on; Config.TLS can choose"},
	"socket.nagle.disable":                          {[]string{"true"}, "TCP_NODELAY is always set; Config.Dialer can do otherwise"},
	"socket.keepalive.enable":                       {[]string{"true"}, "keep-alive is always on; Config.Dialer can do otherwise"},
	"api.version.request":                           {[]string{"true"}, "brokers are always asked; Config.APIVersion bounds what is used"},
	"enable.partition.eof":                          {[]string{"false"}, "RecordsUntilEnd ends where the log does, and Lag tells how far that is"},
	"enable.auto.offset.store":                      {[]string{"true"}, "what is done is committed; for offsets of your own, turn enable.auto.commit off and call CommitOffsets"},
	"offset.store.method":                           {[]string{"broker"}, "offsets are kept by the brokers"},
	"group.protocol.type":                           {[]string{"consumer"}, "it is always consumer"},
	"metadata.recovery.strategy":                    {[]string{"rebootstrap"}, "the bootstrap servers are always asked again when no known broker answers"},
	"enable.metrics.push":                           {[]string{"false"}, "telemetry is not sent to brokers (KIP-714)"},
	"sasl.oauthbearer.method":                       {[]string{"oidc"}, "a token of another kind needs a Config.SASLOAuthTokenProvider"},
	"sasl.oauthbearer.grant.type":                   {[]string{"client_credentials"}, "another grant needs a Config.SASLOAuthTokenProvider"},
	"sasl.oauthbearer.header.urlencode":             {[]string{"true"}, "the client's id and secret are always encoded, as RFC 6749 has it"},
	"broker.address.family":                         {[]string{"any"}, "all addresses of a name are tried; Config.Dialer can choose"},
	"sasl.oauthbearer.metadata.authentication.type": {[]string{"none"}, "this needs a Config.SASLOAuthTokenProvider"},
}

// unusedKeys are those that Java's consumer or librdkafka knows and that have no effect
// here, and those of other clients, with the reason.
var unusedKeys = func() map[string]string {
	byName := make(map[string]string)
	for reason, names := range unusedByReason {
		for name := range strings.FieldsSeq(names) {
			byName[name] = reason
		}
	}
	return byName
}()

const (
	reasonDeserializer = "deserializers are arguments of Typed"
	reasonProducer     = "it is a producer's, and this is a consumer"
	reasonTokens       = "tokens other than by client credentials need a Config.SASLOAuthTokenProvider"
)

var unusedByReason = map[string]string{
	reasonDeserializer: "key.deserializer value.deserializer",
	reasonProducer: `acks batch.size buffer.memory buffer.memory.allocation.strategy compression.codec compression.type compression.level compression.gzip.level
		compression.lz4.level compression.zstd.level delivery.timeout.ms enable.idempotence key.serializer linger.ms max.block.ms max.request.size metadata.max.idle.ms
		partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys partitioner.rack.aware retries
		transaction.timeout.ms transaction.two.phase.commit.enable transactional.id value.serializer enable.gapless.guarantee queue.buffering.max.messages
		queue.buffering.max.kbytes queue.buffering.max.ms message.send.max.retries queue.buffering.backpressure.threshold batch.num.messages
		delivery.report.only.error dr_cb dr_msg_cb sticky.partitioning.linger.ms request.required.acks message.timeout.ms queuing.strategy produce.offset.report
		partitioner partitioner_cb msg_order_cmp message.max.bytes message.copy.max.bytes`,
	"it is an admin client's":                                               "bootstrap.controllers",
	"it is a share consumer's":                                              "share.acknowledgement.mode share.acquire.mode",
	"there are no interceptors: wrap the loop":                              "interceptor.classes interceptors plugin.library.paths",
	"it names Java classes; see MetricReporter":                             "metric.reporters",
	"there are no recording levels":                                         "metrics.recording.level",
	"values are taken as they are":                                          "config.providers",
	"it belongs to Java's security providers":                               "security.providers ssl.provider ssl.engine.factory.class ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation",
	"it belongs to OpenSSL; see Config.TLS":                                 "ssl.curves.list ssl.sigalgs.list ssl.providers ssl.engine.location ssl.engine.id ssl_engine_callback_data ssl.ca.certificate.stores ssl.certificate.verify_cb ssl_key ssl_certificate ssl_ca",
	"stores are PEM, which has no password; ssl.key.password opens the key": "ssl.keystore.password ssl.truststore.password",
	"Kerberos is a module of its own: set Config.SASL to a client of " + gssapiImport: `sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
		sasl.kerberos.ticket.renew.window.factor sasl.kerberos.principal sasl.kerberos.keytab`,
	"a class of Java cannot be run; see Config.SASL and Config.SASLOAuthTokenProvider": `sasl.client.callback.handler.class sasl.login.class
		sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class`,
	"tokens are asked for within 10 s, and again at four fifths of their lifetime": `sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
		sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
		sasl.login.refresh.window.factor sasl.login.refresh.window.jitter`,
	reasonTokens: `sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
		sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
		sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
		sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.assertion.template.file
		sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.config enable.sasl.oauthbearer.unsecure.jwt oauthbearer_token_refresh_cb`,
	"brokers check tokens, this client does not": `sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer
		sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
		sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
		sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name`,
	"the token endpoint's authorities are the system's; OIDCConfig.HTTPClient can have others": "https.ca.location https.ca.pem",
	"one bound holds for each attempt: socket.connection.setup.timeout.ms":                     "socket.connection.setup.timeout.max.ms",
	"names are looked up at each dial, within socket.connection.setup.timeout.ms":              "bootstrap.resolve.timeout.ms broker.address.ttl resolve_cb",
	"the bootstrap servers are asked as soon as no known broker answers":                       "metadata.recovery.rebootstrap.trigger.ms",
	"metadata is refreshed with retry.backoff.ms after trouble": `topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.fast.cnt topic.metadata.refresh.sparse
		topic.metadata.propagation.max.ms reconnect.backoff.jitter.ms coordinator.query.interval.ms fetch.error.backoff.ms`,
	"it is not supported": "metadata.cluster.check.enable internal.throw.on.fetch.stable.offset.unsupported topic.blacklist internal.termination.signal builtin.features",
	"Config.Logger and Config.OnEvent tell what happens": `debug log_level log.queue log.thread.name log.connection.close log_cb error_cb throttle_cb stats_cb
		statistics.interval.ms enabled_events background_event_cb`,
	"Config has fields for callbacks":                         "consume_cb rebalance_cb offset_commit_cb opaque default_topic_conf",
	"Config.Dialer and Config.SocketControl make connections": "socket_cb connect_cb closesocket_cb open_cb socket.blocking.max.ms socket.max.fails",
	"Config.APIVersion sets the release of old brokers":       "api.version.fallback.ms broker.version.fallback",
	"MaxBufferedBytes bounds what is fetched ahead":           "queued.min.messages fetch.queue.backoff.ms",
	"Go seeds its random numbers by itself":                   "enable.random.seed",
}

// typedNames are the deserializers that are there, by Java's classes.
var typedNames = map[string]string{
	"StringDeserializer": "String", "ByteArrayDeserializer": "Bytes", "IntegerDeserializer": "Int32", "LongDeserializer": "Int64",
}

// unusedReason adds what depends on the value.
func unusedReason(key, value, reason string) string {
	if reason != reasonDeserializer {
		return reason
	}
	class := value[strings.LastIndexByte(value, '.')+1:]
	if name, ok := typedNames[strings.TrimSpace(class)]; ok {
		return reason + ", such as kafka." + name
	}
	return reason
}

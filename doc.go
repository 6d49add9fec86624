// Package kafka reads records from Apache Kafka, alone or as a member of a consumer
// group. It is written in Go throughout and follows kafka-python's KafkaConsumer in
// what it can do and Kafka's own words in its names.
//
//	c, err := kafka.NewConsumer(ctx, kafka.Config{
//		BootstrapServers: []string{"localhost:9092"},
//		GroupID:          "billing",
//		Topics:           []string{"orders"},
//	})
//	if err != nil {
//		return err
//	}
//	defer c.Close(context.Background())
//	for {
//		records, err := c.Poll(ctx, time.Second)
//		if err != nil {
//			return err
//		}
//		for r := range records.All() {
//			handle(r)
//		}
//	}
//
// # Three ways to read
//
// [Consumer.Poll] returns a batch. [Consumer.Records] is an iterator over single
// records (one with an end is [Consumer.RecordsUntilEnd]), and [Consumer.Messages] a
// channel of them. Each takes part in the group's rebalances, runs callbacks and
// commits automatically on the way. [Typed] gives all three with keys and values
// decoded, by [String], [JSON] and others or by a [Deserializer] of one's own.
//
// Which partitions are read is said by [Consumer.Subscribe] (or Config.Topics),
// [Consumer.SubscribePattern] or, without rebalances, [Consumer.Assign]. Without a
// GroupID a subscription gets all partitions of its topics and nothing is committed.
//
// # Positions and commits
//
// A partition's position is the offset of the next record to hand over. Commit stores
// the positions with the group; the next owner of a partition starts at what is
// committed, and where nothing is, by [Config].AutoOffsetReset, whose default is the
// end of the log.
//
// Unless DisableAutoCommit is set, what is done is committed every AutoCommitInterval
// by Poll, before partitions are given up, and by Close. A record is done when the
// application came back for more: with the next Poll, even one that returns an error,
// the next iteration, the next receive. So records are delivered at least once: what
// was handed over last, before a crash, a return out of the loop or a break, is not
// done and comes again. A loop that ends by itself after its work calls Commit before
// Close. A context that ends Poll has come back for more: all that was worked off is
// committed by Close.
//
// # Rebalances
//
// When members come and go, partitions move. A revocation waits for the next Poll (or
// iteration, or receive), so a partition never goes away under a batch that is being
// worked on, for at most MaxPollInterval: a member that does not poll for longer than
// that leaves its group and learns it by a *[PollIntervalError]. A
// [RebalanceListener] is told on the polling goroutine, while the partitions are
// still owned; there it may commit and seek with the context it gets.
//
// With assignors that are eager, such as range, a member gives up all its partitions
// in each rebalance. With assignors.CooperativeSticky alone (KIP-429) it keeps them,
// reads on, and gives up only what moves. A live group changes over by two rolling
// restarts: with CooperativeSticky listed before the old assignor, then by itself.
// Config.GroupInstanceID makes a static member, whose restart causes no rebalance.
//
// # Errors
//
// Errors are told apart by errors.As and errors.Is, never by their text. Errors about
// a partition are found as a *[PartitionError], what a broker answered as a
// *[BrokerError] with its [ErrorCode]. A partition at fault stops and its error is
// returned, while the others go on; Seek gets past a [CorruptRecordError], a
// [BatchTooLargeError] and the like. What passes by itself (a leader that moves, a
// connection that breaks) is retried, and Config.Logger tells of it.
//
// # Concurrency and closing
//
// Methods may be called from any goroutine. One Poll, iteration or channel at a time
// reads; a second one gets [ErrConcurrentPoll]. A context that ends a call damages
// nothing. Close may be called from any goroutine too. It ends a Poll that waits with
// [ErrClosed], is bounded by its context, and leaves no goroutine behind.
//
// # Security
//
// Config.SecurityProtocol chooses TLS and SASL. TLS verifies the server's chain and
// name on each connection, by the system's authorities, PEM files or a whole
// tls.Config. SASL has PLAIN, SCRAM and OAUTHBEARER (see [OIDCClientCredentials]),
// and GSSAPI by the module contrib/gssapi; other mechanisms plug in as a
// [SASLClient]. Sessions that a broker bounds are renewed on their connection
// (KIP-368). A refusal, of either side, is an *[AuthenticationError] from NewConsumer
// or Poll. No secret is in any log, error or printed Config.
//
// # What is not built yet
//
// This version speaks the classic group protocol. A field of Config that asks for more
// is refused with a *[ConfigError].
package kafka

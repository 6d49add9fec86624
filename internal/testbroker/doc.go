// Package testbroker is a small Kafka cluster in memory, for unit tests and
// runnable examples. It speaks the wire protocol byte for byte, keeps real
// partition logs and runs a real classic group coordinator; on top of that,
// every answer can be scripted: delayed, held, replaced, cut, or left out.
//
// It is an oracle for the client and therefore shares no code with it: messages
// go through kmsg, and batches are built by package batch.
//
//	c := testbroker.New(t, testbroker.WithNodes(2))   // t may be nil: call Close then
//	c.CreateTopic("orders", 3)
//	c.Produce("orders", 0, testbroker.Record{Value: []byte("first")})
//	conn, err := c.Dial(ctx, "tcp", c.Addrs()[0])     // in memory; WithTCP for real sockets
//
// # Transports
//
// Without WithTCP nodes have names such as "node1.test:9092" that only Dial
// knows; its links are in memory, buffered, and know deadlines. Nothing in the
// package polls or sleeps, and everything that waits does so on channels,
// conditions and timers, so that a Cluster made inside a testing/synctest
// bubble follows the bubble's clock. With WithTCP every node also listens on
// 127.0.0.1 and Addrs are those addresses (not for a bubble); Dial then still
// gives links in memory.
//
// A node answers the requests of one connection one at a time and in order, as
// Kafka does: a long poll or a held answer holds up what comes behind it.
//
// # Scripts
//
// On begins a rule for the requests of one API. Filters narrow it, actions say
// what happens and put it in force:
//
//	c.On(1).Node(2).Once().Fail(6)                     // next Fetch at node 2: NOT_LEADER_OR_FOLLOWER
//	c.On(11).Times(3).Delay(time.Second).Fail(16)      // combined with a wait
//	held := c.On(1).Once().Hold()                      // answer computed now, sent by held.Release()
//	held.WaitHeld(1, time.Second)
//	c.On(3).Edit(func(_ testbroker.Request, resp kmsg.Response) { … })   // change the normal answer
//	c.On(1).Once().Raw(func(r testbroker.Request) []byte { … })          // any bytes at all
//	c.On(testbroker.AnyKey).Node(1).Drop()             // node 1 never answers again
//	c.On(17).Reply(…).ThenTokens(…)                    // SASL with raw tokens
//
// A request is taken by the first rule in force, in the order of their making,
// that matches it; so rules with Once line up as a sequence.
//
// # Faults below the protocol
//
// StopNode refuses dials and cuts connections until StartNode; CutConns cuts
// what is there; FreezeConns leaves the connections open and silent for ever,
// while new ones work; HangDials makes Dial wait until its context ends.
//
// # Looking back
//
// Requests, Count and WaitRequest (and of a rule Used, WaitUsed, WaitHeld) read the log of every request that arrived,
// decoded, with node, connection, version and time; with synctest.Wait or these
// a test never has to sleep. Committed, Group, WaitGroup, EndOffset, Sessions
// and Conns show what the cluster holds.
//
// # Logs
//
// Produce and AppendBatch number what they write; Append takes any bytes as one
// unit, for example the output of package batch with a wrong field, or several
// formats back to back. A Fetch gives units as a broker does: from the one with
// the offset on, the first of them whole (from version 3), the last perhaps cut.
// SetLogStart, Truncate, SetHighWatermark, SetLeader and SetLeaderEpoch do what
// retention, elections and replication do; MoveCoordinator, KickMember,
// Rebalance, SetCommitted and DropCommitted do so to groups.
//
// Not there: producing over the wire, transactions beyond what batches tell, the
// KIP-848 protocol, SASL and authorization (script them), down-conversion.
package testbroker

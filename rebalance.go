package kafka

import "context"

// A RebalanceListener is told of partitions that come and go with the group's
// rebalances. Each function may be nil.
//
// They run inside Poll, Records, Messages, Close and Unsubscribe, on the goroutine
// of that call (of Messages: the one that sends), one at a time. Their context
// ends with what is left of the rebalance timeout (MaxPollInterval; on brokers before
// 0.10.1 SessionTimeout), in Close with Close's context. Calls that are made with it
// may be Seek, Pause, Resume, Position, Commit and others that do not poll; Poll,
// Records, Messages and Unsubscribe return ErrInCallback. An error they return comes
// back from the call that ran them, after the step is complete.
type RebalanceListener struct {
	// OnRevoked is called before partitions are given up, while they are still
	// owned: the place to commit. Cooperative rebalances give up only what goes to
	// another member, eager ones everything.
	OnRevoked func(ctx context.Context, c *Consumer, tps []TopicPartition) error
	// OnAssigned is called after partitions were assigned and before any record
	// of them is handed over: the place to seek. It gets those that are new, and is
	// called with an empty list when a rebalance brought nothing.
	OnAssigned func(ctx context.Context, c *Consumer, tps []TopicPartition) error
	// OnLost is called when partitions were taken away without a chance to
	// commit, since the group went on without this member. Nil means that
	// OnRevoked is called instead.
	OnLost func(ctx context.Context, c *Consumer, tps []TopicPartition) error
}

// A SubscribeOption is an option of Subscribe and SubscribePattern.
type SubscribeOption func(*subscribeOptions)

type subscribeOptions struct{ listener *RebalanceListener }

// WithRebalanceListener sets the listener of this subscription, in place of
// Config.RebalanceListener.
func WithRebalanceListener(l RebalanceListener) SubscribeOption {
	return func(o *subscribeOptions) { o.listener = &l }
}

// GroupMetadata identifies this consumer as a member of its group, for producers
// that commit offsets in a transaction (KIP-447).
type GroupMetadata struct {
	GroupID         string
	GenerationID    int32  // -1 before the first join
	MemberID        string // "" before the first join
	GroupInstanceID string // "" for a dynamic member
}

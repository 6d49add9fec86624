package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/fetch"
	"github.com/kafkaconsumer/kafka/internal/subs"
	"github.com/kafkaconsumer/kafka/protocol"
)

// Subscribe subscribes to topics: with a group, their partitions are shared among
// its members; without one, all of them are assigned to this consumer, and partitions
// that are added later too. It replaces an earlier list of topics; the partitions
// change with the next polls. A topic need not exist yet. Brokers before Kafka 0.9 have
// no groups: all partitions are assigned to this consumer there too.
//
// Errors: ErrSubscriptionConflict after SubscribePattern or Assign; an empty list
// (Unsubscribe ends a subscription); a name that Kafka does not allow; ErrClosed.
func (c *Consumer) Subscribe(topics []string, opts ...SubscribeOption) error {
	if len(topics) == 0 {
		return &ArgumentError{Argument: "topics", Value: "[]", Reason: "must not be empty; Unsubscribe ends a subscription"}
	}
	if err := checkTopics(topics); err != nil {
		return err
	}
	return c.subscribe(opts, func(s *subs.State) error { return s.SubscribeTopics(topics) })
}

// SubscribePattern subscribes to all topics whose whole name the pattern matches, as
// they come and go; changes are seen within MetadataMaxAge. Internal topics are left
// out unless IncludeInternalTopics is set. Otherwise it is like Subscribe.
func (c *Consumer) SubscribePattern(pattern *regexp.Regexp, opts ...SubscribeOption) error {
	if pattern == nil || pattern.String() == "" {
		return &ArgumentError{Argument: "pattern", Value: "empty", Reason: "must not be empty"}
	}
	return c.subscribe(opts, func(s *subs.State) error {
		return s.SubscribePattern(pattern, c.cfg.IncludeInternalTopics)
	})
}

func (c *Consumer) subscribe(opts []SubscribeOption, change func(*subs.State) error) error {
	if err := c.open(); err != nil {
		return err
	}
	options := subscribeOptions{listener: &c.cfg.RebalanceListener}
	for _, o := range opts {
		o(&options)
	}
	c.mu.Lock()
	if err := change(&c.sub); err != nil {
		c.mu.Unlock()
		return subscriptionError(err)
	}
	c.listener = *options.listener
	if c.member == nil {
		c.member = c.newMember()
	}
	c.mu.Unlock()
	c.noteAsked()
	c.setInterest()
	c.followMetadata(true)
	c.disturb()
	return nil
}

func subscriptionError(err error) error {
	if errors.Is(err, subs.ErrConflict) {
		return ErrSubscriptionConflict
	}
	return err
}

// newMember runs with c.mu held.
func (c *Consumer) newMember() member {
	if c.coord != nil && !c.alone {
		return c.coord
	}
	return &solo{wake: c.disturb}
}

// goAlone makes all partitions of the subscription this consumer's own, now and later,
// since brokers have no groups that would share them out.
func (c *Consumer) goAlone() {
	c.mu.Lock()
	first := !c.alone
	c.alone = true
	if c.member == member(c.coord) {
		c.member = c.newMember()
	}
	c.mu.Unlock()
	if first {
		c.log.Warn("kafka: brokers before 0.9 have no groups, so this consumer reads all partitions of its topics, " +
			"as does every other one with this group id")
	}
	c.followMetadata(false)
	c.disturb()
}

// Assign assigns partitions by hand, in place of those assigned by hand before; what
// stays keeps its position. There is no rebalance. With a group id, positions start
// at the committed offsets and can be committed.
//
// Errors: ErrSubscriptionConflict after Subscribe or SubscribePattern; an empty list
// (Unsubscribe ends an assignment); a name or number that Kafka does not allow;
// ErrClosed.
func (c *Consumer) Assign(tps ...TopicPartition) error {
	if err := c.open(); err != nil {
		return err
	}
	if len(tps) == 0 {
		return &ArgumentError{Argument: "tps", Value: "[]", Reason: "must not be empty; Unsubscribe ends an assignment"}
	}
	topics := make([]string, len(tps))
	for i, tp := range tps {
		topics[i] = tp.Topic
		if tp.Partition < 0 {
			return &PartitionError{tp.Topic, tp.Partition, &ArgumentError{Argument: "partition", Value: fmt.Sprint(tp.Partition), Reason: "must not be negative"}}
		}
	}
	if err := checkTopics(topics); err != nil {
		return err
	}
	var err error
	waited := c.onReader(context.Background(), func() { err = c.assignManually(topics, tps) })
	return firstError(waited, err)
}

func (c *Consumer) assignManually(topics []string, tps []TopicPartition) error {
	c.mu.Lock()
	err := c.sub.AssignManually(topics)
	c.mu.Unlock()
	if err != nil {
		return subscriptionError(err)
	}
	c.noteAsked()
	c.setInterest()
	c.assignNow(tps)
	c.begun.Store(true)
	return nil
}

// assignNow makes tps the assigned partitions. What is done of those that go is
// committed on the way.
func (c *Consumer) assignNow(tps []TopicPartition) {
	table := c.fetcher.acquire()
	done := table.Done()
	added, removed := table.Assign(tps, c.coord != nil)
	c.fetcher.updateLeadersLocked()
	table.Release(added...)
	c.disturbed.Store(true)
	c.fetcher.release()
	if c.auto.off.Load() {
		return
	}
	maps.DeleteFunc(done, func(tp TopicPartition, _ fetch.Offset) bool { return !slices.Contains(removed, tp) })
	if len(done) > 0 {
		what := commitmentOf(done)
		c.coord.commitUnawaited(what, func(err error) { c.tellOnCommit(what.offsets, publicError(err)) })
	}
}

// Unsubscribe ends a subscription or an assignment by hand: OnRevoked is called for
// what is assigned, what is done is committed unless DisableAutoCommit is set, and
// the group is left. Without either it does nothing. It is bounded by ctx or
// DefaultAPITimeout.
//
// Errors: ErrInCallback, ErrClosed, ctx's, the listener's, and that of the commit;
// the subscription has ended in all cases but the first two, unless ctx ended while
// callbacks or a Deserializer were waited for.
func (c *Consumer) Unsubscribe(ctx context.Context) error {
	if c.nested(ctx) {
		return ErrInCallback
	}
	if err := c.open(); err != nil {
		return err
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	if err := c.onReader(ctx, func() {}); err != nil { // what a channel handed over counts
		return err
	}
	select {
	case <-c.turn:
	case <-ctx.Done():
		return c.orClosed(ctx.Err())
	}
	err := c.unsubscribe(ctx)
	c.turn <- struct{}{}
	return errors.Join(c.orClosed(err), c.closeIfAsked())
}

// unsubscribe runs with turn held.
func (c *Consumer) unsubscribe(ctx context.Context) error {
	err := c.giveUp(ctx, true)
	c.mu.Lock()
	subscribed := c.member != nil
	c.sub.Clear()
	c.member = nil
	if c.coord != nil {
		c.coord.looks.Add(1)
	}
	c.watched = nil
	c.listener = c.cfg.RebalanceListener
	c.mu.Unlock()
	if subscribed && c.coord != nil {
		err = errors.Join(err, c.coord.leave(ctx, "unsubscribed"))
	}
	table := c.fetcher.acquire()
	table.Remove(table.Assigned()...)
	table.ForgetStarts()
	c.fetcher.release()
	c.revoking = nil
	clear(c.pausedBy)
	c.begun.Store(false)
	c.setInterest()
	c.disturb()
	return err
}

// Subscription returns the topics subscribed to, sorted: for a pattern those that it
// matches so far. It is empty without a subscription and with Assign.
func (c *Consumer) Subscription() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.member == nil {
		return nil
	}
	return slices.Clone(c.sub.Topics())
}

func (c *Consumer) currentMember() member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.member
}

// subscribed tells whether partitions come by a subscription.
func (c *Consumer) subscribed() bool { return c.currentMember() != nil }

// setInterest tells the cluster which topics' metadata to keep. The last one of several
// tells what is so then.
func (c *Consumer) setInterest() {
	c.interest.Lock()
	defer c.interest.Unlock()
	c.mu.Lock()
	topics := append(slices.Clone(c.sub.Topics()), c.watched...)
	all := c.sub.Kind() == subs.Pattern
	c.mu.Unlock()
	c.cluster.SetInterest(topics, all)
}

// watchTopics adds the topics of the group's other members, which this one leads.
func (c *Consumer) watchTopics(topics []string) {
	c.mu.Lock()
	c.watched = slices.Clone(topics)
	c.mu.Unlock()
	c.setInterest()
}

// watch follows the metadata until the consumer ends.
func (c *Consumer) watch() {
	missing := make(missingTopics)
	for {
		changed := c.cluster.Changed()
		c.followMetadata(false)
		var due <-chan time.Time
		if again := c.tellMissing(missing); again > 0 {
			due = time.After(again)
		}
		select {
		case <-changed:
		case <-due:
		case <-c.ctx.Done():
			return
		}
	}
}

// followMetadata takes over leaders, and topics and partitions that came or went.
// Several goroutines do so, and what one of them found does not stand against what
// another one found later.
func (c *Consumer) followMetadata(resubscribed bool) {
	c.fetcher.updateLeaders()
	c.mu.Lock()
	md := c.cluster.Metadata()
	changed, pattern := resubscribed, c.sub.Kind() == subs.Pattern
	if pattern && c.sub.Match(topicsOf(md)) {
		changed = true
	}
	m, topics := c.member, c.sub.Topics()
	denied := deniedTopics(md, topics)
	c.denied = denied
	var look uint64
	switch m := m.(type) {
	case *solo:
		look = m.looks.Add(1)
	case *coordinator:
		if changed {
			look = m.looks.Add(1)
		}
	}
	c.mu.Unlock()
	if len(denied) > 0 {
		c.wakeReader()
	}
	switch m := m.(type) {
	case *solo:
		m.update(partitionsOf(md, topics), look)
	case *coordinator:
		if !changed {
			return
		}
		reason := "subscribed to other topics"
		if pattern {
			reason = fmt.Sprintf("the pattern matches %d topics now", len(topics))
		}
		m.subscribe(topics, reason, look)
	}
}

// deniedTopics returns the topics that brokers do not let this consumer see. Those
// that do not exist may still be created, but a grant needs somebody who knows that
// it is missing.
func deniedTopics(md *cluster.Metadata, topics []string) (denied []string) {
	for _, name := range topics {
		if t := md.Topics[name]; t != nil && t.Err == protocol.TopicAuthorizationFailed {
			denied = append(denied, name)
		}
	}
	return denied
}

// tellDenied has the next Poll say that topics are denied, unless one has said so
// just now.
func (c *Consumer) tellDenied(topics []string) {
	for _, name := range topics {
		c.problems.add(&BrokerError{Broker: -1, API: "Metadata", Code: protocol.TopicAuthorizationFailed, Message: name})
	}
}

func topicsOf(md *cluster.Metadata) []subs.Topic {
	topics := make([]subs.Topic, 0, len(md.Topics))
	for name, t := range md.Topics {
		if t.Err.Retriable() || t.Err == 0 {
			topics = append(topics, subs.Topic{Name: name, Partitions: len(t.Partitions), Internal: t.Internal})
		}
	}
	return topics
}

// partitionsOf returns all partitions of the topics that exist.
func partitionsOf(md *cluster.Metadata, topics []string) []TopicPartition {
	var tps []TopicPartition
	for _, name := range topics {
		t := md.Topics[name]
		if t == nil {
			continue
		}
		for i := range t.Partitions {
			tps = append(tps, TopicPartition{Topic: name, Partition: int32(i)})
		}
	}
	return tps
}

// appeared tells whether a partition came to be since this consumer subscribed.
func (c *Consumer) appeared(tp TopicPartition) bool {
	t := c.cluster.Metadata().Topics[tp.Topic]
	return t != nil && t.Appeared(tp.Partition)
}

// checkTopics returns an error for each name that Kafka does not allow.
func checkTopics(topics []string) error {
	var errs []error
	for _, name := range topics {
		if err := checkTopicName(name); err != nil {
			errs = append(errs, &ArgumentError{Argument: "topic", Value: fmt.Sprintf("%q", name), Reason: err.Error()})
		}
	}
	return errors.Join(errs...)
}

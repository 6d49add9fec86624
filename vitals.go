package kafka

import (
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/subs"
	"github.com/kafkaconsumer/kafka/protocol"
)

// noteAsked notes that the application asks for records.
func (c *Consumer) noteAsked() { c.asked.Store(int64(time.Since(c.born))) }

// vitals takes the consumer's pulse. It waits for nothing but short locks, one at a time.
func (c *Consumer) vitals(now time.Time) *vitals {
	v := &vitals{now: now, maxPoll: c.cfg.MaxPollInterval, begun: c.begun.Load(), asked: c.lastAsked(now)}
	if c.open() != nil {
		v.closing = c.closeCalled
		select {
		case <-c.closed:
			v.closed = true
			return v
		default:
		}
	}
	for _, s := range c.fetcher.standings() {
		v.partitions = append(v.partitions, partitionVitals{
			finding: partitionFinding(&s, &c.cfg, now), tp: s.TP, position: s.Position, lag: s.Lag, came: s.Came,
		})
	}
	c.mu.Lock()
	v.idle = c.sub.Kind() == subs.None
	_, joins := c.member.(*coordinator)
	topics := c.sub.Topics()
	v.denied = c.denied
	c.mu.Unlock()
	v.missing = missingIn(c.cluster.Metadata(), topics)
	if since, err := c.cluster.RefreshError(); err != nil {
		reason := "metadata cannot be refreshed: " + trimmed{publicError(err)}.String()
		v.refresh = finding{HealthDegraded, reason, since, true}
	}
	if c.coord != nil {
		v.group = c.coord.vitals(joins)
	}
	return v
}

func (co *coordinator) vitals(subscribed bool) *groupVitals {
	now := co.now.Load()
	g := &groupVitals{subscribed: subscribed, state: now.state, since: now.since, wantsPoll: co.wantsPoll.Load()}
	g.causeSince, g.cause, g.terminal = co.trouble.view()
	return g
}

// missingIn returns the topics that brokers say do not exist.
func missingIn(md *cluster.Metadata, topics []string) (missing []string) {
	for _, name := range topics {
		if t := md.Topics[name]; t != nil && t.Err == protocol.UnknownTopicOrPartition {
			missing = append(missing, name)
		}
	}
	return missing
}

// lastAsked returns when the application asked for records last. Of an iterator or a
// channel that works off what it holds, only Health itself sees whether it goes on.
func (c *Consumer) lastAsked(now time.Time) time.Time {
	asked := c.born.Add(time.Duration(c.asked.Load()))
	if c.waiting.Load() > 0 {
		asked = now
	}
	live := c.live.Load()
	if live == nil {
		return asked
	}
	h := &c.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := live.Yielded.Load(); n != h.yielded || h.progressed.IsZero() {
		h.yielded, h.progressed = n, now
	}
	return later(asked, h.progressed)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

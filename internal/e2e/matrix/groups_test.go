//go:build unix

package matrix

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/logbuffer"
)

// groupConfig has members hear soon of what changes. Their sessions are the longest that
// all releases allow: nobody's ends meanwhile.
func groupConfig(group string, topics ...string) kafka.Config {
	return kafka.Config{
		GroupID: group, Topics: topics, SessionTimeout: 30 * time.Second, HeartbeatInterval: 200 * time.Millisecond,
		MetadataMaxAge: time.Second,
	}
}

// A topic's records are read on, by the next consumer of the group, from where the
// last one committed; the release's own tool sees the same offsets.
func commits(t *testing.T, e *env) {
	topic, group := e.topic(t, "commits", 2, nil), e.name("commits")
	e.fill(t, topic, 0, 10, 0, 1)
	tps := partitions(topic, 2)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := e.assigned(t, kafka.Config{GroupID: group}, tps...)
	none, err := c.Committed(ctx, tps...)
	require.NoError(t, err)
	require.Empty(t, none)
	consume.Poll(t, c, 20)
	require.NoError(t, c.Commit(ctx))
	require.Equal(t, []int64{10, 10}, e.Committed(t, group, topic, 2))

	require.NoError(t, c.CommitOffsets(ctx, map[kafka.TopicPartition]kafka.OffsetAndMetadata{tps[1]: {Offset: 4, Metadata: "four"}}))
	require.Equal(t, []int64{10, 4}, e.Committed(t, group, topic, 2))
	called := make(chan error, 1)
	require.NoError(t, c.CommitAsync(map[kafka.TopicPartition]kafka.OffsetAndMetadata{tps[0]: {Offset: 7}},
		func(_ context.Context, _ map[kafka.TopicPartition]kafka.OffsetAndMetadata, err error) { called <- err }))
	require.Eventually(t, func() bool { nothing(t, c); return len(called) == 1 }, patience, 10*time.Millisecond)
	require.NoError(t, <-called)
	require.Equal(t, []int64{7, 4}, e.Committed(t, group, topic, 2))
	consume.Close(t, c)

	for _, setting := range []string{"", e.release} {
		t.Run(settingName(setting), func(t *testing.T) {
			next := e.assigned(t, kafka.Config{GroupID: group, APIVersion: setting}, tps...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			stored, err := next.Committed(ctx, tps...)
			require.NoError(t, err)
			require.Equal(t, map[kafka.TopicPartition]int64{tps[0]: 7, tps[1]: 4}, map[kafka.TopicPartition]int64{
				tps[0]: stored[tps[0]].Offset, tps[1]: stored[tps[1]].Offset,
			})
			if e.has("0.8.2") { // ZooKeeper keeps the offset alone
				require.Equal(t, "four", stored[tps[1]].Metadata)
			}
			require.Equal(t, map[kafka.TopicPartition][]int64{tps[0]: consume.Span(7, 10), tps[1]: consume.Span(4, 10)}, byPartition(consume.Poll(t, next, 9)))
		})
	}

	t.Run("automatic commits", func(t *testing.T) {
		group := e.name("automatic commits")
		auto := e.assigned(t, kafka.Config{GroupID: group, AutoCommitInterval: 100 * time.Millisecond}, tps...)
		consume.Poll(t, auto, 20)
		nothing(t, auto) // now they are done
		consume.Close(t, auto)
		require.Equal(t, []int64{10, 10}, e.Committed(t, group, topic, 2))
	})
}

func noCommits(t *testing.T, e *env) {
	topic := e.topic(t, "no commits", 1, nil)
	e.fill(t, topic, 0, 10, 0)
	tps := partitions(topic, 1)
	for _, setting := range []string{"", e.release} {
		t.Run(settingName(setting), func(t *testing.T) {
			log := &logbuffer.Buffer{}
			c := e.assigned(t, kafka.Config{
				APIVersion: setting, GroupID: "group", AutoCommitInterval: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, nil)),
			}, tps...)
			consume.Poll(t, c, 10)
			require.Eventually(t, func() bool {
				nothing(t, c)
				return strings.Contains(log.String(), "level=WARN msg=\"kafka: automatic commits are off")
			}, patience, 10*time.Millisecond, "auto-commit is off, with a warning")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var unsupported *kafka.UnsupportedVersionError
			require.ErrorAs(t, c.Commit(ctx), &unsupported)
			require.Equal(t, "OffsetCommit", unsupported.API)
			require.NotEmpty(t, unsupported.Need)
			_, err := c.Committed(ctx, tps...)
			require.ErrorAs(t, err, &unsupported)
			consume.Close(t, c)
		})
	}
}

// Without a group id a subscription has all partitions, of new ones too.
func subscriptionOfAllPartitions(t *testing.T, e *env) {
	e.requireFollowsGrowth(t, "")
}

// Without groups in the broker it is the same with a group id, whose offsets are
// committed where the broker stores them.
func subscriptionWithoutGroups(t *testing.T, e *env) {
	group := e.name("no groups")
	topic := e.requireFollowsGrowth(t, group)
	if e.has("0.8.1") {
		require.Equal(t, []int64{10, 10, 5}, e.Committed(t, group, topic, 3))
	}
}

func (e *env) requireFollowsGrowth(t *testing.T, group string) (topic string) {
	t.Helper()
	topic = e.topic(t, "grows", 2, nil)
	e.fill(t, topic, 0, 10, 0, 1)
	var assigned []kafka.TopicPartition
	cfg := groupConfig(group, topic)
	cfg.AutoOffsetReset = kafka.ResetEarliest
	cfg.RebalanceListener.OnAssigned = func(_ context.Context, _ *kafka.Consumer, tps []kafka.TopicPartition) error {
		assigned = append(assigned, tps...)
		return nil
	}
	c := e.open(t, cfg)
	tps := partitions(topic, 3)
	require.Equal(t, map[kafka.TopicPartition][]int64{tps[0]: consume.Span(0, 10), tps[1]: consume.Span(0, 10)}, byPartition(consume.Poll(t, c, 20)))
	require.Equal(t, tps[:2], c.Assignment())
	require.Equal(t, tps[:2], assigned)
	e.AddPartitions(t, topic, 2, 3)
	grown := map[string]string{"client.id": "grown"} // a producer that has not seen the topic as it was
	for i := range 5 {
		e.Produce(t, grown, outside.To(topic, 2, "k", fmt.Sprint(i)))
	}
	require.Equal(t, map[kafka.TopicPartition][]int64{tps[2]: consume.Span(0, 5)}, byPartition(consume.Poll(t, c, 5)))
	require.Equal(t, tps, c.Assignment())
	if group != "" && e.has("0.8.1") {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		require.NoError(t, c.Commit(ctx))
	}
	return topic
}

// Two members share a topic; one leaves, and the other goes on where it stopped.
func groupOfTwo(t *testing.T, e *env) {
	for _, setting := range e.groupSettings() {
		t.Run(settingName(setting), func(t *testing.T) {
			e.parallel(t)
			topic, group := e.topic(t, "group", 4, nil), e.name("group")
			all := partitions(topic, 4)
			cfg := groupConfig(group, topic)
			cfg.APIVersion = setting
			first, second := e.open(t, cfg), e.open(t, cfg)
			p := pollBoth(t, first, second)
			p.until(func() bool { return len(first.Assignment()) == 2 && len(second.Assignment()) == 2 })
			require.ElementsMatch(t, all, append(first.Assignment(), second.Assignment()...))

			e.fill(t, topic, 0, 50, 0, 1, 2, 3)
			p.until(func() bool { return len(p.records) == 200 })
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.NoError(t, first.Commit(ctx))
			require.NoError(t, second.Commit(ctx))
			consume.Close(t, second)
			p.consumers = p.consumers[:1]
			p.until(func() bool { return len(first.Assignment()) == 4 })
			e.fill(t, topic, 50, 10, 0, 1, 2, 3)
			p.until(func() bool { return len(p.records) >= 240 })
			nothing(t, first)
			got := byPartition(p.records)
			for _, tp := range all {
				require.Equal(t, consume.Span(0, 60), got[tp], "each record once, over the handover")
			}
			require.NoError(t, first.Commit(ctx))
			require.Equal(t, []int64{60, 60, 60, 60}, e.Committed(t, group, topic, 4))
			consume.Close(t, first)
		})
	}
}

// groupSettings are APIVersions in which groups speak differently: 0.9 has
// JoinGroup v0 without a rebalance timeout.
func (e *env) groupSettings() []string {
	out := []string{""}
	for _, s := range e.settings()[1:] {
		switch s {
		case e.release, "0.9", "0.10.1", "0.11", "2.1":
			out = append(out, s)
		}
	}
	return out
}

// A polling polls several consumers in turn and keeps what came.
type polling struct {
	t         *testing.T
	consumers []*kafka.Consumer
	records   []kafka.Record
}

func pollBoth(t *testing.T, consumers ...*kafka.Consumer) *polling {
	return &polling{t: t, consumers: consumers}
}

func (p *polling) until(done func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); !done(); {
		require.True(p.t, time.Now().Before(deadline), "%d records", len(p.records))
		for _, c := range p.consumers {
			got, err := c.Poll(p.t.Context(), 20*time.Millisecond)
			require.NoError(p.t, err)
			for r := range got.All() {
				p.records = append(p.records, r)
			}
		}
	}
}

// A static member that comes back within its session has its partitions again, and
// the other member hears nothing of it.
func staticMembers(t *testing.T, e *env) {
	topic, group := e.topic(t, "static", 2, nil), e.name("static")
	cfg := groupConfig(group, topic)
	member := func(id string, rebalances *int) *kafka.Consumer {
		cfg := cfg
		cfg.GroupInstanceID = id
		cfg.RebalanceListener.OnAssigned = func(context.Context, *kafka.Consumer, []kafka.TopicPartition) error {
			*rebalances++
			return nil
		}
		return e.open(t, cfg)
	}
	var ofA, ofB, ofC int
	a, b := member("a", &ofA), member("b", &ofB)
	p := pollBoth(t, a, b)
	p.until(func() bool { return len(a.Assignment()) == 1 && len(b.Assignment()) == 1 })
	kept, before := b.Assignment(), ofA
	consume.Close(t, b)
	again := member("b", &ofC)
	p.consumers = []*kafka.Consumer{a, again}
	p.until(func() bool { return len(again.Assignment()) > 0 })
	require.Equal(t, kept, again.Assignment())
	require.Equal(t, before, ofA, "assignments of the other member")
	e.fill(t, topic, 0, 5, 0, 1)
	p.until(func() bool { return len(p.records) == 10 })
}

func noStaticMembers(t *testing.T, e *env) {
	topic, group := e.topic(t, "no static", 1, nil), e.name("no static")
	cfg := groupConfig(group, topic)
	cfg.GroupInstanceID = "a"
	c := e.open(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := c.Poll(ctx, -1)
	requireUnsupported(t, err, "JoinGroup")
}

func requireUnsupported(t *testing.T, err error, api string) {
	t.Helper()
	var unsupported *kafka.UnsupportedVersionError
	require.ErrorAs(t, err, &unsupported)
	require.Equal(t, api, unsupported.API)
	require.NotEmpty(t, unsupported.Need, "%v", err)
	require.NotEmpty(t, unsupported.Has, "%v", err)
}

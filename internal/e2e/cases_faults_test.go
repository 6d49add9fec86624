//go:build unix

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/proxy"
)

// B05
func TestSilentConnectionIsReplaced(t *testing.T) {
	faults := []struct {
		name string
		fail func(t *testing.T, p *proxy.Proxy)
	}{
		{"the leader's connection", func(t *testing.T, p *proxy.Proxy) {
			require.Positive(t, p.Freeze(proxy.Both, keyFetch))
		}},
		{"only the leader's answers", func(t *testing.T, p *proxy.Proxy) {
			require.Positive(t, p.Freeze(proxy.ToClient, keyFetch))
		}},
		{"the coordinator's connection", func(t *testing.T, p *proxy.Proxy) {
			require.Positive(t, p.Freeze(proxy.Both, keyHeartbeat))
		}},
		{"all connections", func(t *testing.T, p *proxy.Proxy) {
			require.Greater(t, p.Freeze(proxy.Both), 2)
		}},
		{"half an answer to Fetch", func(_ *testing.T, p *proxy.Proxy) { p.Halve(keyFetch) }},
		{"half an answer to Heartbeat", func(t *testing.T, p *proxy.Proxy) { <-p.Halve(keyHeartbeat) }},
	}
	ForEachReleaseAtOnce(t, func(t *testing.T, target *Target) {
		for _, fault := range faults {
			t.Run(fault.name, func(t *testing.T) {
				t.Parallel()
				topic, group := target.Topic(t, 1), target.Unique(t)
				p := proxy.Start(t, target.Bootstrap[0])
				cfg := faultConfig()
				cfg.Dialer, cfg.GroupID, cfg.Topics = p.Dial, group, []string{topic}
				cfg.SessionTimeout = 20 * time.Second // no rebalance meanwhile
				c := newConsumer(t, target, cfg)
				appendTo(t, target, topic, 0, 50)
				require.Equal(t, consume.Span(0, 50), pollOffsets(t, c, 50, patience))
				waitFor(t, "a heartbeat", func() bool { return p.Answered(keyHeartbeat) > 0 })

				connects := p.Connects()
				fault.fail(t, p)
				appendTo(t, target, topic, 0, 50)
				require.Equal(t, consume.Span(50, 100), pollOffsets(t, c, 50, 2*requestTimeout+soon))
				require.NoError(t, c.Commit(t.Context()))
				require.Equal(t, map[kafka.TopicPartition]int64{{Topic: topic}: 100}, committed(t, target, group))
				waitFor(t, "a new connection", func() bool { return p.Connects() > connects })
				require.Less(t, p.Connects()-connects, 10)
			})
		}
	})
}

// B48 (a), (b), and (c) as far as the proxy can play it. A stopped and a
// frozen broker are in TestCluster.
func TestPollKeepsToItsTimeoutWhileTheBrokerIsAway(t *testing.T) {
	outages := []struct {
		name       string
		away, back func(t *testing.T, p *proxy.Proxy)
	}{
		{
			"refused",
			func(_ *testing.T, p *proxy.Proxy) { p.Refuse() },
			func(t *testing.T, p *proxy.Proxy) { p.Allow(t) },
		},
		{
			"swallowed",
			func(_ *testing.T, p *proxy.Proxy) { p.Silence(true) },
			func(_ *testing.T, p *proxy.Proxy) { p.Silence(false) },
		},
	}
	ForEachReleaseAtOnce(t, func(t *testing.T, target *Target) {
		for _, outage := range outages {
			for _, group := range []bool{true, false} {
				name := outage.name + ", without a group"
				if group {
					name = outage.name + ", with a group"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					topic := target.Topic(t, 1)
					tp := kafka.TopicPartition{Topic: topic}
					p := proxy.Start(t, target.Bootstrap[0])
					cfg := faultConfig()
					cfg.Dialer = p.Dial
					if group {
						cfg.GroupID, cfg.Topics = target.Unique(t), []string{topic}
					}
					c := newConsumer(t, target, cfg)
					if !group {
						require.NoError(t, c.Assign(tp))
					}
					appendTo(t, target, topic, 0, 5)
					require.Equal(t, consume.Span(0, 5), pollOffsets(t, c, 5, patience))

					outage.away(t, p)
					connects := p.Connects()
					records, _ := pollInTime(t, c, 5*time.Second)
					require.Empty(t, records)
					require.Less(t, p.Connects()-connects, 30, "connects follow the backoff")
					outage.back(t, p)
					appendTo(t, target, topic, 0, 5)
					require.Equal(t, consume.Span(5, 10), pollOffsets(t, c, 5, 2*requestTimeout+sessionTimeout+soon))
					require.Equal(t, int64(10), position(t, c, tp))
				})
			}
		}
	})
}

// A consumer that reads a log of which it knows more loses its only broker.
func TestStallIsToldOfUntilTheBrokerIsBack(t *testing.T) {
	ForEachReleaseAtOnce(t, func(t *testing.T, target *Target) {
		topic := target.Topic(t, 1)
		tp := kafka.TopicPartition{Topic: topic}
		for range 20 {
			appendTo(t, target, topic, 0, 10) // a batch each
		}
		p := proxy.Start(t, target.Bootstrap[0])
		events := make(chan kafka.Event, 100)
		cfg := faultConfig()
		cfg.Dialer, cfg.OnEvent = p.Dial, func(e kafka.Event) { events <- e }
		cfg.RequestTimeout, cfg.MaxPartitionFetchBytes, cfg.MaxBufferedBytes = time.Second, 100, 1000
		next := func(within time.Duration) kafka.Event {
			for over := time.After(within); ; {
				select {
				case e := <-events:
					switch e.(type) {
					case kafka.EventPartitionStalled, kafka.EventPartitionResumed:
						return e
					}
				case <-over:
					return nil
				}
			}
		}
		c := newConsumer(t, target, cfg)
		require.NoError(t, c.Assign(tp))
		first, errs := pollUntil(t, c, patience, func(got []kafka.Record) bool { return len(got) >= 10 })
		require.Empty(t, errs)
		p.Refuse()
		away := time.Now()
		rest, _ := pollUntil(t, c, patience, func([]kafka.Record) bool {
			h, err := c.Health()
			require.NoError(t, err)
			return h.State == kafka.HealthStalled
		})
		require.GreaterOrEqual(t, time.Since(away), 3*cfg.RequestTimeout)
		h, err := c.Health()
		require.NoError(t, err)
		require.Equal(t, kafka.HealthStalled, h.State, h.Reason)
		require.Positive(t, h.Partitions[tp].Lag)
		stalled, _ := next(patience).(kafka.EventPartitionStalled)
		require.Equal(t, tp, stalled.TopicPartition)
		require.Nil(t, next(0), "it is told once")

		p.Allow(t)
		more, _ := pollUntil(t, c, patience, func(got []kafka.Record) bool { return len(first)+len(rest)+len(got) >= 200 })
		require.Equal(t, consume.Span(0, 200), consume.Offsets(slices.Concat(first, rest, more)))
		resumed, _ := next(patience).(kafka.EventPartitionResumed)
		require.Equal(t, tp, resumed.TopicPartition)
		h, err = c.Health()
		require.NoError(t, err)
		require.Equal(t, kafka.HealthOK, h.State, h.Reason)
	})
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, patience, 20*time.Millisecond, what)
}

// committed gives the committed offsets of a group, as others see them.
func committed(t *testing.T, target *Target, group string) map[kafka.TopicPartition]int64 {
	t.Helper()
	out := map[kafka.TopicPartition]int64{}
	for tp, o := range target.Committed(t, group) {
		out[kafka.TopicPartition(tp)] = o.Offset
	}
	return out
}

//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/java"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/peer"
	"github.com/kafkaconsumer/kafka/internal/e2e/python"
	"github.com/kafkaconsumer/kafka/protocol"
)

// heartbeat is the interval in which members learn of a rebalance.
const heartbeat = 500 * time.Millisecond

// A place is where a record is in the topic of a test.
type place struct {
	partition int32
	offset    int64
}

// A member is a consumer of the library that polls on a goroutine of its own.
type member struct {
	consumer *kafka.Consumer
	cancel   context.CancelFunc
	done     chan struct{}

	mu     sync.Mutex
	places []place
	err    error
}

func newMember(t *testing.T, target *Target, group, topic string) *member {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{
		consumer: newConsumer(t, target, kafka.Config{
			GroupID: group, Topics: []string{topic}, HeartbeatInterval: heartbeat,
		}),
		cancel: cancel,
		done:   make(chan struct{}),
	}
	go m.run(ctx)
	t.Cleanup(func() { m.stop(t) })
	return m
}

func (m *member) run(ctx context.Context) {
	defer close(m.done)
	for {
		recs, err := m.consumer.Poll(ctx, time.Second)
		if err != nil {
			m.mu.Lock()
			m.err = err
			m.mu.Unlock()
			return
		}
		m.mu.Lock()
		for r := range recs.All() {
			m.places = append(m.places, place{r.Partition, r.Offset})
		}
		m.mu.Unlock()
	}
}

// stop ends the polling and closes the consumer, which commits and leaves.
func (m *member) stop(t *testing.T) {
	t.Helper()
	m.cancel()
	<-m.done
	if !errors.Is(m.err, context.Canceled) {
		require.NoError(t, m.err, "of Poll")
	}
	consume.Close(t, m.consumer)
}

func (m *member) consumed() []place {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]place(nil), m.places...)
}

// TestTwoConsumersShareATopic and those below let a member join a group that
// consumes, and leave it again, while records keep coming: each record is
// consumed by one of the two, once.
func TestTwoConsumersShareATopic(t *testing.T) {
	ForEachBroker(t, func(t *testing.T, target *Target) {
		share(t, target, func(group, topic string) (func() []place, func()) {
			m := newMember(t, target, group, topic)
			return m.consumed, func() { m.stop(t) }
		})
	})
}

func TestShareATopicWithKafkaPython(t *testing.T) {
	ForEachRelease(t, func(t *testing.T, target *Target) {
		share(t, target, func(group, topic string) (func() []place, func()) {
			return ofPeer(python.Consumer(t, target.Bootstrap, group, topic, python.Options{"heartbeat_interval_ms": heartbeat.Milliseconds()}))
		})
	})
}

func TestShareATopicWithTheConsoleConsumer(t *testing.T) {
	ForEachRelease(t, func(t *testing.T, target *Target) {
		share(t, target, func(group, topic string) (func() []place, func()) {
			return ofPeer(java.ConsoleConsumer(t, target.Real, group, topic, map[string]string{"heartbeat.interval.ms": fmt.Sprint(heartbeat.Milliseconds())}))
		})
	})
}

func ofPeer(p *peer.Consumer) (consumed func() []place, stop func()) {
	return func() []place {
		var out []place
		for _, r := range p.Records() {
			out = append(out, place{r.Partition, r.Offset})
		}
		return out
	}, p.Stop
}

// TestNoStrategyInCommonWithTheGroup: the one who comes later is told, and what it
// offered; the group goes on.
func TestNoStrategyInCommonWithTheGroup(t *testing.T) {
	ForEachRelease(t, func(t *testing.T, target *Target) {
		topic, group := target.Topic(t, 1), target.Unique(t)
		other := python.Consumer(t, target.Bootstrap, group, topic, python.Options{"partition_assignment_strategy": []string{"range"}})
		target.Fill(t, topic, 1, 1)
		other.WaitRecords(t, 1)
		c := newConsumer(t, target, kafka.Config{
			GroupID: group, Topics: []string{topic},
			PartitionAssignmentStrategy: []assignors.Assignor{assignors.CooperativeSticky{}, assignors.Sticky{}},
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := c.Poll(ctx, -1)
		var refused *kafka.BrokerError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, protocol.InconsistentGroupProtocol, refused.Code)
		require.ErrorContains(t, err, group)
		require.ErrorContains(t, err, "cooperative-sticky, sticky")
		require.ErrorContains(t, err, "PartitionAssignmentStrategy")
		consume.Close(t, c)
		target.Fill(t, topic, 1, 1)
		other.WaitRecords(t, 2)
	})
}

func share(t *testing.T, target *Target, join func(group, topic string) (consumed func() []place, stop func())) {
	const partitions, rounds = 4, 10
	topic, group := target.Topic(t, partitions), target.Unique(t)
	produced := 0
	produce := func() {
		target.Fill(t, topic, partitions, 10*partitions)
		produced += 10 * partitions
	}
	first := newMember(t, target, group, topic)
	produce()
	first.waitFor(t, "the first member consumes alone", func() bool { return len(first.consumed()) == produced })

	second, stop := join(group, topic)
	first.waitFor(t, "both members own partitions", func() bool {
		produce()
		return owners(target.DescribeGroup(t, group)) == 2 && len(second()) > 0
	})
	defer func() { tellMissing(t, target.EndOffsets(t, topic), append(first.consumed(), second()...)) }()
	for range rounds {
		produce()
	}
	first.waitFor(t, "the two consume everything", func() bool { return len(first.consumed())+len(second()) >= produced })
	produce()
	stop()
	for range rounds {
		produce()
	}
	first.waitFor(t, "the first member goes on alone", func() bool { return len(first.consumed())+len(second()) >= produced })

	times := map[place]int{}
	for _, p := range append(first.consumed(), second()...) {
		times[p]++
	}
	for p, n := range times {
		require.Equal(t, 1, n, "record %v was consumed more than once", p)
	}
	require.Len(t, times, produced)
	first.stop(t)
	for p, end := range target.EndOffsets(t, topic) {
		require.Equal(t, end, target.Committed(t, group)[outside.TopicPartition{Topic: topic, Partition: p}].Offset)
	}
}

// owners counts the members that own partitions.
func owners(g outside.Group) int {
	n := 0
	for _, m := range g.Members {
		if g.State == "Stable" && len(m.Assignment) > 0 {
			n++
		}
	}
	return n
}

// tellMissing says at a failure which records nobody consumed.
func tellMissing(t *testing.T, ends map[int32]int64, consumed []place) {
	if !t.Failed() {
		return
	}
	for p, end := range ends {
		for offset := range end {
			if !slices.Contains(consumed, place{p, offset}) {
				t.Logf("not consumed: partition %d from offset %d, end %d", p, offset, end)
				break
			}
		}
	}
}

// waitFor waits until done is true; the end of the member's polling ends it
// early.
func (m *member) waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		select {
		case <-m.done:
			t.Fatalf("Poll failed (%v) before: %s", m.err, what)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

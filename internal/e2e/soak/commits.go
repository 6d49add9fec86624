//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// A commitLog follows the topic in which the brokers keep committed offsets, so
// that it sees each commit, of whatever member.
type commitLog struct {
	mu       sync.Mutex
	history  map[place][]commit
	backward []string
}

type place struct {
	group     string
	partition int32
}

type commit struct {
	offset int64
	at     time.Time
}

// offsetsTopic is where Kafka keeps what groups commit.
const offsetsTopic = "__consumer_offsets"

// followCommits follows what is committed to a cluster until the test ends.
func followCommits(t testing.TB, bootstrap []string, release string) *commitLog {
	t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics(offsetsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if v := kversion.FromString("v" + release); v != nil && !v.HasKey(int16(kmsg.ApiVersions)) {
		opts = append(opts, kgo.MaxVersions(v)) // such brokers cannot be asked
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatalf("follow commits: %v", err)
	}
	l := &commitLog{history: map[place][]commit{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			l.take(t, client.PollFetches(ctx))
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		client.Close()
	})
	return l
}

func (l *commitLog) take(t testing.TB, fetches kgo.Fetches) {
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.Canceled) {
			t.Logf("following commits: %v", err)
		}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		key, value := kmsg.NewOffsetCommitKey(), kmsg.NewOffsetCommitValue()
		if len(r.Value) == 0 || key.ReadFrom(r.Key) != nil || key.Version > 1 || value.ReadFrom(r.Value) != nil {
			return // a group's own record, or an offset that expired
		}
		l.add(place{key.Group, key.Partition}, commit{value.Offset, time.UnixMilli(value.CommitTimestamp)})
	})
}

func (l *commitLog) add(p place, c commit) {
	if was := l.last(p); c.offset < was.offset {
		l.backward = append(l.backward, fmt.Sprintf("group %s, partition %d: %d committed at %s, %d at %s",
			p.group, p.partition, was.offset, was.at.Format(timeFormat), c.offset, c.at.Format(timeFormat)))
	}
	l.history[p] = append(l.history[p], c)
}

func (l *commitLog) last(p place) commit {
	if h := l.history[p]; len(h) > 0 {
		return h[len(h)-1]
	}
	return commit{}
}

// reached tells whether the last commits of a group are those.
func (l *commitLog) reached(group string, want []int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, offset := range want {
		if l.last(place{group, int32(p)}).offset != offset {
			return false
		}
	}
	return true
}

// committed tells whether a record was committed before then, in milliseconds.
func (l *commitLog) committed(p place, offset int64, then time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.history[p] {
		if c.at.Before(then.Truncate(time.Millisecond)) && c.offset > offset {
			return true
		}
	}
	return false
}

// takeBackward gives the commits that went backward since it was asked last.
func (l *commitLog) takeBackward() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.backward
	l.backward = nil
	return b
}

// of tells how many commits of a group there were.
func (l *commitLog) of(group string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for p, h := range l.history {
		if p.group == group {
			n += len(h)
		}
	}
	return n
}

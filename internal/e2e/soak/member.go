//go:build unix

package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/assignors"
)

// memberVariable makes the test binary a member of a group: what it is to do,
// as JSON. A member of its own process can be killed.
const memberVariable = "SOAK_MEMBER"

// The ways in which an application can read, and commit.
const (
	readPoll     = "poll"
	readIterator = "iterator"
	readChannel  = "channel"

	commitAuto  = "auto"
	commitSync  = "sync"
	commitAsync = "async"
)

// An order is what a member of the library is to do.
type order struct {
	Bootstrap    []string
	Group, Topic string
	Strategies   []string
	Read, Commit string
	APIVersion   string
	Session      time.Duration
	Heartbeat    time.Duration
	AutoCommit   time.Duration
}

var strategies = map[string]func() assignors.Assignor{
	"range":              func() assignors.Assignor { return assignors.Range{} },
	"roundrobin":         func() assignors.Assignor { return assignors.RoundRobin{} },
	"cooperative-sticky": func() assignors.Assignor { return assignors.CooperativeSticky{} },
}

// playMember consumes until SIGTERM, or until its standard input ends, and
// tells of it in the lines that peer.ParseJSON understands.
func playMember(what string) error {
	var o order
	if err := json.Unmarshal([]byte(what), &o); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	m := &libraryMember{order: o}
	c, err := kafka.NewConsumer(ctx, m.config())
	if err != nil {
		return err
	}
	m.c = c
	err = m.read(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	return errors.Join(err, c.Close(context.Background()))
}

// A libraryMember is the application that uses the library.
type libraryMember struct {
	order
	c *kafka.Consumer
}

func (m *libraryMember) config() kafka.Config {
	cfg := kafka.Config{
		BootstrapServers: m.Bootstrap, GroupID: m.Group, Topics: []string{m.Topic}, APIVersion: m.APIVersion,
		SessionTimeout: m.Session, HeartbeatInterval: m.Heartbeat, AutoCommitInterval: m.AutoCommit,
		DisableAutoCommit: m.Commit != commitAuto, AutoOffsetReset: kafka.ResetEarliest,
		APIVersionAutoTimeout: 20 * time.Second, // on a busy machine brokers take their time
		RebalanceListener:     kafka.RebalanceListener{OnRevoked: tellAssignment, OnAssigned: tellAssignment, OnLost: tellLost},
		Logger:                slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OnEvent:               func(e kafka.Event) { fmt.Fprintf(os.Stderr, "%s event %T %+v\n", time.Now().Format(timeFormat), e, e) },
	}
	for _, name := range m.Strategies {
		cfg.PartitionAssignmentStrategy = append(cfg.PartitionAssignmentStrategy, strategies[name]())
	}
	return cfg
}

// timeFormat is how times are told in logs.
const timeFormat = "15:04:05.000"

func tellAssignment(_ context.Context, c *kafka.Consumer, _ []kafka.TopicPartition) error {
	return tell(map[string]any{"assigned": partitions(c.Assignment())})
}

func tellLost(_ context.Context, _ *kafka.Consumer, tps []kafka.TopicPartition) error {
	return tell(map[string]any{"lost": partitions(tps)})
}

func partitions(tps []kafka.TopicPartition) []int32 {
	out := []int32{}
	for _, tp := range tps {
		out = append(out, tp.Partition)
	}
	slices.Sort(out)
	return out
}

func tell(line any) error {
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(b, '\n'))
	return err
}

// work is what the application does with a record: it tells of it.
func work(r kafka.Record) error {
	return tell(map[string]any{
		"topic": r.Topic, "partition": r.Partition, "offset": r.Offset, "key": string(r.Key), "value": string(r.Value),
		"at": time.Now().UnixMilli(),
	})
}

func (m *libraryMember) read(ctx context.Context) error {
	switch m.Read {
	case readPoll:
		return m.poll(ctx)
	case readIterator:
		for r, err := range m.c.Records(ctx) {
			if err != nil {
				return err
			}
			if err := errors.Join(work(r), m.commit()); err != nil {
				return err
			}
		}
		return nil
	case readChannel:
		for r := range m.c.Messages(ctx) {
			if err := errors.Join(work(r), m.commit()); err != nil {
				return err
			}
		}
		return m.c.Err()
	}
	return fmt.Errorf("no way to read: %q", m.Read)
}

func (m *libraryMember) poll(ctx context.Context) error {
	for {
		records, err := m.c.Poll(ctx, time.Second)
		if err != nil {
			return err
		}
		for r := range records.All() {
			if err := work(r); err != nil {
				return err
			}
		}
		if records.Len() > 0 {
			if err := m.commit(); err != nil {
				return err
			}
		}
	}
}

// commit commits what was handed over; all of it has been worked off. That a
// rebalance came first is told, and no reason to end.
func (m *libraryMember) commit() error {
	var err error
	switch m.Commit {
	case commitSync:
		err = m.c.Commit(context.Background())
	case commitAsync:
		err = m.c.CommitAsync(nil, nil)
	}
	if errors.Is(err, kafka.ErrNotAssigned) || errors.As(err, new(*kafka.CommitFailedError)) {
		return tell(map[string]any{"fault": err.Error()})
	}
	return err
}

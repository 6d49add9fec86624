package kafka

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/internal/metrics"
)

// A coordinator is this consumer's side of its group's coordinator: it looks the
// coordinator up, is a member of the group, sends heartbeats, and commits and looks
// up offsets. Package group decides; run carries out. It never calls user code
// other than assignors, which run on goroutines of their own.
//
// Its methods may be called from any goroutine, except that nextStep and stepDone
// belong to the one that polls.
type coordinator struct {
	cfg       *Config
	cl        *cluster.Cluster
	hooks     coordinatorHooks
	log       *slog.Logger
	metrics   *metrics.Group
	assignors []assignors.Assignor

	cooperative bool // partitions are kept over rebalances

	ctx      context.Context // ends with close
	cancel   context.CancelCauseFunc
	wg       sync.WaitGroup // run, commitLoop, one goroutine per request
	messages chan message   // to run

	// What run publishes for others to read.
	now       atomic.Pointer[membership]
	step      atomic.Pointer[rebalanceStep]
	wantsPoll atomic.Bool
	doubted   atomic.Bool // the coordinator's last answers were bad
	polls     atomic.Uint64

	looks atomic.Uint64 // numbers what subscribe is told, and what ends that

	shortRounds atomic.Bool // rounds wait for the session timeout only (JoinGroup v0)

	store     atomic.Int32 // an offsetStore: where the group's offsets are
	zooKept   atomic.Bool  // ZooKeeper has offsets of the group
	keepsNone atomic.Bool  // brokers are found to keep no offsets at all
	alone     atomic.Bool  // brokers are found to have no groups

	loop    loopState // belongs to run
	lookup  lookupView
	trouble trouble
	commits commitQueue
	sent    sentCommits
}

// coordinatorHooks is how a coordinator reaches the consumer. None of them may
// block; they are called without locks held.
type coordinatorHooks struct {
	// wake: there is something for the application's goroutine: a step, an error, or
	// a join that wants a poll.
	wake func()
	// lost: records of these partitions must stop at once.
	lost func(tps []TopicPartition)
	// asks is a counter that grows whenever the application asks for records. When
	// it and the calls of polled stand still for MaxPollInterval, the application is
	// stuck. A while before, wake is called, so that a Poll that waits can call
	// polled.
	asks func() uint64
	// event is told what happens.
	event func(Event)
	// groupless: brokers have no groups, so that all partitions are this consumer's. It
	// may be nil.
	groupless func()
	// noCommits: brokers keep no offsets, for that reason. It is called once, and may be
	// nil.
	noCommits func(reason error)
	// watch is told which topics of other members this one, as the leader, must see
	// the metadata of; nil when it is none. It may be nil.
	watch func(topics []string)
}

// membership is what is known of this consumer in its group. It is never changed.
type membership struct {
	state      group.State
	since      time.Time // when state began
	memberID   string
	generation int32
	owned      map[TopicPartition]uint64 // which taking over it is, ever growing
	ownedList  []TopicPartition
	subscribed bool
	awaited    time.Time // since when the coordinator is known to wait for a JoinGroup; zero: it does not
}

type stepKind = group.StepKind

const (
	stepRevoke = group.Revoke
	stepAssign = group.Assign
	stepLost   = group.Lost
)

// A rebalanceStep is a part of a rebalance that the application's goroutine does.
type rebalanceStep struct {
	kind       stepKind
	partitions []TopicPartition // to give up, added, or lost
	assignment []TopicPartition // stepAssign: all that is owned from now on

	id    int
	taken atomic.Bool
}

// message is something for run to take in.
type message struct {
	event  group.Event
	seq    int           // of the request that ended, or 0
	before func()        // run on run's goroutine first, may be nil
	holds  func() bool   // else the event is void by now; nil: it holds
	done   chan struct{} // closed when the event was taken in, may be nil
}

// newCoordinator returns a coordinator for cfg, which has its defaults filled in.
// It does nothing before start.
func newCoordinator(cfg *Config, cl *cluster.Cluster, h coordinatorHooks, m *metrics.Group, log *slog.Logger) *coordinator {
	co := &coordinator{
		cfg: cfg, cl: cl, hooks: h, log: log.With("group", cfg.GroupID), metrics: m, messages: make(chan message),
	}
	co.ctx, co.cancel = context.WithCancelCause(context.Background())
	var names []string
	for _, a := range cfg.PartitionAssignmentStrategy {
		if per, ok := a.(assignors.PerConsumer); ok {
			a = per.NewInstance()
		}
		co.assignors, names = append(co.assignors, a), append(names, a.Name())
	}
	highest, _ := commonProtocol(co.assignors)
	co.cooperative = highest == assignors.Cooperative
	co.loop = newLoopState(group.NewClassic(group.Config{
		InstanceID:        cfg.GroupInstanceID,
		Cooperative:       co.cooperative,
		Protocols:         names,
		HeartbeatInterval: cfg.HeartbeatInterval,
		SessionTimeout:    cfg.SessionTimeout,
		RetryBackoff:      cfg.RetryBackoff,
		RetryBackoffMax:   cfg.RetryBackoffMax,
	}))
	co.now.Store(&membership{generation: -1})
	co.lookup.changed = make(chan struct{})
	co.commits.wake, co.commits.sent = make(chan struct{}, 1), map[TopicPartition]uint64{}
	return co
}

// start starts the goroutines; close or stop ends them.
func (co *coordinator) start() {
	co.wg.Go(co.run)
	co.wg.Go(co.commitLoop)
}

// post gives an event to run. It returns false after close.
func (co *coordinator) post(m message) bool {
	select {
	case co.messages <- m:
		return true
	case <-co.ctx.Done():
		return false
	}
}

// call is post that returns when the event was taken in.
func (co *coordinator) call(ev group.Event) bool { return co.callIf(ev, nil) }

// callIf is call of an event that is taken in only if it holds when its turn comes.
func (co *coordinator) callIf(ev group.Event, holds func() bool) bool {
	m := message{event: ev, holds: holds, done: make(chan struct{})}
	if !co.post(m) {
		return false
	}
	select {
	case <-m.done:
		return true
	case <-co.ctx.Done():
		return false
	}
}

// subscribe makes topics the list to be a member for, as of a look; older looks than the
// newest count for nothing. The join starts with the next polled.
func (co *coordinator) subscribe(topics []string, reason string, look uint64) {
	if co.alone.Load() {
		return
	}
	co.callIf(group.Subscribed{Topics: slices.Clone(topics), Reason: reason}, func() bool { return look == co.looks.Load() })
}

// polled says that the application polls. It starts a join when one is due.
func (co *coordinator) polled() {
	co.polls.Add(1)
	if co.wantsPoll.Load() {
		co.call(group.Polled{})
	}
}

// nextStep returns what the application's goroutine must do now, or nil; the same
// step until stepDone.
func (co *coordinator) nextStep() *rebalanceStep {
	for {
		st := co.step.Load()
		if st == nil || st.taken.Load() {
			return st
		}
		if !co.call(group.StepTaken{ID: st.id}) {
			return nil
		}
	}
}

// stepDone says that the application did the step.
func (co *coordinator) stepDone(st *rebalanceStep) {
	co.step.CompareAndSwap(st, nil)
	co.call(group.StepDone{ID: st.id})
}

// rebalancing reports whether a rebalance is under way.
func (co *coordinator) rebalancing() bool {
	switch co.now.Load().state {
	case group.Revoking, group.Joining, group.Syncing, group.Releasing, group.Assigning:
		return true
	default:
		return false
	}
}

// restOfRound is how long the rebalance still waits for what this member does before it
// joins. At its end, and later, there is a moment left to try what may come too late.
func (co *coordinator) restOfRound() time.Duration {
	limit := co.cfg.MaxPollInterval
	if co.shortRounds.Load() {
		limit = min(limit, co.cfg.SessionTimeout)
	}
	began := co.now.Load().awaited
	if began.IsZero() {
		return limit
	}
	// The coordinator began to wait up to a heartbeat before this member heard of it.
	heartbeat := co.cfg.HeartbeatInterval
	return min(limit, max(limit-time.Since(began)-heartbeat, heartbeat))
}

// generationValid reports whether this consumer is a member of its group's present
// generation, as far as it knows.
func (co *coordinator) generationValid() bool { return co.now.Load().generation >= 0 }

func (co *coordinator) groupMetadata() GroupMetadata {
	now := co.now.Load()
	return GroupMetadata{
		GroupID: co.cfg.GroupID, GenerationID: now.generation, MemberID: now.memberID,
		GroupInstanceID: co.cfg.GroupInstanceID,
	}
}

// enforceRebalance makes the next polled join anew (KIP-568).
func (co *coordinator) enforceRebalance(reason string) {
	if reason == "" {
		reason = "rebalance enforced by the application"
	}
	co.call(group.RejoinAsked{Reason: reason})
}

// leave ends the membership; the application has revoked what it owned. It waits
// for earlier commits, at most half of ctx's time, and for the coordinator's answer,
// as long as ctx lasts.
func (co *coordinator) leave(ctx context.Context, reason string) error {
	first, cancel := ctx, func() {}
	if end, ok := ctx.Deadline(); ok {
		first, cancel = context.WithTimeout(ctx, time.Until(end)/2)
	}
	co.flush(first)
	cancel()
	left := make(chan error, 1)
	if !co.post(message{event: group.Leave{Reason: reason}, before: func() {
		co.loop.leavers = append(co.loop.leavers, left)
	}}) {
		return ErrClosed
	}
	select {
	case err := <-left:
		return co.groupError("leave", err)
	case <-ctx.Done():
		return co.groupError("leave", ctx.Err())
	case <-co.ctx.Done():
		return ErrClosed
	}
}

// close leaves the group and ends every goroutine. The end of ctx cuts the first.
func (co *coordinator) close(ctx context.Context, reason string) {
	if err := co.leave(ctx, reason); err != nil && co.ctx.Err() == nil {
		co.log.Info("kafka: the group was not told that this member leaves", "error", err)
	}
	co.stop()
}

// stop ends every goroutine, whatever is under way.
func (co *coordinator) stop() {
	co.cancel(ErrClosed)
	co.wg.Wait()
}

// backoff is the wait before the next try after so many failures (KIP-580).
func (co *coordinator) backoff(failures int) time.Duration {
	limit := max(co.cfg.RetryBackoffMax, time.Millisecond)
	d := min(max(co.cfg.RetryBackoff, time.Millisecond), limit)
	for ; failures > 1 && d < limit; failures-- {
		d *= 2
	}
	return vary(min(d, limit))
}

// vary changes d by up to 20 %, so that clients do not act in step.
func vary(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

package kafka

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/kafkaconsumer/kafka/internal/cluster"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/fetch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lookupLoop finds positions of one kind: it takes what the table wants looked up
// and passes it on, whenever it is kicked or a retry is due.
func (f *fetcher) lookupLoop(
	kicked <-chan struct{},
	want func(*fetch.Table, time.Time) ([]fetch.Lookup, time.Time),
	lookUp func([]fetch.Lookup),
) {
	for f.ctx.Err() == nil {
		f.mu.Lock()
		lookups, retry := want(f.table, time.Now())
		f.mu.Unlock()
		if len(lookups) > 0 {
			lookUp(lookups)
			continue
		}
		sleepUntil(f.ctx, kicked, retry)
	}
}

// lookUpCommitted asks the group's coordinator for committed offsets. It is called
// by the one loop for them, and waits: there is one coordinator.
func (f *fetcher) lookUpCommitted(lookups []fetch.Lookup) {
	tps := make([]TopicPartition, len(lookups))
	for i, l := range lookups {
		tps[i] = l.TP
	}
	ctx, cancel := context.WithTimeout(f.ctx, f.cfg.RequestTimeout)
	defer cancel()
	found, err := f.hooks.committed(ctx, tps)
	appeared := make([]bool, len(lookups))
	failures := partitionErrors(err)
	for i, l := range lookups {
		appeared[i] = f.hooks.appeared(l.TP)
	}
	var failed []fetch.FailedLookup
	table := f.acquire()
	defer f.release()
	for i, l := range lookups {
		o, ok := found[l.TP]
		switch reason := failures.of(l.TP); {
		case ok:
			epoch, known := o.LeaderEpoch()
			if !known {
				epoch = -1
			}
			table.CommittedFound(l, o.Offset, epoch)
		case reason == nil:
			table.CommittedNone(l, appeared[i])
		case isRefusal(reason):
			table.LookupRefused(l, reason, time.Now())
		default:
			failed = append(failed, fetch.FailedLookup{Lookup: l, Err: reason})
		}
	}
	table.LookupsFailed(failed, time.Now())
}

// lookUpResets asks leaders for offsets by time, each on a goroutine of its own, so
// that one that does not answer holds up no other's partitions.
func (f *fetcher) lookUpResets(lookups []fetch.Lookup) {
	for leader, group := range f.byLeader(lookups) {
		if leader < 0 {
			f.noLeader(group)
			continue
		}
		f.wg.Go(func() { f.listOffsets(group) })
	}
}

func (f *fetcher) byLeader(lookups []fetch.Lookup) map[int32][]fetch.Lookup {
	md := f.cluster.Metadata()
	groups := make(map[int32][]fetch.Lookup)
	for _, l := range lookups {
		p, _ := md.Partition(l.TP)
		groups[p.Leader] = append(groups[p.Leader], l)
	}
	return groups
}

func (f *fetcher) noLeader(lookups []fetch.Lookup) {
	f.cluster.Refresh()
	md := f.cluster.Metadata()
	var failed []fetch.FailedLookup
	table := f.acquire()
	defer f.release()
	for _, l := range lookups {
		code := protocol.UnknownTopicOrPartition
		if t := md.Topics[l.TP.Topic]; t != nil {
			code = protocol.LeaderNotAvailable
			if t.Err != protocol.None {
				code = t.Err
			} else if l.TP.Partition < 0 || int(l.TP.Partition) >= len(t.Partitions) {
				code = protocol.UnknownTopicOrPartition
			}
		}
		if isRefusal(code) {
			table.LookupRefused(l, code, time.Now())
		} else {
			failed = append(failed, fetch.FailedLookup{Lookup: l, Err: code})
		}
	}
	table.LookupsFailed(failed, time.Now())
}

func (f *fetcher) listOffsets(lookups []fetch.Lookup) {
	ctx, cancel := context.WithTimeout(f.ctx, f.cfg.RequestTimeout)
	defer cancel()
	spec := make(map[TopicPartition]int64, len(lookups))
	for _, l := range lookups {
		spec[l.TP] = l.Timestamp
	}
	found, errs := f.cluster.TryListOffsets(ctx, spec, int8(f.cfg.IsolationLevel))
	if f.ctx.Err() != nil {
		return
	}
	var failed []fetch.FailedLookup
	table := f.acquire()
	defer f.release()
	for _, l := range lookups {
		o, ok := found[l.TP]
		err := errs[l.TP]
		switch {
		case ok && o.Offset < 0 && l.Timestamp < 0: // every log has a beginning and an end
			failed = append(failed, fetch.FailedLookup{Lookup: l, Err: errNoEndOfLog})
		case ok:
			table.ResetFound(l, o.Offset, o.LeaderEpoch)
		case isRefusal(err):
			table.LookupRefused(l, err, time.Now())
		default:
			failed = append(failed, fetch.FailedLookup{Lookup: l, Err: err})
		}
	}
	table.LookupsFailed(failed, time.Now())
}

// validate asks leaders where the epochs of the last records read end in their logs
// (KIP-320), each on a goroutine of its own.
func (f *fetcher) validate(lookups []fetch.Lookup) {
	for leader, group := range f.byLeader(lookups) {
		f.wg.Go(func() {
			ends, err := f.endsOfEpochs(leader, group)
			var failed []fetch.FailedLookup
			table := f.acquire()
			defer f.release()
			for _, l := range group {
				if end, ok := ends[l.TP]; ok {
					table.Validated(l, end, time.Now())
				} else {
					failed = append(failed, fetch.FailedLookup{Lookup: l, Err: err})
				}
			}
			table.LookupsFailed(failed, time.Now())
		})
	}
}

// endsOfEpochs asks one leader. A broker that cannot be asked by consumers (before
// OffsetForLeaderEpoch v3) is taken to have the log that was read.
func (f *fetcher) endsOfEpochs(leader int32, lookups []fetch.Lookup) (map[TopicPartition]protocol.EpochEndOffset, error) {
	ends := make(map[TopicPartition]protocol.EpochEndOffset)
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	for _, l := range lookups {
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = l.TP.Partition, l.Leader, l.Epoch
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic, t.Partitions = l.TP.Topic, append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	ctx, cancel := context.WithTimeout(f.ctx, f.cfg.RequestTimeout)
	defer cancel()
	const askable = 3
	resp, err := f.cluster.Do(ctx, leader, conn.Control, conn.Limit(req, askable, req.MaxVersion()))
	if _, old := errors.AsType[*UnsupportedVersionError](err); old {
		for _, l := range lookups {
			ends[l.TP] = protocol.EpochEndOffset{Epoch: l.Epoch, EndOffset: math.MaxInt64}
		}
		return ends, nil
	}
	if err != nil {
		return nil, err
	}
	err = protocol.UnknownLeaderEpoch // for partitions that are not answered
	for _, t := range resp.(*kmsg.OffsetForLeaderEpochResponse).Topics {
		for _, p := range t.Partitions {
			if code := ErrorCode(p.ErrorCode); code != protocol.None {
				err = code
				f.cluster.Refresh()
				continue
			}
			ends[TopicPartition{Topic: t.Topic, Partition: p.Partition}] = protocol.EpochEndOffset{Epoch: p.LeaderEpoch, EndOffset: p.EndOffset}
		}
	}
	return ends, err
}

var errNoEndOfLog = errors.New("the leader knows no end of the log")

// checkVacancies asks leaders whether offsets that seem to hold nothing are in their own
// logs, and not in tiered storage that is slow to answer.
func (f *fetcher) checkVacancies(lookups []fetch.Lookup) {
	for leader, group := range f.byLeader(lookups) {
		f.wg.Go(func() {
			ctx, cancel := context.WithTimeout(f.ctx, f.cfg.RequestTimeout)
			defer cancel()
			spec := make(map[TopicPartition]int64, len(group))
			for _, l := range group {
				spec[l.TP] = cluster.EarliestLocal
			}
			found, failed := f.cluster.ListOffsets(ctx, spec, int8(f.cfg.IsolationLevel))
			f.log.Debug("offsets hold nothing", "leader", leader, "partitions", len(group))
			table := f.acquire()
			defer f.release()
			for _, l := range group {
				localStart := int64(-1)
				if o, ok := found[l.TP]; ok {
					localStart = o.Offset
				} else if _, old := errors.AsType[*UnsupportedVersionError](failed[l.TP]); old {
					localStart = 0 // such a broker has no tiered storage
				}
				table.VacancyAnswered(l, localStart)
			}
		})
	}
}

// isRefusal tells whether an error is one that trying again will not mend soon, so
// that the application must hear of it.
func isRefusal(err error) bool {
	if isFinalError(err) {
		return true
	}
	code, ok := errors.AsType[ErrorCode](err)
	return ok && !code.Retriable()
}

// perPartition finds each partition's error in a joined one.
type perPartition struct {
	all  error
	each map[TopicPartition]error
}

// partitionErrors takes an error apart into the *PartitionErrors that it joins. An
// error that names no partition is every partition's.
func partitionErrors(err error) perPartition {
	pe := perPartition{each: make(map[TopicPartition]error)}
	var collect func(error)
	collect = func(err error) {
		switch e := err.(type) {
		case nil:
		case *PartitionError:
			pe.each[e.TopicPartition()] = e.Err
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				collect(inner)
			}
		default:
			pe.all = err
		}
	}
	collect(err)
	return pe
}

func (pe perPartition) of(tp TopicPartition) error {
	if err := pe.each[tp]; err != nil {
		return err
	}
	return pe.all
}

// awaitPosition waits until tp has a position.
func (f *fetcher) awaitPosition(ctx context.Context, tp TopicPartition) (int64, error) {
	for {
		f.mu.Lock()
		p := f.table.Get(tp)
		if p == nil {
			f.mu.Unlock()
			return 0, &PartitionError{tp.Topic, tp.Partition, ErrNotAssigned}
		}
		o, known := f.table.Position(p)
		reason, fault := f.table.Waiting(p), f.table.FaultOf(p)
		changed := f.changed
		f.watched = true
		f.mu.Unlock()
		if known {
			return o.Offset, nil
		}
		if fault != nil {
			return 0, faultError(fetch.Fault{TP: tp, Err: fault}, f.cfg)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, &PartitionError{tp.Topic, tp.Partition, waitError("no position yet", ctx, reason)}
		case <-f.ctx.Done():
			return 0, ErrClosed
		}
	}
}

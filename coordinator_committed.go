package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// committedMax is the newest version of OffsetFetch that we speak.
const committedMax = 10

// committed looks up the offsets that the group committed. A partition without one
// is absent. Only the coordinator's word that there is none counts as that: failures
// are retried until ctx ends, and a partition whose look-up failed is in the error,
// joined as *PartitionError; what was found comes along. What this consumer committed
// for a topic that was then created again counts as the beginning of the new one.
func (co *coordinator) committed(ctx context.Context, tps []TopicPartition) (map[TopicPartition]OffsetAndMetadata, error) {
	return co.lookUpCommitted(ctx, tps, true)
}

// tryCommitted is committed that asks once: failures that may pass are in the error too,
// so that what was found need not wait for the rest.
func (co *coordinator) tryCommitted(ctx context.Context, tps []TopicPartition) (map[TopicPartition]OffsetAndMetadata, error) {
	return co.lookUpCommitted(ctx, tps, false)
}

func (co *coordinator) lookUpCommitted(ctx context.Context, tps []TopicPartition, retry bool) (map[TopicPartition]OffsetAndMetadata, error) {
	l := &offsetLookup{
		co: co, found: map[TopicPartition]OffsetAndMetadata{},
		left: map[TopicPartition]error{}, failed: map[TopicPartition]error{},
	}
	defer func() { co.sent.correct(l.found, co.cl.Metadata()) }()
	for _, tp := range tps {
		l.left[tp] = nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(co.ctx, func() { cancel(ErrClosed) })()
	for failures := 1; len(l.left) > 0; failures++ {
		node, final, err := co.awaitCoordinator(ctx)
		if err == nil {
			final, err = l.ask(ctx, node)
		}
		if len(l.left) == 0 {
			break
		}
		if co.ctx.Err() != nil {
			return l.found, ErrClosed
		}
		if !final && retry && !sleepFor(ctx, co.backoff(failures)) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
			final = true
		}
		if final || !retry {
			return l.found, l.giveUp(err)
		}
	}
	return l.found, l.errors()
}

// offsetLookup is one call of lookUpCommitted.
type offsetLookup struct {
	co     *coordinator
	found  map[TopicPartition]OffsetAndMetadata
	left   map[TopicPartition]error // still to be asked for; why the last try failed
	failed map[TopicPartition]error // for good
}

func (l *offsetLookup) errors() error { return joinPartitionErrors(l.failed) }

// giveUp ends the look-up because of err; a partition's own reason is told with it.
func (l *offsetLookup) giveUp(err error) error {
	for tp, own := range l.left {
		if own == nil || errors.Is(err, own) {
			own = l.co.groupError("OffsetFetch", err)
		} else {
			own = l.co.groupError("OffsetFetch", fmt.Errorf("%w: %w", err, own))
		}
		l.failed[tp] = own
	}
	return l.errors()
}

func joinPartitionErrors(failed map[TopicPartition]error) error {
	tps := slices.Collect(maps.Keys(failed))
	sortPartitions(tps)
	var errs []error
	for _, tp := range tps {
		errs = append(errs, &PartitionError{Topic: tp.Topic, Partition: tp.Partition, Err: failed[tp]})
	}
	return errors.Join(errs...)
}

// ask asks the coordinator once for what is left. An error is about all of it; final
// says that asking again is of no use.
func (l *offsetLookup) ask(ctx context.Context, node int32) (final bool, err error) {
	if err := l.co.revise(node); err != nil {
		return false, err
	}
	asking, stop := l.co.whileCoordinator(ctx, node)
	defer stop()
	req, names := l.request()
	lowest, highest := l.co.offsetStore().versions(committedMax)
	if names == nil {
		highest = min(highest, committedByName)
	}
	resp, err := l.co.cl.Do(asking, node, conn.Control, conn.Limit(req, lowest, highest))
	if err != nil {
		err = l.co.explainOffsets(node, protocol.KeyOffsetFetch, err)
		if ctx.Err() == nil && !refusesGroup(err) {
			l.co.call(group.CoordinatorLost{Node: node, Err: err})
		}
		return refusesGroup(err), err
	}
	r, ok := resp.(*kmsg.OffsetFetchResponse)
	if !ok {
		return true, wrongAnswer(node, protocol.KeyOffsetFetch, resp)
	}
	code, topics := l.co.offsetsIn(r)
	if ErrorCode(code) == protocol.GroupIDNotFound { // a group that is not there has committed nothing
		clear(l.left)
		return false, nil
	}
	if err := answerError(node, "OffsetFetch", code, nil); err != nil {
		return l.co.offsetFetchFailed(node, err), err
	}
	return l.take(node, r.Version, names, topics)
}

// request fills both layouts; the version that is chosen writes its own. It returns the
// topics by their ids, nil if those of some are not known.
func (l *offsetLookup) request() (*kmsg.OffsetFetchRequest, topicNames) {
	md, names, whole := l.co.cl.Metadata(), topicNames{}, true
	tps := slices.Collect(maps.Keys(l.left))
	sortPartitions(tps)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = l.co.cfg.GroupID, true // KIP-447
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = l.co.cfg.GroupID
	for i := 0; i < len(tps); {
		t, gt := kmsg.NewOffsetFetchRequestTopic(), kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, gt.Topic = tps[i].Topic, tps[i].Topic
		for ; i < len(tps) && tps[i].Topic == t.Topic; i++ {
			t.Partitions = append(t.Partitions, tps[i].Partition)
		}
		gt.Partitions = t.Partitions
		gt.TopicID = lookupID(md.Topic(t.Topic))
		whole = names.add(t.Topic, gt.TopicID) && whole
		req.Topics, g.Topics = append(req.Topics, t), append(g.Topics, gt)
	}
	req.Groups = append(req.Groups, g)
	if !whole {
		return req, nil
	}
	return req, names
}

// offsetsIn returns what an answer of either layout says of the group.
func (co *coordinator) offsetsIn(r *kmsg.OffsetFetchResponse) (code int16, topics []kmsg.OffsetFetchResponseGroupTopic) {
	for _, g := range r.Groups {
		if g.Group == co.cfg.GroupID {
			return g.ErrorCode, g.Topics
		}
	}
	for _, t := range r.Topics {
		gt := kmsg.NewOffsetFetchResponseGroupTopic()
		gt.Topic = t.Topic
		for _, p := range t.Partitions {
			gp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			gp.Partition, gp.Offset, gp.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			gp.Metadata, gp.ErrorCode = p.Metadata, p.ErrorCode
			gt.Partitions = append(gt.Partitions, gp)
		}
		topics = append(topics, gt)
	}
	return r.ErrorCode, topics
}

// take takes in what is said of each partition. What is not said stays left.
func (l *offsetLookup) take(node int32, version int16, names topicNames, topics []kmsg.OffsetFetchResponseGroupTopic) (final bool, err error) {
	for tp := range l.left {
		l.left[tp] = fmt.Errorf("broker %d left the partition out of its answer", node)
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			tp := TopicPartition{Topic: names.of(t.Topic, t.TopicID), Partition: p.Partition}
			if _, asked := l.left[tp]; !asked {
				continue
			}
			cause := answerError(node, "OffsetFetch", p.ErrorCode, nil)
			switch code := ErrorCode(p.ErrorCode); {
			case code == protocol.UnknownTopicOrPartition && version <= 1 && p.Offset < 0, code == protocol.None && p.Offset == -1:
				delete(l.left, tp)
			case code == protocol.None && p.Offset >= 0:
				o := OffsetAndMetadata{Offset: p.Offset}.WithLeaderEpoch(p.LeaderEpoch)
				if p.Metadata != nil {
					o.Metadata = *p.Metadata
				}
				l.found[tp] = o
				l.co.noteKept()
				delete(l.left, tp)
			case code == protocol.None:
				l.failed[tp] = fmt.Errorf("broker %d answered OffsetFetch with offset %d", node, p.Offset)
				delete(l.left, tp)
			case l.co.offsetFetchFailed(node, cause):
				l.failed[tp] = l.co.groupError("", cause)
				delete(l.left, tp)
			default:
				l.left[tp], err = cause, cause
			}
		}
	}
	if err == nil {
		for _, own := range l.left {
			err = own
		}
	}
	return false, err
}

// offsetFetchFailed decides whether a code is final, and looks the coordinator up
// again when it is not the right one.
func (co *coordinator) offsetFetchFailed(node int32, err error) (final bool) {
	var code ErrorCode
	errors.As(err, &code)
	switch code {
	case protocol.NotCoordinator, protocol.CoordinatorNotAvailable:
		co.call(group.CoordinatorLost{Node: node, Err: err})
		return false
	case protocol.UnknownTopicID: // the topic was created again, or metadata of it is older than ours
		co.cl.Refresh()
		return false
	default:
		return !code.Retriable()
	}
}

// sleepFor waits for d and reports whether ctx lasted as long.
func sleepFor(ctx context.Context, d time.Duration) bool {
	sleepUntil(ctx, nil, time.Now().Add(d))
	return ctx.Err() == nil
}

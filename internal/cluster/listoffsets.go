package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Timestamps with a meaning of their own in ListOffsets.
const (
	Latest   int64 = -1 // behind the last record, or with read_committed the last stable offset
	Earliest int64 = -2 // the first record that is still there

	// EarliestLocal is the first record that the leader has itself and not in tiered
	// storage (KIP-405). Brokers that do not know it have no tiered storage: the error
	// is an *UnsupportedVersionError.
	EarliestLocal int64 = -4
)

// The versions of ListOffsets used here. Version 0 looks up by the age of segments
// and not of records, so that it serves for the ends of logs alone, and answers with a
// list of offsets.
const (
	listOffsetsEnds   = 0
	listOffsetsTimes  = 1
	listOffsetsStable = 2 // the first that knows the last stable offset
	listOffsetsLocal  = 8 // the first that knows EarliestLocal
	listOffsetsMax    = 10
)

// ListedOffset is what a leader answered for one partition.
type ListedOffset struct {
	Offset      int64 // -1: there is no such record
	Timestamp   int64 // of the record, in milliseconds; -1 for Latest and Earliest
	LeaderEpoch int32 // of the record; -1 where it is not known
}

// ListOffsets asks the leaders of partitions for the first offset whose record
// has at least a timestamp, in milliseconds, or is Latest or Earliest. What may
// pass is tried again, after a backoff and with new metadata, until ctx ends;
// then its last error is returned, wrapped with ctx's. Each partition of spec
// is in exactly one of the two maps.
func (c *Cluster) ListOffsets(ctx context.Context, spec map[protocol.TopicPartition]int64, isolation int8) (map[protocol.TopicPartition]ListedOffset, map[protocol.TopicPartition]error) {
	ctx, stop := c.bound(ctx)
	defer stop()
	l := c.newLister(ctx, spec, isolation)
	for failures := 1; len(l.pending) > 0; failures++ {
		l.demand = 0
		l.round(ctx)
		if len(l.pending) == 0 || !sleep(ctx, max(c.backoff.Delay(failures), minSpacing)) {
			break
		}
		if l.demand > 0 && c.await(ctx, l.demand) != nil && ctx.Err() != nil {
			break
		}
	}
	for tp := range l.pending {
		if c.ctx.Err() != nil {
			l.errs[tp] = ErrClosed
		} else {
			l.errs[tp] = waitError(ctx, l.errs[tp])
		}
	}
	return l.found, l.errs
}

// TryListOffsets is ListOffsets that asks once: errors that may pass are returned too,
// so that what was found need not wait for the rest.
func (c *Cluster) TryListOffsets(ctx context.Context, spec map[protocol.TopicPartition]int64, isolation int8) (map[protocol.TopicPartition]ListedOffset, map[protocol.TopicPartition]error) {
	ctx, stop := c.bound(ctx)
	defer stop()
	l := c.newLister(ctx, spec, isolation)
	l.round(ctx)
	return l.found, l.errs
}

func (c *Cluster) newLister(ctx context.Context, spec map[protocol.TopicPartition]int64, isolation int8) *lister {
	return &lister{
		c: c, isolation: isolation, ended: ctx.Done(),
		pending: maps.Clone(spec), topics: map[string]*Topic{},
		found: make(map[protocol.TopicPartition]ListedOffset, len(spec)),
		errs:  map[protocol.TopicPartition]error{},
	}
}

// lister is one call of ListOffsets. Its goroutine owns it, but for what mu
// guards while a round's requests are on their way.
type lister struct {
	c         *Cluster
	isolation int8
	ended     <-chan struct{} // closed when the call has to end
	// topics are those that nobody is interested in, looked up for this call;
	// one is taken out when its leaders turn out to be wrong.
	topics map[string]*Topic

	mu      sync.Mutex
	pending map[protocol.TopicPartition]int64
	found   map[protocol.TopicPartition]ListedOffset
	errs    map[protocol.TopicPartition]error // of the pending ones: the last
	demand  uint64                            // of metadata, by this round; before it is served the same would happen again
}

// round asks all leaders once.
func (l *lister) round(ctx context.Context) {
	failed := l.lookUpOthers(ctx)
	// What an old leader cannot tell must not keep it from telling the rest.
	type target struct {
		leader int32
		lowest int16
	}
	byTarget := map[target][]offsetQuery{}
	for tp, millis := range maps.Clone(l.pending) {
		if failed[tp.Topic] {
			continue
		}
		p, err := l.partition(tp)
		if err != nil {
			l.failed(tp, err)
			continue
		}
		to := target{p.Leader, l.lowestFor(millis)}
		byTarget[to] = append(byTarget[to], offsetQuery{tp, millis, p.LeaderEpoch})
	}
	var wg sync.WaitGroup
	for to, queries := range byTarget {
		wg.Go(func() { l.query(ctx, to.leader, to.lowest, queries) })
	}
	wg.Wait()
}

type offsetQuery struct {
	tp     protocol.TopicPartition
	millis int64
	epoch  int32 // of the leader, as it is known
}

// lookUpOthers looks up the topics that the snapshot does not hold. It returns those of
// which it could not, and whose partitions it took in as failed.
func (l *lister) lookUpOthers(ctx context.Context) (failed map[string]bool) {
	missing := map[string]bool{}
	for tp := range l.pending {
		if !l.c.interestedIn(tp.Topic) && l.topics[tp.Topic] == nil {
			missing[tp.Topic] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	topics, err := l.c.lookUp(ctx, slices.Sorted(maps.Keys(missing)))
	if err == nil {
		maps.Copy(l.topics, topics)
		return nil
	}
	for tp := range maps.Clone(l.pending) {
		if missing[tp.Topic] {
			l.failed(tp, err)
		}
	}
	return missing
}

// interestedIn tells whether the refresher keeps up with a topic.
func (c *Cluster) interestedIn(topic string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.named[topic] || c.all && c.snapshot.Load().Topics[topic] != nil
}

// partition returns a partition that has a leader, or why there is none.
func (l *lister) partition(tp protocol.TopicPartition) (Partition, error) {
	m := &Metadata{Topics: l.topics}
	if l.topics[tp.Topic] == nil {
		m = l.c.Metadata()
	}
	p, ok := m.Partition(tp)
	if ok && p.Leader >= 0 {
		return p, nil
	}
	code := protocol.LeaderNotAvailable
	switch t := m.Topic(tp.Topic); {
	case t != nil && t.Err != protocol.None:
		code = t.Err
	case ok && p.Err != protocol.None:
		code = p.Err
	case t != nil && !ok:
		code = protocol.UnknownTopicOrPartition
	}
	return p, fmt.Errorf("metadata: %w", code)
}

// failed takes in that a partition got no answer. An error that may pass
// leaves it pending.
func (l *lister) failed(tp protocol.TopicPartition, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errs[tp] == nil || !l.cut(err) {
		l.errs[tp] = err
	}
	if isFinal(err) {
		delete(l.pending, tp)
		return
	}
	delete(l.topics, tp.Topic)
	if !errors.Is(err, protocol.OffsetNotAvailable) && !errors.Is(err, protocol.UnknownLeaderEpoch) {
		// With these two the leader is right, but not ready yet.
		l.demand = l.c.demand()
	}
}

// cut tells whether an error says no more than that the call had to end: what went wrong
// before says why it took so long.
func (l *lister) cut(err error) bool {
	select {
	case <-l.ended:
		return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	default:
		return false
	}
}

// query asks one leader, in no version below lowest.
func (l *lister) query(ctx context.Context, leader int32, lowest int16, queries []offsetQuery) {
	req := conn.Limit(listOffsetsRequest(ctx, queries, l.isolation), lowest, listOffsetsMax)
	resp, err := l.c.Do(ctx, leader, conn.Control, req)
	err = explainLowest(err, lowest)
	answered := map[protocol.TopicPartition]*kmsg.ListOffsetsResponseTopicPartition{}
	if r, ok := resp.(*kmsg.ListOffsetsResponse); ok {
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				p := &r.Topics[i].Partitions[j]
				answered[protocol.TopicPartition{Topic: r.Topics[i].Topic, Partition: p.Partition}] = p
			}
		}
	} else if err == nil {
		err = errors.New("not an answer to ListOffsets")
	}
	for _, q := range queries {
		p := answered[q.tp]
		switch {
		case err != nil:
			l.failed(q.tp, err)
		case p == nil:
			l.failed(q.tp, fmt.Errorf("ListOffsets: broker %d left the partition out of its answer", leader))
		case p.ErrorCode != 0:
			l.failed(q.tp, &CodeError{Node: leader, API: protocol.APIName(protocol.KeyListOffsets), Code: protocol.ErrorCode(p.ErrorCode)})
		case resp.GetVersion() == listOffsetsEnds:
			l.answeredOld(q.tp, p.OldStyleOffsets)
		default:
			l.answered(q.tp, ListedOffset{Offset: p.Offset, Timestamp: p.Timestamp, LeaderEpoch: p.LeaderEpoch})
		}
	}
}

// lowestFor returns the oldest version that can answer a query.
func (l *lister) lowestFor(millis int64) int16 {
	switch {
	case millis == Earliest, millis == Latest && l.isolation == 0:
		return listOffsetsEnds
	case millis == Latest:
		return listOffsetsStable
	case millis == EarliestLocal:
		return listOffsetsLocal
	}
	return listOffsetsTimes
}

// explainLowest adds to an *UnsupportedVersionError what the version is needed for.
func explainLowest(err error, lowest int16) error {
	old, ok := errors.AsType[*protocol.UnsupportedVersionError](err)
	if !ok {
		return err
	}
	named := *old
	switch lowest {
	case listOffsetsTimes:
		named.Need += ", as looking up by time needs Kafka 0.10.1"
	case listOffsetsStable:
		named.Need += ", as ReadCommitted needs Kafka 0.11"
	}
	return &named
}

// answeredOld takes in an answer of version 0: at most one offset was asked for.
func (l *lister) answeredOld(tp protocol.TopicPartition, offsets []int64) {
	if len(offsets) == 0 {
		l.failed(tp, errors.New("ListOffsets: an answer without an offset"))
		return
	}
	l.answered(tp, ListedOffset{Offset: offsets[0], Timestamp: -1, LeaderEpoch: -1})
}

func (l *lister) answered(tp protocol.TopicPartition, offset ListedOffset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found[tp] = offset
	delete(l.pending, tp)
	delete(l.errs, tp)
}

func listOffsetsRequest(ctx context.Context, queries []offsetQuery, isolation int8) kmsg.Request {
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = isolation
	if deadline, ok := ctx.Deadline(); ok {
		req.TimeoutMillis = int32(min(int64(req.TimeoutMillis), max(1, time.Until(deadline).Milliseconds())))
	}
	byTopic := map[string][]kmsg.ListOffsetsRequestTopicPartition{}
	for _, q := range queries {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = q.tp.Partition, q.epoch, q.millis
		byTopic[q.tp.Topic] = append(byTopic[q.tp.Topic], p)
	}
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic, t.Partitions = topic, byTopic[topic]
		req.Topics = append(req.Topics, t)
	}
	return req
}

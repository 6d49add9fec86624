package testbroker

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
)

// Record is what Produce writes.
type Record = batch.Record

type topic struct {
	name       string
	id         [16]byte
	partitions []*partitionLog
}

type partitionLog struct {
	leader    int32
	replicas  []int32
	epoch     int32
	epochs    []epochStart // rising
	batches   []logBatch
	start     int64
	end       int64
	highWater int64           // -1: end
	open      map[int64]int64 // producer id -> first offset of its open transaction
	aborted   []abortedTxn
}

type epochStart struct {
	epoch int32
	start int64
}

type logBatch struct {
	first, last int64
	bytes       []byte
	maxTime     int64
	times       []offsetTime // of single records; nil for appended bytes
}

type offsetTime struct{ offset, millis int64 }

type abortedTxn struct{ producer, first, marker int64 }

// CreateTopic makes a topic. Partition p is led by the node with the id
// p mod nodes + 1, in leader epoch 0, and every node is an in-sync replica.
func (c *Cluster) CreateTopic(name string, partitions int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.topics[name] != nil {
		panic(fmt.Sprintf("testbroker: topic %q exists", name))
	}
	c.createTopicLocked(name, partitions)
}

func (c *Cluster) createTopicLocked(name string, partitions int32) *topic {
	t := &topic{name: name}
	t.id[0] = 0x7b
	binary.BigEndian.PutUint64(t.id[8:], c.nextIDLocked())
	c.topics[name] = t
	c.ids[t.id] = t
	c.growLocked(t, partitions)
	return t
}

func (c *Cluster) growLocked(t *topic, partitions int32) {
	for p := len(t.partitions); p < int(partitions); p++ {
		first := p % len(c.nodes)
		part := &partitionLog{leader: int32(first + 1), highWater: -1, open: map[int64]int64{}}
		for i := range c.nodes {
			part.replicas = append(part.replicas, int32((first+i)%len(c.nodes)+1))
		}
		t.partitions = append(t.partitions, part)
	}
	c.wakeLocked()
}

// AddPartitions grows a topic to so many partitions.
func (c *Cluster) AddPartitions(name string, partitions int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.growLocked(c.topicLocked(name), partitions)
}

// DeleteTopic removes a topic with its logs. Offsets committed for it stay, as
// they do in Kafka for a while; see DropCommitted. Creating it again gives it a
// new topic id.
func (c *Cluster) DeleteTopic(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topicLocked(name)
	delete(c.topics, name)
	delete(c.ids, t.id)
	c.wakeLocked()
}

// SetReplicas moves a partition to other nodes, of which the first becomes the leader.
func (c *Cluster) SetReplicas(name string, p int32, nodes ...int32) {
	c.change(name, p, func(log *partitionLog) {
		log.replicas, log.leader = nodes, nodes[0]
		log.enterEpoch(log.epoch + 1)
	})
}

// TopicID returns a topic's id.
func (c *Cluster) TopicID(name string) [16]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.topicLocked(name).id
}

func (c *Cluster) topicLocked(name string) *topic {
	t := c.topics[name]
	if t == nil {
		panic(fmt.Sprintf("testbroker: no topic %q", name))
	}
	return t
}

func (c *Cluster) change(name string, p int32, change func(*partitionLog)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.partitionLocked(name, p))
	c.wakeLocked()
}

func (c *Cluster) partitionLocked(name string, p int32) *partitionLog {
	t := c.topicLocked(name)
	if p < 0 || int(p) >= len(t.partitions) {
		panic(fmt.Sprintf("testbroker: topic %q has no partition %d", name, p))
	}
	return t.partitions[p]
}

// SetLeader makes another node the leader, in the next leader epoch. Node -1
// leaves the partition without one.
func (c *Cluster) SetLeader(topic string, partition, node int32) {
	c.change(topic, partition, func(p *partitionLog) {
		p.leader = node
		p.enterEpoch(p.epoch + 1)
	})
}

// SetLeaderEpoch sets the leader epoch, in which further batches are written.
func (c *Cluster) SetLeaderEpoch(topic string, partition, epoch int32) {
	c.change(topic, partition, func(p *partitionLog) { p.enterEpoch(epoch) })
}

// Leader returns a partition's leader and leader epoch.
func (c *Cluster) Leader(topic string, partition int32) (node, epoch int32) {
	c.change(topic, partition, func(p *partitionLog) { node, epoch = p.leader, p.epoch })
	return node, epoch
}

// SetHighWatermark sets up to where a partition can be read; -1 (the default)
// means to its end.
func (c *Cluster) SetHighWatermark(topic string, partition int32, offset int64) {
	c.change(topic, partition, func(p *partitionLog) { p.highWater = offset })
}

// SetLogStart removes what is before offset, as retention does. Only whole
// batches go; a start within a batch is kept as such.
func (c *Cluster) SetLogStart(topic string, partition int32, offset int64) {
	c.change(topic, partition, func(p *partitionLog) {
		p.start = offset
		p.end = max(p.end, offset)
		p.batches = slices.DeleteFunc(slices.Clone(p.batches), func(b logBatch) bool { return b.last < offset })
	})
}

// Truncate removes the batches that reach to offset or beyond, as an unclean
// leader election does.
func (c *Cluster) Truncate(topic string, partition int32, offset int64) {
	c.change(topic, partition, func(p *partitionLog) {
		p.batches = slices.DeleteFunc(slices.Clone(p.batches), func(b logBatch) bool { return b.last >= offset })
		p.end = min(p.end, offset)
		p.epochs = slices.DeleteFunc(slices.Clone(p.epochs), func(e epochStart) bool { return e.start >= p.end && e.epoch != p.epoch })
		if last := len(p.epochs) - 1; last >= 0 {
			p.epochs[last].start = min(p.epochs[last].start, p.end)
		}
		p.aborted = slices.DeleteFunc(slices.Clone(p.aborted), func(a abortedTxn) bool { return a.marker >= p.end })
		maps.DeleteFunc(p.open, func(_, first int64) bool { return first >= p.end })
	})
}

// EndOffset returns the offset that the next record will get.
func (c *Cluster) EndOffset(topic string, partition int32) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partitionLocked(topic, partition).end
}

// Produce writes records as one uncompressed v2 batch to the end of a partition
// and returns the offset of the first. A record without a timestamp gets the
// time of now.
func (c *Cluster) Produce(topic string, partition int32, records ...Record) int64 {
	return c.AppendBatch(topic, partition, batch.V2{Records: records})
}

// ProduceValues writes one record per value, without keys, as Produce does.
func (c *Cluster) ProduceValues(topic string, partition int32, values ...string) int64 {
	records := make([]Record, len(values))
	for i, v := range values {
		records[i].Value = []byte(v)
	}
	return c.Produce(topic, partition, records...)
}

// AppendBatch writes a batch to the end of a partition; its base offset and
// leader epoch become those of the log, and records without a timestamp get the
// time of now. It covers the offsets that its header tells, and in any case
// those of its records, so that a batch with a wrong header is found too. It
// returns the base offset.
func (c *Cluster) AppendBatch(topic string, partition int32, b batch.V2) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitionLocked(topic, partition)
	b.BaseOffset, b.LeaderEpoch = p.end, p.epoch
	b.Records = slices.Clone(b.Records)
	lb := logBatch{first: p.end, last: max(p.end, b.LastOffset()), maxTime: -1}
	for i, delta := range b.Deltas() {
		if b.Records[i].Timestamp.IsZero() {
			b.Records[i].Timestamp = time.Now()
		}
		millis := b.Records[i].Timestamp.UnixMilli()
		lb.maxTime = max(lb.maxTime, millis)
		lb.times = append(lb.times, offsetTime{p.end + delta, millis})
		lb.last = max(lb.last, p.end+delta)
	}
	lb.bytes = b.Bytes()
	p.append(lb)
	c.wakeLocked()
	return lb.first
}

// Append puts bytes as they are behind a partition's log, as one unit that a
// Fetch gives whole: a batch, a message set, or what a test wants to be read as
// such. It covers the offsets from the log's end to lastOffset. When the bytes
// look like a v2 batch, transactions and the leader epoch are followed. They are not
// copied, so that many partitions can share them.
func (c *Cluster) Append(topic string, partition int32, bytes []byte, lastOffset int64) {
	c.change(topic, partition, func(p *partitionLog) {
		lb := logBatch{first: p.end, last: lastOffset, bytes: bytes, maxTime: -1}
		if isV2(bytes) {
			lb.maxTime = int64(binary.BigEndian.Uint64(bytes[35:]))
		}
		p.append(lb)
	})
}

func isV2(b []byte) bool { return len(b) >= 61 && b[16] == 2 }

func (p *partitionLog) append(b logBatch) {
	p.batches = append(p.batches, b)
	p.end = max(p.end, b.last+1)
	epoch := p.epoch
	if isV2(b.bytes) {
		epoch = int32(binary.BigEndian.Uint32(b.bytes[12:]))
		p.followTransaction(b)
	}
	p.startEpoch(epoch, b.first)
}

// enterEpoch notes where a new leader's epoch begins, as it does before it writes.
func (p *partitionLog) enterEpoch(epoch int32) {
	p.epoch = epoch
	p.startEpoch(epoch, p.end)
}

func (p *partitionLog) startEpoch(epoch int32, offset int64) {
	if epoch >= 0 && (len(p.epochs) == 0 || epoch > p.epochs[len(p.epochs)-1].epoch) {
		p.epochs = append(p.epochs, epochStart{epoch, offset})
	}
}

const (
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
)

func (p *partitionLog) followTransaction(b logBatch) {
	attributes := binary.BigEndian.Uint16(b.bytes[21:])
	producer := int64(binary.BigEndian.Uint64(b.bytes[43:]))
	first, open := p.open[producer]
	switch {
	case attributes&attrControl != 0:
		commit, ok := controlType(b.bytes)
		if !ok || !open {
			return
		}
		if !commit {
			p.aborted = append(p.aborted, abortedTxn{producer, first, b.last})
		}
		delete(p.open, producer)
	case attributes&attrTransactional != 0 && !open:
		p.open[producer] = b.first
	}
}

// controlType reads the key of the first record of a control batch: length,
// attributes, two deltas, key length, then version and type.
func controlType(b []byte) (commit, ok bool) {
	b = b[61:]
	for _, fixed := range []int{0, 1, 0, 0, 0} {
		if fixed > 0 {
			b = b[min(fixed, len(b)):]
			continue
		}
		_, n := binary.Varint(b)
		if n <= 0 {
			return false, false
		}
		b = b[n:]
	}
	if len(b) < 4 {
		return false, false
	}
	kind := binary.BigEndian.Uint16(b[2:])
	return kind == 1, kind <= 1
}

func (p *partitionLog) highWatermark() int64 {
	if p.highWater >= 0 {
		return p.highWater
	}
	return p.end
}

// lastStable is the offset up to which read_committed reads.
func (p *partitionLog) lastStable() int64 {
	stable := p.highWatermark()
	for _, first := range p.open {
		stable = min(stable, first)
	}
	return stable
}

// endOfEpoch answers OffsetForLeaderEpoch: the largest known epoch that is not
// above the one asked for, and the offset at which the next one began.
func (p *partitionLog) endOfEpoch(epoch int32) (known int32, end int64) {
	if epoch == p.epoch {
		return epoch, p.end
	}
	if epoch > p.epoch {
		return -1, -1
	}
	known, end = -1, -1
	for i, e := range p.epochs {
		if e.epoch > epoch {
			if i == 0 {
				return epoch, e.start
			}
			return known, e.start
		}
		known = e.epoch
	}
	if known < 0 {
		return -1, -1
	}
	return known, p.end
}

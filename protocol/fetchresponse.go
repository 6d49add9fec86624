package protocol

// An AbortedTxn is a transaction of a producer that was aborted: its records
// from FirstOffset to the abort marker are not for read_committed consumers.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64
}

// An EpochEndOffset is a leader epoch and the offset behind its last record.
type EpochEndOffset struct {
	Epoch     int32
	EndOffset int64
}

// A LeaderIDEpoch is a partition's leader and its epoch, -1 each where not
// known.
type LeaderIDEpoch struct {
	ID    int32
	Epoch int32
}

// A NodeEndpoint is where a broker listens that a response names as a leader
// (KIP-951).
type NodeEndpoint struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   string // "" if it has none
}

// A FetchedPartition is what a Fetch response says of one partition besides
// its records. Fields that the version does not have are -1, nil or false.
type FetchedPartition struct {
	// Topic is the topic's name below v13, valid until the next Next.
	Topic []byte
	// TopicID is the topic's id from v13 on.
	TopicID   [16]byte
	Partition int32
	ErrorCode ErrorCode

	HighWatermark    int64
	LastStableOffset int64
	LogStartOffset   int64
	// Aborted is nil for a null list. It is valid until the next Next.
	Aborted              []AbortedTxn
	PreferredReadReplica int32
	// RecordBytes is the size of the records, 0 for none.
	RecordBytes int32

	// Diverging is set by EndPartition if HasDiverging is: where the log that
	// was fetched before parts from the leader's (KIP-595).
	Diverging    EpochEndOffset
	HasDiverging bool
	// CurrentLeader is set by EndPartition: the leader the broker knows, when
	// it is not the one (KIP-951).
	CurrentLeader LeaderIDEpoch
}

// A FetchResponse decodes a Fetch response while it arrives: Begin, then Next
// for each partition, its records by PeekBatch and ReadRecords, EndPartition
// for what stands behind them, and End. The zero value is ready, and may be
// used for one response after another; partitions cost no allocation. Errors
// are those of the Reader, and stay. It is not safe for concurrent use.
type FetchResponse struct {
	// ThrottleMillis is how long the broker throttled or, from v8 on, how
	// long the client has to leave the connection alone (KIP-219).
	ThrottleMillis int32
	// ErrorCode and SessionID are those of the fetch session (v7+).
	ErrorCode ErrorCode
	SessionID int32
	// NodeEndpoints is set by End (v16).
	NodeEndpoints []NodeEndpoint

	r        *Reader
	version  int16
	flexible bool

	topicsLeft  int
	partsLeft   int
	inTopic     bool // the tags of a topic are still to be read
	inPartition bool // the records or tags of a partition are still to be read
	recordsLeft int

	topic   []byte
	topicID [16]byte
	aborted []AbortedTxn
}

// Begin reads what stands before the partitions. The response header has been
// read.
func (p *FetchResponse) Begin(r *Reader, version int16) error {
	*p = FetchResponse{
		r: r, version: version, flexible: version >= fetchFlexible,
		NodeEndpoints: p.NodeEndpoints[:0], topic: p.topic, aborted: p.aborted,
	}
	r.SetAPI("Fetch")
	if version >= 1 {
		p.ThrottleMillis = r.Int32()
	}
	if version >= 7 {
		p.ErrorCode = ErrorCode(r.Int16())
		p.SessionID = r.Int32()
	}
	p.topicsLeft, _ = r.ArrayLen("topics", p.flexible, p.minTopicSize())
	return r.Err()
}

// Next goes to the next partition and reads all of it that stands before its
// records. It is false behind the last one. What is left of the partition
// before is passed over, so a caller that wants its diverging epoch or leader
// calls EndPartition first.
func (p *FetchResponse) Next(part *FetchedPartition) (bool, error) {
	if p.inPartition {
		if err := p.EndPartition(part); err != nil {
			return false, err
		}
	}
	for p.partsLeft == 0 {
		if !p.nextTopic() {
			return false, p.r.Err()
		}
	}
	p.partsLeft--
	p.readPartition(part)
	if err := p.r.Err(); err != nil {
		return false, err
	}
	p.inPartition = true
	return true, nil
}

// nextTopic ends the topic before and begins the next, if there is one.
func (p *FetchResponse) nextTopic() bool {
	r := p.r
	if p.inTopic && p.flexible {
		r.SkipTags()
	}
	p.inTopic = false
	if p.topicsLeft == 0 || r.Err() != nil {
		return false
	}
	p.topicsLeft--
	p.inTopic = true
	if p.version >= fetchTopicIDs {
		p.topicID = r.UUID()
	} else {
		var null bool
		if p.topic, null = r.String(p.flexible, p.topic); null {
			r.Fail("topic", "null")
		}
	}
	p.partsLeft, _ = r.ArrayLen("partitions", p.flexible, p.minPartitionSize())
	return r.Err() == nil
}

func (p *FetchResponse) readPartition(part *FetchedPartition) {
	r := p.r
	*part = FetchedPartition{
		LastStableOffset: -1, LogStartOffset: -1, PreferredReadReplica: -1,
		CurrentLeader: LeaderIDEpoch{-1, -1},
		TopicID:       p.topicID,
	}
	if p.version < fetchTopicIDs {
		part.Topic = p.topic
	}
	part.Partition = r.Int32()
	part.ErrorCode = ErrorCode(r.Int16())
	part.HighWatermark = r.Int64()
	if p.version >= 4 {
		part.LastStableOffset = r.Int64()
	}
	if p.version >= 5 {
		part.LogStartOffset = r.Int64()
	}
	if p.version >= 4 {
		part.Aborted = p.readAborted()
	}
	if p.version >= 11 {
		part.PreferredReadReplica = r.Int32()
	}
	p.recordsLeft = max(r.BytesLen("records", p.flexible), 0)
	part.RecordBytes = int32(p.recordsLeft)
}

// readAborted grows the list as it arrives, so that a count alone makes it
// allocate nothing.
func (p *FetchResponse) readAborted() []AbortedTxn {
	size := 16
	if p.flexible {
		size++
	}
	n, null := p.r.ArrayLen("aborted transactions", p.flexible, size)
	if null {
		return nil
	}
	if p.aborted == nil {
		p.aborted = make([]AbortedTxn, 0, 4) // an empty list is not a null one
	}
	p.aborted = p.aborted[:0]
	for ; n > 0 && p.r.Err() == nil; n-- {
		p.aborted = append(p.aborted, AbortedTxn{ProducerID: p.r.Int64(), FirstOffset: p.r.Int64()})
		if p.flexible {
			p.r.SkipTags()
		}
	}
	return p.aborted
}

// RecordsLeft returns how many bytes of the partition's records are not read
// yet.
func (p *FetchResponse) RecordsLeft() int { return p.recordsLeft }

// PeekBatch returns the next n bytes of the partition's records without
// consuming them: fewer at their end or where the Reader's buffer is smaller,
// none after an error. They are valid until the next call.
func (p *FetchResponse) PeekBatch(n int) []byte {
	return p.r.Peek(min(n, p.recordsLeft))
}

// ReadRecords fills dst with the next bytes of the partition's records. Asking
// for more than RecordsLeft is an error.
func (p *FetchResponse) ReadRecords(dst []byte) error {
	if len(dst) > p.recordsLeft {
		p.r.fail("records", "%d bytes asked for, %d are left", len(dst), p.recordsLeft)
		return p.r.Err()
	}
	p.recordsLeft -= len(dst)
	return p.r.ReadFull(dst)
}

// ReadRecordsAhead reads n bytes of the partition's records into dst and as many more
// of them as have come, up to what dst holds, and returns how many it read. It saves
// the way over the Reader's buffer where the next batch will be wanted in dst too.
func (p *FetchResponse) ReadRecordsAhead(dst []byte, n int) (int, error) {
	m, err := p.r.ReadAtLeast(dst[:min(len(dst), p.recordsLeft)], n)
	p.recordsLeft -= m
	return m, err
}

// EndPartition passes over the records that were not read and sets what stands
// behind them: part.Diverging and part.CurrentLeader. A second call changes
// nothing.
func (p *FetchResponse) EndPartition(part *FetchedPartition) error {
	if !p.inPartition {
		return p.r.Err()
	}
	p.inPartition = false
	r := p.r
	r.Discard(p.recordsLeft)
	p.recordsLeft = 0
	if !p.flexible {
		return r.Err()
	}
	for n := r.Uvarint(); n > 0 && r.Err() == nil; n-- {
		tag := r.nextTag()
		end := r.tagEnd()
		switch tag {
		case 0:
			part.Diverging = EpochEndOffset{Epoch: r.Int32(), EndOffset: r.Int64()}
			// A broker that sends the default, -1, means none.
			part.HasDiverging = part.Diverging.Epoch >= 0
			r.SkipTags()
		case 1:
			part.CurrentLeader = LeaderIDEpoch{ID: r.Int32(), Epoch: r.Int32()}
			r.SkipTags()
		}
		r.endTag(end)
	}
	return r.Err()
}

// End passes over the partitions that Next has not come to, and sets
// NodeEndpoints. Bytes behind the response's end are an error.
func (p *FetchResponse) End() error {
	var part FetchedPartition
	for more := true; more; {
		var err error
		if more, err = p.Next(&part); err != nil {
			return err
		}
	}
	r := p.r
	if p.flexible {
		for n := r.Uvarint(); n > 0 && r.Err() == nil; n-- {
			tag := r.nextTag()
			end := r.tagEnd()
			if tag == 0 && p.version >= fetchEndpoints {
				p.readEndpoints()
			}
			r.endTag(end)
		}
	}
	if left := r.Remaining(); left > 0 {
		r.fail("end", "%d bytes are left over", left)
	}
	return r.Err()
}

func (p *FetchResponse) readEndpoints() {
	const minSize = 4 + 1 + 4 + 1 + 1
	r := p.r
	n, _ := r.ArrayLen("node endpoints", true, minSize)
	p.NodeEndpoints = p.NodeEndpoints[:0]
	for ; n > 0 && r.Err() == nil; n-- {
		e := NodeEndpoint{NodeID: r.Int32()}
		host, null := r.String(true, nil)
		if null {
			r.Fail("host", "null")
		}
		e.Host = string(host)
		e.Port = r.Int32()
		rack, _ := r.String(true, nil)
		e.Rack = string(rack)
		r.SkipTags()
		p.NodeEndpoints = append(p.NodeEndpoints, e)
	}
}

// minTopicSize is the size of a topic with an empty name and no partitions.
func (p *FetchResponse) minTopicSize() int {
	switch {
	case p.version >= fetchTopicIDs:
		return 16 + 1 + 1
	case p.flexible:
		return 1 + 1 + 1
	}
	return 2 + 4
}

// minPartitionSize is the size of a partition with null lists and records.
func (p *FetchResponse) minPartitionSize() int {
	const fixed = 4 + 2 + 8 // partition, error, high watermark
	switch {
	case p.flexible:
		return fixed + 8 + 8 + 1 + 4 + 1 + 1
	case p.version >= 11:
		return fixed + 8 + 8 + 4 + 4 + 4
	case p.version >= 5:
		return fixed + 8 + 8 + 4 + 4
	case p.version >= 4:
		return fixed + 8 + 4 + 4
	}
	return fixed + 4
}

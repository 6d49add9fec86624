package fetch

import (
	"slices"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka/internal/metrics"
	"github.com/kafkaconsumer/kafka/protocol"
)

// Limits are what bounds a Table's requests and memory.
type Limits struct {
	FetchMaxBytes          int32
	MaxPartitionFetchBytes int32
	MaxBatchBytes          int
	MaxFrameBytes          int32 // of one answer: a partition's size grows up to it
	MaxBufferedBytes       int64
	ReadCommitted          bool
	SkipCRC                bool
	NoSessions             bool
	OldByChoice            bool          // a broker that is asked in an old version may be newer
	Policy                 func() Policy // where to start without a valid position
	ReplicaLease           time.Duration // how long to fetch from a follower before the leader is asked again
	Patience               time.Duration // how long nothing may come of a log that goes on; see LookForStalls
	Backoff                func(failures int) time.Duration
	TellAfter              time.Duration  // how long look-ups may fail until that is reported, and between reports
	Metrics                *metrics.Fetch // what is handed over is measured there; nil: nowhere
}

// A Table holds the assigned partitions. See the package documentation.
type Table struct {
	limits   Limits
	parts    map[protocol.TopicPartition]*Partition
	sessions map[int32]*Session

	newBrokers []int32
	endpoints  []protocol.NodeEndpoint // of the answer that is applied
	quiet      bool                    // the answer that is applied brought nothing, and no limit kept it from that
	version    int16                   // of the last Fetch request
	stirred    bool                    // something may be fetchable that was not
	moved      bool                    // a position moved since TakeMoved
	disturbed  bool                    // the live cut is not valid any more
	unlocated  bool                    // a position may be wanted that was not
	watching   bool                    // LookForStalls is called by itself
	unwatched  bool                    // LookForStalls is to be called

	now time.Time // of the last answer

	buffered int64 // bytes of all partitions' chunks and decoded segments
	reserved int64 // room promised to fetches under way
	decoding int64 // room promised to decodings under way

	decodeQueue queue[*Partition]
	readyParts  []*Partition // with something decoded, in the order of handing over
	handed      []*Partition // with records handed over since the application came back
	unmeasured  []*Partition // with records handed over since Measure
	live        Live
	faulty      []*Partition // that may be at fault
	paused      int          // number of paused partitions
	resting     []*Partition // that rest, or did
	starts      map[protocol.TopicPartition]start
	toldFailing time.Time // when it was last reported that look-ups fail

	reports []Report
}

// A Report is something that the application is told of: an error for Poll, or an
// event.
type Report struct {
	TP     protocol.TopicPartition
	Kind   ReportKind
	Err    error
	From   int64
	To     int64
	Reason string
	Since  time.Time // of a stall

	Leader   protocol.LeaderIDEpoch
	Endpoint *protocol.NodeEndpoint // where the leader listens, nil if that was not told
}

// A ReportKind says what a Report is about.
type ReportKind int8

// The kinds of reports.
const (
	ReportError         ReportKind = iota // an error for the next Poll
	ReportReset                           // a position was set anew
	ReportRecreated                       // a topic has a new id
	ReportStaleMetadata                   // metadata should be fetched again
	ReportLeader                          // a broker told of a newer leader (KIP-951)
	ReportStalled                         // records are known and do not come
	ReportResumed                         // a stall is over
	ReportRetrying                        // a position cannot be found for long
)

// NewTable returns an empty Table.
func NewTable(l Limits) *Table {
	return &Table{
		limits:   l,
		parts:    make(map[protocol.TopicPartition]*Partition),
		sessions: make(map[int32]*Session),
		starts:   make(map[protocol.TopicPartition]start),
	}
}

// Assign makes tps the assigned partitions. Those that stay keep everything; new
// ones start at the committed offset when byGroup, else by the policy. New ones
// are held until Release.
func (t *Table) Assign(tps []protocol.TopicPartition, byGroup bool) (added, removed []protocol.TopicPartition) {
	want := make(map[protocol.TopicPartition]bool, len(tps))
	for _, tp := range tps {
		want[tp] = true
	}
	for tp := range t.parts {
		if !want[tp] {
			removed = append(removed, tp)
		}
	}
	t.Remove(removed...)
	for _, tp := range tps {
		if t.parts[tp] != nil {
			continue
		}
		p := newPartition(tp)
		p.held = true
		p.decoder = protocol.Decoder{
			SkipCRC:       t.limits.SkipCRC,
			ReadCommitted: t.limits.ReadCommitted,
			MaxBatchBytes: t.limits.MaxBatchBytes,
		}
		p.size = t.limits.MaxPartitionFetchBytes
		if !byGroup {
			t.startReset(p, t.limits.Policy(), "no committed offset")
		}
		t.unlocated = true
		t.parts[tp] = p
		t.beginMeasuring(p)
		added = append(added, tp)
	}
	SortPartitions(added)
	SortPartitions(removed)
	return added, removed
}

// Remove forgets partitions: what was fetched of them is dropped and late answers
// find nothing.
func (t *Table) Remove(tps ...protocol.TopicPartition) {
	for _, tp := range tps {
		p := t.parts[tp]
		if p == nil {
			continue
		}
		t.syncLive()
		t.drop(p)
		p.voided++
		p.refetched++
		p.stage = stopped
		if p.paused {
			t.paused--
		}
		t.detach(p)
		delete(t.parts, tp)
		t.endMeasuring(p)
		t.handed = slices.DeleteFunc(t.handed, func(q *Partition) bool { return q == p })
	}
}

// Hold keeps records of the partitions from being fetched and handed over.
func (t *Table) Hold(tps ...protocol.TopicPartition) {
	t.syncLive()
	for _, tp := range tps {
		if p := t.parts[tp]; p != nil {
			p.held = true
			t.touch(p)
			t.updateReady(p)
		}
	}
}

// Release ends Hold.
func (t *Table) Release(tps ...protocol.TopicPartition) {
	for _, tp := range tps {
		if p := t.parts[tp]; p != nil {
			p.held = false
			t.touch(p)
			t.updateReady(p)
			t.queueDecode(p)
		}
	}
}

// Get returns an assigned partition, or nil.
func (t *Table) Get(tp protocol.TopicPartition) *Partition { return t.parts[tp] }

// Assigned returns the assigned partitions, sorted.
func (t *Table) Assigned() []protocol.TopicPartition {
	tps := make([]protocol.TopicPartition, 0, len(t.parts))
	for tp := range t.parts {
		tps = append(tps, tp)
	}
	SortPartitions(tps)
	return tps
}

// SetPaused pauses or resumes p. What was fetched of it stays.
func (t *Table) SetPaused(p *Partition, paused bool) {
	if p.paused == paused {
		return
	}
	t.syncLive()
	p.paused = paused
	if paused {
		t.paused++
	} else {
		t.paused--
	}
	p.tail.told = false
	t.touch(p)
	t.updateReady(p)
	t.queueDecode(p)
}

// Rest keeps the cut's partition from being fetched and handed over until Rouse, or until
// its position is set anew. Its next record is at end or behind it: the position moves
// there.
func (t *Table) Rest(c *Cut, end int64) {
	p := c.p
	if p.voided != c.voided || t.parts[p.tp] != p || p.resting {
		return
	}
	p.advance(end, -1, false)
	p.resting, t.moved = true, true
	t.resting = append(t.resting, p)
	t.touch(p)
	t.updateReady(p)
}

// Rouse ends Rest, for all partitions.
func (t *Table) Rouse() {
	for _, p := range t.resting {
		if p.resting {
			p.resting = false
			t.touch(p)
			t.updateReady(p)
			t.queueDecode(p)
		}
	}
	t.resting = nil
}

// Paused returns the paused partitions, sorted.
func (t *Table) Paused() []protocol.TopicPartition {
	var tps []protocol.TopicPartition
	for tp, p := range t.parts {
		if p.paused {
			tps = append(tps, tp)
		}
	}
	SortPartitions(tps)
	return tps
}

// Seek sets p's position. What was fetched is dropped, what is under way is void.
func (t *Table) Seek(p *Partition, offset int64, epoch int32) {
	t.syncLive()
	t.drop(p)
	t.void(p)
	t.setPosition(p, offset, epoch)
	p.resets = 0
	p.unchecked = epoch >= 0
}

// setPosition makes offset the position by the application's or a reset's doing.
func (t *Table) setPosition(p *Partition, offset int64, epoch int32) {
	p.setPosition(offset, epoch)
	t.touch(p)
	t.moved = true
}

// SeekByTime sets p's position to what a look-up by time finds, or an end of the
// log.
func (t *Table) SeekByTime(p *Partition, timestamp int64) {
	t.syncLive()
	t.drop(p)
	t.startReset(p, timestamp, "")
}

// startReset begins a look-up of the offset at timestamp. An empty reason means
// that the application asked for it.
func (t *Table) startReset(p *Partition, timestamp Policy, why string) {
	from := p.position
	t.void(p)
	p.refetched++
	p.retryAt, p.failures, p.lastErr = time.Time{}, 0, nil
	p.tail = tail{}
	p.resting = false
	p.resetTo, p.resetFrom, p.resetWhy = timestamp, from, why
	t.touch(p)
	if timestamp != PolicyNone {
		p.position = -1
		p.stage = needsReset
		return
	}
	p.stage = stopped
	t.setFault(p, &NoPositionError{OutOfRange: from >= 0, Offset: from})
}

// A NoPositionError says that a partition has no valid position and that the
// policy is PolicyNone.
type NoPositionError struct {
	OutOfRange bool
	Offset     int64 // the position that is out of range
}

func (e *NoPositionError) Error() string {
	if e.OutOfRange {
		return "offset out of range"
	}
	return "no committed offset"
}

// void keeps records that were taken from being handed over, and look-ups from being heeded.
func (t *Table) void(p *Partition) {
	p.voided++
	p.lookingUp, t.unlocated = false, true
	t.disturbed = t.disturbed || t.live.active && t.live.cut.p == p
}

// drop forgets everything fetched of p and not handed over.
func (t *Table) drop(p *Partition) {
	t.buffered -= p.bytes
	t.touch(p)
	p.bytes, p.ahead = 0, 0
	p.chunks.drop()
	p.dropped++
	for _, d := range p.decoded.all() {
		d.release()
	}
	p.decoded.drop()
	p.nextIndex = 0
	p.full = false
	t.updateReady(p)
}

// TakeStirred tells whether something may be fetchable now that was not when it was
// called last.
func (t *Table) TakeStirred() bool {
	s := t.stirred
	t.stirred = false
	return s
}

// TakeMoved tells whether a position was set, or moved, since it was called last.
func (t *Table) TakeMoved() bool {
	m := t.moved
	t.moved = false
	return m
}

// TakeDisturbed tells whether the live cut has become void since it was called last.
func (t *Table) TakeDisturbed() bool {
	d := t.disturbed
	t.disturbed = false
	return d
}

// TakeUnlocated tells whether WantCommitted or WantResets may return more than when
// it was called last.
func (t *Table) TakeUnlocated() bool {
	u := t.unlocated
	t.unlocated = false
	return u
}

// TakeReports returns what the application is to be told of and forgets it.
func (t *Table) TakeReports() []Report {
	r := t.reports
	t.reports = nil
	return r
}

// HasReports tells whether TakeReports would return anything.
func (t *Table) HasReports() bool { return len(t.reports) > 0 }

func (t *Table) report(r Report) { t.reports = append(t.reports, r) }

// SortPartitions sorts by topic and number.
func SortPartitions(tps []protocol.TopicPartition) {
	slices.SortFunc(tps, ComparePartitions)
}

// ComparePartitions orders by topic and number.
func ComparePartitions(a, b protocol.TopicPartition) int {
	if c := strings.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

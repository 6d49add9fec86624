package fetch

import (
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// A stage says what a partition needs before records of it can be fetched.
type stage int8

const (
	needsCommitted stage = iota // the group's committed offset is to be looked up
	needsReset                  // an offset is to be looked up by time, or the log's beginning or end
	ready                       // the position is known
	stopped                     // a fault: nothing is fetched until a seek
)

// Offsets that stand for an end of the log in ListOffsets requests.
const (
	TimeLatest   int64 = -1
	TimeEarliest int64 = -2
)

// Policy is where to start without a valid position: a timestamp in milliseconds,
// TimeLatest, TimeEarliest, or PolicyNone.
type Policy = int64

// PolicyNone makes the lack of a valid position an error.
const PolicyNone Policy = -100

// A Partition is one assigned partition. Its fields belong to its Table.
type Partition struct {
	tp      protocol.TopicPartition
	topicID [16]byte

	// voided changes when the position is set by anything but handing over
	// records. Cuts and look-ups of an older count are void.
	voided uint64
	// refetched changes when the fetch offset is set by anything but an answer.
	// Answers of an older count are void.
	refetched uint64
	// dropped changes when what was fetched and not decoded is dropped. Decoding of an
	// older count is void.
	dropped uint64

	stage     stage
	lookingUp bool // a committed offset or reset of the current voided count is under way
	resetTo   int64
	resetFrom int64 // the position that was reset, -1 if there was none
	resetWhy  string
	appeared  bool // created since subscribing: starts at its beginning (design: partitions that appear)
	retryAt   time.Time
	failures  int

	failingSince time.Time // when the failures in a row began
	resets       int       // in a row, with nothing read between
	lastErr      error     // why the current stage is not over
	position     int64
	posEpoch     int32 // leader epoch of the record before the position, -1
	done         int64 // what the application is finished with, -1 while unknown
	doneEpoch    int32
	handed       bool // records were handed over since the application last came back
	committed    int64

	leader      int32
	leaderEpoch int32
	follower    int32     // the replica that the leader says to fetch from (KIP-392), -1 for the leader itself
	followUntil time.Time // when the leader is to be asked again
	strayed     int       // followers in a row that failed
	source      int32     // the broker to fetch from, -1 if there is none
	home        *Session  // that broker's session
	member      *member   // p's place in it, nil while it has none
	onSide      *member   // p's place in a request beside the session's
	besideAt    time.Time // when it may be asked for there again
	besideEmpty int       // answers in a row there without records
	touched     bool      // on the session's dirty list

	fetchOffset int64
	fetchEpoch  int32   // leader epoch of the batch before the fetch offset, -1
	unchecked   bool    // the position came with an epoch that its leader did not confirm
	doubtful    bool    // the leader is to be asked whether its log is the one that was read
	waitDecode  bool    // nothing is asked for until everything is decoded
	uncertain   bool    // headers did not tell the offset behind what is decoded
	vacant      vacancy // offsets that seem to hold nothing; end is 0 for none
	suspect     vacancy // likewise, if a new session says so too
	paused      bool
	held        bool // being revoked or not yet handed to the application: neither fetched nor handed over
	resting     bool // an iteration came to its end in p: likewise, until it is over
	full        bool // holds more than its share; left out of requests until half is drained
	size        int32
	enlarged    bool // size was raised without knowing what is needed

	chunks      queue[chunk] // fetched, not decoded, in order
	decoding    bool
	queued      bool // in the decode queue
	decoder     protocol.Decoder
	decoded     queue[decoded] // to hand over, in order
	inReady     bool
	nextIndex   int   // in the first of decoded
	decodeAt    int64 // offset behind everything decoded
	decodeEpoch int32 // leader epoch of the batch before decodeAt, -1
	bytes       int64 // of chunks and decoded
	ahead       int64 // of decoded
	boundary    int64 // where the last batch that was decoded ended, -1
	retriedAt   int64 // a batch that was refetched because of a fault, -1

	tail tail      // what happens when everything decoded is handed over
	wait wait      // for records that are known
	came time.Time // when bytes of it came last

	highWatermark, lastStable, logStart int64     // -1: unknown
	toldAt                              time.Time // when an answer told these, but see Session.toldAt

	meter meter
}

// A tail is what ends the run of a partition's records.
type tail struct {
	kind   tailKind
	err    error // for tailFault
	told   bool  // the error was returned once
	offset int64 // for tailOutOfRange
}

type tailKind int8

const (
	tailNone tailKind = iota
	tailFault
	tailOutOfRange
)

// A decoded is a segment and what it counts for until its last record is handed
// over.
type decoded struct {
	*lease
	bytes int64
}

func newPartition(tp protocol.TopicPartition) *Partition {
	return &Partition{
		tp: tp, position: -1, posEpoch: -1, done: -1, doneEpoch: -1, committed: -1,
		leader: -1, leaderEpoch: -1, follower: -1, source: -1, fetchOffset: -1, fetchEpoch: -1, decodeEpoch: -1, retriedAt: -1, boundary: -1,
		highWatermark: -1, lastStable: -1, logStart: -1,
		meter: meter{lastStamp: -1},
	}
}

// TP returns which partition it is.
func (p *Partition) TP() protocol.TopicPartition { return p.tp }

// known tells whether the partition has a position.
func (p *Partition) known() bool { return p.position >= 0 }

// fetchable tells whether records of p may be asked for now.
func (p *Partition) fetchable(now time.Time) bool {
	return p.wanted() && p.onSide == nil && !p.doubtful && !p.waitDecode && !p.full && !now.Before(p.retryAt)
}

// wanted tells whether p takes part in fetching at all.
func (p *Partition) wanted() bool {
	return p.stage == ready && p.handsOut() && p.tail.kind == tailNone
}

// handsOut tells whether records of p may be handed over.
func (p *Partition) handsOut() bool { return !p.paused && !p.held && !p.resting }

// undecoded tells whether something fetched is not decoded yet.
func (p *Partition) undecoded() bool { return p.chunks.len() > 0 || p.decoding }

// drained tells whether everything decoded was handed over and nothing waits to be
// decoded.
func (p *Partition) drained() bool {
	return p.decoded.len() == 0 && !p.undecoded()
}

// setPosition makes offset the position by the application's or a reset's doing.
func (p *Partition) setPosition(offset int64, epoch int32) {
	p.position, p.posEpoch = offset, epoch
	p.done, p.doneEpoch = offset, epoch
	p.handed = false
	p.stage = ready
	p.meter.lastStamp = -1
	p.tail, p.resting = tail{}, false
	p.retryAt, p.failures, p.lastErr = time.Time{}, 0, nil
	p.retriedAt, p.boundary = -1, -1
	p.unchecked, p.doubtful = false, false
	p.refetchFrom(offset, epoch)
}

// refetchFrom voids fetches under way and continues at offset.
func (p *Partition) refetchFrom(offset int64, epoch int32) {
	p.refetched++
	p.besideAt, p.besideEmpty = time.Time{}, 0
	p.fetchOffset, p.fetchEpoch = offset, epoch
	p.decodeAt, p.decodeEpoch = offset, epoch
	p.waitDecode, p.uncertain = false, false
	if !p.decoding { // else DecodeDone does it
		p.decoder.Reset()
	}
}

// advance moves the position over records that were handed over, or over offsets
// that hold nothing visible.
func (p *Partition) advance(offset int64, epoch int32, handed bool) {
	if offset <= p.position {
		return
	}
	p.position, p.posEpoch = offset, epoch
	if handed {
		p.handed = true
	}
	if !p.handed {
		p.done, p.doneEpoch = p.position, p.posEpoch
	}
}

// cameBack marks what was handed over as done.
func (p *Partition) cameBack() {
	p.handed = false
	p.done, p.doneEpoch = p.position, p.posEpoch
}

// end returns the end of what this consumer may read: the high watermark, or the
// last stable offset under read_committed; -1 when unknown.
func (p *Partition) end(readCommitted bool) int64 {
	if readCommitted && p.lastStable >= 0 {
		return p.lastStable
	}
	return p.highWatermark
}

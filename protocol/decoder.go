package protocol

import (
	"math"
)

const (
	defaultMaxBatchBytes = 256 << 20
	// maxDataBytes keeps positions in a segment's data within 32 bits.
	maxDataBytes = math.MaxInt32
)

// A Decoder decodes the record batches of one partition, in order. Its zero
// value checks CRCs, reads uncommitted records and allows batches of 256 MiB.
// It is not safe for concurrent use.
type Decoder struct {
	// SkipCRC leaves the checksums of batches and messages unchecked.
	SkipCRC bool
	// ReadCommitted leaves out records of aborted transactions.
	ReadCommitted bool
	// MaxBatchBytes bounds a batch: its size on the wire, and its
	// decompressed records with their index. Zero or less means 256 MiB; it
	// is at most 2 GiB - 1.
	MaxBatchBytes int

	txn txnFilter
}

// BeginAnswer tells the transactions aborted in the answer whose batches come
// next. The list is copied. A broker lists every aborted transaction that
// reaches into an answer, so nothing is left of the list before.
func (d *Decoder) BeginAnswer(aborted []AbortedTxn) { d.txn.begin(aborted) }

// Reset forgets the state of all producers, for use after batches were
// dropped.
func (d *Decoder) Reset() { d.txn.begin(nil) }

func (d *Decoder) maxBatchBytes() int {
	if d.MaxBatchBytes <= 0 {
		return defaultMaxBatchBytes
	}
	return min(d.MaxBatchBytes, maxDataBytes)
}

// Decode decodes whole batches from the front of src until limit bytes are
// decoded or src ends; one batch is decoded whatever the limit. n is how many
// bytes of src that took: less than a whole batch at the end is left alone,
// and if nothing else is there seg is nil and n is 0.
//
// Records of uncompressed batches alias src; compressed batches have bytes of
// their own, and nothing of src is referred to afterwards. A segment holds
// one or the other kind, and offsets in order; Decode stops where that ends. A
// segment without records still tells its NextOffset.
//
// A non-nil error is a *BatchError about the batch at src[n:], of which no
// record is given; seg then holds the records before it, or is nil.
func (d *Decoder) Decode(src []byte, limit int) (seg *Segment, n int, err error) {
	b := newBuilder(src, limit)
	defer b.recycle()
	err = d.fill(b)
	if b.at == 0 {
		return nil, 0, err
	}
	return b.segment(), b.at, err
}

// A verdict says what became of a batch.
type verdict int8

const (
	stop verdict = iota // not taken in: it is for the next segment, or faulty
	pass                // done, without records
	take                // its records are in the index
)

// fill decodes batches into b and leaves b.at behind the last one done.
func (d *Decoder) fill(b *builder) error {
	var h BatchHeader
	for len(b.src)-b.at >= MinBatchPeek && b.rest.left == 0 {
		if err := h.Parse(b.src[b.at:]); err != nil {
			return err
		}
		if h.Size > d.maxBatchBytes() {
			return &BatchError{BaseOffset: h.BaseOffset, Next: h.NextOffset, Err: tooLarge(d.maxBatchBytes())}
		}
		if h.Size > len(b.src)-b.at || b.full(h.Size) {
			return nil
		}
		v, err := d.decode(b, &h)
		if err != nil {
			return &BatchError{BaseOffset: h.BaseOffset, Next: h.NextOffset, Err: err}
		}
		if v == stop {
			return nil
		}
		b.at += h.Size
	}
	return nil
}

// decode decodes the batch at b.at and leaves b as it was unless it took it.
func (d *Decoder) decode(b *builder, h *BatchHeader) (v verdict, err error) {
	records, data, runs := len(b.index), len(b.data), len(b.runs)
	raw := b.src[b.at : b.at+h.Size]
	if h.Magic < 2 {
		v, err = d.decodeMessage(b, raw, h)
	} else {
		v, err = d.decodeV2(b, raw, h)
	}
	if err != nil {
		v = stop
	}
	if v == stop {
		b.index, b.runs, b.rest = b.index[:records], b.runs[:runs], pending{}
	}
	if v != take {
		b.data = b.data[:data]
		if v == stop {
			return v, err
		}
	} else if h.Compressed {
		b.kind = compressedRecords
		b.bytes += len(b.data) - data
	} else {
		b.kind = plainRecords
		b.bytes += h.Size
		if h.Magic == 2 {
			b.bytes -= v2RecordsAt
		}
	}
	b.next, b.epoch = h.NextOffset, max(b.epoch, h.LeaderEpoch) // older formats have none
	return v, nil
}

type recordsKind int8

const (
	noRecords recordsKind = iota
	plainRecords
	compressedRecords
)

// A builder collects what becomes a segment. Builders are pooled: data is scratch space,
// of which a segment gets an exact copy.
type builder struct {
	src   []byte
	limit int
	at    int    // the current batch in src
	data  []byte // decompressed records
	index []entry
	runs  []run
	kind  recordsKind
	next  int64
	epoch int32
	bytes int // of the records, uncompressed
	rest  pending

	piece *piece      // where data came from if not from the builder's own
	held  *indexPiece // where index comes from
}

// full says whether limit leaves no room for the batch at b.at.
func (b *builder) full(size int) bool {
	if b.kind == compressedRecords {
		return len(b.data) >= min(b.limit, maxDataBytes)
	}
	return b.at > 0 && size > min(b.limit, maxDataBytes)-b.at
}

// admits says whether the segment can take a batch of count records: it must
// not mix compressed and plain ones, index too many or go back.
func (b *builder) admits(compressed bool, count int, offset int64) bool {
	if b.kind == noRecords {
		return true
	}
	return (b.kind == compressedRecords) == compressed &&
		len(b.index)+count <= maxIndexedRecords && offset >= b.next
}

// run returns the number of the run for a batch's records, and what to add to
// its offset deltas. Batches alike share a run.
func (b *builder) run(first, last int64, epoch int32, magic int8, stamps TimestampType) (uint16, uint32) {
	if n := len(b.runs); n > 0 {
		r := &b.runs[n-1]
		if r.epoch == epoch && r.magic == magic && r.stamps == stamps && first >= r.base && last-r.base <= math.MaxUint32 {
			return uint16(n - 1), uint32(first - r.base)
		}
	}
	b.runs = append(b.runs, run{base: first, epoch: epoch, magic: magic, stamps: stamps})
	return uint16(len(b.runs) - 1), 0
}

// extend makes room for n more entries and returns it, to be filled.
func (b *builder) extend(n int) []entry {
	have := len(b.index)
	if cap(b.index)-have < n {
		b.growIndex(max(have+n, min(2*have, maxIndexedRecords)))
	}
	b.index = b.index[:have+n]
	return b.index[have:]
}

// reserve makes room for the entries of batches like this one, n each and with size of
// the limit's bytes, as far as source and limit go: growing with each of them would copy
// the index again and again.
func (b *builder) reserve(n, size int, h *BatchHeader) {
	if cap(b.index)-len(b.index) >= n {
		return
	}
	batches := (len(b.src) - b.at) / h.Size
	if h.Compressed {
		batches = min(batches, b.limit/size+1)
	} else {
		batches = min(batches, (b.limit-b.at)/size)
	}
	b.growIndex(len(b.index) + max(n, min(n*max(batches, 1), maxIndexedRecords-len(b.index))))
}

func (b *builder) growIndex(n int) {
	p := newIndexPiece(n)
	copy(p.index, b.index)
	if b.held != nil {
		b.held.release()
	}
	b.held, b.index = p, p.index[:len(b.index)]
}

// inflate decompresses a batch's records behind those of earlier batches and
// returns where they start.
func (b *builder) inflate(codec Codec, records []byte, magic int8, budget int) (start int, err error) {
	b.borrowData()
	start = len(b.data)
	out, err := decompress(codec, b.data, records, magic, budget)
	if err != nil {
		return 0, err
	}
	b.data = out
	return start, nil
}

// segment makes the segment of what was collected.
func (b *builder) segment() *Segment {
	s := &Segment{next: b.next, epoch: b.epoch, bytes: b.bytes}
	if len(b.index) == 0 {
		return s
	}
	s.runs = s.only[:]
	if len(b.runs) > 1 {
		s.runs = make([]run, len(b.runs))
	}
	copy(s.runs, b.runs)
	if b.kind == compressedRecords {
		s.own = b.takeData()
		s.data = s.own.b
	} else {
		s.data = b.src[:b.at:b.at]
	}
	s.held = b.takeIndex()
	s.index = s.held.index
	if b.rest.left > 0 {
		s.rest = b.rest
		s.rest.walk.data, s.rest.set.data = nil, nil
		s.rest.run = b.runs[s.index[len(s.index)-1].run]
		s.next = s.Offset(s.Len()-1) + 1
	}
	return s
}

// pending is the part of a large batch that is checked but not indexed yet.
type pending struct {
	left   int
	next   int64 // offset after the batch
	run    run
	legacy bool
	walk   recordWalk
	set    setWalk // instead of walk if legacy
}

// advance indexes the next records, as many as index has room for.
func (p *pending) advance(data []byte, index []entry) {
	p.left -= len(index)
	if p.legacy {
		p.set.data, p.set.run = data, 0
		p.set.index(index)
		p.set.data = nil
		return
	}
	p.walk.data, p.walk.run = data, 0
	_ = p.walk.index(index) // was checked when the batch was decoded
	p.walk.data = nil
}

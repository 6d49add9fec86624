package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Sentinels that a BatchError unwraps to. They tell what a caller can do:
// a corrupt batch may be sound when fetched again; a batch that is too large
// or written with an unknown codec will be the same the next time.
var (
	// ErrCorrupt is the error of bytes that break the record format.
	ErrCorrupt = errors.New("corrupt record batch")
	// ErrTooLarge is the error of a batch that would need more memory than
	// Decoder.MaxBatchBytes.
	ErrTooLarge = errors.New("record batch too large")
	// ErrCodec is the error of a batch compressed in a way that its format
	// does not know.
	ErrCodec = errors.New("unsupported compression of record batch")
)

// A BatchError says that the batch at BaseOffset cannot be decoded. It
// unwraps to ErrCorrupt, ErrTooLarge or ErrCodec.
type BatchError struct {
	// BaseOffset is the first offset of the batch as its header says; for a
	// compressed message set of the old formats it is the offset of the last
	// message.
	BaseOffset int64
	// Next is the offset after the batch, or -1 if the header cannot tell.
	Next int64
	// Err is what is wrong.
	Err error
}

// Error implements error.
func (e *BatchError) Error() string {
	return fmt.Sprintf("batch at offset %d: %v", e.BaseOffset, e.Err)
}

// Unwrap returns what is wrong with the batch.
func (e *BatchError) Unwrap() error { return e.Err }

// NextOffset returns the offset after the batch, and whether it is known. One
// seeks there to leave the batch out.
func (e *BatchError) NextOffset() (int64, bool) { return e.Next, e.Next >= 0 }

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

const (
	// MinBatchPeek is how many bytes of a batch tell its length and format.
	MinBatchPeek = 17
	// BatchPeek is how many bytes of a batch tell all of BatchHeader.
	BatchPeek = 57
)

// Where the fields of a v2 batch stand.
const (
	sizeEnd        = 12 // base offset and length, in every format
	magicAt        = 16
	v2CRCAt        = 17
	v2AttributesAt = 21
	v2LastDeltaAt  = 23
	v2BaseStampAt  = 27
	v2MaxStampAt   = 35
	v2ProducerAt   = 43
	v2CountAt      = 57
	v2RecordsAt    = 61
)

// Bits of the attributes of a batch; the old formats know the first two.
const (
	codecMask         = 0x07
	logAppendTimeBit  = 0x08
	transactionalBit  = 0x10
	controlBit        = 0x20
	minRecordSize     = 7 // every field of a record in one byte
	maxIndexedRecords = 1 << 16
)

// A BatchHeader is what the first bytes of a batch tell about it, before its
// checksum is checked. A message of the formats v0 and v1, a plain one or a
// compressed set, is a batch too.
type BatchHeader struct {
	// BaseOffset is the first offset of the batch. Of a compressed set of the
	// old formats it is the offset of its last message.
	BaseOffset int64
	// NextOffset is the offset after the last one of the batch, or -1 if the
	// header cannot tell: old releases of librdkafka left 0 as the offset of
	// a compressed set, and a peek may be too short.
	NextOffset int64
	// Size is the length of the whole batch in bytes, offset and length
	// fields included.
	Size int
	// LeaderEpoch is the epoch of the leader that appended the batch, or -1
	// below v2.
	LeaderEpoch int32
	// Magic is the format: 0, 1 or 2.
	Magic int8
	// Compressed, Control and Transactional are attributes of the batch.
	Compressed, Control, Transactional bool
	// ProducerID is the idempotent or transactional producer, or -1.
	ProducerID int64
}

// ParseBatchHeader reads the header of the batch that b begins with. It needs
// MinBatchPeek bytes, which tell BaseOffset, Size and Magic; the rest is set
// when b holds BatchPeek bytes (18 below v2) and else is -1 or false. The error
// is a *BatchError for a size, magic or offset that no batch can have.
func ParseBatchHeader(b []byte) (h BatchHeader, err error) {
	err = h.Parse(b)
	return h, err
}

// Parse is ParseBatchHeader for a header that is used again.
func (h *BatchHeader) Parse(b []byte) error {
	*h = BatchHeader{NextOffset: -1, LeaderEpoch: -1, ProducerID: -1}
	if len(b) < MinBatchPeek {
		return &BatchError{BaseOffset: -1, Next: -1, Err: corrupt("header cut after %d bytes", len(b))}
	}
	h.BaseOffset = int64(binary.BigEndian.Uint64(b))
	length := int32(binary.BigEndian.Uint32(b[8:]))
	h.Magic = int8(b[magicAt])
	smallest := int32(v2RecordsAt - sizeEnd)
	switch h.Magic {
	case 0:
		smallest = minMessageV0
	case 1:
		smallest = minMessageV1
	case 2:
	default:
		return headerError(h, "unknown magic %d", h.Magic)
	}
	if length < smallest || length > math.MaxInt32-sizeEnd {
		return headerError(h, "length %d", length)
	}
	if h.BaseOffset < 0 || h.BaseOffset == math.MaxInt64 {
		return headerError(h, "offset %d", h.BaseOffset)
	}
	h.Size = int(length) + sizeEnd
	if h.Magic < 2 {
		parseMessageHeader(h, b)
		return nil
	}
	if len(b) < BatchPeek {
		return nil
	}
	return parseV2Header(h, b)
}

func parseV2Header(h *BatchHeader, b []byte) error {
	_ = b[BatchPeek-1]
	h.LeaderEpoch = int32(binary.BigEndian.Uint32(b[sizeEnd:]))
	attributes := b[v2AttributesAt+1]
	h.Compressed = attributes&codecMask != 0
	h.Control = attributes&controlBit != 0
	h.Transactional = attributes&transactionalBit != 0
	h.ProducerID = int64(binary.BigEndian.Uint64(b[v2ProducerAt:]))
	lastDelta := int32(binary.BigEndian.Uint32(b[v2LastDeltaAt:]))
	if lastDelta < 0 {
		return headerError(h, "last offset delta %d", lastDelta)
	}
	if h.BaseOffset > math.MaxInt64-1-int64(lastDelta) {
		return headerError(h, "offset %d", h.BaseOffset)
	}
	h.NextOffset = h.BaseOffset + int64(lastDelta) + 1
	return nil
}

func headerError(h *BatchHeader, format string, args ...any) error {
	return &BatchError{BaseOffset: h.BaseOffset, Next: -1, Err: corrupt(format, args...)}
}

// decodeV2 checks and indexes the v2 batch raw, which begins at b.at.
func (d *Decoder) decodeV2(b *builder, raw []byte, h *BatchHeader) (verdict, error) {
	if !d.SkipCRC {
		want := binary.BigEndian.Uint32(raw[v2CRCAt:])
		if got := crc32C(raw[v2AttributesAt:]); got != want {
			return stop, corrupt("crc32c is %08x, should be %08x", got, want)
		}
	}
	aborted := d.ReadCommitted && d.txn.aborts(h)
	if aborted && !h.Control {
		return pass, nil
	}
	count := int(int32(binary.BigEndian.Uint32(raw[v2CountAt:])))
	if count < 0 {
		return stop, corrupt("record count %d", count)
	}
	if count > 0 && !h.Control && !b.admits(h.Compressed, count, h.BaseOffset) {
		return stop, nil
	}
	data, start, end := b.src, b.at+v2RecordsAt, b.at+h.Size
	if h.Compressed && start < end {
		codec := Codec(raw[v2AttributesAt+1] & codecMask)
		var err error
		if start, err = b.inflate(codec, raw[v2RecordsAt:], h.Magic, d.maxBatchBytes()); err != nil {
			return stop, err
		}
		data, end = b.data, len(b.data)
	}
	if count > (end-start)/minRecordSize {
		return stop, corrupt("%d records in %d bytes", count, end-start)
	}
	if end-start+min(count, maxIndexedRecords)*entrySize > d.maxBatchBytes() {
		return stop, tooLarge(d.maxBatchBytes())
	}
	w := recordWalk{data: data, pos: start, end: end, base: h.BaseOffset, last: int64(h.NextOffset - h.BaseOffset - 1)}
	w.stamp = int64(binary.BigEndian.Uint64(raw[v2BaseStampAt:]))
	w.appendTime = raw[v2AttributesAt+1]&logAppendTimeBit != 0
	if w.appendTime {
		w.stamp = int64(binary.BigEndian.Uint64(raw[v2MaxStampAt:]))
	}
	if h.Control {
		return pass, d.control(&w, h, count)
	}
	return b.indexV2(&w, h, count)
}

// indexV2 indexes count records, and checks those beyond the index.
func (b *builder) indexV2(w *recordWalk, h *BatchHeader, count int) (verdict, error) {
	if count == 0 {
		return pass, w.finish()
	}
	stamps := CreateTime
	if w.appendTime {
		stamps = LogAppendTime
	}
	w.enter(b.run(h.BaseOffset, h.NextOffset-1, h.LeaderEpoch, h.Magic, stamps))
	indexed := min(count, maxIndexedRecords-len(b.index))
	size := h.Size
	if h.Compressed {
		size = w.end - w.pos
	}
	b.reserve(indexed, size, h)
	if err := w.index(b.extend(indexed)); err != nil {
		return stop, err
	}
	if left := count - indexed; left > 0 {
		b.rest = pending{left: left, walk: *w, next: h.NextOffset}
		if err := w.check(left); err != nil {
			return stop, err
		}
	}
	return take, w.finish()
}

package protocol

import (
	"encoding/binary"
	"math"
)

// Where the fields of messages v0 and v1 stand, offset and length included.
const (
	messageCRCAt        = 12
	messageAttributesAt = 17
	messageStampAt      = 18 // v1 only
	messageKeyAtV0      = 18 // the key's length
	messageKeyAtV1      = 26

	minMessageV0 = 14 // without offset and length
	minMessageV1 = 22

	// From the CRC to the first byte of the key.
	keyAfterCRCV0 = messageKeyAtV0 + 4 - messageCRCAt
	keyAfterCRCV1 = messageKeyAtV1 + 4 - messageCRCAt
)

func parseMessageHeader(h *BatchHeader, b []byte) {
	if len(b) <= messageAttributesAt {
		return
	}
	h.Compressed = b[messageAttributesAt]&codecMask != 0
	if !h.Compressed || h.BaseOffset > 0 {
		h.NextOffset = h.BaseOffset + 1
	}
}

// parseMessage finds key and value of the message raw, which is whole; at is
// where it lies in the data. The entry lacks what depends on the run.
func parseMessage(raw []byte, at int, magic int8) (entry, error) {
	e := entry{}
	e.timestamp, _ = messageStamp(raw, magic)
	pos := messageKeyAtV0
	if magic == 1 {
		pos = messageKeyAtV1
	}
	e.keyLen = int32(binary.BigEndian.Uint32(raw[pos:]))
	pos += 4
	if e.keyLen < -1 || int(e.keyLen) > len(raw)-pos-4 {
		return e, corrupt("key of %d bytes in a message of %d", e.keyLen, len(raw))
	}
	e.key = uint32(at + pos)
	pos += int(max(e.keyLen, 0))
	e.valueLen = int32(binary.BigEndian.Uint32(raw[pos:]))
	pos += 4
	if e.valueLen < -1 || int(max(e.valueLen, 0)) != len(raw)-pos {
		return e, corrupt("value of %d bytes in a message of %d", e.valueLen, len(raw))
	}
	e.value = uint32(at + pos)
	return e, nil
}

func checkMessageCRC(raw []byte) error {
	want := binary.BigEndian.Uint32(raw[messageCRCAt:])
	if got := crc32IEEE(raw[magicAt:]); got != want {
		return corrupt("crc32 is %08x, should be %08x", got, want)
	}
	return nil
}

// decodeMessage checks and indexes the message raw, which begins at b.at: a
// plain one, or the wrapper of a compressed set.
func (d *Decoder) decodeMessage(b *builder, raw []byte, h *BatchHeader) (verdict, error) {
	if !d.SkipCRC {
		if err := checkMessageCRC(raw); err != nil {
			return stop, err
		}
	}
	e, err := parseMessage(raw, b.at, h.Magic)
	if err != nil {
		return stop, err
	}
	if h.Compressed {
		return d.decodeSet(b, raw, h, raw[len(raw)-int(max(e.valueLen, 0)):], e.valueLen < 0)
	}
	if !b.admits(false, 1, h.BaseOffset) {
		return stop, nil
	}
	_, stamps := messageStamp(raw, h.Magic)
	e.run, e.offsetDelta = b.run(h.BaseOffset, h.BaseOffset, -1, h.Magic, stamps)
	b.reserve(1, h.Size, h)
	b.extend(1)[0] = e
	return take, nil
}

// decodeSet checks and indexes the messages inside a wrapper.
func (d *Decoder) decodeSet(b *builder, raw []byte, h *BatchHeader, value []byte, null bool) (verdict, error) {
	if null {
		return stop, corrupt("compressed message without a value")
	}
	if b.kind == plainRecords {
		return stop, nil
	}
	codec := Codec(raw[messageAttributesAt] & codecMask)
	start, err := b.inflate(codec, value, h.Magic, d.maxBatchBytes())
	if err != nil {
		return stop, err
	}
	w := setWalk{data: b.data, pos: start, magic: h.Magic}
	stamp, stamps := messageStamp(raw, h.Magic)
	w.stamp, w.appendTime = stamp, stamps == LogAppendTime
	first := w
	count, last, err := w.check(!d.SkipCRC)
	if err != nil {
		return stop, err
	}
	if len(b.data)-start+min(count, maxIndexedRecords)*entrySize > d.maxBatchBytes() {
		return stop, tooLarge(d.maxBatchBytes())
	}
	base, err := setBase(h, last)
	if err != nil {
		return stop, err
	}
	firstOffset := base + int64(binary.BigEndian.Uint64(b.data[start:]))
	if last-int64(binary.BigEndian.Uint64(b.data[start:])) > math.MaxUint32 {
		return stop, corrupt("offsets %d to %d in one message set", firstOffset, base+last)
	}
	if !b.admits(true, count, firstOffset) {
		return stop, nil
	}
	h.NextOffset = max(h.BaseOffset, base+last) + 1
	var delta uint32
	first.run, delta = b.run(firstOffset, base+last, -1, h.Magic, stamps)
	first.base = firstOffset - base - int64(delta)
	indexed := min(count, maxIndexedRecords-len(b.index))
	first.index(b.extend(indexed))
	if left := count - indexed; left > 0 {
		b.rest = pending{left: left, legacy: true, set: first, next: h.NextOffset}
	}
	return take, nil
}

// setBase returns what to add to the offsets inside a wrapper, the greatest of
// which is last. They are absolute in v0. In v1 they are relative, and the
// wrapper has the offset of the last message, whatever was compacted away
// before it. Old releases of librdkafka left 0 in the wrapper.
func setBase(h *BatchHeader, last int64) (int64, error) {
	if h.Magic == 0 || h.BaseOffset == 0 {
		return 0, nil
	}
	if h.BaseOffset < last {
		return 0, corrupt("message set has offset %d, its last message %d", h.BaseOffset, last)
	}
	return h.BaseOffset - last, nil
}

// A setWalk goes through the messages inside a wrapper.
type setWalk struct {
	data       []byte // ends with the set
	pos        int
	base       int64 // offset inside the set that the run's offset deltas count from
	stamp      int64 // of the wrapper, for all messages if appendTime
	appendTime bool
	magic      int8
	run        uint16
}

// check goes through the whole set and returns the number of messages and the
// offset of the last one.
func (w *setWalk) check(crc bool) (count int, last int64, err error) {
	smallest := minMessageV0
	if w.magic == 1 {
		smallest = minMessageV1
	}
	for w.pos < len(w.data) {
		rest := w.data[w.pos:]
		if len(rest) < sizeEnd+smallest {
			return 0, 0, corrupt("%d bytes behind the last message of a set", len(rest))
		}
		size := int(int32(binary.BigEndian.Uint32(rest[8:])))
		if size < smallest || size > len(rest)-sizeEnd {
			return 0, 0, corrupt("message of %d bytes in a set with %d left", size, len(rest)-sizeEnd)
		}
		raw := rest[:sizeEnd+size]
		offset := int64(binary.BigEndian.Uint64(raw))
		if offset < last || offset == math.MaxInt64 {
			return 0, 0, corrupt("message with offset %d behind %d in a set", offset, last)
		}
		if err := w.checkMessage(raw, crc); err != nil {
			return 0, 0, err
		}
		last = offset
		count++
		w.pos += len(raw)
	}
	if count == 0 {
		return 0, 0, corrupt("empty compressed message set")
	}
	return count, last, nil
}

func (w *setWalk) checkMessage(raw []byte, crc bool) error {
	if magic := int8(raw[magicAt]); magic != w.magic {
		return corrupt("message of magic %d in a set of magic %d", magic, w.magic)
	}
	if raw[messageAttributesAt]&codecMask != 0 {
		return corrupt("compressed message in a compressed set")
	}
	if crc {
		if err := checkMessageCRC(raw); err != nil {
			return err
		}
	}
	_, err := parseMessage(raw, 0, w.magic)
	return err
}

// index fills out with the next messages of a set that was checked.
func (w *setWalk) index(out []entry) {
	for i := range out {
		rest := w.data[w.pos:]
		raw := rest[:sizeEnd+int(binary.BigEndian.Uint32(rest[8:]))]
		e, _ := parseMessage(raw, w.pos, w.magic)
		e.offsetDelta = uint32(int64(binary.BigEndian.Uint64(raw)) - w.base)
		e.run = w.run
		if w.appendTime {
			e.timestamp = w.stamp
		}
		out[i] = e
		w.pos += len(raw)
	}
}

// messageStamp returns the timestamp of a message, or -1, and its type.
func messageStamp(raw []byte, magic int8) (int64, TimestampType) {
	if magic == 0 {
		return -1, NoTimestamp
	}
	stamp := int64(binary.BigEndian.Uint64(raw[messageStampAt:]))
	if raw[messageAttributesAt]&logAppendTimeBit != 0 {
		return stamp, LogAppendTime
	}
	return stamp, CreateTime
}

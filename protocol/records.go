package protocol

import "encoding/binary"

// A recordWalk goes through the records of a v2 batch.
type recordWalk struct {
	data       []byte // may go on behind end
	pos, end   int
	base       int64 // offset that deltas count from, for messages of errors
	last       int64 // greatest offset delta of the batch
	prev       int64 // offset delta of the record before
	stamp      int64 // what timestamp deltas count from, or everyone's timestamp
	appendTime bool
	run        uint16
	offset     uint32 // added to offset deltas
}

func (w *recordWalk) enter(run uint16, offset uint32) { w.run, w.offset = run, offset }

// finish makes sure that nothing is left behind the last record.
func (w *recordWalk) finish() error {
	if w.pos != w.end {
		return corrupt("%d bytes behind the last record", w.end-w.pos)
	}
	return nil
}

// check goes through n records without keeping their entries.
func (w *recordWalk) check(n int) error {
	var chunk [64]entry
	for n > 0 {
		part := min(n, len(chunk))
		if err := w.index(chunk[:part]); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

// index fills out with the next len(out) records. The straight way is for
// records whose integers take up to three bytes and that do not lie in the
// very last bytes; whatever else there is, a fault included, is for one.
func (w *recordWalk) index(out []entry) error {
	data, pos, prev := w.data, w.pos, w.prev
	for i := range out {
		e := &out[i]
		next, delta := w.short(e, data, pos, prev)
		if next == 0 {
			w.pos, w.prev = pos, prev
			if err := w.one(e); err != nil {
				return err
			}
			pos, prev = w.pos, w.prev
			continue
		}
		pos, prev = next, delta
	}
	w.pos, w.prev = pos, prev
	return nil
}

// short reads the record at pos and returns where the next one is, or 0 if it
// has to be read by one. Eight bytes at a time are enough for all integers
// before the key.
func (w *recordWalk) short(e *entry, data []byte, pos int, prev int64) (next int, delta int64) {
	if len(data)-pos < 8 {
		return 0, 0
	}
	word := binary.LittleEndian.Uint64(data[pos:])
	length, n := shortVarint(word)
	end := pos + int(n) + int(length>>1)
	if n == 0 || length&1 != 0 || end > w.end {
		return 0, 0
	}
	stamp, m := shortVarint(word >> (n*8 + 8))
	pos += int(n) + 1 + int(m)
	if m == 0 || len(data)-pos < 8 {
		return 0, 0
	}
	word = binary.LittleEndian.Uint64(data[pos:])
	offset, n := shortVarint(word)
	keyLen, m := shortVarint(word >> (n * 8))
	delta = int64(offset >> 1)
	if n == 0 || m == 0 || offset&1 != 0 || delta < prev || delta > w.last {
		return 0, 0
	}
	pos += int(n) + int(m)
	e.key, e.keyLen = uint32(pos), unzigzag(keyLen)
	if e.keyLen > 0 {
		pos += int(e.keyLen)
	}
	if len(data)-pos < 4 || e.keyLen < -1 {
		return 0, 0
	}
	valueLen, n := shortVarint(uint64(binary.LittleEndian.Uint32(data[pos:])))
	pos += int(n)
	e.value, e.valueLen = uint32(pos), unzigzag(valueLen)
	if e.valueLen > 0 {
		pos += int(e.valueLen)
	}
	if n == 0 || e.valueLen < -1 || pos >= end {
		return 0, 0
	}
	e.headerBytes = 0
	if data[pos] != 0 {
		if headersEnd(data[:end], pos) != end {
			return 0, 0
		}
		e.headerBytes = uint16(min(end-pos, headersUnmeasured))
	} else if pos+1 != end {
		return 0, 0
	}
	e.timestamp = w.stamp
	if !w.appendTime {
		e.timestamp += int64(stamp>>1) ^ -int64(stamp&1)
	}
	e.offsetDelta, e.run = w.offset+uint32(delta), w.run
	return end, delta
}

// one reads the record at w.pos with every check spelled out.
func (w *recordWalk) one(e *entry) error {
	data := w.data[:w.end]
	length, pos := varint32(data, w.pos)
	if pos < 0 || length < 0 || length > w.end-pos {
		return w.fault("length")
	}
	data = data[:pos+length]
	if length == 0 {
		return w.fault("attributes")
	}
	stamp, pos := varint64(data, pos+1)
	if pos < 0 {
		return w.fault("timestamp")
	}
	delta, pos := varint32(data, pos)
	if pos < 0 || int64(delta) < w.prev || int64(delta) > w.last {
		return w.fault("offset delta")
	}
	key, keyLen, pos := varintBytes(data, pos)
	if pos < 0 {
		return w.fault("key")
	}
	value, valueLen, pos := varintBytes(data, pos)
	if pos < 0 {
		return w.fault("value")
	}
	headers := headersEnd(data, pos)
	if headers < 0 {
		return w.fault("headers")
	}
	if headers != len(data) {
		return w.fault("length, with bytes behind its headers")
	}
	*e = entry{
		timestamp:   w.stamp,
		offsetDelta: w.offset + uint32(delta),
		key:         uint32(key), keyLen: int32(keyLen),
		value: uint32(value), valueLen: int32(valueLen),
		run: w.run,
	}
	if !w.appendTime {
		e.timestamp += stamp
	}
	if count, _ := varint32(data, pos); count > 0 {
		e.headerBytes = uint16(min(headers-pos, headersUnmeasured))
	}
	w.pos, w.prev = headers, int64(delta)
	return nil
}

func (w *recordWalk) fault(field string) error {
	return corrupt("record behind offset %d has an impossible %s", w.base+w.prev, field)
}

// headersEnd checks the headers that begin with their count at pos and returns
// where they end, or -1.
func headersEnd(b []byte, pos int) int {
	count, pos := varint32(b, pos)
	if pos < 0 || count < 0 || count > (len(b)-pos)/2 {
		return -1
	}
	for range count {
		if end := shortHeaderEnd(b, pos); end > 0 {
			pos = end
			continue
		}
		var keyLen int
		if _, keyLen, pos = varintBytes(b, pos); pos < 0 || keyLen < 0 {
			return -1
		}
		if _, _, pos = varintBytes(b, pos); pos < 0 {
			return -1
		}
	}
	return pos
}

// shortHeaderEnd returns where a header ends whose key and value are not null
// and have lengths of one byte, or 0 for any other.
func shortHeaderEnd(b []byte, pos int) int {
	if pos >= len(b) || b[pos]&0x81 != 0 {
		return 0
	}
	pos += 1 + int(b[pos]>>1)
	if pos >= len(b) || b[pos]&0x81 != 0 {
		return 0
	}
	pos += 1 + int(b[pos]>>1)
	if pos > len(b) {
		return 0
	}
	return pos
}

// shortVarint returns the unsigned varint in the low bytes of a word and how
// many bytes it takes: up to three, 0 if more.
func shortVarint(word uint64) (v uint64, n uint) {
	if word&0x80 == 0 {
		return word & 0x7f, 1
	}
	if word&0x8000 == 0 {
		return word&0x7f | word>>1&0x3f80, 2
	}
	if word&0x800000 == 0 {
		return word&0x7f | word>>1&0x3f80 | word>>2&0x1fc000, 3
	}
	return 0, 0
}

func unzigzag(v uint64) int32 { return int32(v>>1) ^ -int32(v&1) }

// varintBytes returns where the bytes behind the length at pos start, their
// number (-1 for null) and where they end; -1 for that if there are none such.
func varintBytes(b []byte, pos int) (start, n, end int) {
	n, start = varint32(b, pos)
	if start < 0 || n < -1 || n > len(b)-start {
		return 0, 0, -1
	}
	return start, n, start + max(n, 0)
}

// varint32 returns the zigzag varint at pos and where it ends, or -1 for that
// if it is cut or takes more than the five bytes of 32 bits.
func varint32(b []byte, pos int) (v, end int) {
	if uint(pos) < uint(len(b)) {
		if c := b[pos]; c < 0x80 {
			return int(c>>1) ^ -int(c&1), pos + 1
		}
	}
	return longVarint32(b, pos)
}

func longVarint32(b []byte, pos int) (v, end int) {
	if pos < 0 {
		return 0, -1
	}
	u, n := binary.Uvarint(b[pos:min(len(b), pos+binary.MaxVarintLen32)])
	if n <= 0 || u > 1<<32-1 {
		return 0, -1
	}
	return int(unzigzag(u)), pos + n
}

// varint64 is varint32 for 64 bits, in up to ten bytes.
func varint64(b []byte, pos int) (v int64, end int) {
	if pos > len(b) {
		return 0, -1
	}
	v, n := binary.Varint(b[pos:])
	if n <= 0 {
		return 0, -1
	}
	return v, pos + n
}

package protocol

import (
	"encoding/binary"
	"iter"
	"slices"
	"sort"
	"unsafe"
)

// TimestampType says who set the timestamp of a record.
type TimestampType int8

const (
	// NoTimestamp is the type of records of format v0, which have none.
	NoTimestamp TimestampType = iota - 1
	// CreateTime is the time at which the producer made the record.
	CreateTime
	// LogAppendTime is the time at which the broker appended the record.
	LogAppendTime
)

// String returns the name that Kafka gives to the type.
func (t TimestampType) String() string {
	switch t {
	case CreateTime:
		return "CreateTime"
	case LogAppendTime:
		return "LogAppendTime"
	}
	return "NoTimestampType"
}

// An entry is where one record is found. It holds no pointer, so that the
// garbage collector never looks into an index, and no field that a look at the
// bytes can tell as well.
type entry struct {
	timestamp   int64
	offsetDelta uint32 // from the base of its run
	key, value  uint32 // positions in the data
	keyLen      int32  // -1 for null, as is valueLen
	valueLen    int32
	run         uint16
	headerBytes uint16 // count and headers; 0 without any, headersUnmeasured if it does not fit
}

const (
	entrySize         = int(unsafe.Sizeof(entry{}))
	headersUnmeasured = 1<<16 - 1
)

// A run is what neighbouring records have in common.
type run struct {
	base   int64
	epoch  int32
	magic  int8
	stamps TimestampType
}

// A Segment is a run of decoded records of one partition: bytes, and an index
// into them that was fully checked when it was built. Its methods do not
// allocate and may be called by several goroutines, Release excepted. Slices
// that they return alias the segment's bytes, have no spare capacity and must
// not be written to.
type Segment struct {
	data  []byte
	index []entry
	runs  []run
	next  int64
	epoch int32
	bytes int         // see Bytes
	own   *piece      // the decompressed bytes; nil: data aliases the source
	held  *indexPiece // what index is cut from
	rest  pending
	only  [1]run // room for runs, since mostly there is one
}

// Len returns the number of records.
func (s *Segment) Len() int { return len(s.index) }

// Offset returns the offset of record i.
func (s *Segment) Offset(i int) int64 {
	e := &s.index[i]
	return s.runs[e.run].base + int64(e.offsetDelta)
}

// Key returns the key of record i, nil if it is null.
func (s *Segment) Key(i int) []byte {
	e := &s.index[i]
	if e.keyLen < 0 {
		return nil
	}
	end := uint(e.key) + uint(e.keyLen)
	return s.data[e.key:end:end]
}

// Value returns the value of record i, nil if it is null.
func (s *Segment) Value(i int) []byte {
	e := &s.index[i]
	if e.valueLen < 0 {
		return nil
	}
	end := uint(e.value) + uint(e.valueLen)
	return s.data[e.value:end:end]
}

// Fields returns Offset, Key and Value of record i.
func (s *Segment) Fields(i int) (offset int64, key, value []byte) {
	e := &s.index[i]
	if e.keyLen >= 0 {
		end := uint(e.key) + uint(e.keyLen)
		key = s.data[e.key:end:end]
	}
	if e.valueLen >= 0 {
		end := uint(e.value) + uint(e.valueLen)
		value = s.data[e.value:end:end]
	}
	return s.runs[e.run].base + int64(e.offsetDelta), key, value
}

// Timestamp returns the timestamp of record i in milliseconds since 1970, or
// -1 if it has none.
func (s *Segment) Timestamp(i int) int64 { return s.index[i].timestamp }

// TimestampType says who set the timestamp of record i.
func (s *Segment) TimestampType(i int) TimestampType { return s.runs[s.index[i].run].stamps }

// LeaderEpoch returns the epoch of the leader that appended record i, or -1
// below format v2.
func (s *Segment) LeaderEpoch(i int) int32 { return s.runs[s.index[i].run].epoch }

// Checksum returns the CRC32 of record i. Records of format v2 have none of
// their own.
func (s *Segment) Checksum(i int) (uint32, bool) {
	e := &s.index[i]
	switch s.runs[e.run].magic {
	case 0:
		return binary.BigEndian.Uint32(s.data[e.key-keyAfterCRCV0:]), true
	case 1:
		return binary.BigEndian.Uint32(s.data[e.key-keyAfterCRCV1:]), true
	}
	return 0, false
}

// HeaderBytes returns the headers of record i as they are encoded, for
// ParseHeaders; nil if it has none.
func (s *Segment) HeaderBytes(i int) []byte {
	e := &s.index[i]
	if e.headerBytes == 0 {
		return nil
	}
	start := int(e.value) + int(max(e.valueLen, 0))
	end := start + int(e.headerBytes)
	if e.headerBytes == headersUnmeasured {
		end = headersEnd(s.data, start)
	}
	return s.data[start:end:end]
}

// HeaderCount returns the number of headers of record i.
func (s *Segment) HeaderCount(i int) int {
	headers := s.Headers(i)
	return headers.Left()
}

// Headers returns an iterator over the headers of record i.
func (s *Segment) Headers(i int) HeaderIter { return ParseHeaders(s.HeaderBytes(i)) }

// NextOffset returns the position after this segment: behind gaps, control
// batches and aborted batches at its end.
func (s *Segment) NextOffset() int64 { return s.next }

// LastEpoch returns the leader epoch of the last batch of the segment that has one, or -1.
func (s *Segment) LastEpoch() int32 { return s.epoch }

// Bytes returns how many bytes records from to to-1 take uncompressed, as they are
// encoded: their share, by number, of what all of the segment's do. Those of the records
// that More returns are counted with the ones before them.
func (s *Segment) Bytes(from, to int) int64 {
	if len(s.index) == 0 {
		return 0
	}
	share := func(n int) int64 { return int64(s.bytes) * int64(n) / int64(len(s.index)) }
	return share(to) - share(from)
}

// Size returns how many bytes of memory the segment holds itself: decompressed
// data and index. Bytes of the source that it refers to are not counted.
func (s *Segment) Size() int64 {
	n := int64(cap(s.index)) * int64(entrySize)
	if s.own != nil {
		n += int64(cap(s.own.b))
	}
	return n
}

// AliasesSource says whether the records lie in the bytes given to
// Decoder.Decode, which then must stay as they are while the segment is used.
func (s *Segment) AliasesSource() bool { return s.own == nil && len(s.index) > 0 }

// Search returns the first i with Offset(i) >= offset, or Len.
func (s *Segment) Search(offset int64) int {
	return sort.Search(len(s.index), func(i int) bool { return s.Offset(i) >= offset })
}

// More returns the records that follow in the same batch but are beyond the
// 65,536 that a segment indexes, or nil if there are none. They were checked
// with the rest of the batch. It shares the data with s, and is to be called
// before s is released.
func (s *Segment) More() *Segment {
	if s.rest.left == 0 {
		return nil
	}
	more := &Segment{data: s.data, next: s.next, epoch: s.epoch, own: s.own}
	if s.own != nil {
		s.own.refs.Add(1)
	}
	more.only[0] = s.rest.run
	more.runs = more.only[:]
	more.held = newIndexPiece(min(s.rest.left, maxIndexedRecords))
	more.index = more.held.index
	rest := s.rest
	rest.advance(s.data, more.index)
	more.rest = rest
	if rest.left > 0 {
		more.next = more.Offset(len(more.index)-1) + 1
	} else {
		more.next = rest.next
	}
	return more
}

// Unindexed tells whether More would return records.
func (s *Segment) Unindexed() bool { return s.rest.left > 0 }

// Release gives the segment's decompressed bytes and index back for reuse by
// later segments. Nothing got from the segment may be used afterwards. A
// segment that is not released is left to the garbage collector; releasing
// it twice is harmless. It must not run while another method does.
func (s *Segment) Release() {
	if s.held != nil {
		s.held.release()
	}
	if s.own != nil {
		s.own.release()
	}
	*s = Segment{next: s.next, epoch: s.epoch}
}

// A HeaderIter goes through the headers of a record. Its zero value has none.
type HeaderIter struct {
	b    []byte
	left int
}

// ParseHeaders returns an iterator over headers as Segment.HeaderBytes gave
// them.
func ParseHeaders(b []byte) HeaderIter {
	if len(b) == 0 {
		return HeaderIter{}
	}
	n, pos := varint32(b, 0)
	if pos < 0 || n < 0 || n > len(b) {
		return HeaderIter{}
	}
	return HeaderIter{b: b[pos:], left: n}
}

// Left returns how many headers Next has not returned yet.
func (it *HeaderIter) Left() int { return it.left }

// Next returns the next header, both parts aliasing the record's bytes; a nil
// value is null. ok is false behind the last one.
func (it *HeaderIter) Next() (key, value []byte, ok bool) {
	if it.left == 0 {
		return nil, nil, false
	}
	keyAt, keyLen, pos := varintBytes(it.b, 0)
	if pos < 0 || keyLen < 0 {
		*it = HeaderIter{}
		return nil, nil, false
	}
	valueAt, valueLen, pos := varintBytes(it.b, pos)
	if pos < 0 {
		*it = HeaderIter{}
		return nil, nil, false
	}
	key = slices.Clip(it.b[keyAt : keyAt+keyLen])
	if valueLen >= 0 {
		value = slices.Clip(it.b[valueAt : valueAt+valueLen])
	}
	it.b = it.b[pos:]
	it.left--
	return key, value, true
}

// All returns the headers from here on as a sequence, keys copied to strings.
func (it HeaderIter) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for {
			key, value, ok := it.Next()
			if !ok || !yield(string(key), value) {
				return
			}
		}
	}
}

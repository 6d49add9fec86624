package group

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A BlobError says that data which one member sent for another does not have the
// form of the consumer protocol.
type BlobError struct {
	What   string // "subscription" or "assignment"
	Offset int    // of the byte at which it is wrong
	Reason string
}

func (e *BlobError) Error() string {
	return fmt.Sprintf("malformed %s of a group member at byte %d: %s", e.What, e.Offset, e.Reason)
}

// A Subscription is what a member says of itself when it joins:
// ConsumerProtocolSubscription v0 to v3.
type Subscription struct {
	Topics     []string
	UserData   []byte
	Owned      []TopicPartition // v1 (KIP-429)
	Generation int32            // v2 (KIP-792); -1 unknown
	Rack       string           // v3 (KIP-881); "" unknown
}

// AppendTo appends the subscription as v3. Older members read the front part of it
// that they know.
func (s *Subscription) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 3)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s.Topics)))
	for _, topic := range s.Topics {
		dst = appendString(dst, topic)
	}
	dst = appendBytes(dst, s.UserData)
	dst = appendPartitions(dst, s.Owned)
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.Generation))
	if s.Rack == "" {
		return append(dst, 0xff, 0xff)
	}
	return appendString(dst, s.Rack)
}

// DecodeSubscription reads a subscription of any version; one that is newer than
// v3 is read as v3. Fields that are missing at the end, as some clients leave them
// out, count as empty. The result does not alias b, except for UserData.
func DecodeSubscription(b []byte) (Subscription, error) {
	r := blobReader{what: "subscription", data: b}
	s := Subscription{Generation: -1}
	version := r.version()
	for range r.count(2) {
		s.Topics = append(s.Topics, r.string())
	}
	s.UserData = r.bytes()
	if version >= 1 && r.more() {
		s.Owned = r.partitions()
	}
	if version >= 2 && r.more() {
		s.Generation = r.int32()
	}
	if version >= 3 && r.more() {
		s.Rack = r.nullableString()
	}
	if r.err != nil {
		return Subscription{Generation: -1}, r.err
	}
	return s, nil
}

// An Assignment is what the leader says to a member: ConsumerProtocolAssignment,
// which has had the same form since v0.
type Assignment struct {
	Partitions []TopicPartition
	UserData   []byte
}

// AppendTo appends the assignment as v0, which every member reads.
func (a *Assignment) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = appendPartitions(dst, a.Partitions)
	return appendBytes(dst, a.UserData)
}

// DecodeAssignment reads an assignment. No bytes at all, which a leader sends to
// members it has nothing for, are an empty one. The result does not alias b, except
// for UserData.
func DecodeAssignment(b []byte) (Assignment, error) {
	if len(b) == 0 {
		return Assignment{}, nil
	}
	r := blobReader{what: "assignment", data: b}
	r.version()
	a := Assignment{Partitions: r.partitions()}
	if r.more() {
		a.UserData = r.bytes()
	}
	if r.err != nil {
		return Assignment{}, r.err
	}
	return a, nil
}

func appendString(dst []byte, s string) []byte {
	s = s[:min(len(s), math.MaxInt16)]
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.BigEndian.AppendUint32(dst, math.MaxUint32)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}

// appendPartitions groups neighbours of one topic, so callers sort by topic.
func appendPartitions(dst []byte, tps []TopicPartition) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	var topics uint32
	for i := 0; i < len(tps); {
		n := i + 1
		for n < len(tps) && tps[n].Topic == tps[i].Topic {
			n++
		}
		topics++
		dst = appendString(dst, tps[i].Topic)
		dst = binary.BigEndian.AppendUint32(dst, uint32(n-i))
		for ; i < n; i++ {
			dst = binary.BigEndian.AppendUint32(dst, uint32(tps[i].Partition))
		}
	}
	binary.BigEndian.PutUint32(dst[at:], topics)
	return dst
}

// blobReader reads with a sticky error; after it everything is zero.
type blobReader struct {
	what string
	data []byte
	pos  int
	err  error
}

func (r *blobReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &BlobError{What: r.what, Offset: r.pos, Reason: fmt.Sprintf(format, args...)}
	}
}

func (r *blobReader) more() bool { return r.err == nil && r.pos < len(r.data) }

func (r *blobReader) take(n int) []byte {
	if r.err == nil && n > len(r.data)-r.pos {
		r.fail("%d bytes wanted, %d left", n, len(r.data)-r.pos)
	}
	if r.err != nil {
		return nil
	}
	b := r.data[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return b
}

func (r *blobReader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *blobReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *blobReader) version() int16 {
	v := r.int16()
	if v < 0 {
		r.fail("version %d", v)
	}
	return v
}

// count reads the length of an array whose elements have at least size bytes. A
// null array is an empty one.
func (r *blobReader) count(size int) int {
	n := int(r.int32())
	switch left := len(r.data) - r.pos; {
	case r.err != nil || n == -1:
		return 0
	case n < 0 || n > left/size:
		r.fail("%d elements in %d bytes", n, left)
		return 0
	}
	return n
}

func (r *blobReader) string() string {
	n := r.int16()
	if n < 0 {
		r.fail("length %d of a string", n)
		return ""
	}
	return string(r.take(int(n)))
}

func (r *blobReader) nullableString() string {
	n := r.int16()
	switch {
	case n == -1:
		return ""
	case n < 0:
		r.fail("length %d of a string", n)
		return ""
	}
	return string(r.take(int(n)))
}

func (r *blobReader) bytes() []byte {
	n := r.int32()
	switch {
	case n == -1:
		return nil
	case n < 0:
		r.fail("length %d of bytes", n)
		return nil
	}
	return r.take(int(n))
}

// partitions reads a list of topics with their partitions. A partition that is
// named twice counts once: which of two owners is right cannot be told here.
func (r *blobReader) partitions() []TopicPartition {
	var tps []TopicPartition
	seen := map[TopicPartition]bool{}
	for range r.count(6) {
		topic := r.string()
		for range r.count(4) {
			tp := TopicPartition{Topic: topic, Partition: r.int32()}
			if tp.Partition < 0 {
				r.fail("partition %d of %s", tp.Partition, topic)
				return nil
			}
			if !seen[tp] {
				seen[tp] = true
				tps = append(tps, tp)
			}
		}
		if r.err != nil {
			return nil
		}
	}
	return tps
}

package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

const (
	// defaultMaxFrame is the guard on a frame's length until SetMax.
	defaultMaxFrame = 100_000_000
	// minReaderBuffer holds every fixed part of a message that Peek has to
	// give in one piece, with room to spare.
	minReaderBuffer = 512
	// bodyStep is how much room Body makes ahead of the bytes that arrive.
	bodyStep = 1 << 20
	// maxEmptyReads is how often a source may return neither bytes nor error.
	maxEmptyReads = 100
)

// A MalformedError says that what a broker sent is not what the protocol
// allows there. The connection it came from is of no more use.
type MalformedError struct {
	// API is the name of the API whose response it was, or "" where that was
	// not known yet.
	API string
	// Field is what was read, such as "topics" or "frame length".
	Field string
	// Offset is where in the frame it was, in bytes behind the length; -1
	// where that is not known.
	Offset int
	// Reason is what is wrong.
	Reason string
}

// Error names the API, the field, where it was and what is wrong.
func (e *MalformedError) Error() string {
	what := "response"
	if e.API != "" {
		what = e.API + " response"
	}
	if e.Offset < 0 {
		return fmt.Sprintf("kafka: malformed %s: %s: %s", what, e.Field, e.Reason)
	}
	return fmt.Sprintf("kafka: malformed %s: %s at byte %d: %s", what, e.Field, e.Offset, e.Reason)
}

// A Reader reads the frames that a broker sends over one connection. It
// buffers, never reads beyond what a frame claims to hold when it decodes, and
// keeps its first error: from then on every method returns zeros, so that
// decoding needs to look at Err only at the end. It is not safe for
// concurrent use.
type Reader struct {
	src io.Reader
	buf []byte
	pos int // buf[pos:end] was received and not consumed yet
	end int

	size int // bytes in the frame behind its length
	left int // of those, bytes not consumed yet
	max  int32
	api  string
	err  error
}

// NewReader returns a Reader of src whose buffer has bufSize bytes, or 512 if
// bufSize is less. Frames may have up to 100,000,000 bytes until SetMax.
func NewReader(src io.Reader, bufSize int) *Reader {
	return &Reader{src: src, buf: make([]byte, max(bufSize, minReaderBuffer)), max: defaultMaxFrame}
}

// SetMax sets the most bytes that a frame may have, from the next Frame on.
func (r *Reader) SetMax(n int32) { r.max = n }

// SetAPI sets the name of the API that errors give from here to the next
// Frame.
func (r *Reader) SetAPI(name string) { r.api = name }

// Err returns the error that ended the reading: a *MalformedError, or the
// error of the connection as it came. A connection that ended within a frame
// gives io.ErrUnexpectedEOF, one that ended between frames io.EOF.
func (r *Reader) Err() error { return r.err }

// Remaining returns how many bytes of the frame are not consumed yet. They
// may not have arrived.
func (r *Reader) Remaining() int {
	if r.err != nil {
		return 0
	}
	return r.left
}

// Buffered returns how many bytes have arrived and are not consumed yet, of
// this frame or of those behind it.
func (r *Reader) Buffered() int { return r.end - r.pos }

// Frame passes over what is left of the frame before, reads the length of the
// next one and returns it. It waits for as long as the source does.
func (r *Reader) Frame() (int32, error) {
	r.Discard(r.left)
	if r.err != nil {
		return 0, r.err
	}
	r.api, r.size, r.left = "", 0, 0
	if !r.fill(frameLengthBytes) {
		return 0, r.err
	}
	head := r.buf[r.pos : r.pos+frameLengthBytes]
	size := int32(binary.BigEndian.Uint32(head))
	if size < 0 || size > r.max {
		r.err = &MalformedError{Field: "frame length", Offset: -1, Reason: r.lengthReason(head, size)}
		return 0, r.err
	}
	r.pos += frameLengthBytes
	r.size, r.left = int(size), int(size)
	return size, nil
}

// lengthReason says what is wrong with a frame's length. The usual cause is a
// port on which something else than plaintext Kafka answers.
func (r *Reader) lengthReason(head []byte, size int32) string {
	reason := fmt.Sprintf("%d is more than the %d bytes allowed", size, r.max)
	if size < 0 {
		reason = fmt.Sprintf("%d is negative", size)
	}
	switch {
	case (head[0] == 0x15 || head[0] == 0x16) && head[1] == 3:
		return reason + "; it looks like TLS: the listener expects TLS and this client speaks plaintext to it"
	case string(head) == "HTTP":
		return reason + "; it looks like HTTP: this is not the port of a Kafka broker"
	case string(head) == "SSH-":
		return reason + "; it looks like SSH: this is not the port of a Kafka broker"
	}
	return reason
}

// ResponseHeader reads a response's header and returns its correlation id.
// Flexible is whether the request was; ApiVersions has the old header anyway,
// so that a client can read the answer to a version the broker does not know
// (KIP-511).
func (r *Reader) ResponseHeader(key int16, flexible bool) int32 {
	r.api = APIName(key)
	id := r.Int32()
	if flexible && key != KeyApiVersions {
		r.SkipTags()
	}
	return id
}

// Fail makes Err return a *MalformedError about a field, unless there is an
// error already.
func (r *Reader) Fail(field, reason string) {
	if r.err == nil {
		r.err = &MalformedError{API: r.api, Field: field, Offset: r.size - r.left, Reason: reason}
	}
}

func (r *Reader) fail(field, format string, args ...any) {
	if r.err == nil {
		r.Fail(field, fmt.Sprintf(format, args...))
	}
}

// Await waits until the next frame has come as a whole, or, where the buffer does not hold
// it, its length, or until there is an error that reading will find. It returns false when
// the source's deadline passed before; that error is not kept, and what has come is. The
// frame before was read to its end.
func (r *Reader) Await() bool {
	for r.err == nil && r.Buffered() < r.awaited() {
		if !r.fill(r.awaited()) && errors.Is(r.err, os.ErrDeadlineExceeded) {
			r.err = nil
			return false
		}
	}
	return true
}

// awaited returns how many bytes Await waits for, as far as that is known.
func (r *Reader) awaited() int {
	if r.Buffered() < frameLengthBytes {
		return frameLengthBytes
	}
	size := int32(binary.BigEndian.Uint32(r.buf[r.pos:]))
	if size < 0 || int(size) > len(r.buf)-frameLengthBytes {
		return frameLengthBytes
	}
	return frameLengthBytes + int(size)
}

// HasFrame tells whether the next frame has come as a whole, so that reading it waits for
// nothing. The frame before was read to its end.
func (r *Reader) HasFrame() bool {
	if r.Buffered() < frameLengthBytes {
		return false
	}
	size := int32(binary.BigEndian.Uint32(r.buf[r.pos:]))
	return size >= 0 && int(size) <= r.Buffered()-frameLengthBytes
}

// fill makes at least n bytes available behind pos, whatever frame they are
// of; n is at most len(buf).
func (r *Reader) fill(n int) bool {
	if r.err != nil {
		return false
	}
	if r.end-r.pos >= n {
		return true
	}
	if r.pos == r.end {
		r.pos, r.end = 0, 0
	} else if len(r.buf)-r.pos < n {
		r.end = copy(r.buf, r.buf[r.pos:r.end])
		r.pos = 0
	}
	for r.end-r.pos < n {
		m := r.read(r.buf[r.end:])
		r.end += m
		if m == 0 {
			return false
		}
	}
	return true
}

// read reads at least one byte into dst, or sets the error and returns 0.
func (r *Reader) read(dst []byte) int {
	for range maxEmptyReads {
		n, err := r.src.Read(dst)
		if n > 0 {
			// An error that came with bytes comes again without them.
			return n
		}
		if err != nil {
			if err == io.EOF && (r.left > 0 || r.pos < r.end) {
				err = io.ErrUnexpectedEOF
			}
			r.err = err
			return 0
		}
	}
	r.err = io.ErrNoProgress
	return 0
}

// take consumes n bytes of the frame, n at most len(buf), and returns them:
// nil if they are not there. They are valid until the next read.
func (r *Reader) take(n int) []byte {
	if r.left < n || r.err != nil {
		r.fail("value", "needs %d bytes, %d are left in the frame", n, r.left)
		return nil
	}
	if r.end-r.pos < n && !r.fill(n) {
		return nil
	}
	b := r.buf[r.pos : r.pos+n]
	r.pos += n
	r.left -= n
	return b
}

// Int8 reads one byte.
func (r *Reader) Int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

// Bool reads one byte; everything but 0 is true.
func (r *Reader) Bool() bool { return r.Int8() != 0 }

// Int16 reads two bytes.
func (r *Reader) Int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

// Int32 reads four bytes.
func (r *Reader) Int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads eight bytes.
func (r *Reader) Int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// UUID reads sixteen bytes.
func (r *Reader) UUID() (id [16]byte) {
	copy(id[:], r.take(16))
	return id
}

// Uvarint reads an unsigned varint of up to 32 bits.
func (r *Reader) Uvarint() uint32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := r.take(1)
		if b == nil {
			return 0
		}
		if shift == 28 && b[0] > 0x0f {
			break
		}
		v |= uint32(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			return v
		}
	}
	r.Fail("varint", "more than 32 bits")
	return 0
}

// length reads a length or count, which the flexible form gives as a varint
// one higher: -1 is null. The plain form is a 16-bit number when short.
func (r *Reader) length(field string, flexible, short bool) int {
	var n int64
	switch {
	case flexible:
		n = int64(r.Uvarint()) - 1
	case short:
		n = int64(r.Int16())
	default:
		n = int64(r.Int32())
	}
	if r.err != nil {
		return -1
	}
	if n < -1 || n > int64(r.left) {
		r.fail(field, "length %d, %d bytes are left in the frame", n, r.left)
		return -1
	}
	return int(n)
}

// String reads a string into buf, from its start, growing it where needed,
// and returns it; null is true for a null string and after an error.
func (r *Reader) String(flexible bool, buf []byte) (s []byte, null bool) {
	n := r.length("string", flexible, true)
	switch {
	case n < 0:
		return buf[:0], true
	case n > math.MaxInt16:
		// The flexible form could hold more, but Kafka's own strings cannot.
		r.fail("string", "length %d", n)
		return buf[:0], true
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if r.ReadFull(buf) != nil {
		return buf[:0], true
	}
	return buf, false
}

// ArrayLen reads the count of an array whose elements have at least minSize
// bytes, at least 1, and checks that the frame could hold them. For a null
// array it returns 0 and true. The elements may not have arrived: a caller
// that allocates for them does so as it reads them.
func (r *Reader) ArrayLen(field string, flexible bool, minSize int) (n int, null bool) {
	n = r.length(field, flexible, false)
	if n < 0 {
		return 0, true
	}
	if int64(n)*int64(minSize) > int64(r.left) {
		r.fail(field, "%d elements of at least %d bytes, %d bytes are left in the frame", n, minSize, r.left)
		return 0, true
	}
	return n, false
}

// BytesLen reads the length of a byte string that the caller then reads: -1
// for null and after an error.
func (r *Reader) BytesLen(field string, flexible bool) int {
	return r.length(field, flexible, false)
}

// SkipTags reads tagged fields (KIP-482) and forgets them.
func (r *Reader) SkipTags() {
	for n := r.Uvarint(); n > 0 && r.err == nil; n-- {
		r.nextTag()
		r.endTag(r.tagEnd())
	}
}

// nextTag reads the number of a tagged field. What follows is its size, read
// by tagEnd, and its value.
func (r *Reader) nextTag() uint32 { return r.Uvarint() }

// tagEnd reads a tagged field's size and returns what Remaining is behind it.
func (r *Reader) tagEnd() int {
	size := int64(r.Uvarint())
	if size > int64(r.left) {
		r.fail("tagged field", "length %d, %d bytes are left in the frame", size, r.left)
	}
	return r.left - int(size)
}

// endTag passes over what was not read of a tagged field: later versions may
// put more into it.
func (r *Reader) endTag(end int) {
	if r.left < end {
		r.Fail("tagged field", "longer than its length")
	}
	r.Discard(r.left - end)
}

// Peek returns the next n bytes of the frame without consuming them, fewer at
// its end or where the buffer is smaller than n. They are valid until the next
// read.
func (r *Reader) Peek(n int) []byte {
	n = min(n, r.left, len(r.buf))
	if n <= 0 || !r.fill(n) {
		return nil
	}
	return r.buf[r.pos : r.pos+n]
}

// ReadFull fills dst with the next bytes of the frame; a frame that ends
// before is an error. Large reads go from the source straight into dst.
func (r *Reader) ReadFull(dst []byte) error {
	if r.err == nil && len(dst) > r.left {
		r.fail("bytes", "needs %d bytes, %d are left in the frame", len(dst), r.left)
	}
	for len(dst) > 0 && r.err == nil {
		var n int
		switch {
		case r.pos < r.end:
			n = copy(dst, r.buf[r.pos:r.end])
			r.pos += n
		case len(dst) >= len(r.buf):
			n = r.read(dst)
		default:
			// The tail comes by way of the buffer, together with what
			// stands behind it.
			r.fill(len(dst))
		}
		r.left -= n
		dst = dst[n:]
	}
	return r.err
}

// ReadAtLeast reads n bytes of the frame into dst, and as many more as have come, up
// to what dst and the frame hold. It returns how many it read, n or more unless there
// is an error.
func (r *Reader) ReadAtLeast(dst []byte, n int) (int, error) {
	if r.err == nil && (n > r.left || n > len(dst)) {
		r.fail("bytes", "needs %d bytes, %d are left in the frame", n, r.left)
	}
	dst = dst[:min(len(dst), r.left)]
	done := copy(dst, r.buf[r.pos:r.end])
	if r.err != nil {
		return 0, r.err
	}
	r.pos += done
	r.left -= done
	for done < n {
		m := r.read(dst[done:])
		if m == 0 {
			return done, r.err
		}
		done += m
		r.left -= m
	}
	return done, nil
}

// Discard passes over n bytes of the frame.
func (r *Reader) Discard(n int) error {
	if r.err == nil && n > r.left {
		r.fail("bytes", "needs %d bytes, %d are left in the frame", n, r.left)
	}
	for n > 0 && r.err == nil {
		if r.pos == r.end {
			r.fill(1)
		}
		m := min(n, r.end-r.pos)
		r.pos += m
		r.left -= m
		n -= m
	}
	return r.err
}

// Body reads what is left of the frame, appends it to dst and returns it; with
// an error it returns dst as it was. It makes room as the bytes arrive, not for
// what the frame claims to hold.
func (r *Reader) Body(dst []byte) ([]byte, error) {
	start := len(dst)
	for r.left > 0 && r.err == nil {
		at := len(dst)
		n := min(r.left, max(bodyStep, at))
		dst = append(dst, make([]byte, n)...)
		if r.ReadFull(dst[at:]) != nil {
			dst = dst[:start]
		}
	}
	return dst, r.err
}

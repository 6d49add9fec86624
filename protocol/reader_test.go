package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// wireFrame returns body behind its length.
func wireFrame(body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// readerOf returns a Reader within a frame that holds body.
func readerOf(t *testing.T, body ...byte) *Reader {
	t.Helper()
	r := NewReader(bytes.NewReader(wireFrame(body...)), 0)
	_, err := r.Frame()
	require.NoError(t, err)
	return r
}

func requireMalformed(t *testing.T, err error, text string) {
	t.Helper()
	var malformed *MalformedError
	require.ErrorAs(t, err, &malformed)
	require.ErrorContains(t, err, text)
}

func TestReaderReadsEveryType(t *testing.T) {
	body := []byte{
		0xfe,       // int8
		1,          // bool
		0xff, 0x80, // int16
		0x80, 0, 0, 1, // int32
		0x80, 0, 0, 0, 0, 0, 0, 2, // int64
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, // uuid
		0xac, 0x02, // uvarint 300
		0xff, 0xff, 0xff, 0xff, 0x0f, // uvarint 2^32-1
		0, 2, 'h', 'i', // string
		3, 'h', 'o', // compact string
		0xff, 0xff, // null string
		0,          // null compact string
		0, 0, 0, 1, // array of one
		2,                      // compact array of one
		0xff, 0xff, 0xff, 0xff, // null array
		0,                         // null compact array
		2, 0, 1, 0xff, 9, 2, 7, 8, // two tags
		42,
	}
	sources := map[string]io.Reader{
		"all at once":      bytes.NewReader(wireFrame(body...)),
		"byte by byte":     iotest.OneByteReader(bytes.NewReader(wireFrame(body...))),
		"with a late EOF":  iotest.DataErrReader(bytes.NewReader(wireFrame(body...))),
		"in halves":        iotest.HalfReader(bytes.NewReader(wireFrame(body...))),
		"with empty reads": &hesitant{src: bytes.NewReader(wireFrame(body...))},
	}
	for name, src := range sources {
		t.Run(name, func(t *testing.T) {
			r := NewReader(src, 0)
			size, err := r.Frame()
			require.NoError(t, err)
			require.Equal(t, int32(len(body)), size)
			require.Equal(t, int8(-2), r.Int8())
			require.True(t, r.Bool())
			require.Equal(t, int16(-128), r.Int16())
			require.Equal(t, int32(-2147483647), r.Int32())
			require.Equal(t, int64(-9223372036854775806), r.Int64())
			require.Equal(t, [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, r.UUID())
			require.Equal(t, uint32(300), r.Uvarint())
			require.Equal(t, uint32(1<<32-1), r.Uvarint())
			requireString(t, r, false, "hi", false)
			requireString(t, r, true, "ho", false)
			requireString(t, r, false, "", true)
			requireString(t, r, true, "", true)
			requireArrayLen(t, r, false, 1, false)
			requireArrayLen(t, r, true, 1, false)
			requireArrayLen(t, r, false, 0, true)
			requireArrayLen(t, r, true, 0, true)
			r.SkipTags()
			require.Equal(t, 1, r.Remaining())
			require.Equal(t, int8(42), r.Int8())
			require.NoError(t, r.Err())
			_, err = r.Frame()
			require.Equal(t, io.EOF, err)
		})
	}
}

func requireString(t *testing.T, r *Reader, flexible bool, want string, wantNull bool) {
	t.Helper()
	got, null := r.String(flexible, make([]byte, 0, 1))
	require.Equal(t, want, string(got))
	require.Equal(t, wantNull, null)
}

func requireArrayLen(t *testing.T, r *Reader, flexible bool, want int, wantNull bool) {
	t.Helper()
	got, null := r.ArrayLen("things", flexible, 4)
	require.Equal(t, want, got)
	require.Equal(t, wantNull, null)
}

// hesitant returns nothing on every other read.
type hesitant struct {
	src io.Reader
	odd bool
}

func (h *hesitant) Read(dst []byte) (int, error) {
	if h.odd = !h.odd; h.odd {
		return 0, nil
	}
	return h.src.Read(dst[:1])
}

func TestReaderRefusesWhatIsMalformed(t *testing.T) {
	tests := []struct {
		name string
		body []byte
		read func(r *Reader)
		text string
	}{
		{"a number beyond the frame", []byte{0, 0, 0}, func(r *Reader) { r.Int32() }, "needs 4 bytes, 3 are left"},
		{"a varint of more than 32 bits", []byte{0xff, 0xff, 0xff, 0xff, 0x1f}, func(r *Reader) { r.Uvarint() }, "more than 32 bits"},
		{"a varint of six bytes", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}, func(r *Reader) { r.Uvarint() }, "more than 32 bits"},
		{"a varint that is cut", []byte{0x80}, func(r *Reader) { r.Uvarint() }, "needs 1 bytes, 0 are left"},
		{"a string beyond the frame", []byte{0, 3, 'h', 'i'}, func(r *Reader) { r.String(false, nil) }, "length 3, 2 bytes are left"},
		{"a compact string beyond the frame", []byte{4, 'h', 'i'}, func(r *Reader) { r.String(true, nil) }, "length 3, 2 bytes are left"},
		{"a negative length that is not null", []byte{0xff, 0xfe}, func(r *Reader) { r.String(false, nil) }, "length -2"},
		{"a compact string longer than Kafka's", append([]byte{0x81, 0x80, 0x02}, make([]byte, 32768)...), func(r *Reader) { r.String(true, nil) }, "length 32768"},
		{"an array beyond the frame", []byte{0, 0, 0, 3, 1, 2}, func(r *Reader) { r.ArrayLen("things", false, 1) }, "things at byte 4: length 3, 2 bytes are left"},
		{"an array whose elements cannot be there", []byte{0, 0, 0, 2, 1, 2, 3}, func(r *Reader) { r.ArrayLen("things", false, 2) }, "2 elements of at least 2 bytes, 3 bytes are left"},
		{"an array of 4 GiB", []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1}, func(r *Reader) { r.ArrayLen("things", true, 1) }, "length 4294967294"},
		{"a tag beyond the frame", []byte{1, 0, 3, 1, 2}, func(r *Reader) { r.SkipTags() }, "tagged field at byte 3: length 3, 2 bytes are left"},
		{"more tags than there are bytes", []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0}, func(r *Reader) { r.SkipTags() }, "needs 1 bytes, 0 are left"},
		{"a read beyond the frame", []byte{1}, func(r *Reader) { r.ReadFull(make([]byte, 2)) }, "needs 2 bytes, 1 are left"},
		{"a discard beyond the frame", []byte{1}, func(r *Reader) { r.Discard(2) }, "needs 2 bytes, 1 are left"},
		{"what a decoder does not like", []byte{1}, func(r *Reader) { r.Int8(); r.Fail("shape", "odd") }, "shape at byte 1: odd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := readerOf(t, tt.body...)
			r.SetAPI("Fetch")
			tt.read(r)
			requireMalformed(t, r.Err(), tt.text)
			require.ErrorContains(t, r.Err(), "Fetch response")
			requireEnded(t, r, r.Err())
		})
	}
}

// requireEnded checks that r gives zeros and keeps its error.
func requireEnded(t *testing.T, r *Reader, want error) {
	t.Helper()
	require.Zero(t, r.Int8())
	require.Zero(t, r.Int16())
	require.Zero(t, r.Int32())
	require.Zero(t, r.Int64())
	require.Zero(t, r.UUID())
	require.Zero(t, r.Uvarint())
	require.Zero(t, r.Remaining())
	require.Nil(t, r.Peek(1))
	requireString(t, r, false, "", true)
	requireArrayLen(t, r, true, 0, true)
	require.Equal(t, -1, r.BytesLen("bytes", false))
	require.Equal(t, want, r.ReadFull(make([]byte, 1)))
	require.Equal(t, want, r.Discard(1))
	r.SkipTags()
	r.Fail("later", "fault")
	_, err := r.Frame()
	require.Equal(t, want, err)
	require.Equal(t, want, r.Err())
}

func TestFrameRefusesALengthThatCannotBe(t *testing.T) {
	tests := []struct {
		name, head, text string
	}{
		{"a negative one", "\xff\xff\xff\xff", "frame length: -1 is negative"},
		{"one above the most allowed", "\x00\x00\x04\x01", "frame length: 1025 is more than the 1024 bytes allowed"},
		{"a TLS alert", "\x15\x03\x03\x00", "it looks like TLS"},
		{"a TLS handshake", "\x16\x03\x01\x02", "it looks like TLS"},
		{"an HTTP answer", "HTTP/1.1 400 Bad Request", "it looks like HTTP"},
		{"an SSH server", "SSH-2.0-OpenSSH", "it looks like SSH"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(strings.NewReader(tt.head), 0)
			r.SetMax(1024)
			_, err := r.Frame()
			requireMalformed(t, err, tt.text)
			requireEnded(t, r, err)
		})
	}
	r := NewReader(bytes.NewReader(wireFrame(make([]byte, 1024)...)), 0)
	r.SetMax(1024)
	_, err := r.Frame()
	require.NoError(t, err)
}

func TestFramePassesOverWhatIsLeftOfTheOneBefore(t *testing.T) {
	src := append(append(wireFrame(1, 2, 3), wireFrame()...), wireFrame(4)...)
	r := NewReader(bytes.NewReader(src), 0)
	for _, want := range []int32{3, 0, 1} {
		size, err := r.Frame()
		require.NoError(t, err)
		require.Equal(t, want, size)
	}
	require.Equal(t, int8(4), r.Int8())
}

func TestConnectionErrorsPassAsTheyAre(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name string
		src  io.Reader
		want error
	}{
		{"an end before a frame", strings.NewReader(""), io.EOF},
		{"an end within a frame's length", strings.NewReader("\x00\x00"), io.ErrUnexpectedEOF},
		{"an end within a frame", strings.NewReader("\x00\x00\x00\x04ab"), io.ErrUnexpectedEOF},
		{"a fault before a frame", iotest.ErrReader(broken), broken},
		{"a fault within a frame", io.MultiReader(strings.NewReader("\x00\x00\x00\x04ab"), iotest.ErrReader(broken)), broken},
		{"a source that never gives anything", stuck{}, io.ErrNoProgress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(tt.src, 0)
			_, err := r.Frame()
			if err == nil {
				require.Zero(t, r.Int32())
			}
			require.Equal(t, tt.want, r.Err())
			requireEnded(t, r, tt.want)
		})
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestResponseHeader(t *testing.T) {
	r := readerOf(t, 0, 0, 0, 9, 1, 5, 2, 0xaa, 0xbb, 42)
	require.Equal(t, int32(9), r.ResponseHeader(KeyFetch, true))
	require.Equal(t, int8(42), r.Int8())

	r = readerOf(t, 0, 0, 0, 9, 42)
	require.Equal(t, int32(9), r.ResponseHeader(KeyFetch, false))
	require.Equal(t, int8(42), r.Int8())

	r = readerOf(t, 0, 0, 0, 9, 42)
	require.Equal(t, int32(9), r.ResponseHeader(KeyApiVersions, true))
	require.Equal(t, int8(42), r.Int8())
	r.Int8()
	require.ErrorContains(t, r.Err(), "ApiVersions response")
}

func TestPeekGivesWhatTheFrameAndTheBufferHold(t *testing.T) {
	body := make([]byte, 1000)
	for i := range body {
		body[i] = byte(i)
	}
	r := NewReader(iotest.OneByteReader(bytes.NewReader(append(wireFrame(body...), 0xff))), 512)
	_, err := r.Frame()
	require.NoError(t, err)
	require.Equal(t, body[:57], r.Peek(57))
	require.Equal(t, body[:512], r.Peek(1000))
	require.NoError(t, r.Discard(990))
	require.Equal(t, body[990:], r.Peek(57))
	require.NoError(t, r.Discard(10))
	require.Nil(t, r.Peek(1))
	require.Nil(t, r.Peek(-1))
	require.NoError(t, r.Err())
}

// recorder notes where the reads go.
type recorder struct {
	src   io.Reader
	reads [][]byte
}

func (s *recorder) Read(dst []byte) (int, error) {
	s.reads = append(s.reads, dst)
	return s.src.Read(dst)
}

func TestReadFullReadsStraightIntoTheDestination(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1024)
	src := &recorder{src: io.MultiReader(bytes.NewReader(wireFrame(body...)[:404]), bytes.NewReader(body[400:]), bytes.NewReader(wireFrame(7)))}
	r := NewReader(src, 512)
	_, err := r.Frame()
	require.NoError(t, err)

	dst := make([]byte, len(body))
	require.NoError(t, r.ReadFull(dst))
	require.Equal(t, body, dst)
	require.Len(t, src.reads, 2)
	require.Equal(t, unsafe.SliceData(dst[400:]), unsafe.SliceData(src.reads[1]))
	require.Len(t, src.reads[1], len(dst)-400)

	_, err = r.Frame()
	require.NoError(t, err)
	require.Equal(t, int8(7), r.Int8())
}

func TestReadFullBringsASmallTailWithWhatFollows(t *testing.T) {
	src := &recorder{src: bytes.NewReader(append(wireFrame(make([]byte, 600)...), wireFrame(7)...))}
	r := NewReader(src, 512)
	_, err := r.Frame()
	require.NoError(t, err)
	require.NoError(t, r.ReadFull(make([]byte, 600)))
	require.Len(t, src.reads, 2)
	require.Equal(t, 5, r.Buffered())
}

func TestBodyGivesTheRestOfTheFrame(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 3*bodyStep+17)
	r := NewReader(bytes.NewReader(append(wireFrame(body...), wireFrame(7)...)), 0)
	_, err := r.Frame()
	require.NoError(t, err)
	require.Equal(t, int8('x'), r.Int8())
	got, err := r.Body([]byte("y"))
	require.NoError(t, err)
	require.Equal(t, "y"+string(body[1:]), string(got))
	require.Zero(t, r.Remaining())
}

func TestReadsThatAreCutGiveNothing(t *testing.T) {
	r := NewReader(strings.NewReader("\x00\x00\x00\x08\x00\x06half"), 0)
	_, err := r.Frame()
	require.NoError(t, err)
	requireString(t, r, false, "", true)
	require.Equal(t, io.ErrUnexpectedEOF, r.Err())

	r = NewReader(strings.NewReader("\x00\x00\x00\x08half"), 0)
	_, err = r.Frame()
	require.NoError(t, err)
	body, err := r.Body([]byte("before"))
	require.Equal(t, io.ErrUnexpectedEOF, err)
	require.Equal(t, "before", string(body))
}

func TestBodyMakesNoRoomForBytesThatDoNotCome(t *testing.T) {
	r := NewReader(strings.NewReader("\x05\xf5\xe1\x00only this"), 0)
	_, err := r.Frame()
	require.NoError(t, err)
	got := bytesAllocated(func() { _, err = r.Body(nil) })
	require.Equal(t, io.ErrUnexpectedEOF, err)
	require.Less(t, got, uint64(4*bodyStep))
}

// bytesAllocated returns how many bytes f allocates.
func bytesAllocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// impatient is a source whose deadline passes between the bytes.
type impatient struct {
	bytes []byte
	n     int
}

func (s *impatient) Read(dst []byte) (int, error) {
	if s.n++; s.n%2 == 1 || len(s.bytes) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	dst[0], s.bytes = s.bytes[0], s.bytes[1:]
	return 1, nil
}

func TestReaderAwaitsWithoutLosingAnything(t *testing.T) {
	r := NewReader(&impatient{bytes: wireFrame(7)}, 0)
	for range wireFrame(7) {
		require.False(t, r.Await())
		require.NoError(t, r.Err())
	}
	require.True(t, r.Await())
	require.True(t, r.Await(), "what came stays")
	_, err := r.Frame()
	require.NoError(t, err)
	require.Equal(t, int8(7), r.Int8())
	_, err = r.Frame()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "reading does not bear it")
	require.True(t, r.Await(), "there is an error to be found")
}

func TestReaderAwaitsWholeFramesThatFitItsBuffer(t *testing.T) {
	frame := wireFrame(1, 2, 3)
	both := append(wireFrame(1, 2, 3), frame...)
	for n := range both {
		r := NewReader(io.MultiReader(bytes.NewReader(both[:n]), &impatient{bytes: both[n:]}), 0)
		for i := range 2 {
			require.Equal(t, n >= (i+1)*len(frame), r.Await(), n)
			for !r.Await() {
				require.False(t, r.HasFrame())
			}
			require.True(t, r.HasFrame())
			_, err := r.Frame()
			require.NoError(t, err)
			body, err := r.Body(nil)
			require.NoError(t, err)
			require.Equal(t, []byte{1, 2, 3}, body)
			require.False(t, r.HasFrame())
		}
	}
	for _, head := range [][]byte{{0xff, 0, 0, 0, 1}, {0, 0, 2, 0, 1}} { // a negative length, and one beyond the buffer
		r := NewReader(bytes.NewReader(head), 0)
		require.True(t, r.Await())
		require.False(t, r.HasFrame())
	}
}

func TestReaderAwaitsNoFrameOfAConnectionThatEnds(t *testing.T) {
	frame := wireFrame(1, 2, 3)
	for n := range frame {
		r := NewReader(bytes.NewReader(frame[:n]), 0)
		require.True(t, r.Await())
		require.False(t, r.HasFrame())
		_, err := r.Frame()
		if n == 0 {
			require.Equal(t, io.EOF, err)
		} else {
			require.Equal(t, io.ErrUnexpectedEOF, err)
		}
	}
}

package protocol

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzFetchResponse decodes whatever comes, checks that it gives the same
// however the bytes arrive, and that kmsg reads the same out of it.
func FuzzFetchResponse(f *testing.F) {
	for version := FetchMinVersion; version <= FetchMaxVersion; version++ {
		f.Add(byte(version), byte(3), sampleFetchResponse(version).AppendTo(nil))
	}
	f.Add(byte(12), byte(1), append(partition12(), 1, 0, 13, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0))
	f.Fuzz(func(t *testing.T, v, piece byte, body []byte) {
		version := int16(v) % (FetchMaxVersion + 1)
		got, err := collectBytes(body, version)

		r := NewReader(iotest.OneByteReader(bytes.NewReader(wireFrame(body...))), 0)
		_, ferr := r.Frame()
		require.NoError(t, ferr)
		slow, slowErr := collect(r, version, int(piece)+1)
		require.Equal(t, got, slow)
		require.Equal(t, err, slowErr)
		if err != nil {
			var malformed *MalformedError
			require.ErrorAs(t, err, &malformed)
			return
		}
		k := kmsg.NewPtrFetchResponse()
		k.Version = version
		err = k.ReadFrom(body)
		if err != nil && version >= fetchFlexible {
			return // kmsg also reads what is in the tags that are skipped here
		}
		require.NoError(t, err)
		want := fromKmsg(k)
		if version < fetchEndpoints {
			want.Endpoints = nil // kmsg takes the tag for them in versions that do not have it
		}
		requireSame(t, want, got)
	})
}

// FuzzDecodeResponse decodes whatever comes as every response of a consumer.
func FuzzDecodeResponse(f *testing.F) {
	for version := int16(0); version <= 13; version++ {
		f.Add(byte(KeyMetadata), byte(version), sampleMetadata(version).AppendTo(nil))
	}
	for key := range apiHistory {
		resp := kmsg.ResponseForKey(key)
		for version := int16(0); version <= resp.MaxVersion(); version++ {
			resp.SetVersion(version)
			f.Add(byte(key), byte(version), resp.AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, key, version byte, body []byte) {
		if _, ok := apiHistory[int16(key)]; !ok {
			return
		}
		resp := kmsg.ResponseForKey(int16(key))
		resp.SetVersion(int16(version) % (resp.MaxVersion() + 1))
		if err := DecodeResponse(resp, bytes.Clone(body)); err != nil {
			var malformed *MalformedError
			require.ErrorAs(t, err, &malformed)
			return
		}
		// What was understood can be said and understood again.
		again := kmsg.ResponseForKey(int16(key))
		again.SetVersion(resp.GetVersion())
		require.NoError(t, DecodeResponse(again, resp.AppendTo(nil)))
		require.Equal(t, resp.AppendTo(nil), again.AppendTo(nil))
	})
}

// FuzzReader makes a Reader do whatever the script says, over a source that
// gives all at once and one that gives single bytes: both must do the same,
// never pass the frame's end, and keep the first error.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 0x2b, 0x3c, 0x2d, 14}, wireFrame([]byte("some bytes of a frame and some more of them")...))
	f.Add([]byte{6, 7, 0x17, 8, 9, 10, 15}, wireFrame(3, 0, 2, 'h', 'i', 2, 'x', 0, 0, 0, 0, 0, 0, 0, 1, 1, 4, 1, 9, 7, 7))
	f.Add([]byte{7, 7, 8, 13, 12, 14, 0}, append(wireFrame(1, 0, 1, 9, 0, 2, 'h', 'i'), wireFrame(5)...))
	f.Add([]byte{14, 14}, []byte("HTTP/1.1 400"))
	f.Fuzz(func(t *testing.T, script, src []byte) {
		fast := NewReader(bytes.NewReader(src), 0)
		slow := NewReader(iotest.OneByteReader(bytes.NewReader(src)), 0)
		fast.Frame()
		slow.Frame()
		for _, op := range script {
			before, failed := fast.Remaining(), fast.Err()
			require.Equal(t, readerOp(fast, op), readerOp(slow, op))
			require.Equal(t, fast.Err(), slow.Err())
			require.Equal(t, fast.Remaining(), slow.Remaining())
			if failed != nil {
				require.Equal(t, failed, fast.Err())
			}
			if op%16 != 14 {
				require.LessOrEqual(t, fast.Remaining(), before)
			}
		}
		switch err := fast.Err(); err {
		case nil, io.EOF, io.ErrUnexpectedEOF:
		default:
			var malformed *MalformedError
			require.ErrorAs(t, err, &malformed)
		}
	})
}

// readerOp does one thing with r and returns all that it gave.
func readerOp(r *Reader, op byte) []any {
	n := int(op / 16)
	switch op % 16 {
	case 0:
		return []any{r.Int8()}
	case 1:
		return []any{r.Bool()}
	case 2:
		return []any{r.Int16()}
	case 3:
		return []any{r.Int32()}
	case 4:
		return []any{r.Int64()}
	case 5:
		return []any{r.UUID()}
	case 6:
		return []any{r.Uvarint()}
	case 7:
		s, null := r.String(n%2 == 0, nil)
		return []any{string(s), null}
	case 8:
		count, null := r.ArrayLen("array", n%2 == 0, n+1)
		return []any{count, null}
	case 9:
		return []any{r.BytesLen("bytes", n%2 == 0)}
	case 10:
		r.SkipTags()
		return nil
	case 11:
		return []any{string(r.Peek(n))}
	case 12:
		dst := make([]byte, n)
		if err := r.ReadFull(dst); err != nil {
			return []any{err}
		}
		return []any{dst}
	case 13:
		return []any{r.Discard(n)}
	case 14:
		size, err := r.Frame()
		return []any{size, err}
	}
	body, err := r.Body(nil)
	return []any{body, err}
}

package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
)

// A Codec is how the records of a batch are compressed; its values are those
// of the wire.
type Codec int8

// The codecs that Kafka knows.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

// String returns the name that Kafka gives to the codec.
func (c Codec) String() string {
	switch c {
	case CodecNone:
		return "none"
	case CodecGzip:
		return "gzip"
	case CodecSnappy:
		return "snappy"
	case CodecLZ4:
		return "lz4"
	case CodecZstd:
		return "zstd"
	}
	return "codec " + strconv.Itoa(int(c))
}

func tooLarge(limit int) error {
	return fmt.Errorf("%w: needs more than %d bytes", ErrTooLarge, limit)
}

func corruptCodec(c Codec, err error) error { return corrupt("%v: %v", c, err) }

// decompress appends what src holds to dst, at most budget bytes. Memory is
// taken as output comes or as the input's length warrants, never because the
// input says so.
func decompress(c Codec, dst, src []byte, magic int8, budget int) ([]byte, error) {
	switch c {
	case CodecGzip:
		return gunzip(dst, src, budget)
	case CodecSnappy:
		return unsnappy(dst, src, budget)
	case CodecLZ4:
		return unlz4(dst, src, magic, budget)
	case CodecZstd:
		// KIP-110: only v2 batches may be compressed with zstd.
		if magic == 2 {
			return unzstd(dst, src, budget)
		}
	}
	return nil, fmt.Errorf("%w: %v in format v%d", ErrCodec, c, magic)
}

type gunzipper struct {
	in bytes.Reader
	gz gzip.Reader
}

var gunzippers = sync.Pool{New: func() any { return new(gunzipper) }}

const (
	gzipMaxRatio   = 1032
	gzipTrailerLen = 8
)

// gunzip reads one or more gzip members.
func gunzip(dst, src []byte, budget int) ([]byte, error) {
	g := gunzippers.Get().(*gunzipper)
	defer gunzippers.Put(g)
	g.in.Reset(src)
	defer g.in.Reset(nil)
	if err := g.gz.Reset(&g.in); err != nil {
		return nil, corruptCodec(CodecGzip, err)
	}
	end := len(dst) + budget
	dst = slices.Grow(dst, gzipSize(src, budget)+1)
	for {
		if len(dst) > end {
			return nil, tooLarge(budget)
		}
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(len(dst), budget)+1)
		}
		n, err := g.gz.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			if len(dst) > end {
				return nil, tooLarge(budget)
			}
			return dst, nil
		}
		if err != nil {
			return nil, corruptCodec(CodecGzip, err)
		}
	}
}

// gzipSize returns the size that the last member claims, if that can be so.
func gzipSize(src []byte, budget int) int {
	if len(src) < gzipTrailerLen {
		return 0
	}
	claimed := uint64(binary.LittleEndian.Uint32(src[len(src)-4:]))
	return int(min(claimed, uint64(len(src))*gzipMaxRatio, uint64(budget)))
}

var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// xerialHeaderLen is magic, version and lowest compatible version. Writers
// disagree about the byte order of the versions; nothing depends on them.
const xerialHeaderLen = 16

// unsnappy reads a bare snappy block, or the chunks that the xerial library of
// the Java clients writes.
func unsnappy(dst, src []byte, budget int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return unsnappyBlock(dst, src, budget)
	}
	if len(src) < xerialHeaderLen {
		return nil, corrupt("snappy: header cut after %d bytes", len(src))
	}
	src = src[xerialHeaderLen:]
	start := len(dst)
	for len(src) > 0 {
		if len(src) < 4 {
			return nil, corrupt("snappy: %d bytes behind the last chunk", len(src))
		}
		n := uint64(binary.BigEndian.Uint32(src))
		src = src[4:]
		if n > uint64(len(src)) {
			return nil, corrupt("snappy: chunk of %d bytes with %d left", n, len(src))
		}
		var err error
		if dst, err = unsnappyBlock(dst, src[:n], budget-(len(dst)-start)); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return dst, nil
}

// snappyMaxRatio is a little more than what its densest element, a copy of 64
// bytes in 3, can make of a byte.
const snappyMaxRatio = 22

func unsnappyBlock(dst, src []byte, budget int) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return nil, corruptCodec(CodecSnappy, err)
	}
	if uint64(n) > uint64(len(src))*snappyMaxRatio {
		return nil, corrupt("snappy: %d bytes said to hold %d", len(src), n)
	}
	if n > budget {
		return nil, tooLarge(budget)
	}
	dst = slices.Grow(dst, n)
	if _, err := snappy.Decode(dst[len(dst):len(dst)+n], src); err != nil {
		return nil, corruptCodec(CodecSnappy, err)
	}
	return dst[:len(dst)+n], nil
}

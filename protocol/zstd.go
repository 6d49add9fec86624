package protocol

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	zstdMaxBlock  = 128 << 10 // what one block can hold
	zstdMaxWindow = 128 << 20 // as other decoders, unless told otherwise
	zstdMinWindow = 1 << 10
	zstdGuess     = 4 // times the length of a frame that does not tell its size
	zstdSlack     = 64
)

// A decoder has no goroutines as long as only DecodeAll is used, so that the
// pool may drop it.
var unzstds = sync.Pool{New: func() any {
	d, err := newUnzstd(nil, zstdMaxWindow)
	if err != nil {
		return err
	}
	return d
}}

func newUnzstd(r io.Reader, window int) (*zstd.Decoder, error) {
	return zstd.NewReader(r,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(uint64(max(window, zstdMinWindow))),
		zstd.IgnoreChecksum(true)) // the batch has its own
}

// unzstd reads zstd frames.
func unzstd(dst, src []byte, budget int) ([]byte, error) {
	most, likely, err := zstdSizes(src)
	if err != nil {
		return nil, err
	}
	if most > budget {
		return unzstdSlowly(dst, src, budget)
	}
	d, ok := unzstds.Get().(*zstd.Decoder)
	if !ok {
		return nil, corrupt("zstd: decoder cannot be made")
	}
	defer unzstds.Put(d)
	dst, err = d.DecodeAll(src, slices.Grow(dst, likely+zstdSlack))
	if err != nil {
		return nil, corruptCodec(CodecZstd, err)
	}
	return dst, nil
}

// unzstdSlowly stops as soon as there is more than budget bytes.
func unzstdSlowly(dst, src []byte, budget int) ([]byte, error) {
	d, err := newUnzstd(bytes.NewReader(src), min(budget, zstdMaxWindow))
	if err != nil {
		return nil, corruptCodec(CodecZstd, err)
	}
	defer d.Close()
	for end := len(dst) + budget; ; {
		if len(dst) > end {
			return nil, tooLarge(budget)
		}
		dst = slices.Grow(dst, min(max(len(dst), zstdMaxBlock), budget+1))
		n, err := d.Read(dst[len(dst):min(cap(dst), end+1)])
		dst = dst[:len(dst)+n]
		switch {
		case err == io.EOF && len(dst) <= end:
			return dst, nil
		case err == io.EOF, errors.Is(err, zstd.ErrWindowSizeExceeded):
			return nil, tooLarge(budget)
		case err != nil:
			return nil, corruptCodec(CodecZstd, err)
		}
	}
}

// zstdSizes goes through the frames and the headers of their blocks, and
// returns what they can hold at most and what room to begin with. A frame
// that claims more than its blocks can hold is corrupt; the decoder would
// believe it.
func zstdSizes(src []byte) (most, likely int, err error) {
	for len(src) > 0 {
		var h zstd.Header
		if err := h.Decode(src); err != nil {
			return 0, 0, corruptCodec(CodecZstd, err)
		}
		if h.Skippable {
			if uint64(h.SkippableSize) > uint64(len(src)-h.HeaderSize) {
				return 0, 0, corrupt("zstd: frame cut")
			}
			src = src[h.HeaderSize+int(h.SkippableSize):]
			continue
		}
		blocks, holds, ok := zstdBlocks(src[h.HeaderSize:])
		if h.HasCheckSum {
			blocks += 4
		}
		size := h.HeaderSize + blocks
		if !ok || size > len(src) {
			return 0, 0, corrupt("zstd: frame cut")
		}
		if h.HasFCS && h.FrameContentSize > uint64(holds) {
			return 0, 0, corrupt("zstd: %d bytes said to hold %d", size, h.FrameContentSize)
		}
		most += holds
		if h.HasFCS {
			likely += int(h.FrameContentSize)
		} else {
			likely += min(holds, zstdGuess*size)
		}
		src = src[size:]
	}
	return most, likely, nil
}

// zstdBlocks returns the length of a frame's blocks and what they can hold.
func zstdBlocks(b []byte) (length, holds int, ok bool) {
	for length+3 <= len(b) {
		header := int(b[length]) | int(b[length+1])<<8 | int(b[length+2])<<16
		size := header >> 3
		length += 3
		switch header >> 1 & 3 {
		case 0: // stored
			holds += size
			length += size
		case 1: // one byte repeated
			holds += size
			length++
		case 2:
			holds += zstdMaxBlock
			length += size
		default:
			return 0, 0, false
		}
		if header&1 != 0 {
			return length, holds, length <= len(b)
		}
	}
	return 0, 0, false
}

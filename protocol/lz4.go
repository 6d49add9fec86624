package protocol

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/pierrec/lz4/v4"
)

const (
	lz4Magic          = 0x184D2204
	lz4Independent    = 0x20 // bits of the flag byte
	lz4BlockChecksum  = 0x10
	lz4ContentSize    = 0x08
	lz4Checksum       = 0x04
	lz4Reserved       = 0x02
	lz4Dictionary     = 0x01
	lz4StoredBlock    = 1 << 31
	lz4Window         = 64 << 10
	lz4MaxRatio       = 255
	lz4Guess          = 6 // what text hardly reaches
	lz4SmallestHeader = 7
)

// unlz4 reads lz4 frames, each block decompressed straight into dst. Checksums
// of blocks and content are skipped, since the batch has its own.
func unlz4(dst, src []byte, magic int8, budget int) ([]byte, error) {
	end := len(dst) + budget
	for {
		f, err := parseLZ4Header(src, magic)
		if err != nil {
			return nil, err
		}
		if dst, err = f.blocks(dst, end); err != nil {
			return nil, err
		}
		if src = f.src; len(src) == 0 {
			return dst, nil
		}
	}
}

// An lz4Frame is what the header of a frame says, and the bytes left.
type lz4Frame struct {
	src         []byte
	flags       byte
	blockMax    int
	contentSize uint64
}

func parseLZ4Header(src []byte, magic int8) (lz4Frame, error) {
	var f lz4Frame
	if len(src) < lz4SmallestHeader || binary.LittleEndian.Uint32(src) != lz4Magic {
		return f, corrupt("lz4: no frame in %d bytes", len(src))
	}
	f.flags = src[4]
	if f.flags>>6 != 1 || f.flags&(lz4Reserved|lz4Dictionary) != 0 {
		return f, corrupt("lz4: flags %02x", f.flags)
	}
	code := src[5] >> 4 & 7
	if code < 4 || src[5]&0x8f != 0 {
		return f, corrupt("lz4: block size %02x", src[5])
	}
	f.blockMax = 1 << (8 + 2*code)
	header := 6
	if f.flags&lz4ContentSize != 0 {
		header += 8
		if len(src) <= header {
			return f, corrupt("lz4: header cut after %d bytes", len(src))
		}
		f.contentSize = binary.LittleEndian.Uint64(src[6:])
	}
	sum := src[header]
	// KAFKA-3160: clients of format v0 took the magic number into the
	// checksum. Brokers hand such frames out as they got them.
	if sum != lz4HeaderChecksum(src[4:header]) && (magic > 0 || sum != lz4HeaderChecksum(src[:header])) {
		return f, corrupt("lz4: header checksum %02x", sum)
	}
	f.src = src[header+1:]
	return f, nil
}

// blocks appends the frame's blocks to dst, which may become end bytes long.
func (f *lz4Frame) blocks(dst []byte, end int) ([]byte, error) {
	start := len(dst)
	for {
		word, ok := f.uint32()
		if !ok {
			return nil, corrupt("lz4: frame cut")
		}
		if word == 0 {
			break
		}
		size := int(word &^ lz4StoredBlock)
		if size > f.blockMax || size > len(f.src) {
			return nil, corrupt("lz4: block of %d bytes with %d left", size, len(f.src))
		}
		var err error
		if dst, err = f.block(dst, f.src[:size], word&lz4StoredBlock != 0, start, end); err != nil {
			return nil, err
		}
		f.src = f.src[size:]
		if f.flags&lz4BlockChecksum != 0 {
			if _, ok := f.uint32(); !ok {
				return nil, corrupt("lz4: frame cut")
			}
		}
	}
	if f.flags&lz4Checksum != 0 {
		if _, ok := f.uint32(); !ok {
			return nil, corrupt("lz4: frame cut")
		}
	}
	if f.flags&lz4ContentSize != 0 && f.contentSize != uint64(len(dst)-start) {
		return nil, corrupt("lz4: %d bytes, should be %d", len(dst)-start, f.contentSize)
	}
	return dst, nil
}

// block appends one block. How much it holds is only known when it is
// decompressed; blocks are mostly far smaller than the frame allows, so that
// what is likely to be enough is tried first.
func (f *lz4Frame) block(dst, block []byte, stored bool, start, end int) ([]byte, error) {
	if stored {
		if len(block) > end-len(dst) {
			return nil, tooLarge(end - start)
		}
		return append(dst, block...), nil
	}
	most := min(f.blockMax, lz4MaxRatio*len(block), end-len(dst))
	room := min(most, max(lz4Guess*len(block), cap(dst)-len(dst)))
	for {
		dst = slices.Grow(dst, room)
		out := dst[len(dst) : len(dst)+room]
		var n int
		var err error
		if f.flags&lz4Independent != 0 {
			n, err = lz4.UncompressBlock(block, out)
		} else {
			n, err = lz4.UncompressBlockWithDict(block, out, dst[max(start, len(dst)-lz4Window):])
		}
		switch {
		case err == nil:
			return dst[:len(dst)+n], nil
		case room < most:
			room = most
		case most == end-len(dst):
			return nil, tooLarge(end - start)
		default:
			return nil, corruptCodec(CodecLZ4, err)
		}
	}
}

func (f *lz4Frame) uint32() (uint32, bool) {
	if len(f.src) < 4 {
		return 0, false
	}
	v := binary.LittleEndian.Uint32(f.src)
	f.src = f.src[4:]
	return v, true
}

func lz4HeaderChecksum(b []byte) byte { return byte(xxh32(b) >> 8) }

// xxh32 is the 32-bit xxHash with seed 0, which lz4 frames are checked with.
func xxh32(b []byte) uint32 {
	const (
		p1 = 2654435761
		p2 = 2246822519
		p3 = 3266489917
		p4 = 668265263
		p5 = 374761393
	)
	h := uint32(p5)
	n := uint32(len(b))
	if len(b) >= 16 {
		var seed uint32
		lanes := [4]uint32{seed + p1, seed, seed, seed - p1}
		lanes[0] += p2
		lanes[1] += p2
		for ; len(b) >= 16; b = b[16:] {
			for i := range lanes {
				lanes[i] = bits.RotateLeft32(lanes[i]+binary.LittleEndian.Uint32(b[4*i:])*p2, 13) * p1
			}
		}
		h = bits.RotateLeft32(lanes[0], 1) + bits.RotateLeft32(lanes[1], 7) +
			bits.RotateLeft32(lanes[2], 12) + bits.RotateLeft32(lanes[3], 18)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h ^= h >> 15
	h *= p2
	h ^= h >> 13
	h *= p3
	return h ^ h>>16
}

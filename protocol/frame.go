package protocol

import (
	"encoding/binary"
	"math"
)

const frameLengthBytes = 4

// AppendRequestHeader appends to dst four bytes for the frame's length and the
// request header: version 2 when flexible, else version 1. The caller appends
// the body and then calls FinishFrame, so dst has to be empty (but may have
// capacity). A client id beyond 32,767 bytes, the most that the header can
// hold, is cut.
func AppendRequestHeader(dst []byte, key, version int16, correlation int32, clientID string, flexible bool) []byte {
	if len(clientID) > math.MaxInt16 {
		clientID = clientID[:math.MaxInt16]
	}
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(key))
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	// KIP-482 left the client id a plain string even in the flexible header,
	// so that a broker can read it whatever the version.
	dst = appendString(dst, clientID, false)
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

// FinishFrame writes the length of a frame begun by AppendRequestHeader into
// its first four bytes and returns it.
func FinishFrame(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-frameLengthBytes))
	return frame
}

func appendString(dst []byte, s string, flexible bool) []byte {
	if flexible {
		dst = appendUvarint(dst, uint32(len(s))+1)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	}
	return append(dst, s...)
}

func appendArrayLen(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return appendUvarint(dst, uint32(n)+1)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

func appendUvarint(dst []byte, v uint32) []byte {
	return binary.AppendUvarint(dst, uint64(v))
}

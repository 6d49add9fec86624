package batch

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// A Message is one message of format 0 or 1, or, with a Codec and a Value of
// compressed messages, a wrapper made by hand. Nil Key and Value are null.
type Message struct {
	Offset        int64
	Magic         int8
	Codec         Codec
	Timestamp     time.Time // magic 1 only; zero: -1, no timestamp
	LogAppendTime bool
	Key, Value    []byte

	Size        *int32
	CRC         *uint32
	Attributes  *int8
	KeyLength   *int32
	ValueLength *int32
}

// Bytes encodes the message.
func (m Message) Bytes() []byte {
	attributes := int8(m.Codec)
	if m.LogAppendTime {
		attributes |= 1 << 3
	}
	body := []byte{byte(m.Magic), byte(or(m.Attributes, attributes))}
	if m.Magic == 1 {
		millis := int64(-1)
		if !m.Timestamp.IsZero() {
			millis = m.Timestamp.UnixMilli()
		}
		body = binary.BigEndian.AppendUint64(body, uint64(millis))
	}
	body = appendSized(body, m.Key, m.KeyLength)
	body = appendSized(body, m.Value, m.ValueLength)

	out := binary.BigEndian.AppendUint64(nil, uint64(m.Offset))
	out = binary.BigEndian.AppendUint32(out, uint32(or(m.Size, int32(4+len(body)))))
	out = binary.BigEndian.AppendUint32(out, or(m.CRC, crc32.ChecksumIEEE(body)))
	return append(out, body...)
}

func appendSized(dst, b []byte, length *int32) []byte {
	right := int32(len(b))
	if b == nil {
		right = -1
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(or(length, right))), b...)
}

// A Wrapper is a compressed message set: messages inside a message. Its offset
// is that of its last message. In magic 1 the messages inside are numbered from
// the first one on, in magic 0 they keep their offsets.
type Wrapper struct {
	Magic         int8
	Codec         Codec
	Timestamp     time.Time
	LogAppendTime bool
	Messages      []Message // Offset: the real one; Magic is the wrapper's

	Offset       *int64  // for example 0, as brokers before 0.10 wrote it unassigned
	InnerOffsets []int64 // instead of the right ones
	InnerMagic   *int8
	Inner        []byte              // instead of Messages, before compression
	Compress     func([]byte) []byte // instead of Codec's own
	CRC          *uint32
	Attributes   *int8
}

// Bytes encodes the wrapper.
func (w Wrapper) Bytes() []byte {
	inner := w.Inner
	var last int64
	for i, m := range w.Messages {
		last = m.Offset
		if w.Inner != nil {
			continue
		}
		m.Magic = or(w.InnerMagic, w.Magic)
		if w.Magic == 1 {
			m.Offset -= w.Messages[0].Offset
		}
		if w.InnerOffsets != nil {
			m.Offset = w.InnerOffsets[i]
		}
		inner = append(inner, m.Bytes()...)
	}
	compress := w.Compress
	if compress == nil {
		compress = w.Codec.compressor(w.Magic)
	}
	return Message{
		Offset: or(w.Offset, last), Magic: w.Magic, Codec: w.Codec, Timestamp: w.Timestamp,
		LogAppendTime: w.LogAppendTime, Value: compress(inner), CRC: w.CRC, Attributes: w.Attributes,
	}.Bytes()
}

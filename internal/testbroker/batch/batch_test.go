package batch

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// expand decompresses what Codec.Compress makes.
func expand(t *testing.T, codec Codec, data []byte) []byte {
	t.Helper()
	switch codec {
	case Gzip:
		r, err := gzip.NewReader(bytes.NewReader(data))
		require.NoError(t, err)
		data, err = io.ReadAll(r)
		require.NoError(t, err)
	case Snappy:
		require.Equal(t, "\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01", string(data[:16]))
		var out []byte
		for data = data[16:]; len(data) > 0; {
			n := binary.BigEndian.Uint32(data)
			block, err := snappy.Decode(nil, data[4:4+n])
			require.NoError(t, err)
			out = append(out, block...)
			data = data[4+n:]
		}
		return out
	case LZ4:
		var err error
		data, err = io.ReadAll(lz4.NewReader(bytes.NewReader(data)))
		require.NoError(t, err)
	case Zstd:
		r, err := zstd.NewReader(nil)
		require.NoError(t, err)
		defer r.Close()
		data, err = r.DecodeAll(data, nil)
		require.NoError(t, err)
	}
	return data
}

func TestV2BatchesReadBack(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	for codec := None; codec <= Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			raw := V2{
				BaseOffset: 100, LeaderEpoch: 3, Codec: codec, Producer: &Producer{7, 2, 9}, Transactional: true,
				Records: []Record{
					{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 100_000), Timestamp: at.Add(time.Second)},
					{Timestamp: at, OffsetDelta: new(int64(5)), Headers: []Header{{"a", nil}, {"a", []byte{}}}},
				},
			}.Bytes()
			var b kmsg.RecordBatch
			require.NoError(t, b.ReadFrom(raw))
			require.Equal(t, crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)), uint32(b.CRC))
			require.Equal(t, int32(len(raw)-12), b.Length)
			require.Equal(t, int64(100), b.FirstOffset)
			require.Equal(t, int32(3), b.PartitionLeaderEpoch)
			require.Equal(t, int8(2), b.Magic)
			require.Equal(t, int16(codec)|1<<4, b.Attributes)
			require.Equal(t, int32(5), b.LastOffsetDelta)
			require.Equal(t, at.UnixMilli()+1000, b.FirstTimestamp)
			require.Equal(t, at.UnixMilli()+1000, b.MaxTimestamp)
			require.Equal(t, int64(7), b.ProducerID)
			require.Equal(t, int16(2), b.ProducerEpoch)
			require.Equal(t, int32(9), b.FirstSequence)
			require.Equal(t, int32(2), b.NumRecords)

			payload := expand(t, codec, b.Records)
			length, n := binary.Varint(payload)
			var first, second kmsg.Record
			require.NoError(t, first.ReadFrom(payload[:n+int(length)]))
			require.Equal(t, "k", string(first.Key))
			require.Len(t, first.Value, 100_000)
			require.NoError(t, second.ReadFrom(payload[n+int(length):]))
			require.Nil(t, second.Key)
			require.Nil(t, second.Value)
			require.Equal(t, int32(5), second.OffsetDelta)
			require.Equal(t, int64(-1000), second.TimestampDelta64)
			require.Nil(t, second.Headers[0].Value)
			require.NotNil(t, second.Headers[1].Value)
		})
	}
}

func TestOverriddenFieldsComeWithARightCRC(t *testing.T) {
	right := V2{Records: []Record{{Value: []byte("v")}}}
	for _, tc := range []struct {
		name   string
		change func(*V2)
		at     int // where the field is
		want   []byte
	}{
		{"length", func(b *V2) { b.Length = new(int32(-5)) }, 8, []byte{0xff, 0xff, 0xff, 0xfb}},
		{"magic", func(b *V2) { b.Magic = new(int8(9)) }, 16, []byte{9}},
		{"attributes", func(b *V2) { b.Attributes = new(int16(0x7f)) }, 21, []byte{0, 0x7f}},
		{"last offset delta", func(b *V2) { b.LastOffsetDelta = new(int32(-1)) }, 23, []byte{0xff, 0xff, 0xff, 0xff}},
		{"count", func(b *V2) { b.Count = new(int32(1 << 30)) }, 57, []byte{0x40, 0, 0, 0}},
		{"record length", func(b *V2) { b.Records[0].Length = new(int64(-1)) }, 61, []byte{1}},
		{"key length", func(b *V2) { b.Records[0].KeyLength = new(int64(-2)) }, 65, []byte{3}},
		{"header count", func(b *V2) { b.Records[0].HeaderCount = new(int64(-1)) }, 68, []byte{1}},
		{"raw record", func(b *V2) { b.Records[0].Raw = []byte("raw") }, 61, []byte("raw")},
		{"payload", func(b *V2) { b.Payload = []byte("all") }, 61, []byte("all")},
		{"compressed payload", func(b *V2) { b.Compress = func([]byte) []byte { return []byte("xyz") } }, 61, []byte("xyz")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := right
			b.Records = append([]Record(nil), right.Records...)
			tc.change(&b)
			raw := b.Bytes()
			require.Equal(t, tc.want, raw[tc.at:tc.at+len(tc.want)])
			require.Equal(t, crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)), binary.BigEndian.Uint32(raw[17:]))
		})
	}
	right.CRC = new(uint32(1))
	require.Equal(t, uint32(1), binary.BigEndian.Uint32(right.Bytes()[17:]))
}

func TestMessagesReadBack(t *testing.T) {
	raw := Message{Offset: 4, Magic: 1, Timestamp: time.UnixMilli(5), Value: []byte("v")}.Bytes()
	var m kmsg.MessageV1
	require.NoError(t, m.ReadFrom(raw))
	require.Equal(t, int64(4), m.Offset)
	require.Equal(t, int64(5), m.Timestamp)
	require.Nil(t, m.Key)
	require.Equal(t, "v", string(m.Value))
	require.Equal(t, int32(len(raw)-12), m.MessageSize)
	require.Equal(t, crc32.ChecksumIEEE(raw[16:]), uint32(m.CRC))

	raw = Message{Offset: 4, Key: []byte{}, Attributes: new(int8(5))}.Bytes()
	var v0 kmsg.MessageV0
	require.NoError(t, v0.ReadFrom(raw))
	require.Equal(t, int8(5), v0.Attributes)
	require.NotNil(t, v0.Key)
	require.Nil(t, v0.Value)
	require.Equal(t, crc32.ChecksumIEEE(raw[16:]), uint32(v0.CRC))
}

func TestWrappersNumberTheirMessagesByMagic(t *testing.T) {
	messages := []Message{{Offset: 10, Value: []byte("a")}, {Offset: 12, Value: []byte("b")}}
	for _, codec := range []Codec{Gzip, Snappy, LZ4} {
		var v1 kmsg.MessageV1
		require.NoError(t, v1.ReadFrom(Wrapper{Magic: 1, Codec: codec, Messages: messages}.Bytes()))
		require.Equal(t, int64(12), v1.Offset)
		require.Equal(t, int8(codec), v1.Attributes)
		inner := expand(t, codec, v1.Value)
		require.NoError(t, v1.ReadFrom(inner[len(inner)/2:]))
		require.Equal(t, int64(2), v1.Offset)
		require.Equal(t, "b", string(v1.Value))
	}
	var v0 kmsg.MessageV0
	require.NoError(t, v0.ReadFrom(Wrapper{Codec: Gzip, Messages: messages, Offset: new(int64(0))}.Bytes()))
	require.Zero(t, v0.Offset)
	inner := expand(t, Gzip, v0.Value)
	require.NoError(t, v0.ReadFrom(inner[len(inner)/2:]))
	require.Equal(t, int64(12), v0.Offset)
}

func TestLZ4HeaderChecksums(t *testing.T) {
	data := bytes.Repeat([]byte("kafka "), 50_000)
	for name, opts := range map[string][]lz4.Option{
		"plain": nil, "4 MB blocks with checksum": {lz4.BlockSizeOption(lz4.Block4Mb), lz4.ChecksumOption(true)}, "content size": {lz4.SizeOption(300_000)},
	} {
		t.Run(name, func(t *testing.T) {
			frame := CompressLZ4(data, opts...)
			require.Equal(t, data, expand(t, LZ4, frame))
			end := 6
			if name == "content size" {
				end = 14
			}
			require.Equal(t, frame[end], byte(xxh32(frame[4:end])>>8), "the library's own checksum")
			wrong := LZ4WrongHeaderChecksum(frame)
			require.Equal(t, wrong[end], byte(xxh32(frame[:end])>>8))
			wrong[end] = frame[end]
			require.Equal(t, frame, wrong)
		})
	}
}

func TestMarkers(t *testing.T) {
	var b kmsg.RecordBatch
	require.NoError(t, b.ReadFrom(Marker(9, Producer{ID: 5, Epoch: 1}, true).Bytes()))
	require.Equal(t, int16(1<<4|1<<5), b.Attributes)
	require.Equal(t, int64(5), b.ProducerID)
	var r kmsg.Record
	require.NoError(t, r.ReadFrom(b.Records))
	require.Equal(t, []byte{0, 0, 0, 1}, r.Key)
}

func TestXerialFramingInBothByteOrders(t *testing.T) {
	data := bytes.Repeat([]byte("kafka "), 20_000)
	big := CompressXerial(data, 32<<10, binary.BigEndian)
	little := CompressXerial(data, 32<<10, binary.LittleEndian)
	require.Equal(t, []byte{1, 0, 0, 0, 1, 0, 0, 0}, little[8:16])
	require.Equal(t, big[16:], little[16:])
	require.Equal(t, data, expand(t, Snappy, big))
	raw, err := snappy.Decode(nil, CompressSnappy(data))
	require.NoError(t, err)
	require.Equal(t, data, raw)
}

func TestLastOffset(t *testing.T) {
	require.Equal(t, int64(12), V2{BaseOffset: 10, Records: make([]Record, 3)}.LastOffset())
	require.Equal(t, int64(19), V2{BaseOffset: 10, Records: []Record{{}, {OffsetDelta: new(int64(9))}}}.LastOffset())
	require.Equal(t, int64(14), V2{BaseOffset: 10, Records: make([]Record, 3), LastOffsetDelta: new(int32(4))}.LastOffset())
	require.Equal(t, int64(10), V2{BaseOffset: 10}.LastOffset())
}

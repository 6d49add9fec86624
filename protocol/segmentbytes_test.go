package protocol

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSegmentsTellHowManyBytesTheirRecordsTake(t *testing.T) {
	recs := numbered(0, 12)
	size := func(recs ...rec) (n int64) { // of v2, without the batch's header
		return int64(len(batch{recs: recs}.encode()) - v2RecordsAt)
	}
	message0, message1 := message(0, 0, recs[0]), message(1, 0, recs[1])
	for name, tc := range map[string]struct {
		src  [][]byte
		want int64
	}{
		"two batches":         {[][]byte{batch{recs: recs[:5]}.encode(), batch{base: 5, recs: recs[5:]}.encode()}, size(recs[:5]...) + size(recs[5:]...)},
		"compressed batches":  {[][]byte{batch{codec: CodecZstd, recs: recs[:5]}.encode(), batch{base: 5, codec: CodecGzip, recs: recs[5:]}.encode()}, size(recs[:5]...) + size(recs[5:]...)},
		"messages":            {[][]byte{message0, message1}, int64(len(message0) + len(message1))},
		"a compressed set":    {[][]byte{wrapper(1, CodecGzip, 0, 1, 0, message1, message1)}, int64(2 * len(message1))},
		"with a control mark": {[][]byte{batch{recs: recs[:5]}.encode(), batch{base: 5, attributes: controlBit, recs: []rec{{offset: 5, key: []byte{0, 0, 0, 1}, value: make([]byte, 6)}}}.encode()}, size(recs[:5]...)},
	} {
		t.Run(name, func(t *testing.T) {
			segs, _, err := decodeAll(new(Decoder), bytes.Join(tc.src, nil), noLimit)
			require.NoError(t, err)
			require.Len(t, segs, 1)
			s := segs[0]
			require.Equal(t, tc.want, s.Bytes(0, s.Len()))
			cut := s.Len() / 2
			require.Equal(t, tc.want, s.Bytes(0, cut)+s.Bytes(cut, s.Len()), "cuts make up the whole")
			s.Release()
			require.Zero(t, s.Bytes(0, 0))
		})
	}
}

package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/protocol"
)

func TestARunDecodesWithTheOffsetsAskedFor(t *testing.T) {
	for _, o := range []Options{
		{Value: 10}, {Value: 100, Headers: 2}, {Value: 100, Batch: 1}, {Value: 1 << 10, JSON: true, Codec: protocol.CodecLZ4},
		{Value: 1 << 10, JSON: true, Codec: protocol.CodecZstd}, {Value: 1 << 10, JSON: true, Codec: protocol.CodecSnappy},
		{Value: 1 << 10, JSON: true, Codec: protocol.CodecGzip},
	} {
		run, err := NewRun(o)
		require.NoError(t, err)
		base := int64(7 * run.Records)
		src := append([]byte(nil), run.Bytes...)
		src = src[:run.Fill(src, base, len(src))]
		next := base
		var d protocol.Decoder
		for len(src) > 0 {
			seg, n, err := d.Decode(src, 1<<20)
			require.NoError(t, err)
			for i := range seg.Len() {
				require.Equal(t, next, seg.Offset(i))
				require.Len(t, seg.Value(i), o.Value)
				require.Equal(t, o.Headers, seg.HeaderCount(i))
				next++
			}
			src = src[n:]
		}
		require.Equal(t, base+int64(run.Records*(len(run.Starts)-1)), next)
	}
}

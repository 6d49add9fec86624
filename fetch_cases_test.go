package kafka

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// B24
func TestSnappyFramings(t *testing.T) {
	random := func(n int, first byte) []byte {
		rnd := rand.New(rand.NewPCG(3, 4))
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		b[0] = first
		return b
	}
	for name, tc := range map[string]struct {
		value    []byte
		compress func([]byte) []byte
	}{
		"xerial with little endian versions": {[]byte("v"), func(b []byte) []byte { return batch.CompressXerial(b, 32<<10, binary.LittleEndian) }},
		"xerial with big endian versions":    {[]byte("v"), func(b []byte) []byte { return batch.CompressXerial(b, 32<<10, binary.BigEndian) }},
		"a raw block":                        {[]byte("v"), batch.CompressSnappy},
		"xerial in many chunks":              {random(200_000, 1), func(b []byte) []byte { return batch.CompressXerial(b, 32<<10, binary.BigEndian) }},
		"a raw block that begins as xerial":  {random(0x82-12, 2), batch.CompressSnappy},
	} {
		for _, magic := range []int8{1, 2} {
			t.Run(fmt.Sprintf("%s, v%d", name, magic), func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
					if magic == 2 {
						b.AppendBatch("t", 0, batch.V2{Codec: batch.Snappy, Compress: tc.compress, Records: []batch.Record{{Value: tc.value}}})
					} else {
						w := batch.Wrapper{Magic: 1, Codec: batch.Snappy, Compress: tc.compress, Messages: []batch.Message{{Value: tc.value}}}
						b.Append("t", 0, w.Bytes(), 0)
					}
					got := pollN(t, reader(t, fast(b), tp0), 1)
					require.Equal(t, tc.value, got[0].Value)
				})
			})
		}
	}
}

// B24
func TestSnappyChunkThatRunsPastTheEndIsAnError(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.AppendBatch("t", 0, batch.V2{Codec: batch.Snappy, Records: values(0, 1), Compress: func(data []byte) []byte {
			framed := batch.CompressXerial(data, 32<<10, binary.BigEndian)
			binary.BigEndian.PutUint32(framed[16:], uint32(len(framed)))
			return framed
		}})
		produce(b, "t", 0, 1)
		c := reader(t, fast(b), tp0)
		_, err := c.Poll(t.Context(), 5*time.Second)
		requireCorruptAt(t, err, 0)
		require.NoError(t, c.Seek(tp0, 2))
		require.Equal(t, []int64{2}, offsetsOf(pollN(t, c, 1)))
	})
}

// B53
func TestOffsetsForTimes(t *testing.T) {
	bubble(t, 4, func(t *testing.T, b *testbroker.Cluster) {
		at := func(ms int64) time.Time { return time.UnixMilli(ms) }
		for p := range int32(2) {
			b.AppendBatch("t", p, batch.V2{Records: []batch.Record{{Timestamp: at(1000)}, {Timestamp: at(2000)}}})
			b.AppendBatch("t", p, batch.V2{Records: []batch.Record{{Timestamp: at(3000)}}})
		}
		c := openConsumer(t, fast(b))
		// partition 1 is led by the other node, which refuses at first; 2 is empty.
		b.On(keyListOffsets).Node(2).Times(2).Fail(6)
		found, err := c.OffsetsForTimes(t.Context(), map[TopicPartition]time.Time{
			tp0: at(1500), tpAt(1): at(0), tpAt(2): at(1000), tpAt(3): at(1),
		})
		require.NoError(t, err)
		require.Len(t, found, 2)
		require.EqualValues(t, 1, found[tp0].Offset)
		require.Equal(t, at(2000), found[tp0].Timestamp)
		require.EqualValues(t, 0, found[tpAt(1)].Offset)

		found, err = c.OffsetsForTimes(t.Context(), map[TopicPartition]time.Time{tp0: at(3001)})
		require.NoError(t, err)
		require.Empty(t, found, "nothing is that young")

		asked := b.Count(keyListOffsets)
		_, err = c.OffsetsForTimes(t.Context(), map[TopicPartition]time.Time{tp0: at(-1)})
		require.Error(t, err)
		require.Equal(t, asked, b.Count(keyListOffsets))
	}, testbroker.WithNodes(2))
}

// B53
func TestOffsetsForTimesTellsWhatItFoundBesideAnError(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 1)
		produce(b, "t", 1, 1)
		b.On(keyListOffsets).Node(2).Fail(29)
		c := openConsumer(t, fast(b))
		unknown := TopicPartition{Topic: "t", Partition: 9}
		cfg := map[TopicPartition]time.Time{tp0: time.UnixMilli(0), tpAt(1): time.UnixMilli(0), unknown: time.UnixMilli(0)}
		found, err := c.OffsetsForTimes(t.Context(), cfg)
		require.Len(t, found, 1)
		require.Contains(t, found, tp0)
		require.ErrorIs(t, err, protocol.TopicAuthorizationFailed)
		failed := partitionErrors(err)
		require.ErrorIs(t, failed.of(tpAt(1)), protocol.TopicAuthorizationFailed)
		require.Error(t, failed.of(unknown))
		require.NoError(t, failed.of(tp0))
	}, testbroker.WithNodes(2))
}

// B53
func TestOffsetWithoutATimestampIsTaken(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.On(keyListOffsets).Edit(func(_ testbroker.Request, resp kmsg.Response) {
			p := &resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
			p.Offset, p.Timestamp = 5, -1
		})
		c := openConsumer(t, fast(b))
		found, err := c.OffsetsForTimes(t.Context(), map[TopicPartition]time.Time{tp0: time.UnixMilli(7)})
		require.NoError(t, err)
		require.EqualValues(t, 5, found[tp0].Offset)
		require.True(t, found[tp0].Timestamp.IsZero())
	})
}

// B53
func TestOffsetsForTimesNeedsABrokerThatKnowsTimes(t *testing.T) {
	versions := versionsUpTo(2, 1)
	versions[keyListOffsets] = testbroker.VersionRange{}
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		c := openConsumer(t, fast(b))
		_, err := c.OffsetsForTimes(t.Context(), map[TopicPartition]time.Time{tp0: time.UnixMilli(7)})
		var unsupported *UnsupportedVersionError
		require.ErrorAs(t, err, &unsupported)
	}, testbroker.WithVersions(versions))
}

// B60
func TestLagIsToTheEndThatMayBeRead(t *testing.T) {
	for _, isolation := range []IsolationLevel{ReadUncommitted, ReadCommitted} {
		t.Run(fmt.Sprintf("isolation level %d", isolation), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 100)
				producer := batch.Producer{ID: 7}
				b.AppendBatch("t", 0, batch.V2{Producer: &producer, Transactional: true, Records: values(0, 1, 2, 3, 4)})
				produce(b, "t", 0, 10)
				visible := map[IsolationLevel]int64{ReadUncommitted: 115, ReadCommitted: 100}[isolation]
				lag := func(c *Consumer) int64 {
					n, known := c.Lag(tp0)
					require.True(t, known)
					return n
				}
				cfg := fast(b)
				cfg.IsolationLevel = isolation
				held := b.On(keyFetch).Once().Hold()
				c := reader(t, cfg, tp0)
				_, known := c.Lag(tp0)
				require.False(t, known)
				held.Release()
				records, err := c.PollMax(t.Context(), time.Second, 40)
				require.NoError(t, err)
				require.Equal(t, 40, records.Len())
				require.Equal(t, visible-40, lag(c))

				require.NoError(t, c.Pause(tp0))
				produce(b, "t", 0, 100)
				time.Sleep(3 * time.Second)
				require.GreaterOrEqual(t, lag(c), visible-40, "as the last fetch told it")
				require.LessOrEqual(t, lag(c), visible+60)
				require.NoError(t, c.Resume(tp0))
				require.NoError(t, c.Seek(tp0, 10))
				_, err = c.PollMax(t.Context(), time.Second, 1)
				require.NoError(t, err)
				if isolation == ReadUncommitted {
					visible += 100
				}
				require.Equal(t, visible-11, lag(c))

				b.SetLogStart("t", 0, 90)
				b.AppendBatch("t", 0, batch.Marker(0, producer, true))
				untilPosition(t, c, tp0, 216)
				require.Zero(t, lag(c))
				require.NoError(t, c.Seek(tp0, 5000))
				require.Zero(t, lag(c), "never negative")
			})
		})
	}
}

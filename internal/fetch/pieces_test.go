package fetch

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
)

// rawBatch is a batch of size bytes whose checksum is not looked at here.
func rawBatch(rnd *rand.Rand, base int64, size int, attributes uint16) []byte {
	b := make([]byte, size)
	for i := 0; i+8 <= size; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rnd.Uint64())
	}
	be := binary.BigEndian
	be.PutUint64(b, uint64(base))
	be.PutUint32(b[8:], uint32(size-12))
	be.PutUint32(b[12:], 0)
	b[16] = 2
	be.PutUint16(b[21:], attributes)
	be.PutUint32(b[23:], 0) // last offset delta
	return b
}

// A dribble gives what it has in parts of random length.
type dribble struct {
	b    []byte
	rnd  *rand.Rand
	most int
}

func (d *dribble) Read(dst []byte) (int, error) {
	if len(d.b) == 0 {
		return 0, io.EOF
	}
	n := copy(dst, d.b[:min(len(d.b), 1+d.rnd.IntN(d.most))])
	d.b = d.b[n:]
	return n, nil
}

// readPartition has the answer for one partition read that holds the given records.
func readPartition(t *testing.T, rnd *rand.Rand, most int, records []byte) (*answer, error) {
	t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(11)
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic = "t"
	p := kmsg.NewFetchResponseTopicPartition()
	p.HighWatermark, p.RecordBatches = 1<<40, records
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	frame := resp.AppendTo(make([]byte, 4))
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))

	r := protocol.NewReader(&dribble{frame, rnd, most}, 4096)
	_, err := r.Frame()
	require.NoError(t, err)
	var fetched protocol.FetchResponse
	var part protocol.FetchedPartition
	require.NoError(t, fetched.Begin(r, 11))
	ok, err := fetched.Next(&part)
	require.NoError(t, err)
	require.True(t, ok)
	a := new(answer)
	if err := a.readRecords(&fetched, &part, 0, false); err != nil {
		return a, err
	}
	require.NoError(t, fetched.EndPartition(&part))
	require.NoError(t, fetched.End())
	return a, nil
}

func TestChunksHoldTheBatchesHoweverTheyArrive(t *testing.T) {
	const compressed, control = 4, 0x20
	sizes := map[string][]int{
		"tiny": {61, 80, 200}, "usual": {16 << 10, 60 << 10}, "mixed": {61, 300, 70 << 10, 200 << 10}, "huge": {300 << 10, 600 << 10, 1300 << 10},
	}
	for name, sizes := range sizes {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2))
			for round := range 6 {
				var want [][]byte
				total := 0
				for base := int64(0); total < 3<<20 && base < 300; base++ {
					attributes := uint16(0)
					if round%3 > 0 {
						attributes = []uint16{0, 0, 0, compressed, control}[rnd.IntN(5)]
					}
					size := sizes[rnd.IntN(len(sizes))]
					want = append(want, rawBatch(rnd, base, size, attributes))
					total += size
				}
				records := bytes.Join(want, nil)
				cut := rawBatch(rnd, int64(len(want)), 5000, 0)[:rnd.IntN(5000)]
				a, err := readPartition(t, rnd, []int{50, 3000, 300_000}[round%3], append(records, cut...))
				require.NoError(t, err)
				require.Equal(t, int64(len(want)), a.next)

				var got []byte
				for i := range a.chunks {
					c := &a.chunks[i]
					require.Equal(t, i == 0, c.first)
					if len(c.data) > pieceSize { // then it is one batch alone
						require.Equal(t, len(c.data), int(binary.BigEndian.Uint32(c.data[8:]))+12)
					}
					for b := c.data; len(b) > 0; {
						h, err := protocol.ParseBatchHeader(b)
						require.NoError(t, err)
						require.Equal(t, c.compressed, h.Compressed)
						b = b[h.Size:]
					}
					got = append(got, c.data...)
					c.recycle()
				}
				require.True(t, bytes.Equal(records, got))
			}
		})
	}
}

// A plain message of the old formats is shorter than what is looked at of a batch.
func TestSmallOldMessagesFillChunks(t *testing.T) {
	for _, tc := range []struct{ size, n int }{{0, 100_000}, {3, 40_000}, {13, 40_000}, {30, 30_000}, {31, 30_000}, {32, 7}, {0, 1}} {
		rnd := rand.New(rand.NewPCG(3, 4))
		var records []byte
		for offset := range int64(tc.n) {
			value := make([]byte, rnd.IntN(tc.size+1))
			records = append(records, batch.Message{Magic: int8(rnd.IntN(2)), Offset: offset, Value: value}.Bytes()...)
		}
		for _, most := range []int{3000, 300_000} {
			a, err := readPartition(t, rnd, most, records)
			require.NoError(t, err)
			require.Equal(t, int64(tc.n), a.next)
			require.LessOrEqual(t, len(a.chunks), len(records)/pieceSize+1)
			var got []byte
			for i := range a.chunks {
				got = append(got, a.chunks[i].data...)
				a.chunks[i].recycle()
			}
			require.True(t, bytes.Equal(records, got))
		}
	}
}

// Compressed batches that transactions' markers keep apart, say.
func TestFewBatchesKeepNoLargeBuffer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var records []byte
	for offset := range int64(20) {
		records = append(records, rawBatch(rnd, offset, 50_000, uint16(offset%2))...)
	}
	a, err := readPartition(t, rnd, 1<<20, records)
	require.NoError(t, err)
	require.Len(t, a.chunks, 20)
	var got []byte
	var memory int
	for _, c := range a.chunks {
		got = append(got, c.data...)
		memory += cap(c.data)
	}
	require.True(t, bytes.Equal(records, got))
	require.Less(t, memory, 2*len(records))
}

// Behind a few batches may stand one that was cut, or is damaged.
func TestAnAnswerThatEndsEarlyKeepsNoPooledBuffer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	few := rawBatch(rnd, 0, 10_000, 1)
	long := rawBatch(rnd, 1, 600_000, 1)
	damaged := bytes.Clone(long)
	damaged[16] = 77 // no such magic
	for name, behind := range map[string][]byte{"cut": long[:500_000], "damaged": damaged} {
		t.Run(name, func(t *testing.T) {
			a, err := readPartition(t, rnd, 1<<20, append(bytes.Clone(few), behind...))
			require.NoError(t, err)
			require.Equal(t, few, a.chunks[0].data)
			require.Less(t, cap(a.chunks[0].data), 2*len(few))
		})
	}
}

func TestDamagedAndDoubtfulBatchesBehindOthersStandAlone(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	good := bytes.Join([][]byte{rawBatch(rnd, 0, 20_000, 0), rawBatch(rnd, 1, 20_000, 0)}, nil)

	damaged := rawBatch(rnd, 2, 20_000, 0)
	damaged[16] = 77 // no such magic
	a, err := readPartition(t, rnd, 1<<20, append(bytes.Clone(good), damaged...))
	require.NoError(t, err)
	require.Len(t, a.chunks, 2)
	require.Equal(t, good, a.chunks[0].data)
	require.Equal(t, damaged[:protocol.BatchPeek], a.chunks[1].data)
	require.Equal(t, int64(-1), a.next)

	doubtful := rawBatch(rnd, 1<<50, 20_000, 0) // far beyond the end of the log
	a, err = readPartition(t, rnd, 1<<20, append(bytes.Clone(good), doubtful...))
	require.NoError(t, err)
	require.Len(t, a.chunks, 2)
	require.Equal(t, good, a.chunks[0].data)
	require.Equal(t, doubtful, a.chunks[1].data)
	require.NotEmpty(t, a.chunks[1].doubt)
}

package kafka

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const kib, mib = 1 << 10, 1 << 20

// heap is what is reachable, pools left out: they keep things for one more collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// emptyPools lets pools give up what is not needed, half of it at each collection.
func emptyPools() {
	for range 8 {
		ran := new(atomic.Bool)
		runtime.SetFinalizer(&struct{ ran *atomic.Bool }{ran}, func(any) { ran.Store(true) })
		for runtime.GC(); !ran.Load(); { // behind the finalizers of buffers
			runtime.Gosched()
		}
	}
}

// fill puts the same bytes into all partitions: batches of the given size each,
// up to perPartition, which cost the broker's memory once.
func fill(b *testbroker.Cluster, partitions int32, codec batch.Codec, size, perPartition int) {
	for p := range partitions {
		rnd := rand.New(rand.NewPCG(uint64(p), 1))
		for n := 0; n < perPartition; n += size {
			records := make([]batch.Record, 10)
			for i := range records {
				records[i].Value = make([]byte, size/10)
				if codec == batch.None { // else as compressible as can be
					for k := 0; k < len(records[i].Value); k += 64 {
						records[i].Value[k] = byte(rnd.Uint32())
					}
				}
			}
			b.AppendBatch("t", p, batch.V2{Codec: codec, Records: records})
		}
	}
}

// B44 at a smaller scale, read to the end: as much more than the buffers hold.
func TestMemoryIsBounded(t *testing.T) {
	for name, codec := range map[string]batch.Codec{"uncompressed": batch.None, "highly compressed": batch.LZ4} {
		t.Run(name, func(t *testing.T) { memoryIsBounded(t, codec) })
	}
}

func memoryIsBounded(t *testing.T, codec batch.Codec) {
	const (
		partitions = 60
		buffers    = 8 * mib
		batchSize  = 100 * kib
	)
	bound := buffers + int64(decodeWorkers()+2)*batchSize*11/10 // one batch per decoder and per broker
	watch, most := watchBuffered(t)
	bubble(t, partitions, func(t *testing.T, b *testbroker.Cluster) {
		fill(b, partitions, codec, batchSize, 800*kib)
		cfg := fast(b)
		cfg.MaxBufferedBytes, cfg.FetchMaxBytes, cfg.MaxPartitionFetchBytes = buffers, 4*mib, 400*kib
		var tps []TopicPartition
		for p := range int32(partitions) {
			tps = append(tps, tpAt(p))
		}
		before := heap()
		c := reader(t, cfg, tps...)
		watch(c)

		var counted [partitions]int64
		for range 20 {
			records, err := c.PollMax(t.Context(), time.Second, 1)
			require.NoError(t, err)
			for r := range records.All() {
				require.Equal(t, counted[r.Partition], r.Offset)
				counted[r.Partition]++
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond)
		stopped := b.Count(keyFetch)
		grown := heap() - before
		require.Less(t, grown, 2*bound, "the buffers, and what the broker's and the test's own work leave")
		time.Sleep(300 * time.Millisecond)
		require.Less(t, b.Count(keyFetch)-stopped, 10, "nothing is fetched while nobody polls")
		require.Less(t, heap()-before, grown+2*mib)

		for total := 0; total < partitions*80-20; {
			records, err := c.Poll(t.Context(), 5*time.Second)
			require.NoError(t, err)
			require.NotZero(t, records.Len(), "%d came", total)
			for r := range records.All() {
				require.Equal(t, counted[r.Partition], r.Offset)
				counted[r.Partition]++
				total++
			}
		}
		emptyPools()
		require.Less(t, heap()-before, 2*int64(mib), "nothing is held when all is read")
		for _, r := range b.Requests(keyFetch) {
			require.LessOrEqual(t, r.Message.(*kmsg.FetchRequest).MaxBytes, int32(4*mib))
		}
	})
	require.LessOrEqual(t, most(), bound)
}

// B44 as it was reported: 300 partitions of 2 MB, default settings, an application that
// takes a record now and then, and then none.
func TestMemoryIsBoundedByDefault(t *testing.T) {
	const partitions, perPartition, batchSize = 300, 2 * mib, 100 * kib
	bound := int64(64*mib) + int64(decodeWorkers()+2)*batchSize*11/10
	watch, most := watchBuffered(t)
	bubble(t, partitions, func(t *testing.T, b *testbroker.Cluster) {
		records := make([]batch.Record, 10)
		for i := range records {
			records[i].Value = make([]byte, batchSize/len(records))
		}
		for first := int64(0); first < perPartition/batchSize*10; first += 10 {
			shared := batch.V2{BaseOffset: first, Records: records}.Bytes()
			for p := range int32(partitions) {
				b.Append("t", p, shared, first+9)
			}
		}
		cfg := fast(b)
		var tps []TopicPartition
		for p := range int32(partitions) {
			tps = append(tps, tpAt(p))
		}
		before := heap()
		c := reader(t, cfg, tps...)
		watch(c)
		for range 40 {
			records, err := c.PollMax(t.Context(), 30*time.Second, 1) // an answer of 50 MB comes first
			require.NoError(t, err)
			require.Equal(t, 1, records.Len(), "there are always some")
			time.Sleep(20 * time.Millisecond)
		}
		settled := heap() - before
		require.Less(t, settled, bound*3/2)
		asked := b.Count(keyFetch)
		time.Sleep(time.Second)
		require.Less(t, heap()-before, settled+4*mib, "flat while nobody polls")
		require.Less(t, b.Count(keyFetch)-asked, 10, "nothing is fetched while nobody polls")
	})
	require.LessOrEqual(t, most(), bound)
}

// watchBuffered samples what is buffered by the consumer that watch is given, until most
// is called. It does so by the real clock: that of a bubble stands still while records flow.
func watchBuffered(t *testing.T) (watch func(*Consumer), most func() int64) {
	var watched atomic.Pointer[fetcher]
	top := int64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(500 * time.Microsecond):
			}
			if f := watched.Load(); f != nil {
				f.mu.Lock()
				top = max(top, f.table.Buffered())
				f.mu.Unlock()
			}
		}
	}()
	end := sync.OnceFunc(func() { close(stop); <-done })
	t.Cleanup(end)
	return func(c *Consumer) { watched.Store(c.fetcher) }, func() int64 { end(); return top }
}

// A paused or a slow partition holds up no other.
func TestFullPartitionHoldsUpNoOther(t *testing.T) {
	bubble(t, 3, func(t *testing.T, b *testbroker.Cluster) {
		fill(b, 3, batch.None, 100*kib, 3*mib)
		cfg := fast(b)
		cfg.MaxBufferedBytes, cfg.FetchMaxBytes, cfg.MaxPartitionFetchBytes = 2*mib, 1*mib, 500*kib
		c := reader(t, cfg, tpAt(0), tpAt(1), tpAt(2))
		_, err := c.PollMax(t.Context(), time.Second, 1)
		require.NoError(t, err)
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, c.Pause(tpAt(0)))
		got := map[int32]int64{}
		for got[1]+got[2] < 2*290 {
			records, err := c.Poll(t.Context(), 5*time.Second)
			require.NoError(t, err)
			require.NotZero(t, records.Len())
			for r := range records.All() {
				got[r.Partition]++
			}
		}
		require.NoError(t, c.Resume(tpAt(0)))
		first := position(t, c, tpAt(0))
		for position(t, c, tpAt(0)) < 310 && first < b.EndOffset("t", 0) {
			records, err := c.Poll(t.Context(), 5*time.Second)
			require.NoError(t, err)
			require.NotZero(t, records.Len())
			for r := range records.Partition(tpAt(0)) {
				require.Equal(t, first, r.Offset)
				first++
			}
		}
		require.Equal(t, b.EndOffset("t", 0), position(t, c, tpAt(0)))
	})
}

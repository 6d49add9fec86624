// Package decode compares how fast this library and franz-go decode the same record
// batches: CPU and allocations per record, without any network.
package decode

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafkaconsumer/kafka/bench/replay"
	"github.com/kafkaconsumer/kafka/protocol"
)

// pieceSize is how much this library decodes at a time.
const pieceSize = 512 << 10

func BenchmarkDecode(b *testing.B) {
	codecs := []protocol.Codec{protocol.CodecNone, protocol.CodecGzip, protocol.CodecSnappy, protocol.CodecLZ4, protocol.CodecZstd}
	for _, codec := range codecs {
		for _, size := range []int{10, 100, 1 << 10} {
			for _, headers := range []int{0, 2} {
				run, err := replay.NewRun(replay.Options{Value: size, JSON: size >= 1<<10, Headers: headers, Codec: codec})
				require.NoError(b, err)
				name := fmt.Sprintf("%v/%dB/%dheaders", codec, size, headers)
				b.Run(name+"/kafka", func(b *testing.B) { decodeKafka(b, run, false) })
				b.Run(name+"/kafka-release", func(b *testing.B) { decodeKafka(b, run, true) })
				b.Run(name+"/franz", func(b *testing.B) { decodeFranz(b, run) })
			}
		}
	}
}

// decodeKafka decodes a run and reads key and value of each record. Uncompressed
// records alias their source, which a consumer keeps or recycles; here it stays.
func decodeKafka(b *testing.B, run *replay.Run, release bool) {
	records, bytes := 0, 0
	var d protocol.Decoder
	began, before := cpu(b), allocs()
	for b.Loop() {
		for src := run.Bytes; len(src) > 0; {
			seg, n, err := d.Decode(src, pieceSize)
			if err != nil || n == 0 {
				b.Fatal(n, err)
			}
			for i := range seg.Len() {
				_, key, value := seg.Fields(i)
				bytes += len(key) + len(value)
			}
			records += seg.Len()
			src = src[n:]
			if release {
				seg.Release()
			}
		}
	}
	report(b, began, before, records)
}

func decodeFranz(b *testing.B, run *replay.Run) {
	records, bytes := 0, 0
	decompressor := kgo.DefaultDecompressor()
	began, before := cpu(b), allocs()
	for b.Loop() {
		part := kmsg.NewFetchResponseTopicPartition()
		part.HighWatermark, part.RecordBatches = 1<<40, run.Bytes
		// All batches of the run have base offset 0; this sets it for each.
		run.Fill(run.Bytes, 0, len(run.Bytes))
		p, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "t"}, &part, decompressor, nil)
		if p.Err != nil {
			b.Fatal(p.Err)
		}
		for _, r := range p.Records {
			bytes += len(r.Key) + len(r.Value)
		}
		records += len(p.Records)
	}
	report(b, began, before, records)
}

// cpu returns the CPU time of the process, garbage collection included: unlike wall
// time it does not depend on what else the machine does.
func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func report(b *testing.B, began time.Duration, before uint64, records int) {
	b.ReportMetric(float64(cpu(b)-began)/float64(records), "cpu-ns/record")
	b.ReportMetric(float64(allocs()-before)/float64(records), "allocs/record")
}

func allocs() uint64 {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return mem.Mallocs
}

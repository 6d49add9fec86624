package fetch

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/kafkaconsumer/kafka/protocol"
)

// newRound returns a function that asks for records of one partition, reads the answer,
// decodes it, hands it over, and releases it if release is set.
func newRound(t testing.TB, records []byte, release bool) func() {
	r := newRig(t)
	r.assign(1)
	r.fetch(ans{})
	s := r.plan(1, newest)
	answer := frame(&s.Request, top{}, []ans{{records: records}})
	r.answer(s)
	src := new(bytes.Reader)
	reader := protocol.NewReader(src, 32<<10)
	reader.SetMax(1 << 30)
	var resp protocol.FetchResponse
	var cuts []Cut
	return func() {
		r.table.Seek(r.p(0), 0, -1)
		if !r.table.Plan(s, newest, r.now) {
			t.Fatal("nothing to ask for")
		}
		src.Reset(answer)
		if _, err := reader.Frame(); err != nil {
			t.Fatal(err)
		}
		if err := ReadAnswer(&s.Request, &resp, reader); err != nil {
			t.Fatal(err)
		}
		r.table.Apply(s, &resp, r.now)
		for r.decode(); r.table.HasReady(); r.decode() {
			cuts = r.table.Take(1<<20, cuts[:0])
			for i := range cuts {
				r.table.HandOver(&cuts[i], cuts[i].Len())
				if release {
					cuts[i].Release()
				}
			}
		}
		r.table.CameBack()
	}
}

// numberedBatches are batches of n records of 100 bytes each.
func numberedBatches(batches, n int) (records []byte) {
	for i := range batches {
		records = append(records, v2(int64(i*n), n, large(100))...)
	}
	return records
}

func BenchmarkRound(b *testing.B) {
	for _, size := range []struct{ batches, records int }{{1, 1}, {10, 500}, {5000, 1}} {
		for _, release := range []bool{false, true} {
			b.Run(fmt.Sprintf("batches=%d/records=%d/release=%v", size.batches, size.records, release), func(b *testing.B) {
				round := newRound(b, numberedBatches(size.batches, size.records), release)
				b.ReportAllocs()
				for b.Loop() {
					round()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size.batches*size.records), "ns/record")
			})
		}
	}
}

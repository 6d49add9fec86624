package kafka

import (
	"iter"
	"slices"
	"sort"

	"github.com/kafkaconsumer/kafka/internal/fetch"
)

// Records are the records that one Poll returned, in the order of each partition.
// It may be read by several goroutines at once, but not while Release is called.
type Records struct {
	cuts     []fetch.Cut
	ends     []int // number of records up to and with each cut
	next     map[TopicPartition]OffsetAndMetadata
	released bool
}

func newRecords(cuts []fetch.Cut) *Records {
	r := &Records{cuts: cuts}
	if len(cuts) == 0 {
		return r
	}
	r.ends = make([]int, len(cuts))
	n := 0
	for i := range cuts {
		n += cuts[i].Len()
		r.ends[i] = n
	}
	return r
}

// Len returns the number of records.
func (r *Records) Len() int {
	if len(r.ends) == 0 {
		return 0
	}
	return r.ends[len(r.ends)-1]
}

// All ranges over the records, partition by partition. It panics after Release.
func (r *Records) All() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		r.checkReleased("All")
		for i := range r.cuts {
			if !yieldCut(&r.cuts[i], yield) {
				return
			}
		}
	}
}

func yieldCut(c *fetch.Cut, yield func(Record) bool) bool {
	tp := c.TP()
	for i := c.From; i < c.To; i++ {
		if !yield(makeRecord(tp, c.Seg, i)) {
			return false
		}
	}
	return true
}

// At returns record i, counted from 0 in the order of All. It panics when i is
// not below Len, and after Release.
func (r *Records) At(i int) Record {
	r.checkReleased("At")
	k := sort.SearchInts(r.ends, i+1)
	c := &r.cuts[k]
	return makeRecord(c.TP(), c.Seg, c.To-(r.ends[k]-i))
}

// Partitions returns the partitions that have records, in the order of All.
func (r *Records) Partitions() []TopicPartition {
	tps := make([]TopicPartition, 0, len(r.cuts))
	for i := range r.cuts {
		tps = append(tps, r.cuts[i].TP())
	}
	return slices.Compact(tps)
}

// Partition ranges over the records of one partition. It panics after Release.
func (r *Records) Partition(tp TopicPartition) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		r.checkReleased("Partition")
		for i := range r.cuts {
			if r.cuts[i].TP() == tp && !yieldCut(&r.cuts[i], yield) {
				return
			}
		}
	}
}

// NextOffsets returns the positions behind these records: what to commit once all
// of them are worked off. It includes offsets that follow and hold nothing visible.
func (r *Records) NextOffsets() map[TopicPartition]OffsetAndMetadata { return r.next }

// Release says that no record of r, and nothing got from one, will be used any
// more (Record.Clone excepted), so that its memory can be used again. It must not be
// called while another goroutine reads r. It is never needed: without it the garbage
// collector does its work. Calling it twice does nothing. In a program built with
// -race the memory is overwritten, so that use after Release shows.
func (r *Records) Release() {
	if !r.released {
		r.released = true
		fetch.Recycle()
		releaseCuts(r.cuts)
		r.cuts, r.ends = nil, nil
	}
}

func releaseCuts(cuts []fetch.Cut) {
	for i := range cuts {
		cuts[i].Release()
	}
}

func (r *Records) checkReleased(method string) {
	if r.released {
		panic("kafka: Records." + method + " called after Release")
	}
}

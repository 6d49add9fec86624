package kafka

import (
	"iter"
	"slices"
	"sort"
	"sync"

	"github.com/kafkaconsumer/kafka/internal/fetch"
)

// Records are the records that one Poll returned, in the order of each partition.
// It may be read by several goroutines at once, but not while Release is called.
// A nil *Records, which comes beside an error, is empty.
type Records struct {
	list     *cutList // nil: none, or released
	marks    []mark   // one for each cut
	released bool
}

// A mark is where a cut ends.
type mark struct {
	tp    TopicPartition
	end   int // number of records up to and with the cut
	next  fetch.Offset
	known bool // the partition had a position, which is next
}

// A cutList is the cuts of Records, used again when they are released.
type cutList struct{ cuts []fetch.Cut }

var cutLists = sync.Pool{New: func() any { return new(cutList) }}

func newCutList() *cutList { return cutLists.Get().(*cutList) }

// recycle gives the list back; its cuts were released.
func (l *cutList) recycle() {
	clear(l.cuts)
	l.cuts = l.cuts[:0]
	cutLists.Put(l)
}

// A recordsMaker makes the small parts of Records, several at a time.
type recordsMaker struct {
	marks   []mark
	records []Records
}

const (
	marksAtOnce   = 128
	recordsAtOnce = 16
)

var recordsMakers = sync.Pool{New: func() any { return new(recordsMaker) }}

// newRecords makes Records of cuts that were handed over, which become its own.
func newRecords(table *fetch.Table, list *cutList) *Records {
	maker := recordsMakers.Get().(*recordsMaker)
	defer recordsMakers.Put(maker)
	r := maker.new()
	r.list, r.marks = list, maker.newMarks(len(list.cuts))
	n := 0
	for i := range list.cuts {
		c := &list.cuts[i]
		m := &r.marks[i]
		n += c.Len()
		m.tp, m.end = c.TP(), n
		m.next, m.known = table.Position(table.Get(m.tp))
	}
	return r
}

// new makes several at once only if records are released: Records that are kept would
// keep those of other Polls too.
func (m *recordsMaker) new() *Records {
	if !fetch.Recycling() {
		return new(Records)
	}
	if len(m.records) == 0 {
		m.records = make([]Records, recordsAtOnce)
	}
	r := &m.records[0]
	m.records = m.records[1:]
	return r
}

func (m *recordsMaker) newMarks(n int) []mark {
	if n > len(m.marks) {
		m.marks = make([]mark, max(n, marksAtOnce))
	}
	marks := m.marks[:n:n]
	m.marks = m.marks[n:]
	return marks
}

// Len returns the number of records.
func (r *Records) Len() int {
	if r == nil || r.list == nil {
		return 0
	}
	return r.marks[len(r.marks)-1].end
}

// All ranges over the records, partition by partition. It panics after Release.
func (r *Records) All() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		r.checkReleased("All")
		for i := range r.cuts() {
			if !yieldCut(&r.list.cuts[i], yield) {
				return
			}
		}
	}
}

func (r *Records) cuts() []fetch.Cut {
	if r == nil || r.list == nil {
		return nil
	}
	return r.list.cuts
}

// yieldCut makes each record one step before it is yielded: a Record is passed as a
// copy, and copying what was stored just now stalls the processor until the stores
// are done, which costs more than all the rest.
func yieldCut(c *fetch.Cut, yield func(Record) bool) bool {
	i, end, seg := c.From, c.To, c.Seg
	if i >= end {
		return true
	}
	// Fields are set here and not by a method, since what is written through a
	// pointer goes through the write barrier while the garbage collector marks.
	even := makeRecord(c.TP(), seg, i)
	odd := even
	for {
		more := i+1 < end
		if more {
			odd.Offset, odd.Key, odd.Value = seg.Fields(i + 1)
			odd.i = i + 1
		}
		if !yield(even) {
			return false
		}
		if !more {
			return true
		}
		if i += 2; i < end {
			even.Offset, even.Key, even.Value = seg.Fields(i)
			even.i = i
		}
		if !yield(odd) {
			return false
		}
		if i >= end {
			return true
		}
	}
}

// At returns record i, counted from 0 in the order of All. It panics when i is
// not below Len, and after Release.
func (r *Records) At(i int) Record {
	r.checkReleased("At")
	k := sort.Search(len(r.marks), func(k int) bool { return r.marks[k].end > i })
	c := &r.cuts()[k]
	return makeRecord(r.marks[k].tp, c.Seg, c.To-(r.marks[k].end-i))
}

// Partitions returns the partitions that have records, in the order of All.
func (r *Records) Partitions() []TopicPartition {
	cuts := r.cuts()
	tps := make([]TopicPartition, 0, len(cuts))
	for i := range cuts {
		tps = append(tps, r.marks[i].tp)
	}
	return slices.Compact(tps)
}

// Partition ranges over the records of one partition. It panics after Release.
func (r *Records) Partition(tp TopicPartition) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		r.checkReleased("Partition")
		for i := range r.cuts() {
			if r.marks[i].tp == tp && !yieldCut(&r.list.cuts[i], yield) {
				return
			}
		}
	}
}

// NextOffsets returns the positions behind these records: what to commit once all
// of them are worked off. It includes offsets that follow and hold nothing visible.
func (r *Records) NextOffsets() map[TopicPartition]OffsetAndMetadata {
	if r == nil {
		return nil
	}
	next := make(map[TopicPartition]OffsetAndMetadata, len(r.marks))
	for _, m := range r.marks {
		if m.known {
			next[m.tp] = OffsetAndMetadata{Offset: m.next.Offset}.WithLeaderEpoch(m.next.Epoch)
		}
	}
	return next
}

// Release says that no record of r, and nothing got from one, will be used any
// more (Record.Clone excepted), so that its memory can be used again. It must not be
// called while another goroutine reads r. It is never needed: without it the garbage
// collector does its work. Calling it twice does nothing. In a program built with
// -race the memory is overwritten, so that use after Release shows.
func (r *Records) Release() {
	if r != nil && !r.released {
		r.released = true
		fetch.Recycle()
		if r.list != nil {
			releaseCuts(r.list.cuts)
			r.list.recycle()
			r.list = nil
		}
	}
}

func releaseCuts(cuts []fetch.Cut) {
	for i := range cuts {
		cuts[i].Release()
	}
}

func (r *Records) checkReleased(method string) {
	if r != nil && r.released {
		panic("kafka: Records." + method + " called after Release")
	}
}

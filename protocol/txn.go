package protocol

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// A txnFilter tells which transactional batches of an answer were aborted. A
// producer's batches are dropped from the first offset of an aborted
// transaction to its abort marker.
type txnFilter struct {
	ahead  []AbortedTxn // by first offset; not reached yet
	held   []AbortedTxn // what ahead is cut from, kept for its memory
	active []int64      // producers inside an aborted transaction: few
}

func (f *txnFilter) begin(aborted []AbortedTxn) {
	f.active = f.active[:0]
	f.held = append(f.held[:0], aborted...)
	slices.SortStableFunc(f.held, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	f.ahead = f.held
}

// aborts moves on to the batch and says whether it is part of an aborted
// transaction. Asking twice for the same batch is harmless.
func (f *txnFilter) aborts(h *BatchHeader) bool {
	for len(f.ahead) > 0 && f.ahead[0].FirstOffset < h.NextOffset {
		if id := f.ahead[0].ProducerID; !slices.Contains(f.active, id) {
			f.active = append(f.active, id)
		}
		f.ahead = f.ahead[1:]
	}
	return h.Transactional && len(f.active) > 0 && slices.Contains(f.active, h.ProducerID)
}

// ended takes note of the producer's abort marker.
func (f *txnFilter) ended(producer int64) {
	if i := slices.Index(f.active, producer); i >= 0 {
		f.active = slices.Delete(f.active, i, i+1)
	}
}

const abortMarker = 0

// control checks a control batch, none of whose records is for the
// application, and ends the transaction that it marks as aborted.
func (d *Decoder) control(w *recordWalk, h *BatchHeader, count int) error {
	if count == 0 {
		return w.finish()
	}
	w.enter(0, 0)
	var first [1]entry
	if err := w.index(first[:]); err != nil {
		return err
	}
	key := w.data[first[0].key:][:max(first[0].keyLen, 0)]
	if len(key) < 4 {
		return corrupt("control record with a key of %d bytes", len(key))
	}
	if err := w.check(count - 1); err != nil {
		return err
	}
	if err := w.finish(); err != nil {
		return err
	}
	if d.ReadCommitted && binary.BigEndian.Uint16(key[2:]) == abortMarker {
		d.txn.ended(h.ProducerID)
	}
	return nil
}

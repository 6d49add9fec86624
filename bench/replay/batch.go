package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/kafkaconsumer/kafka/protocol"
)

const (
	keySize = 10
	// runSize is about how many bytes of different batches there are: what a
	// partition gives in one answer at default settings.
	runSize = 1 << 20
	// stampSize is the length of the time that a value begins with when records
	// come at a rate.
	stampSize = 8

	crcAt     = 17
	crcStart  = 21
	recordsAt = 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Run is a sequence of batches that hold the same number of records each.
type Run struct {
	Bytes   []byte
	Starts  []int // of each batch in Bytes, and the end
	Records int   // in each batch
}

// NewRun makes batches, the same ones for the same options.
func NewRun(o Options) (*Run, error) {
	o = o.withDefaults()
	g := &generator{o: o, rnd: rand.NewChaCha8([32]byte{'r', 'e', 'p', 'l', 'a', 'y'})}
	first := g.record(0)
	run := &Run{Records: max(1, (o.Batch-recordsAt)/len(first)), Starts: []int{0}}
	for len(run.Bytes) == 0 || len(run.Bytes)+run.Starts[1] <= runSize {
		batch, err := g.batch(run.Records, time.Now())
		if err != nil {
			return nil, err
		}
		run.Bytes = append(run.Bytes, batch...)
		run.Starts = append(run.Starts, len(run.Bytes))
	}
	return run, nil
}

// Fill sets the base offsets of the batches from first on in dst, which begins as
// Bytes does, and returns where the last one ends that fits in limit bytes; one
// batch fits always.
func (r *Run) Fill(dst []byte, base int64, limit int) int {
	end := 0
	for i, start := range r.Starts[:len(r.Starts)-1] {
		if i > 0 && r.Starts[i+1] > limit {
			break
		}
		binary.BigEndian.PutUint64(dst[start:], uint64(base+int64(i*r.Records)))
		end = r.Starts[i+1]
	}
	return end
}

type generator struct {
	o   Options
	rnd *rand.ChaCha8
}

// batch returns a batch of n records with base offset 0.
func (g *generator) batch(n int, now time.Time) ([]byte, error) {
	var records []byte
	for i := range n {
		records = append(records, g.record(i)...)
	}
	return encodeBatch(records, n, g.o.Codec, now)
}

func encodeBatch(records []byte, n int, codec protocol.Codec, now time.Time) ([]byte, error) {
	records, err := compress(codec, records)
	if err != nil {
		return nil, err
	}
	be := binary.BigEndian
	b := be.AppendUint64(nil, 0)
	b = be.AppendUint32(b, uint32(recordsAt-12+len(records)))
	b = be.AppendUint32(b, 0)    // leader epoch
	b = append(b, 2, 0, 0, 0, 0) // magic, room for the checksum
	b = be.AppendUint16(b, uint16(codec))
	b = be.AppendUint32(b, uint32(n-1))
	b = be.AppendUint64(b, uint64(now.UnixMilli()))
	b = be.AppendUint64(b, uint64(now.UnixMilli()+int64(n)))
	b = be.AppendUint64(b, 1<<64-1) // no producer id
	b = be.AppendUint16(b, 1<<16-1)
	b = be.AppendUint32(b, 1<<32-1)
	b = be.AppendUint32(b, uint32(n))
	b = append(b, records...)
	be.PutUint32(b[crcAt:], crc32.Checksum(b[crcStart:], castagnoli))
	return b, nil
}

// record returns the record with offset delta i.
func (g *generator) record(i int) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, int64(i))
	body = binary.AppendVarint(body, int64(i))
	body = binary.AppendVarint(body, keySize)
	body = append(body, g.noise(keySize)...)
	value := g.o.NewValue(g.rnd)
	body = binary.AppendVarint(body, int64(len(value)))
	body = append(body, value...)
	body = binary.AppendVarint(body, int64(g.o.Headers))
	for h := range g.o.Headers {
		key := fmt.Sprintf("header-%d", h)
		body = binary.AppendVarint(body, int64(len(key)))
		body = append(body, key...)
		body = binary.AppendVarint(body, keySize)
		body = append(body, g.noise(keySize)...)
	}
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// stamped returns a batch of one record whose value begins with the time.
func (g *generator) stamped(now time.Time) ([]byte, error) {
	record := g.record(0)
	// The value is the last but the headers, of which there are none.
	at := len(record) - 1 - g.o.Value
	binary.BigEndian.PutUint64(record[at:], uint64(now.UnixNano()))
	return encodeBatch(record, 1, protocol.CodecNone, now)
}

func (g *generator) noise(n int) []byte {
	b := make([]byte, n)
	_, _ = g.rnd.Read(b) // never fails
	return b
}

// NewValue returns a value of the kind that the options describe.
func (o Options) NewValue(rnd *rand.ChaCha8) []byte {
	if o.JSON {
		return document(rand.New(rnd), o.Value)
	}
	b := make([]byte, o.Value)
	_, _ = rnd.Read(b) // never fails
	return b
}

// document returns a JSON document of size bytes, or a few more.
func document(rnd *rand.Rand, size int) []byte {
	names := []string{"keyboard", "monitor", "desk lamp", "notebook", "headphones", "cable", "chair", "webcam"}
	cities := []string{"Lisbon", "Oslo", "Nairobi", "Quito", "Hanoi", "Leeds", "Turin", "Perth"}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"id":%d,"customer":"c-%06d","city":%q,"created":"2026-%02d-%02dT%02d:%02d:%02dZ","items":[`,
		rnd.Uint32(), rnd.IntN(1e6), cities[rnd.IntN(len(cities))], 1+rnd.IntN(12), 1+rnd.IntN(28), rnd.IntN(24), rnd.IntN(60), rnd.IntN(60))
	for b.Len() < size-100 {
		fmt.Fprintf(&b, `{"sku":"%08x","name":%q,"quantity":%d,"price":%d.%02d},`,
			rnd.Uint32(), names[rnd.IntN(len(names))], 1+rnd.IntN(9), rnd.IntN(500), rnd.IntN(100))
	}
	fmt.Fprintf(&b, `{"sku":"last"}],"note":"`)
	for b.Len() < size-2 {
		b.WriteByte(' ')
	}
	b.WriteString(`"}`)
	return b.Bytes()
}

func compress(codec protocol.Codec, src []byte) ([]byte, error) {
	var b bytes.Buffer
	switch codec {
	case protocol.CodecNone:
		return src, nil
	case protocol.CodecSnappy:
		return snappy.Encode(nil, src), nil
	case protocol.CodecGzip:
		w := gzip.NewWriter(&b)
		if _, err := w.Write(src); err != nil {
			return nil, err
		}
		err := w.Close()
		return b.Bytes(), err
	case protocol.CodecLZ4:
		w := lz4.NewWriter(&b)
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb)); err != nil {
			return nil, err
		}
		if _, err := w.Write(src); err != nil {
			return nil, err
		}
		err := w.Close()
		return b.Bytes(), err
	case protocol.CodecZstd:
		w, err := zstd.NewWriter(nil)
		if err != nil {
			return nil, err
		}
		defer w.Close()
		return w.EncodeAll(src, nil), nil
	}
	return nil, fmt.Errorf("codec %v", codec)
}

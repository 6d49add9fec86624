package clients

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"strconv"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const floorFetchVersion = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A floor is the least that a consumer can do: it fetches, checks the CRC of
// every batch and reads every record's fields, in buffers that it uses again,
// and builds nothing. It asks one broker after the other, which must speak Fetch v12.
type floor struct {
	job     Job
	t       tally
	batch   []byte
	plain   []byte
	unzstd  *zstd.Decoder
	ungzip  gzip.Reader
	unlz4   *lz4.Reader
	offsets []int64
}

func runFloor(ctx context.Context, job Job, m *Meter) error {
	f := &floor{job: job, t: tally{m: m, job: &job}, offsets: make([]int64, job.Partitions), unlz4: lz4.NewReader(nil)}
	var err error
	if f.unzstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.IgnoreChecksum(true)); err != nil {
		return err
	}
	leaders, err := f.leaders(ctx)
	if err != nil {
		return err
	}
	errs := make(chan error, len(leaders))
	for addr, parts := range leaders {
		one := *f
		go func() { errs <- one.consume(ctx, addr, parts) }()
	}
	return ended(ctx, <-errs)
}

// leaders returns which partitions each broker leads.
func (f *floor) leaders(ctx context.Context) (map[string][]int32, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", f.job.Brokers[0])
	if err != nil {
		return nil, err
	}
	defer c.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(9)
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &f.job.Topic
	req.Topics = append(req.Topics, t)
	if _, err := c.Write(floorRequest(req)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	if err := resp.ReadFrom(body[5:]); err != nil {
		return nil, err
	}
	addrs := map[int32]string{}
	for _, b := range resp.Brokers {
		addrs[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	leaders := map[string][]int32{}
	for _, p := range resp.Topics[0].Partitions {
		leaders[addrs[p.Leader]] = append(leaders[addrs[p.Leader]], p.Partition)
	}
	return leaders, nil
}

func floorRequest(req kmsg.Request) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 4, 512), uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = append(b, 0, 0, 0, 1, 0xff, 0xff, 0) // correlation id, null client id, tags
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (f *floor) consume(ctx context.Context, addr string, parts []int32) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	r := bufio.NewReaderSize(c, 128<<10)
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(floorFetchVersion)
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch, req.ReplicaID = int32(fetchMaxWait.Milliseconds()), 1, 50<<20, -1, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = f.job.Topic
	for _, n := range parts {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = n, 1<<20
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	for {
		for i := range topic.Partitions {
			topic.Partitions[i].FetchOffset = f.offsets[topic.Partitions[i].Partition]
		}
		if _, err := c.Write(floorRequest(req)); err != nil {
			return err
		}
		if err := f.answer(r); err != nil {
			return err
		}
		f.t.flush()
	}
}

// answer reads an answer to Fetch v12.
func (f *floor) answer(r *bufio.Reader) error {
	u := &uvarints{r: r}
	u.skip(4 + 4 + 1 + 4 + 2 + 4) // length, header, throttle, error, session
	for topics := u.uvarint(); topics > 1; topics-- {
		u.skip(u.uvarint() - 1)
		for n := u.uvarint(); n > 1; n-- {
			partition := u.int32()
			u.skip(2 + 8 + 8 + 8)
			for aborted := u.uvarint(); aborted > 1; aborted-- {
				u.skip(16 + 1)
			}
			u.skip(4)
			size := u.uvarint() - 1
			if u.err != nil {
				return u.err
			}
			if err := f.records(r, partition, size); err != nil {
				return err
			}
			u.tags()
		}
		u.tags()
	}
	u.tags()
	return u.err
}

func (f *floor) records(r *bufio.Reader, partition int32, size int) error {
	for size > 61 {
		head, err := r.Peek(61)
		if err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head[8:])) + 12
		if n > size {
			break
		}
		size -= n
		b, err := r.Peek(n) // without a copy where the buffer holds it
		if err == nil {
			err = f.decode(b, partition)
			_, _ = r.Discard(n) // was peeked
		} else {
			if cap(f.batch) < n {
				f.batch = make([]byte, n)
			}
			if _, err = io.ReadFull(r, f.batch[:n]); err == nil {
				err = f.decode(f.batch[:n], partition)
			}
		}
		if err != nil {
			return err
		}
	}
	_, err := r.Discard(size)
	return err
}

func (f *floor) decode(b []byte, partition int32) error {
	be := binary.BigEndian
	if crc32.Checksum(b[21:], castagnoli) != be.Uint32(b[17:]) {
		return errors.New("checksum")
	}
	f.offsets[partition] = int64(be.Uint64(b)) + int64(be.Uint32(b[23:])) + 1
	records, err := f.decompress(b[22]&7, b[61:])
	if err != nil {
		return err
	}
	for n := be.Uint32(b[57:]); n > 0; n-- {
		length, w := varint(records)
		body := records[w : w+length]
		records = records[w+length:]
		at := 1
		for range 2 { // timestamp and offset
			_, w := varint(body[at:])
			at += w
		}
		var fields [2][]byte
		for i := range fields {
			size, w := varint(body[at:])
			at += w
			if size >= 0 {
				fields[i] = body[at : at+size]
				at += size
			}
		}
		f.t.add(fields[0], fields[1])
	}
	return nil
}

func (f *floor) decompress(codec byte, src []byte) (_ []byte, err error) {
	switch codec {
	case 0:
		return src, nil
	case 1:
		if err := f.ungzip.Reset(&sliceReader{b: src}); err != nil {
			return nil, err
		}
		return f.readAll(&f.ungzip)
	case 2:
		f.plain, err = snappy.Decode(f.plain[:cap(f.plain)], src)
	case 3:
		return f.lz4Blocks(src)
	case 4:
		f.plain, err = f.unzstd.DecodeAll(src, f.plain[:0])
	default:
		err = errors.New("codec")
	}
	return f.plain, err
}

// lz4Blocks decompresses a frame of independent blocks without content size, as
// the replay broker and the Go clients write it; others go through the library.
func (f *floor) lz4Blocks(src []byte) ([]byte, error) {
	if src[4]&0x2c != 0x24 { // independent blocks, no size of the content
		f.unlz4.Reset(&sliceReader{b: src})
		return f.readAll(f.unlz4)
	}
	f.plain = f.plain[:0]
	for src = src[7:]; ; {
		word := binary.LittleEndian.Uint32(src)
		n := int(word &^ (1 << 31))
		if n == 0 {
			return f.plain, nil
		}
		block := src[4 : 4+n]
		src = src[4+n:]
		if word>>31 != 0 {
			f.plain = append(f.plain, block...)
			continue
		}
		if cap(f.plain)-len(f.plain) < 64<<10 {
			f.plain = append(make([]byte, 0, 2*cap(f.plain)+128<<10), f.plain...)
		}
		m, err := lz4.UncompressBlock(block, f.plain[len(f.plain):cap(f.plain)])
		if err != nil {
			return nil, err
		}
		f.plain = f.plain[:len(f.plain)+m]
	}
}

func (f *floor) readAll(r io.Reader) ([]byte, error) {
	f.plain = f.plain[:0]
	for {
		if len(f.plain) == cap(f.plain) {
			f.plain = append(f.plain, 0)[:len(f.plain)]
		}
		n, err := r.Read(f.plain[len(f.plain):cap(f.plain)])
		f.plain = f.plain[:len(f.plain)+n]
		if err == io.EOF {
			return f.plain, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

type sliceReader struct{ b []byte }

func (s *sliceReader) Read(dst []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(dst, s.b)
	s.b = s.b[n:]
	return n, nil
}

func (s *sliceReader) ReadByte() (byte, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	c := s.b[0]
	s.b = s.b[1:]
	return c, nil
}

func varint(b []byte) (v, width int) {
	if c := b[0]; c < 0x80 {
		return int(c>>1) ^ -int(c&1), 1
	}
	if c := b[1]; c < 0x80 {
		u := int(b[0]&0x7f) | int(c)<<7
		return u>>1 ^ -(u & 1), 2
	}
	v64, width := binary.Varint(b)
	return int(v64), width
}

// uvarints reads the parts of an answer that are not records.
type uvarints struct {
	r   *bufio.Reader
	err error
}

func (u *uvarints) skip(n int) {
	if u.err == nil {
		_, u.err = u.r.Discard(max(n, 0))
	}
}

func (u *uvarints) uvarint() int {
	if u.err != nil {
		return 0
	}
	var v uint64
	v, u.err = binary.ReadUvarint(u.r)
	return int(v)
}

func (u *uvarints) int32() int32 {
	if u.err != nil {
		return 0
	}
	var b []byte
	if b, u.err = u.r.Peek(4); u.err != nil {
		return 0
	}
	v := int32(binary.BigEndian.Uint32(b))
	u.skip(4)
	return v
}

func (u *uvarints) tags() {
	for n := u.uvarint(); n > 0 && u.err == nil; n-- {
		u.uvarint()
		u.skip(u.uvarint())
	}
}

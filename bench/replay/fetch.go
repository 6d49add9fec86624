package replay

import (
	"encoding/binary"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// endless is the high watermark of a partition without an end.
const endless = 1 << 60

// A session is what a client told of its partitions (KIP-227). A connection has
// one at most.
type session struct {
	id    int32
	epoch int32
	parts map[int32]kmsg.FetchRequestTopicPartition
	order []int32 // of all
	live  []int32 // of those that have records, in the order in which they are served
}

// update takes a request over and returns the error code for it.
func (s *session) update(req *kmsg.FetchRequest, active int) int16 {
	if req.Version < 7 || req.SessionEpoch <= 0 {
		*s = session{parts: map[int32]kmsg.FetchRequestTopicPartition{}}
		if req.Version >= 7 && req.SessionEpoch == 0 {
			s.id, s.epoch = 1, 0
		}
	} else if s.id == 0 || req.SessionID != s.id {
		return 70 // FETCH_SESSION_ID_NOT_FOUND
	} else if req.SessionEpoch != s.epoch+1 {
		return 71 // INVALID_FETCH_SESSION_EPOCH
	} else {
		s.epoch = req.SessionEpoch
	}
	changed := false
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if _, ok := s.parts[p.Partition]; !ok {
				changed = true
			}
			s.parts[p.Partition] = p
		}
	}
	for _, t := range req.ForgottenTopics {
		for _, p := range t.Partitions {
			delete(s.parts, p)
			changed = true
		}
	}
	if changed || s.order == nil {
		s.order = slices.Sorted(maps.Keys(s.parts))
		n, _ := slices.BinarySearch(s.order, int32(active))
		s.live = slices.Clone(s.order[:n])
	}
	return 0
}

// A share is what one partition gives to an answer.
type share struct {
	partition int32
	base      int64
	bytes     int
	raw       []byte // instead of the run's first bytes
	end       int64
}

func (p *peer) fetch(f frame, id []byte, req *kmsg.FetchRequest) error {
	code := p.session.update(req, p.s.o.Active)
	if code == 0 {
		p.planAnswer(req)
		for deadline := f.arrived.Add(time.Duration(req.MaxWaitMillis) * time.Millisecond); !p.hasRecords(); p.planAnswer(req) {
			if left := time.Until(deadline); left <= 0 || !p.wait(left) {
				break
			}
		}
	} else {
		p.plan = p.plan[:0]
	}
	p.delay(f)
	return p.writeFetch(id, req, code)
}

func (p *peer) hasRecords() bool {
	return slices.ContainsFunc(p.plan, func(s share) bool { return s.bytes > 0 })
}

// wait waits for records, d at most. It returns false when the server ends.
func (p *peer) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var grown <-chan struct{}
	if p.s.log != nil {
		grown = p.s.log.wait(p.session.parts)
	}
	select {
	case <-grown:
	case <-timer.C:
	case <-p.s.closing:
		return false
	}
	return true
}

// planAnswer decides what each partition gives, those first that had to wait.
func (p *peer) planAnswer(req *kmsg.FetchRequest) {
	p.plan = p.plan[:0]
	left := int(req.MaxBytes)
	incremental := p.session.id != 0 && p.session.epoch > 0
	for _, n := range p.session.live {
		ask := p.session.parts[n]
		s := share{partition: n, end: p.s.end(n)}
		switch {
		case left <= 0:
		case p.s.log != nil:
			s.raw = p.s.log.read(n, ask.FetchOffset, min(left, int(ask.PartitionMaxBytes)))
			s.bytes = len(s.raw)
		default:
			limit := min(left, int(ask.PartitionMaxBytes))
			records := int64(p.s.run.Records)
			s.base = ask.FetchOffset / records * records
			s.bytes = p.s.run.Fill(p.scratch, s.base, limit)
		}
		left -= s.bytes
		if s.bytes > 0 || !incremental {
			p.plan = append(p.plan, s)
		}
	}
	if !incremental {
		for _, n := range p.session.order[len(p.session.live):] {
			p.plan = append(p.plan, share{partition: n})
		}
	}
	p.session.rotate()
}

// rotate lets another partition be the first of the next answer, as the last ones
// get nothing when FetchMaxBytes is small.
func (s *session) rotate() {
	if len(s.live) > 1 {
		s.live = append(s.live[1:], s.live[0])
	}
}

func (s *Server) end(partition int32) int64 {
	switch {
	case partition >= int32(s.o.Active):
		return 0
	case s.log != nil:
		return s.log.end(partition)
	}
	return endless
}

// writeFetch writes the answer. The records are written from the one copy of the
// run, whose offsets are set for one partition after the other.
func (p *peer) writeFetch(id []byte, req *kmsg.FetchRequest, code int16) error {
	flexible := req.Version >= fetchFlexible
	be := binary.BigEndian
	size := 0
	for i := range p.plan {
		size += p.plan[i].bytes
	}
	b := append(p.out[:0], 0, 0, 0, 0)
	b = append(b, id...)
	if flexible {
		b = append(b, 0)
	}
	b = be.AppendUint32(b, 0) // throttle
	if req.Version >= 7 {
		b = be.AppendUint16(b, uint16(code))
		b = be.AppendUint32(b, uint32(p.session.id))
	}
	topics := min(len(p.plan), 1)
	b = appendCount(b, topics, flexible)
	var heads []int // where what stands before each partition's records ends in b
	if topics > 0 {
		b = appendName(b, Topic, flexible)
		b = appendCount(b, len(p.plan), flexible)
		for i := range p.plan {
			if i > 0 && flexible {
				b = append(b, 0) // tags of the partition before
			}
			b = appendPartition(b, &p.plan[i], req.Version)
			heads = append(heads, len(b))
		}
		if flexible {
			b = append(b, 0, 0) // tags of the last partition and of the topic
		}
	}
	if flexible {
		b = append(b, 0)
	}
	p.out = b
	be.PutUint32(b, uint32(len(b)-4+size))
	at := 0
	for i, head := range heads {
		s := &p.plan[i]
		records := s.raw
		if s.raw == nil && s.bytes > 0 {
			p.s.run.Fill(p.scratch, s.base, s.bytes)
			records = p.scratch[:s.bytes]
		}
		buffers := net.Buffers{b[at:head], records}
		if i == len(heads)-1 {
			buffers = append(buffers, b[head:])
		}
		if _, err := buffers.WriteTo(p.c); err != nil {
			return err
		}
		at = head
	}
	if len(heads) == 0 {
		_, err := p.c.Write(b)
		return err
	}
	return nil
}

func appendPartition(b []byte, s *share, version int16) []byte {
	be := binary.BigEndian
	flexible := version >= fetchFlexible
	b = be.AppendUint32(b, uint32(s.partition))
	b = be.AppendUint16(b, 0)
	b = be.AppendUint64(b, uint64(s.end))
	b = be.AppendUint64(b, uint64(s.end)) // last stable offset
	if version >= 5 {
		b = be.AppendUint64(b, 0) // log start
	}
	if flexible {
		b = append(b, 0) // no aborted transactions
	} else {
		b = be.AppendUint32(b, 1<<32-1)
	}
	if version >= 11 {
		b = be.AppendUint32(b, 1<<32-1) // preferred replica
	}
	if flexible {
		return binary.AppendUvarint(b, uint64(s.bytes)+1)
	}
	return be.AppendUint32(b, uint32(s.bytes))
}

func appendCount(b []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(b, uint64(n)+1)
	}
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

func appendName(b []byte, name string, flexible bool) []byte {
	if flexible {
		b = binary.AppendUvarint(b, uint64(len(name))+1)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(name)))
	}
	return append(b, name...)
}

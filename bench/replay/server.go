package replay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	keyProduce     = 0
	keyFetch       = 1
	keyListOffsets = 2
	keyMetadata    = 3
	keyAPIVersions = 18

	fetchFlexible = 12
	maxFrame      = 16 << 20
)

// A Server listens on one port of the loopback interface per broker.
type Server struct {
	o         Options
	run       *Run
	log       *rateLog // nil: records without end
	topic     kmsg.MetadataResponseTopic
	listeners []net.Listener
	wg        sync.WaitGroup
	closing   chan struct{}

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// Listen starts a server.
func Listen(o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	run, err := NewRun(o)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, run: run, closing: make(chan struct{}), conns: map[net.Conn]bool{}}
	s.topic = s.describe()
	for range o.Brokers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.Close()
			return nil, err
		}
		s.listeners = append(s.listeners, l)
	}
	if o.Rate > 0 {
		s.log = newRateLog(o)
		s.wg.Go(func() { s.log.run(s.closing) })
	}
	for i, l := range s.listeners {
		s.wg.Go(func() { s.accept(l, int32(i)) })
	}
	return s, nil
}

// Addrs returns the addresses of the brokers.
func (s *Server) Addrs() []string {
	addrs := make([]string, len(s.listeners))
	for i, l := range s.listeners {
		addrs[i] = l.Addr().String()
	}
	return addrs
}

// Close ends the server and all that it started.
func (s *Server) Close() {
	close(s.closing)
	for _, l := range s.listeners {
		l.Close()
	}
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) accept(l net.Listener, node int32) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			_ = s.serve(c, node) // the client sees that its connection ended
			c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// A frame is a request and when it came.
type frame struct {
	b       []byte
	arrived time.Time
}

// serve answers the requests of one connection in order, one at a time.
func (s *Server) serve(c net.Conn, node int32) error {
	frames := make(chan frame, 16)
	ended := make(chan struct{})
	defer close(ended)
	s.wg.Go(func() {
		defer close(frames)
		r := bufio.NewReader(c)
		for {
			b, err := readFrame(r)
			if err != nil {
				return
			}
			select {
			case frames <- frame{b, time.Now()}:
			case <-ended:
				return
			}
		}
	})
	p := &peer{s: s, c: c, node: node, scratch: append([]byte(nil), s.run.Bytes...)}
	for f := range frames {
		if err := p.answer(f); err != nil {
			return err
		}
	}
	return nil
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("request of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

// A peer is one client's connection.
type peer struct {
	s       *Server
	c       net.Conn
	node    int32
	scratch []byte // the run, whose base offsets are set anew for each answer
	session session
	out     []byte
	plan    []share
}

func (p *peer) answer(f frame) error {
	if len(f.b) < 8 {
		return errors.New("request without a header")
	}
	key := int16(binary.BigEndian.Uint16(f.b))
	version := int16(binary.BigEndian.Uint16(f.b[2:]))
	id := f.b[4:8]
	if key == keyAPIVersions {
		return p.reply(f, id, apiVersions(version), false)
	}
	req := kmsg.RequestForKey(key)
	if req == nil {
		return fmt.Errorf("API %d", key)
	}
	req.SetVersion(version)
	body, err := skipHeader(f.b[8:], req.IsFlexible())
	if err != nil {
		return err
	}
	if err := req.ReadFrom(body); err != nil {
		return err
	}
	switch req := req.(type) {
	case *kmsg.MetadataRequest:
		return p.reply(f, id, p.metadata(req), req.IsFlexible())
	case *kmsg.ListOffsetsRequest:
		return p.reply(f, id, p.listOffsets(req), req.IsFlexible())
	case *kmsg.FetchRequest:
		return p.fetch(f, id, req)
	}
	return fmt.Errorf("API %d", key)
}

// skipHeader skips the client id and, in flexible versions, the tags.
func skipHeader(b []byte, flexible bool) ([]byte, error) {
	if len(b) < 2 {
		return nil, errors.New("header cut")
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	n = 2 + max(n, 0)
	if flexible {
		n++ // no client sends tags in its header
	}
	if n > len(b) {
		return nil, errors.New("header cut")
	}
	return b[n:], nil
}

func (p *peer) reply(f frame, id []byte, resp kmsg.Response, flexible bool) error {
	b := append(make([]byte, 4, 512), id...)
	if flexible {
		b = append(b, 0)
	}
	b = resp.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	p.delay(f)
	_, err := p.c.Write(b)
	return err
}

func (p *peer) delay(f frame) {
	if p.s.o.RTT > 0 {
		time.Sleep(time.Until(f.arrived.Add(p.s.o.RTT)))
	}
}

func apiVersions(version int16) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = min(version, 3)
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{
		{ApiKey: keyProduce, MinVersion: 3, MaxVersion: 9}, // not served: librdkafka sees by it that v2 batches are known
		{ApiKey: keyFetch, MinVersion: 4, MaxVersion: fetchFlexible},
		{ApiKey: keyListOffsets, MinVersion: 1, MaxVersion: 7},
		{ApiKey: keyMetadata, MinVersion: 1, MaxVersion: 9},
		{ApiKey: keyAPIVersions, MinVersion: 0, MaxVersion: 3},
	}
	if version > 3 { // KIP-511: the answer to a version that is not known
		resp.Version, resp.ErrorCode = 0, 35
	}
	return resp
}

func (p *peer) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.ControllerID = 0
	for i, addr := range p.s.Addrs() {
		host, port, _ := net.SplitHostPort(addr)
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host = int32(i), host
		n, _ := strconv.Atoi(port)
		b.Port = int32(n)
		resp.Brokers = append(resp.Brokers, b)
	}
	resp.Topics = append(resp.Topics, p.s.topic)
	return resp
}

// describe makes the topic's part of the metadata.
func (s *Server) describe() kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic = kmsg.StringPtr(Topic)
	for i := range s.o.Partitions {
		part := kmsg.NewMetadataResponseTopicPartition()
		part.Partition, part.Leader, part.LeaderEpoch = int32(i), s.leader(int32(i)), 0
		part.Replicas, part.ISR = []int32{part.Leader}, []int32{part.Leader}
		t.Partitions = append(t.Partitions, part)
	}
	return t
}

func (s *Server) leader(partition int32) int32 { return partition % int32(s.o.Brokers) }

func (p *peer) listOffsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, part := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.Offset = part.Partition, 0, 0
			if part.Timestamp == -1 {
				rp.Offset = p.s.end(part.Partition)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

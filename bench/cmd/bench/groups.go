package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafkaconsumer/kafka/bench/clients"
	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/proxy"
	"github.com/kafkaconsumer/kafka/protocol"
)

// How a group is measured: its first member runs alone for a while, whose end falls
// anywhere between two of its heartbeats, then a second one joins and is watched.
const (
	groupRuns       = 4
	groupRate       = time.Millisecond // between two records of the topic
	groupAlone      = 3 * time.Second
	groupHeartbeat  = 3 * time.Second // the default of all clients
	groupTogether   = 10 * time.Second
	groupPartitions = 6
)

// A groupFigure is how quick the members of a group are, of one run or in the median.
// What did not come within the time is that time.
type groupFigure struct {
	Client, Protocol string
	Fresh            time.Duration // first member: from its making to its first record
	Second           time.Duration // second member, likewise
	Moved, Kept      time.Duration // the longest that a partition stood when the second one came
	Heartbeats       int           // of both, in the time that they were together
}

// groupSuite measures the clients' members on a real Kafka.
type groupSuite struct {
	version string
	clients []string
	runs    int

	proxy    *proxy.Proxy // in front of the broker: it counts requests
	producer *kgo.Client
	topics   int
}

// run measures, prints, and writes a section of RESULTS.md if there is a folder.
func (s *groupSuite) run(folder string) error {
	began := time.Now()
	figures, err := s.measureAll()
	if len(figures) == 0 {
		return err
	}
	fmt.Println(groupsText(figures))
	fmt.Printf("%d runs of each, %v in all\n", s.runs, time.Since(began).Round(time.Second))
	if folder != "" {
		err = errors.Join(err, writeSection(folder, "Groups", groupsTable(s, figures)))
	}
	return err
}

func (s *groupSuite) measureAll() (figures []groupFigure, err error) {
	t := &starter{}
	defer t.cleanUp()
	defer func() {
		if r := recover(); r != nil { // how a starter fails
			err = fmt.Errorf("%v", r)
		}
	}()
	s.proxy = proxy.Start(t, "")
	cluster := broker.Start(t, s.version, broker.ClientListener(s.proxy.Addr()))
	s.proxy.SetUpstream(cluster.ClientAddr(1))
	s.producer, err = kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	defer s.producer.Close()
	if err := s.warmUp(cluster.Bootstrap()); err != nil {
		return nil, err
	}

	all := map[groupFigure][]groupFigure{} // by client and protocol
	for range s.runs {
		for _, name := range s.clients {
			for _, protocol := range clients.Members[name].Protocols {
				of := groupFigure{Client: name, Protocol: protocol}
				f, failed := s.measure(of)
				if failed != nil {
					err = errors.Join(err, fmt.Errorf("%s, %s: %w", name, protocol, failed))
					continue
				}
				all[of] = append(all[of], f)
			}
		}
	}
	for _, name := range s.clients {
		for _, protocol := range clients.Members[name].Protocols {
			of := groupFigure{Client: name, Protocol: protocol}
			if len(all[of]) > 0 {
				figures = append(figures, medianOf(all[of]))
			}
		}
	}
	return figures, err
}

// warmUp has the broker make the topic of the offsets, which the first group waits for.
func (s *groupSuite) warmUp(brokers []string) error {
	const name = "warm-up"
	ctx, cancel := context.WithTimeout(context.Background(), firstRecordWithin)
	defer cancel()
	if err := s.makeTopic(ctx, name); err != nil {
		return err
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumerGroup(name), kgo.ConsumeTopics(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer c.Close()
	return c.PollFetches(ctx).Err()
}

// makeTopic creates a topic and waits until each partition has a record: until a leader
// has learned that it is one, it is the broker that is slow.
func (s *groupSuite) makeTopic(ctx context.Context, name string) error {
	if err := createTopic(ctx, s.producer, clients.Job{Topic: name, Partitions: groupPartitions}); err != nil {
		return err
	}
	var records []*kgo.Record
	for p := range int32(groupPartitions) {
		records = append(records, &kgo.Record{Topic: name, Partition: p})
	}
	return s.producer.ProduceSync(ctx, records...).FirstErr()
}

// measure runs two members of a fresh group on a fresh topic.
func (s *groupSuite) measure(f groupFigure) (groupFigure, error) {
	s.topics++
	topic := fmt.Sprintf("group-%d", s.topics)
	job := clients.GroupJob{Brokers: []string{s.proxy.Addr()}, Group: topic, Topic: topic, Protocol: f.Protocol}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := s.makeTopic(ctx, topic); err != nil {
		return f, err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { s.feed(ctx, topic) })

	first, err := startRole("member", memberTask{f.Client, job})
	if err != nil {
		return f, err
	}
	time.Sleep(groupAlone + rand.N(groupHeartbeat))
	before := s.proxy.Asked(protocol.KeyHeartbeat)
	second, err := startRole("member", memberTask{f.Client, job})
	if err != nil {
		return f, errors.Join(err, first.end())
	}
	time.Sleep(groupTogether)
	f.Heartbeats = s.proxy.Asked(protocol.KeyHeartbeat) - before
	var a, b memberLog
	if err := errors.Join(finishMember(first, &a), finishMember(second, &b)); err != nil {
		return f, err
	}
	if len(a.Seen) == 0 {
		return f, errors.New("the first member got no record")
	}
	f.Fresh = a.Seen[0].At.Sub(a.Began)
	f.Second = groupTogether
	if len(b.Seen) > 0 {
		f.Second = b.Seen[0].At.Sub(b.Began)
	}
	f.Moved, f.Kept = stops(&a, &b)
	return f, nil
}

// feed produces to the partitions in turn until ctx ends.
func (s *groupSuite) feed(ctx context.Context, topic string) {
	tick := time.NewTicker(groupRate)
	defer tick.Stop()
	value := make([]byte, 100)
	for i := 0; ; i++ {
		select {
		case <-tick.C:
			s.producer.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(i % groupPartitions), Value: value}, nil)
		case <-ctx.Done():
			return
		}
	}
}

// stops returns for how long partitions stood at most, once the second member had
// begun: those that it got, and those that it did not.
func stops(first, second *memberLog) (moved, kept time.Duration) {
	end := first.Ended
	for p := range int32(groupPartitions) {
		times := map[int64]time.Time{} // when each record came first
		got := false
		for _, log := range []*memberLog{first, second} {
			for _, r := range log.Seen {
				if r.Partition != p {
					continue
				}
				got = got || log == second
				if was, again := times[r.Offset]; !again || r.At.Before(was) {
					times[r.Offset] = r.At
				}
			}
		}
		longest := longestGap(times, second.Began, end)
		if got {
			moved = max(moved, longest)
		} else {
			kept = max(kept, longest)
		}
	}
	return moved, kept
}

// longestGap returns the longest time between two records that reaches into the time
// from begin to end.
func longestGap(times map[int64]time.Time, begin, end time.Time) (longest time.Duration) {
	all := make([]time.Time, 0, len(times)+1)
	for _, at := range times {
		all = append(all, at)
	}
	all = append(all, end)
	slices.SortFunc(all, time.Time.Compare)
	for i := 1; i < len(all); i++ {
		if all[i].After(begin) {
			longest = max(longest, all[i].Sub(all[i-1]))
		}
	}
	return longest
}

// medianOf takes the median of each figure.
func medianOf(fs []groupFigure) groupFigure {
	middle := func(get func(groupFigure) time.Duration) time.Duration {
		var v []time.Duration
		for _, f := range fs {
			v = append(v, get(f))
		}
		slices.Sort(v)
		return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	return groupFigure{
		Client: fs[0].Client, Protocol: fs[0].Protocol,
		Fresh:      middle(func(f groupFigure) time.Duration { return f.Fresh }),
		Second:     middle(func(f groupFigure) time.Duration { return f.Second }),
		Moved:      middle(func(f groupFigure) time.Duration { return f.Moved }),
		Kept:       middle(func(f groupFigure) time.Duration { return f.Kept }),
		Heartbeats: int(middle(func(f groupFigure) time.Duration { return time.Duration(f.Heartbeats) })),
	}
}

// A memberTask is what a process that is a member is to do.
type memberTask struct {
	Client string
	Job    clients.GroupJob
}

// A memberLog is what a member consumed and when.
type memberLog struct {
	Began, Ended time.Time
	Seen         []seenRecord
	Err          string
}

type seenRecord struct {
	Partition int32
	Offset    int64
	At        time.Time
}

// playMember is a member of a group until its input ends. Then it tells what it saw,
// and ends as a crash does.
func playMember(in *json.Decoder) error {
	var t memberTask
	if err := in.Decode(&t); err != nil {
		return err
	}
	member, ok := clients.Members[t.Client]
	if !ok {
		return fmt.Errorf("no member %q", t.Client)
	}
	var mu sync.Mutex
	log := memberLog{Began: time.Now()}
	go func() {
		err := member.Run(context.Background(), t.Job, func(partition int32, offset int64) {
			at := time.Now()
			mu.Lock()
			log.Seen = append(log.Seen, seenRecord{partition, offset, at})
			mu.Unlock()
		})
		mu.Lock()
		log.Err = fmt.Sprintf("%s ended: %v", t.Client, err)
		mu.Unlock()
	}()
	var more any
	_ = in.Decode(&more) // until the input ends
	mu.Lock()
	defer mu.Unlock()
	log.Ended = time.Now()
	return json.NewEncoder(os.Stdout).Encode(&log)
}

// finishMember ends a member and takes what it saw.
func finishMember(p *process, log *memberLog) error {
	p.in.Close()
	err := json.NewDecoder(p.out).Decode(log)
	if ended := p.end(); err != nil {
		return errors.Join(ended, err)
	}
	if log.Err != "" {
		return errors.New(log.Err)
	}
	return nil
}

package metrics

import (
	"math"
	"strconv"
	"sync"
	"time"
)

// A Fetch is what a consumer measures of fetching, over all partitions. Durations are
// in nanoseconds.
type Fetch struct {
	set *Set
	counters
	latency   *Sensor // of Fetch requests that were answered
	throttled *Sensor
	lag, lead *Sensor // most and least of all partitions whose records were handed over

	counted            []*Topic // with a tally; see HandedOver
	mostLag, leastLead int64

	mu     sync.Mutex
	topics map[string]*Topic
}

// counters are measured of all topics together and of each.
type counters struct {
	size    *Sensor // bytes of records that one answer brought, as they came
	bytes   *Sensor // of records that were handed over, uncompressed
	records *Sensor
}

func newCounters(w *Windows) counters { return counters{newSensor(w), newSensor(w), newSensor(w)} }

// recordsPerAnswer is how many records were handed over for each answer that brought
// some.
func (c *counters) recordsPerAnswer(now time.Time) float64 {
	answers, records := c.size.Read(now), c.records.Read(now)
	return answers.orNaN(float64(records.sum) / float64(answers.count))
}

func (f *Fetch) init(s *Set) {
	f.set, f.counters, f.topics = s, newCounters(&s.windows), make(map[string]*Topic)
	f.latency, f.throttled = newSensor(&s.windows), newSensor(&s.windows)
	f.lag, f.lead = newSensor(&s.windows), newSensor(&s.windows)
	f.mostLag, f.leastLead = -1, math.MaxInt64
}

// Answered notes an answer to Fetch, how long it took, and what it said of throttling.
func (f *Fetch) Answered(took, throttled time.Duration, now time.Time) {
	f.latency.Record(int64(took), now)
	f.throttled.Record(int64(throttled), now)
}

// Brought notes how many bytes of records an answer brought, if any.
func (f *Fetch) Brought(bytes int64, now time.Time) {
	if bytes > 0 {
		f.size.Record(bytes, now)
	}
}

// A Topic is what is measured of one topic.
type Topic struct {
	counters
	tally      tally
	tags       string
	partitions int // that are assigned; guarded by Fetch.mu
	active     moment
}

// Brought notes how many bytes of the topic's records an answer brought, if any.
func (t *Topic) Brought(bytes int64, now time.Time) {
	if bytes > 0 {
		t.size.Record(bytes, now)
	}
}

// A Partition is what is measured of one assigned partition.
type Partition struct {
	fetch     *Fetch
	topic     *Topic
	tags      string
	lag, lead *Sensor
}

// Partition begins to measure a partition. It ends by Gone.
func (f *Fetch) Partition(topic string, number int32) *Partition {
	s := f.set
	tags := s.tags(tag{"partition", strconv.Itoa(int(number))}, tag{"topic", topic})
	p := &Partition{fetch: f, topic: f.topic(topic), tags: tags, lag: newSensor(&s.windows), lead: newSensor(&s.windows)}
	s.changes.Add(1)
	return p
}

// topic returns a topic for one more partition.
func (f *Fetch) topic(name string) *Topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topics[name]
	if t == nil {
		s := f.set
		t = &Topic{counters: newCounters(&s.windows), tags: s.tags(tag{"topic", name}), active: s.newMoment()}
		f.topics[name] = t
	}
	t.partitions++
	return t
}

// Topic returns what is measured of the partition's topic.
func (p *Partition) Topic() *Topic { return p.topic }

// HandedOver notes records of the partition that were handed over, how many bytes they
// take, and the lag and the lead behind them; negative: unknown. Flush must follow. The
// two are for one goroutine at a time.
func (p *Partition) HandedOver(records, bytes, lag, lead int64, now time.Time) {
	f, t := p.fetch, p.topic
	if t.tally == (tally{}) {
		f.counted = append(f.counted, t)
	}
	t.tally.records += records
	t.tally.bytes += bytes
	if lag >= 0 {
		p.lag.Record(lag, now)
		f.mostLag = max(f.mostLag, lag)
	}
	if lead >= 0 {
		p.lead.Record(lead, now)
		f.leastLead = min(f.leastLead, lead)
	}
}

// Flush counts what HandedOver noted.
func (f *Fetch) Flush(now time.Time) {
	var all tally
	for i, t := range f.counted {
		t.counters.handedOver(t.tally, now)
		all.records += t.tally.records
		all.bytes += t.tally.bytes
		t.tally, f.counted[i] = tally{}, nil
	}
	f.counted = f.counted[:0]
	f.counters.handedOver(all, now)
	if f.mostLag >= 0 {
		f.lag.Record(f.mostLag, now)
	}
	if f.leastLead < math.MaxInt64 {
		f.lead.Record(f.leastLead, now)
	}
	f.mostLag, f.leastLead = -1, math.MaxInt64
}

// A tally is what was handed over and is not counted yet.
type tally struct{ records, bytes int64 }

func (c *counters) handedOver(t tally, now time.Time) {
	c.records.Record(t.records, now)
	c.bytes.Record(t.bytes, now)
}

// Gone ends the measuring of a partition that is no longer assigned.
func (p *Partition) Gone() {
	f := p.fetch
	p.topic.active.note(f.set.now())
	f.set.changes.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	p.topic.partitions--
}

// gone tells whether a topic without assigned partitions has nothing to tell any more.
func (t *Topic) gone(now time.Time, span time.Duration) bool {
	since, _ := t.active.since(now)
	return t.partitions == 0 && since >= span
}

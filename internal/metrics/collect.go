package metrics

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A Value is a metric and its value. Tags are "key=value" pairs, sorted by key and joined
// by commas.
type Value struct {
	Group, Name, Tags string
	Value             float64
}

// State is where an assigned partition stands now. Unknown numbers and times are
// negative.
type State struct {
	Partition *Partition
	Lag       int64         // from the position to the end of what may be read
	Lead      int64         // from the beginning of the log to the position
	Age       time.Duration // of the record at the position
	Told      time.Duration // since the end of the log was told
	Replica   int32         // that it is fetched from, -1 for the leader
}

// fetching and grouping are what a consumer measures and where it stands.
type fetching struct {
	*Fetch
	partitions []State
}

type grouping struct {
	*Group
	partitions int
}

// oldest returns the greatest age of a partition's next record, NaN when none is known.
func (f *fetching) oldest() float64 {
	d := time.Duration(-1)
	for i := range f.partitions {
		d = max(d, f.partitions[i].Age)
	}
	if d < 0 {
		return math.NaN()
	}
	return d.Seconds()
}

// known returns n, or NaN if it is negative.
func known(n int64) float64 {
	if n < 0 {
		return math.NaN()
	}
	return float64(n)
}

// A collector gathers values.
type collector struct {
	now    time.Time
	values []Value
}

func collect[T any](c *collector, group, tags string, rows []row[T], of T) {
	for i := range rows {
		c.values = append(c.values, Value{Group: group, Name: rows[i].name, Tags: tags, Value: rows[i].read(of, c.now)})
	}
}

// Collect returns all metrics, sorted by group, name and tags. partitions are those that
// are assigned. Nodes and topics that have nothing to tell any more are forgotten.
func (s *Set) Collect(partitions []State, now time.Time) []Value {
	c := &collector{now: now}
	tags := s.tags()
	collect(c, clientGroup, tags, clientRows, &s.Client)
	for _, n := range s.liveNodes(now) {
		collect(c, nodeGroup, n.tags, nodeRows, n)
	}
	collect(c, fetchGroup, tags, fetchRows, &fetching{&s.Fetch, partitions})
	for _, t := range s.Fetch.liveTopics(now) {
		collect(c, fetchGroup, t.tags, topicRows, t)
	}
	for i := range partitions {
		collect(c, fetchGroup, partitions[i].Partition.tags, partitionRows, &partitions[i])
	}
	if s.grouped {
		collect(c, coordinatorGroup, tags, groupRows, &grouping{&s.Group, len(partitions)})
	}
	n := len(c.values) + len(countRows)
	collect(c, countGroup, tags, countRows, n)
	slices.SortFunc(c.values, func(a, b Value) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Name, b.Name), strings.Compare(a.Tags, b.Tags))
	})
	return c.values
}

var countRows = []row[int]{
	{"count", number, "Metrics that there are, this one included.", func(n int, _ time.Time) float64 { return float64(n) }},
}

func (s *Set) liveNodes(now time.Time) []*Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.nodes, func(_ int32, n *Node) bool { return n.gone(now) })
	return slices.Collect(maps.Values(s.nodes))
}

func (f *Fetch) liveTopics(now time.Time) []*Topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.topics, func(_ string, t *Topic) bool { return t.gone(now, f.set.windows.span()) })
	return slices.Collect(maps.Values(f.topics))
}

// A tag says what a metric is about.
type tag struct{ key, value string }

// tags returns the client's tag and others, which must be sorted and follow "client-id".
func (s *Set) tags(others ...tag) string {
	var b strings.Builder
	b.WriteString("client-id=" + s.clientID)
	for _, t := range others {
		b.WriteString("," + t.key + "=" + t.value)
	}
	return b.String()
}

package metrics

import (
	"slices"
	"time"
)

// A row is one metric, read off a T.
type row[T any] struct {
	name, unit, meaning string
	read                func(T, time.Time) float64
}

// Names of groups, as in Java. kafka-python has the node's name in that of the group.
const (
	countGroup       = "kafka-metrics-count"
	clientGroup      = "consumer-metrics"
	nodeGroup        = "consumer-node-metrics"
	fetchGroup       = "consumer-fetch-manager-metrics"
	coordinatorGroup = "consumer-coordinator-metrics"
)

// Units.
const (
	number    = "number"
	perSecond = "per second"
	perHour   = "per hour"
	byteCount = "bytes"
	byteRate  = "bytes per second"
	millis    = "ms"
	nanos     = "ns"
	seconds   = "s"
	share     = "0 to 1"
)

// A look is a number that a Sensor gives.
type look func(*Sensor, time.Time) float64

func rate(s *Sensor, now time.Time) float64      { return s.Read(now).Rate() }
func countRate(s *Sensor, now time.Time) float64 { return s.Read(now).CountRate() }
func hourly(s *Sensor, now time.Time) float64    { return s.Read(now).CountRate() * time.Hour.Seconds() }
func average(s *Sensor, now time.Time) float64   { return s.Read(now).Avg() }
func greatest(s *Sensor, now time.Time) float64  { return s.Read(now).Max() }
func smallest(s *Sensor, now time.Time) float64  { return s.Read(now).Min() }
func averageMS(s *Sensor, now time.Time) float64 { return ms(s.Read(now).Avg()) }
func greatestMS(s *Sensor, now time.Time) float64 {
	return ms(s.Read(now).Max())
}
func sum(s *Sensor, _ time.Time) float64   { return s.Sum() }
func sumMS(s *Sensor, _ time.Time) float64 { return ms(s.Sum()) }
func count(s *Sensor, _ time.Time) float64 { return s.Count() }

func ms(nanoseconds float64) float64 { return nanoseconds / float64(time.Millisecond) }

// of reads a look of a T's sensor.
func of[T any](sensor func(T) *Sensor, l look) func(T, time.Time) float64 {
	return func(t T, now time.Time) float64 { return l(sensor(t), now) }
}

// traffic are the rows of bytes that go over connections.
func traffic[T any](where string, sent, received func(T) *Sensor) []row[T] {
	return []row[T]{
		{"request-rate", perSecond, "Requests sent" + where + ".", of(sent, countRate)},
		{"request-total", number, "Requests sent" + where + ", ever.", of(sent, count)},
		{"request-size-avg", byteCount, "Average size of a request.", of(sent, average)},
		{"request-size-max", byteCount, "Size of the largest request.", of(sent, greatest)},
		{"outgoing-byte-rate", byteRate, "Bytes of requests sent" + where + ". TLS is not counted.", of(sent, rate)},
		{"outgoing-byte-total", byteCount, "Bytes of requests sent" + where + ", ever.", of(sent, sum)},
		{"response-rate", perSecond, "Answers received" + where + ".", of(received, countRate)},
		{"response-total", number, "Answers received" + where + ", ever.", of(received, count)},
		{"incoming-byte-rate", byteRate, "Bytes of answers received" + where + ", compressed as they are.", of(received, rate)},
		{"incoming-byte-total", byteCount, "Bytes of answers received" + where + ", ever.", of(received, sum)},
	}
}

// waits are the rows of how long requests take.
func waits[T any](latency, throttled func(T) *Sensor) []row[T] {
	return []row[T]{
		{"request-latency-avg", millis, "Average time from sending a request to having read its answer, a Fetch that the broker holds included.", of(latency, averageMS)},
		{"request-latency-max", millis, "Longest time of that kind.", of(latency, greatestMS)},
		{"throttle-time-avg", millis, "Average time for which answers said that the broker throttles this client (quotas).", of(throttled, averageMS)},
		{"throttle-time-max", millis, "Longest time of that kind.", of(throttled, greatestMS)},
	}
}

var clientRows = slices.Concat(connections, traffic("",
	func(c *Client) *Sensor { return c.sent }, func(c *Client) *Sensor { return c.received },
), waits(
	func(c *Client) *Sensor { return c.latency }, func(c *Client) *Sensor { return c.throttled },
), authentications, calls)

var connections = []row[*Client]{
	{"connection-count", number, "Connections that are open now. Each broker has up to four: for requests answered at once, for joining the group, for fetching, and for fetching beside.", func(c *Client, _ time.Time) float64 { return float64(c.open.Load()) }},
	{"connection-creation-rate", perSecond, "Connections that were opened.", of(func(c *Client) *Sensor { return c.opened }, countRate)},
	{"connection-creation-total", number, "Connections that were opened, ever.", of(func(c *Client) *Sensor { return c.opened }, count)},
	{"connection-close-rate", perSecond, "Connections that were closed, by whatever side.", of(func(c *Client) *Sensor { return c.closed }, countRate)},
	{"connection-close-total", number, "Connections that were closed, ever.", of(func(c *Client) *Sensor { return c.closed }, count)},
	{"network-io-rate", perSecond, "Requests sent and answers received.", of(func(c *Client) *Sensor { return c.exchanged }, countRate)},
	{"network-io-total", number, "Requests sent and answers received, ever.", of(func(c *Client) *Sensor { return c.exchanged }, count)},
}

var authentications = []row[*Client]{
	{"successful-authentication-rate", perSecond, "Connections on which TLS and SASL went well. None without them.", of(func(c *Client) *Sensor { return c.authenticated }, countRate)},
	{"successful-authentication-total", number, "The same, ever.", of(func(c *Client) *Sensor { return c.authenticated }, count)},
	{"failed-authentication-rate", perSecond, "Connections on which one side refused the other.", of(func(c *Client) *Sensor { return c.refused }, countRate)},
	{"failed-authentication-total", number, "The same, ever.", of(func(c *Client) *Sensor { return c.refused }, count)},
	{"successful-reauthentication-rate", perSecond, "Sessions that were renewed on their connection (KIP-368).", of(func(c *Client) *Sensor { return c.reauthenticated }, countRate)},
	{"successful-reauthentication-total", number, "The same, ever.", of(func(c *Client) *Sensor { return c.reauthenticated }, count)},
	{"failed-reauthentication-rate", perSecond, "Sessions whose renewal was refused.", of(func(c *Client) *Sensor { return c.rerefused }, countRate)},
	{"failed-reauthentication-total", number, "The same, ever.", of(func(c *Client) *Sensor { return c.rerefused }, count)},
	{"reauthentication-latency-avg", millis, "Average time that a renewal took.", of(func(c *Client) *Sensor { return c.reauthenticated }, averageMS)},
	{"reauthentication-latency-max", millis, "Longest time of that kind.", of(func(c *Client) *Sensor { return c.reauthenticated }, greatestMS)},
}

var calls = []row[*Client]{
	{"time-between-poll-avg", millis, "Average time from one poll to the next. An iterator or a channel polls when it needs a new run of records, at most MaxPollRecords of one partition.", of(func(c *Client) *Sensor { return c.between }, averageMS)},
	{"time-between-poll-max", millis, "Longest time of that kind.", of(func(c *Client) *Sensor { return c.between }, greatestMS)},
	{"last-poll-seconds-ago", seconds, "Since the last poll began; -1 before the first.", func(c *Client, now time.Time) float64 { return c.lastPoll.ago(now) }},
	{"poll-idle-ratio-avg", share, "Average share of the time that polls take; the rest is the application's.", func(c *Client, now time.Time) float64 { return c.idle.Read(now).Avg() / idleUnit }},
	{"commit-sync-time-ns-total", nanos, "Spent in Commit and CommitOffsets, ever.", func(c *Client, _ time.Time) float64 { return float64(c.committed.Load()) }},
	{"committed-time-ns-total", nanos, "Spent in Committed, ever.", func(c *Client, _ time.Time) float64 { return float64(c.lookedUp.Load()) }},
}

var nodeRows = slices.Concat(traffic(" over all connections to the broker",
	func(n *Node) *Sensor { return n.sent }, func(n *Node) *Sensor { return n.received },
), waits(
	func(n *Node) *Sensor { return n.latency }, func(n *Node) *Sensor { return n.throttled },
))

// consumed are the rows of records, of all topics or of one.
func consumed[T any](where string, c func(T) *counters) []row[T] {
	size := func(t T) *Sensor { return c(t).size }
	bytes := func(t T) *Sensor { return c(t).bytes }
	records := func(t T) *Sensor { return c(t).records }
	return []row[T]{
		{"fetch-size-avg", byteCount, "Average bytes of batches" + where + " in an answer that brought some, compressed as they are.", of(size, average)},
		{"fetch-size-max", byteCount, "Most bytes of that kind.", of(size, greatest)},
		{"bytes-consumed-rate", byteRate, "Bytes of records" + where + " that the application got, uncompressed, as a batch holds them.", of(bytes, rate)},
		{"bytes-consumed-total", byteCount, "The same, ever.", of(bytes, sum)},
		{"records-consumed-rate", perSecond, "Records" + where + " that the application got.", of(records, rate)},
		{"records-consumed-total", number, "The same, ever.", of(records, sum)},
		{"records-per-request-avg", number, "Records" + where + " that the application got, for each answer that brought some.",
			func(t T, now time.Time) float64 { return c(t).recordsPerAnswer(now) }},
	}
}

var topicRows = consumed(" of the topic", func(t *Topic) *counters { return &t.counters })

var fetchRows = slices.Concat(consumed("", func(f *fetching) *counters { return &f.counters }), []row[*fetching]{
	{"fetch-rate", perSecond, "Fetch requests that were answered.", of(func(f *fetching) *Sensor { return f.latency }, countRate)},
	{"fetch-total", number, "The same, ever.", of(func(f *fetching) *Sensor { return f.latency }, count)},
	{"fetch-latency-avg", millis, "Average time from a Fetch request to the end of its answer. A broker without new records holds a request for up to FetchMaxWait.", of(func(f *fetching) *Sensor { return f.latency }, averageMS)},
	{"fetch-latency-max", millis, "Longest time of that kind.", of(func(f *fetching) *Sensor { return f.latency }, greatestMS)},
	{"fetch-throttle-time-avg", millis, "Average time for which answers to Fetch said that the broker throttles this client.", of(func(f *fetching) *Sensor { return f.throttled }, averageMS)},
	{"fetch-throttle-time-max", millis, "Longest time of that kind.", of(func(f *fetching) *Sensor { return f.throttled }, greatestMS)},
	{"records-lag-max", number, "Greatest lag of a partition, taken each time the application gets records.", of(func(f *fetching) *Sensor { return f.lag }, greatest)},
	{"records-lead-min", number, "Smallest lead of a partition, taken likewise.", of(func(f *fetching) *Sensor { return f.lead }, smallest)},
	{"records-lag-seconds-max", seconds, "Greatest records-lag-seconds of the assigned partitions now.", func(f *fetching, _ time.Time) float64 { return f.oldest() }},
})

var partitionRows = []row[*State]{
	{"records-lag", number, "Offsets from the position to the end of what may be read now: the last stable offset under ReadCommitted, else the high watermark. Never negative. The end is the one that a broker told last.", func(s *State, _ time.Time) float64 { return known(s.Lag) }},
	{"records-lag-avg", number, "Average lag, taken each time the application gets records of the partition.", func(s *State, now time.Time) float64 { return s.Partition.lag.Read(now).Avg() }},
	{"records-lag-max", number, "Greatest lag, taken likewise.", func(s *State, now time.Time) float64 { return s.Partition.lag.Read(now).Max() }},
	{"records-lag-seconds", seconds, "Age of the record at the position now: how far behind the application is in time. 0 when there is none. When that record is not here yet, the age of the last one that the application got, which is at most too old.", func(s *State, _ time.Time) float64 { return s.seconds(s.Age) }},
	{"records-lag-told-seconds-ago", seconds, "Since a broker told the end of the log that the lag is counted to. It stays below about FetchMaxWait while the partition is fetched, and grows while it is paused, held back by a full buffer, or without a leader: the lag is as old as that.", func(s *State, _ time.Time) float64 { return s.seconds(s.Told) }},
	{"records-lead", number, "Offsets from the beginning of the log to the position. It needs Kafka 0.11.", func(s *State, _ time.Time) float64 { return known(s.Lead) }},
	{"records-lead-avg", number, "Average lead, taken each time the application gets records of the partition.", func(s *State, now time.Time) float64 { return s.Partition.lead.Read(now).Avg() }},
	{"records-lead-min", number, "Smallest lead, taken likewise.", func(s *State, now time.Time) float64 { return s.Partition.lead.Read(now).Min() }},
	{"preferred-read-replica", number, "The follower that the partition is fetched from (KIP-392), -1 for the leader.", func(s *State, _ time.Time) float64 { return float64(s.Replica) }},
}

func (s *State) seconds(d time.Duration) float64 {
	if d < 0 {
		return known(-1)
	}
	return d.Seconds()
}

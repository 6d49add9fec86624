package metrics

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

// A table is the metrics of one group with the same tags.
type table struct {
	group, tags string
	about       string
	rows        []described
}

type described struct{ name, unit, meaning string }

func describe[T any](group, tags, about string, rows []row[T]) table {
	t := table{group: group, tags: tags, about: about}
	for _, r := range rows {
		t.rows = append(t.rows, described{r.name, r.unit, r.meaning})
	}
	return t
}

// tables are all metrics.
var tables = []table{
	describe(clientGroup, "client-id", "All connections together, and the application's calls.", clientRows),
	describe(nodeGroup, "client-id,node-id", "The connections to one broker, all of them together: `node-id` is `node-1` for broker 1, and `node--1` for the bootstrap servers. They go when the broker has had no connection for all windows.", nodeRows),
	describe(fetchGroup, "client-id", "All partitions together.", fetchRows),
	describe(fetchGroup, "client-id,topic", "One topic, whose name stands in the tag as it is. They go when no partition of it has been assigned for all windows.", topicRows),
	describe(fetchGroup, "client-id,partition,topic", "One partition, while it is assigned.", partitionRows),
	describe(coordinatorGroup, "client-id", "The group, with a `GroupID`.", groupRows),
	describe(countGroup, "client-id", "", countRows),
}

// omitted are the metrics of others that have no counterpart here, and why.
var omitted = []struct {
	group, reason string
	names         []string
}{
	{"app-info", "they are texts, or about the build: see `kafka.Version`", []string{"commit-id", "start-time-ms", "version"}},
	{clientGroup, "Go's runtime waits for sockets, not the client", []string{
		"io-ratio", "io-time-ns-avg", "io-time-ns-total", "io-wait-ratio", "io-wait-time-ns-avg", "io-wait-time-ns-total", "select-rate", "select-total",
	}},
	{clientGroup, "a broker's metric about clients that cannot re-authenticate", []string{"successful-authentication-no-reauth-total"}},
}

// A metric of another client: group, name and the keys of its tags.
type listed struct{ group, name, tags string }

// listOf reads a list of another client's metrics. kafka-python has the node in the
// group's name.
func listOf(t *testing.T, file string) map[listed]bool {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	list := make(map[listed]bool)
	for line := range strings.Lines(string(b)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		require.Len(t, fields, 3, line)
		l := listed{fields[0], fields[1], fields[2]}
		if group, _, ofNode := strings.Cut(l.group, "."); ofNode {
			l.group, l.tags = group, "client-id,node-id"
		}
		list[l] = true
	}
	return list
}

func ours() map[listed]bool {
	list := make(map[listed]bool)
	for _, t := range tables {
		for _, r := range t.rows {
			list[listed{t.group, r.name, t.tags}] = true
		}
	}
	return list
}

func TestEachMetricOfJavaAndKafkaPythonHasACounterpart(t *testing.T) {
	have, missing := ours(), make(map[listed]bool)
	for file, n := range map[string]int{"kafka-4.4.0-names.tsv": 118, "kafka-python-3.0.12-names.tsv": 52} {
		list := listOf(t, file)
		require.Len(t, list, n)
		for l := range list {
			if !have[l] {
				missing[l] = true
			}
		}
	}
	reasoned := make(map[listed]bool)
	for _, o := range omitted {
		for _, name := range o.names {
			reasoned[listed{o.group, name, "client-id"}] = true
		}
	}
	require.Equal(t, reasoned, missing)
}

func TestNoMetricIsListedTwice(t *testing.T) {
	n := 0
	for _, table := range tables {
		n += len(table.rows)
	}
	require.Len(t, ours(), n)
}

func TestTheDocumentationListsAllMetrics(t *testing.T) {
	const file = "../../docs/metrics.md"
	want := documentation(t)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, strings.ReplaceAll(string(got), "\r\n", "\n"), "go test ./internal/metrics -update writes it anew")
}

func documentation(t *testing.T) string {
	java, python := listOf(t, "kafka-4.4.0-names.tsv"), listOf(t, "kafka-python-3.0.12-names.tsv")
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(introduction, "'", "`"))
	for _, table := range tables {
		fmt.Fprintf(&b, "\n## %s\n\nTags: `%s`.", table.group, strings.ReplaceAll(table.tags, ",", "`, `"))
		if table.about != "" {
			b.WriteString(" " + table.about)
		}
		b.WriteString("\n\n| name | unit | meaning | Java | kafka-python |\n|---|---|---|---|---|\n")
		for _, r := range table.rows {
			l := listed{table.group, r.name, table.tags}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.name, r.unit, r.meaning, yes(java[l]), yes(python[l]))
		}
	}
	b.WriteString("\n## What Java has besides\n\n")
	for _, o := range omitted {
		fmt.Fprintf(&b, "- `%s`: %s: %s\n", o.group, "`"+strings.Join(o.names, "`, `")+"`", o.reason)
	}
	return b.String()
}

func yes(has bool) string {
	if has {
		return "yes"
	}
	return ""
}

// introduction is the part of the documentation that no table says, with ' for `.
const introduction = `# Metrics

<!-- Generated from internal/metrics: go test ./internal/metrics -update -->

'Consumer.Metrics' returns all metrics that there are now; 'Config.MetricReporters' are told of them. Groups, names and tags are
those of Java (4.4.0) and of kafka-python (3.0.12); the last columns say who has which. Those that nobody else has are ours.

Rates, averages, maxima and minima are over the last 'MetricsNumSamples' windows (2) of 'MetricsSampleWindow' (30 s). A window begins
with the first value that comes when the one before is over, and counts until it began as long ago as all windows last. A rate is
divided by the time since the oldest window that counts began, but by at least all windows but one, so that the first values are not
taken for a high rate. The arithmetic is that of kafka-python. On 300 random sequences of values Java 0.9 to 2.8 gives the same numbers; 3.9
and 4.4 let a window count a little longer, and give another rate for 11 of them. To look at a metric changes nothing.

NaN means that there is no such number: an average, maximum or minimum of nothing, or a lag that is not known yet. (kafka-python has
0 for an average and minus infinity for a maximum; Java has NaN.)

## What to know

- **Records** count when the application gets them: what Poll returned, what an iterator or a channel handed over. Those of an iterator are
  counted by the run, at the latest when somebody looks. 'fetch-size-*' counts what comes over the wire instead, compressed as it is,
  and whether or not it is read later. Java and kafka-python count uncompressed records there.
- **Lag** goes with 'Consumer.Lag': from the position to the last stable offset under 'ReadCommitted', else to the high watermark, at
  once right after a seek, never negative. The end of the log is the one that a broker told last. 'records-lag-told-seconds-ago' says
  how long ago that was: a paused partition is not fetched, and nothing is asked for its sake, so its lag gets old, and this number says so.
- **Lag in seconds**, 'records-lag-seconds', needs no look at offsets: an hour behind is an hour behind. It goes by the clock of this
  machine and the timestamps of the records.
- 'poll-idle-ratio-avg' is the share of the time that polls take. Java divides by the time from poll to poll and that of the poll, which
  counts some of it twice.
- **Topics** keep their names in tags. kafka-python, and Java besides, turn dots into underscores, so that two topics may become one.

## Reporters

A reporter has a goroutine of its own, so that a slow one harms neither the consumer nor other reporters. It is told of a metric that
appears or goes within a second, of values every 'MetricsSampleWindow' when they differ from the ones told last, and of the last values
when the consumer is closed, before all metrics go and 'Close' is called. Without reporters nothing wakes up for them.
`

func TestEveryTableHasItsUnitsAndMeanings(t *testing.T) {
	units := []string{number, perSecond, perHour, byteCount, byteRate, millis, nanos, seconds, share}
	used := make(map[string]bool)
	for _, table := range tables {
		for _, r := range table.rows {
			require.Contains(t, units, r.unit, r.name)
			require.True(t, strings.HasSuffix(r.meaning, "."), r.name)
			used[r.unit] = true
		}
	}
	require.ElementsMatch(t, units, slices.Collect(maps.Keys(used)))
}

package assignors

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A vector is a group and what Kafka's own assignors answered it, as recorded by
// testdata/AssignorVectors.java.
type vector struct {
	Topics  map[string]int
	Members []struct {
		ID, Instance string
		Topics       []string
		Owned        []string
		Generation   int32
		Data         string // what Kafka's StickyAssignor wrote of what was owned
	}
	Range, RoundRobin, Sticky, Cooperative map[string][]string
}

// eachVector reads a file of testdata and returns how many lines there are.
func eachVector[V any](t *testing.T, name string, do func(v V, line string)) (seen int) {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v V
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		do(v, lines.Text())
		seen++
	}
	require.NoError(t, lines.Err())
	return seen
}

func (v vector) input(t *testing.T) Input {
	t.Helper()
	in := Input{Topics: make(map[string][]Partition)}
	for topic, n := range v.Topics {
		if n > 0 {
			in.Topics[topic] = partitions(n)
		}
	}
	for _, m := range v.Members {
		data, err := base64.StdEncoding.DecodeString(m.Data)
		require.NoError(t, err)
		owned := make([]TopicPartition, len(m.Owned))
		for i, text := range m.Owned {
			owned[i] = parsed(t, text)
		}
		in.Members = append(in.Members, Member{
			ID: m.ID, InstanceID: m.Instance, Topics: m.Topics, Owned: owned, Generation: m.Generation, UserData: data,
		})
	}
	return in
}

func parsed(t *testing.T, text string) TopicPartition {
	t.Helper()
	at := strings.LastIndexByte(text, '-')
	id, err := strconv.ParseInt(text[at+1:], 10, 32)
	require.NoError(t, err)
	return TopicPartition{Topic: text[:at], Partition: int32(id)}
}

// sorted orders each member's partitions: Kafka lists those of several topics in
// the order of a hash map.
func sorted(a map[string][]string) map[string][]string {
	for _, tps := range a {
		slices.Sort(tps)
	}
	return a
}

func TestAssignAsKafkaDoes(t *testing.T) {
	seen := eachVector(t, "kafka-4.4.0.jsonl.gz", func(v vector, line string) {
		in := v.input(t)
		for a, want := range map[Assignor]map[string][]string{Range{}: v.Range, RoundRobin{}: v.RoundRobin} {
			got, err := a.Assign(in)
			require.NoError(t, err)
			require.Equal(t, sorted(want), sorted(plain(got)), "%s: %s", a.Name(), line)
		}
	})
	require.Equal(t, 320, seen)
}

func TestRangeByRackAsKafkaDoes(t *testing.T) {
	type rackVector struct {
		Topics  map[string][][]string // the racks of each partition
		Members []struct {
			ID, Instance, Rack string
			Topics             []string
		}
		Range map[string][]string
	}
	differ := 0
	seen := eachVector(t, "kafka-4.4.0-racks.jsonl.gz", func(v rackVector, line string) {
		in := Input{Topics: make(map[string][]Partition)}
		for topic, racks := range v.Topics {
			in.Topics[topic] = partitions(len(racks))
			for i := range racks {
				in.Topics[topic][i].Racks = racks[i]
			}
		}
		withoutRacks := in
		for _, m := range v.Members {
			in.Members = append(in.Members, member(m.ID, m.Instance, m.Topics...))
			in.Members[len(in.Members)-1].Rack = m.Rack
			withoutRacks.Members = append(withoutRacks.Members, member(m.ID, m.Instance, m.Topics...))
		}
		got, err := Range{}.Assign(in)
		require.NoError(t, err)
		require.Equal(t, sorted(v.Range), sorted(plain(got)), line)
		other, err := Range{}.Assign(withoutRacks)
		require.NoError(t, err)
		if !reflect.DeepEqual(got, other) {
			differ++
		}
	})
	require.Equal(t, 400, seen)
	require.Greater(t, differ, 100, "groups for which racks make a difference")
}

// TestStickyNoWorseThanKafka compares what counts: Kafka's sticky assignors depend on
// the order of hash maps.
func TestStickyNoWorseThanKafka(t *testing.T) {
	var kept, theirs, spread, theirSpread, assigned, theirAssigned int
	number := 0
	seen := eachVector(t, "kafka-4.4.0-sticky.jsonl.gz", func(v vector, line string) {
		number++
		in := v.input(t)
		had := holders(in)
		got, err := Sticky{}.Assign(in)
		require.NoError(t, err)
		requireExactlyOnce(t, in, got)

		ours, kafkas := measure(t, in, plain(got), had), measure(t, in, v.Sticky, had)
		require.LessOrEqual(t, ours.unevenness, kafkas.unevenness, line)
		if ours.unevenness == kafkas.unevenness {
			require.GreaterOrEqual(t, ours.kept, kafkas.kept, line)
		}
		if number > 300 { // two topics of 18 partitions and about nine members (B50)
			require.LessOrEqual(t, ours.spread, kafkas.spread, line)
		}
		kept, theirs = kept+ours.kept, theirs+kafkas.kept
		spread, theirSpread = spread+ours.spread, theirSpread+kafkas.spread

		first, err := CooperativeSticky{}.Assign(in)
		require.NoError(t, err)
		assigned += count(plain(first))
		theirAssigned += count(v.Cooperative)
	})
	require.Equal(t, 324, seen)
	require.GreaterOrEqual(t, kept, theirs, "partitions kept in all")
	require.Less(t, spread, theirSpread, "differences within topics, in all")
	require.GreaterOrEqual(t, assigned, theirAssigned, "partitions assigned in the first round, in all")
}

// TestStickyDataAsKafkaWritesIt compares with what Kafka's StickyAssignor wrote: apart
// from the order of topics and partitions, byte by byte.
func TestStickyDataAsKafkaWritesIt(t *testing.T) {
	seen := eachVector(t, "kafka-4.4.0-sticky.jsonl.gz", func(v vector, line string) {
		for _, m := range v.input(t).Members {
			instance := Sticky{}.NewInstance()
			instance.(Observer).OnAssigned(MemberAssignment{Partitions: m.Owned}, m.Generation)
			data := instance.(UserDataProvider).UserData(m.Topics)
			require.Len(t, data, len(m.UserData), line)
			require.Equal(t, decoded(t, m.UserData), decoded(t, data), line)
			if len(m.Owned) == 1 {
				require.Equal(t, m.UserData, data)
			}
		}
	})
	require.Equal(t, 324, seen)
}

func count(a map[string][]string) (n int) {
	for _, tps := range a {
		n += len(tps)
	}
	return n
}

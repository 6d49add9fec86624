package assignors

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachVector reads the answers of Kafka's own assignors, which
// testdata/AssignorVectors.java recorded, and returns how many there are.
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

func TestRangeByRackAsKafkaDoes(t *testing.T) {
	type vector struct {
		Topics  map[string][][]string // the racks of each partition
		Members []struct {
			ID, Instance, Rack string
			Topics             []string
		}
		Range map[string][]string
	}
	differ := 0
	seen := eachVector(t, "kafka-4.4.0-racks.jsonl.gz", func(v vector, line string) {
		in := Input{Topics: make(map[string][]Partition)}
		for topic, racks := range v.Topics {
			in.Topics[topic] = partitions(len(racks))
			for i := range racks {
				in.Topics[topic][i].Racks = racks[i]
			}
		}
		without := in
		for _, m := range v.Members {
			in.Members = append(in.Members, member(m.ID, m.Instance, m.Topics...))
			without.Members = append(without.Members, member(m.ID, m.Instance, m.Topics...))
			in.Members[len(in.Members)-1].Rack = m.Rack
		}
		got, err := Range{}.Assign(in)
		require.NoError(t, err)
		require.Equal(t, sorted(v.Range), sorted(plain(got)), line)
		plainly, err := Range{}.Assign(without)
		require.NoError(t, err)
		if !assertEqual(got, plainly) {
			differ++
		}
	})
	require.Equal(t, 400, seen)
	require.Greater(t, differ, 100, "groups for which racks made a difference")
}
func assertEqual(a, b Assignment) bool { return jsonOf(a) == jsonOf(b) }
func jsonOf(a Assignment) string       { x, _ := json.Marshal(a); return string(x) }

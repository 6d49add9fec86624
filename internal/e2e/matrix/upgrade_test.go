//go:build unix

package matrix

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/e2e/consume"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/own"
)

// A stage is what was written while the data directory was a release's.
type stage struct {
	base   int64
	sent   []outside.Record
	format int
}

// upgrades are the releases that a data directory goes through.
var upgrades = []string{"0.9.0.1", "0.10.2.2", "1.1.1", "2.8.2"}

// B06: a log that grew under several releases has all message formats in it, and the
// group that follows it goes on where it was.
func TestUpgradedDataDirectory(t *testing.T) {
	t.Run(upgrades[len(upgrades)-1], func(t *testing.T) {
		e := start(t, upgrades[0])
		const topic = "upgraded"
		e.CreateTopic(t, topic, 1, nil)
		var stages []stage
		for i, release := range upgrades {
			if i > 0 {
				e.cluster.Upgrade(t, release)
				e = &env{Clients: own.Start(t, e.cluster), cluster: e.cluster, release: release}
				e.cluster.AwaitTopic(t, topic, 1)
			}
			stages = append(stages, e.write(t, topic, stages))
			t.Run("up to "+release, func(t *testing.T) { e.requireReadsStages(t, topic, stages) })
		}
	})
}

// requireReadsStages requires that the whole log is read with any setting, and what
// was written last by the group.
func (e *env) requireReadsStages(t *testing.T, topic string, stages []stage) {
	t.Helper()
	last := stages[len(stages)-1]
	behind := last.base + int64(len(last.sent))
	for _, setting := range slices.Compact([]string{"", e.release, upgrades[0]}) {
		t.Run("whole log, "+settingName(setting), func(t *testing.T) {
			c := e.assigned(t, kafka.Config{APIVersion: setting}, kafka.TopicPartition{Topic: topic})
			got := consume.Poll(t, c, int(behind))
			for _, s := range stages {
				requireSame(t, s.base, s.sent, e.formatRead(s.format, setting), got[s.base:s.base+int64(len(s.sent))])
			}
			nothing(t, c)
		})
	}
	t.Run("group", func(t *testing.T) {
		c := e.open(t, groupConfig("group", topic))
		requireSame(t, last.base, last.sent, last.format, consume.Poll(t, c, len(last.sent)))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		require.NoError(t, c.Commit(ctx))
		consume.Close(t, c)
		require.Equal(t, []int64{behind}, e.Committed(t, "group", topic, 1))
	})
}

// write fills the topic on, with each codec in turn.
func (e *env) write(t *testing.T, topic string, before []stage) stage {
	t.Helper()
	s := stage{sent: e.sample(topic), format: formatOf(e.release)}
	for _, b := range before {
		s.base += int64(len(b.sent))
	}
	codecs := slices.DeleteFunc(e.codecs(), func(codec string) bool { return codec == "zstd" }) // older readers know nothing of it
	for i, records := range slices.Collect(slices.Chunk(s.sent, 50)) {
		e.Produce(t, map[string]string{"compression.type": codecs[i%len(codecs)]}, records...)
	}
	return s
}

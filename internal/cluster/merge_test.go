package cluster

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var t0 = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// part is a partition of an answer, led by a node in an epoch.
func part(n, leader, epoch int32) kmsg.MetadataResponseTopicPartition {
	p := kmsg.NewMetadataResponseTopicPartition()
	p.Partition, p.Leader, p.LeaderEpoch = n, leader, epoch
	return p
}

func topicOf(name string, id byte, parts ...kmsg.MetadataResponseTopicPartition) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.Partitions = &name, parts
	t.TopicID[0] = id
	return t
}

func failedTopic(name string, code protocol.ErrorCode) kmsg.MetadataResponseTopic {
	t := topicOf(name, 0)
	t.ErrorCode = int16(code)
	return t
}

// answerOf is an answer of node 1 in which brokers 1 to 3 exist.
func answerOf(topics ...kmsg.MetadataResponseTopic) Answer {
	r := kmsg.NewPtrMetadataResponse()
	r.Version, r.Topics = 12, topics
	r.ControllerID = 1
	for id := int32(1); id <= 3; id++ {
		r.Brokers = append(r.Brokers, brokerOf(id, "host", 9090+id))
	}
	a := Answer{Response: r, Node: 1, At: t0}
	for _, t := range topics {
		if t.Topic != nil {
			a.Named = append(a.Named, *t.Topic)
		}
	}
	return a
}

func brokerOf(id int32, host string, port int32) kmsg.MetadataResponseBroker {
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port = id, host, port
	return b
}

func (a Answer) with(change func(*Answer)) Answer {
	change(&a)
	return a
}

// merged merges answers in turn and returns what came of it, and of the last.
func merged(answers ...Answer) (*Metadata, Changes) {
	var (
		m  *Metadata
		ch Changes
	)
	for _, a := range answers {
		m, ch = Merge(m, a)
	}
	return m, ch
}

func TestMergeOfLeaderEpochs(t *testing.T) {
	at := func(id byte, leader, epoch int32) Answer { return answerOf(topicOf("t", id, part(0, leader, epoch))) }
	times := func(n int, a Answer) []Answer { return slices.Repeat([]Answer{a}, n) }
	v8 := func(a Answer) Answer { a.Response.Version = 8; return a }
	tests := []struct {
		name                  string
		answers               []Answer
		wantLeader, wantEpoch int32
		wantIgnored           bool
	}{
		{"a newer epoch is taken", []Answer{at(1, 1, 5), at(1, 2, 6)}, 2, 6, false},
		{"the same epoch is taken, because leaders can vanish within it", []Answer{at(1, 1, 5), at(1, NoNode, 5)}, NoNode, 5, false},
		{"an older epoch is ignored", []Answer{at(1, 2, 6), at(1, 1, 4)}, 2, 6, true},
		{"an older epoch is ignored four times in a row", append([]Answer{at(1, 2, 6)}, times(4, at(1, 1, 4))...), 2, 6, true},
		{"an older epoch is taken at its fifth time in a row", append([]Answer{at(1, 2, 6)}, times(5, at(1, 1, 0))...), 1, 0, false},
		{"an older epoch without topic ids is treated the same", []Answer{at(0, 2, 6), at(0, 1, 4)}, 2, 6, true},
		{
			"an answer with the known epoch starts the count anew",
			slices.Concat([]Answer{at(1, 2, 6)}, times(4, at(1, 1, 4)), []Answer{at(1, 2, 6)}, times(4, at(1, 1, 4))), 2, 6, true,
		},
		{"an older epoch of a new topic id is taken at once", []Answer{at(1, 2, 6), at(2, 1, 0)}, 1, 0, false},
		{"an answer without epochs is taken at once", []Answer{at(1, 2, 6), at(1, 1, -1)}, 1, -1, false},
		{"epochs below Metadata v9 are not believed", []Answer{at(0, 2, 6), v8(at(0, 1, 9))}, 1, -1, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, ch := merged(test.answers...)
			p, ok := m.Partition(protocol.TopicPartition{Topic: "t"})
			require.True(t, ok)
			require.Equal(t, test.wantLeader, p.Leader)
			require.Equal(t, test.wantEpoch, p.LeaderEpoch)
			require.Equal(t, test.wantIgnored, ch.Ignored)
		})
	}
}

func TestMergeCountsOlderEpochsForEachPartition(t *testing.T) {
	answers := []Answer{answerOf(topicOf("t", 1, part(0, 1, 5), part(1, 1, 5)))}
	for range 3 {
		answers = append(answers, answerOf(topicOf("t", 1, part(0, 2, 6), part(1, 3, 2))))
	}
	m, ch := merged(answers...)
	require.Equal(t, int32(2), m.Topic("t").Partitions[0].Leader)
	require.Equal(t, int32(1), m.Topic("t").Partitions[1].Leader)
	require.True(t, ch.Ignored)
}

func TestMergeOfRecreatedTopics(t *testing.T) {
	first := answerOf(topicOf("t", 1, part(0, 1, 5), part(1, 1, 5)))
	second := answerOf(topicOf("t", 2, part(0, 2, 0)))
	m, ch := merged(first, second)
	require.Equal(t, []string{"t"}, ch.Recreated)
	require.Equal(t, byte(2), m.Topic("t").ID[0])
	require.Len(t, m.Topic("t").Partitions, 1)
	require.True(t, m.Topic("t").Appeared(0), "everything in the new topic is new")

	m, ch = merged(first, second, first, first)
	require.Equal(t, byte(2), m.Topic("t").ID[0], "a broker that lags behind does not bring the old topic back")
	require.True(t, ch.Ignored)
	require.Empty(t, ch.Recreated)

	m, _ = merged(first, second, first, first, first, first, first)
	require.Equal(t, byte(1), m.Topic("t").ID[0], "a cluster that insists is believed")

	m, ch = merged(first, answerOf(topicOf("t", 0, part(0, 1, 5), part(1, 1, 5))))
	require.Equal(t, byte(1), m.Topic("t").ID[0], "a broker too old for topic ids does not take the id away")
	require.Empty(t, ch.Recreated)
}

func TestMergeOfPartitionCounts(t *testing.T) {
	two := answerOf(topicOf("t", 1, part(1, 2, 0), part(0, 1, 0)))
	three := answerOf(topicOf("t", 1, part(0, 1, 0), part(1, 2, 0), part(2, 3, 0)))
	m, _ := merged(two)
	require.Equal(t, int32(1), m.Topic("t").Partitions[0].Leader, "partitions are indexed by number, in whatever order they come")
	require.False(t, m.Topic("t").Appeared(1))

	m, _ = merged(two, three)
	require.Len(t, m.Topic("t").Partitions, 3)
	require.True(t, m.Topic("t").Appeared(2))
	require.False(t, m.Topic("t").Appeared(1))
	require.False(t, m.Topic("t").UnknownConfirmed())

	m, _ = merged(answerOf(topicOf("t", 1)), two)
	require.False(t, m.Topic("t").UnknownConfirmed(), "a list without partitions proves nothing")

	m, ch := merged(three, two)
	require.Len(t, m.Topic("t").Partitions, 3, "a topic does not lose partitions while it keeps its id")
	require.True(t, ch.Ignored)

	without := func(a Answer) Answer { a.Response.Topics[0].TopicID = [16]byte{}; return a }
	m, _ = merged(
		without(answerOf(topicOf("t", 1, part(0, 1, 0), part(1, 2, 0)))), without(answerOf(topicOf("t", 1, part(0, 1, 0)))))
	require.Len(t, m.Topic("t").Partitions, 1, "without ids it may have been created again")

	m, _ = merged(answerOf(topicOf("t", 1, part(0, 1, 0), part(2, 1, 0), part(1<<30, 1, 0), part(-5, 1, 0))))
	require.Len(t, m.Topic("t").Partitions, 3, "no room is made for absurd numbers")
	require.Equal(t, Partition{Err: protocol.LeaderNotAvailable, Leader: NoNode, LeaderEpoch: -1}, m.Topic("t").Partitions[1])
}

func TestMergeOfUnknownTopics(t *testing.T) {
	known := answerOf(topicOf("t", 1, part(0, 1, 0)))
	unknown := func(node int32, after time.Duration) Answer {
		return answerOf(failedTopic("t", protocol.UnknownTopicOrPartition)).with(func(a *Answer) { a.Node, a.At = node, t0.Add(after) })
	}
	tests := []struct {
		name           string
		answers        []Answer
		wantErr        protocol.ErrorCode
		wantConfirmed  bool
		wantPartitions int
		wantAnswers    int
	}{
		{"one answer proves nothing", []Answer{unknown(1, 0)}, protocol.UnknownTopicOrPartition, false, 0, 1},
		{"two of the same broker at once prove nothing", []Answer{unknown(1, 0), unknown(1, time.Second-1)}, protocol.UnknownTopicOrPartition, false, 0, 2},
		{"two of the same broker a second apart do", []Answer{unknown(1, 0), unknown(1, time.Second)}, protocol.UnknownTopicOrPartition, true, 0, 2},
		{"two of different brokers do", []Answer{unknown(1, 0), unknown(2, 1)}, protocol.UnknownTopicOrPartition, true, 0, 2},
		{"a bootstrap address may be the same broker", []Answer{unknown(NoNode, 0), unknown(2, 1)}, protocol.UnknownTopicOrPartition, false, 0, 2},
		{"the proof stays when the topic appears", []Answer{unknown(1, 0), unknown(2, 1), known}, protocol.None, true, 1, 0},
		{"a topic that appears without proof has none", []Answer{unknown(1, 0), known}, protocol.None, false, 1, 0},
		{"the count starts anew when the topic is seen", []Answer{unknown(1, 0), known, unknown(2, 1)}, protocol.UnknownTopicOrPartition, false, 1, 1},
		{"one broker that forgot a topic takes nothing away", []Answer{known, unknown(1, 0)}, protocol.UnknownTopicOrPartition, false, 1, 1},
		{"a topic that was deleted loses its partitions", []Answer{known, unknown(1, 0), unknown(2, 1)}, protocol.UnknownTopicOrPartition, true, 0, 2},
		{"a topic named but not in the answer is unknown", []Answer{answerOf().with(func(a *Answer) { a.Named = []string{"t"} })}, protocol.UnknownTopicOrPartition, false, 0, 1},
		{"another error proves nothing", []Answer{answerOf(failedTopic("t", protocol.LeaderNotAvailable)), answerOf(failedTopic("t", protocol.LeaderNotAvailable)).with(func(a *Answer) { a.Node = 2 })}, protocol.LeaderNotAvailable, false, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, _ := merged(test.answers...)
			topic := m.Topic("t")
			require.NotNil(t, topic)
			require.Equal(t, test.wantErr, topic.Err)
			require.Equal(t, test.wantConfirmed, topic.UnknownConfirmed())
			require.Equal(t, test.wantConfirmed, topic.Appeared(0))
			require.Len(t, topic.Partitions, test.wantPartitions)
			since, answers, nodes := topic.UnknownSince()
			require.Equal(t, test.wantAnswers, answers)
			require.Equal(t, test.wantAnswers == 0, since.IsZero())
			require.Equal(t, test.wantAnswers == 0, len(nodes) == 0)
		})
	}
}

func TestMergeOfPartialAndWholeAnswers(t *testing.T) {
	both := answerOf(topicOf("a", 1, part(0, 1, 0)), topicOf("b", 2, part(0, 1, 0)))
	b := answerOf(topicOf("b", 2, part(0, 3, 1)))
	names := func(m *Metadata) []string { return slices.Sorted(maps.Keys(m.Topics)) }

	m, _ := merged(both, b)
	require.Equal(t, []string{"a", "b"}, names(m), "topics that were not asked for stay")
	require.Equal(t, int32(3), m.Topic("b").Partitions[0].Leader)

	whole := answerOf(topicOf("b", 2, part(0, 3, 1))).with(func(a *Answer) { a.All, a.Named = true, []string{"c"} })
	m, _ = merged(both, whole)
	require.Equal(t, []string{"b", "c"}, names(m), "a whole answer forgets what it does not list, but not what was named")
	require.Equal(t, protocol.UnknownTopicOrPartition, m.Topic("c").Err)

	m, _ = merged(answerOf(topicOf("a", 1, part(0, 1, 0)), topicOf("b", 2)).with(func(a *Answer) { a.Named = []string{"b"} }))
	require.Equal(t, []string{"b"}, names(m), "what was not asked for is left out")

	nameless := answerOf(kmsg.MetadataResponseTopic{}).with(func(a *Answer) { a.All = true })
	m, _ = merged(nameless)
	require.Empty(t, m.Topics)
}

func TestMergeOfBrokers(t *testing.T) {
	led := answerOf(topicOf("t", 1, part(0, 3, 5)))
	fewer := func(a Answer) Answer { a.Response.Brokers = a.Response.Brokers[:1]; return a }
	m, _ := merged(led, fewer(answerOf(topicOf("t", 1, part(0, 1, 6)))))
	require.Equal(t, []int32{1}, slices.Sorted(maps.Keys(m.Brokers)), "brokers that are not listed vanish")

	m, _ = merged(led, fewer(answerOf(topicOf("t", 1, part(0, 1, 4)))))
	require.Equal(t, []int32{1, 3}, slices.Sorted(maps.Keys(m.Brokers)), "but not one that is still taken for a leader")

	m, _ = merged(led, answerOf(topicOf("t", 1, part(0, 3, 5))).with(func(a *Answer) { a.Response.Brokers = nil }))
	require.Len(t, m.Brokers, 3, "a broker that knows of none has just started")

	bad := answerOf().with(func(a *Answer) {
		a.Response.Brokers = []kmsg.MetadataResponseBroker{brokerOf(7, "good", 1), brokerOf(-1, "x", 1), brokerOf(8, "", 1), brokerOf(9, "x", 0), brokerOf(10, "x", 70000)}
	})
	m, _ = merged(bad)
	require.Equal(t, map[int32]BrokerInfo{7: {Addr: conn.Addr{Host: "good", Port: 1}}}, m.Brokers)
}

func TestMergeNeverChangesTheOldSnapshot(t *testing.T) {
	old, _ := merged(answerOf(topicOf("t", 1, part(0, 2, 6))), answerOf(failedTopic("t", protocol.UnknownTopicOrPartition)))
	copied := *old.Topic("t")
	copied.Partitions = slices.Clone(copied.Partitions)
	for _, a := range []Answer{
		answerOf(topicOf("t", 1, part(0, 1, 4))),
		answerOf(topicOf("t", 2, part(0, 1, 0))),
		answerOf(failedTopic("t", protocol.UnknownTopicOrPartition)).with(func(a *Answer) { a.Node = 2 }),
	} {
		Merge(old, a)
		require.Equal(t, copied, *old.Topic("t"))
	}
	next, ok := withLeader(old, protocol.TopicPartition{Topic: "t"}, 3, 9, nil)
	require.True(t, ok)
	require.Equal(t, copied, *old.Topic("t"))
	require.Equal(t, int32(3), next.Topic("t").Partitions[0].Leader)
}

func TestSameMetadataSeesWhatAUserSees(t *testing.T) {
	base := func() Answer { return answerOf(topicOf("t", 1, part(0, 1, 5))) }
	a, _ := merged(base())
	b, _ := merged(base(), base().with(func(a *Answer) { a.At = t0.Add(time.Hour) }))
	require.True(t, sameMetadata(a, b), "a later answer that says the same is no change")
	for name, other := range map[string]Answer{
		"leader":     answerOf(topicOf("t", 1, part(0, 2, 5))),
		"epoch":      answerOf(topicOf("t", 1, part(0, 1, 6))),
		"id":         answerOf(topicOf("t", 2, part(0, 1, 5))),
		"partitions": answerOf(topicOf("t", 1, part(0, 1, 5), part(1, 1, 5))),
		"error":      answerOf(failedTopic("t", protocol.TopicAuthorizationFailed)),
		"broker":     base().with(func(a *Answer) { a.Response.Brokers[0].Port++ }),
		"controller": base().with(func(a *Answer) { a.Response.ControllerID++ }),
	} {
		next, _ := merged(base(), other)
		require.False(t, sameMetadata(a, next), name)
	}
}

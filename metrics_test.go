package kafka

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// measured returns a consumer's metrics, by name and tags without that of the client:
// "records-lag{partition=0,topic=t}".
func measured(t *testing.T, c *Consumer) map[string]float64 {
	t.Helper()
	list, err := c.Metrics()
	require.NoError(t, err)
	m := make(map[string]float64, len(list))
	for _, metric := range list {
		key := shortName(metric.Name)
		if metric.Name.Group == "consumer-fetch-manager-metrics" || metric.Name.Tags == clientTag {
			require.NotContains(t, m, key)
		}
		m[key] = metric.Value
	}
	return m
}

const clientTag = "client-id=kafka-go-consumer-" + Version

func shortName(n MetricName) string {
	tags := strings.TrimPrefix(strings.TrimPrefix(n.Tags, clientTag), ",")
	if tags == "" {
		return n.Name
	}
	return n.Name + "{" + tags + "}"
}

// wide is a record that takes 109 bytes of a batch.
var wide = testbroker.Record{Value: bytes.Repeat([]byte("x"), 100)}

const wideBytes = 109

func produceWide(b *testbroker.Cluster, topic string, partition int32, n int) {
	for range n {
		b.Produce(topic, partition, wide)
	}
}

func TestMetricsCountWhatTheApplicationGot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("or.ders", 2)
		b.CreateTopic("or_ders", 1)
		produceWide(b, "or.ders", 0, 30)
		produceWide(b, "or.ders", 1, 20)
		produceWide(b, "or_ders", 0, 10)
		c := reader(t, fast(b), TopicPartition{Topic: "or.ders"}, TopicPartition{Topic: "or.ders", Partition: 1}, TopicPartition{Topic: "or_ders"})
		time.Sleep(time.Second) // all of it is here, and handed over at once
		require.Len(t, pollN(t, c, 60), 60)

		time.Sleep(10 * time.Second)
		m := measured(t, c)
		const elapsed = 30 + 10 // the window before counts as whole
		require.InDelta(t, 60.0/elapsed, m["records-consumed-rate"], 1e-9)
		require.InDelta(t, 50.0/elapsed, m["records-consumed-rate{topic=or.ders}"], 1e-9)
		require.InDelta(t, 10.0/elapsed, m["records-consumed-rate{topic=or_ders}"], 1e-9)
		require.InDelta(t, 60.0*wideBytes/elapsed, m["bytes-consumed-rate"], 1e-9)
		require.InDelta(t, 50.0*wideBytes/elapsed, m["bytes-consumed-rate{topic=or.ders}"], 1e-9)
		require.EqualValues(t, 60, m["records-consumed-total"])
		require.EqualValues(t, 10*wideBytes, m["bytes-consumed-total{topic=or_ders}"])
		const batchBytes = 61 + wideBytes // each has a header
		for _, tags := range []string{"", "{topic=or.ders}", "{topic=or_ders}"} {
			records := m["records-consumed-total"+tags]
			answers := records / m["records-per-request-avg"+tags]
			require.Contains(t, []float64{1, 2, 3}, answers, "positions are found together, or one by one")
			require.InDelta(t, records*batchBytes, answers*m["fetch-size-avg"+tags], 1e-6)
			require.LessOrEqual(t, m["fetch-size-avg"+tags], m["fetch-size-max"+tags])
		}

		produceWide(b, "or.ders", 0, 40)
		for range c.Records(limited(t, time.Second)) {
		}
		m = measured(t, c)
		require.EqualValues(t, 100, m["records-consumed-total"], "an iterator counts the same")
		time.Sleep(time.Minute)
		m = measured(t, c)
		require.Zero(t, m["records-consumed-rate"])
		require.True(t, math.IsNaN(m["records-per-request-avg"]))
		require.EqualValues(t, 100, m["records-consumed-total"])
	})
}

// limited returns a context that ends after d.
func limited(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestTheSampleWindowsChangeARate(t *testing.T) {
	for name, tc := range map[string]struct {
		samples int
		window  time.Duration
		want    []float64 // after 0, 7 and 15 s
	}{
		"by default":                  {want: []float64{60.0 / 30, 60.0 / 37, 60.0 / 45}},
		"with two windows of 5 s":     {window: 5 * time.Second, want: []float64{60.0 / 5, 60.0 / 7, 0}},
		"with five windows of 5 s":    {samples: 5, window: 5 * time.Second, want: []float64{60.0 / 20, 60.0 / 22, 60.0 / 20}},
		"with one window of 30 s":     {samples: 1, want: []float64{0, 60.0 / 7, 60.0 / 15}},
		"with three windows of 2.5 s": {samples: 3, window: 2500 * time.Millisecond, want: []float64{60.0 / 5, 60.0 / 7, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := testbroker.New(t)
				b.CreateTopic("t", 1)
				produceWide(b, "t", 0, 60)
				cfg := fast(b)
				cfg.MetricsNumSamples, cfg.MetricsSampleWindow = tc.samples, tc.window
				c := openConsumer(t, cfg)
				require.NoError(t, c.Assign(TopicPartition{Topic: "t"}))
				time.Sleep(time.Second) // all of it is here, and handed over at once
				require.Len(t, pollN(t, c, 60), 60)
				var got []float64
				for _, wait := range []time.Duration{0, 7, 8} {
					time.Sleep(wait * time.Second)
					got = append(got, measured(t, c)["records-consumed-rate"])
				}
				require.InDeltaSlice(t, tc.want, got, 1e-9)
			})
		})
	}
}

const ofTP0 = "{partition=0,topic=t}"

func TestLagIsCountedToTheEndOfWhatMayBeRead(t *testing.T) {
	for name, tc := range map[string]struct {
		level IsolationLevel
		want  int64
	}{"read_uncommitted": {ReadUncommitted, 6}, "read_committed": {ReadCommitted, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := testbroker.New(t)
				b.CreateTopic("t", 1)
				produceWide(b, "t", 0, 10)
				b.On(keyFetch).Edit(func(_ testbroker.Request, resp kmsg.Response) {
					for _, topic := range resp.(*kmsg.FetchResponse).Topics {
						for i := range topic.Partitions {
							topic.Partitions[i].LastStableOffset = 6
						}
					}
				})
				cfg := fast(b)
				cfg.IsolationLevel = tc.level
				c := openConsumer(t, cfg)
				tp := TopicPartition{Topic: "t"}
				require.NoError(t, c.Assign(tp))
				r, err := c.PollMax(t.Context(), time.Second, 4)
				require.NoError(t, err)
				require.Equal(t, 4, r.Len())
				m := measured(t, c)
				require.EqualValues(t, tc.want, m["records-lag"+ofTP0])
				require.EqualValues(t, tc.want, m["records-lag-max"])
				lag, ok := c.Lag(tp)
				require.True(t, ok)
				require.Equal(t, tc.want, lag)
			})
		})
	}
}

func TestLagFollowsSeeksAndIsNeverNegative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("t", 1)
		produceWide(b, "t", 0, 100)
		held := b.On(keyFetch).Once().Hold()
		c := openConsumer(t, fast(b))
		tp := TopicPartition{Topic: "t"}
		require.NoError(t, c.Assign(tp))
		m := measured(t, c)
		require.True(t, math.IsNaN(m["records-lag"+ofTP0]), "nothing was fetched")
		require.True(t, math.IsNaN(m["records-lag-told-seconds-ago"+ofTP0]))
		held.Release()
		pollN(t, c, 100)
		require.Zero(t, measured(t, c)["records-lag"+ofTP0])
		for _, tc := range []struct{ to, want int64 }{{50, 50}, {99, 1}, {100, 0}, {500, 0}} {
			require.NoError(t, c.Seek(tp, tc.to))
			m := measured(t, c)
			require.EqualValues(t, tc.want, m["records-lag"+ofTP0], "at offset %d", tc.to)
			lag, ok := c.Lag(tp)
			require.True(t, ok)
			require.Equal(t, tc.want, lag)
			require.EqualValues(t, tc.to, m["records-lead"+ofTP0])
		}
		require.NoError(t, c.Seek(tp, 50))
		b.SetLogStart("t", 0, 80)
		pollN(t, c, 20)
		m = measured(t, c)
		require.Zero(t, m["records-lag"+ofTP0])
		require.EqualValues(t, 20, m["records-lead"+ofTP0])
		require.EqualValues(t, 20, m["records-lead-min"])
	})
}

func TestGreatestLagIsThatOfTheWindows(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.Produce("t", 0, numberedRecords(100)...)
		c := reader(t, fast(b), tp0)
		for _, records := range []int{10, 30} { // two minutes apart, so that nothing is left of the first
			r, err := c.PollMax(t.Context(), time.Second, records)
			require.NoError(t, err)
			require.Equal(t, records, r.Len())
			m := measured(t, c)
			lag := 100 - float64(position(t, c, tp0))
			require.Equal(t, lag, m["records-lag-max"])
			require.Equal(t, lag, m["records-lag-max"+ofTP0])
			require.Equal(t, lag, m["records-lag-avg"+ofTP0])
			require.Equal(t, 100-lag, m["records-lead-min"])
			time.Sleep(2 * time.Minute)
		}
	})
}

func TestLagOfAPausedPartitionSaysHowOldItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("t", 2)
		produceWide(b, "t", 0, 10)
		c := openConsumer(t, fast(b))
		tp, other := TopicPartition{Topic: "t"}, TopicPartition{Topic: "t", Partition: 1}
		require.NoError(t, c.Assign(tp, other))
		pollN(t, c, 10)
		time.Sleep(10 * time.Second)
		m := measured(t, c)
		require.LessOrEqual(t, m["records-lag-told-seconds-ago"+ofTP0], 0.1, "an answer without news is news enough")

		require.NoError(t, c.Pause(tp))
		time.Sleep(time.Second) // the request under way still told of it
		produceWide(b, "t", 0, 100)
		time.Sleep(10 * time.Second)
		m = measured(t, c)
		require.Zero(t, m["records-lag"+ofTP0], "as the last answer told it")
		require.InDelta(t, 11, m["records-lag-told-seconds-ago"+ofTP0], 0.2)
		require.LessOrEqual(t, m["records-lag-told-seconds-ago{partition=1,topic=t}"], 0.1)

		require.NoError(t, c.Resume(tp))
		pollN(t, c, 100)
		m = measured(t, c)
		require.Zero(t, m["records-lag"+ofTP0])
		require.LessOrEqual(t, m["records-lag-told-seconds-ago"+ofTP0], 0.1)
	})
}

func TestLagInSecondsIsTheAgeOfTheRecordAtThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("t", 1)
		now := time.Now()
		for i := range 10 { // ten minutes ago, nine minutes ago, …
			r := wide
			r.Timestamp = now.Add(time.Duration(i-10) * time.Minute)
			b.Produce("t", 0, r)
		}
		c := openConsumer(t, fast(b))
		tp := TopicPartition{Topic: "t"}
		require.NoError(t, c.Assign(tp))
		_, err := c.PollMax(t.Context(), time.Second, 4)
		require.NoError(t, err)
		age := time.Since(now).Seconds()
		m := measured(t, c)
		require.InDelta(t, 6*60+age, m["records-lag-seconds"+ofTP0], 1e-9)
		require.InDelta(t, 6*60+age, m["records-lag-seconds-max"], 1e-9)
		time.Sleep(time.Minute)
		require.InDelta(t, 7*60+age, measured(t, c)["records-lag-seconds"+ofTP0], 1e-9)
		pollN(t, c, 6)
		require.Zero(t, measured(t, c)["records-lag-seconds"+ofTP0], "there is no record")
		require.NoError(t, c.Pause(tp))
		require.NoError(t, c.Seek(tp, 5))
		require.True(t, math.IsNaN(measured(t, c)["records-lag-seconds"+ofTP0]), "the record is not here")
	})
}

func TestRecordsWithoutTimestampsHaveNoAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("t", 1)
		for i := range int64(3) {
			b.Append("t", 0, batch.Message{Offset: i, Value: []byte("v")}.Bytes(), i)
		}
		c := openConsumer(t, fast(b))
		require.NoError(t, c.Assign(TopicPartition{Topic: "t"}))
		_, err := c.PollMax(t.Context(), time.Second, 1)
		require.NoError(t, err)
		m := measured(t, c)
		require.EqualValues(t, 2, m["records-lag"+ofTP0])
		require.True(t, math.IsNaN(m["records-lag-seconds"+ofTP0]))
		require.True(t, math.IsNaN(m["records-lag-seconds-max"]))
	})
}

func TestMetricsOfConnectionsAreCountedByNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t, testbroker.WithNodes(2))
		b.CreateTopic("t", 2)
		b.SetLeader("t", 0, 1)
		b.SetLeader("t", 1, 2)
		cfg := fast(b)
		cfg.MetadataMaxAge = time.Hour
		cfg.MetricsSampleWindow = 10 * time.Second
		c := reader(t, cfg, TopicPartition{Topic: "t"}, TopicPartition{Topic: "t", Partition: 1})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		before := b.Count(testbroker.AnyKey)
		m := measured(t, c)
		require.EqualValues(t, b.Conns(1)+b.Conns(2), m["connection-count"])
		require.EqualValues(t, before, m["request-total"])
		require.EqualValues(t, before, m["request-total{node-id=node-1}"]+m["request-total{node-id=node-2}"]+m["request-total{node-id=node--1}"])
		require.Positive(t, m["request-total{node-id=node--1}"])
		require.EqualValues(t, before-2, m["response-total"], "each broker holds a Fetch")
		require.InDelta(t, 100, m["request-latency-max{node-id=node-2}"], 1e-6, "FetchMaxWait")
		require.InDelta(t, float64(before)/15, m["request-rate"], 1e-9, "in a window that has lasted 5 s, and one before")
		require.Equal(t, m["network-io-total"], m["request-total"]+m["response-total"])
		require.InDelta(t, m["outgoing-byte-total"], m["request-size-avg"]*m["request-total"], 1e-6)

		b.StopNode(2)
		time.Sleep(19 * time.Second)
		require.Contains(t, measured(t, c), "request-rate{node-id=node-2}")
		time.Sleep(2 * time.Second)
		m = measured(t, c)
		require.NotContains(t, m, "request-rate{node-id=node-2}", "it had no connection for all windows")
		require.NotContains(t, m, "request-rate{node-id=node--1}")
		require.Contains(t, m, "request-rate{node-id=node-1}")
		require.EqualValues(t, b.Conns(1), m["connection-count"])
		require.Equal(t, m["connection-count"], m["connection-creation-total"]-m["connection-close-total"])
	})
}

func TestMetricsTellOfThrottling(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.On(keyFetch).Once().Edit(func(_ testbroker.Request, resp kmsg.Response) { resp.(*kmsg.FetchResponse).ThrottleMillis = 400 })
		c := reader(t, fast(b), tp0)
		time.Sleep(time.Second) // 100 ms for each Fetch, 400 ms of throttling between
		m := measured(t, c)
		for _, name := range []string{"fetch-throttle-time-max", "throttle-time-max", "throttle-time-max{node-id=node-1}"} {
			require.EqualValues(t, 400, m[name], name)
		}
		fetches := m["fetch-total"]
		require.InDelta(t, 5, fetches, 1)
		require.InDelta(t, 400/fetches, m["fetch-throttle-time-avg"], 1e-6)
		require.InDelta(t, 100, m["fetch-latency-max"], 1e-6, "without the wait before it")
		require.InDelta(t, fetches/30, m["fetch-rate"], 0.01)
	})
}

func TestMetricsOfTheGroup(t *testing.T) {
	bubble(t, 3, func(t *testing.T, b *testbroker.Cluster) {
		produceWide(b, "t", 0, 10)
		b.On(keyJoinGroup).Delay(2 * time.Second)
		b.On(protocol.KeySyncGroup).Once().Delay(time.Second).Fail(27) // REBALANCE_IN_PROGRESS
		b.On(protocol.KeySyncGroup).Delay(time.Second)
		b.On(keyHeartbeat).Delay(10 * time.Millisecond)
		b.On(keyOffsetCommit).Delay(50 * time.Millisecond)
		b.On(keyOffsetFetch).Delay(20 * time.Millisecond)
		cfg := fast(b)
		cfg.GroupID, cfg.Topics = "g", []string{"t"}
		cfg.RebalanceListener.OnAssigned = func(context.Context, *Consumer, []TopicPartition) error {
			time.Sleep(30 * time.Millisecond)
			return nil
		}
		c := openConsumer(t, cfg)
		require.EqualValues(t, -1, measured(t, c)["last-rebalance-seconds-ago"])
		pollN(t, c, 10)
		require.NoError(t, c.Commit(t.Context()))
		_, err := c.Committed(t.Context(), tp0)
		require.NoError(t, err)
		time.Sleep(time.Second)

		m := measured(t, c)
		joins := float64(b.Count(keyJoinGroup))
		require.EqualValues(t, 3, m["assigned-partitions"])
		require.Equal(t, joins, m["join-total"])
		require.EqualValues(t, 2000, m["join-time-avg"])
		require.EqualValues(t, 2000, m["join-time-max"])
		require.EqualValues(t, 2, m["sync-total"])
		require.EqualValues(t, 1000, m["sync-time-max"])
		require.EqualValues(t, 1, m["rebalance-total"])
		require.InDelta(t, 2000*joins+2000, m["rebalance-latency-avg"], 200, "with both rounds")
		require.Equal(t, m["rebalance-latency-avg"], m["rebalance-latency-total"])
		require.EqualValues(t, 1, m["failed-rebalance-total"], "to be given a member id is no failure")
		require.EqualValues(t, 30, m["partition-assigned-latency-avg"])
		require.True(t, math.IsNaN(m["partition-revoked-latency-max"]))
		require.EqualValues(t, 1, m["commit-total"])
		require.EqualValues(t, 50, m["commit-latency-max"])
		require.EqualValues(t, 50*time.Millisecond, m["commit-sync-time-ns-total"])
		require.EqualValues(t, 20*time.Millisecond, m["committed-time-ns-total"])
		require.EqualValues(t, 10, m["heartbeat-response-time-max"])
		require.InDelta(t, 0.25, m["last-heartbeat-seconds-ago"], 0.26)
		require.InDelta(t, 1.1, m["last-rebalance-seconds-ago"], 0.01)
		require.InDelta(t, 3600/(30+m["last-rebalance-seconds-ago"]), m["rebalance-rate-per-hour"], 1e-6)

		b.Rebalance("g")
		time.Sleep(time.Second)
		for range 20 {
			_, err := c.Poll(t.Context(), time.Second)
			require.NoError(t, err)
		}
		m = measured(t, c)
		require.EqualValues(t, 2, m["rebalance-total"])
		require.NoError(t, c.Unsubscribe(t.Context()))
		require.Zero(t, measured(t, c)["assigned-partitions"])
	})
}

func TestWithoutAGroupThereAreNoMetricsOfOne(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		require.NotContains(t, measured(t, reader(t, fast(b), tp0)), "assigned-partitions")
	})
}

func TestMetricsOfPolls(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := reader(t, fast(b), tp0)
		require.EqualValues(t, -1, measured(t, c)["last-poll-seconds-ago"])
		for range 4 { // each takes a second, and the application three more
			_, err := c.Poll(t.Context(), time.Second)
			require.NoError(t, err)
			time.Sleep(3 * time.Second)
		}
		m := measured(t, c)
		require.EqualValues(t, 4000, m["time-between-poll-avg"])
		require.EqualValues(t, 4000, m["time-between-poll-max"])
		require.InDelta(t, 0.25, m["poll-idle-ratio-avg"], 1e-6)
		require.EqualValues(t, 4, m["last-poll-seconds-ago"])
	})
}

func TestMetricsOfAPartitionGoWithIt(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produceWide(b, "t", 0, 10)
		c := reader(t, fast(b), tp0, TopicPartition{Topic: "t", Partition: 1})
		pollN(t, c, 10)
		count := measured(t, c)["count"]
		require.EqualValues(t, len(measured(t, c)), count)
		require.NoError(t, c.Assign(TopicPartition{Topic: "t", Partition: 1}))
		m := measured(t, c)
		require.NotContains(t, m, "records-lag{partition=0,topic=t}")
		require.Contains(t, m, "records-lag{partition=1,topic=t}")
		require.EqualValues(t, len(m), m["count"])
		require.Less(t, m["count"], count)

		require.NoError(t, c.Unsubscribe(t.Context()))
		require.EqualValues(t, 10, measured(t, c)["records-consumed-total{topic=t}"], "a rebalance may bring it back")
		time.Sleep(time.Minute)
		m = measured(t, c)
		require.NotContains(t, m, "records-consumed-total{topic=t}")
		require.EqualValues(t, 10, m["records-consumed-total"])
	})
}

func TestAClosedConsumerHasNoMetrics(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := reader(t, fast(b), tp0)
		require.NoError(t, c.Close(t.Context()))
		_, err := c.Metrics()
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestMetricsAreSortedAndTagged(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		cfg := fast(b)
		cfg.ClientID = "me"
		c := reader(t, cfg, tp0)
		synctest.Wait()
		list, err := c.Metrics()
		require.NoError(t, err)
		require.True(t, slices.IsSortedFunc(list, func(a, b Metric) int {
			return cmp.Or(cmp.Compare(a.Name.Group, b.Name.Group), cmp.Compare(a.Name.Name, b.Name.Name), cmp.Compare(a.Name.Tags, b.Name.Tags))
		}))
		var names []MetricName
		for _, m := range list {
			names = append(names, m.Name)
		}
		require.Contains(t, names, MetricName{"consumer-fetch-manager-metrics", "records-lag", "client-id=me,partition=0,topic=t"})
		require.Contains(t, names, MetricName{"consumer-node-metrics", "request-rate", "client-id=me,node-id=node-1"})
		require.Contains(t, names, MetricName{"kafka-metrics-count", "count", "client-id=me"})
	})
}

// Somebody looks at the metrics all the time while others read, seek and change what is
// assigned: the race detector is the judge, and nothing is counted twice or lost.
func TestMetricsAreLookedAtWhileOthersRead(t *testing.T) {
	realTime(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		const n = 2000
		for p := range int32(2) {
			b.Produce("t", p, numberedRecords(n/2)...)
		}
		c := reader(t, patient(fast(b)), tp0, TopicPartition{Topic: "t", Partition: 1})
		ctx, cancel := context.WithCancel(t.Context())
		var looks sync.WaitGroup
		for range 2 {
			looks.Go(func() {
				last := 0.0
				for ctx.Err() == nil {
					list, err := c.Metrics()
					if err != nil {
						t.Error(err)
					}
					for _, m := range list {
						if m.Name.Name == "records-consumed-total" && !strings.Contains(m.Name.Tags, "topic") {
							if m.Value < last || m.Value > n {
								t.Errorf("%v records behind %v", m.Value, last)
							}
							last = m.Value
						}
					}
				}
			})
		}
		got := 0
		for _, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			if got++; got == n {
				break
			}
		}
		cancel()
		looks.Wait()
		require.EqualValues(t, n, measured(t, c)["records-consumed-total"])
	})
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// releases are all that APIVersion takes.
var releases = []string{
	"0.8.0", "0.8.1", "0.8.2", "0.9", "0.10.0", "0.10.1", "0.10.2", "0.11", "1.0", "1.1",
	"2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
	"3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4",
}

// oldReleases are those of brokers that cannot tell what they are.
var oldReleases = releases[:4]

// changed is fast with a change.
func changed(b *testbroker.Cluster, change func(*Config)) Config {
	cfg := fast(b)
	change(&cfg)
	return cfg
}

// produceOld writes n messages as the oldest brokers store them, whose values are their
// offsets.
func produceOld(b *testbroker.Cluster, topic string, partition int32, n int) {
	for range n {
		next := b.EndOffset(topic, partition)
		b.Append(topic, partition, batch.Message{Offset: next, Value: fmt.Append(nil, next)}.Bytes(), next)
	}
}

// B46
func TestEveryReleaseIsFoundAndRead(t *testing.T) {
	for _, release := range append([]string{"0.10.0"}, oldReleases...) {
		t.Run(release, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
				produceOld(b, "t", 0, 20)
				produceOld(b, "t", 1, 20)
				var log logBuffer
				c := openConsumer(t, changed(b, func(cfg *Config) { cfg.Logger = log.logger() }))
				require.Equal(t, release, c.BrokerVersion())
				require.NoError(t, c.Assign(inTopic(0), inTopic(1)))
				require.Len(t, pollN(t, c, 40), 40)
				require.Equal(t, 1, strings.Count(log.String(), "broker version found"), "once per broker: %s", log.String())
				require.Contains(t, log.String(), "version="+release)
				topics, err := c.Topics(t.Context())
				require.NoError(t, err)
				require.Equal(t, []string{"t"}, topics, "internal topics are left out")
				ends, err := c.EndOffsets(t.Context(), inTopic(0))
				require.NoError(t, err)
				require.EqualValues(t, 20, ends[inTopic(0)])
			}, testbroker.WithRelease(release))
		})
	}
}

// B46
func TestAPIVersionIsAnUpperBound(t *testing.T) {
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 10)
				c := joiner(t, b, func(cfg *Config) { cfg.APIVersion = release })
				pollN(t, c, 10)
				if release != "0.8.0" {
					require.NoError(t, c.Commit(t.Context()))
				}
				require.NoError(t, c.Close(t.Context()))
				bound, err := protocol.ParseRelease(release)
				require.NoError(t, err)
				for _, r := range b.Requests(testbroker.AnyKey) {
					top, known := bound.MaxVersion(r.Key)
					require.True(t, known, "%s asks for %s", release, protocol.APIName(r.Key))
					require.LessOrEqual(t, r.Version, top, "%s version %d", protocol.APIName(r.Key), r.Version)
				}
			})
		})
	}
}

// B46
func TestAPIVersionAboveTheBrokersIsOfNoConsequence(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produceOld(b, "t", 0, 10)
		c := joiner(t, b, func(cfg *Config) { cfg.APIVersion = "4.4" })
		pollN(t, c, 10)
		require.NoError(t, c.Commit(t.Context()))
		require.Equal(t, "0.10.0", c.BrokerVersion())
	}, testbroker.WithRelease("0.10.0"))
}

// B46
func TestOldBrokersAreNotLookedForWhereAPIVersionIsSet(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		_, err := NewConsumer(t.Context(), changed(b, func(cfg *Config) { cfg.APIVersion = "0.10.2" }))
		require.ErrorContains(t, err, "APIVersion says that this one is 0.10.2 or newer")
		for _, r := range b.Requests(testbroker.AnyKey) {
			require.Equal(t, keyAPIVersions, r.Key)
		}
	}, testbroker.WithRelease("0.8.2"))
}

func TestAPIVersionBelowWhatABrokerStillKnowsIsHintedAt(t *testing.T) {
	table := testbroker.DefaultVersions()
	table[keyListOffsets] = testbroker.VersionRange{Min: 1, Max: 8} // as in 4.0
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		c := openConsumer(t, changed(b, func(cfg *Config) { cfg.APIVersion = "0.9" }))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.EndOffsets(ctx, tp0)
		require.ErrorContains(t, err, "had answered ListOffsets")
		require.ErrorContains(t, err, "it may be older than 0.9, which APIVersion says, or 4.0 or newer")
	}, testbroker.WithVersions(table))
}

// B46
func TestBrokersOfOneClusterHaveVersionsOfTheirOwn(t *testing.T) {
	bubble(t, 3, func(t *testing.T, b *testbroker.Cluster) {
		b.SetRelease(2, "0.8.2")
		b.SetRelease(3, "0.9")
		for p := range int32(3) {
			produceOld(b, "t", p, 10)
		}
		cfg := fast(b)
		cfg.BootstrapServers = b.Addrs()[:1] // older ones tell no ids of topics, which newer versions of Fetch need
		c := reader(t, cfg, inTopic(0), inTopic(1), inTopic(2))
		pollN(t, c, 30)
		versions := map[int32]int16{}
		for _, r := range b.Requests(keyFetch) {
			versions[r.Node] = r.Version
		}
		require.Equal(t, map[int32]int16{1: 16, 2: 0, 3: 1}, versions)
		for _, tp := range []TopicPartition{inTopic(0), inTopic(1), inTopic(2)} {
			ends, err := c.EndOffsets(t.Context(), tp)
			require.NoError(t, err)
			require.EqualValues(t, 10, ends[tp])
		}
	}, testbroker.WithNodes(3))
}

// B46
func TestOddTablesMatterOnlyWhereTheyAreUsed(t *testing.T) {
	table := func(change func(map[int16]testbroker.VersionRange)) testbroker.Option {
		versions := testbroker.DefaultVersions()
		change(versions)
		return testbroker.WithVersions(versions)
	}
	t.Run("unknown APIs", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			produce(b, "t", 0, 10)
			pollN(t, joiner(t, b, nil), 10)
		}, table(func(v map[int16]testbroker.VersionRange) {
			for key := range int16(300) {
				if _, ok := v[key]; !ok {
					v[key] = testbroker.VersionRange{Min: key % 3, Max: key % 7}
				}
			}
			v[-1], v[32767] = testbroker.VersionRange{}, testbroker.VersionRange{Min: 5, Max: 2}
		}))
	})
	t.Run("no Fetch", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			produce(b, "t", 0, 10)
			c := reader(t, fast(b), tp0)
			ends, err := c.EndOffsets(t.Context(), tp0)
			require.NoError(t, err)
			require.EqualValues(t, 10, ends[tp0])
			_, err = c.Poll(t.Context(), 5*time.Second)
			requireLacking(t, err, "Fetch", "none")
		}, table(func(v map[int16]testbroker.VersionRange) { delete(v, keyFetch) }))
	})
	t.Run("versions of ListOffsets that are too new", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
			produce(b, "t", 0, 10)
			c := reader(t, fast(b), tp0)
			_, err := c.EndOffsets(t.Context(), tp0)
			requireLacking(t, err, "ListOffsets", "version 50-60")
			_, err = c.Poll(t.Context(), time.Second)
			requireLacking(t, err, "ListOffsets", "version 50-60")
			require.NoError(t, c.Seek(tp0, 3))
			require.Equal(t, span(3, 9), offsetsOf(pollN(t, c, 7)))
			require.Zero(t, b.Count(keyListOffsets))
		}, table(func(v map[int16]testbroker.VersionRange) {
			v[keyListOffsets] = testbroker.VersionRange{Min: 50, Max: 60}
		}))
	})
}

// requireLacking checks that err says which API of broker 1 lacks what is needed.
func requireLacking(t *testing.T, err error, api, has string) *UnsupportedVersionError {
	t.Helper()
	unsupported, ok := errors.AsType[*UnsupportedVersionError](err)
	require.True(t, ok, "%T: %v", err, err)
	require.Equal(t, api, unsupported.API)
	require.Equal(t, has, unsupported.Has)
	require.EqualValues(t, 1, unsupported.Broker)
	return unsupported
}

// B46
func TestSlowBrokerIsWaitedForAndNotTakenForAnOldOne(t *testing.T) {
	for _, tc := range []struct {
		budget time.Duration
		ok     bool
	}{{10 * time.Second, true}, {0, false}} {
		t.Run(tc.budget.String(), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				b.On(keyAPIVersions).Delay(4 * time.Second)
				produce(b, "t", 0, 5)
				began := time.Now()
				c, err := NewConsumer(t.Context(), changed(b, func(cfg *Config) { cfg.APIVersionAutoTimeout = tc.budget }))
				if !tc.ok {
					require.ErrorContains(t, err, "no answer that tells the broker's version within 2s")
					require.ErrorContains(t, err, "APIVersionAutoTimeout")
					require.Equal(t, 2*time.Second, time.Since(began))
					return
				}
				require.NoError(t, err)
				defer c.Close(t.Context())
				require.Equal(t, 4*time.Second, time.Since(began))
				require.NoError(t, c.Assign(tp0))
				pollN(t, c, 5)
				for _, r := range b.Requests(keyFetch) {
					require.EqualValues(t, 16, r.Version)
				}
			})
		})
	}
}

// B46: 0.8.2 answers the look-up of a coordinator with correlation id 0 until there is a
// topic for offsets.
func TestCorrelationIDZeroOfAFreshBrokerIsForgiven(t *testing.T) {
	for _, fixed := range []string{"", "0.8.2"} {
		t.Run(fixed, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produceOld(b, "t", 0, 10)
				c := joiner(t, b, func(cfg *Config) { cfg.APIVersion = fixed })
				pollN(t, c, 10)
				require.NoError(t, c.Commit(t.Context()))
				require.EqualValues(t, 10, b.CommittedOffset("g", "t", 0))
			}, testbroker.WithRelease("0.8.2"))
		})
	}
}

// A fresh broker of 0.8 does not even name itself.
func TestTopicThatAppearsOnAFreshBrokerIsRead(t *testing.T) {
	for _, release := range oldReleases[:3] {
		t.Run(release, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				b.DeleteTopic("t")
				c := openConsumer(t, fast(b))
				require.NoError(t, c.Subscribe([]string{"t"}))
				records, err := c.Poll(t.Context(), 3*time.Second)
				require.NoError(t, err)
				require.Zero(t, records.Len())
				b.CreateTopic("t", 1)
				produceOld(b, "t", 0, 5)
				pollN(t, c, 5)
			}, testbroker.WithRelease(release))
		})
	}
}

// What a release cannot do is told before anything of it is sent.
func TestWhatAReleaseLacksIsToldBeforeAnythingIsSent(t *testing.T) {
	for _, tc := range []struct {
		release string
		change  func(*Config)
		call    func(t *testing.T, c *Consumer) error
		api     string
		need    string
		has     string
		sent    int16
	}{
		{
			"0.10.0", nil, func(t *testing.T, c *Consumer) error {
				_, err := c.OffsetsForTimes(t.Context(), map[TopicPartition]time.Time{tp0: time.UnixMilli(5)})
				return err
			}, "ListOffsets", "looking up by time needs Kafka 0.10.1", "version 0", keyListOffsets,
		},
		{
			"0.9", nil, func(t *testing.T, c *Consumer) error {
				require.NoError(t, c.Assign(tp0))
				return c.SeekToTime(t.Context(), time.UnixMilli(5), tp0)
			}, "ListOffsets", "looking up by time needs Kafka 0.10.1", "version 0", keyListOffsets,
		},
		{
			"0.8.2", func(cfg *Config) { cfg.AutoOffsetReset = ResetByDuration(time.Hour) }, func(t *testing.T, c *Consumer) error {
				require.NoError(t, c.Assign(tp0))
				_, err := c.Poll(t.Context(), 3*time.Second)
				return err
			}, "ListOffsets", "looking up by time needs Kafka 0.10.1", "version 0", keyListOffsets,
		},
		{
			"0.10.0", func(cfg *Config) { cfg.IsolationLevel = ReadCommitted }, func(t *testing.T, c *Consumer) error {
				require.NoError(t, c.Assign(tp0))
				_, err := c.Poll(t.Context(), 3*time.Second)
				return err
			}, "Fetch", "ReadCommitted needs Kafka 0.11", "version 0-2", keyFetch,
		},
		{
			"0.9", func(cfg *Config) { cfg.IsolationLevel = ReadCommitted }, func(t *testing.T, c *Consumer) error {
				_, err := c.EndOffsets(t.Context(), tp0)
				return err
			}, "ListOffsets", "ReadCommitted needs Kafka 0.11", "version 0", keyListOffsets,
		},
	} {
		t.Run(fmt.Sprint(tc.need, " with ", tc.release), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
				produceOld(b, "t", 0, 3)
				c := openConsumer(t, changed(b, func(cfg *Config) {
					if tc.change != nil {
						tc.change(cfg)
					}
				}))
				unsupported := requireLacking(t, tc.call(t, c), tc.api, tc.has)
				require.Contains(t, unsupported.Need, tc.need)
				for _, r := range b.Requests(tc.sent) {
					ends, ok := r.Message.(*kmsg.ListOffsetsRequest)
					require.True(t, ok && ends.Topics[0].Partitions[0].Timestamp < 0, "%+v", r.Message)
				}
			}, testbroker.WithRelease(tc.release))
		})
	}
}

// With ReadCommitted no record of an aborted transaction comes, whatever APIVersion says.
func TestReadCommittedIsNotGivenUpForAnOldAPIVersion(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		c := reader(t, changed(b, func(cfg *Config) { cfg.APIVersion, cfg.IsolationLevel = "0.10.2", ReadCommitted }), tp0)
		_, err := c.Poll(t.Context(), 3*time.Second)
		requireLacking(t, err, "Fetch", "version 0-16, but release 0.10.2, which the client was told to assume, ends at 3")
	})
}

// Metadata below version 4 creates the topics that it names.
func TestOldBrokersCreateNoTopicUnasked(t *testing.T) {
	for _, release := range oldReleases {
		for _, create := range []bool{false, true} {
			t.Run(fmt.Sprint(release, " ", create), func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
					c := openConsumer(t, changed(b, func(cfg *Config) { cfg.AllowAutoCreateTopics = create }))
					require.NoError(t, c.Subscribe([]string{"t", "new"}))
					_, err := c.Poll(t.Context(), 3*time.Second)
					require.NoError(t, err)
					topics, err := c.Topics(t.Context())
					require.NoError(t, err)
					if create {
						require.Equal(t, []string{"new", "t"}, topics)
					} else {
						require.Equal(t, []string{"t"}, topics)
					}
				}, testbroker.WithRelease(release), testbroker.WithAutoCreate(1))
			})
		}
	}
}

// B32
func TestMessageLargerThanTheFetchSizeOfAnOldBroker(t *testing.T) {
	const large = 5 << 20
	for _, release := range []string{"0.8.2", "0.9", "0.10.0"} {
		t.Run(release, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
				produceOld(b, "t", 0, 2)
				b.Append("t", 0, batch.Message{Offset: 2, Value: make([]byte, large)}.Bytes(), 2)
				produceOld(b, "t", 0, 2)
				produceOld(b, "t", 1, 10)
				c := reader(t, fast(b), inTopic(0), inTopic(1))
				got := pollN(t, c, 15)
				var first []Record
				for _, r := range got {
					if r.Partition == 0 {
						first = append(first, r)
					}
				}
				require.Equal(t, span(0, 4), offsetsOf(first))
				require.Len(t, first[2].Value, large)
			}, testbroker.WithRelease(release))
		})
	}
}

// B32
func TestMessageThatNoAnswerOfAnOldBrokerCanHold(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produceOld(b, "t", 0, 2)
		b.Append("t", 0, batch.Message{Offset: 2, Value: make([]byte, 5<<20)}.Bytes(), 2)
		produceOld(b, "t", 0, 2)
		produceOld(b, "t", 1, 5)
		c := reader(t, changed(b, func(cfg *Config) {
			cfg.MaxPartitionFetchBytes, cfg.FetchMaxBytes, cfg.ReceiveMessageMaxBytes = 100_000, 1_000_000, 3_000_000
		}), inTopic(0), inTopic(1))
		require.Len(t, pollN(t, c, 7), 7)
		_, err := c.Poll(t.Context(), 3*time.Second)
		where, ok := errors.AsType[*PartitionError](err)
		require.True(t, ok, err)
		require.Equal(t, inTopic(0), TopicPartition{Topic: where.Topic, Partition: where.Partition})
		size, ok := errors.AsType[*BatchTooLargeError](err)
		require.True(t, ok, err)
		require.EqualValues(t, 2, size.BatchOffset)
		require.ErrorContains(t, err, "ReceiveMessageMaxBytes")

		before := b.Count(keyFetch)
		produceOld(b, "t", 1, 20)
		pollPast(t, c, 20)
		time.Sleep(5 * time.Second)
		require.LessOrEqual(t, b.Count(keyFetch)-before, 20+60, "10 requests a second")
		require.NoError(t, c.Seek(inTopic(0), 3))
		require.Equal(t, span(3, 4), offsetsOf(pollPast(t, c, 2)))
	}, testbroker.WithRelease("0.9"))
}

// pollPast polls until n records came, whatever errors come.
func pollPast(t *testing.T, c *Consumer, n int) []Record {
	t.Helper()
	var got []Record
	for end := time.Now().Add(20 * time.Second); len(got) < n; {
		require.True(t, time.Now().Before(end), "%d of %d records came", len(got), n)
		records, err := c.Poll(t.Context(), time.Second)
		if err != nil {
			continue
		}
		for r := range records.All() {
			got = append(got, r)
		}
	}
	return got
}

// B32: a batch that is cut in an answer to Fetch v0 is asked for again as well.
func TestRecordBatchCutByAnOldFetchIsReadWhole(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.Produce("t", 0, testbroker.Record{Value: make([]byte, 3<<20)})
		produce(b, "t", 0, 3)
		c := reader(t, changed(b, func(cfg *Config) { cfg.APIVersion = "0.10.0" }), tp0)
		require.Equal(t, span(0, 3), offsetsOf(pollN(t, c, 4)))
	})
}

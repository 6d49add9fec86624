package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// B53: two partitions on two leaders, one of which is none any more.
func TestListOffsetsFollowsAMovedLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(2))
		tb.CreateTopic("t", 2)
		tb.ProduceValues("t", 0, "a", "b", "c")
		tb.ProduceValues("t", 1, "d")
		c := start(t, tb, nil, "t")
		tb.SetLeader("t", 0, 2)
		tb.On(protocol.KeyMetadata).Delay(400 * time.Millisecond)
		began := time.Now()
		found, errs := c.ListOffsets(within(t, 5*time.Second), map[protocol.TopicPartition]int64{tp("t", 0): Latest, tp("t", 1): Earliest}, 0)
		require.Empty(t, errs)
		require.Equal(t, int64(3), found[tp("t", 0)].Offset)
		require.Equal(t, int64(0), found[tp("t", 1)].Offset)
		require.Less(t, time.Since(began), time.Second)
		require.Equal(t, 3, tb.Count(protocol.KeyListOffsets), "only the partition that failed is asked for again")
	})
}

func TestListOffsetsReturnsTheOthersWhenOneFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(2))
		tb.CreateTopic("t", 2)
		tb.ProduceValues("t", 1, "d")
		c := start(t, tb, nil, "t")
		tb.On(protocol.KeyListOffsets).Node(1).Fail(int16(protocol.TopicAuthorizationFailed))
		found, errs := c.ListOffsets(t.Context(), map[protocol.TopicPartition]int64{tp("t", 0): Latest, tp("t", 1): Latest}, 0)
		require.Equal(t, map[protocol.TopicPartition]ListedOffset{tp("t", 1): {Offset: 1, Timestamp: -1}}, found)
		require.Len(t, errs, 1)
		require.ErrorIs(t, errs[tp("t", 0)], protocol.TopicAuthorizationFailed)
		var code *CodeError
		require.ErrorAs(t, errs[tp("t", 0)], &code)
		require.Equal(t, int32(1), code.Node)
	})
}

func TestListOffsetsEndsWithTheLastErrorOfEachPartition(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(3))
		tb.CreateTopic("t", 4)
		tb.ProduceValues("t", 3, "d")
		c := start(t, tb, nil, "t", "gone")
		tb.On(protocol.KeyListOffsets).Node(2).Fail(int16(protocol.OffsetNotAvailable))
		tb.On(protocol.KeyListOffsets).Node(3).Drop()
		tb.SetLeader("t", 3, 1)
		began := time.Now()
		spec := map[protocol.TopicPartition]int64{
			tp("t", 0): 0, tp("t", 1): Latest, tp("t", 2): Latest, tp("t", 3): Latest, tp("t", 9): Latest, tp("gone", 0): Latest, tp("other", 0): Latest,
		}
		found, errs := c.ListOffsets(within(t, 2*time.Second), spec, 0)
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Contains(t, found, tp("t", 3), "the moved leader's partition")
		require.Equal(t, ListedOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}, found[tp("t", 0)], "no record is that young")
		require.Len(t, found, 2)
		for _, want := range []struct {
			tp   protocol.TopicPartition
			code protocol.ErrorCode
		}{
			{tp("t", 1), protocol.OffsetNotAvailable}, {tp("t", 9), protocol.UnknownTopicOrPartition},
			{tp("gone", 0), protocol.UnknownTopicOrPartition}, {tp("other", 0), protocol.UnknownTopicOrPartition},
		} {
			require.ErrorIs(t, errs[want.tp], want.code, want.tp)
			require.ErrorIs(t, errs[want.tp], context.DeadlineExceeded, want.tp)
		}
		require.ErrorIs(t, errs[tp("t", 2)], context.DeadlineExceeded)
		require.LessOrEqual(t, tb.Count(protocol.KeyMetadata), 25)
	})
}

func TestListOffsetsOfTopicsNobodyIsInterestedIn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(2))
		tb.CreateTopic("other", 2)
		tb.ProduceValues("other", 1, "x", "y")
		c := start(t, tb, nil)
		spec := map[protocol.TopicPartition]int64{tp("other", 1): Latest}
		found, errs := c.ListOffsets(within(t, time.Second), spec, 0)
		require.Empty(t, errs)
		require.Equal(t, int64(2), found[tp("other", 1)].Offset)
		require.Nil(t, c.Metadata().Topic("other"))

		held := tb.On(protocol.KeyListOffsets).Once().HoldRequest()
		go func() {
			held.WaitHeld(1, time.Second)
			tb.SetLeader("other", 1, 1)
			held.Release()
		}()
		found, errs = c.ListOffsets(within(t, time.Second), spec, 0)
		require.Empty(t, errs)
		require.Contains(t, found, tp("other", 1), "its leader is looked up again")
	})
}

func TestListOffsetsSurvivesALeaderThatRestarts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t, testbroker.WithNodes(2))
		tb.CreateTopic("t", 2)
		c := start(t, tb, nil, "t")
		tb.StopNode(2)
		time.AfterFunc(2*time.Second, func() { tb.StartNode(2) })
		_, errs := c.ListOffsets(within(t, 5*time.Second), map[protocol.TopicPartition]int64{tp("t", 1): Latest}, 0)
		require.Empty(t, errs)
	})
}

func TestListOffsetsAsksWhatItIsToldTo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t)
		tb.CreateTopic("t", 1)
		tb.SetLeaderEpoch("t", 0, 7)
		c := start(t, tb, nil, "t")
		tb.On(protocol.KeyListOffsets).Edit(func(_ testbroker.Request, resp kmsg.Response) {
			p := &resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
			p.Offset, p.Timestamp, p.LeaderEpoch = 5, -1, 3
		})
		found, errs := c.ListOffsets(t.Context(), map[protocol.TopicPartition]int64{tp("t", 0): 1234}, 1)
		require.Empty(t, errs)
		require.Equal(t, ListedOffset{Offset: 5, Timestamp: -1, LeaderEpoch: 3}, found[tp("t", 0)])
		req := tb.Requests(protocol.KeyListOffsets)[0].Message.(*kmsg.ListOffsetsRequest)
		require.Equal(t, int8(1), req.IsolationLevel)
		require.Equal(t, int32(-1), req.ReplicaID)
		require.Equal(t, int64(1234), req.Topics[0].Partitions[0].Timestamp)
		require.Equal(t, int32(7), req.Topics[0].Partitions[0].CurrentLeaderEpoch)
	})
}

func TestListOffsetsOfABrokerBefore0101(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		table := testbroker.DefaultVersions()
		table[protocol.KeyListOffsets] = testbroker.VersionRange{}
		tb := testbroker.New(t, testbroker.WithVersions(table))
		tb.CreateTopic("t", 2)
		tb.ProduceValues("t", 0, "a", "b", "c")
		tb.SetLogStart("t", 0, 1)
		c := start(t, tb, nil, "t")
		for timestamp, want := range map[int64]int64{Latest: 3, Earliest: 1} {
			found, errs := c.ListOffsets(t.Context(), map[protocol.TopicPartition]int64{tp("t", 0): timestamp}, 0)
			require.Empty(t, errs)
			require.Equal(t, ListedOffset{Offset: want, Timestamp: -1, LeaderEpoch: -1}, found[tp("t", 0)])
		}
		asked := tb.Count(protocol.KeyListOffsets)
		for _, timestamp := range []int64{1234, EarliestLocal} {
			_, errs := c.ListOffsets(t.Context(), map[protocol.TopicPartition]int64{tp("t", 0): timestamp}, 0)
			var unsupported *protocol.UnsupportedVersionError
			require.ErrorAs(t, errs[tp("t", 0)], &unsupported)
			require.Equal(t, int32(1), unsupported.Broker)
		}
		_, errs := c.ListOffsets(t.Context(), map[protocol.TopicPartition]int64{tp("t", 0): Latest}, 1)
		require.ErrorContains(t, errs[tp("t", 0)], "ReadCommitted needs Kafka 0.11")
		require.Equal(t, asked, tb.Count(protocol.KeyListOffsets), "nothing is sent that a broker does not know")

		// What the leader cannot look up does not keep it from telling the rest.
		found, errs := c.ListOffsets(t.Context(), map[protocol.TopicPartition]int64{tp("t", 0): Earliest, tp("t", 1): 1234}, 0)
		require.EqualValues(t, 1, found[tp("t", 0)].Offset)
		require.Len(t, errs, 1)
		for _, r := range tb.Requests(protocol.KeyListOffsets) {
			require.EqualValues(t, 1, r.Message.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].MaxNumOffsets)
		}
	})
}

func TestListOffsetsOfAnAnswerThatLeavesPartitionsOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t)
		tb.CreateTopic("t", 1)
		c := start(t, tb, nil, "t")
		tb.On(protocol.KeyListOffsets).Once().Reply(func(kmsg.Request) kmsg.Response { return kmsg.NewPtrListOffsetsResponse() })
		found, errs := c.ListOffsets(within(t, time.Second), map[protocol.TopicPartition]int64{tp("t", 0): Latest}, 0)
		require.Empty(t, errs)
		require.Len(t, found, 1)
	})
}

func TestFindCoordinatorOfBothLayouts(t *testing.T) {
	for version := int16(0); version <= 6; version++ {
		inBubble(t, func(t *testing.T) {
			table := testbroker.DefaultVersions()
			table[protocol.KeyFindCoordinator] = testbroker.VersionRange{Max: version}
			tb := testbroker.New(t, testbroker.WithNodes(3), testbroker.WithVersions(table))
			tb.MoveCoordinator("g", 3)
			c := start(t, tb, nil)
			node, err := c.FindCoordinator(t.Context(), "g")
			require.NoError(t, err)
			require.Equal(t, int32(3), node)
			require.Equal(t, version, tb.Requests(protocol.KeyFindCoordinator)[0].Version)

			tb.On(protocol.KeyFindCoordinator).Once().Fail(int16(protocol.GroupAuthorizationFailed))
			_, err = c.FindCoordinator(t.Context(), "g")
			require.ErrorIs(t, err, protocol.GroupAuthorizationFailed)
			require.Equal(t, 2, tb.Count(protocol.KeyFindCoordinator), "one question, whatever the answer")
		})
	}
}

func TestCoordinatorsOutsideTheMetadataAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t)
		c := start(t, tb, nil)
		answer := func(id int32, host string) {
			tb.On(protocol.KeyFindCoordinator).Once().Edit(func(_ testbroker.Request, resp kmsg.Response) {
				found := &resp.(*kmsg.FindCoordinatorResponse).Coordinators[0]
				found.NodeID, found.Host, found.Port = id, host, 1
			})
		}
		answer(8, "eight")
		node, err := c.FindCoordinator(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, int32(8), node)
		require.NoError(t, c.RefreshAndWait(t.Context()))
		b, ok := c.Broker(8)
		require.True(t, ok, "a refresh does not take it away")
		require.Equal(t, conn.Addr{Host: "eight", Port: 1}, b.Addr())

		answer(9, "nine")
		_, err = c.FindCoordinator(t.Context(), "g")
		require.NoError(t, err)
		_, ok = c.Broker(8)
		require.False(t, ok, "the former one is let go")
		_, ok = c.Broker(9)
		require.True(t, ok)

		answer(-1, "")
		_, err = c.FindCoordinator(t.Context(), "g")
		require.ErrorIs(t, err, protocol.CoordinatorNotAvailable, "an answer that names nobody")
	})
}

func TestMetadataRequestsOfOldBrokers(t *testing.T) {
	names := func(r testbroker.Request) (all bool, list []string) {
		m := r.Message.(*kmsg.MetadataRequest)
		for _, topic := range m.Topics {
			list = append(list, *topic.Topic)
		}
		return m.Topics == nil || r.Version == 0 && len(list) == 0, list
	}
	tests := []struct {
		name    string
		version int16
		create  bool
		wantAll bool
	}{
		{"version 0 is asked for all, since it would create what is named", 0, false, true},
		{"so is version 3", 3, false, true},
		{"version 4 can be told not to", 4, false, false},
		{"version 0 is asked by name when it may create", 0, true, false},
		{"version 12 is asked by name", 12, true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				table := testbroker.DefaultVersions()
				table[protocol.KeyMetadata] = testbroker.VersionRange{Max: test.version}
				tb := testbroker.New(t, testbroker.WithVersions(table), testbroker.WithAutoCreate(2))
				tb.CreateTopic("there", 1)
				tb.CreateTopic("other", 1)
				c := start(t, tb, func(cfg *Config) { cfg.AllowAutoCreate = test.create }, "there", "made")
				all, list := names(tb.Requests(protocol.KeyMetadata)[0])
				require.Equal(t, test.wantAll, all)
				if !test.wantAll {
					require.Equal(t, []string{"made", "there"}, list)
				}
				m := c.Metadata()
				require.Nil(t, m.Topic("other"))
				require.Len(t, m.Topic("there").Partitions, 1)
				if test.create {
					require.Len(t, m.Topic("made").Partitions, 2)
				} else {
					require.Equal(t, protocol.UnknownTopicOrPartition, m.Topic("made").Err)
				}
				topic, err := c.TopicMetadata(t.Context(), "asked-once")
				require.NoError(t, err)
				require.Equal(t, protocol.UnknownTopicOrPartition, topic.Err, "a look-up never creates")
			})
		})
	}
}

func TestOneOffLookUpsLeaveTheInterestAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t)
		tb.CreateTopic("a", 1)
		tb.CreateTopic("b", 2)
		c := start(t, tb, nil, "a")
		all, err := c.AllTopics(t.Context())
		require.NoError(t, err)
		require.Len(t, all.Topics, 2)
		topic, err := c.TopicMetadata(t.Context(), "b")
		require.NoError(t, err)
		require.Len(t, topic.Partitions, 2)
		require.Nil(t, c.Metadata().Topic("b"))

		tb.AddPartitions("a", 3)
		topic, err = c.TopicMetadata(t.Context(), "a")
		require.NoError(t, err)
		require.Len(t, topic.Partitions, 3)
		require.Len(t, c.Metadata().Topic("a").Partitions, 3, "what is of interest is taken in")

		c.SetInterest([]string{"a"}, true)
		require.NoError(t, c.RefreshAndWait(t.Context()))
		_, err = c.TopicMetadata(t.Context(), "c")
		require.NoError(t, err)
		require.Nil(t, c.Metadata().Topic("c"), "with all topics of interest, one that does not exist is none")

		tb.StopNode(1)
		_, err = c.AllTopics(within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "connection refused")
	})
}

// The time may be over in the middle of a question, which then says nothing but that.
func TestListOffsetsKeepsTheReasonWhenItsTimeIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tb := testbroker.New(t)
		tb.CreateTopic("t", 1)
		c := start(t, tb, nil, "t")
		tb.On(protocol.KeyMetadata).Delay(300 * time.Millisecond)
		for limit := 310 * time.Millisecond; limit < 3*time.Second; limit += 70 * time.Millisecond {
			_, errs := c.ListOffsets(within(t, limit), map[protocol.TopicPartition]int64{tp("nowhere", 0): Latest}, 0)
			require.ErrorIs(t, errs[tp("nowhere", 0)], protocol.UnknownTopicOrPartition, "after %v", limit)
			require.ErrorIs(t, errs[tp("nowhere", 0)], context.DeadlineExceeded)
			time.Sleep(5 * time.Second)
		}
	})
}

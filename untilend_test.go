package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A partition that is read to its end, and has more behind that, must not stand in the
// way of others: neither of their turn nor of their room.
func TestRecordsUntilEndGoesOnBesideAPartitionThatGrows(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"one record at a time": func(c *Config) { c.MaxPollRecords = 1 },
		"little memory":        func(c *Config) { c.MaxBufferedBytes, c.MaxPartitionFetchBytes = 4000, 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
				produce(b, "t", 0, 3)
				produce(b, "t", 1, 30)
				cfg := fast(b)
				change(&cfg)
				c := reader(t, cfg, tp0, tp1)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				got := map[int32][]int64{}
				for r, err := range c.RecordsUntilEnd(ctx) {
					require.NoError(t, err, "%v", got)
					if len(got) == 0 {
						produce(b, "t", 0, 100)
						time.Sleep(time.Second)
					}
					got[r.Partition] = append(got[r.Partition], r.Offset)
				}
				require.Equal(t, map[int32][]int64{0: span(0, 2), 1: span(0, 29)}, got)
				require.Len(t, pollN(t, c, 100), 100, "what came meanwhile is for the next reader")
			})
		})
	}
}

// The last offset before the end may hold nothing, and what is behind it may come with it.
func TestRecordsUntilEndEndsBehindAMarker(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		producer := batch.Producer{ID: 7}
		b.AppendBatch("t", 0, batch.V2{Producer: &producer, Transactional: true, Records: values(0, 1, 2)})
		b.AppendBatch("t", 0, batch.Marker(0, producer, true))
		cfg := fast(b)
		cfg.IsolationLevel = ReadCommitted
		c := reader(t, cfg, tp0)
		fetches := b.On(protocol.KeyFetch).HoldRequest()
		time.AfterFunc(time.Second, func() { // the end is known by then
			produce(b, "t", 0, 5)
			fetches.Release()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var got []int64
		for r, err := range c.RecordsUntilEnd(ctx) {
			require.NoError(t, err)
			got = append(got, r.Offset)
		}
		require.Equal(t, span(0, 2), got)
		require.Equal(t, int64(4), position(t, c, tp0), "the marker counts as read")
		require.Equal(t, span(4, 8), offsetsOf(pollN(t, c, 5)))
	})
}

// While one partition is waited for, another that has records behind its end must not keep
// the consumer busy: time goes on in a bubble only while nobody is.
func TestRecordsUntilEndWaitsInPeace(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *testbroker.Cluster) {
		produce(b, "t", 0, 3)
		produce(b, "t", 1, 3)
		c := reader(t, fast(b), tp0, tp1)
		require.NoError(t, c.Pause(tp1))
		got := 0
		for r, err := range c.RecordsUntilEnd(t.Context()) {
			require.NoError(t, err)
			if r.Offset == 0 && r.Partition == 0 {
				b.SetLeader("t", 1, -1)
				require.NoError(t, c.Resume(tp1))
				produce(b, "t", 0, 3)
				time.AfterFunc(3*time.Second, func() { b.SetLeader("t", 1, 1) })
			}
			got++
		}
		require.Equal(t, 6, got)
	})
}

// A topic that may not be read is told of, and not waited for.
func TestRecordsUntilEndDoesNotWaitForWhatIsRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.CreateTopic("secret", 1)
		produce(b, "t", 0, 3)
		b.On(protocol.KeyListOffsets).Edit(func(_ testbroker.Request, resp kmsg.Response) {
			for i, topic := range resp.(*kmsg.ListOffsetsResponse).Topics {
				if topic.Topic == "secret" {
					resp.(*kmsg.ListOffsetsResponse).Topics[i].Partitions[0].ErrorCode = int16(protocol.TopicAuthorizationFailed)
				}
			}
		})
		c := reader(t, fast(b), tp0, TopicPartition{Topic: "secret"})
		got, refused := 0, 0
		for _, err := range c.RecordsUntilEnd(t.Context()) {
			if err == nil {
				got++
				continue
			}
			require.ErrorIs(t, err, protocol.TopicAuthorizationFailed)
			if refused++; refused == 10 {
				break
			}
		}
		require.Equal(t, 3, got)
		require.Less(t, refused, 10, "it goes on for ever")
	})
}

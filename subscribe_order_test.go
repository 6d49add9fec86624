package kafka

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Subscribe and the one that follows metadata look at it at the same time. The one that
// looked first may be the last to say what it saw.
func TestWhatALateLookSawDoesNotStandAgainstANewerOne(t *testing.T) {
	t.Run("without a group", func(t *testing.T) {
		woken := 0
		s := &solo{wake: func() { woken++ }}
		early, late := s.looks.Add(1), s.looks.Add(1)
		s.update([]TopicPartition{tp0}, late)
		s.update(nil, early)
		require.Equal(t, 1, woken)
		require.Equal(t, []TopicPartition{tp0}, s.nextStep().assignment)
	})
	t.Run("in a group", func(t *testing.T) {
		groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
			m := newTestMember(t, tb, nil)
			early, late := m.co.looks.Add(1), m.co.looks.Add(1)
			m.co.subscribe([]string{"t"}, "the newer one", late)
			m.co.subscribe([]string{"u"}, "the older one", early)
			m.run().awaitOwned(4)
		})
	})
}

// A subscription is changed while the group's coordinator has the topics of other
// members watched.
func TestTopicsOfInterestAreThoseOfTheLastSubscription(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *testbroker.Cluster) {
		b.CreateTopic("a", 1)
		b.CreateTopic("b", 1)
		c := openConsumer(t, fast(b))
		for i := range 1000 {
			topic := []string{"a", "b"}[i%2]
			var both sync.WaitGroup
			both.Go(func() { c.watchTopics([]string{"t"}) })
			both.Go(func() { require.NoError(t, c.Subscribe([]string{topic})) })
			both.Wait()
			synctest.Wait()
			time.Sleep(time.Second)
			asked := b.Requests(protocol.KeyMetadata)
			var names []string
			for _, t := range asked[len(asked)-1].Message.(*kmsg.MetadataRequest).Topics {
				names = append(names, *t.Topic)
			}
			require.Contains(t, names, topic)
			b.ForgetRequests()
			time.Sleep(time.Second)
		}
	})
}

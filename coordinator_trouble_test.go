package kafka

import (
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

func TestAStandingErrorComesAtOnceAndThenOncePerMaximalBackoff(t *testing.T) {
	for _, key := range []int16{protocol.KeyFindCoordinator, protocol.KeyJoinGroup} {
		t.Run(protocol.APIName(key), func(t *testing.T) {
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				refused := tb.On(key).Fail(int16(protocol.GroupAuthorizationFailed))
				m := newTestMember(t, tb, nil).subscribe("t").run()
				eventually(t, 100*time.Millisecond, "the first error", func() bool { return len(m.errors()) == 1 })
				time.Sleep(10 * time.Second)
				require.InDelta(t, 10, len(m.errors()), 3)
				require.Less(t, tb.Count(key), 16, "tried at most once per maximal backoff")
				var be *BrokerError
				require.ErrorAs(t, m.errors()[0], &be)
				require.Equal(t, protocol.APIName(key), be.API)
				require.Contains(t, m.errors()[0].Error(), `group "g"`)
				refused.Remove()
				m.awaitOwned(4)
				n := len(m.errors())
				time.Sleep(5 * time.Second)
				require.Len(t, m.errors(), n, "over is over")
			})
		})
	}
}

func TestATerminalErrorComesEachTime(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t")
		m.poll()
		eventually(t, time.Second, "refused", func() bool { return m.co.takeError() != nil })
		for range 5 {
			require.ErrorIs(t, m.co.takeError(), protocol.InvalidSessionTimeout)
		}
		time.Sleep(10 * time.Second)
		m.poll()
		require.LessOrEqual(t, tb.Count(protocol.KeyJoinGroup), 2, "no more tries")
		require.NoError(t, m.co.leave(timeoutOf(t, time.Second), "unsubscribed"))
		require.NoError(t, m.co.takeError())
	}, testbroker.WithSessionTimeouts(time.Minute, time.Hour))
}

func TestAnUnreachableCoordinatorIsToldAfterTheRequestTimeout(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.MoveCoordinator("g", 0)
		m := newTestMember(t, tb, func(c *Config) { c.RequestTimeout = 10 * time.Second; c.FetchMaxWait = time.Second }).subscribe("t").run()
		time.Sleep(9 * time.Second)
		require.Empty(t, m.errors())
		require.NotEmpty(t, m.eventsSoFar())
		require.LessOrEqual(t, len(m.eventsSoFar()), 13, "at most one event per maximal backoff")
		time.Sleep(3 * time.Second)
		require.NotEmpty(t, m.errors())
		require.ErrorIs(t, m.errors()[0], protocol.CoordinatorNotAvailable)
		tb.MoveCoordinator("g", 1)
		m.awaitOwned(4)
		n := len(m.errors())
		time.Sleep(5 * time.Second)
		require.Len(t, m.errors(), n)
	})
}

// B48 (d): the look-ups of a coordinator that nobody names cost next to nothing.
func TestLookUpsOfAnUnknownCoordinatorFollowABackoff(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.On(protocol.KeyFindCoordinator).Fail(int16(protocol.CoordinatorNotAvailable))
		m := newTestMember(t, tb, nil).subscribe("t").run()
		time.Sleep(20 * time.Second)
		require.Less(t, tb.Count(protocol.KeyFindCoordinator), 40)
		require.Empty(t, m.errors())
	})
}

func TestACoordinatorThatIsNamedButRefusesIsToldToo(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.On(protocol.KeyJoinGroup).Fail(int16(protocol.NotCoordinator))
		m := newTestMember(t, tb, nil).subscribe("t").run()
		time.Sleep(25 * time.Second)
		require.Empty(t, m.errors())
		time.Sleep(10 * time.Second)
		require.NotEmpty(t, m.errors())
		require.ErrorIs(t, m.errors()[0], protocol.NotCoordinator)
		require.Less(t, tb.Count(protocol.KeyJoinGroup), 60)
	})
}

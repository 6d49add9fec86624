package kafka

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/kafkaconsumer/kafka/internal/conn"
	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// customAssignor gives everything to the last member, in the way that a test sets.
type customAssignor struct {
	mu       sync.Mutex
	inputs   []assignors.Input
	assigned []assignors.MemberAssignment
	made     int // instances
	assign   func(assignors.Input) (assignors.Assignment, error)
	of       *customAssignor
}

func (a *customAssignor) root() *customAssignor {
	if a.of != nil {
		return a.of
	}
	return a
}

func (*customAssignor) Name() string                    { return "custom" }
func (*customAssignor) Protocols() []assignors.Protocol { return []assignors.Protocol{assignors.Eager} }
func (*customAssignor) UserData(topics []string) []byte { return []byte("wants " + topics[0]) }

func (a *customAssignor) NewInstance() assignors.Assignor {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.made++
	return &customAssignor{of: a}
}

func (a *customAssignor) OnAssigned(m assignors.MemberAssignment, generation int32) {
	r := a.root()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.assigned = append(r.assigned, m)
}

func (a *customAssignor) Assign(in assignors.Input) (assignors.Assignment, error) {
	r := a.root()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputs = append(r.inputs, in)
	return r.assign(in)
}

func withAssignor(a assignors.Assignor) func(*Config) {
	return func(c *Config) {
		c.PartitionAssignmentStrategy = []assignors.Assignor{a}
		c.ClientRack = "r1"
	}
}

func TestACustomAssignorGetsPlainDataAndDecides(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		a := &customAssignor{}
		a.assign = func(in assignors.Input) (assignors.Assignment, error) {
			last := in.Members[len(in.Members)-1].ID
			return assignors.Assignment{last: {Partitions: []TopicPartition{inTopic(2), inTopic(0)}, UserData: []byte("hello")}}, nil
		}
		m := newTestMember(t, tb, withAssignor(a)).subscribe("t").run()
		m.awaitOwned(2)
		a.mu.Lock()
		defer a.mu.Unlock()
		require.Equal(t, 1, a.made)
		require.Equal(t, []TopicPartition{inTopic(0), inTopic(2)}, m.owns(), "sorted")
		in := a.inputs[0]
		require.Len(t, in.Members, 1)
		require.Equal(t, []string{"t"}, in.Members[0].Topics)
		require.Equal(t, "wants t", string(in.Members[0].UserData))
		require.Equal(t, "r1", in.Members[0].Rack)
		require.Empty(t, in.Members[0].Owned)
		require.Len(t, in.Topics["t"], 4)
		require.Equal(t, int32(3), in.Topics["t"][3].ID)
		require.Equal(t, []string{"rack1"}, in.Topics["t"][3].Racks)
		require.Equal(t, "hello", string(a.assigned[0].UserData))
		require.Len(t, a.assigned[0].Partitions, 2)
	}, testbroker.WithRack(1, "rack1"))
}

func TestAnAssignorThatFailsIsToldToTheLeadersApplication(t *testing.T) {
	broken := errors.New("no idea")
	for _, tt := range []struct {
		name   string
		assign func(assignors.Input) (assignors.Assignment, error)
		want   string
	}{
		{"an error", func(assignors.Input) (assignors.Assignment, error) { return nil, broken }, "no idea"},
		{"a partition for two", func(in assignors.Input) (assignors.Assignment, error) {
			return assignors.Assignment{in.Members[0].ID: {Partitions: []TopicPartition{inTopic(0), inTopic(0)}}}, nil
		}, "t-0 to both"},
		{"a member that is none", func(assignors.Input) (assignors.Assignment, error) {
			return assignors.Assignment{"stranger": {}}, nil
		}, "stranger"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
				a := &customAssignor{assign: tt.assign}
				m := newTestMember(t, tb, withAssignor(a)).subscribe("t").run()
				time.Sleep(5 * time.Second)
				require.NotEmpty(t, m.errors())
				require.Contains(t, m.errors()[0].Error(), "assignor custom")
				require.Contains(t, m.errors()[0].Error(), tt.want)
				require.Less(t, tb.Count(protocol.KeySyncGroup), 1)
				require.Less(t, tb.Count(protocol.KeyJoinGroup), 12)
				a.mu.Lock()
				a.assign = func(in assignors.Input) (assignors.Assignment, error) {
					return assignors.Assignment{in.Members[0].ID: {Partitions: []TopicPartition{inTopic(1)}}}, nil
				}
				a.mu.Unlock()
				m.awaitOwned(1)
			})
		})
	}
}

func TestAMemberWhoseDataIsNotUnderstoodDoesNotStopTheGroup(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = "g", "consumer", 60000, 60000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = "range", []byte{0, 1, 0x7f, 0xff, 0xff, 0xff, 1}
		req.Protocols = append(req.Protocols, p)
		stranger := newTestMember(t, tb, nil)
		resp, err := stranger.co.cl.DoTimeout(t.Context(), 1, conn.Group, conn.Limit(req, 3, 3), time.Minute)
		require.NoError(t, err)
		require.Zero(t, resp.(*kmsg.JoinGroupResponse).ErrorCode)
		require.Len(t, tb.Group("g").Members, 2)
		m.awaitOwned(4)
		require.Empty(t, m.errors())
		require.Greater(t, len(m.steps()), 1, "there was a rebalance")
	})
}

func TestAnAssignmentThatCannotBeReadIsTold(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.On(protocol.KeySyncGroup).Once().Edit(func(_ testbroker.Request, resp kmsg.Response) {
			resp.(*kmsg.SyncGroupResponse).MemberAssignment = []byte{0, 0, 0, 0, 0, 9}
		})
		m := newTestMember(t, tb, nil).subscribe("t").run()
		m.awaitOwned(4)
		require.Len(t, m.errors(), 1)
		var blob *group.BlobError
		require.ErrorAs(t, m.errors()[0], &blob)
	})
}

func TestAnAnswerForAnotherKindOfGroupIsTerminal(t *testing.T) {
	connect := "connect"
	for _, edit := range []func(kmsg.Response){
		func(r kmsg.Response) {
			if j, ok := r.(*kmsg.JoinGroupResponse); ok && j.ErrorCode == 0 {
				j.ProtocolType = &connect
			}
		},
		func(r kmsg.Response) {
			if s, ok := r.(*kmsg.SyncGroupResponse); ok {
				s.Protocol = &connect
			}
		},
	} {
		groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
			tb.On(testbroker.AnyKey).Edit(func(_ testbroker.Request, resp kmsg.Response) { edit(resp) })
			m := newTestMember(t, tb, nil).subscribe("t").run()
			eventually(t, 2*time.Second, "an error", func() bool { return len(m.errors()) > 0 })
			require.ErrorIs(t, m.errors()[0], protocol.InconsistentGroupProtocol)
			require.Empty(t, m.owns())
		})
	}
}

func TestTopicsThatGoAndComeBackAreAssignedAnew(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		tb.CreateTopic("u", 2)
		m := newTestMember(t, tb, func(c *Config) { c.MetadataMaxAge = time.Second })
		m.co.cl.SetInterest([]string{"t", "u"}, false)
		m.subscribe("t", "u").run()
		m.awaitOwned(6)
		tb.DeleteTopic("u")
		m.awaitOwned(4)
		tb.CreateTopic("u", 2)
		m.awaitOwned(6)
		require.Less(t, tb.Count(protocol.KeyJoinGroup), 6)
		require.Equal(t, 2, len(slices.DeleteFunc(m.owns(), func(tp TopicPartition) bool { return tp.Topic == "t" })))
	})
}

func TestOneBrokersOutdatedViewOfATopicIsNoReasonToRebalance(t *testing.T) {
	groupTest(t, func(t *testing.T, tb *testbroker.Cluster) {
		m := newTestMember(t, tb, func(c *Config) { c.MetadataMaxAge = time.Second }).subscribe("t").run()
		m.awaitOwned(4)
		outdated := tb.On(protocol.KeyMetadata).Once().Fail(int16(protocol.UnknownTopicOrPartition))
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, outdated.Used())
		require.Len(t, m.steps(), 1)
	})
}

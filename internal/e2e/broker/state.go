//go:build unix

package broker

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A view is the cluster as one node sees it.
type view struct {
	brokers    []int32
	partitions []partition // by topic and number
}

type partition struct {
	topic         string
	number        int32
	leader, epoch int32
	replicas, isr []int32
}

func (p partition) String() string {
	return fmt.Sprintf("%d: leader %d, in sync %v of %v", p.number, p.leader, p.isr, p.replicas)
}

// quorum is what the active controller says of the controllers, or what a node does that
// believes to be it.
type quorum struct {
	leader, epoch int32
	committed     int64
	ends          map[int32]int64 // of the controllers' logs, by node
}

// AwaitWhole waits until a cluster with KRaft has all it can have: no controller lags
// behind, no broker is fenced, all replicas of all topics are in sync, and all nodes
// say so. A node that was frozen says so too early, of what was when it froze, and a
// topic that is created before the others let it in again has no replica there that
// could become the leader.
func (c *Cluster) AwaitWhole(t testing.TB) {
	t.Helper()
	if err := c.awaitWhole(); err != nil {
		t.Fatalf("Kafka %s is not whole: %v", c.Version, err)
	}
}

func (c *Cluster) awaitWhole() error {
	known := int64(-1)
	var err error
	for end := time.Now().Add(startTimeout); time.Now().Before(end) && c.lost == nil; time.Sleep(100 * time.Millisecond) {
		if known, err = c.whole(known); err == nil {
			return nil
		}
	}
	c.lost = cmp.Or(c.lost, fmt.Errorf("after %s: %w", startTimeout, err))
	return c.lost
}

// whole tells whether the cluster is whole, and what of the controllers' log all of them
// must have for that: what is committed when they first are of one mind; -1 before.
func (c *Cluster) whole(known int64) (int64, error) {
	quorums, err := askAll(c, askQuorum)
	if err != nil {
		return known, err
	}
	if err := agreed(quorums); err != nil {
		return known, err
	}
	if known < 0 {
		known = quorums[0].committed
	}
	if err := caughtUp(quorums[0], known); err != nil {
		return known, err
	}
	views, err := askAll(c, askView)
	if err != nil {
		return known, err
	}
	return known, inSync(views)
}

// agreed tells whether all nodes name the same controller.
func agreed(quorums []quorum) error {
	for i, q := range quorums {
		if q.leader != quorums[0].leader || q.epoch != quorums[0].epoch {
			return fmt.Errorf("node 1 says: %v; node %d: %v", quorums[0], i+1, q)
		}
	}
	return nil
}

// caughtUp tells whether all controllers have the log up to an offset.
func caughtUp(q quorum, offset int64) error {
	for node, end := range q.ends {
		if end < offset {
			return fmt.Errorf("controller %d is at %d of %d", node, end, offset)
		}
	}
	return nil
}

// inSync tells whether all nodes say that all brokers are there and all replicas in
// sync, and are of one mind about all else.
func inSync(views []view) error {
	for i, v := range views {
		if len(v.brokers) < len(views) {
			return fmt.Errorf("node %d knows of the brokers %v alone", i+1, v.brokers)
		}
		for _, p := range v.partitions {
			if p.leader < 0 || len(p.isr) < len(p.replicas) {
				return fmt.Errorf("node %d says of %s %v", i+1, p.topic, p)
			}
		}
		if v.String() != views[0].String() {
			return fmt.Errorf("node 1 says:\n%vnode %d says:\n%v", views[0], i+1, v)
		}
	}
	return nil
}

// askAll asks each node the same, all at once.
func askAll[T any](c *Cluster, ask func(*node) (T, error)) ([]T, error) {
	answers, errs := make([]T, len(c.nodes)), make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() {
			if answers[i], errs[i] = ask(n); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", n.name, errs[i])
			}
		})
	}
	wg.Wait()
	return answers, errors.Join(errs...)
}

func askView(n *node) (view, error) {
	request, response := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataResponse()
	if n.cluster.version.kind == kraft {
		request.Version = 7 // the newest whose header is that of old
	} else {
		request.Topics = []kmsg.MetadataRequestTopic{} // means all in version 0
	}
	if err := ask(n.addr(), request, response); err != nil {
		return view{}, err
	}
	var v view
	for _, b := range response.Brokers {
		v.brokers = append(v.brokers, b.NodeID)
	}
	slices.Sort(v.brokers)
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			slices.Sort(p.ISR)
			v.partitions = append(v.partitions, partition{*topic.Topic, p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR})
		}
	}
	slices.SortFunc(v.partitions, func(a, b partition) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.number, b.number))
	})
	return v, nil
}

func askQuorum(n *node) (quorum, error) {
	request, response := kmsg.NewPtrDescribeQuorumRequest(), kmsg.NewPtrDescribeQuorumResponse()
	partition := kmsg.NewDescribeQuorumRequestTopicPartition()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	if err := ask(n.addr(), request, response); err != nil {
		return quorum{}, err
	}
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return quorum{}, err
	}
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return quorum{}, errors.New("no answer about the controllers")
	}
	p := response.Topics[0].Partitions[0]
	q := quorum{p.LeaderID, p.LeaderEpoch, p.HighWatermark, map[int32]int64{}}
	for _, voter := range p.CurrentVoters {
		q.ends[voter.ReplicaID] = voter.LogEndOffset
	}
	return q, kerr.ErrorForCode(p.ErrorCode)
}

// ask sends one request on a connection of its own.
func ask(addr string, req kmsg.Request, resp kmsg.Response) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	resp.SetVersion(req.GetVersion())
	return roundTrip(conn, req, resp)
}

func (v view) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  brokers %v\n", v.brokers)
	for i, p := range v.partitions {
		if i == 0 || p.topic != v.partitions[i-1].topic {
			fmt.Fprintf(&b, "  %s:\n", p.topic)
		}
		fmt.Fprintf(&b, "    %v, epoch %d\n", p, p.epoch)
	}
	return b.String()
}

func (q quorum) String() string {
	return fmt.Sprintf("controller %d since epoch %d, committed up to %d, logs end at %v", q.leader, q.epoch, q.committed, q.ends)
}

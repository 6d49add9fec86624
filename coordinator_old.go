package kafka

import (
	"context"
	"errors"

	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/protocol"
)

// What brokers before 0.9 lack:
//
//	         who keeps offsets            which requests go where
//	0.8.0    nobody                       –
//	0.8.1    ZooKeeper, by any broker     OffsetCommit v0, OffsetFetch v0 to one that works
//	0.8.2    the group's coordinator      OffsetCommit v1, OffsetFetch v1
//
// None of them has groups: a consumer that subscribes reads all partitions (solo).

// offsetStore says who keeps a group's offsets.
type offsetStore int32

const (
	storeUnknown offsetStore = iota
	storeKafka
	storeZooKeeper // if anything does
)

// versions are those of OffsetCommit or OffsetFetch that reach the store: version 0
// means ZooKeeper on every broker that has it. newest is the newest that we speak.
func (s offsetStore) versions(newest int16) (lowest, highest int16) {
	if s == storeZooKeeper {
		return 0, 0
	}
	return 1, newest
}

func (co *coordinator) offsetStore() offsetStore { return offsetStore(co.store.Load()) }

// findNode returns whom to send the group's requests to: the coordinator, or, if no
// broker knows of such, any one that works. Kafka is kept to once it was found, and
// ZooKeeper once it has offsets of the group, since what is committed to the one is not
// seen in the other; brokers that learn of coordinators still reach ZooKeeper.
func (co *coordinator) findNode(ctx context.Context) (int32, error) {
	if co.offsetStore() == storeZooKeeper && !co.outgrown() {
		return co.cl.AnyNode(ctx, protocol.KeyOffsetFetch)
	}
	node, err := co.cl.FindCoordinator(ctx, co.cfg.GroupID)
	switch {
	case err == nil:
		co.store.Store(int32(storeKafka))
		return node, nil
	case !isUnsupported(err):
		return 0, err
	case co.offsetStore() == storeKafka, !co.cl.Lacks(protocol.KeyFindCoordinator):
		// Only older brokers answer just now, so the others are to be waited for.
		return 0, errors.New(err.Error())
	}
	if co.store.Swap(int32(storeZooKeeper)) != int32(storeZooKeeper) {
		co.log.Info("kafka: brokers before 0.8.2 know no group coordinator, offsets go to ZooKeeper by any broker")
	}
	return co.cl.AnyNode(ctx, protocol.KeyOffsetFetch)
}

// outgrown reports whether there is a broker that knows of coordinators, though there was
// none when ZooKeeper was chosen, which still has no offset of the group.
func (co *coordinator) outgrown() bool {
	return co.offsetStore() == storeZooKeeper && !co.zooKept.Load() && co.cl.Has(protocol.KeyFindCoordinator)
}

var errOutgrown = errors.New("a broker is there that knows group coordinators")

// revise looks again for who keeps offsets if that may be another one now.
func (co *coordinator) revise(node int32) error {
	if !co.outgrown() {
		return nil
	}
	co.call(group.CoordinatorLost{Node: node, Err: errOutgrown})
	return errOutgrown
}

// noteKept notes that ZooKeeper has an offset of the group, or may have.
func (co *coordinator) noteKept() {
	if co.offsetStore() == storeZooKeeper {
		co.zooKept.Store(true)
	}
}

func isUnsupported(err error) bool {
	_, ok := errors.AsType[*UnsupportedVersionError](err)
	return ok
}

// explainOffsets says of a failed OffsetCommit or OffsetFetch what it needs, and takes in
// that the brokers keep no offsets.
func (co *coordinator) explainOffsets(node int32, key int16, err error) error {
	if !isUnsupported(err) || co.offsetStore() != storeZooKeeper || co.nodeKnows(node, key) {
		return err
	}
	err = needing(err, "which came with Kafka 0.8.1")
	if !co.keepsNone.Swap(true) && co.hooks.noCommits != nil {
		co.hooks.noCommits(err)
	}
	return err
}

// explainCommit says of a failed OffsetCommit what it needs.
func (co *coordinator) explainCommit(node int32, err error) error {
	if co.cfg.GroupInstanceID != "" {
		return co.explainStatic(err)
	}
	return co.explainOffsets(node, protocol.KeyOffsetCommit, err)
}

// nodeKnows reports whether a node has any version of an API.
func (co *coordinator) nodeKnows(node int32, key int16) bool {
	v := co.versionsOf(node)
	return v == nil || v.Knows(key)
}

// versionsOf returns what a node supports, nil if that is not known.
func (co *coordinator) versionsOf(node int32) *protocol.Versions {
	b, ok := co.cl.Broker(node)
	if !ok {
		return nil
	}
	v, _ := b.Versions()
	return v
}

// needing adds to an *UnsupportedVersionError what the thing needed is for or came with.
func needing(err error, what string) error {
	old, ok := errors.AsType[*UnsupportedVersionError](err)
	if !ok {
		return err
	}
	named := *old
	named.Need += ", " + what
	return &named
}

// goAlone is how a join ends at a broker that has no groups.
func (co *coordinator) goAlone() message {
	co.alone.Store(true)
	return message{event: group.Leave{Reason: "brokers have no groups"}, before: co.hooks.groupless}
}

// lacksGroups reports whether a failed JoinGroup says that the broker has no groups. A
// static member needs one, whatever the broker.
func (co *coordinator) lacksGroups(node int32, err error) bool {
	return isUnsupported(err) && co.cfg.GroupInstanceID == "" && co.hooks.groupless != nil &&
		!co.nodeKnows(node, protocol.KeyJoinGroup)
}

// groupsNeeded returns the error of what needs groups where brokers have none: the
// coordinator by what is known of it, else whoever answered lately.
func (co *coordinator) groupsNeeded() error {
	node, v := int32(-1), (*protocol.Versions)(nil)
	if now := co.lookup.get(); now.known {
		node, v = now.node, co.versionsOf(now.node)
	}
	if v == nil {
		node = -1
		v, _ = co.cl.Versions()
	}
	if v == nil || v.Knows(protocol.KeyJoinGroup) {
		return nil
	}
	_, err := v.Pick(protocol.KeyJoinGroup, 0, joinGroupMax)
	if old, ok := errors.AsType[*UnsupportedVersionError](err); ok {
		old.Broker = node
	}
	return needing(err, "which came with Kafka 0.9")
}

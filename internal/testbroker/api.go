package testbroker

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The API keys and error codes that the broker itself deals in. They are
// written down here once more, so that a wrong number in the client shows.
const (
	keyFetch                int16 = 1
	keyListOffsets          int16 = 2
	keyMetadata             int16 = 3
	keyOffsetCommit         int16 = 8
	keyOffsetFetch          int16 = 9
	keyFindCoordinator      int16 = 10
	keyJoinGroup            int16 = 11
	keyHeartbeat            int16 = 12
	keyLeaveGroup           int16 = 13
	keySyncGroup            int16 = 14
	keyListGroups           int16 = 16
	keyApiVersions          int16 = 18
	keyOffsetForLeaderEpoch int16 = 23

	codeOffsetOutOfRange          int16 = 1
	codeUnknownTopic              int16 = 3
	codeLeaderNotAvailable        int16 = 5
	codeNotLeader                 int16 = 6
	codeOffsetMetadataTooLarge    int16 = 12
	codeCoordinatorNotAvailable   int16 = 15
	codeNotCoordinator            int16 = 16
	codeInvalidTopic              int16 = 17
	codeIllegalGeneration         int16 = 22
	codeInconsistentGroupProtocol int16 = 23
	codeInvalidGroupID            int16 = 24
	codeUnknownMemberID           int16 = 25
	codeInvalidSessionTimeout     int16 = 26
	codeRebalanceInProgress       int16 = 27
	codeUnsupportedVersion        int16 = 35
	codeInvalidRequest            int16 = 42
	codeFetchSessionIDNotFound    int16 = 70
	codeInvalidFetchSessionEpoch  int16 = 71
	codeFencedLeaderEpoch         int16 = 74
	codeUnknownLeaderEpoch        int16 = 75
	codeMemberIDRequired          int16 = 79
	codeFencedInstanceID          int16 = 82
	codeUnknownTopicID            int16 = 100
)

// A VersionRange is the versions of an API that a node knows, both included.
type VersionRange struct{ Min, Max int16 }

// DefaultVersions returns a fresh copy of the table of a node that knows every
// API and version this package implements.
func DefaultVersions() map[int16]VersionRange {
	return map[int16]VersionRange{
		keyFetch: {0, 16}, keyListOffsets: {0, 8}, keyMetadata: {0, 12},
		keyOffsetCommit: {0, 10}, keyOffsetFetch: {0, 10}, keyFindCoordinator: {0, 6},
		keyJoinGroup: {0, 9}, keyHeartbeat: {0, 4}, keyLeaveGroup: {0, 5}, keySyncGroup: {0, 5},
		keyListGroups: {0, 5}, keyApiVersions: {0, 4}, keyOffsetForLeaderEpoch: {0, 4},
	}
}

// SetVersions gives a node its own table, which its ApiVersions answers tell
// as it is, unknown keys included. A request outside it closes the connection;
// for ApiVersions above its maximum the answer is UNSUPPORTED_VERSION in v0. A
// node whose table lacks ApiVersions closes on it, as brokers before 0.9 do.
func (c *Cluster) SetVersions(node int32, table map[int16]VersionRange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node(node).versions = maps.Clone(table)
}

// answer gives the normal answer to a request. Nil closes the connection.
func (c *Cluster) answer(cn *conn, req Request) kmsg.Response {
	c.mu.Lock()
	table := cn.node.versions
	c.mu.Unlock()
	known, ok := table[req.Key]
	if ok && req.Key == keyApiVersions {
		return apiVersions(table, req.Version, known)
	}
	if !ok || req.Version < known.Min || req.Version > known.Max || req.Message == nil {
		return nil
	}
	switch m := req.Message.(type) {
	case *kmsg.FetchRequest:
		return c.fetch(cn, m)
	case *kmsg.ListOffsetsRequest:
		return c.listOffsets(cn.node, m)
	case *kmsg.MetadataRequest:
		return c.metadata(m)
	case *kmsg.OffsetCommitRequest:
		return c.offsetCommit(cn.node, m)
	case *kmsg.OffsetFetchRequest:
		return c.offsetFetch(cn.node, m)
	case *kmsg.FindCoordinatorRequest:
		return c.findCoordinator(m)
	case *kmsg.JoinGroupRequest:
		return c.joinGroup(cn, req.ClientID, m)
	case *kmsg.HeartbeatRequest:
		return c.heartbeat(cn.node, m)
	case *kmsg.LeaveGroupRequest:
		return c.leaveGroup(cn.node, m)
	case *kmsg.SyncGroupRequest:
		return c.syncGroup(cn, m)
	case *kmsg.ListGroupsRequest:
		return c.listGroups()
	case *kmsg.OffsetForLeaderEpochRequest:
		return c.offsetForLeaderEpoch(cn.node, m)
	}
	return nil
}

func apiVersions(table map[int16]VersionRange, version int16, known VersionRange) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	if version < known.Min || version > known.Max {
		resp.ErrorCode = codeUnsupportedVersion
		// KIP-511: brokers that know v3 say at least which versions they have.
		if known.Max < 3 {
			return resp
		}
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if resp.ErrorCode != 0 && key != keyApiVersions {
			continue
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = key, table[key].Min, table[key].Max
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	return resp
}

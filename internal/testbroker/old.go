package testbroker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// WithRelease makes all nodes behave as brokers of a release before 0.10.1; see
// SetRelease.
func WithRelease(release string) Option {
	return func(o *options) { o.versions, o.manners = OldVersions(release), mannersOf(release) }
}

// SetRelease makes a node behave as a broker of a release that OldVersions knows, also in
// what no table tells. Before 0.9 it closes the connection on a request that it does not
// know, answers Metadata without brokers while there are no topics, and in 0.8.2 answers
// FindCoordinator with correlation id 0 until there is a topic for offsets. 0.9 swallows
// what it does not know, and goes on with what comes behind it.
func (c *Cluster) SetRelease(node int32, release string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(node)
	n.versions, n.manners = OldVersions(release), mannersOf(release)
}

// manners are what brokers do besides answering what they know.
type manners struct {
	swallows  bool // requests that it does not know
	shy       bool // Metadata lists no brokers while there are no topics
	forgetful bool // FindCoordinator has correlation id 0 until there is a topic for offsets
}

func mannersOf(release string) manners {
	return manners{
		swallows:  release == "0.9",
		shy:       strings.HasPrefix(release, "0.8."),
		forgetful: release == "0.8.2",
	}
}

// offsetsTopic is where brokers since 0.8.2 keep committed offsets.
const offsetsTopic = "__consumer_offsets"

// mind changes a normal answer to what the node's release would say. As with real
// brokers, looking up a coordinator makes the topic for offsets.
func (c *Cluster) mind(n *node, req *Request, resp kmsg.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		if n.manners.shy && len(c.topics) == 0 {
			r.Brokers = nil
		}
	case *kmsg.FindCoordinatorResponse:
		if n.manners.forgetful && c.topics[offsetsTopic] == nil {
			r.ErrorCode, r.NodeID = codeCoordinatorNotAvailable, -1
			req.Correlation = 0
			c.createTopicLocked(offsetsTopic, 1)
		}
	}
}

// swallows tells whether a request without an answer leaves the connection open.
func (c *Cluster) swallows(n *node, req Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := n.versions[req.Key]
	return n.manners.swallows && !known
}

// listGroups lists the groups that somebody asked for.
func (c *Cluster) listGroups() kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := kmsg.NewPtrListGroupsResponse()
	for _, name := range slices.Sorted(maps.Keys(c.groups)) {
		g := kmsg.NewListGroupsResponseGroup()
		g.Group, g.ProtocolType, g.GroupState = name, c.groups[name].protocolType, string(c.groups[name].state)
		resp.Groups = append(resp.Groups, g)
	}
	return resp
}

// OldVersions returns the table of a broker of a release before 0.10.1: "0.8.0", "0.8.1",
// "0.8.2", "0.9" or "0.10.0". Before 0.10.0 there is no ApiVersions in it.
func OldVersions(release string) map[int16]VersionRange {
	table := map[int16]VersionRange{keyFetch: {0, 0}, keyListOffsets: {0, 0}, keyMetadata: {0, 0}}
	add := func(versions map[int16]VersionRange) {
		for key, v := range versions {
			table[key] = v
		}
	}
	steps := []struct {
		release  string
		versions map[int16]VersionRange
	}{
		{"0.8.0", nil},
		{"0.8.1", map[int16]VersionRange{keyOffsetCommit: {0, 0}, keyOffsetFetch: {0, 0}}},
		{"0.8.2", map[int16]VersionRange{keyOffsetCommit: {0, 1}, keyOffsetFetch: {0, 1}, keyFindCoordinator: {0, 0}}},
		{"0.9", map[int16]VersionRange{
			keyFetch: {0, 1}, keyOffsetCommit: {0, 2}, keyListGroups: {0, 0},
			keyJoinGroup: {0, 0}, keyHeartbeat: {0, 0}, keyLeaveGroup: {0, 0}, keySyncGroup: {0, 0},
		}},
		{"0.10.0", map[int16]VersionRange{keyFetch: {0, 2}, keyMetadata: {0, 1}, keyApiVersions: {0, 0}}},
	}
	for _, s := range steps {
		add(s.versions)
		if s.release == release {
			return table
		}
	}
	panic(fmt.Sprintf("testbroker: no old release %q", release))
}

package protocol

import (
	"fmt"
	"strings"
)

// A Release is a release of Kafka, as far as the protocol tells releases
// apart: 0.8.0, 0.8.1, 0.8.2, 0.9, 0.10.0, 0.10.1, 0.10.2, 0.11, and every
// minor release from 1.0 to 4.4. Releases compare with == and Less. The zero
// Release is none.
type Release struct {
	ordinal uint8
}

const (
	rNone uint8 = iota
	r080
	r081
	r082
	r090
	r0100
	r0101
	r0102
	r011
	r10
	r11
	r20
	r21
	r22
	r23
	r24
	r25
	r26
	r27
	r28
	r30
	r31
	r32
	r33
	r34
	r35
	r36
	r37
	r38
	r39
	r40
	r41
	r42
	r43
	r44
)

var releaseNames = [...]string{
	rNone: "none",
	r080:  "0.8.0", r081: "0.8.1", r082: "0.8.2",
	r090:  "0.9",
	r0100: "0.10.0", r0101: "0.10.1", r0102: "0.10.2",
	r011: "0.11",
	r10:  "1.0", r11: "1.1",
	r20: "2.0", r21: "2.1", r22: "2.2", r23: "2.3", r24: "2.4", r25: "2.5", r26: "2.6", r27: "2.7", r28: "2.8",
	r30: "3.0", r31: "3.1", r32: "3.2", r33: "3.3", r34: "3.4", r35: "3.5", r36: "3.6", r37: "3.7", r38: "3.8", r39: "3.9",
	r40: "4.0", r41: "4.1", r42: "4.2", r43: "4.3", r44: "4.4",
}

// ParseRelease reads a release such as "0.8.2", "0.10.1", "2.3" or "4.4".
// "0.8" and "0.10" stand for "0.8.0" and "0.10.0"; numbers behind those that
// tell the protocol, as in "0.8.2.2", "0.9.0.1" or "2.3.1", are allowed and
// change nothing. The error names the releases that are allowed.
func ParseRelease(s string) (Release, error) {
	parts := strings.Split(s, ".")
	for _, p := range parts {
		if !isNumber(p) {
			return Release{}, releaseError(s)
		}
	}
	significant := 2
	if parts[0] == "0" && len(parts) > 1 && (parts[1] == "8" || parts[1] == "10") {
		significant = 3
		if len(parts) == 2 {
			parts = append(parts, "0")
		}
	}
	// Before 1.0 a release has up to four numbers, after it up to three.
	if limit := 3; len(parts) < significant || len(parts) > limit && (parts[0] != "0" || len(parts) > limit+1) {
		return Release{}, releaseError(s)
	}
	name := strings.Join(parts[:significant], ".")
	for i := int(r080); i < len(releaseNames); i++ {
		if releaseNames[i] == name {
			return Release{uint8(i)}, nil
		}
	}
	return Release{}, releaseError(s)
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func releaseError(s string) error {
	return fmt.Errorf("kafka: unknown broker release %q: allowed are %s", s, strings.Join(releaseNames[r080:], ", "))
}

// String returns the release as ParseRelease reads it, or "none".
func (r Release) String() string { return releaseNames[r.ordinal] }

// Less reports whether r came before o. None comes before every release.
func (r Release) Less(o Release) bool { return r.ordinal < o.ordinal }

// MaxVersion returns the highest version that the release had of an API of
// those a consumer uses, and false if it did not have the API or the API is
// none of those.
func (r Release) MaxVersion(key int16) (int16, bool) {
	version, ok := int16(0), false
	for _, step := range apiHistory[key] {
		if r.ordinal < step.since {
			break
		}
		version, ok = step.max, true
	}
	return version, ok
}

// Ranges returns what a broker of the release supports of the APIs that a
// consumer uses. It is for brokers that cannot tell: those before 0.10.0,
// which do not have ApiVersions.
func (r Release) Ranges() map[int16]VersionRange {
	ranges := make(map[int16]VersionRange)
	for key := range apiHistory {
		if top, ok := r.MaxVersion(key); ok {
			ranges[key] = VersionRange{Min: minVersion(r, key), Max: top}
		}
	}
	return ranges
}

// minVersion returns the lowest version of an API that a release still has:
// 4.0 took some away (KIP-896).
func minVersion(r Release, key int16) int16 {
	if r.ordinal < r40 {
		return 0
	}
	switch key {
	case KeyFetch:
		return 4
	case KeyListOffsets, KeyOffsetFetch:
		return 1
	case KeyOffsetCommit, KeyOffsetForLeaderEpoch:
		return 2
	case KeyJoinGroup:
		// 4.1 took JoinGroup v0 and v1 back in (KAFKA-19444).
		if r.ordinal == r40 {
			return 2
		}
	}
	return 0
}

// An apiStep is the release that raised an API's highest version.
type apiStep struct {
	since uint8
	max   int16
}

// apiHistory holds, oldest first, the steps of the APIs that a consumer uses.
// The group APIs begin at 0.9: the schemas that 0.8.2 has of JoinGroup and
// Heartbeat lead to no handler.
var apiHistory = map[int16][]apiStep{
	KeyFetch: {
		{r080, 0}, {r090, 1}, {r0100, 2}, {r0101, 3}, {r011, 5}, {r10, 6}, {r11, 7}, {r20, 8}, {r21, 10},
		{r23, 11}, {r27, 12}, {r31, 13}, {r35, 15}, {r37, 16}, {r39, 17}, {r41, 18},
	},
	KeyListOffsets: {
		{r080, 0}, {r0101, 1}, {r011, 2}, {r20, 3}, {r21, 4}, {r22, 5}, {r28, 6}, {r30, 7}, {r35, 8}, {r39, 9},
		{r40, 10}, {r42, 11},
	},
	KeyMetadata: {
		{r080, 0}, {r0100, 1}, {r0101, 2}, {r011, 4}, {r10, 5}, {r20, 6}, {r21, 7}, {r23, 8}, {r24, 9}, {r28, 11},
		{r31, 12}, {r40, 13},
	},
	KeyOffsetCommit: {
		{r081, 0}, {r082, 1}, {r090, 2}, {r011, 3}, {r20, 4}, {r21, 6}, {r23, 7}, {r24, 8}, {r37, 9}, {r42, 10},
	},
	KeyOffsetFetch: {
		{r081, 0}, {r082, 1}, {r0102, 2}, {r011, 3}, {r20, 4}, {r21, 5}, {r24, 6}, {r25, 7}, {r30, 8}, {r37, 9},
		{r42, 10},
	},
	KeyFindCoordinator: {
		{r082, 0}, {r011, 1}, {r20, 2}, {r24, 3}, {r30, 4}, {r38, 5}, {r39, 6},
	},
	KeyJoinGroup: {
		{r090, 0}, {r0101, 1}, {r011, 2}, {r20, 3}, {r22, 4}, {r23, 5}, {r24, 6}, {r25, 7}, {r32, 9},
	},
	KeyHeartbeat:            {{r090, 0}, {r011, 1}, {r20, 2}, {r23, 3}, {r24, 4}},
	KeyLeaveGroup:           {{r090, 0}, {r011, 1}, {r20, 2}, {r24, 4}, {r32, 5}},
	KeySyncGroup:            {{r090, 0}, {r011, 1}, {r20, 2}, {r23, 3}, {r24, 4}, {r25, 5}},
	KeyListGroups:           {{r090, 0}, {r011, 1}, {r20, 2}, {r24, 3}, {r26, 4}, {r38, 5}},
	KeySaslHandshake:        {{r0100, 0}, {r10, 1}},
	KeyApiVersions:          {{r0100, 0}, {r011, 1}, {r20, 2}, {r24, 3}, {r39, 4}, {r44, 5}},
	KeyOffsetForLeaderEpoch: {{r011, 0}, {r20, 1}, {r21, 2}, {r23, 3}, {r28, 4}},
	KeySaslAuthenticate:     {{r10, 0}, {r22, 1}, {r25, 2}},
	// KIP-848 was a preview in 3.7 to 3.9 and advertised only where it was
	// switched on.
	KeyConsumerGroupHeartbeat: {{r37, 0}, {r40, 1}},
}

// A releaseMarker is an API version that no earlier release advertised.
type releaseMarker struct {
	release Release
	key     int16
	max     int16
}

// releaseMarkers is oldest first. 3.4 brought nothing that a broker tells its
// clients.
var releaseMarkers = [...]releaseMarker{
	{Release{r081}, KeyOffsetFetch, 0},
	{Release{r082}, KeyFindCoordinator, 0},
	{Release{r090}, KeyListGroups, 0},
	{Release{r0100}, KeyApiVersions, 0},
	{Release{r0101}, KeyMetadata, 2},
	{Release{r0102}, KeyOffsetFetch, 2},
	{Release{r011}, KeyMetadata, 4},
	{Release{r10}, KeyMetadata, 5},
	{Release{r11}, KeyFetch, 7},
	{Release{r20}, KeyFetch, 8},
	{Release{r21}, KeyFetch, 10},
	{Release{r22}, KeyListOffsets, 5},
	{Release{r23}, KeyFetch, 11},
	{Release{r24}, KeyMetadata, 9},
	{Release{r25}, KeyOffsetFetch, 7},
	{Release{r26}, KeyListGroups, 4},
	{Release{r27}, KeyFetch, 12},
	{Release{r28}, KeyMetadata, 11},
	{Release{r30}, KeyListOffsets, 7},
	{Release{r31}, KeyFetch, 13},
	{Release{r32}, KeyJoinGroup, 9},
	{Release{r33}, KeyDescribeLogDirs, 4},
	{Release{r35}, KeyFetch, 15},
	{Release{r36}, KeyAddPartitionsToTxn, 4},
	{Release{r37}, KeyFetch, 16},
	{Release{r38}, KeyFindCoordinator, 5},
	{Release{r39}, KeyFetch, 17},
	{Release{r40}, KeyMetadata, 13},
	{Release{r41}, KeyFetch, 18},
	{Release{r42}, KeyOffsetCommit, 10},
	{Release{r43}, KeyDescribeLogDirs, 5},
	{Release{r44}, KeyApiVersions, 5},
}

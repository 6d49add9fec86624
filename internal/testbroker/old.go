package testbroker

import "fmt"

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
			keyFetch: {0, 1}, keyOffsetCommit: {0, 2},
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

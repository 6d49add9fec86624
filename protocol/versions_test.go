package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func mustRelease(t *testing.T, s string) Release {
	t.Helper()
	r, err := ParseRelease(s)
	require.NoError(t, err)
	return r
}

func TestPickTakesTheHighestVersionOfBoth(t *testing.T) {
	tests := []struct {
		name     string
		has      VersionRange
		clamp    string
		min, max int16
		want     int16
	}{
		{"the client's highest, when the broker goes beyond", VersionRange{4, 18}, "", 0, 16, 16},
		{"the broker's highest, when the client goes beyond", VersionRange{0, 3}, "", 0, 16, 3},
		{"the only version in common at the broker's end", VersionRange{0, 4}, "", 4, 16, 4},
		{"the only version in common at the client's end", VersionRange{4, 18}, "", 0, 4, 4},
		{"the clamp's highest, when it is lower than both", VersionRange{0, 18}, "0.10.1", 0, 16, 3},
		{"the broker's highest, when the clamp is newer", VersionRange{0, 3}, "4.4", 0, 16, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var clamp Release
			if tt.clamp != "" {
				clamp = mustRelease(t, tt.clamp)
			}
			got, err := NewVersions(map[int16]VersionRange{KeyFetch: tt.has}, clamp).Pick(KeyFetch, tt.min, tt.max)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestPickSaysWhatIsMissing(t *testing.T) {
	tests := []struct {
		name     string
		ranges   map[int16]VersionRange
		clamp    string
		min, max int16
		has      string
	}{
		{"an API the broker does not have", nil, "", 0, 16, "none"},
		{"a broker that is too old", map[int16]VersionRange{KeyFetch: {0, 3}}, "", 4, 16, "version 0-3"},
		{"a broker that is too new", map[int16]VersionRange{KeyFetch: {17, 18}}, "", 4, 16, "version 17-18"},
		{"a clamp below the broker's lowest", map[int16]VersionRange{KeyFetch: {4, 18}}, "0.10.2", 0, 16,
			"version 4-18, but release 0.10.2, which the client was told to assume, ends at 3"},
		{"a clamp below the client's lowest", map[int16]VersionRange{KeyFetch: {0, 18}}, "0.10.2", 4, 16,
			"version 0-18, but release 0.10.2, which the client was told to assume, ends at 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var clamp Release
			if tt.clamp != "" {
				clamp = mustRelease(t, tt.clamp)
			}
			_, err := NewVersions(tt.ranges, clamp).Pick(KeyFetch, tt.min, tt.max)
			var unsupported *UnsupportedVersionError
			require.ErrorAs(t, err, &unsupported)
			require.Equal(t, "Fetch", unsupported.API)
			require.Equal(t, "version "+VersionRange{tt.min, tt.max}.String(), unsupported.Need)
			require.Equal(t, tt.has, unsupported.Has)
			require.Equal(t, int32(-1), unsupported.Broker)
			require.Contains(t, err.Error(), tt.has)
		})
	}
}

func TestPickLeavesOutAnAPIThatTheClampDoesNotHave(t *testing.T) {
	v := NewVersions(map[int16]VersionRange{KeyJoinGroup: {0, 9}}, mustRelease(t, "0.8.2"))
	_, err := v.Pick(KeyJoinGroup, 0, 9)
	require.ErrorContains(t, err, "release 0.8.2, which the client was told to assume, has none")
	_, ok := v.Range(KeyJoinGroup)
	require.False(t, ok)
}

func TestUnsupportedVersionErrorNamesTheBroker(t *testing.T) {
	err := &UnsupportedVersionError{Broker: 3, API: "ListOffsets", Need: "version 1", Has: "version 0"}
	require.Equal(t, "kafka: broker 3 does not support this request: ListOffsets needs version 1, broker has version 0", err.Error())
}

func TestVersionsDoNotChangeWithTheMapTheyWereMadeFrom(t *testing.T) {
	ranges := map[int16]VersionRange{KeyFetch: {0, 3}}
	v := NewVersions(ranges, Release{})
	ranges[KeyFetch] = VersionRange{0, 16}
	got, err := v.Pick(KeyFetch, 0, 16)
	require.NoError(t, err)
	require.Equal(t, int16(3), got)
}

func TestParseRelease(t *testing.T) {
	for in, want := range map[string]string{
		"0.8": "0.8.0", "0.8.0": "0.8.0", "0.8.1": "0.8.1", "0.8.2": "0.8.2", "0.8.2.2": "0.8.2",
		"0.9": "0.9", "0.9.0": "0.9", "0.9.0.1": "0.9",
		"0.10": "0.10.0", "0.10.0": "0.10.0", "0.10.1": "0.10.1", "0.10.2.2": "0.10.2",
		"0.11": "0.11", "0.11.0.3": "0.11",
		"1.0": "1.0", "1.1.1": "1.1", "2.3": "2.3", "2.8.2": "2.8", "3.9": "3.9", "4.4": "4.4", "4.4.0": "4.4",
	} {
		require.Equal(t, want, mustRelease(t, in).String(), in)
	}
	for _, in := range []string{
		"", ".", "0", "4", "0.7", "0.8.3", "0.10.3", "0.12", "1.2", "2.9", "3.10", "4.5", "5.0", "4.4.0.0", "0.8.2.2.2",
		"v4.4", "4.4-rc1", "4.x", "4..4", "-1.0", " 4.4", "none", "04.4",
	} {
		r, err := ParseRelease(in)
		require.ErrorContains(t, err, "allowed are 0.8.0, 0.8.1, 0.8.2, 0.9, ", in)
		require.Zero(t, r, in)
	}
}

func TestReleasesAreOrdered(t *testing.T) {
	require.True(t, mustRelease(t, "0.8.2").Less(mustRelease(t, "0.9")))
	require.True(t, mustRelease(t, "0.9").Less(mustRelease(t, "0.10.0")))
	require.True(t, mustRelease(t, "0.11").Less(mustRelease(t, "1.0")))
	require.False(t, mustRelease(t, "4.4").Less(mustRelease(t, "4.4")))
	require.True(t, Release{}.Less(mustRelease(t, "0.8.0")))
	require.Equal(t, "none", Release{}.String())
}

func TestHighestVersionsOfEachRelease(t *testing.T) {
	const none = int16(-1)
	releases := []string{"0.8.0", "0.8.1", "0.8.2", "0.9", "0.10.0", "0.10.2", "0.11", "1.1", "2.8", "3.9", "4.4"}
	table := map[int16][]int16{
		KeyFetch:                  {0, 0, 0, 1, 2, 3, 5, 7, 12, 17, 18},
		KeyListOffsets:            {0, 0, 0, 0, 0, 1, 2, 2, 6, 9, 11},
		KeyMetadata:               {0, 0, 0, 0, 1, 2, 4, 5, 11, 12, 13},
		KeyOffsetCommit:           {none, 0, 1, 2, 2, 2, 3, 3, 8, 9, 10},
		KeyOffsetFetch:            {none, 0, 1, 1, 1, 2, 3, 3, 7, 9, 10},
		KeyFindCoordinator:        {none, none, 0, 0, 0, 0, 1, 1, 3, 6, 6},
		KeyJoinGroup:              {none, none, none, 0, 0, 1, 2, 2, 7, 9, 9},
		KeyHeartbeat:              {none, none, none, 0, 0, 0, 1, 1, 4, 4, 4},
		KeyLeaveGroup:             {none, none, none, 0, 0, 0, 1, 1, 4, 5, 5},
		KeySyncGroup:              {none, none, none, 0, 0, 0, 1, 1, 5, 5, 5},
		KeyListGroups:             {none, none, none, 0, 0, 0, 1, 1, 4, 5, 5},
		KeySaslHandshake:          {none, none, none, none, 0, 0, 0, 1, 1, 1, 1},
		KeyApiVersions:            {none, none, none, none, 0, 0, 1, 1, 3, 4, 5},
		KeyOffsetForLeaderEpoch:   {none, none, none, none, none, none, 0, 0, 4, 4, 4},
		KeySaslAuthenticate:       {none, none, none, none, none, none, none, 0, 2, 2, 2},
		KeyConsumerGroupHeartbeat: {none, none, none, none, none, none, none, none, none, 0, 1},
	}
	require.Len(t, apiHistory, len(table))
	for key, want := range table {
		for i, name := range releases {
			got, ok := mustRelease(t, name).MaxVersion(key)
			if !ok {
				got = none
			}
			require.Equal(t, want[i], got, "%s of %s", APIName(key), name)
		}
	}
	_, ok := Release{}.MaxVersion(KeyFetch)
	require.False(t, ok)
	_, ok = mustRelease(t, "4.4").MaxVersion(999)
	require.False(t, ok)
}

func TestReleaseStepsRise(t *testing.T) {
	for key, steps := range apiHistory {
		for i := 1; i < len(steps); i++ {
			require.Less(t, steps[i-1].since, steps[i].since, APIName(key))
			require.Less(t, steps[i-1].max, steps[i].max, APIName(key))
		}
	}
}

func TestRangesOfAReleaseThatCannotTell(t *testing.T) {
	require.Equal(t, map[int16]VersionRange{
		KeyFetch: {0, 0}, KeyListOffsets: {0, 0}, KeyMetadata: {0, 0},
		KeyOffsetCommit: {0, 1}, KeyOffsetFetch: {0, 1}, KeyFindCoordinator: {0, 0},
	}, mustRelease(t, "0.8.2").Ranges())

	ranges := mustRelease(t, "4.4").Ranges()
	require.Equal(t, VersionRange{4, 18}, ranges[KeyFetch])
	require.Equal(t, VersionRange{1, 11}, ranges[KeyListOffsets])
	require.Equal(t, VersionRange{2, 10}, ranges[KeyOffsetCommit])
	require.Equal(t, VersionRange{0, 9}, ranges[KeyJoinGroup])
	require.Equal(t, VersionRange{2, 9}, mustRelease(t, "4.0").Ranges()[KeyJoinGroup])
}

func TestReleaseOfABrokerIsFoundByWhatItAdvertises(t *testing.T) {
	// 3.3, 3.6 and 4.3 show in APIs that the table of releases leaves out,
	// 3.4 in none.
	extra := map[string]map[int16]VersionRange{
		"3.3": {KeyDescribeLogDirs: {0, 4}},
		"3.6": {KeyAddPartitionsToTxn: {0, 4}},
		"4.3": {KeyDescribeLogDirs: {1, 5}},
		"3.4": nil,
	}
	for _, name := range releaseNames[r080:] {
		r := mustRelease(t, name)
		ranges := r.Ranges()
		more, special := extra[name]
		for key, v := range more {
			ranges[key] = v
		}
		want := name
		if special && more == nil {
			want = "3.2"
		}
		require.Equal(t, want, NewVersions(ranges, Release{}).Release().String(), name)
	}
	clamped := NewVersions(mustRelease(t, "4.4").Ranges(), mustRelease(t, "2.0"))
	require.Equal(t, "4.4", clamped.Release().String())
}

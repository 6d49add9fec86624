package protocol

import (
	"fmt"
	"maps"
)

// VersionRange is the versions of one API that a broker supports, both ends
// included.
type VersionRange struct {
	Min, Max int16
}

// String returns the range as "4-18", or "4" when it holds one version.
func (v VersionRange) String() string {
	if v.Min == v.Max {
		return fmt.Sprint(v.Min)
	}
	return fmt.Sprintf("%d-%d", v.Min, v.Max)
}

// An UnsupportedVersionError says that a broker is too old, or too new, for
// what was asked of it.
type UnsupportedVersionError struct {
	// Broker is the broker's node id, or -1 where it is not known.
	Broker int32
	// API is the name of the API, such as "ListOffsets".
	API string
	// Need is the versions that this client speaks, or what the feature
	// asked for needs.
	Need string
	// Has is what the broker offers, or "none".
	Has string
}

// Error names the API, what was needed and what the broker has.
func (e *UnsupportedVersionError) Error() string {
	where := "broker"
	if e.Broker >= 0 {
		where = fmt.Sprintf("broker %d", e.Broker)
	}
	return fmt.Sprintf("kafka: %s does not support this request: %s needs %s, broker has %s", where, e.API, e.Need, e.Has)
}

// Versions is the table of what one broker supports. It does not change after
// NewVersions and may be used from any goroutine.
type Versions struct {
	ranges map[int16]VersionRange
	clamp  Release
}

// NewVersions makes the table from the ranges that a broker advertised, or
// from Release.Ranges for a broker that cannot tell. A clamp other than the
// zero Release makes Pick choose no version that this release did not have.
func NewVersions(ranges map[int16]VersionRange, clamp Release) *Versions {
	return &Versions{ranges: maps.Clone(ranges), clamp: clamp}
}

// Range returns the versions that the broker supports of an API within the
// clamp, and false if there are none.
func (v *Versions) Range(key int16) (VersionRange, bool) {
	has, ok := v.ranges[key]
	if !ok {
		return VersionRange{}, false
	}
	if v.clamp != (Release{}) {
		top, ok := v.clamp.MaxVersion(key)
		if !ok {
			return VersionRange{}, false
		}
		has.Max = min(has.Max, top)
	}
	return has, has.Min <= has.Max
}

// Knows reports whether the broker, within the clamp, has any version of an API. Where
// Range finds none nevertheless, the broker dropped the old ones that the clamp allows.
func (v *Versions) Knows(key int16) bool {
	if _, ok := v.ranges[key]; !ok {
		return false
	}
	if v.clamp == (Release{}) {
		return true
	}
	_, ok := v.clamp.MaxVersion(key)
	return ok
}

// Pick returns the highest version of an API that both the broker, within the
// clamp, and the client support; the client's are oursMin to oursMax. Without
// one the error is an *UnsupportedVersionError whose Broker the caller sets.
func (v *Versions) Pick(key, oursMin, oursMax int16) (int16, error) {
	has, ok := v.Range(key)
	if version := min(has.Max, oursMax); ok && version >= max(has.Min, oursMin) {
		return version, nil
	}
	return 0, &UnsupportedVersionError{
		Broker: -1,
		API:    APIName(key),
		Need:   "version " + VersionRange{oursMin, oursMax}.String(),
		Has:    v.describe(key),
	}
}

func (v *Versions) describe(key int16) string {
	has, ok := v.ranges[key]
	if !ok {
		return "none"
	}
	if v.clamp == (Release{}) {
		return "version " + has.String()
	}
	top, ok := v.clamp.MaxVersion(key)
	if !ok {
		return fmt.Sprintf("version %s, but release %s, which the client was told to assume, has none", has, v.clamp)
	}
	return fmt.Sprintf("version %s, but release %s, which the client was told to assume, ends at %d", has, v.clamp, top)
}

// Release returns the newest release that the broker can be, judged by the
// APIs that came with each one; brokers other than Kafka's own give odd
// answers. Releases that added nothing to the protocol are not found. The
// clamp has no part in it.
func (v *Versions) Release() Release {
	for i := len(releaseMarkers) - 1; i >= 0; i-- {
		m := releaseMarkers[i]
		if has, ok := v.ranges[m.key]; ok && has.Max >= m.max {
			return m.release
		}
	}
	return Release{r080}
}

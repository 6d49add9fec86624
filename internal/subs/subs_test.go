package subs

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKindsExcludeEachOther(t *testing.T) {
	become := map[Kind]func(*State) error{
		Topics:  func(s *State) error { return s.SubscribeTopics([]string{"a"}) },
		Pattern: func(s *State) error { return s.SubscribePattern(regexp.MustCompile("a"), false) },
		Manual:  func(s *State) error { return s.AssignManually([]string{"a"}) },
	}
	for first, begin := range become {
		for second, change := range become {
			var s State
			require.NoError(t, begin(&s))
			err := change(&s)
			if first == second {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrConflict)
				s.Clear()
				require.NoError(t, change(&s), "after Clear")
			}
			require.Equal(t, second, s.Kind())
		}
	}
}

func TestTopicsAreSortedAndNamedOnce(t *testing.T) {
	var s State
	require.NoError(t, s.SubscribeTopics([]string{"b", "a", "b"}))
	require.Equal(t, []string{"a", "b"}, s.Topics())
	require.False(t, s.Match([]Topic{{Name: "c", Partitions: 1}}), "a list does not follow what there is")
}

func TestPatternFollowsTopicsThatComeAndGo(t *testing.T) {
	var s State
	require.NoError(t, s.SubscribePattern(regexp.MustCompile("p-.*|q"), false))
	there := []Topic{
		{Name: "p-1", Partitions: 2},
		{Name: "q", Partitions: 1},
		{Name: "qq", Partitions: 1},                         // not the whole name
		{Name: "xp-1", Partitions: 1},                       // likewise
		{Name: "p-internal", Partitions: 1, Internal: true}, // excluded by default
		{Name: "p-gone"},                                    // known, but not there
	}
	require.True(t, s.Match(there))
	require.Equal(t, []string{"p-1", "q"}, s.Topics())
	require.False(t, s.Match(there), "nothing changed")
	require.True(t, s.Match(there[:1]))
	require.Equal(t, []string{"p-1"}, s.Topics())

	require.NoError(t, s.SubscribePattern(regexp.MustCompile("q"), false))
	require.Empty(t, s.Topics(), "what no longer matches goes at once")
}

func TestPatternMatchesInternalTopicsWhenAsked(t *testing.T) {
	var s State
	require.NoError(t, s.SubscribePattern(regexp.MustCompile("__.*"), true))
	require.True(t, s.Match([]Topic{{Name: "__consumer_offsets", Partitions: 50, Internal: true}}))
	require.Equal(t, []string{"__consumer_offsets"}, s.Topics())
}

//go:build unix

package sidebyside

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParsedScript(t *testing.T) {
	steps, err := parse("# About.\ntopic t 2\n\na poll 3\n    = 0 records\n    = more\na close\n    kafka-python: done\n    here: error x\n    why: Some Words\n")
	require.NoError(t, err)
	require.Equal(t, []Step{
		{Line: 2, Words: []string{"topic", "t", "2"}},
		{Line: 4, Words: []string{"a", "poll", "3"}, Both: []string{"0 records", "more"}},
		{Line: 7, Words: []string{"a", "close"}, Original: []string{"done"}, Ours: []string{"error x"}, Why: "Some Words"},
	}, steps)
	require.False(t, steps[0].isCall())
	require.True(t, steps[1].isCall())
}

func TestScriptsThatMakeNoSense(t *testing.T) {
	for text, want := range map[string]string{
		"    = done\n":                        "line 1 belongs to no step",
		"a close\n    said: done\n":           `line 2: "said:"`,
		"a close\n    why: Patterns\n":        "line 1: a difference needs a reason",
		"a close\n    here: done\n":           "line 1: a difference needs a reason",
		"a x\na close\n    kafka-python: y\n": "line 2: a difference needs a reason",
	} {
		_, err := parse(text)
		require.ErrorContains(t, err, want)
	}
}

func TestTwoAttemptsObserveTheSameButForTheBrokersClock(t *testing.T) {
	steps := func(lines ...string) [][]string { return [][]string{{"done"}, lines} }
	created, appended := "t/0@0 time 5 create headers []", "t/0@0 time 5 append headers []"
	require.True(t, sameTwice(steps(created), steps(created)))
	require.True(t, sameTwice(steps(appended), steps("t/0@0 time 9 append headers []")))
	require.True(t, sameTwice(steps(created), [][]string{{"done"}}), "the second attempt ended early")
	require.False(t, sameTwice(steps(created), steps("t/0@0 time 9 create headers []")))
	require.False(t, sameTwice(steps(appended), steps("t/0@1 time 5 append headers []")))
	require.False(t, sameTwice(steps(created), steps()))
	require.False(t, sameTwice(steps(appended), steps(created)))
}

func TestObservationsThatAStepDoesNotExpect(t *testing.T) {
	one, two, three := []string{"1"}, []string{"2"}, []string{"3"}
	silent, pinned := Step{}, Step{Both: one}
	differs := Step{Original: one, Ours: two, Why: "x"}
	for name, test := range map[string]struct {
		step         Step
		theirs, ours []string
		faults       int
	}{
		"the same":                   {silent, one, one, 0},
		"an undeclared difference":   {silent, one, two, 1},
		"what is pinned":             {pinned, one, one, 0},
		"not what is pinned":         {pinned, two, two, 1},
		"the declared difference":    {differs, one, two, 0},
		"a difference that is gone":  {differs, two, two, 2},
		"another original":           {differs, three, two, 1},
		"another library":            {differs, one, three, 1},
		"everything else than known": {differs, three, three, 3},
	} {
		require.Len(t, test.step.faults(test.theirs, test.ours), test.faults, name)
	}
}

package conn

import (
	"fmt"
	"testing"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

func TestDetection(t *testing.T) {
	for _, tc := range []struct {
		name     string
		modern   bool // it is known to have ApiVersions, or must have
		verdicts []verdict
		rulings  []ruling
		found    string
	}{
		{"0.10 and newer", false, []verdict{answered}, []ruling{isModern}, ""},
		{"0.9 skips ApiVersions", false, []verdict{skipped, answered}, []ruling{askAnew, isOld}, "0.9"},
		{
			"0.9 as some vendors mended it closes", false,
			[]verdict{closed, answered, closed}, []ruling{askAnew, askHere, isOldAnew}, "0.9",
		},
		{
			"0.8.2", false,
			[]verdict{closed, closed, answered, closed}, []ruling{askAnew, askAnew, askHere, isOldAnew}, "0.8.2",
		},
		{
			"0.8.1", false,
			[]verdict{closed, closed, closed, answered, closed}, []ruling{askAnew, askAnew, askAnew, askHere, isOldAnew}, "0.8.1",
		},
		{
			"0.8.0", false,
			[]verdict{closed, closed, closed, closed, answered, closed},
			[]ruling{askAnew, askAnew, askAnew, askAnew, askHere, isOldAnew}, "0.8.0",
		},
		{
			"a listener with TLS closes on everything", false,
			[]verdict{closed, closed, closed, closed, closed}, []ruling{askAnew, askAnew, askAnew, askAnew, giveUp}, "",
		},
		{
			"a new broker whose connection was cut", false,
			[]verdict{closed, answered, answered}, []ruling{askAnew, askHere, isModern}, "",
		},
		{
			"a new broker of which several connections were cut", false,
			[]verdict{closed, closed, closed, answered, answered}, []ruling{askAnew, askAnew, askAnew, askHere, isModern}, "",
		},
		{"silence is nothing", false, []verdict{failed}, []ruling{giveUp}, ""},
		{"silence after a hang-up is nothing", false, []verdict{closed, failed}, []ruling{askAnew, giveUp}, ""},
		{"silence where ApiVersions comes again is nothing", false, []verdict{closed, answered, failed}, []ruling{askAnew, askHere, giveUp}, ""},
		{"one that answered ApiVersions once and closes", true, []verdict{closed}, []ruling{giveUp}, ""},
		{"one that answered ApiVersions once and is silent", true, []verdict{failed}, []ruling{giveUp}, ""},
		{
			"0.8.2 that skips what it does not know", false,
			[]verdict{skipped, skipped, skipped, answered}, []ruling{askAnew, askAnew, askAnew, isOld}, "0.8.2",
		},
		{
			"0.9 that lost ListGroups for another client's sake", false,
			[]verdict{skipped, skipped, answered}, []ruling{askAnew, askAnew, isOld}, "0.9",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := detection{mayBeOld: !tc.modern}
			for i, v := range tc.verdicts {
				require.Equal(t, tc.rulings[i], d.take(v), "after %d", i+1)
			}
			if tc.found != "" {
				require.Equal(t, release(t, tc.found), d.found)
			}
		})
	}
}

// Whatever the answers are: a detection ends, and calls nobody old whose canary was not
// answered, or who was not seen to lack ApiVersions by more than one hang-up.
func TestNobodyIsCalledOldWithoutProof(t *testing.T) {
	var walk func(d detection, history []verdict, probes []probe)
	walk = func(d detection, history []verdict, probes []probe) {
		require.LessOrEqual(t, len(history), 10, "it does not end: %v", history)
		for _, v := range []verdict{failed, answered, skipped, closed} {
			next := d
			history, probes := append(history[:len(history):len(history)], v), append(probes[:len(probes):len(probes)], d.next)
			switch next.take(v) {
			case isOld, isOldAnew:
				requireProof(t, next.found, history, probes)
			case askAnew, askHere:
				walk(next, history, probes)
			case isModern:
				require.Equal(t, answered, v)
			}
		}
	}
	walk(detection{mayBeOld: true}, nil, nil)
	walk(detection{}, nil, nil)
}

func requireProof(t *testing.T, found protocol.Release, history []verdict, probes []probe) {
	t.Helper()
	var answeredOld, skippedVersions bool
	closes := 0
	for i, p := range probes {
		versions := p == probeVersions || p == probeVersionsAt
		answeredOld = answeredOld || !versions && history[i] == answered && olderBrokers[p] == found
		skippedVersions = skippedVersions || versions && history[i] == skipped
		if versions && history[i] == closed {
			closes++
		}
	}
	what := fmt.Sprint(found, probes, history)
	require.True(t, answeredOld, what)
	require.True(t, skippedVersions || closes == 2, what)
}

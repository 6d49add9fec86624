package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const testPackage = "example.com/m"

func ended(action, test string) []event {
	return []event{{Action: "run", Package: testPackage, Test: test}, {Action: action, Package: testPackage, Test: test}}
}

func tallyOf(events ...[]event) *tally {
	y := newTally([]string{"kfake", "4.4.0"})
	for _, pair := range events {
		y.add(pair[0], false)
	}
	for _, pair := range events {
		y.add(pair[1], false)
	}
	return y
}

func TestOnlyTheInnermostTestsAreCounted(t *testing.T) {
	y := tallyOf(ended("pass", "TestA"), ended("pass", "TestA/4.4.0"), ended("pass", "TestA/kfake"),
		ended("pass", "TestA/kfake/one"), ended("pass", "TestA/kfake/two"), ended("pass", "TestB"))
	require.Equal(t, map[string]int{"4.4.0": 1, "kfake": 2, "unit": 1}, y.passed)
}

func TestSlashesOfThePackagePathAreNotSubtests(t *testing.T) {
	y := tallyOf(ended("pass", "TestA"), ended("pass", "TestB"))
	require.Equal(t, map[string]int{"unit": 2}, y.passed)
}

func TestTheSeedsOfAFuzzTestAreOne(t *testing.T) {
	y := tallyOf(ended("pass", "FuzzA"), ended("pass", "FuzzA/seed#0"), ended("pass", "FuzzA/seed#1"))
	require.Equal(t, map[string]int{"unit": 1}, y.passed)
}

func TestPackagesOnTheScriptedBrokerAreAKindOfTheirOwn(t *testing.T) {
	y := newTally(nil)
	y.add(event{Action: "pass", Package: testPackage, Test: "TestA"}, true)
	require.Equal(t, map[string]int{"testbroker": 1}, y.passed)
}

func TestTooFewTestsAreToldAndSkippedOnesOnlyUnderCI(t *testing.T) {
	least := map[string]int{"4.4.0": 1, "unit": 2}
	skipped := tallyOf(ended("skip", "TestA/4.4.0"), ended("pass", "TestB"), ended("fail", "TestC"))
	require.Empty(t, skipped.missing(least, false))
	require.Equal(t, []string{"4.4.0 0 of 1"}, skipped.missing(least, true))
	require.Contains(t, skipped.table(least), "NOT RUN")
	require.Contains(t, skipped.table(least), "\n1 passed, 1 failed, 1 skipped\n")

	absent := tallyOf(ended("pass", "TestB"))
	require.Equal(t, []string{"unit 1 of 2", "4.4.0 0 of 1"}, absent.missing(least, false))
}

func TestCountsAreReadWithoutComments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	require.NoError(t, os.WriteFile(file, []byte("# kinds\n\nunit 3 # all of them\n4.4.0 1\n"), 0o600))
	counts, err := readCounts(file)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"unit": 3, "4.4.0": 1}, counts)

	require.NoError(t, os.WriteFile(file, []byte("unit many\n"), 0o600))
	_, err = readCounts(file)
	require.Error(t, err)
}

//go:build unix

package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplicasAreInSyncWhenAllNodesSaySo(t *testing.T) {
	seen := func(brokers []int32, leader, epoch int32, isr ...int32) view {
		return view{brokers, []partition{{"t", 0, leader, epoch, []int32{1, 2}, isr}}}
	}
	all := []int32{1, 2, 3}
	well := seen(all, 1, 4, 1, 2)
	require.NoError(t, inSync([]view{well, well, well}))
	for what, other := range map[string]view{
		"a broker is fenced":          seen([]int32{1, 3}, 1, 4, 1, 2),
		"a replica is not in sync":    seen(all, 1, 4, 1),
		"there is no leader":          seen(all, -1, 5),
		"it tells of another leader":  seen(all, 2, 5, 1, 2),
		"it was frozen for a while":   seen(all, 1, 3, 1, 2),
		"it does not know of a topic": {brokers: all},
	} {
		require.Error(t, inSync([]view{well, well, other}), what)
		require.Error(t, inSync([]view{other, well, well}), what)
	}
}

func TestControllersAreOfOneMindAndCaughtUp(t *testing.T) {
	says := func(leader, epoch int32, last int64) quorum {
		return quorum{leader, epoch, 100, map[int32]int64{1: 100, 2: 100, 3: last}}
	}
	require.NoError(t, agreed([]quorum{says(1, 4, 100), says(1, 4, 102)}), "the log grows all the time")
	require.Error(t, agreed([]quorum{says(1, 4, 100), says(3, 3, 100)}), "a frozen one takes itself for the controller")
	require.NoError(t, caughtUp(says(1, 4, 99), 99))
	require.Error(t, caughtUp(says(1, 4, 99), 100))
}

func TestAFailureIsToldOfOnce(t *testing.T) {
	var r reports
	require.True(t, r.first("TestX/a/b"))
	require.False(t, r.first("TestX/a/b"))
	require.False(t, r.first("TestX/a"), "which failed because of it")
	require.False(t, r.first("TestX"))
	require.True(t, r.first("TestX/a/bc"))
	require.True(t, r.first("TestX/c"))
}

func TestErrorsFarUpInALogAreShown(t *testing.T) {
	dir := t.TempDir()
	n := &node{cluster: &Cluster{dir: dir}, name: "node-1"}
	log := "begin\n09:00:00.000 ERROR why it ends (Kafka)\n" + strings.Repeat("09:00:00.001 INFO bye (Kafka)\n", 100) + "end\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "node-1.log"), []byte(log), 0o600))
	require.Equal(t, n.log(), filepath.Join(dir, "node-1.log"))
	lines := strings.Split(n.lastLines(), "\n")
	require.Len(t, lines, 31)
	require.Contains(t, lines[0], "why it ends")
	require.Equal(t, "end", lines[30])
}

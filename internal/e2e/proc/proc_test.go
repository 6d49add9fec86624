//go:build unix

package proc_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

// parentVariable makes this test binary play a test binary that dies.
const parentVariable = "PROC_TEST_PARENT"

func TestMain(m *testing.M) {
	if log := os.Getenv(parentVariable); log != "" {
		dyingParent(log)
	}
	proc.Main(m)
}

func dyingParent(log string) {
	p, err := proc.Start(proc.Options{Args: []string{"sh", "-c", "echo $$; sleep 1000"}, Log: log, Pipe: true})
	if err != nil {
		panic(err)
	}
	line, _ := bufio.NewReader(p.Stdout).ReadString('\n')
	fmt.Print(line)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func TestProgramsEndWhenTheTestBinaryIsKilled(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"="+filepath.Join(t.TempDir(), "log"))
	out, err := cmd.Output()
	require.ErrorContains(t, err, "killed")
	group, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return syscall.Kill(-group, 0) != nil }, time.Minute, 10*time.Millisecond,
		"the process group outlives the test binary")
}

func TestStopKillsWhatDoesNotHeedSIGTERM(t *testing.T) {
	p, err := proc.Start(proc.Options{Args: []string{"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"},
		Log: filepath.Join(t.TempDir(), "log"), Pipe: true})
	require.NoError(t, err)
	_, err = bufio.NewReader(p.Stdout).ReadString('\n')
	require.NoError(t, err)
	start := time.Now()
	p.Stop(200 * time.Millisecond)
	require.False(t, p.Running())
	require.Error(t, p.Err())
	require.Less(t, time.Since(start), time.Minute)
}

func TestPausedProgramsStopAndGoOn(t *testing.T) {
	p, err := proc.Start(proc.Options{Args: []string{"cat"}, Log: filepath.Join(t.TempDir(), "log"), Pipe: true})
	require.NoError(t, err)
	p.Pause()
	_, err = io.WriteString(p.Stdin, "hello\n")
	require.NoError(t, err)
	read := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(p.Stdout).ReadString('\n')
		read <- line
	}()
	select {
	case <-read:
		t.Fatal("a paused program answered")
	case <-time.After(200 * time.Millisecond):
	}
	p.Continue()
	require.Equal(t, "hello\n", <-read)
	p.Stop(5 * time.Second)
}

func TestCachedFillsOnceUntilItsKeyChanges(t *testing.T) {
	name := "test/" + strings.ReplaceAll(t.Name(), "/", "-") + strconv.Itoa(os.Getpid())
	fills := 0
	fill := func(dir string) error {
		fills++
		return os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
	}
	dir, err := proc.Cached(name, "one", fill)
	require.NoError(t, err)
	t.Cleanup(func() {
		os.RemoveAll(dir)
		os.Remove(dir + ".lock")
	})
	_, err = proc.Cached(name, "one", fill)
	require.NoError(t, err)
	require.Equal(t, 1, fills)
	_, err = proc.Cached(name, "two", fill)
	require.NoError(t, err)
	require.Equal(t, 2, fills)

	_, err = proc.Cached(name, "three", func(string) error { return io.ErrUnexpectedEOF })
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = proc.Cached(name, "two", fill)
	require.NoError(t, err)
	require.Equal(t, 3, fills, "what a failed fill left behind was taken for complete")
}

func TestEachPortIsGivenOnce(t *testing.T) {
	const variable = "PROC_TEST_PORTS"
	seen := map[string]bool{}
	for range 100 {
		l, err := proc.Listen()
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.False(t, seen[l.Addr().String()], "%s was given before", l.Addr())
		seen[l.Addr().String()] = true
	}
	if os.Getenv(variable) != "" {
		for addr := range seen {
			fmt.Println(addr)
		}
		return
	}
	other := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), variable+"=1")
	out, err := other.Output()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "127.0.0.1:")
	for line := range strings.Lines(string(out)) {
		require.False(t, seen[strings.TrimSpace(line)], "%s was given to another test binary, too", line)
	}
}

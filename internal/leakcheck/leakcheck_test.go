package leakcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

func TestGoroutinesAreFoundUntilTheyEnd(t *testing.T) {
	others := len(Wait(0)) // TestMain's, which waits for this test
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-stop
	}()
	left := Wait(20 * time.Millisecond)
	require.Len(t, left, others+1)
	require.Contains(t, left[len(left)-1], "TestGoroutinesAreFoundUntilTheyEnd")
	close(stop)
	<-ended
	require.Eventually(t, func() bool { return len(stacks()) == others+1 }, 30*time.Second, time.Millisecond, "Eventually itself runs one")
}

package testbroker

import (
	"bytes"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLinkDeadlinesFollowTheBubblesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newLink("a:1", "b:1")
		start := time.Now()
		require.NoError(t, a.SetReadDeadline(start.Add(3*time.Second)))
		_, err := a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Equal(t, 3*time.Second, time.Since(start))

		require.NoError(t, a.SetDeadline(time.Time{}))
		_, err = b.Write([]byte("x"))
		require.NoError(t, err)
		got := make([]byte, 4)
		n, err := a.Read(got)
		require.NoError(t, err)
		require.Equal(t, "x", string(got[:n]))

		require.NoError(t, a.SetWriteDeadline(time.Now().Add(time.Second)))
		n, err = a.Write(make([]byte, linkBuffer+1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, linkBuffer, n, "a reader who does not read is felt")
	})
}

func TestLinkMovesADeadlineWhileAReadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newLink("a:1", "b:1")
		start := time.Now()
		require.NoError(t, a.SetReadDeadline(start.Add(time.Second)))
		ended := make(chan error, 1)
		go func() {
			_, err := a.Read(make([]byte, 1))
			ended <- err
		}()
		synctest.Wait()
		require.NoError(t, a.SetReadDeadline(start.Add(5*time.Second)))
		require.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestLinkDeliversWhatWasWrittenBeforeClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newLink("a:1", "b:1")
		want := bytes.Repeat([]byte("abc"), linkBuffer) // more than the buffer holds
		go func() {
			_, _ = a.Write(want)
			_ = a.Close()
		}()
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, want, got)
		_, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
		_, err = a.Read(got)
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestLinkCloseWakesAWaitingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newLink("a:1", "b:1")
		ended := make(chan error, 1)
		go func() {
			_, err := a.Read(make([]byte, 1))
			ended <- err
		}()
		synctest.Wait()
		require.NoError(t, a.Close())
		require.ErrorIs(t, <-ended, net.ErrClosed)
	})
}

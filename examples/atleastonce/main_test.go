package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/examples/internal/inprocess"
)

// lines counts lines and calls enough when all orders are printed.
type lines struct {
	n      int
	enough func()
}

func (l *lines) Write(p []byte) (int, error) {
	if l.n += bytes.Count(p, []byte("\n")); l.n == inprocess.Orders {
		l.enough()
	}
	return len(p), nil
}

func TestItPrintsEveryOrderOnceAndEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := &lines{enough: cancel}
	require.NoError(t, run(ctx, "", "orders", "billing", out))
	require.Equal(t, inprocess.Orders, out.n)
}

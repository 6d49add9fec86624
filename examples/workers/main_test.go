package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/examples/internal/inprocess"
)

// sum adds up the numbers at the ends of lines and calls enough when they make all
// orders.
type sum struct {
	n      int
	enough func()
}

func (s *sum) Write(p []byte) (int, error) {
	_, number, _ := strings.Cut(string(p), ": ")
	var n int
	if _, err := fmt.Sscan(number, &n); err != nil {
		return 0, err
	}
	if s.n += n; s.n == inprocess.Orders {
		s.enough()
	}
	return len(p), nil
}

func TestItWorksOffEveryOrderOnceAndEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := &sum{enough: cancel}
	require.NoError(t, run(ctx, "", "orders", "billing", out))
	require.Equal(t, inprocess.Orders, out.n)
}

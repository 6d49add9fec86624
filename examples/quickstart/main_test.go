package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A screen is what a program prints to; it can be watched meanwhile.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// demo has work that takes long enough for a busy machine to let bob in, and the test
// interrupt, before all is done.
func demo() options {
	return options{topic: "orders", group: "billing", work: 2 * time.Millisecond}
}

func TestQuickstartReadsEveryOrderOnceWithTwoMembers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out screen
	require.NoError(t, run(ctx, demo(), &out))

	for _, line := range []string{
		`ann gets +0 1 2 3 4 5\n`,
		`ann gives up 0 1 2 3 4 5\n`,
		`bob gets +\d \d \d\n`,
		`bob leaves\n`,
		`bob gives up \d \d \d\n`,
	} {
		require.Regexp(t, line, out.String())
	}
	require.Regexp(t, `(?s)bob leaves.*ann gets +0 1 2 3 4 5\n`, out.String(), "ann takes over what bob had")
	all := regexp.MustCompile(`(?m)^ +all +(\d+) +(\d+) +(\d+)$`).FindStringSubmatch(out.String())
	require.NotNil(t, all, out.String())
	require.NotEqual(t, "0", all[1], "ann read nothing")
	require.NotEqual(t, "0", all[2], "bob read nothing")
	require.Equal(t, "0", all[3], "lag")
	require.True(t, strings.HasSuffix(out.String(), "\n4000 orders over 20980.00 are billed.\n"), out.String())
}

func TestQuickstartEndsCleanlyWhenInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out screen
	done := make(chan error)
	go func() { done <- run(ctx, demo(), &out) }()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "bob gets") }, 30*time.Second, 5*time.Millisecond)
	interrupt()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		require.FailNow(t, "it did not end", out.String())
	}
	require.Contains(t, out.String(), "interrupted\n")
	// What was worked off is committed, and nothing else.
	read, committed := 0, 0
	for _, row := range regexp.MustCompile(`(?m)^ +\d +(\d+) +(\d+) +(\d+) +\d+ +\d+$`).FindAllStringSubmatch(out.String(), -1) {
		read += number(t, row[1]) + number(t, row[2])
		committed += number(t, row[3])
	}
	require.Equal(t, read, committed, out.String())
	require.Less(t, committed, 4000)
}

func TestQuickstartReadsAnotherCluster(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(4, "sales"))
	require.NoError(t, err)
	defer broker.Close()
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("sales"))
	require.NoError(t, err)
	defer producer.Close()
	records := []*kgo.Record{{Value: []byte("no order")}}
	for i := range 999 {
		records = append(records, &kgo.Record{Key: fmt.Append(nil, i), Value: []byte(`{"cents": 250}`)})
	}
	require.NoError(t, producer.ProduceSync(t.Context(), records...).FirstErr())

	o := demo()
	o.brokers, o.topic, o.group = strings.Join(broker.ListenAddrs(), ","), "sales", "audit"
	var out screen
	require.NoError(t, run(t.Context(), o, &out))
	require.True(t, strings.HasSuffix(out.String(), "\n999 orders over 2497.50 are billed.\n1 records were no orders.\n"), out.String())

	out = screen{}
	require.NoError(t, run(t.Context(), o, &out), "a second run has nothing left to read")
	require.Contains(t, out.String(), "\n0 orders over 0.00 are billed.\n")
}

func TestQuickstartSaysThatATopicIsMissing(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer broker.Close()
	o := demo()
	o.brokers = broker.ListenAddrs()[0]
	require.ErrorContains(t, run(t.Context(), o, &screen{}), `there is no topic "orders"`)
}

func number(t *testing.T, s string) (n int) {
	t.Helper()
	_, err := fmt.Sscan(s, &n)
	require.NoError(t, err)
	return n
}

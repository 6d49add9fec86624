// Command workers works off the partitions of each batch at the same time, one
// goroutine for each, so that the order within a partition is kept, and then commits.
// It ends on Ctrl-C.
//
//	go run ./workers -brokers localhost:9092 -topic orders -group billing
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/examples/internal/inprocess"
)

func main() {
	brokers := flag.String("brokers", "", "`host:port` of a broker; empty: one inside this program")
	topic := flag.String("topic", "orders", "`topic` to read")
	group := flag.String("group", "billing", "consumer `group`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *brokers, *topic, *group, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, brokers, topic, group string, out io.Writer) error {
	if brokers == "" {
		address, stop, err := inprocess.Start(ctx, topic)
		if err != nil {
			return err
		}
		defer stop()
		brokers = address
	}
	c, err := kafka.NewConsumer(ctx, kafka.Config{
		BootstrapServers:  []string{brokers},
		GroupID:           group,
		Topics:            []string{topic},
		AutoOffsetReset:   kafka.ResetEarliest,
		DisableAutoCommit: true,
	})
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for {
		records, err := c.Poll(ctx, time.Second)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		results := make([]string, len(records.Partitions()))
		var wg sync.WaitGroup
		for i, tp := range records.Partitions() {
			wg.Go(func() {
				n := 0
				for range records.Partition(tp) {
					time.Sleep(100 * time.Microsecond) // the work
					n++
				}
				results[i] = fmt.Sprintf("%s: %d", tp, n)
			})
		}
		wg.Wait()
		for _, result := range results {
			fmt.Fprintln(out, result)
		}
		if err := c.Commit(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// Command atleastonce works off each record before it commits: a record may be worked
// off again after a crash, and none is ever left out. It ends on Ctrl-C.
//
//	go run ./atleastonce -brokers localhost:9092 -topic orders -group billing
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
		for r := range records.All() {
			if err := workOff(r, out); err != nil {
				return err // not committed: this batch comes again
			}
		}
		if records.Len() == 0 {
			continue
		}
		// The batch is worked off, so it is committed even when Ctrl-C came.
		err = c.Commit(context.WithoutCancel(ctx))
		if _, moved := errors.AsType[*kafka.CommitFailedError](err); moved {
			continue // the group went on without this member: the next owner gets the batch again
		}
		if err != nil {
			return err
		}
	}
}

func workOff(r kafka.Record, out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s %d %s\n", r.TopicPartition(), r.Offset, r.Value)
	return err
}

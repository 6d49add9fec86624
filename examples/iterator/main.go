// Command iterator reads a topic in a loop over records. What the loop is done with is
// committed automatically. It ends on Ctrl-C, or after five seconds without a record.
//
//	go run ./iterator -brokers localhost:9092 -topic orders -group billing
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

func run(ctx context.Context, brokers, topic, group string, out io.Writer) (err error) {
	if brokers == "" {
		address, stop, err := inprocess.Start(ctx, topic)
		if err != nil {
			return err
		}
		defer stop()
		brokers = address
	}
	c, err := kafka.NewConsumer(ctx, kafka.Config{
		BootstrapServers: []string{brokers},
		GroupID:          group,
		Topics:           []string{topic},
		AutoOffsetReset:  kafka.ResetEarliest,
		ConsumerTimeout:  5 * time.Second,
	})
	if err != nil {
		return err
	}
	// Close commits what the loop was done with.
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()

	for r, err := range c.Records(ctx) {
		if where, ok := errors.AsType[*kafka.PartitionError](err); ok {
			log.Print(where) // the other partitions go on
			continue
		}
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %d %s\n", r.TopicPartition(), r.Offset, r.Value)
	}
	return nil
}

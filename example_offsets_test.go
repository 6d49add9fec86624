package kafka_test

import (
	"fmt"
	"time"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
)

// orders is the partition that these examples read.
var orders = kafka.TopicPartition{Topic: "orders", Partition: 0}

func ExampleConsumer_Assign() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	check(c.Assign(orders))
	fmt.Println(c.Assignment(), must(c.Poll(ctx, -1)).Len())
	// Output: [orders-0] 2
}

func ExampleConsumer_Seek() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))

	check(c.Seek(orders, 2))
	fmt.Println(string(must(c.Poll(ctx, -1)).At(0).Value))
	// Output: plums
}

// Go back to what the group has committed.
func ExampleConsumer_SeekTo() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	cluster.SetCommitted("billing", "orders", 0, testbroker.CommittedOffset{Offset: 1})
	cfg.GroupID = "billing"
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))
	must(c.Poll(ctx, -1)) // these records could not be worked off

	committed := must(c.Committed(ctx, orders))
	check(c.SeekTo(orders, committed[orders]))
	fmt.Println(string(must(c.Poll(ctx, -1)).At(0).Value))
	// Output: pears
}

func ExampleConsumer_SeekToBeginning() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))
	must(c.Poll(ctx, -1))

	check(c.SeekToBeginning()) // of all assigned partitions
	fmt.Println(must(c.Position(ctx, orders)))
	// Output: 0
}

func ExampleConsumer_SeekToEnd() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))

	check(c.SeekToEnd(orders))
	fmt.Println(must(c.Position(ctx, orders)))
	// Output: 2
}

func ExampleConsumer_SeekToTime() {
	cluster, cfg := startCluster()
	defer cluster.Close()
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for i, item := range []string{"apples", "pears", "plums"} {
		cluster.Produce("orders", 0, testbroker.Record{Value: []byte(item), Timestamp: noon.Add(time.Duration(i) * time.Hour)})
	}
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))

	check(c.SeekToTime(ctx, noon.Add(time.Minute)))
	r := must(c.Poll(ctx, -1)).At(0)
	fmt.Println(r.Timestamp().UTC().Format(time.TimeOnly), string(r.Value))
	// Output: 13:00:00 pears
}

// The position is behind the records that were handed over last.
func ExampleConsumer_Position() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))

	fmt.Println(must(c.Position(ctx, orders)))
	must(c.Poll(ctx, -1))
	fmt.Println(must(c.Position(ctx, orders)))
	// Output:
	// 0
	// 2
}

// While a partition is paused, polling goes on: the group must not take this consumer for stuck.
func ExampleConsumer_Pause() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))

	check(c.Pause(orders))
	fmt.Println(c.Paused(), must(c.Poll(ctx, 50*time.Millisecond)).Len())
	check(c.Resume(orders))
	fmt.Println(c.Paused(), must(c.Poll(ctx, -1)).Len())
	// Output:
	// [orders-0] 0
	// [] 2
}

func ExampleConsumer_Resume() {
	cluster, cfg := startCluster("apples")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))
	check(c.Pause(c.Assignment()...))

	check(c.Resume(c.Paused()...))
	fmt.Println(must(c.Poll(ctx, -1)).Len())
	// Output: 1
}

func ExampleConsumer_BeginningOffsets() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	cluster.SetLogStart("orders", 0, 1) // retention removed the first record
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	fmt.Println(must(c.BeginningOffsets(ctx, orders))[orders])
	// Output: 1
}

// The partitions need not be assigned.
func ExampleConsumer_EndOffsets() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	fmt.Println(must(c.EndOffsets(ctx, orders))[orders])
	// Output: 3
}

func ExampleConsumer_OffsetsForTimes() {
	cluster, cfg := startCluster()
	defer cluster.Close()
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	cluster.Produce("orders", 0, testbroker.Record{Value: []byte("apples"), Timestamp: noon})
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	for _, t := range []time.Time{noon.Add(-time.Hour), noon.Add(time.Hour)} {
		found, ok := must(c.OffsetsForTimes(ctx, map[kafka.TopicPartition]time.Time{orders: t}))[orders]
		fmt.Println(ok, found.Offset)
	}
	// Output:
	// true 0
	// false 0
}

func ExampleConsumer_PartitionsForTopic() {
	cluster, cfg := startCluster()
	defer cluster.Close()
	cluster.CreateTopic("payments", 3)
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	fmt.Println(must(c.PartitionsForTopic(ctx, "payments")), must(c.PartitionsForTopic(ctx, "typo")))
	// Output: [0 1 2] []
}

func ExampleConsumer_Topics() {
	cluster, cfg := startCluster()
	defer cluster.Close()
	cluster.CreateTopic("payments", 3)
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	fmt.Println(must(c.Topics(ctx)))
	// Output: [orders payments]
}

// The lag is known from the first fetch on.
func ExampleConsumer_Lag() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))

	must(c.PollMax(ctx, -1, 1))
	lag, known := c.Lag(orders)
	fmt.Println(lag, known)
	// Output: 2 true
}

func ExampleConsumer_Highwater() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))

	must(c.PollMax(ctx, -1, 1))
	end, known := c.Highwater(orders)
	fmt.Println(end, known)
	// Output: 3 true
}

// Without a committed offset, start with the last hour.
func ExampleResetByDuration() {
	cluster, cfg := startCluster()
	defer cluster.Close()
	now := time.Now()
	cluster.Produce("orders", 0, testbroker.Record{Value: []byte("yesterday's"), Timestamp: now.Add(-24 * time.Hour)})
	cluster.Produce("orders", 0, testbroker.Record{Value: []byte("today's"), Timestamp: now})
	cfg.AutoOffsetReset = kafka.ResetByDuration(time.Hour)
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))

	fmt.Println(string(must(c.Poll(ctx, -1)).At(0).Value))
	// Output: today's
}

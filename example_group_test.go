package kafka_test

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/kafkaconsumer/kafka"
)

func ExampleConsumer_Subscribe() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	cfg.GroupID = "billing"
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	check(c.Subscribe([]string{"orders"}))
	for r := range must(c.Poll(ctx, -1)).All() {
		fmt.Println(string(r.Value))
	}
	fmt.Println(c.Subscription(), c.Assignment())
	// Output:
	// apples
	// pears
	// [orders] [orders-0]
}

// The pattern must match the whole name.
func ExampleConsumer_SubscribePattern() {
	cluster, cfg := startCluster()
	defer cluster.Close()
	cluster.CreateTopic("shop.rome", 1)
	cluster.CreateTopic("shop.paris", 1)
	cluster.CreateTopic("workshop.rome", 1)
	cluster.ProduceValues("shop.rome", 0, "apples")
	cfg.GroupID = "billing"
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	check(c.SubscribePattern(regexp.MustCompile(`shop\..*`)))
	fmt.Println(string(must(c.Poll(ctx, -1)).At(0).Value))
	fmt.Println(c.Subscription())
	// Output:
	// apples
	// [shop.paris shop.rome]
}

// Tell what comes and goes, and commit before it goes.
func ExampleRebalanceListener() {
	cluster, cfg := startCluster("apples")
	defer cluster.Close()
	cfg.GroupID = "billing"
	cfg.DisableAutoCommit = true
	c := must(kafka.NewConsumer(ctx, cfg))

	check(c.Subscribe([]string{"orders"}, kafka.WithRebalanceListener(kafka.RebalanceListener{
		OnAssigned: func(_ context.Context, _ *kafka.Consumer, tps []kafka.TopicPartition) error {
			fmt.Println("assigned:", tps)
			return nil
		},
		OnRevoked: func(ctx context.Context, c *kafka.Consumer, tps []kafka.TopicPartition) error {
			fmt.Println("revoked:", tps)
			return c.Commit(ctx) // with the callback's context
		},
	})))
	must(c.Poll(ctx, -1))
	check(c.Close(ctx))
	fmt.Println("committed:", cluster.CommittedOffset("billing", "orders", 0))
	// Output:
	// assigned: [orders-0]
	// revoked: [orders-0]
	// committed: 1
}

// Keep positions in a database of one's own: set them when partitions come.
func ExampleRebalanceListener_ownOffsets() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	stored := map[kafka.TopicPartition]int64{orders: 2}
	cfg.GroupID = "billing"
	cfg.Topics = []string{"orders"}
	cfg.DisableAutoCommit = true
	cfg.RebalanceListener.OnAssigned = func(_ context.Context, c *kafka.Consumer, tps []kafka.TopicPartition) error {
		for _, tp := range tps {
			if err := c.Seek(tp, stored[tp]); err != nil {
				return err
			}
		}
		return nil
	}
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	fmt.Println(string(must(c.Poll(ctx, -1)).At(0).Value))
	// Output: plums
}

func ExampleConsumer_Unsubscribe() {
	cluster, cfg := startCluster("apples")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))
	must(c.Poll(ctx, -1))

	fmt.Println(c.Assign(orders))
	check(c.Unsubscribe(ctx))
	fmt.Println(c.Assign(orders))
	// Output:
	// kafka: call Unsubscribe before switching between topics, pattern and manual assignment
	// <nil>
}

// At least once: commit when the work is done.
func ExampleConsumer_Commit() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	cfg.GroupID = "billing"
	cfg.Topics = []string{"orders"}
	cfg.DisableAutoCommit = true
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	for r := range must(c.Poll(ctx, -1)).All() {
		fmt.Println("billed:", string(r.Value))
	}
	check(c.Commit(ctx))
	fmt.Println("committed:", cluster.CommittedOffset("billing", "orders", 0))
	// Output:
	// billed: apples
	// billed: pears
	// committed: 2
}

// Commit one record of a batch, with a note.
func ExampleConsumer_CommitOffsets() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	cfg.GroupID = "billing"
	cfg.Topics = []string{"orders"}
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	r := must(c.Poll(ctx, -1)).At(0)
	check(c.CommitOffsets(ctx, map[kafka.TopicPartition]kafka.OffsetAndMetadata{
		r.TopicPartition(): {Offset: r.Offset + 1, Metadata: "by host7"}, // the next one to read
	}))
	committed := must(c.Committed(ctx, orders))[orders]
	fmt.Println(committed.Offset, committed.Metadata)
	// Output: 1 by host7
}

// The callback is called inside a later Poll, Commit or Close.
func ExampleConsumer_CommitAsync() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	cfg.GroupID = "billing"
	cfg.Topics = []string{"orders"}
	c := must(kafka.NewConsumer(ctx, cfg))
	must(c.Poll(ctx, -1))

	check(c.CommitAsync(nil, func(_ context.Context, offsets map[kafka.TopicPartition]kafka.OffsetAndMetadata, err error) {
		fmt.Println(offsets[orders].Offset, err)
	}))
	check(c.Close(ctx))
	// Output: 2 <nil>
}

// A partition for which nothing was committed is absent.
func ExampleConsumer_Committed() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	cfg.GroupID = "billing"
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))

	_, found := must(c.Committed(ctx, orders))[orders]
	fmt.Println(found)
	must(c.Poll(ctx, -1))
	check(c.Commit(ctx))
	fmt.Println(must(c.Committed(ctx, orders))[orders].Offset)
	// Output:
	// false
	// 2
}

// What nobody asked for, but should be known.
func ExampleConfig_onEvent() {
	cluster, cfg := startCluster("apples")
	defer cluster.Close()
	events := make(chan kafka.Event, 1)
	cfg.OnEvent = func(e kafka.Event) {
		if reset, ok := e.(kafka.EventPositionReset); ok {
			events <- reset
		}
	}
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(orders))
	must(c.Poll(ctx, -1))

	fmt.Println(<-events)
	// Output: position of orders-0 set from -1 to 0: no committed offset
}

func ExampleConsumer_GroupMetadata() {
	cluster, cfg := startCluster("apples")
	defer cluster.Close()
	cfg.GroupID = "billing"
	cfg.Topics = []string{"orders"}
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	must(c.Poll(ctx, -1))

	me := must(c.GroupMetadata())
	fmt.Println(me.GroupID, me.GenerationID, me.MemberID != "")
	// Output: billing 1 true
}

// Join again, for example since this host's weight in the assignment has changed.
func ExampleConsumer_EnforceRebalance() {
	cluster, cfg := startCluster("apples")
	defer cluster.Close()
	cfg.GroupID = "billing"
	cfg.Topics = []string{"orders"}
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	must(c.Poll(ctx, -1))

	check(c.EnforceRebalance("host7 has more memory now"))
	for must(c.GroupMetadata()).GenerationID == 1 {
		must(c.Poll(ctx, 50*time.Millisecond))
	}
	fmt.Println(must(c.GroupMetadata()).GenerationID)
	// Output: 2
}

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/internal/testbroker"
	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
)

var ctx = context.Background()

// startCluster starts a Kafka cluster in memory whose topic orders has one partition with the
// values, and returns what a consumer needs to reach it. For a real cluster that is
// kafka.Config{BootstrapServers: []string{"host:9092"}}.
func startCluster(values ...string) (*testbroker.Cluster, kafka.Config) {
	cluster := testbroker.New(nil)
	cluster.CreateTopic("orders", 1)
	if len(values) > 0 {
		cluster.ProduceValues("orders", 0, values...)
	}
	return cluster, kafka.Config{
		BootstrapServers: cluster.Addrs(),
		Dialer:           cluster.Dial,
		AutoOffsetReset:  kafka.ResetEarliest,

		APIVersionAutoTimeout: time.Minute, // the machine may have much else to do

		Logger: slog.New(slog.DiscardHandler),
	}
}

// must is how these examples handle the errors that they are not about.
func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A program that reads the orders of its group and commits what it has worked off.
func Example() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	cfg.GroupID = "billing"
	cfg.Topics = []string{"orders"}

	c, err := kafka.NewConsumer(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	for left := 2; left > 0; {
		records, err := c.Poll(ctx, time.Second)
		if err != nil {
			fmt.Println(err)
			return
		}
		for r := range records.All() {
			fmt.Printf("%s %d %s\n", r.TopicPartition(), r.Offset, r.Value)
			left--
		}
		if err := c.Commit(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// orders-0 0 apples
	// orders-0 1 pears
}

func ExampleNewConsumer() {
	cluster, cfg := startCluster()
	defer cluster.Close()

	c, err := kafka.NewConsumer(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	fmt.Println(must(c.Topics(ctx)))
	// Output: [orders]
}

// All faults of a configuration are reported at once, before anything is sent.
func ExampleNewConsumer_wrongConfig() {
	_, err := kafka.NewConsumer(ctx, kafka.Config{MaxPollRecords: -1, FetchMaxWait: time.Minute})
	fmt.Println(err)
	// Output:
	// kafka: Config.MaxPollRecords = -1: it must not be negative; zero means the default
	// kafka: Config.FetchMaxWait = 1m0s: it must be less than RequestTimeout (30s)
}

func ExampleConsumer_Poll() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	records, err := c.Poll(ctx, -1) // until there are records
	if err != nil {
		fmt.Println(err)
		return
	}
	for r := range records.All() {
		fmt.Println(r.Offset, string(r.Value))
	}
	// Output:
	// 0 apples
	// 1 pears
}

// The rest of what was fetched comes with the next Poll.
func ExampleConsumer_PollMax() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	for range 2 {
		records := must(c.PollMax(ctx, -1, 2))
		fmt.Println(records.Len())
	}
	// Output:
	// 2
	// 1
}

func ExampleConsumer_Records() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	for r, err := range c.Records(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(string(r.Value))
		if r.Offset == 2 {
			break // else it waits for the next one
		}
	}
	// Output:
	// apples
	// pears
	// plums
}

// A job that reads what is there now, and ends.
func ExampleConsumer_RecordsUntilEnd() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	for r, err := range c.RecordsUntilEnd(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(string(r.Value))
	}
	// Output:
	// apples
	// pears
}

func ExampleConsumer_Messages() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	for r := range c.Messages(ctx) {
		fmt.Println(string(r.Value))
		if r.Offset == 1 {
			check(c.Close(ctx)) // which closes the channel
		}
	}
	fmt.Println(c.Err())
	// Output:
	// apples
	// pears
	// <nil>
}

func ExampleTyped() {
	type order struct {
		Item  string
		Total float64
	}
	cluster, cfg := startCluster()
	defer cluster.Close()
	cluster.Produce("orders", 0, testbroker.Record{Key: []byte("ann"), Value: []byte(`{"item": "apples", "total": 3.5}`)})
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	orders := kafka.Typed(c, kafka.String, kafka.JSON[order]())
	for o, err := range orders.Records(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Printf("%s pays %.2f for %s\n", o.Key, o.Value.Total, o.Value.Item)
		break
	}
	// Output: ann pays 3.50 for apples
}

// A record that does not decode does not stop the loop.
func ExampleTypedConsumer_Records() {
	cluster, cfg := startCluster(`1`, `one`, `2`)
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	for n, err := range kafka.Typed(c, kafka.Bytes, kafka.JSON[int]()).Records(ctx) {
		if bad, ok := errors.AsType[*kafka.DeserializationError](err); ok {
			fmt.Printf("offset %d: %q is no number\n", bad.Offset, bad.Data)
			continue
		}
		check(err)
		fmt.Println(n.Value)
		if n.Offset == 2 {
			break
		}
	}
	// Output:
	// 1
	// offset 1: "one" is no number
	// 2
}

func ExampleTypedConsumer_Poll() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	records := must(kafka.Typed(c, kafka.String, kafka.String).Poll(ctx, -1))
	for r := range records.All() {
		fmt.Println(r.Offset, r.Value)
	}
	// Output:
	// 0 apples
	// 1 pears
}

// Any function that makes something of bytes is a Deserializer.
func ExampleDeserializerFunc() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	length := kafka.DeserializerFunc[int](func(_ string, _ kafka.Headers, data []byte) (int, error) {
		return len(data), nil
	})
	for r := range must(kafka.Typed(c, kafka.Bytes, length).Poll(ctx, -1)).All() {
		fmt.Println(r.Value)
	}
	// Output:
	// 6
	// 5
}

func ExampleRecord_Headers() {
	cluster, cfg := startCluster()
	defer cluster.Close()
	cluster.Produce("orders", 0, testbroker.Record{
		Value:   []byte("apples"),
		Headers: []batch.Header{{Key: "trace", Value: []byte("4bf9")}, {Key: "shop", Value: []byte("Rome")}},
	})
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	r := must(c.Poll(ctx, -1)).At(0)
	for h := range r.Headers() {
		fmt.Printf("%s: %s\n", h.Key, h.Value)
	}
	trace, found := r.Header("trace")
	fmt.Println(string(trace), found)
	// Output:
	// trace: 4bf9
	// shop: Rome
	// 4bf9 true
}

// A record that is kept keeps its whole batch in memory; a clone only itself.
func ExampleRecord_Clone() {
	cluster, cfg := startCluster("apples", "pears")
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	records := must(c.Poll(ctx, -1))
	kept := records.At(1).Clone()
	records.Release()
	fmt.Println(kept.Offset, string(kept.Value))
	// Output: 1 pears
}

// Commit a batch when others have been polled already.
func ExampleRecords_NextOffsets() {
	cluster, cfg := startCluster("apples", "pears", "plums")
	defer cluster.Close()
	cfg.GroupID = "billing"
	cfg.Topics = []string{"orders"}
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)

	first := must(c.PollMax(ctx, -1, 2))
	must(c.PollMax(ctx, -1, 2))
	check(c.CommitOffsets(ctx, first.NextOffsets()))
	fmt.Println(cluster.CommittedOffset("billing", "orders", 0))
	// Output: 2
}

// The records of one partition stay in order; each can be worked off by itself.
func ExampleRecords_Partition() {
	cluster, cfg := startCluster()
	defer cluster.Close()
	cluster.CreateTopic("payments", 2)
	cluster.ProduceValues("payments", 0, "1.50", "2.00")
	cluster.ProduceValues("payments", 1, "9.99")
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"payments"}))

	for n := 0; n < 3; {
		records := must(c.Poll(ctx, -1))
		for _, tp := range records.Partitions() {
			for r := range records.Partition(tp) {
				fmt.Println(tp, string(r.Value))
				n++
			}
		}
	}
	// Unordered output:
	// payments-0 1.50
	// payments-0 2.00
	// payments-1 9.99
}

// An error about a partition says which one, whatever else it says.
func ExamplePartitionError() {
	cluster, cfg := startCluster()
	defer cluster.Close()
	cfg.AutoOffsetReset = kafka.ResetNone
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Assign(kafka.TopicPartition{Topic: "orders"}))

	_, err := c.Poll(ctx, -1)
	if where, ok := errors.AsType[*kafka.PartitionError](err); ok {
		fmt.Println("trouble in", where.TopicPartition())
	}
	if _, ok := errors.AsType[*kafka.NoOffsetForPartitionError](err); ok {
		fmt.Println("nothing was committed yet")
	}
	// Output:
	// trouble in orders-0
	// nothing was committed yet
}

// A corrupt batch stops its partition until the application seeks past it.
func ExampleCorruptRecordError() {
	cluster, cfg := startCluster("apples")
	defer cluster.Close()
	cluster.AppendBatch("orders", 0, batch.V2{CRC: new(uint32(0)), Records: []batch.Record{{Value: []byte("bad")}}})
	cluster.ProduceValues("orders", 0, "pears")
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	orders := kafka.TopicPartition{Topic: "orders"}
	check(c.Assign(orders))

	for n := 0; n < 2; {
		records, err := c.Poll(ctx, time.Second)
		if corrupt, ok := errors.AsType[*kafka.CorruptRecordError](err); ok {
			next, _ := corrupt.NextOffset()
			fmt.Printf("skipping offsets %d to %d\n", corrupt.BatchOffset, next-1)
			check(c.Seek(orders, next))
			continue
		}
		check(err)
		for r := range records.All() {
			fmt.Println(r.Offset, string(r.Value))
			n++
		}
	}
	// Output:
	// 0 apples
	// skipping offsets 1 to 1
	// 2 pears
}

// Close may be called from anywhere; a Poll that waits returns ErrClosed.
func ExampleConsumer_Close() {
	cluster, cfg := startCluster()
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	check(c.Subscribe([]string{"orders"}))

	time.AfterFunc(10*time.Millisecond, func() { _ = c.Close(ctx) })
	_, err := c.Poll(ctx, -1)
	fmt.Println(errors.Is(err, kafka.ErrClosed))
	// Output: true
}

// A context ends a wait without losing anything.
func ExampleConsumer_Poll_cancel() {
	cluster, cfg := startCluster()
	defer cluster.Close()
	c := must(kafka.NewConsumer(ctx, cfg))
	defer c.Close(ctx)
	check(c.Subscribe([]string{"orders"}))

	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err := c.Poll(short, -1)
	fmt.Println(err)

	cluster.ProduceValues("orders", 0, "apples")
	fmt.Println(string(must(c.Poll(ctx, -1)).At(0).Value))
	// Output:
	// context deadline exceeded
	// apples
}

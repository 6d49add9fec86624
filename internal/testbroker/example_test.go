package testbroker_test

import (
	"context"
	"fmt"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
)

func Example() {
	c := testbroker.New(nil, testbroker.WithNodes(2))
	defer c.Close()
	c.CreateTopic("orders", 2)
	c.ProduceValues("orders", 1, "first", "second")

	conn, err := c.Dial(context.Background(), "tcp", c.Addrs()[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	leader, _ := c.Leader("orders", 1)
	fmt.Println(c.Addrs(), leader, c.EndOffset("orders", 1))
	// Output: [node1.test:9092 node2.test:9092] 2 2
}

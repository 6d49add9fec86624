package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/signal"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/assignors"
	"github.com/stretchr/testify/require"
)

// The bodies of these functions are the programs of the porting guides, so that they
// compile; TestProgramsOfTheGuidesCompile compares them.

type bill struct{ Total int }

func charge(any) {}

func save(kafka.TopicPartition, int64) error { return nil }

func load(kafka.TopicPartition) (int64, error) { return 0, nil }

var (
	_ = programIterate
	_ = programCommit
	_ = programPattern
	_ = programAssign
	_ = programListener
	_ = programTimeouts
	_ = programStop
	_ = programEnd
	_ = programPause
	_ = programProperties
	_ = programCooperative
	_ = programLogin
)

func programIterate(ctx context.Context) error {
	c, err := kafka.NewConsumer(ctx, kafka.Config{
		BootstrapServers: []string{"localhost:9092"}, GroupID: "billing", Topics: []string{"orders"},
	})
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	for o, err := range kafka.Typed(c, kafka.String, kafka.JSON[bill]()).Records(ctx) {
		if err != nil {
			return err
		}
		charge(o.Value.Total)
	}
	return nil
}

func programCommit(ctx context.Context) error {
	c, err := kafka.NewConsumer(ctx, kafka.Config{
		BootstrapServers: []string{"localhost:9092"}, GroupID: "billing", Topics: []string{"orders"}, DisableAutoCommit: true,
	})
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	for {
		records, err := c.Poll(ctx, time.Second)
		if err != nil {
			return err
		}
		for r := range records.All() {
			charge(r.Value)
		}
		if err := c.Commit(ctx); err != nil {
			return err
		}
	}
}

func programPattern(ctx context.Context, c *kafka.Consumer) error {
	if err := c.SubscribePattern(regexp.MustCompile(`orders\..*`)); err != nil {
		return err
	}
	return nil
}

func programAssign(ctx context.Context) error {
	c, err := kafka.NewConsumer(ctx, kafka.Config{BootstrapServers: []string{"localhost:9092"}})
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	tp := kafka.TopicPartition{Topic: "orders", Partition: 0}
	if err := c.Assign(tp); err != nil {
		return err
	}
	if err := c.Seek(tp, 42); err != nil { // or SeekToBeginning(tp), SeekToEnd(tp)
		return err
	}
	if err := c.SeekToTime(ctx, time.Now().Add(-time.Hour), tp); err != nil {
		return err
	}
	return nil
}

func programListener(c *kafka.Consumer) error {
	listener := kafka.RebalanceListener{
		OnRevoked: func(ctx context.Context, c *kafka.Consumer, tps []kafka.TopicPartition) error {
			for _, tp := range tps {
				at, err := c.Position(ctx, tp)
				if err != nil {
					return err
				}
				if err := save(tp, at); err != nil {
					return err
				}
			}
			return nil
		},
		OnAssigned: func(ctx context.Context, c *kafka.Consumer, tps []kafka.TopicPartition) error {
			for _, tp := range tps {
				at, err := load(tp)
				if err != nil {
					return err
				}
				if err := c.Seek(tp, at); err != nil {
					return err
				}
			}
			return nil
		},
		OnLost: func(_ context.Context, _ *kafka.Consumer, tps []kafka.TopicPartition) error {
			log.Print("others own these now: ", tps)
			return nil
		},
	}
	return c.Subscribe([]string{"orders"}, kafka.WithRebalanceListener(listener))
}

func programTimeouts(ctx context.Context, c *kafka.Consumer, tp kafka.TopicPartition) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	offsets, err := c.EndOffsets(ctx, tp)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the brokers are slow today: %w", err) // the error says what was waited for
	}
	if err != nil {
		return err
	}
	fmt.Println(offsets[tp])
	return nil
}

func programStop(c *kafka.Consumer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for {
		records, err := c.Poll(ctx, time.Second)
		if ctx.Err() != nil {
			return c.Close(context.Background()) // what was worked off is committed
		}
		if err != nil {
			return err
		}
		for r := range records.All() {
			charge(r.Value)
		}
	}
}

func programEnd(ctx context.Context, c *kafka.Consumer) error {
	for r, err := range c.RecordsUntilEnd(ctx) {
		if err != nil {
			return err
		}
		fmt.Println(r.Offset, string(r.Value))
	}
	return nil
}

func programPause(ctx context.Context, c *kafka.Consumer, work <-chan struct{}) error {
	if err := c.Pause(c.Assignment()...); err != nil {
		return err
	}
	for busy := true; busy; {
		if _, err := c.Poll(ctx, time.Second); err != nil { // keeps the membership
			return err
		}
		select {
		case <-work:
			busy = false
		default:
		}
	}
	return c.Resume(c.Paused()...)
}

func programProperties(ctx context.Context) error {
	file, err := os.Open("consumer.properties")
	if err != nil {
		return err
	}
	defer file.Close()
	cfg, err := kafka.ConfigFromProperties(file)
	if err != nil {
		return err
	}
	cfg.Topics = []string{"orders"}
	c, err := kafka.NewConsumer(ctx, cfg)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

func programCooperative() {
	cfg := kafka.Config{
		PartitionAssignmentStrategy: []assignors.Assignor{assignors.Range{}, assignors.CooperativeSticky{}}, // as Java's default
		SessionTimeout:              45 * time.Second,
		AllowAutoCreateTopics:       true,
	}
	_ = cfg
}

func programLogin() {
	cfg := kafka.Config{
		SecurityProtocol: kafka.SecuritySASLSSL,
		SSLCAFile:        "ca.pem",
		SASLMechanism:    "SCRAM-SHA-512",
		SASLUsername:     "billing",
		SASLPassword:     os.Getenv("KAFKA_PASSWORD"),
	}
	_ = cfg
}

func TestGuidesNameEveryMethod(t *testing.T) {
	for _, path := range []string{"docs/porting-from-kafka-python.md", "docs/porting-from-java.md"} {
		doc, err := os.ReadFile(path)
		require.NoError(t, err)
		for m := range reflect.TypeFor[*kafka.Consumer]().Methods() {
			switch m.Name {
			case "String", "GoString", "Format", "LogValue":
				continue
			}
			require.Regexp(t, `\b`+m.Name+`\b`, string(doc), "%s does not name %s", path, m.Name)
		}
	}
}

// Each Go program of the guides is the body of a function above.
func TestProgramsOfTheGuidesCompile(t *testing.T) {
	data, err := os.ReadFile("porting_test.go")
	require.NoError(t, err)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "porting_test.go", data, parser.ParseComments)
	require.NoError(t, err)
	bodies := ""
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "program") {
			body := data[fset.Position(fn.Body.Lbrace).Offset+1 : fset.Position(fn.Body.Rbrace).Offset]
			bodies += strings.ReplaceAll(string(body), "\n\t", "\n") + "\n"
		}
	}
	for _, path := range []string{"docs/porting-from-kafka-python.md", "docs/porting-from-java.md"} {
		doc, err := os.ReadFile(path)
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(doc, -1)
		require.GreaterOrEqual(t, len(blocks), 8, path)
		for _, m := range blocks {
			require.True(t, strings.Contains(bodies, "\n"+string(m[1])), "%s: no function in porting_test.go has\n%s", path, m[1])
			formatted, err := format.Source(m[1])
			require.NoError(t, err)
			require.True(t, bytes.Equal(formatted, m[1]), "%s: gofmt would change\n%s", path, m[1])
		}
	}
}

// Command quickstart reads a topic of orders as a group of two members, of which
// one leaves half-way. Without flags it needs no Kafka: a broker runs inside the
// program, with a few thousand orders. With flags it reads a real cluster:
//
//	go run ./quickstart
//	go run ./quickstart -brokers localhost:9092 -topic orders -group billing
//
// It ends when everything that was there at its start is read, or on Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/examples/internal/inprocess"
)

type options struct {
	brokers string
	topic   string
	group   string
	work    time.Duration
}

// An order is the value of a record, in JSON.
type order struct {
	Customer string
	Item     string
	Cents    int
}

func main() {
	var o options
	flag.StringVar(&o.brokers, "brokers", "", "`host:port` of a broker, or several with commas; empty: one inside this program")
	flag.StringVar(&o.topic, "topic", "orders", "`topic` to read")
	flag.StringVar(&o.group, "group", "billing", "consumer `group`")
	flag.DurationVar(&o.work, "work", 500*time.Microsecond, "`time` that the work on one order takes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	if o.brokers == "" {
		address, stop, err := inprocess.Start(ctx, o.topic)
		if err != nil {
			return err
		}
		defer stop()
		o.brokers = address
		fmt.Fprintf(out, "A broker inside this program has %d orders.\n", inprocess.Orders)
	}
	say := newPrinter(out)
	ann, err := newMember(ctx, "ann", o, say)
	if err != nil {
		return err
	}
	defer ann.leave()
	bob, err := newMember(ctx, "bob", o, say)
	if err != nil {
		return err
	}
	defer bob.leave()
	p, err := newProgress(ctx, ann.consumer, o.topic)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Topic %s at %s has %d partitions. Group %s reads it.\n\n", o.topic, o.brokers, len(p.partitions), o.group)
	err = readInTurns(ctx, p, say, ann, bob)
	interrupted := ctx.Err() != nil
	ann.stop()
	bob.stop()
	if interrupted {
		say.line("interrupted")
		err = nil
	} else {
		err = errors.Join(err, ann.err, bob.err)
	}
	standing, lookupErr := p.lookUp()
	bob.leave()
	ann.leave()
	if lookupErr == nil {
		report(out, p, standing, ann, bob)
	}
	return errors.Join(err, lookupErr)
}

// readInTurns has ann read alone, then with bob, then alone again.
func readInTurns(ctx context.Context, p *progress, say *printer, ann, bob *member) error {
	say.line("ann joins")
	ann.start(ctx)
	if err := p.await(ctx, 0.1, ann); err != nil {
		return err
	}
	say.line("bob joins")
	bob.start(ctx)
	if err := p.await(ctx, 0.7, ann, bob); err != nil {
		return err
	}
	say.line("bob leaves")
	bob.leave()
	return p.await(ctx, 1, ann)
}

// A member reads the topic as one of the group.
type member struct {
	name     string
	work     time.Duration
	consumer *kafka.Consumer

	cancel  context.CancelFunc
	stopped chan struct{} // closed when the member reads no more

	// Valid once stopped is closed.
	read    map[int32]int // orders of each partition
	cents   int
	skipped int // records that are no orders
	err     error
}

func newMember(ctx context.Context, name string, o options, say *printer) (*member, error) {
	consumer, err := kafka.NewConsumer(ctx, kafka.Config{
		BootstrapServers:  strings.Split(o.brokers, ","),
		ClientID:          name,
		GroupID:           o.group,
		Topics:            []string{o.topic},
		AutoOffsetReset:   kafka.ResetEarliest,
		DisableAutoCommit: true, // readAll commits
		MaxPollRecords:    100,
		HeartbeatInterval: 200 * time.Millisecond, // how soon a member hears that another came or went
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		RebalanceListener: kafka.RebalanceListener{
			OnAssigned: say.partitions(name, "gets"),
			OnRevoked:  say.partitions(name, "gives up"),
			OnLost:     say.partitions(name, "has lost"),
		},
	})
	if err != nil {
		return nil, err
	}
	return &member{name: name, work: o.work, consumer: consumer, read: make(map[int32]int)}, nil
}

func (m *member) start(ctx context.Context) {
	ctx, m.cancel = context.WithCancel(ctx)
	m.stopped = make(chan struct{})
	go func() {
		defer close(m.stopped)
		if err := m.readAll(ctx); ctx.Err() == nil {
			m.err = err
		}
	}()
}

// readAll reads until ctx ends.
func (m *member) readAll(ctx context.Context) error {
	orders := kafka.Typed(m.consumer, kafka.String, kafka.JSON[order]())
	for {
		records, err := orders.Poll(ctx, 100*time.Millisecond)
		if _, ok := errors.AsType[*kafka.DeserializationError](err); ok {
			m.skipped++
			continue
		}
		if err != nil {
			return err
		}
		for r := range records.All() {
			m.read[r.Partition]++
			m.cents += r.Value.Cents
		}
		time.Sleep(time.Duration(records.Len()) * m.work)
		if err := m.commit(ctx); err != nil {
			return err
		}
	}
}

// commit commits what is worked off, also when ctx has ended meanwhile: the member
// that reads on does not repeat it then.
func (m *member) commit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return m.consumer.Commit(ctx)
}

// stop ends reading. The member stays in its group.
func (m *member) stop() {
	if m.stopped != nil {
		m.cancel()
		<-m.stopped
	}
}

// leave ends reading and leaves the group, within some seconds. It may be called
// again.
func (m *member) leave() {
	m.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = m.consumer.Close(ctx)
}

// A printer prints what happens, with the time since the start.
type printer struct {
	began time.Time
	mu    sync.Mutex
	out   io.Writer
}

func newPrinter(out io.Writer) *printer { return &printer{began: time.Now(), out: out} }

func (p *printer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%5.1fs  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}

// partitions returns a rebalance callback that prints its partitions.
func (p *printer) partitions(name, verb string) func(context.Context, *kafka.Consumer, []kafka.TopicPartition) error {
	return func(_ context.Context, _ *kafka.Consumer, tps []kafka.TopicPartition) error {
		numbers := make([]string, len(tps))
		for i, tp := range tps {
			numbers[i] = fmt.Sprint(tp.Partition)
		}
		if len(tps) == 0 {
			numbers = []string{"nothing"}
		}
		p.line("%s %-8s %s", name, verb, strings.Join(numbers, " "))
		return nil
	}
}

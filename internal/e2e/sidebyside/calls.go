//go:build unix

package sidebyside

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka"
)

// A session is this library's side of a script.
type session struct {
	t         *testing.T
	bootstrap []string
	prefix    string
	consumers map[string]*kafka.Consumer

	mu     sync.Mutex
	events []string // what listeners were told since the last step
}

func newSession(t *testing.T, bootstrap []string, prefix string) *session {
	s := &session{t: t, bootstrap: bootstrap, prefix: prefix, consumers: map[string]*kafka.Consumer{}}
	t.Cleanup(func() {
		for _, c := range s.consumers {
			_ = c.CloseWithoutCommit(context.Background())
		}
	})
	return s
}

// A call is what a step does with a consumer; it tells what was observed.
type call func(s *session, ctx context.Context, c *kafka.Consumer, plain []string, options map[string]string) ([]string, error)

// calls are the calls of a consumer. Those that change something observe "done".
var calls = map[string]call{
	"subscribe": (*session).subscribe,
	"pattern":   (*session).pattern,
	"assign":    changing(func(_ context.Context, c *kafka.Consumer, tps []kafka.TopicPartition) error { return c.Assign(tps...) }),
	"unsubscribe": changing(func(ctx context.Context, c *kafka.Consumer, _ []kafka.TopicPartition) error {
		return c.Unsubscribe(ctx)
	}),
	"pause":  changing(func(_ context.Context, c *kafka.Consumer, tps []kafka.TopicPartition) error { return c.Pause(tps...) }),
	"resume": changing(func(_ context.Context, c *kafka.Consumer, tps []kafka.TopicPartition) error { return c.Resume(tps...) }),
	"seek-beginning": changing(func(_ context.Context, c *kafka.Consumer, tps []kafka.TopicPartition) error {
		return c.SeekToBeginning(tps...)
	}),
	"seek-end": changing(func(_ context.Context, c *kafka.Consumer, tps []kafka.TopicPartition) error {
		return c.SeekToEnd(tps...)
	}),
	"seek":                (*session).seek,
	"assignment":          telling(func(s *session, c *kafka.Consumer) string { return s.list("assignment", c.Assignment()) }),
	"paused":              telling(func(s *session, c *kafka.Consumer) string { return s.list("paused", c.Paused()) }),
	"subscription":        telling((*session).subscription),
	"group-metadata":      (*session).groupMetadata,
	"bootstrap-connected": telling(func(_ *session, c *kafka.Consumer) string { return fmt.Sprint("connected ", c.BootstrapConnected()) }),
	"position":            (*session).position,
	"highwater":           (*session).highwater,
	"beginning":           (*session).beginning,
	"end":                 (*session).end,
	"times":               (*session).times,
	"partitions":          (*session).partitions,
	"topics":              (*session).topics,
	"committed":           (*session).committed,
	"commit":              (*session).commit,
	"commit-async":        (*session).commitAsync,
	"poll":                (*session).poll,
	"poll-once":           (*session).pollOnce,
	"sizes":               (*session).sizes,
	"quiet":               (*session).quiet,
	"until-assigned":      (*session).untilAssigned,
	"until-position":      until((*session).position),
	"until-highwater":     until((*session).highwater),
	"until-committed":     until((*session).committed),
	"until-error":         (*session).untilError,
	"iterate":             (*session).iterate,
	"close":               (*session).close,
}

// do carries out a step and tells what was observed.
func (s *session) do(words []string) []string {
	plain, options := split(words[2:])
	within := 50 * time.Second
	if ms, ok := options["within"]; ok {
		within = time.Duration(integer(s.t, ms)) * time.Millisecond
		delete(options, "within")
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var lines []string
	var err error
	if words[1] == "new" {
		err = s.open(ctx, words[0], plain, options)
	} else if fn := calls[words[1]]; fn != nil {
		lines, err = fn(s, ctx, s.consumers[words[0]], plain, options)
	} else {
		s.t.Fatalf("no call is called %q", words[1])
	}
	switch {
	case err != nil:
		lines = append(lines, "error "+nameOf(err))
		s.t.Logf("%s: %v", strings.Join(words, " "), err)
	case lines == nil:
		lines = []string{"done"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lines = append(lines, s.events...)
	s.events = nil
	return lines
}

// open makes a consumer of kafka-python's parameters, which are Java's keys with other
// signs between the words.
func (s *session) open(ctx context.Context, name string, topics []string, options map[string]string) error {
	properties := map[string]string{"bootstrap.servers": strings.Join(s.bootstrap, ",")}
	var timeout time.Duration
	for key, value := range options {
		switch key {
		case "consumer_timeout_ms":
			ms, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			timeout = time.Duration(ms) * time.Millisecond
			continue
		case "group_id":
			value = s.prefix + value
		}
		properties[strings.ReplaceAll(key, "_", ".")] = value
	}
	cfg, err := kafka.ConfigFromMap(properties)
	if err != nil {
		return err
	}
	cfg.ConsumerTimeout = timeout
	cfg.Logger = slog.New(slog.NewTextHandler(s.t.Output(), nil))
	for _, topic := range topics {
		cfg.Topics = append(cfg.Topics, s.prefix+topic)
	}
	c, err := kafka.NewConsumer(ctx, cfg)
	if err == nil {
		s.consumers[name] = c
	}
	return err
}

// changing makes a call of a function about partitions.
func changing(fn func(ctx context.Context, c *kafka.Consumer, tps []kafka.TopicPartition) error) call {
	return func(s *session, ctx context.Context, c *kafka.Consumer, plain []string, _ map[string]string) ([]string, error) {
		return nil, fn(ctx, c, s.places(plain))
	}
}

// telling makes a call of a function that cannot fail.
func telling(fn func(s *session, c *kafka.Consumer) string) call {
	return func(s *session, _ context.Context, c *kafka.Consumer, _ []string, _ map[string]string) ([]string, error) {
		return []string{fn(s, c)}, nil
	}
}

func (s *session) subscribe(_ context.Context, c *kafka.Consumer, plain []string, options map[string]string) ([]string, error) {
	topics := make([]string, len(plain))
	for i, name := range plain {
		topics[i] = s.prefix + name
	}
	var listener kafka.RebalanceListener
	if name := options["listener"]; name != "" {
		listener.OnRevoked = s.hear(name + " revoked")
		listener.OnAssigned = s.hear(name + " assigned")
	}
	return nil, c.Subscribe(topics, kafka.WithRebalanceListener(listener))
}

func (s *session) hear(what string) func(context.Context, *kafka.Consumer, []kafka.TopicPartition) error {
	return func(_ context.Context, _ *kafka.Consumer, tps []kafka.TopicPartition) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, s.list(what, tps))
		return nil
	}
}

func (s *session) pattern(_ context.Context, c *kafka.Consumer, plain []string, _ map[string]string) ([]string, error) {
	return nil, c.SubscribePattern(regexp.MustCompile("^" + s.prefix + plain[0]))
}

func (s *session) seek(_ context.Context, c *kafka.Consumer, plain []string, _ map[string]string) ([]string, error) {
	return nil, c.Seek(s.place(plain[0]), integer(s.t, plain[1]))
}

func (s *session) subscription(c *kafka.Consumer) string {
	words := []string{"subscription"}
	for _, topic := range c.Subscription() {
		words = append(words, s.short(topic))
	}
	return strings.Join(words, " ")
}

func (s *session) groupMetadata(_ context.Context, c *kafka.Consumer, _ []string, _ map[string]string) ([]string, error) {
	m, err := c.GroupMetadata()
	if err != nil {
		return nil, err
	}
	yes := map[bool]string{true: "yes", false: "no"}
	return []string{fmt.Sprintf("group %s member %s generation %s instance %s",
		s.short(m.GroupID), yes[m.MemberID != ""], yes[m.GenerationID > 0], cmp.Or(m.GroupInstanceID, "none"))}, nil
}

func (s *session) close(ctx context.Context, c *kafka.Consumer, _ []string, options map[string]string) ([]string, error) {
	if options["autocommit"] == "false" {
		return nil, c.CloseWithoutCommit(ctx)
	}
	return nil, c.Close(ctx)
}

// Names of topics have the session's prefix on the broker, and not in what is observed.

func (s *session) short(topic string) string { return strings.TrimPrefix(topic, s.prefix) }

func (s *session) of(tp kafka.TopicPartition) string {
	return fmt.Sprintf("%s/%d", s.short(tp.Topic), tp.Partition)
}

func (s *session) place(word string) kafka.TopicPartition {
	tp := place(s.t, s.prefix, word)
	return kafka.TopicPartition{Topic: tp.Topic, Partition: tp.Partition}
}

func (s *session) places(words []string) []kafka.TopicPartition {
	tps := make([]kafka.TopicPartition, len(words))
	for i, w := range words {
		tps[i] = s.place(w)
	}
	return tps
}

func (s *session) list(what string, tps []kafka.TopicPartition) string {
	words := []string{what}
	for _, tp := range sorted(slices.Values(tps)) {
		words = append(words, s.of(tp))
	}
	return strings.Join(words, " ")
}

func sortedKeys[V any](m map[kafka.TopicPartition]V) []kafka.TopicPartition {
	return sorted(maps.Keys(m))
}

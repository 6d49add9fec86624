//go:build unix

package sidebyside

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka"
)

func (s *session) position(ctx context.Context, c *kafka.Consumer, plain []string, _ map[string]string) (lines []string, err error) {
	for _, w := range plain {
		o, err := c.Position(ctx, s.place(w))
		if err != nil {
			return lines, err
		}
		lines = append(lines, fmt.Sprintf("position %s %d", w, o))
	}
	return lines, nil
}

func (s *session) highwater(_ context.Context, c *kafka.Consumer, plain []string, _ map[string]string) (lines []string, err error) {
	for _, w := range plain {
		if o, known := c.Highwater(s.place(w)); known {
			lines = append(lines, fmt.Sprintf("highwater %s %d", w, o))
		} else {
			lines = append(lines, fmt.Sprintf("highwater %s None", w))
		}
	}
	return lines, nil
}

func (s *session) beginning(ctx context.Context, c *kafka.Consumer, plain []string, _ map[string]string) ([]string, error) {
	return s.offsets(ctx, "beginning", c.BeginningOffsets, plain)
}

func (s *session) end(ctx context.Context, c *kafka.Consumer, plain []string, _ map[string]string) ([]string, error) {
	return s.offsets(ctx, "end", c.EndOffsets, plain)
}

func (s *session) offsets(ctx context.Context, what string, ask func(context.Context, ...kafka.TopicPartition) (map[kafka.TopicPartition]int64, error), plain []string) (lines []string, err error) {
	found, err := ask(ctx, s.places(plain)...)
	if err != nil {
		return nil, err
	}
	for _, tp := range sortedKeys(found) {
		lines = append(lines, fmt.Sprintf("%s %s %d", what, s.of(tp), found[tp]))
	}
	return lines, nil
}

func (s *session) times(ctx context.Context, c *kafka.Consumer, _ []string, options map[string]string) (lines []string, err error) {
	asked := map[kafka.TopicPartition]time.Time{}
	for w, ms := range options {
		asked[s.place(w)] = time.UnixMilli(integer(s.t, ms))
	}
	found, err := c.OffsetsForTimes(ctx, asked)
	if err != nil {
		return nil, err
	}
	for _, tp := range sortedKeys(asked) {
		if o, ok := found[tp]; ok {
			lines = append(lines, fmt.Sprintf("time %s %d at %d", s.of(tp), o.Offset, o.Timestamp.UnixMilli()))
		} else {
			lines = append(lines, fmt.Sprintf("time %s none", s.of(tp)))
		}
	}
	return lines, nil
}

func (s *session) partitions(ctx context.Context, c *kafka.Consumer, plain []string, _ map[string]string) (lines []string, err error) {
	for _, topic := range plain {
		numbers, err := c.PartitionsForTopic(ctx, s.prefix+topic)
		if err != nil {
			return lines, err
		}
		words := []string{"partitions", topic}
		for _, n := range numbers {
			words = append(words, fmt.Sprint(n))
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines, nil
}

func (s *session) topics(ctx context.Context, c *kafka.Consumer, _ []string, _ map[string]string) ([]string, error) {
	names, err := c.Topics(ctx)
	if err != nil {
		return nil, err
	}
	words := []string{"topics"}
	for _, name := range names {
		if short, ok := strings.CutPrefix(name, s.prefix); ok {
			words = append(words, short)
		}
	}
	return []string{strings.Join(words, " ")}, nil
}

func (s *session) committed(ctx context.Context, c *kafka.Consumer, plain []string, _ map[string]string) (lines []string, err error) {
	found, err := c.Committed(ctx, s.places(plain)...)
	if err != nil {
		return nil, err
	}
	for _, w := range plain {
		if o, ok := found[s.place(w)]; ok {
			lines = append(lines, fmt.Sprintf("committed %s %d %s", w, o.Offset, shown([]byte(o.Metadata))))
		} else {
			lines = append(lines, fmt.Sprintf("committed %s none", w))
		}
	}
	return lines, nil
}

// toCommit gives the offsets that a step names, nil for the positions.
func (s *session) toCommit(options map[string]string) map[kafka.TopicPartition]kafka.OffsetAndMetadata {
	var offsets map[kafka.TopicPartition]kafka.OffsetAndMetadata
	for w, value := range options {
		if offsets == nil {
			offsets = map[kafka.TopicPartition]kafka.OffsetAndMetadata{}
		}
		offset, metadata, _ := strings.Cut(value, ":")
		offsets[s.place(w)] = kafka.OffsetAndMetadata{Offset: integer(s.t, offset), Metadata: metadata}
	}
	return offsets
}

func (s *session) commit(ctx context.Context, c *kafka.Consumer, _ []string, options map[string]string) ([]string, error) {
	if offsets := s.toCommit(options); offsets != nil {
		return nil, c.CommitOffsets(ctx, offsets)
	}
	return nil, c.Commit(ctx)
}

func (s *session) commitAsync(ctx context.Context, c *kafka.Consumer, _ []string, options map[string]string) ([]string, error) {
	told := make(chan string, 1)
	err := c.CommitAsync(s.toCommit(options), func(_ context.Context, offsets map[kafka.TopicPartition]kafka.OffsetAndMetadata, err error) {
		words := []string{"callback"}
		for _, tp := range sortedKeys(offsets) {
			words = append(words, fmt.Sprintf("%s=%d", s.of(tp), offsets[tp].Offset))
		}
		result := "done"
		if err != nil {
			result = "error " + nameOf(err)
		}
		told <- strings.Join(append(words, result), " ")
	})
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		select {
		case line := <-told:
			return []string{line}, nil
		default:
		}
		if _, err := c.Poll(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return []string{"no callback"}, nil
}

func sorted(tps iter.Seq[kafka.TopicPartition]) []kafka.TopicPartition {
	return slices.SortedFunc(tps, func(a, b kafka.TopicPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

//go:build unix

package sidebyside

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/protocol"
)

// patience is how long a call polls for what is to come: long enough for a busy machine, and
// less than a call may take.
const patience = 40 * time.Second

// gather polls until enough says so, or until the time is over, and gives the records and
// how many each Poll returned. An error ends it.
func (s *session) gather(ctx context.Context, c *kafka.Consumer, options map[string]string, enough func([]kafka.Record) bool) (records []kafka.Record, sizes []string, err error) {
	limit := patience
	if ms := options["ms"]; ms != "" {
		limit = time.Duration(integer(s.t, ms)) * time.Millisecond
	}
	for end := time.Now().Add(limit); !enough(records) && time.Now().Before(end); {
		got, err := s.pollUpTo(ctx, c, 50*time.Millisecond, options)
		if err != nil {
			return records, sizes, err
		}
		records = slices.AppendSeq(records, got.All())
		if n := got.Len(); n > 0 {
			sizes = append(sizes, fmt.Sprint(n))
		}
	}
	return records, sizes, nil
}

func (s *session) pollUpTo(ctx context.Context, c *kafka.Consumer, timeout time.Duration, options map[string]string) (*kafka.Records, error) {
	if limit := options["max"]; limit != "" {
		return c.PollMax(ctx, timeout, int(integer(s.t, limit)))
	}
	return c.Poll(ctx, timeout)
}

func (s *session) poll(ctx context.Context, c *kafka.Consumer, plain []string, options map[string]string) ([]string, error) {
	n := int(integer(s.t, plain[0]))
	records, _, err := s.gather(ctx, c, options, func(got []kafka.Record) bool { return len(got) >= n })
	return s.listed(records), err
}

func (s *session) pollOnce(ctx context.Context, c *kafka.Consumer, _ []string, options map[string]string) ([]string, error) {
	timeout := time.Duration(integer(s.t, cmp.Or(options["ms"], "0"))) * time.Millisecond
	got, err := s.pollUpTo(ctx, c, timeout, options)
	if err != nil {
		return nil, err
	}
	return s.listed(slices.Collect(got.All())), nil
}

func (s *session) sizes(ctx context.Context, c *kafka.Consumer, plain []string, options map[string]string) ([]string, error) {
	n := int(integer(s.t, plain[0]))
	_, sizes, err := s.gather(ctx, c, options, func(got []kafka.Record) bool { return len(got) >= n })
	return []string{strings.Join(append([]string{"sizes"}, sizes...), " ")}, err
}

func never([]kafka.Record) bool { return false }

func (s *session) quiet(ctx context.Context, c *kafka.Consumer, plain []string, _ map[string]string) ([]string, error) {
	records, _, err := s.gather(ctx, c, map[string]string{"ms": plain[0]}, never)
	return s.listed(records), err
}

func (s *session) untilError(ctx context.Context, c *kafka.Consumer, _ []string, options map[string]string) ([]string, error) {
	records, _, err := s.gather(ctx, c, options, never)
	return s.listed(records), err
}

func (s *session) untilAssigned(ctx context.Context, c *kafka.Consumer, plain []string, options map[string]string) ([]string, error) {
	want := sorted(slices.Values(s.places(plain)))
	records, _, err := s.gather(ctx, c, options, func([]kafka.Record) bool {
		now := c.Assignment()
		return slices.Equal(now, want) && len(want) > 0 || len(want) == 0 && len(now) > 0
	})
	if place, offset, ok := strings.Cut(options["then"], "@"); ok && err == nil {
		var more []kafka.Record
		more, _, err = s.gather(ctx, c, options, func([]kafka.Record) bool { return s.tells((*session).position, ctx, c, place, offset) })
		records = append(records, more...)
	}
	return s.withRecords([]string{s.list("assignment", c.Assignment())}, records), err
}

// until makes a call that polls until what tell observes of a partition has a value.
func until(tell call) call {
	return func(s *session, ctx context.Context, c *kafka.Consumer, plain []string, options map[string]string) ([]string, error) {
		records, _, err := s.gather(ctx, c, options, func([]kafka.Record) bool { return s.tells(tell, ctx, c, plain[0], plain[1]) })
		if err != nil {
			return s.listed(records), err
		}
		lines, err := tell(s, ctx, c, plain[:1], nil)
		return s.withRecords(lines, records), err
	}
}

// tells is whether the line of a partition, "committed t/0 5 …", has this value.
func (s *session) tells(tell call, ctx context.Context, c *kafka.Consumer, place, value string) bool {
	lines, err := tell(s, ctx, c, []string{place}, nil)
	return err == nil && strings.Fields(lines[0])[2] == value
}

// withRecords adds records to what was observed, if there are any.
func (s *session) withRecords(lines []string, records []kafka.Record) []string {
	if len(records) == 0 {
		return lines
	}
	return append(lines, s.listed(records)...)
}

func (s *session) iterate(ctx context.Context, c *kafka.Consumer, plain []string, _ map[string]string) ([]string, error) {
	n := int(integer(s.t, plain[0]))
	var records []kafka.Record
	for r, err := range c.Records(ctx) {
		if err != nil {
			return s.listed(records), err
		}
		if n == 0 {
			return []string{"not ended"}, nil
		}
		if records = append(records, r); len(records) == n {
			return s.listed(records), nil
		}
	}
	if n == 0 {
		return []string{"ended"}, nil
	}
	return append(s.listed(records), "ended"), nil
}

// listed tells of records, in the order of their places.
func (s *session) listed(records []kafka.Record) []string {
	slices.SortStableFunc(records, func(a, b kafka.Record) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	lines := []string{fmt.Sprintf("%d records", len(records))}
	for i := range records {
		lines = append(lines, s.record(&records[i]))
	}
	return lines
}

func (s *session) record(r *kafka.Record) string {
	kind := map[kafka.TimestampType]string{kafka.CreateTime: "create", kafka.LogAppendTime: "append"}[r.TimestampType()]
	var headers []string
	for h := range r.Headers() {
		headers = append(headers, h.Key+"="+shown(h.Value))
	}
	epoch := "None"
	if e, known := r.LeaderEpoch(); known {
		epoch = fmt.Sprint(e)
	}
	return fmt.Sprintf("%s@%d key %s value %s time %d %s headers [%s] sizes %d %d %d epoch %s", s.of(r.TopicPartition()), r.Offset,
		shown(r.Key), shown(r.Value), r.Timestamp().UnixMilli(), kind, strings.Join(headers, " "),
		r.SerializedKeySize(), r.SerializedValueSize(), r.SerializedHeaderSize(), epoch)
}

// shown makes bytes readable.
func shown(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case slices.ContainsFunc(b, func(c byte) bool { return c < 0x20 || c > 0x7e }):
		return "x" + hex.EncodeToString(b)
	default:
		return "'" + string(b) + "'"
	}
}

// nameOf puts an error in the words that both clients' errors are put in.
func nameOf(err error) string {
	for _, sentinel := range []struct {
		err  error
		name string
	}{
		{kafka.ErrClosed, "closed"}, {kafka.ErrNoGroup, "no-group"}, {kafka.ErrNotAssigned, "not-assigned"},
		{kafka.ErrNotSubscribed, "not-subscribed"}, {kafka.ErrSubscriptionConflict, "conflict"},
		{protocol.UnknownTopicOrPartition, "unknown-topic"}, {protocol.InvalidTopicException, "invalid-topic"},
		{protocol.OffsetMetadataTooLarge, "metadata-too-large"}, {protocol.InvalidGroupID, "invalid-group"},
	} {
		if errors.Is(err, sentinel.err) {
			return sentinel.name
		}
	}
	for name, is := range map[string]func() bool{
		"no-offset":     func() bool { _, ok := errors.AsType[*kafka.NoOffsetForPartitionError](err); return ok },
		"out-of-range":  func() bool { _, ok := errors.AsType[*kafka.OffsetOutOfRangeError](err); return ok },
		"commit-failed": func() bool { _, ok := errors.AsType[*kafka.CommitFailedError](err); return ok },
		"argument":      func() bool { _, ok := errors.AsType[*kafka.ArgumentError](err); return ok },
		"config":        func() bool { _, ok := errors.AsType[*kafka.ConfigError](err); return ok },
	} {
		if is() {
			return name
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	return fmt.Sprintf("%T", err)
}

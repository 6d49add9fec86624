package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kafkaconsumer/kafka"
	"github.com/kafkaconsumer/kafka/protocol"
)

// A progress tells how much of what was in the topic at the start is read.
type progress struct {
	consumer   *kafka.Consumer
	partitions []kafka.TopicPartition
	first, end map[kafka.TopicPartition]int64 // where reading starts and ends
}

func newProgress(ctx context.Context, c *kafka.Consumer, topic string) (*progress, error) {
	numbers, err := c.PartitionsForTopic(ctx, topic)
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("there is no topic %q", topic)
	}
	p := &progress{consumer: c}
	for _, n := range numbers {
		p.partitions = append(p.partitions, kafka.TopicPartition{Topic: topic, Partition: n})
	}
	if p.first, err = c.BeginningOffsets(ctx, p.partitions...); err != nil {
		return nil, err
	}
	if p.end, err = c.EndOffsets(ctx, p.partitions...); err != nil {
		return nil, err
	}
	committed, err := p.committed(ctx)
	if err != nil {
		return nil, err
	}
	for tp, o := range committed {
		p.first[tp] = max(p.first[tp], o.Offset)
	}
	return p, nil
}

// committed returns the group's offsets. It asks while members poll: methods of a
// Consumer may be called from any goroutine.
func (p *progress) committed(ctx context.Context) (map[kafka.TopicPartition]kafka.OffsetAndMetadata, error) {
	offsets, err := p.consumer.Committed(ctx, p.partitions...)
	if errors.Is(err, protocol.GroupIDNotFound) { // the group is new
		return nil, nil
	}
	return offsets, err
}

// await waits until that share of the offsets is committed, ctx ends, or one of the
// members stops.
func (p *progress) await(ctx context.Context, share float64, members ...*member) error {
	for {
		committed, err := p.committed(ctx)
		if err != nil {
			return err
		}
		var read, all int64
		for _, tp := range p.partitions {
			all += p.end[tp] - p.first[tp]
			read += max(min(committed[tp].Offset, p.end[tp])-p.first[tp], 0)
		}
		if float64(read) >= share*float64(all) {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, m := range members {
			select {
			case <-m.stopped:
				return errors.Join(m.err, ctx.Err())
			default:
			}
		}
	}
}

// A standing is where the group is.
type standing struct {
	committed map[kafka.TopicPartition]kafka.OffsetAndMetadata
	end       map[kafka.TopicPartition]int64
}

func (p *progress) lookUp() (s standing, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if s.committed, err = p.committed(ctx); err != nil {
		return s, err
	}
	s.end, err = p.consumer.EndOffsets(ctx, p.partitions...)
	return s, err
}

// report prints what each member read of each partition, and where the group is.
func report(out io.Writer, p *progress, s standing, ann, bob *member) {
	fmt.Fprintf(out, "\n%9s  %8s  %8s  %10s  %8s  %6s\n", "partition", "ann read", "bob read", "committed", "end", "lag")
	const row = "%9v  %8d  %8d  %10v  %8v  %6d\n"
	var byAnn, byBob int
	var lag int64
	for _, tp := range p.partitions {
		n := tp.Partition
		at := max(s.committed[tp].Offset, p.first[tp])
		fmt.Fprintf(out, row, n, ann.read[n], bob.read[n], at, s.end[tp], s.end[tp]-at)
		byAnn += ann.read[n]
		byBob += bob.read[n]
		lag += s.end[tp] - at
	}
	fmt.Fprintf(out, row, "all", byAnn, byBob, "", "", lag)
	cents := ann.cents + bob.cents
	fmt.Fprintf(out, "\n%d orders over %d.%02d are billed.\n", byAnn+byBob, cents/100, cents%100)
	if skipped := ann.skipped + bob.skipped; skipped > 0 {
		fmt.Fprintf(out, "%d records were no orders.\n", skipped)
	}
}

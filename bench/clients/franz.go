package clients

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

func runFranz(ctx context.Context, job Job, m *Meter) error { return pollFranz(ctx, job, m, false) }

func runFranzPooled(ctx context.Context, job Job, m *Meter) error {
	return pollFranz(ctx, job, m, true, kgo.WithPools(new(franzPool)))
}

func pollFranz(ctx context.Context, job Job, m *Meter, recycle bool, opts ...kgo.Opt) error {
	from := map[int32]kgo.Offset{}
	for i := range job.Partitions {
		from[int32(i)] = kgo.NewOffset().AtStart()
	}
	if job.MetadataMaxAge > 0 {
		opts = append(opts, kgo.MetadataMaxAge(job.MetadataMaxAge), kgo.MetadataMinAge(job.MetadataMaxAge))
	}
	c, err := kgo.NewClient(append(opts,
		kgo.SeedBrokers(job.Brokers...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{job.Topic: from}),
		// KafkaConsumer's default, instead of 5 s.
		kgo.FetchMaxWait(fetchMaxWait),
	)...)
	if err != nil {
		return err
	}
	defer c.Close()
	t := tally{m: m, job: &job}
	for {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return ended(ctx, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			t.add(r.Key, r.Value)
			if recycle {
				r.Recycle()
			}
		})
		t.flush()
	}
}

// A franzPool pools what kgo lets an application pool.
type franzPool struct {
	bytes, records sync.Pool
}

func (p *franzPool) GetDecompressBytes(compressed []byte, _ kgo.CompressionCodecType) []byte {
	if b, ok := p.bytes.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 0, 6*len(compressed))
}

func (p *franzPool) PutDecompressBytes(b []byte) { p.bytes.Put(&b) }

func (p *franzPool) GetRecords(n int) []kgo.Record {
	if r, ok := p.records.Get().(*[]kgo.Record); ok && cap(*r) >= n {
		return *r
	}
	return make([]kgo.Record, n)
}

func (p *franzPool) PutRecords(r []kgo.Record) { p.records.Put(&r) }

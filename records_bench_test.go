package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
)

// BenchmarkRecords ranges over the records of a Poll.
func BenchmarkRecords(b *testing.B) {
	broker := testbroker.New(b)
	broker.CreateTopic("t", 1)
	broker.Produce("t", 0, numberedRecords(500)...)
	c := openConsumer(b, fast(broker))
	require.NoError(b, c.Assign(tp0))
	records, err := c.Poll(b.Context(), 10*time.Second)
	require.NoError(b, err)
	require.Equal(b, 500, records.Len())
	size := 0
	for b.Loop() {
		for r := range records.All() {
			size += len(r.Key) + len(r.Value)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*500), "ns/record")
}

package kafka

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafkaconsumer/kafka/internal/testbroker"
)

// numberedRecords returns records whose keys and values say which one it is.
func numberedRecords(n int) []testbroker.Record {
	records := make([]testbroker.Record, n)
	for i := range records {
		records[i] = testbroker.Record{Key: fmt.Append(nil, "k", i), Value: fmt.Append(nil, "v", i)}
	}
	return records
}

func TestRecordsAreTheSameHoweverManyAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testbroker.New(t)
		b.CreateTopic("t", 1)
		b.Produce("t", 0, numberedRecords(40)...)
		c := openConsumer(t, fast(b))
		require.NoError(t, c.Assign(tp0))
		next := 0
		for n := 1; n <= 7; n++ {
			records, err := c.PollMax(t.Context(), 5*time.Second, n)
			require.NoError(t, err)
			require.Equal(t, n, records.Len())
			check := func(i int, r Record) {
				require.Equal(t, int64(next+i), r.Offset)
				require.Equal(t, fmt.Sprint("k", next+i), string(r.Key))
				require.Equal(t, fmt.Sprint("v", next+i), string(r.Value))
				require.Equal(t, tp0, r.TopicPartition())
			}
			for stop := 1; stop <= n; stop++ { // a loop may be left at any record
				i := 0
				var kept []Record
				for r := range records.All() {
					check(i, r)
					kept = append(kept, r)
					if i++; i == stop {
						break
					}
				}
				require.Equal(t, stop, i)
				for i, r := range kept { // and a record does not change when the loop goes on
					check(i, r)
					check(i, records.At(i))
				}
			}
			i := 0
			for r := range records.Partition(tp0) {
				check(i, r)
				i++
			}
			require.Equal(t, n, i)
			next += n
			records.Release()
			records.Release()
			require.Panics(t, func() { records.At(0) })
			require.Equal(t, map[TopicPartition]OffsetAndMetadata{tp0: OffsetAndMetadata{Offset: int64(next)}.WithLeaderEpoch(0)}, records.NextOffsets())
		}
	})
}

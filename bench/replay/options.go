// Package replay is a broker that serves the same batches for ever, encoded
// once and given the offsets that a Fetch asks for, so that the client alone is
// the limit of what is measured. It knows ApiVersions, Metadata, ListOffsets and
// Fetch, and nothing of groups.
package replay

import (
	"fmt"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// Topic is the only topic that a Server has.
const Topic = "replay"

// Options say what a Server serves. The zero value of a field means its default.
type Options struct {
	Value      int            // bytes of a value, 100 by default
	JSON       bool           // values are documents instead of noise
	Headers    int            // of each record
	Batch      int            // bytes of a batch before compression, 64 KiB by default; 1: one record in each
	Codec      protocol.Codec // of each batch
	Partitions int            // 6 by default
	Active     int            // partitions that have records; 0: all, negative: none
	Brokers    int            // leaders that share the partitions, 1 by default
	RTT        time.Duration  // how long after a request's arrival its answer is sent at the earliest
	Rate       int            // records per second of all partitions together, one to a batch; 0: no limit
}

func (o Options) withDefaults() Options {
	if o.Value == 0 {
		o.Value = 100
	}
	if o.Batch == 0 {
		o.Batch = 64 << 10
	}
	if o.Partitions == 0 {
		o.Partitions = 6
	}
	if o.Brokers == 0 {
		o.Brokers = 1
	}
	switch {
	case o.Active == 0 || o.Active > o.Partitions:
		o.Active = o.Partitions
	case o.Active < 0:
		o.Active = 0
	}
	return o
}

// Check says what of o makes no sense.
func (o Options) Check() error {
	if o.Value < 0 || o.Headers < 0 || o.Batch < 0 || o.Partitions < 0 || o.Brokers < 0 || o.RTT < 0 || o.Rate < 0 {
		return fmt.Errorf("negative option in %+v", o)
	}
	if o.Rate > 0 && o.Value != 0 && o.Value < stampSize {
		return fmt.Errorf("values of %d bytes cannot hold the time of %d bytes", o.Value, stampSize)
	}
	return nil
}

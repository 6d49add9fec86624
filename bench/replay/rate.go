package replay

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A rateLog is a log per partition that grows at a rate, one record to a batch.
// The value of each record begins with the time at which it was appended.
type rateLog struct {
	o    Options
	gen  generator
	size int // of each batch

	mu    sync.Mutex
	logs  [][]byte
	grown chan struct{} // closed and replaced when records were appended
}

func newRateLog(o Options) *rateLog {
	o.JSON, o.Headers = false, 0
	return &rateLog{
		o: o, gen: generator{o: o, rnd: rand.NewChaCha8([32]byte{'r', 'a', 't', 'e'})},
		logs: make([][]byte, o.Active), grown: make(chan struct{}),
	}
}

func (l *rateLog) run(end <-chan struct{}) {
	if l.o.Active == 0 {
		return
	}
	interval := time.Second / time.Duration(l.o.Rate)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ticker.C:
		case <-end:
			return
		}
		l.append(n % l.o.Active)
	}
}

func (l *rateLog) append(partition int) {
	batch, err := l.gen.stamped(time.Now())
	if err != nil {
		return // nothing is compressed here
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size = len(batch)
	binary.BigEndian.PutUint64(batch, uint64(len(l.logs[partition])/l.size))
	l.logs[partition] = append(l.logs[partition], batch...)
	close(l.grown)
	l.grown = make(chan struct{})
}

// wait returns a channel that is closed when there is more than was asked for.
func (l *rateLog) wait(parts map[int32]kmsg.FetchRequestTopicPartition) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.logs {
		ask, ok := parts[int32(n)]
		if ok && l.size > 0 && ask.FetchOffset < int64(len(l.logs[n])/l.size) {
			ready := make(chan struct{})
			close(ready)
			return ready
		}
	}
	return l.grown
}

func (l *rateLog) end(partition int32) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size == 0 {
		return 0
	}
	return int64(len(l.logs[partition]) / l.size)
}

// read returns the batches from an offset on, at least one if there is one.
func (l *rateLog) read(partition int32, offset int64, limit int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size == 0 || offset < 0 {
		return nil
	}
	log := l.logs[partition]
	start := int(offset) * l.size
	if start >= len(log) {
		return nil
	}
	n := max(1, limit/l.size) * l.size
	return log[start:min(start+n, len(log))]
}

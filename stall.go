package kafka

import (
	"fmt"
	"time"

	"github.com/kafkaconsumer/kafka/internal/fetch"
)

// stallPatience is how long nothing may come of a partition whose log is known to go on:
// long enough for a request that is lost to be missed, and for two more.
func stallPatience(cfg *Config) time.Duration {
	return 3 * max(cfg.FetchMaxWait, cfg.RequestTimeout)
}

// stallLoop looks for stalled partitions while there may be some, and sleeps otherwise.
func (f *fetcher) stallLoop() {
	asks, asked := uint64(0), time.Now()
	for f.ctx.Err() == nil {
		now := time.Now()
		if n := f.hooks.asks(); n != asks {
			asks, asked = n, now
		}
		again := f.acquire().LookForStalls(now, asked)
		f.release()
		sleepUntil(f.ctx, f.stallKick, again)
	}
}

// standings returns how all partitions are doing.
func (f *fetcher) standings() []fetch.Standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table.Standings()
}

// standingReason says why a partition is not doing well.
func standingReason(what string, tp TopicPartition, err error, cfg *Config) string {
	if err == nil {
		return what
	}
	err = publicFault(fetch.Fault{TP: tp, Err: err}, cfg)
	if what == "" {
		return trimmed{err}.String()
	}
	return fmt.Sprintf("%s: %v", what, trimmed{err})
}

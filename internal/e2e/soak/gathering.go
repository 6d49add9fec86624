//go:build unix

package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/outside"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

const (
	topicPartitions = 8
	fewest, most    = 2, 6 // members; not more than partitions, so that each has one
	// stuck is the longest that anybody may stand still.
	stuck = sessionTimeout + 5*time.Second
	// startGrace is how much longer a member may take whose program has just begun.
	startGrace = 20 * time.Second
	// killsApart is the least time between two kills: of the first the group knows by
	// then.
	killsApart = sessionTimeout + time.Second
	stopGrace  = time.Minute
)

// A phase is how the members of a group find a common strategy.
type phase struct {
	name string
	// offers are the lists of strategies that a joining member may offer.
	offers [][]string
}

var phases = []phase{
	{"eager", [][]string{{"range"}, {"range", "roundrobin"}, {"roundrobin", "range"}}},
	{"cooperative", [][]string{{"cooperative-sticky"}}},
}

// A gathering is one group in one phase.
type gathering struct {
	t       testing.TB
	cluster *broker.Cluster
	view    view
	commits *commitLog
	kinds   []string // that join
	phase   phase
	rnd     *rand.Rand
	logs    string // folder

	group, topic string
	ledger       *ledger
	members      []*member // running ones
	started      int
	left         sync.WaitGroup // members that leave
	lastKill     time.Time
	rollCall     time.Duration // the longest

	diary struct {
		sync.Mutex
		*os.File
	}
}

// note writes to the diary, for who looks for the reason of a fault.
func (g *gathering) note(format string, args ...any) {
	g.diary.Lock()
	defer g.diary.Unlock()
	fmt.Fprintf(g.diary.File, "%s %s\n", time.Now().Format(timeFormat), fmt.Sprintf(format, args...))
}

func (g *gathering) strategiesOf(string) []string { return pick(g.rnd, g.phase.offers...) }

// run has members come and go for d.
func (g *gathering) run(d time.Duration) {
	g.t.Helper()
	g.view.CreateTopic(g.t, g.topic, topicPartitions, nil)
	stop := g.produce()
	for _, kind := range g.kinds {
		g.start(kind)
	}
	g.start(ours)
	g.callRoll()
	end := time.Now().Add(d)
	roll := time.Now().Add(g.between(15, 25))
	for time.Now().Before(end) {
		g.happen()
		time.Sleep(g.between(0.3, 3))
		g.heedEnds()
		if time.Now().After(roll) {
			g.callRoll()
			roll = time.Now().Add(g.between(15, 25))
		}
	}
	g.left.Wait()
	g.callRoll()
	ends := stop()
	g.await("all records are consumed", func() bool { return g.ledger.missing() == 0 })
	for _, m := range slices.Clone(g.members) {
		g.leave(m)
	}
	g.left.Wait()
	g.await("the last commits", func() bool { return g.commits.reached(g.group, ends) })
	if stored := g.view.committed(g.t, g.group, g.topic); !slices.Equal(stored, ends) {
		g.ledger.fail("committed is %v in the end, of %v", stored, ends)
	}
}

func (g *gathering) between(least, most float64) time.Duration {
	return time.Duration((least + g.rnd.Float64()*(most-least)) * float64(time.Second))
}

// produce produces to all partitions until it is stopped; stopping gives the
// end offsets.
func (g *gathering) produce() (stop func() []int64) {
	quit, done := make(chan struct{}), make(chan struct{})
	next := make([]int64, topicPartitions)
	go func() {
		defer close(done)
		for {
			var records []outside.Record
			for p := range next {
				records = append(records, outside.To(g.topic, int32(p), "k", valueOf(int32(p), next[p])))
				next[p]++
			}
			g.view.produce(g.t, records) // ends this goroutine when it fails
			now := time.Now()
			for p := range next {
				g.ledger.produce(int32(p), 1, now)
			}
			select {
			case <-quit:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() []int64 {
		close(quit)
		<-done
		return next
	}
}

// happen lets one thing happen.
func (g *gathering) happen() {
	n := len(g.members)
	switch what := g.rnd.IntN(10); {
	case n <= fewest || n < most && what < 5:
		m := g.start(g.nextKind())
		g.note("%s joins", m.name)
	case what < 8 || time.Since(g.lastKill) < killsApart:
		g.leave(pick(g.rnd, g.members...))
	default:
		g.kill(pick(g.rnd, g.members...))
	}
}

// nextKind chooses who joins: ours as often as all others, and at least one.
func (g *gathering) nextKind() string {
	if g.rnd.IntN(2) == 0 || !slices.ContainsFunc(g.members, func(m *member) bool { return m.kind == ours }) {
		return ours
	}
	return pick(g.rnd, g.kinds...)
}

// leave has a member end in an orderly way.
func (g *gathering) leave(m *member) {
	g.note("%s leaves", m.name)
	g.forget(m)
	if broker.Before(g.cluster.Version, "2.2") && g.ledger.of(m.name) == 0 || isOld(g.cluster) && m.kind == console {
		// One whose JoinGroup is not answered yet has no id to leave with (KIP-394), and the
		// console consumer of 0.9 does not leave while it joins.
		g.ledger.vanish(time.Now())
	}
	g.left.Go(func() {
		began := time.Now()
		m.process.Stop(stopGrace)
		<-m.read
		if took := time.Since(began); took >= stopGrace {
			g.ledger.fail("%s did not end within %v", m.name, stopGrace)
		}
		g.note("%s left", m.name)
	})
}

func (g *gathering) kill(m *member) {
	g.note("%s is killed", m.name)
	g.forget(m)
	g.lastKill = time.Now()
	g.ledger.kill(m.name, g.lastKill)
	m.process.Kill()
}

// forget takes a member out of those that run; its end is our doing.
func (g *gathering) forget(m *member) {
	m.leaving = true
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
}

// heedEnds finds members that ended by themselves.
func (g *gathering) heedEnds() {
	for _, m := range slices.Clone(g.members) {
		if !m.process.Running() {
			<-m.read
			g.forget(m)
			g.ledger.fail("%s ended by itself: %v\n%s", m.name, m.process.Err(), proc.Tail(m.log, 20))
		}
	}
}

// callRoll waits until each member that runs has consumed more, which each
// must before long: it has partitions of its own, and records keep coming.
func (g *gathering) callRoll() {
	began := time.Now()
	before := map[*member]int{}
	for _, m := range g.members {
		before[m] = g.ledger.of(m.name)
	}
	for {
		g.heedEnds()
		var silent []string
		over := true
		for _, m := range g.members {
			if g.ledger.of(m.name) > before[m] {
				continue
			}
			silent = append(silent, m.name)
			over = over && time.Since(began) > stuck && time.Since(m.began) > stuck+startGrace
		}
		if len(silent) == 0 {
			break
		}
		if over {
			for _, name := range silent {
				g.ledger.silent(name, time.Since(began))
			}
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	g.rollCall = max(g.rollCall, time.Since(began))
	g.note("all %d members consume, after %v", len(g.members), time.Since(began))
}

// await waits for what comes in the end. How long anything stood still by then the ledger
// tells.
func (g *gathering) await(what string, is func() bool) {
	const patience = time.Minute
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			g.ledger.fail("not within %v: %s", patience, what)
			return
		}
	}
}

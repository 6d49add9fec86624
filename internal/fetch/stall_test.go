package fetch

import (
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

func TestWaitBecomesAStallWhenNothingCameForLongEnough(t *testing.T) {
	const patience = 90 * time.Second
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	wants := sight{offset: 7, expecting: true}
	type look struct {
		at    int
		sight sight
		asked int // seconds
		want  verdict
	}
	for name, looks := range map[string][]look{
		"told once, mended again and again, and over": {
			{0, wants, 0, waits}, {89, wants, 89, waits}, {90, wants, 90, stalls}, {91, wants, 91, waits},
			{120, wants, 120, mends}, {149, wants, 149, waits}, {150, wants, 150, mends},
			{151, sight{offset: 8, expecting: true}, 151, resumes}, {152, sight{offset: 8, expecting: true}, 152, waits},
			{241, sight{offset: 8, expecting: true}, 241, stalls},
		},
		"something comes now and then": {
			{0, wants, 0, waits}, {89, sight{offset: 8, expecting: true}, 89, waits}, {178, sight{offset: 8, expecting: true}, 178, waits},
			{179, sight{offset: 8, expecting: true}, 179, stalls},
		},
		"the position was set to where it was": {
			{0, wants, 0, waits}, {90, sight{offset: 7, voided: 1, expecting: true}, 90, waits},
		},
		"nothing is expected in between": {
			{0, wants, 0, waits}, {60, sight{offset: 7}, 60, waits}, {90, wants, 90, waits}, {180, wants, 180, stalls},
		},
		"a stall ends when nothing is expected any more": {
			{0, wants, 0, waits}, {90, wants, 90, stalls}, {91, sight{offset: 7}, 91, resumes}, {200, sight{offset: 7}, 200, waits},
		},
		"the application does not ask": {
			{0, wants, 0, waits}, {90, wants, 0, waits}, {500, wants, 0, waits}, {515, wants, 515, stalls},
		},
		"the broker throttles": {
			{0, wants, 0, waits}, {60, sight{offset: 7, expecting: true, throttled: at(61)}, 60, waits},
			{120, sight{offset: 7, expecting: true, throttled: at(121)}, 120, waits},
			{210, sight{offset: 7, expecting: true, throttled: at(121)}, 210, waits},
			{211, sight{offset: 7, expecting: true, throttled: at(121)}, 211, stalls},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w wait
			for _, l := range looks {
				require.Equal(t, l.want, w.look(l.sight, at(l.at), at(l.asked), patience), "after %d s", l.at)
			}
		})
	}
}

// lookFor looks at stalls as often as the table asks for it, doing what tick does before
// each look, and returns what was reported.
func (r *rig) lookFor(d time.Duration, tick func()) (reports []Report) {
	r.t.Helper()
	r.table.TakeReports()
	for end := r.now.Add(d); r.now.Before(end); {
		tick()
		next := r.table.LookForStalls(r.now, r.now)
		reports = append(reports, r.table.TakeReports()...)
		if next.IsZero() {
			next = r.now.Add(10 * time.Second)
		}
		require.True(r.t, next.After(r.now))
		r.now = next
	}
	return append(reportsOf(reports, ReportStalled), reportsOf(reports, ReportResumed)...)
}

// exchangeIfHungry fetches from broker 1 if there is something to ask for.
func (r *rig) exchangeIfHungry(answers ...ans) {
	r.t.Helper()
	s := r.table.Session(1)
	if s == nil {
		return
	}
	if hungry, _ := r.table.Hungry(s, r.now); hungry && r.table.Plan(s, newest, r.now) {
		r.answer(s, answers...)
	}
}

func TestWhatIsNoStall(t *testing.T) {
	// read feeds one batch after the other, of which the application sees nothing.
	read := func(next func(offset int64) []byte) func(r *rig) func() {
		return func(r *rig) func() {
			return func() {
				offset := r.p(0).fetchOffset
				r.exchangeIfHungry(ans{hw: 1 << 40, lso: 1 << 40, records: next(offset), aborted: []protocol.AbortedTxn{{ProducerID: 9, FirstOffset: 0}}})
				require.Empty(r.t, r.drain())
			}
		}
	}
	producer := batch.Producer{ID: 9}
	behind := ans{hw: 1000} // and no records
	for name, begin := range map[string]func(r *rig) func(){
		"an empty partition": func(r *rig) func() { return func() { r.exchangeIfHungry(ans{hw: none}) } },
		"everything was read": func(r *rig) func() {
			r.exchangeIfHungry(ans{hw: 10, records: v2(0, 10)})
			r.drain()
			return func() { r.exchangeIfHungry(ans{hw: 10}) }
		},
		"only records that aborted": read(func(o int64) []byte {
			return v2(o, 10, func(b *batch.V2) { b.Producer, b.Transactional = &producer, true })
		}),
		"only control records":       read(func(o int64) []byte { return batch.Marker(o, batch.Producer{ID: 8}, true).Bytes() }),
		"only offsets that are gone": read(func(o int64) []byte { return v2(o, 0, func(b *batch.V2) { b.LastOffsetDelta = new(int32(9)) }) }),
		"a transaction that is open": func(r *rig) func() {
			r.exchangeIfHungry(ans{hw: 1000, lso: 10, records: v2(0, 10)})
			r.drain()
			return func() { r.exchangeIfHungry(ans{hw: 1000, lso: 10}) }
		},
		"compaction took the last":     func(r *rig) func() { return func() { r.exchangeIfHungry(behind); r.pass(); r.drain() } },
		"a paused partition":           func(r *rig) func() { r.exchangeIfHungry(behind); r.table.SetPaused(r.p(0), true); return func() {} },
		"a partition that is revoked":  func(r *rig) func() { r.exchangeIfHungry(behind); r.table.Hold(tpOf(0)); return func() {} },
		"a position that is looked up": func(r *rig) func() { r.exchangeIfHungry(behind); r.table.SeekByTime(r.p(0), 1); return func() {} },
		"a partition at fault": func(r *rig) func() {
			r.exchangeIfHungry(ans{code: protocol.InvalidRecord, hw: 1000})
			return func() {}
		},
		"a throttled consumer": func(r *rig) func() {
			return func() {
				s := r.plan(1, newest)
				resp := r.read(&s.Request, top{}, []ans{behind})
				resp.ThrottleMillis = 1000
				r.table.Apply(s, resp, r.now)
			}
		},
		"an application that has not taken what came": func(r *rig) func() {
			r.exchangeIfHungry(ans{hw: 1000, records: v2(0, 10)})
			return r.decode
		},
		"a memory full of other partitions' records": func(r *rig) func() {
			r.exchangeIfHungry(behind, ans{partition: 1, hw: 1000, records: v2(0, 1, func(b *batch.V2) { b.Records = numbered(1, 600<<10) })})
			r.decode()
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(l *Limits) { l.MaxBufferedBytes, l.ReadCommitted = mib, true })
			r.assign(2)
			require.Empty(t, r.lookFor(10*time.Minute, begin(r)))
		})
	}
}

// pass moves on over offsets that hold nothing, as the leader confirms.
func (r *rig) pass() {
	lookups, _ := r.table.WantVacancies(r.now)
	for _, l := range lookups {
		r.table.VacancyAnswered(l, 0)
	}
}

func TestWhatIsAStall(t *testing.T) {
	for name, test := range map[string]struct {
		tick   func(r *rig)
		reason string
		err    error
	}{
		"a broker that leaves a partition out, while it gives others": {
			tick:   func(r *rig) { r.exchangeIfHungry(ans{partition: 1, records: v2(r.p(1).fetchOffset, 10)}); r.drain() },
			reason: "broker 1 gives nothing, although the log goes on to 1000",
		},
		"a broker that cannot be reached": {
			tick:   func(r *rig) { r.table.BrokerFailed(1, protocol.NetworkException, false, r.now) },
			reason: "it cannot be fetched", err: protocol.NetworkException,
		},
		"no leader": {
			tick:   func(r *rig) { r.lead(-1, 5, tpOf(0)) },
			reason: "no leader of it is known",
		},
		"a leader that refuses": {
			tick:   func(r *rig) { r.exchangeIfHungry(ans{code: protocol.KafkaStorageError}) },
			reason: "it cannot be fetched", err: protocol.KafkaStorageError,
		},
		"leaders that change without an end": {
			tick:   func(r *rig) { r.lead(1+int32(r.now.Unix()%2), int32(r.now.Unix()), tpOf(0)) },
			reason: "gives nothing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.assign(2)
			r.fetch(ans{hw: 1000})
			require.True(t, r.table.TakeUnwatched(), "somebody has to look")
			began := r.now
			var of []Report
			for _, rep := range r.lookFor(10*time.Minute, func() { test.tick(r) }) {
				if rep.TP == tpOf(0) {
					of = append(of, rep)
				}
			}
			require.Len(t, of, 1, "once")
			require.Equal(t, ReportStalled, of[0].Kind)
			require.Contains(t, of[0].Reason, test.reason)
			require.ErrorIs(t, of[0].Err, test.err)
			require.Equal(t, began, of[0].Since)
			for _, s := range r.table.Standings() {
				require.Equal(t, s.TP == tpOf(0), s.Kind == StandingStalled)
			}
		})
	}
}

func TestStalledPartitionGetsANewSessionAndThenANewConnection(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	r.fetch(ans{hw: 1000})
	var renewed, reconnected []time.Duration
	began := r.now
	r.lookFor(3*time.Minute, func() {
		if r.table.Session(1).TakeReconnect() {
			reconnected = append(reconnected, r.now.Sub(began))
		}
		s := r.plan(1, newest)
		if s.Wire.SessionEpoch == 0 {
			renewed = append(renewed, r.now.Sub(began))
			require.Len(t, asked(&s.Request), 2, "it asks for all partitions")
			require.EqualValues(t, 77, s.Wire.SessionID, "it closes the old session")
		}
		r.answer(s, ans{partition: 1, records: v2(r.p(1).fetchOffset, 10)})
		r.drain()
	})
	// A look comes behind the fetch of its time, so the next fetch is a sixth later.
	require.Equal(t, []time.Duration{105 * time.Second, 135 * time.Second, 165 * time.Second}, renewed)
	require.Equal(t, []time.Duration{135 * time.Second, 165 * time.Second}, reconnected)
}

func TestStallIsOverAsSoonAsSomethingComes(t *testing.T) {
	r := newRig(t)
	r.assign(2)
	r.fetch(ans{hw: 1000})
	other := func() {
		r.exchangeIfHungry(ans{partition: 1, records: v2(r.p(1).fetchOffset, 10)})
		r.drain()
	}
	require.Len(t, r.lookFor(2*time.Minute, other), 1)
	r.table.TakeUnwatched()
	r.fetch(ans{hw: 1000, records: v2(0, 10)})
	require.True(t, r.table.TakeUnwatched(), "no need to wait for the next look")
	r.table.LookForStalls(r.now, r.now)
	over := reportsOf(r.table.TakeReports(), ReportResumed)
	require.Len(t, over, 1)
	require.Equal(t, tpOf(0), over[0].TP)
	require.Equal(t, "it goes on", over[0].Reason)
}

func TestNobodyLooksForStallsWhileNoneCanBe(t *testing.T) {
	r := newRig(t)
	r.assign(1)
	require.False(t, r.table.TakeUnwatched())
	r.fetch(ans{hw: 10, records: v2(0, 10)})
	r.drain()
	r.fetch(ans{hw: 10})
	require.False(t, r.table.TakeUnwatched())

	r.fetch(ans{hw: 20})
	require.True(t, r.table.TakeUnwatched())
	require.Equal(t, r.now.Add(15*time.Second), r.table.LookForStalls(r.now, r.now))
	r.fetch(ans{hw: 20, records: v2(10, 10)})
	require.False(t, r.table.TakeUnwatched(), "it looks by itself")
	r.drain()
	require.True(t, r.table.LookForStalls(r.now, r.now).IsZero(), "all is read")

	r.table.Seek(r.p(0), 5, -1)
	require.True(t, r.table.TakeUnwatched(), "there is more again")
}

// Of a backlog that is read from many brokers the memory may always be full.
func TestPartitionOfADeadBrokerStallsThoughTheMemoryIsFull(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.MaxBufferedBytes = mib })
	r.assign(2)
	r.lead(2, 5, tpOf(1))
	r.fetch(ans{hw: 1000})
	s := r.plan(2, newest)
	r.answer(s, ans{partition: 1, hw: 1000, records: v2(0, 1, func(b *batch.V2) { b.Records = numbered(1, 600<<10) })})
	r.decode()
	reports := r.lookFor(2*time.Minute, func() { r.table.BrokerFailed(1, protocol.NetworkException, false, r.now) })
	require.Len(t, reports, 1)
	require.Equal(t, tpOf(0), reports[0].TP)
}

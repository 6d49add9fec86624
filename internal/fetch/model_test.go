package fetch

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/testbroker/batch"
	"github.com/kafkaconsumer/kafka/protocol"
)

// A Table is driven here by a random schedule over random logs, against brokers that keep
// strict fetch sessions, and what it hands over is compared with what the logs hold. The
// brokers and the logs are written for this test alone: nothing of them is the Table's.

// A modelRecord is a record that a consumer is to get.
type modelRecord struct {
	offset int64
	value  string
}

type modelBatch struct {
	first, last int64
	magic       int8
	epoch       int32 // -1: it has none
	bytes       []byte
}

type modelTxn struct{ producer, first, marker int64 }

// A modelLog is a partition's log, all of it, and how far it may be read.
type modelLog struct {
	batches []modelBatch
	visible []modelRecord
	aborted []modelTxn
	stable  []modelTxn // all transactions, for the last stable offset
	end, hw int64
	leader  int32
	epoch   int32
}

func (l *modelLog) lastStable() int64 {
	stable := l.hw
	for _, txn := range l.stable {
		if txn.marker >= l.hw {
			stable = min(stable, txn.first)
		}
	}
	return stable
}

// grow has n more offsets read, or fewer: the high watermark is where a batch ends.
func (l *modelLog) grow(n int64) {
	for to, i := l.hw+n, 0; i < len(l.batches) && l.batches[i].last < to; i++ {
		l.hw = max(l.hw, l.batches[i].last+1)
	}
}

// epochEnd returns where an epoch ends, and all before it.
func (l *modelLog) epochEnd(epoch int32) int64 {
	for _, b := range l.batches {
		if b.epoch > epoch {
			return b.first
		}
	}
	return l.end
}

// index returns that of the first visible record at or behind offset.
func (l *modelLog) index(offset int64) int {
	i, _ := slices.BinarySearchFunc(l.visible, offset, func(r modelRecord, o int64) int { return cmp.Compare(r.offset, o) })
	return i
}

// A logWriter writes a modelLog.
type logWriter struct {
	*modelLog
	rng       *rand.Rand
	partition int32
	committed bool // aborted transactions are not visible
	large     bool // so that answers fill buffers of the pool
	open      map[int64]*openTxn
}

type openTxn struct {
	first   int64
	records []modelRecord
}

func writeLog(rng *rand.Rand, partition int32, committed, old, large bool) *modelLog {
	w := logWriter{
		modelLog: &modelLog{leader: 1}, rng: rng, partition: partition, committed: committed, large: large, open: map[int64]*openTxn{},
	}
	n := 3 + rng.IntN(40)
	if w.large {
		n += 40
	}
	for range n {
		switch kind := rng.IntN(14); {
		case old || kind < 2:
			w.oldSet(int8(rng.IntN(2)))
		case kind < 4:
			w.empty()
		case kind < 9:
			w.transaction()
		default:
			w.batch(batch.V2{}, nil)
		}
		if rng.IntN(10) == 0 && !old {
			w.epoch++
		}
	}
	for id := range int64(4) {
		w.finish(id, rng.IntN(2) == 0)
	}
	slices.SortFunc(w.visible, func(a, b modelRecord) int { return cmp.Compare(a.offset, b.offset) })
	return w.modelLog
}

func (w *logWriter) add(last int64, magic int8, bytes []byte) {
	epoch := w.epoch
	if magic < 2 {
		epoch = -1
	}
	w.batches = append(w.batches, modelBatch{w.end, last, magic, epoch, bytes})
	w.end = last + 1
}

func (w *logWriter) record(offset int64) (modelRecord, []byte) {
	r := modelRecord{offset, fmt.Sprintf("%d/%d", w.partition, offset)}
	if w.rng.IntN(30) == 0 || w.large {
		r.value += strings.Repeat("#", w.rng.IntN(3000))
	}
	return r, []byte(r.value)
}

// offsets are those of up to n records from the log's end on, some left out.
func (w *logWriter) offsets(n int) (offsets []int64) {
	gaps := w.rng.IntN(3) == 0
	at := w.end
	for range 1 + w.rng.IntN(n) {
		if gaps {
			at += w.rng.Int64N(3)
		}
		offsets = append(offsets, at)
		at++
	}
	return offsets
}

// codec is one up to last, seldom one that takes long.
func (w *logWriter) codec(last batch.Codec) batch.Codec {
	if w.rng.IntN(10) == 0 {
		return []batch.Codec{batch.Gzip, batch.Gzip, last}[w.rng.IntN(3)]
	}
	return []batch.Codec{batch.None, batch.None, batch.Snappy, batch.LZ4}[w.rng.IntN(4)]
}

func (w *logWriter) oldSet(magic int8) {
	codec := w.codec(batch.LZ4)
	var messages []batch.Message
	for _, offset := range w.offsets(8) {
		r, value := w.record(offset)
		w.visible = append(w.visible, r)
		m := batch.Message{Magic: magic, Offset: offset, Value: value}
		messages = append(messages, m)
		if codec == batch.None {
			w.add(offset, magic, m.Bytes())
		}
	}
	if codec != batch.None {
		w.add(messages[len(messages)-1].Offset, magic, batch.Wrapper{Magic: magic, Codec: codec, Messages: messages}.Bytes())
	}
}

func (w *logWriter) empty() {
	b := batch.V2{BaseOffset: w.end, LeaderEpoch: w.epoch, LastOffsetDelta: new(int32(w.rng.IntN(5)))}
	w.add(b.LastOffset(), 2, b.Bytes())
}

func (w *logWriter) batch(b batch.V2, into *[]modelRecord) {
	if into == nil {
		into = &w.visible
	}
	b.BaseOffset, b.LeaderEpoch, b.Codec = w.end, w.epoch, w.codec(batch.Zstd)
	n := 12
	if w.rng.IntN(20) == 0 {
		n = 400
	}
	for _, offset := range w.offsets(n) {
		r, value := w.record(offset)
		*into = append(*into, r)
		b.Records = append(b.Records, batch.Record{Value: value, OffsetDelta: new(offset - w.end)})
	}
	if w.rng.IntN(4) == 0 { // compaction took the last ones
		b.LastOffsetDelta = new(int32(b.LastOffset()-w.end) + w.rng.Int32N(4))
	}
	w.add(b.LastOffset(), 2, b.Bytes())
}

func (w *logWriter) transaction() {
	id := w.rng.Int64N(4)
	if w.open[id] != nil && w.rng.IntN(2) == 0 {
		w.finish(id, w.rng.IntN(2) == 0)
		return
	}
	if w.open[id] == nil {
		w.open[id] = &openTxn{first: w.end}
	}
	w.batch(batch.V2{Producer: &batch.Producer{ID: id}, Transactional: true}, &w.open[id].records)
}

func (w *logWriter) finish(id int64, commit bool) {
	txn := w.open[id]
	if txn == nil {
		return
	}
	delete(w.open, id)
	whole := modelTxn{id, txn.first, w.end}
	w.stable = append(w.stable, whole)
	if !commit {
		w.aborted = append(w.aborted, whole)
	}
	if commit || !w.committed {
		w.visible = append(w.visible, txn.records...)
	}
	m := batch.Marker(w.end, batch.Producer{ID: id}, commit)
	m.LeaderEpoch = w.epoch
	w.add(w.end, 2, m.Bytes())
}

// A modelSession is a fetch session as a broker keeps it.
type modelSession struct {
	id, epoch int32
	parts     map[int32]*sessionPart
}

type sessionPart struct {
	asked protocol.FetchPartition
	hw    int64 // that was told, -1: none
	lso   int64
}

// A model is the brokers, the Table, and what the application knows.
type model struct {
	*rig
	rng     *rand.Rand
	seed    uint64
	version int16
	logs    []*modelLog
	apps    []modelApp
	faults  bool

	sessions map[int32]*modelSession
	nextID   int32
	keeps    bool // sessions
	flights  []*flight
	tasks    []Task
	kept     []keptCut
	live     *Live
	cut      Cut
	journal  []string
	alone    bool
}

// A modelApp is what the application knows of one partition.
type modelApp struct {
	next   int64 // everything visible from here on is yet to come
	paused bool
	held   bool
}

// A flight is a request under way.
type flight struct {
	broker  int32
	q       *Request
	s       *Session // nil for one beside a session's
	handled bool
	top     top
	answers []ans
}

// A keptCut is a cut that the application has yet to release.
type keptCut struct {
	cut  Cut
	want []modelRecord
}

// note keeps what happens for when it fails: only of a seed that is run alone, as it takes
// long.
func (m *model) note(format string, args ...any) {
	if !m.alone {
		return
	}
	m.journal = append(m.journal, fmt.Sprintf(format, args...))
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	for _, line := range m.journal[max(0, len(m.journal)-60):] {
		m.t.Log(line)
	}
	m.t.Fatalf("seed %d, version %d: %s", m.seed, m.version, fmt.Sprintf(format, args...))
}

func newModel(t *testing.T, seed uint64) *model {
	rng := rand.New(rand.NewPCG(seed, 3))
	m := &model{rng: rng, seed: seed, sessions: map[int32]*modelSession{}, keeps: rng.IntN(4) > 0, faults: rng.IntN(3) > 0}
	m.alone = os.Getenv("MODEL_SEED") != ""
	m.version = []int16{0, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 16, 16}[rng.IntN(13)]
	committed := m.version >= 4 && rng.IntN(2) == 0
	large := rng.IntN(10) == 0
	m.rig = newRig(t, func(l *Limits) {
		l.ReadCommitted, l.NoSessions = committed, rng.IntN(5) == 0
		l.MaxBufferedBytes = []int64{64 * mib, 64 * mib, 20_000, 3000}[rng.IntN(4)]
		l.MaxPartitionFetchBytes = []int32{mib, 4000, 300}[rng.IntN(3)]
		l.FetchMaxBytes = []int32{50 * mib, 5000, 200}[rng.IntN(3)]
		if large {
			l.MaxBufferedBytes, l.MaxPartitionFetchBytes, l.FetchMaxBytes = 64*mib, mib, 50*mib
		}
	})
	n := int32(1 + rng.IntN(3))
	old := m.version < 4 && rng.IntN(2) == 0
	var tps []protocol.TopicPartition
	for p := range n {
		m.logs = append(m.logs, writeLog(rng, p, committed, old, large))
		m.apps = append(m.apps, modelApp{})
		tps = append(tps, tpOf(p))
	}
	m.table.Assign(tps, false)
	m.table.Release(tps...)
	m.learn()
	for p := range n {
		m.seekTo(p, 0)
	}
	return m
}

// learn has the Table hear of the leaders.
func (m *model) learn() {
	m.table.UpdateLeaders(func(tp protocol.TopicPartition) Leader {
		l := m.logs[tp.Partition]
		return Leader{Known: true, Broker: l.leader, Epoch: l.epoch, TopicID: idOf("t")}
	})
}

func (m *model) seekTo(p int32, offset int64) {
	m.note("seek %d to %d", p, offset)
	m.endLive()
	m.table.Seek(m.p(p), offset, -1)
	m.apps[p].next = offset
}

// step does one random thing.
func (m *model) step() {
	p := m.rng.Int32N(int32(len(m.logs)))
	l, a := m.logs[p], &m.apps[p]
	switch m.rng.IntN(30) {
	case 0, 1, 2, 3:
		m.ask(1 + m.rng.Int32N(2))
	case 4:
		m.askBeside(1 + m.rng.Int32N(2))
	case 5, 6, 7, 8:
		m.fly()
	case 9, 10, 11:
		if task, ok := m.table.NextDecode(); ok {
			m.tasks = append(m.tasks, task)
		}
	case 12, 13, 14:
		m.endTask()
	case 15, 16, 17:
		m.poll(1 + m.rng.IntN(20))
	case 18, 19:
		m.iterate()
	case 20:
		m.release()
	case 21:
		m.now = m.now.Add(time.Duration(m.rng.IntN(200)) * time.Millisecond)
	case 22, 23:
		l.grow(m.rng.Int64N(30))
		if m.rng.IntN(5) == 0 {
			l.grow(m.rng.Int64N(l.end + 1))
		}
	case 24:
		if m.rng.IntN(3) == 0 {
			m.seekTo(p, m.rng.Int64N(l.hw+1))
		}
	case 25:
		a.paused = !a.paused
		m.note("pause %d: %v", p, a.paused)
		m.endLive()
		m.table.SetPaused(m.p(p), a.paused)
	case 26:
		if m.rng.IntN(3) == 0 {
			l.leader = 3 - l.leader
			l.epoch++
			m.note("leader of %d is %d", p, l.leader)
		}
		m.learn()
	case 27:
		m.lookUp()
	case 28:
		m.reassign(p)
	case 29:
		m.handleFaults()
	}
	m.table.TakeReports()
}

// reassign takes a partition away, or holds it for a while.
func (m *model) reassign(p int32) {
	a := &m.apps[p]
	if m.rng.IntN(2) == 0 {
		m.endLive()
		if a.held = !a.held; a.held {
			m.table.Hold(tpOf(p))
		} else {
			m.table.Release(tpOf(p))
		}
		return
	}
	at := m.position(p)
	m.note("assign %d anew at %d", p, at)
	m.endLive()
	at = m.position(p)
	m.table.Remove(tpOf(p))
	var all []protocol.TopicPartition
	for i := range m.logs {
		all = append(all, tpOf(int32(i)))
	}
	m.table.Assign(all, false)
	m.table.Release(tpOf(p))
	m.learn()
	*a = modelApp{}
	m.seekTo(p, at)
}

// lookUp answers what the Table wants to know.
func (m *model) lookUp() {
	lookups, _ := m.table.WantValidations(m.now)
	for _, l := range lookups {
		m.table.Validated(l, protocol.EpochEndOffset{Epoch: l.Epoch, EndOffset: 1 << 40}, m.now)
	}
	lookups, _ = m.table.WantVacancies(m.now)
	for _, l := range lookups {
		m.note("%v may be vacant", l.TP)
		m.table.VacancyAnswered(l, 0)
	}
	if lookups, _ = m.table.WantResets(m.now); len(lookups) > 0 {
		m.fail("%v is reset", lookups[0].TP)
	}
}

// handleFaults seeks a partition at fault to where it is: its bytes were damaged twice.
func (m *model) handleFaults() {
	for _, f := range m.table.Faults() {
		if !m.faults {
			m.fail("%v: %v", f.TP, f.Err)
		}
		m.seekTo(f.TP.Partition, m.position(f.TP.Partition))
	}
}

func (m *model) endTask() {
	if len(m.tasks) == 0 {
		return
	}
	i := m.rng.IntN(len(m.tasks))
	task := m.tasks[i]
	m.tasks = slices.Delete(m.tasks, i, i+1)
	task.Run()
	m.table.DecodeDone(&task)
}

// poll takes records as Poll does.
func (m *model) poll(limit int) {
	m.endLive()
	cuts := m.table.Take(limit, nil)
	n := 0
	for i := range cuts {
		c := &cuts[i]
		n += c.Len()
		if !m.table.HandOver(c, c.Len()) {
			m.fail("what was just taken is void")
		}
		k := keptCut{cut: *c}
		for i := c.From; i < c.To; i++ {
			k.want = append(k.want, m.got(c, i))
		}
		m.kept = append(m.kept, k)
	}
	if n > limit {
		m.fail("%d records of %d", n, limit)
	}
	m.checkPositions()
}

// got checks one record.
func (m *model) got(c *Cut, i int) modelRecord {
	p := c.TP().Partition
	l, a := m.logs[p], &m.apps[p]
	r := modelRecord{c.Seg.Offset(i), string(c.Seg.Value(i))}
	if a.paused || a.held {
		m.fail("%d/%d comes of a partition that is paused or held", p, r.offset)
	}
	at := l.index(a.next)
	if at == len(l.visible) || l.visible[at] != r {
		m.fail("%d/%d comes, but %d is next: %.20q", p, r.offset, a.next, r.value)
	}
	a.next = r.offset + 1
	return r
}

// checkPositions requires that positions are behind what came and before what is to come.
func (m *model) checkPositions() {
	for p := range m.apps {
		l, a := m.logs[p], &m.apps[p]
		at := m.position(int32(p))
		if i := l.index(a.next); at < a.next || i < len(l.visible) && at > l.visible[i].offset {
			m.fail("position of %d is %d, but %d is next", p, at, a.next)
		}
	}
}

// iterate takes records one by one, some of them.
func (m *model) iterate() {
	if m.live == nil || !m.table.LiveValid() {
		m.endLive()
		cuts := m.table.Take(50, nil)
		for i := range cuts {
			if i > 0 {
				cuts[i].Release()
				continue
			}
			m.cut, m.live = cuts[0], m.table.SetLive(cuts[0])
		}
	}
	for m.live != nil && m.rng.IntN(5) > 0 {
		i := int(max(m.live.Yielded.Load()+1, int64(m.cut.From)))
		if i >= m.cut.To {
			m.endLive()
			return
		}
		m.live.Yielded.Store(int64(i))
		r := m.got(&m.cut, i)
		m.kept = append(m.kept, keptCut{cut: Cut{Seg: m.cut.Seg, From: i, To: i + 1}, want: []modelRecord{r}})
	}
}

func (m *model) endLive() {
	if m.live != nil {
		m.table.EndLive()
		m.live = nil
	}
}

// release looks at records that were kept: what they point at must not be used for others.
func (m *model) release() {
	for len(m.kept) > 0 && m.rng.IntN(10) > 0 {
		i := m.rng.IntN(len(m.kept))
		k := m.kept[i]
		m.kept = slices.Delete(m.kept, i, i+1)
		for i, want := range k.want {
			if got := string(k.cut.Seg.Value(k.cut.From + i)); got != want.value {
				m.fail("%.40q was kept and became %.40q", want.value, got)
			}
		}
		if k.cut.lease != nil && m.rng.IntN(2) == 0 {
			Recycle()
			k.cut.Release()
		}
	}
}

// modelSeeds is how many seeds to run, or MODEL_SEEDS, or the one that MODEL_SEED names.
func modelSeeds() (from, to uint64) {
	if s, err := strconv.ParseUint(os.Getenv("MODEL_SEED"), 10, 64); err == nil {
		return s, s + 1
	}
	if s, err := strconv.ParseUint(os.Getenv("MODEL_SEEDS"), 10, 64); err == nil {
		return 0, s
	}
	return 0, 300
}

// Whatever is asked, answered, lost and damaged in whatever order: each record comes once,
// in order.
func TestEachRecordComesOnceInOrder(t *testing.T) {
	from, to := modelSeeds()
	for seed := from; seed < to; seed++ {
		m := newModel(t, seed)
		for range 100 + m.rng.IntN(600) {
			m.step()
		}
		m.finish()
	}
}

// finish ends all faults and requires that everything comes.
func (m *model) finish() {
	m.note("finish")
	m.faults = false
	for p, l := range m.logs {
		l.hw = l.end
		m.apps[p].paused, m.apps[p].held = false, false
		m.table.SetPaused(m.p(int32(p)), false)
		m.table.Release(tpOf(int32(p)))
	}
	m.learn()
	for round := 0; !m.complete(); round++ {
		if round > 3000 {
			m.fail("only this came: %+v", m.apps)
		}
		for _, f := range m.table.Faults() { // of bytes damaged before
			m.seekTo(f.TP.Partition, m.position(f.TP.Partition))
		}
		for len(m.flights) > 0 {
			m.fly()
		}
		m.ask(1)
		m.ask(2)
		for task, ok := m.table.NextDecode(); ok; task, ok = m.table.NextDecode() {
			m.tasks = append(m.tasks, task)
		}
		for len(m.tasks) > 0 {
			m.endTask()
		}
		m.poll(500)
		m.lookUp()
		m.now = m.now.Add(20 * time.Millisecond)
	}
	for len(m.flights) > 0 {
		m.fly()
	}
	if m.table.reserved != 0 || m.table.decoding != 0 {
		m.fail("%d bytes are reserved, %d for decoding", m.table.reserved, m.table.decoding)
	}
	if m.table.Buffered() != 0 {
		m.fail("%d bytes are buffered when all was read", m.table.Buffered())
	}
	for len(m.kept) > 0 {
		m.release()
	}
}

// complete tells whether every position is at the end of its log.
func (m *model) complete() bool {
	for p, l := range m.logs {
		if m.position(int32(p)) < l.end {
			return false
		}
	}
	return true
}

//go:build unix

package soak

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/internal/e2e/broker"
	"github.com/kafkaconsumer/kafka/internal/e2e/proc"
)

var (
	releaseFlag = flag.String("release", "4.4.0", "release of Kafka")
	timeFlag    = flag.Duration("time", time.Minute, "how long members come and go")
	seedFlag    = flag.Uint64("seed", 0, "what happens; 0: anything")
	logsFlag    = flag.String("logs", "", "folder to keep the logs in")
)

func TestMain(m *testing.M) {
	if what := os.Getenv(memberVariable); what != "" {
		if err := playMember(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	proc.Main(m)
}

// kindsFor says which clients take part.
func kindsFor(release string, p phase) []string {
	kinds := []string{ours, console, pythonic, confluent}
	if broker.Before(release, "0.10") && p.name == "cooperative" {
		// Today's console consumer does not speak to such brokers, and that of their time
		// knows no cooperative rebalances.
		kinds = []string{ours, pythonic, confluent}
	}
	return kinds
}

// TestMixedCompany has this library, Java's console consumer, kafka-python and
// confluent-kafka share topics while members join, leave and are killed.
func TestMixedCompany(t *testing.T) {
	t.Run(*releaseFlag, func(t *testing.T) {
		seed := *seedFlag
		if seed == 0 {
			seed = rand.Uint64()
		}
		t.Logf("again: -release %s -time %v -seed %d", *releaseFlag, *timeFlag, seed)
		cluster := broker.Start(t, *releaseFlag)
		view := viewOf(t, cluster)
		commits := followCommits(t, cluster.Bootstrap(), *releaseFlag)
		for i, p := range phases {
			g := &gathering{
				t: t, cluster: cluster, view: view, commits: commits, kinds: kindsFor(*releaseFlag, p), phase: p,
				rnd: rand.New(rand.NewPCG(seed, uint64(i))), ledger: newLedger(topicPartitions, limitFor(*releaseFlag)),
				logs: logs(t, p), group: p.name, topic: p.name,
			}
			g.openDiary(t)
			g.run(*timeFlag / time.Duration(len(phases)))
			g.report(t)
		}
	})
}

// limitFor is the longest that a partition may stand still.
func limitFor(release string) time.Duration {
	if broker.Before(release, "0.10.1") {
		// Such a broker waits for a dead member's session to join, and once more when it is
		// the leader (JoinGroup v0 has no other timeout).
		return stuck + sessionTimeout
	}
	return stuck
}

func logs(t *testing.T, p phase) string {
	folder := filepath.Join(t.TempDir(), p.name)
	if *logsFlag != "" {
		folder = filepath.Join(*logsFlag, p.name)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

func (g *gathering) openDiary(t *testing.T) {
	f, err := os.Create(filepath.Join(g.logs, "diary.log"))
	if err != nil {
		t.Fatal(err)
	}
	g.diary.File = f
	t.Cleanup(func() { f.Close() })
}

// report logs what happened, and fails the test on what must not.
func (g *gathering) report(t *testing.T) {
	l := g.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	records := 0
	for _, a := range l.partitions {
		records += len(a.produced)
	}
	for _, b := range g.commits.takeBackward() {
		l.fault("a commit went backward: %s", b)
	}
	g.judge()
	for _, f := range l.foreign {
		t.Logf("not ours: %s", f)
	}
	t.Logf("%s: %d members, %d killed, %d thrown out; %d records, %d consumed again after that, %d received last; %d commits; "+
		"longest standstill %v (%v with the wait for killed members), longest roll call %v",
		g.phase.name, g.started, len(l.endings), len(l.losses), records, l.duplicates, l.received, g.commits.of(g.group),
		l.standstill.Round(time.Millisecond), l.outage.Round(time.Millisecond), g.rollCall.Round(time.Millisecond))
	if len(l.faults) > 0 {
		shown := l.faults[:min(len(l.faults), 20)]
		t.Errorf("%s: %d faults:\n%s\ndiary, last lines:\n%s", g.phase.name, len(l.faults), strings.Join(shown, "\n"), proc.Tail(g.diary.Name(), 60))
	}
}

// A deed is that a member gave a partition up without a commit of what it had
// consumed, or consumed what another had committed.
type deed struct {
	culprit, other string
	partition      int32
	committed      bool
}

// judge finds out whose fault repeats are: of who took over if the record was
// committed by then, else of who gave the partition up.
func (g *gathering) judge() {
	g.ledger.excuseLosses()
	found := map[deed][]repeat{}
	for _, r := range g.ledger.repeats {
		d := deed{r.first.member, r.second.member, r.partition, g.commits.committed(place{g.group, r.partition}, r.offset, r.second.at)}
		if d.committed {
			d.culprit, d.other = d.other, d.culprit
		}
		found[d] = append(found[d], r)
	}
	for d, repeats := range found {
		for _, run := range runs(repeats) {
			switch {
			case !isOurs(d.culprit), isOld(g.cluster) && !d.committed && strings.HasPrefix(d.other, console):
				// The console consumer of 0.9 goes on with partitions that it lost, and does not say so.
				g.ledger.foreign = append(g.ledger.foreign, d.describe(run))
			case !d.committed && len(run) == 1 && strings.Contains(d.culprit, readChannel):
				// A rebalance does not wait for the receiver of a channel, as its documentation says.
				g.ledger.received++
			default:
				g.ledger.fault("%s", d.describe(run))
			}
		}
	}
}

// runs parts repeats where offsets do not follow each other.
func runs(repeats []repeat) (out [][]repeat) {
	slices.SortFunc(repeats, func(a, b repeat) int { return cmp.Compare(a.offset, b.offset) })
	for i, r := range repeats {
		if i == 0 || r.offset != repeats[i-1].offset+1 {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], r)
	}
	return out
}

func (d deed) describe(repeats []repeat) string {
	first, last := repeats[0], repeats[len(repeats)-1]
	what := fmt.Sprintf("gave up partition %d without a commit of offsets %d to %d; %s consumed them again",
		d.partition, first.offset, last.offset, d.other)
	if d.committed {
		what = fmt.Sprintf("consumed offsets %d to %d of partition %d, which %s had committed", first.offset, last.offset, d.partition, d.other)
	}
	return fmt.Sprintf("%s %s (%d at %s and %s)", d.culprit, what, first.offset, first.first.at.Format(timeFormat), first.second.at.Format(timeFormat))
}

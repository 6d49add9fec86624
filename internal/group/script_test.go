package group

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the actions that come out into the scripts")

func scriptConfig() Config {
	return Config{
		Protocols:         []string{"range", "roundrobin"},
		HeartbeatInterval: 3 * time.Second,
		SessionTimeout:    10 * time.Second,
		RetryBackoff:      100 * time.Millisecond,
		RetryBackoffMax:   time.Second,
	}
}

// TestScripts runs testdata/*.txt. A line that begins at the margin is an event (or,
// before the first one, "static", "cooperative" or "all timers"), the indented lines
// behind it are the actions that it must bring about and, when it changed, the state.
// The early and the probe timer are shown in scripts with "all timers" only.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			got := runScript(t, string(want))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(want), got)
		})
	}
}

func runScript(t *testing.T, script string) string {
	cfg := scriptConfig()
	m := NewClassic(cfg)
	var out strings.Builder
	allTimers := false
	for _, line := range strings.Split(strings.TrimSuffix(script, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, " "):
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
			continue
		case line == "static", line == "cooperative", line == "all timers":
			if line == "static" {
				cfg.InstanceID = "i1"
			}
			cfg.Cooperative = cfg.Cooperative || line == "cooperative"
			allTimers = allTimers || line == "all timers"
			m = NewClassic(cfg)
			fmt.Fprintln(&out, line)
			continue
		}
		fmt.Fprintln(&out, line)
		before := m.State()
		for _, a := range m.Step(parseEvent(t, line)) {
			if !allTimers && isMinorTimer(a) {
				continue
			}
			fmt.Fprintf(&out, "    %s\n", formatAction(a))
		}
		if s := m.State(); s != before {
			fmt.Fprintf(&out, "    = %s\n", s)
		}
	}
	return out.String()
}

func isMinorTimer(a Action) bool {
	switch a := a.(type) {
	case Arm:
		return a.Timer == EarlyTimer || a.Timer == ProbeTimer
	case Disarm:
		return a.Timer == EarlyTimer || a.Timer == ProbeTimer
	}
	return false
}

// words is an event's line: a name, "#n" for a Seq or ID, "key=value" fields.
type words struct {
	name   string
	seq    int
	fields map[string]string
	rest   string // the words without a key
}

func parseWords(t *testing.T, line string) words {
	w := words{fields: map[string]string{}}
	var rest []string
	for i, word := range strings.Fields(line) {
		key, value, found := strings.Cut(word, "=")
		switch {
		case i == 0:
			w.name = word
		case strings.HasPrefix(word, "#"):
			n, err := strconv.Atoi(word[1:])
			require.NoError(t, err, line)
			w.seq = n
		case found:
			w.fields[key] = value
		default:
			rest = append(rest, word)
		}
	}
	w.rest = strings.Join(rest, " ")
	return w
}

func (w words) int(t *testing.T, key string, def int32) int32 {
	s, ok := w.fields[key]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return int32(n)
}

// err reads error=CODE, error=connection or error=blob.
func (w words) err(t *testing.T) error {
	name, ok := w.fields["error"]
	switch {
	case !ok:
		return nil
	case name == "connection":
		return errors.New("connection")
	case name == "unsupported":
		return &protocol.UnsupportedVersionError{API: "JoinGroup"}
	case name == "blob":
		return &BlobError{What: "assignment", Reason: "cut"}
	}
	for code := protocol.UnknownServerError; code < 200; code++ {
		if code.Name() == name {
			return code
		}
	}
	require.Fail(t, "no such error code", name)
	return nil
}

func (w words) list(key string) []string {
	if w.fields[key] == "" {
		return nil
	}
	return strings.Split(w.fields[key], ",")
}

func (w words) partitions(t *testing.T, key string) []TopicPartition {
	var tps []TopicPartition
	for _, s := range w.list(key) {
		i := strings.LastIndex(s, "-")
		n, err := strconv.Atoi(s[i+1:])
		require.NoError(t, err)
		tps = append(tps, TopicPartition{Topic: s[:i], Partition: int32(n)})
	}
	return tps
}

func parseEvent(t *testing.T, line string) Event {
	w := parseWords(t, line)
	switch w.name {
	case "subscribed":
		return Subscribed{Topics: w.list("topics"), Reason: w.rest}
	case "polled":
		return Polled{}
	case "step-taken":
		return StepTaken{ID: w.seq}
	case "step-done":
		return StepDone{ID: w.seq}
	case "poll-interval-exceeded":
		return PollIntervalExceeded{}
	case "rejoin-asked":
		return RejoinAsked{Reason: w.rest}
	case "leave":
		return Leave{Reason: w.rest}
	case "coordinator-needed":
		return CoordinatorNeeded{}
	case "coordinator-lost":
		return CoordinatorLost{Node: w.int(t, "node", 1), Err: w.err(t)}
	case "coordinator-works":
		return CoordinatorWorks{}
	case "commit-refused":
		return CommitRefused{MemberID: w.fields["member"], Generation: w.int(t, "generation", -1), Err: w.err(t)}
	case "timer":
		for i := range Timers {
			if i.String() == w.rest {
				return TimerDue{Timer: i}
			}
		}
	}
	return parseAnswer(t, w, line)
}

func parseAnswer(t *testing.T, w words, line string) Event {
	switch w.name {
	case "coordinator-found":
		return CoordinatorFound{Seq: w.seq, Node: w.int(t, "node", 1)}
	case "coordinator-failed":
		return CoordinatorFailed{Seq: w.seq, Err: w.err(t)}
	case "join-answered":
		a := JoinAnswered{
			Seq: w.seq, Err: w.err(t), MemberID: w.fields["member"], Generation: w.int(t, "generation", -1),
			Protocol: w.fields["protocol"], Leader: w.rest == "leader",
			SkipAssignment: w.fields["skip"] != "", Partitions: int(w.int(t, "partitions", 0)),
		}
		for i := range w.int(t, "crowd", 0) {
			a.Members = append(a.Members, JoinedMember{ID: fmt.Sprint(i)})
		}
		for _, id := range w.list("members") {
			a.Members = append(a.Members, JoinedMember{ID: id})
		}
		return a
	case "assignment-made":
		a := AssignmentMade{Seq: w.seq, Err: w.err(t)}
		for _, id := range w.list("members") {
			a.Assignments = append(a.Assignments, MemberAssignment{ID: id})
		}
		return a
	case "sync-answered":
		return SyncAnswered{Seq: w.seq, Err: w.err(t), Assignment: w.partitions(t, "assignment")}
	case "heartbeat-answered":
		return HeartbeatAnswered{Seq: w.seq, Err: w.err(t), Throttled: w.rest == "throttled"}
	case "leave-answered":
		return LeaveAnswered{Seq: w.seq, Err: w.err(t)}
	}
	require.Fail(t, "no such event", line)
	return nil
}

func formatAction(a Action) string {
	switch a := a.(type) {
	case FindCoordinator:
		return fmt.Sprintf("find-coordinator #%d", a.Seq)
	case CoordinatorChanged:
		if !a.Known {
			return "coordinator unknown"
		}
		return fmt.Sprintf("coordinator node=%d", a.Node)
	case SendJoin:
		owned := formatPartitions(" owned", a.Owned)
		if owned != "" {
			owned += fmt.Sprint(" since=", a.Generation)
		}
		return fmt.Sprintf("send-join #%d member=%s topics=%s%s reason: %s", a.Seq, a.MemberID, strings.Join(a.Topics, ","),
			owned, a.Reason)
	case RunAssignor:
		return fmt.Sprintf("run-assignor #%d %s generation=%d members=%d%s", a.Seq, a.Protocol, a.Generation, len(a.Members),
			map[bool]string{true: " to watch only"}[a.WatchOnly])
	case SendSync:
		return fmt.Sprintf("send-sync #%d member=%s generation=%d assignments=%d", a.Seq, a.MemberID, a.Generation, len(a.Assignments))
	case SendHeartbeat:
		return fmt.Sprintf("send-heartbeat #%d member=%s generation=%d", a.Seq, a.MemberID, a.Generation)
	case SendLeave:
		return fmt.Sprintf("send-leave #%d member=%s reason: %s", a.Seq, a.MemberID, a.Reason)
	case Cancel:
		return fmt.Sprintf("cancel #%d", a.Seq)
	case Reconnect:
		return fmt.Sprintf("reconnect node=%d", a.Node)
	case Arm:
		return fmt.Sprintf("arm %s %s%s", a.Timer, map[bool]string{true: "~"}[a.Vary], a.After)
	case Disarm:
		return fmt.Sprintf("disarm %s", a.Timer)
	default:
		return formatReport(a)
	}
}

func formatReport(a Action) string {
	switch a := a.(type) {
	case Hand:
		if a.Step == nil {
			return "withdraw"
		}
		all := ""
		if len(a.Step.Assignment) != len(a.Step.Partitions) {
			all = formatPartitions(" all", a.Step.Assignment)
		}
		return fmt.Sprintf("hand #%d %s%s%s", a.Step.ID, a.Step.Kind, formatPartitions("", a.Step.Partitions), all)
	case StopRecords:
		return "stop-records" + formatPartitions("", a.Partitions)
	case Wake:
		return "wake"
	case Fail:
		return fmt.Sprintf("fail %s%s", map[bool]string{true: "terminally "}[a.Terminal], errorName(a.Err))
	case Recovered:
		return "recovered"
	case Retrying:
		return fmt.Sprintf("retrying %s %s", a.Operation, errorName(a.Err))
	case Fenced:
		return fmt.Sprintf("fenced member=%s %s", a.MemberID, errorName(a.Err))
	case Expired:
		return "expired"
	case Left:
		if a.Err != nil {
			return "left " + errorName(a.Err)
		}
		return "left"
	}
	return fmt.Sprintf("%T", a)
}

func errorName(err error) string {
	if code, ok := codeOf(err); ok {
		return code.Name()
	}
	return strconv.Quote(err.Error())
}

func formatPartitions(name string, tps []TopicPartition) string {
	if len(tps) == 0 {
		return ""
	}
	out := make([]string, len(tps))
	for i, tp := range tps {
		out[i] = tp.String()
	}
	if name == "" {
		return " " + strings.Join(out, ",")
	}
	return name + "=" + strings.Join(out, ",")
}

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// writeResults writes RESULTS.md and results.svg.
func writeResults(folder string, s *suite, rows []row) error {
	if err := os.WriteFile(filepath.Join(folder, "RESULTS.md"), []byte(markdown(s, rows)), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "results.svg"), []byte(svg(rows)), 0o644)
}

func markdown(s *suite, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results\n\nMade by `cmd/bench` on %s: %s, %d cores, %s/%s, %s.\n",
		time.Now().Format("2006-01-02"), cpuModel(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	fmt.Fprintf(&b, "Each client ran %d time(s) for %v in a process of its own, all clients in turn; the figures are medians.\n", s.runs, s.window)
	if s.kafka != "" {
		fmt.Fprintf(&b, "Kafka is %s.\n", s.kafka)
	}
	fmt.Fprintf(&b, "\nClients: %s.\n", strings.Join(versions(), ", "))
	b.WriteString("\n*floor* is a bare loop that fetches, checks CRCs and reads every field into memory that it uses again, and builds nothing.\n" +
		"*kafka* is this library, *kafka-release* the same with `Records.Release`. 10-byte keys, 64 KiB batches, 6 partitions.\n")
	b.WriteString("\n![Records per CPU second](results.svg)\n")
	b.WriteString("\n## In multiples of franz-go's defaults\n\n")
	b.WriteString("Records per CPU second of the client, where it says *wall* per second; more is better.\n\n")
	b.WriteString("| workload | franz, CPU ns/record |")
	for _, name := range columns[1:] {
		fmt.Fprintf(&b, " %s |", name)
	}
	b.WriteString(" goal | goal with Release |\n|---|---|" + strings.Repeat("---|", len(columns)+1) + "\n")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(&b, "| %s | %s |", r.Name, r.cost(columns[0]))
		for _, name := range columns[1:] {
			fmt.Fprintf(&b, " %s |", r.ratioText(name))
		}
		fmt.Fprintf(&b, " %s | %s |\n", r.goalText("kafka"), r.goalText("kafka-release"))
	}
	b.WriteString("\n## All figures\n\n| workload | client | CPU/record | records/s | MB/s | allocs/record | RSS, MiB | p50 | p99 |\n|---|---|---|---|---|---|---|---|---|\n")
	for i := range rows {
		r := &rows[i]
		for _, name := range order(r) {
			m := r.By[name]
			fmt.Fprintf(&b, "| %s | %s | %s | %.0f | %.1f | %.4f | %.0f | %s | %s |\n", r.Name, name, r.cost(name), m.speed(),
				float64(m.Bytes)/m.Wall.Seconds()/1e6, perRecord(m.Allocs, m.Records), float64(m.RSS)/(1<<20), short(m.P50), short(m.P99))
		}
	}
	return b.String()
}

func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(model)
			}
		}
	}
	return "unknown processor"
}

// versions returns the versions of the clients.
func versions() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var out []string
	for _, d := range info.Deps {
		for _, client := range []string{"twmb/franz-go", "IBM/sarama", "segmentio/kafka-go", "confluentinc/confluent-kafka-go/v2"} {
			if d.Path == "github.com/"+client {
				out = append(out, client+" "+d.Version)
			}
		}
	}
	return out
}

const (
	svgLabel  = 250
	svgWidth  = 760
	svgRow    = 14
	svgGap    = 16
	svgTop    = 56
	svgScale  = svgWidth - svgLabel - 60
	svgLegend = 30
)

var colours = map[string]string{
	"franz": "#8a8f98", "franz-pooled": "#5f6670", "sarama": "#c9a86a", "kafka-go": "#a9c07f", "confluent": "#c98b8b",
	"kafka": "#2f7ed8", "kafka-release": "#0b4f9e",
}

// svg draws a bar for each client on each workload, this library's among them.
func svg(rows []row) string {
	names := []string{}
	for _, name := range columns {
		if name != "floor" {
			names = append(names, name)
		}
	}
	most := 1.0
	var shown []*row
	for i := range rows {
		if _, ok := rows[i].ratio("kafka"); !ok || rows[i].Idle {
			continue
		}
		shown = append(shown, &rows[i])
		for _, name := range names {
			v, _ := rows[i].ratio(name)
			most = max(most, v)
		}
	}
	var body strings.Builder
	y := svgTop
	for _, r := range shown {
		bars := 0
		for _, name := range names {
			v, ok := r.ratio(name)
			if !ok {
				continue
			}
			length := v / most * svgScale
			fmt.Fprintf(&body, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, svgLabel, y+bars*svgRow, length, svgRow-2, cmp.Or(colours[name], "#999"))
			fmt.Fprintf(&body, `<text x="%.1f" y="%d" class="v">%.2f</text>`+"\n", svgLabel+length+4, y+bars*svgRow+10, v)
			bars++
		}
		fmt.Fprintf(&body, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", svgLabel-10, y+bars*svgRow/2+3, r.Name)
		y += bars*svgRow + svgGap
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", svgWidth, y)
	b.WriteString(`<style>text{fill:#333}.v{font-size:10px}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>` + "\n")
	b.WriteString(`<text x="10" y="18" font-weight="bold">Records per CPU second, in multiples of franz-go's defaults (more is better)</text>` + "\n")
	x := 10
	for _, name := range names {
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, svgLegend, cmp.Or(colours[name], "#999"), x+14, svgLegend+9, name)
		x += 30 + 7*len(name)
	}
	b.WriteString(body.String())
	b.WriteString("</svg>\n")
	return b.String()
}

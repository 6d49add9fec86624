package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// text makes a table for a terminal.
func text(rows []row) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(w, "%s\tCPU/record\tratio\trecords/s\tMB/s\tallocs/record\tRSS MiB\tp50\tp99\tgoal\n", r.Name)
		for _, name := range order(r) {
			m := r.By[name]
			fmt.Fprintf(w, "  %s\t%s\t%s\t%.0f\t%.0f\t%.4f\t%.0f\t%s\t%s\t%s\n", name, r.cost(name), r.ratioText(name), m.speed(),
				float64(m.Bytes)/m.Wall.Seconds()/1e6, perRecord(m.Allocs, m.Records), float64(m.RSS)/(1<<20),
				short(m.P50), short(m.P99), r.goalText(name))
		}
	}
	w.Flush()
	return b.String()
}

// order returns the clients that were measured, those of the table first.
func order(r *row) []string {
	var names []string
	for _, name := range columns {
		if _, ok := r.By[name]; ok {
			names = append(names, name)
		}
	}
	if _, ok := r.By["kafka-iterator"]; ok {
		names = append(names, "kafka-iterator")
	}
	return names
}

func perRecord(n uint64, records int64) float64 { return float64(n) / float64(max(records, 1)) }

func short(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(10 * time.Microsecond).String()
}

// cost is the CPU time per record, or per second of waiting.
func (r *row) cost(name string) string {
	m := r.By[name]
	if r.Idle {
		return fmt.Sprintf("%.2f ms/s", m.CPU.Seconds()*1000/m.Wall.Seconds())
	}
	return fmt.Sprintf("%.1f ns", m.cost())
}

// merit is what is compared: more is better.
func (r *row) merit(name string) (float64, bool) {
	m, ok := r.By[name]
	switch {
	case !ok || m.CPU == 0:
		return 0, false
	case r.Wall:
		return m.speed(), true
	case r.Idle:
		return m.Wall.Seconds() / m.CPU.Seconds(), true
	}
	return 1 / m.cost(), m.Records > 0
}

// ratio compares a client with the first of columns.
func (r *row) ratio(name string) (float64, bool) {
	a, ok := r.merit(name)
	b, with := r.merit(columns[0])
	return a / b, ok && with
}

func (r *row) ratioText(name string) string {
	if v, ok := r.ratio(name); ok {
		return fmt.Sprintf("%.2f", v)
	}
	return "-"
}

func (r *row) goalText(name string) string {
	goal := map[string]float64{"kafka": r.Goal, "kafka-release": r.GoalRelease}[name]
	if goal == 0 {
		return ""
	}
	return fmt.Sprint(goal)
}

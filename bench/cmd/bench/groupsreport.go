package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// groupsText is the table for a terminal.
func groupsText(figures []groupFigure) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "groups\tprotocol\tfresh group to first record\tsecond member\tmoved partition stood\tkept partition stood\theartbeats")
	for _, f := range figures {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\t%d\n", f.Client, f.Protocol, millis(f.Fresh), millis(f.Second), millis(f.Moved), millis(f.Kept), f.Heartbeats)
	}
	w.Flush()
	return b.String()
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}

// groupsTable is a section of RESULTS.md.
func groupsTable(s *groupSuite, figures []groupFigure) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Kafka %s, %d partitions fed at 1,000 records per second, every client with its default heartbeats, medians of %d runs on %s.\n",
		s.version, groupPartitions, s.runs, time.Now().Format("2006-01-02"))
	fmt.Fprintf(&b, "*Stood*: the longest time between two records of a partition, from the start of the second member on, of those that moved to it\n"+
		"and of those that stayed. *Heartbeats*: requests of both members in the %v from the start of the second.\n\n", groupTogether)
	b.WriteString("| client | protocol | fresh group to first record | second member to first record | moved partition stood | kept one stood | heartbeats |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, f := range figures {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %d |\n", f.Client, f.Protocol, millis(f.Fresh), millis(f.Second), millis(f.Moved), millis(f.Kept), f.Heartbeats)
	}
	b.WriteString("\nGoals: a fresh group and a kept partition not above the best of the others; a moved one not above that with range, 250 ms with cooperative.\n")
	return b.String()
}

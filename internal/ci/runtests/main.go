// Command runtests runs "go test" in the modules of the project, prints its
// lines and ends with a table of how many tests ran against which broker. It
// fails when a test fails, and when fewer ran than the file of counts says:
// tests that silently do not run must not look like tests that pass.
//
//	runtests -counts testdata/test-counts.txt [-targets a,b] MODULE... -- GO-TEST-FLAGS...
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	counts := flag.String("counts", "", "file with the least number of tests per kind")
	targets := flag.String("targets", "", "names of subtests that are kinds of their own, separated by commas")
	flag.Parse()
	modules, flags := flag.Args(), []string(nil)
	if i := slices.Index(modules, "--"); i >= 0 {
		modules, flags = modules[:i], modules[i+1:]
	}
	if err := run(modules, flags, strings.Split(*targets, ","), *counts); err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(1)
	}
}

func run(modules, flags, targets []string, countsFile string) error {
	least, err := readCounts(countsFile)
	if err != nil {
		return err
	}
	total := newTally(targets)
	failed := false
	for _, dir := range modules {
		start := time.Now()
		ok, err := runModule(dir, flags, total)
		if err != nil {
			return err
		}
		failed = failed || !ok
		fmt.Printf("== %s: %s\n", dir, time.Since(start).Round(time.Second))
	}
	fmt.Println()
	fmt.Print(total.table(least))
	if short := total.missing(least, os.Getenv("CI") == "true"); len(short) > 0 {
		return fmt.Errorf("fewer tests ran than %s says: %s", countsFile, strings.Join(short, ", "))
	}
	if failed {
		return fmt.Errorf("there are failed tests")
	}
	return nil
}

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// An event is one line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
}

// runModule runs the tests of one module; ok is false when one failed.
func runModule(dir string, flags []string, total *tally) (ok bool, err error) {
	scripted, err := packagesOnTestbroker(dir)
	if err != nil {
		return false, err
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, append(flags, "./...")...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	p := printer{held: map[string]*bytes.Buffer{}, seeds: map[string]string{}}
	lines := bufio.NewReader(out)
	for {
		line, readErr := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			p.print(e)
			total.add(e, scripted[e.Package])
		} else {
			os.Stdout.Write(line)
		}
		if readErr != nil {
			break
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return false, nil
	}
	return err == nil, err
}

// packagesOnTestbroker gives the packages whose tests run against the
// scripted broker.
func packagesOnTestbroker(dir string) (map[string]bool, error) {
	const format = `{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}`
	cmd := exec.Command("go", "list", "-f", format, "./...")
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", dir, err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		for _, imported := range fields[1:] {
			if strings.HasSuffix(imported, "/internal/testbroker") {
				found[fields[0]] = true
			}
		}
	}
	return found, nil
}

// A printer shows what go test shows without -v: the line of each package,
// and the whole output of tests that failed. It also shows skipped tests.
type printer struct {
	held  map[string]*bytes.Buffer // output of tests that have not ended, by package and test
	seeds map[string]string        // how to shuffle as this run did, by package; shown when it failed
}

func (p *printer) print(e event) {
	name := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output":
		fmt.Print(e.Output)
	case e.Action == "output" && e.Test == "":
		switch {
		case strings.HasPrefix(e.Output, "-test.shuffle"):
			p.seeds[e.Package] = e.Output
		case strings.HasPrefix(e.Output, "FAIL\t"):
			fmt.Print(p.seeds[e.Package], e.Output)
		case e.Output != "PASS\n":
			fmt.Print(e.Output)
		}
	case e.Action == "output":
		if p.held[name] == nil {
			p.held[name] = &bytes.Buffer{}
		}
		p.held[name].WriteString(e.Output)
	case e.Test != "" && (e.Action == "fail" || e.Action == "skip"):
		if b := p.held[name]; b != nil {
			os.Stdout.Write(b.Bytes())
		}
		delete(p.held, name)
	case e.Test != "" && e.Action == "pass":
		delete(p.held, name)
	case e.Test == "" && e.Action == "fail":
		// A package that timed out or crashed: its tests never ended.
		for name, b := range p.held {
			if strings.HasPrefix(name, e.Package+" ") {
				os.Stdout.Write(b.Bytes())
				delete(p.held, name)
			}
		}
	}
}

//go:build unix

package sidebyside

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Script is what both clients do.
type Script struct {
	Name  string
	Steps []Step
}

// A Step is one line of a script and what belongs to it.
type Step struct {
	Line     int
	Words    []string
	Both     []string // what both observe, as far as the script says so
	Original []string // what only kafka-python observes
	Ours     []string // what only this library observes
	Why      string
}

// Load reads the scripts of a folder.
func Load(dir string) ([]Script, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var scripts []Script
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		steps, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		scripts = append(scripts, Script{strings.TrimSuffix(filepath.Base(file), ".txt"), steps})
	}
	return scripts, nil
}

func parse(text string) (steps []Step, err error) {
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0][0] == '#':
		case line[0] != ' ':
			steps = append(steps, Step{Line: i + 1, Words: words})
		case len(steps) == 0:
			return nil, fmt.Errorf("line %d belongs to no step", i+1)
		default:
			if err := steps[len(steps)-1].add(strings.TrimSpace(line)); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		}
	}
	for _, s := range steps {
		if differs := len(s.Original)+len(s.Ours) > 0; differs != (s.Why != "") {
			return nil, fmt.Errorf("line %d: a difference needs a reason, and a reason a difference", s.Line)
		}
	}
	return steps, nil
}

// add takes in an indented line.
func (s *Step) add(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "=":
		s.Both = append(s.Both, rest)
	case "kafka-python:":
		s.Original = append(s.Original, rest)
	case "here:":
		s.Ours = append(s.Ours, rest)
	case "why:":
		s.Why = rest
	default:
		return fmt.Errorf(`%q is none of "=", "kafka-python:", "here:" and "why:" ones`, kind)
	}
	return nil
}

// isCall tells whether the step is a consumer's, and not the cluster's.
func (s *Step) isCall() bool { return len(s.Words[0]) == 1 }

// split gives the words that are options, key=value, apart from the others.
func split(words []string) (plain []string, options map[string]string) {
	options = map[string]string{}
	for _, w := range words {
		if key, value, ok := strings.Cut(w, "="); ok {
			options[key] = value
		} else {
			plain = append(plain, w)
		}
	}
	return plain, options
}

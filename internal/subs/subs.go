// Package subs keeps what a consumer is subscribed to. It is plain data, not safe
// for concurrent use.
package subs

import (
	"errors"
	"regexp"
	"slices"
)

// A Kind is a way to say what to read.
type Kind int8

// The kinds. They exclude each other.
const (
	None Kind = iota
	Topics
	Pattern
	Manual
)

// ErrConflict is the error of switching kinds without Clear in between.
var ErrConflict = errors.New("subscribed in another way")

// A Topic is what metadata says of a topic.
type Topic struct {
	Name       string
	Partitions int // 0: it is not there
	Internal   bool
}

// A State is a subscription.
type State struct {
	kind            Kind
	topics          []string // as subscribed, or as matched by the pattern; sorted
	pattern         *regexp.Regexp
	includeInternal bool
}

// Kind returns in which way the consumer is subscribed.
func (s *State) Kind() Kind { return s.kind }

// Topics returns the topics: those subscribed to outright, or those that the
// pattern matches so far. The result must not be changed.
func (s *State) Topics() []string { return s.topics }

// SubscribeTopics replaces the list of topics.
func (s *State) SubscribeTopics(topics []string) error {
	if err := s.become(Topics); err != nil {
		return err
	}
	s.topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	return nil
}

// SubscribePattern replaces the pattern, which has to match a topic's whole name.
func (s *State) SubscribePattern(pattern *regexp.Regexp, includeInternal bool) error {
	whole, err := regexp.Compile(`\A(?:` + pattern.String() + `)\z`)
	if err != nil {
		return err
	}
	if err := s.become(Pattern); err != nil {
		return err
	}
	s.pattern, s.includeInternal = whole, includeInternal
	s.topics = slices.DeleteFunc(slices.Clone(s.topics), func(t string) bool { return !whole.MatchString(t) })
	return nil
}

// AssignManually notes that partitions are named one by one.
func (s *State) AssignManually(topics []string) error {
	if err := s.become(Manual); err != nil {
		return err
	}
	s.topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	return nil
}

func (s *State) become(k Kind) error {
	if s.kind != None && s.kind != k {
		return ErrConflict
	}
	s.kind = k
	return nil
}

// Clear ends the subscription.
func (s *State) Clear() { *s = State{} }

// Match takes over which topics there are. It returns whether the topics that the
// pattern matches changed; without a pattern nothing does.
func (s *State) Match(topics []Topic) (changed bool) {
	if s.kind != Pattern {
		return false
	}
	var matched []string
	for _, t := range topics {
		if t.Partitions > 0 && (s.includeInternal || !t.Internal) && s.pattern.MatchString(t.Name) {
			matched = append(matched, t.Name)
		}
	}
	slices.Sort(matched)
	if slices.Equal(matched, s.topics) {
		return false
	}
	s.topics = matched
	return true
}

package group

import "slices"

// handover is what the application owns, and the step that it has or will get. At
// most one step is with the application; a Lost waits until that is done.
type handover struct {
	owned []TopicPartition
	step  *Step
	taken bool             // the application began the step
	next  []TopicPartition // lost while the step is being done
}

func (h *handover) busy() bool { return h.step != nil }

// kept is what is owned and not lost.
func (h *handover) kept() []TopicPartition {
	kept := h.owned
	if h.step != nil && h.step.Kind == Lost {
		kept = without(kept, h.step.Partitions)
	}
	if len(h.next) > 0 {
		kept = without(kept, h.next)
	}
	return kept
}

func (m *Classic) stepHandover(ev Event) bool {
	h := &m.handover
	switch ev := ev.(type) {
	case StepTaken:
		if h.step == nil || h.step.ID != ev.ID || h.taken {
			return true
		}
		h.taken = true
		if h.step.Kind == Assign {
			h.owned = h.step.Assignment
		}
	case StepDone:
		if h.step != nil && h.step.ID == ev.ID && h.taken {
			m.stepDone()
		}
	default:
		return false
	}
	return true
}

func (m *Classic) stepDone() {
	h := &m.handover
	done := h.step
	h.step, h.taken = nil, false
	if done.Kind != Assign {
		h.owned = without(h.owned, done.Partitions)
	}
	if len(h.next) > 0 {
		lost := h.next
		h.next = nil
		m.hand(Lost, lost, nil)
		return
	}
	switch {
	case m.state == Revoking && done.Kind == Revoke:
		m.becomeJoining()
	case m.state == Releasing:
		m.release()
	case m.state == Assigning && done.Kind == Assign:
		m.becomeStable()
	case m.WantsPoll():
		m.do(Wake{})
	}
}

func (m *Classic) hand(kind StepKind, partitions, assignment []TopicPartition) {
	m.handover.step = &Step{
		ID: m.nextSeq(), Kind: kind,
		Partitions: slices.Clone(partitions), Assignment: slices.Clone(assignment),
	}
	m.handover.taken = false
	m.do(Hand{Step: m.handover.step})
}

// release has the application give up, one step after the other, what the assignment
// does not give it, and then take over the rest.
func (m *Classic) release() {
	if m.handover.busy() {
		return // with partitions that were lost; stepDone goes on
	}
	if gone := without(m.handover.owned, m.target); len(gone) > 0 {
		m.hand(Revoke, gone, nil)
		return
	}
	m.becomeAssigning()
}

// withdraw takes back a step that the application did not take.
func (m *Classic) withdraw() {
	if h := &m.handover; h.step != nil && !h.taken {
		h.step = nil
		m.do(Hand{})
	}
}

// lose tells the application that it owns nothing any more.
func (m *Classic) lose() {
	h := &m.handover
	if h.step != nil && h.taken && h.step.Kind != Assign {
		// What is being revoked is gone when that is done.
		h.next = without(h.owned, h.step.Partitions)
		m.stopRecords(h.next)
		return
	}
	if h.step != nil && h.step.Kind == Lost {
		return
	}
	m.stopRecords(h.owned)
	if h.taken {
		h.next = h.owned
		return
	}
	m.withdraw()
	if len(h.owned) > 0 {
		m.hand(Lost, h.owned, nil)
	}
}

func (m *Classic) stopRecords(tps []TopicPartition) {
	if len(tps) > 0 {
		m.do(StopRecords{Partitions: slices.Clone(tps)})
	}
}

// dropSteps forgets what the application owns and has to do: it knows.
func (m *Classic) dropSteps() {
	if m.handover.step != nil {
		m.do(Hand{})
	}
	m.handover = handover{}
}

// without returns those of from that are not in what.
func without(from, what []TopicPartition) []TopicPartition {
	set := make(map[TopicPartition]bool, len(what))
	for _, tp := range what {
		set[tp] = true
	}
	return slices.DeleteFunc(slices.Clone(from), func(tp TopicPartition) bool { return set[tp] })
}

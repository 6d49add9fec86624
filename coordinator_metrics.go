package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/kafkaconsumer/kafka/internal/group"
	"github.com/kafkaconsumer/kafka/protocol"
)

// noteTime measures how long a request took that was answered.
func noteTime(note func(took time.Duration, now time.Time), began time.Time, err error) {
	if err == nil {
		now := time.Now()
		note(now.Sub(began), now)
	}
}

// measureRebalance notes what an event, taken in state before, means for a rebalance:
// it begins with the first JoinGroup and ends with the assignment, however many rounds
// that takes.
func (co *coordinator) measureRebalance(ev group.Event, before group.State) {
	l, after := &co.loop, co.loop.machine.State()
	if before != group.Joining && after == group.Joining && l.rebalanceBegan.IsZero() {
		l.rebalanceBegan = time.Now()
	}
	if before == group.Syncing {
		switch after {
		case group.Releasing, group.Assigning, group.Stable:
			now := time.Now()
			co.metrics.Rebalanced(now.Sub(l.rebalanceBegan), now)
			l.rebalanceBegan = time.Time{}
		}
	}
	if (before == group.Joining || before == group.Syncing) && isFailedRound(ev) {
		co.metrics.RoundFailed(time.Now())
	}
}

// isFailedRound tells whether an event is the failure of a step of a round. That the
// coordinator gives a member its id is none, nor is what this member gave up itself.
func isFailedRound(ev group.Event) bool {
	var err error
	switch ev := ev.(type) {
	case group.JoinAnswered:
		err = ev.Err
	case group.AssignmentMade:
		err = ev.Err
	case group.SyncAnswered:
		err = ev.Err
	}
	code, _ := answeredCode(err)
	return err != nil && code != protocol.MemberIDRequired && !errors.Is(err, context.Canceled)
}

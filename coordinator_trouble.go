package kafka

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// trouble is what Poll must tell the application of the group.
type trouble struct {
	mu       sync.Mutex
	once     []error   // told once
	terminal error     // told each time
	standing error     // told at once, then at most once per RetryBackoffMax and failure
	told     time.Time // when standing was; zero: not yet
	fresh    bool      // there was a failure since
	since    time.Time // of the first failure in a row; zero: all is well
	cause    error     // the last failure that is no step of joining, while since is not zero
	noted    time.Time // when the last EventRetrying was
}

// takeError returns what the application must learn now, or nil.
func (co *coordinator) takeError() error {
	t := &co.trouble
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	switch {
	case len(t.once) > 0:
		err := t.once[0]
		t.once = t.once[1:]
		return err
	case t.terminal != nil:
		return t.terminal
	case t.standing != nil && t.fresh && (t.told.IsZero() || now.Sub(t.told) >= co.cfg.RetryBackoffMax):
		t.told, t.fresh = now, false
		return t.standing
	}
	return nil
}

// failed takes in an error that the application must learn.
func (co *coordinator) failed(err error, terminal bool) {
	err = co.groupError("", err)
	t := &co.trouble
	t.mu.Lock()
	first := t.terminal == nil && t.standing == nil
	if t.since.IsZero() {
		t.since = time.Now()
	}
	t.cause = err
	if terminal {
		t.terminal, t.standing = err, nil
	} else {
		t.standing, t.fresh = err, true
	}
	t.mu.Unlock()
	if first {
		co.log.Warn("kafka: the group does not take this member", "error", err, "retried", !terminal)
	}
	co.hooks.wake()
}

// retrying takes in a failure that is retried. The application learns of it when it
// is a refusal, or has lasted for RequestTimeout.
func (co *coordinator) retrying(operation string, err error) {
	now := time.Now()
	err = co.groupError("", err)
	t := &co.trouble
	t.mu.Lock()
	first := t.since.IsZero()
	if first {
		t.since = now
	}
	code, coded := errors.AsType[ErrorCode](err)
	passing := coded && isPassing(code) && now.Sub(t.since) < co.cfg.RequestTimeout
	note := !passing && (first || now.Sub(t.noted) >= co.cfg.RetryBackoffMax)
	if note {
		t.noted = now
	}
	if !passing {
		t.cause = err
	}
	tell := refusesGroup(err) || now.Sub(t.since) >= co.cfg.RequestTimeout
	if tell && t.terminal == nil {
		t.standing, t.fresh = err, true
	}
	t.mu.Unlock()
	if first && !passing {
		co.log.Warn("kafka: retrying until it succeeds", "operation", operation, "error", err)
	}
	if note {
		co.hooks.event(EventRetrying{Operation: operation, Err: err})
	}
	if tell {
		co.hooks.wake()
	}
}

// recovered ends what takeError tells. How long the coordinator has been in doubt is
// kept until it has proved itself, so that one which is found again and again and
// refuses each time is told of too.
func (co *coordinator) recovered() {
	t := &co.trouble
	t.mu.Lock()
	t.terminal, t.standing, t.told = nil, nil, time.Time{}
	t.mu.Unlock()
	if !co.doubted.Load() {
		t.over()
	}
	co.log.Debug("kafka: the group works again")
}

func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.terminal == nil && t.standing == nil {
		t.since, t.cause = time.Time{}, nil
	}
}

// view returns what is wrong with the group now, nil if nothing is, and since when.
func (t *trouble) view() (since time.Time, cause error, terminal bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		return time.Time{}, nil, false
	}
	return t.since, t.cause, t.terminal != nil
}

func (co *coordinator) expired(elapsed time.Duration) {
	co.trouble.mu.Lock()
	co.trouble.once = append(co.trouble.once, &PollIntervalError{Interval: co.cfg.MaxPollInterval, Elapsed: elapsed})
	co.trouble.mu.Unlock()
	co.log.Warn("kafka: the application did not poll in time, so this member leaves its group",
		"interval", co.cfg.MaxPollInterval, "elapsed", elapsed)
	co.hooks.event(EventPollIntervalExceeded{Interval: co.cfg.MaxPollInterval, Elapsed: elapsed})
	co.hooks.wake()
}

// refusesGroup reports errors that another try will not heal soon.
func refusesGroup(err error) bool {
	if isFinalError(err) {
		return true
	}
	code, ok := errors.AsType[ErrorCode](err)
	return ok && !code.Retriable() && !isPassing(code)
}

// isPassing tells whether a code is a step of joining, or one that joining again mends.
func isPassing(code ErrorCode) bool {
	switch code {
	case protocol.UnknownServerError, protocol.MemberIDRequired, protocol.RebalanceInProgress,
		protocol.UnknownMemberID, protocol.IllegalGeneration:
		return true
	default:
		return false
	}
}

// groupError names the group in an error; a nil error stays nil.
func (co *coordinator) groupError(operation string, err error) error {
	var named *groupError
	if err == nil || errors.As(err, &named) || errors.Is(err, ErrClosed) {
		return err
	}
	return &groupError{group: co.cfg.GroupID, operation: operation, err: publicError(err)}
}

// groupError says which group an error is about.
type groupError struct {
	group, operation string
	err              error
}

func (e *groupError) Error() string {
	if e.operation == "" {
		return fmt.Sprintf("kafka: group %q: %v", e.group, trimmed{e.err})
	}
	return fmt.Sprintf("kafka: group %q: %s: %v", e.group, e.operation, trimmed{e.err})
}

func (e *groupError) Unwrap() error { return e.err }

// isTerminal tells whether the group will not take this member any more.
func (t *trouble) isTerminal() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.terminal != nil
}

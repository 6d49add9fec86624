package conn

import (
	"context"
	"time"

	"github.com/kafkaconsumer/kafka/protocol"
)

// An alarm closes a link whose time is over. A request sets it twice, so setting it
// touches the timer only where that would fire too late; where it fires too early, it
// goes on. It is guarded by Link.mu.
type alarm struct {
	timer  *time.Timer
	fires  time.Time // when the timer does, zero: it is stopped
	due    time.Time // when the link is closed, zero: never
	within time.Duration
	why    awaited
}

// awaited is what a link is waiting for: something named by what, or for an API.
type awaited struct {
	what string // "" for the next request
	key  int16
}

// noKey is the key of what is no answer of an API.
const noKey = -1

func (w awaited) String() string {
	if w.key == noKey {
		return w.what
	}
	return w.what + " " + protocol.APIName(w.key)
}

// arm closes the link when it has waited for d from now on, unless it is armed anew
// before. It returns the failure of a link that is closed already.
func (l *Link) arm(now time.Time, d time.Duration, why awaited) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	a := &l.alarm
	a.due, a.within, a.why = now.Add(d), d, why
	if a.fires.IsZero() || a.due.Before(a.fires) {
		a.fires = a.due
		a.timer.Reset(d)
	}
	return nil
}

func (l *Link) disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alarm.due, l.alarm.fires = time.Time{}, time.Time{}
	l.alarm.timer.Stop()
}

// armIdle starts the time after which a link is closed that is unused from now on.
func (l *Link) armIdle(now time.Time) {
	if l.cfg.MaxIdle <= 0 {
		l.disarm()
		return
	}
	_ = l.arm(now, l.cfg.MaxIdle, awaited{}) // a closed link needs no alarm
}

func (l *Link) onTimer() {
	if err := l.overdue(); err != nil {
		_ = l.failWith(err)
	}
}

// overdue says why the link is to be closed now, or sets the timer anew.
func (l *Link) overdue() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.alarm
	a.fires = time.Time{}
	if a.due.IsZero() || l.err != nil {
		return nil
	}
	if left := time.Until(a.due); left > 0 {
		a.fires = a.due
		a.timer.Reset(left)
		return nil
	}
	if a.why.what == "" {
		return l.newError(OpClose, ErrIdle)
	}
	return l.newError(OpTimeout, &timeoutError{a.why.String(), a.within})
}

// CloseWith closes the link when ctx ends, whether it is in use or not. Calls with ctx
// need not watch it then, which is worth it for many of them. It is called at most once.
func (l *Link) CloseWith(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = l.fail(OpTimeout, ctxError(ctx)) })
	l.mu.Lock()
	closed := l.err != nil
	l.bound, l.free = ctx, stop
	l.mu.Unlock()
	if closed {
		stop()
	}
}

// within runs an exchange with the broker, which is over when ctx ends, when
// timeout has passed, or when the link is closed: the link is closed then, and
// the reading and writing inside fail.
func (l *Link) within(ctx context.Context, timeout time.Duration, what awaited, exchange func() error) error {
	if ctx.Err() != nil {
		return l.newError(OpTimeout, ctxError(ctx))
	}
	if err := l.arm(time.Now(), timeout, what); err != nil {
		return err
	}
	if ctx.Done() != nil && ctx != l.bound {
		stop := context.AfterFunc(ctx, func() { _ = l.fail(OpTimeout, ctxError(ctx)) })
		defer stop()
	}
	err := exchange()
	l.armIdle(time.Now())
	return err
}

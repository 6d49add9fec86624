//go:build unix

// Package proc runs the outside programs of the tests: brokers, Java tools,
// Python clients. What it starts ends with the test binary, however that ends.
package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Options says what to run.
type Options struct {
	Args []string // program and arguments
	Dir  string   // working directory; empty: the test's
	Env  []string // added to the environment
	Log  string   // file that standard error is appended to, and standard output unless Pipe is set
	Pipe bool     // give standard input and output to the caller as Stdin and Stdout
}

// A Process is a running program in a process group of its own. Its methods
// may be called from any goroutine.
type Process struct {
	Stdin  io.WriteCloser // nil without Options.Pipe
	Stdout io.ReadCloser  // nil without Options.Pipe

	cmd      *exec.Cmd
	name     string
	watchdog *watchdog
	done     chan struct{}
	err      error // valid when done is closed
}

// Start runs a program. The caller ends it with Stop or Kill; a watchdog
// kills its process group when the test binary dies first.
func Start(o Options) (*Process, error) {
	cmd := exec.Command(o.Args[0], o.Args[1:]...)
	cmd.Dir = o.Dir
	cmd.Env = append(os.Environ(), o.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &Process{cmd: cmd, name: o.Args[0], done: make(chan struct{})}

	log, err := os.OpenFile(o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own copy
	cmd.Stderr = log
	childOut := io.Closer(io.NopCloser(nil))
	if o.Pipe {
		// Not StdoutPipe: its Wait closes the reader before all was read.
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		p.Stdout, cmd.Stdout, childOut = r, w, w
		if p.Stdin, err = cmd.StdinPipe(); err != nil {
			return nil, errors.Join(err, r.Close(), w.Close())
		}
	} else {
		cmd.Stdout = log
	}
	err = cmd.Start()
	childOut.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	if p.watchdog, err = watch(cmd.Process.Pid); err != nil {
		p.signal(syscall.SIGKILL)
		_ = cmd.Wait()
		return nil, fmt.Errorf("start the watchdog of %s: %w", p.name, err)
	}
	go func() {
		p.err = cmd.Wait()
		p.watchdog.dismiss()
		close(p.done)
	}()
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err tells how the program ended; nil is exit status 0. Valid after Done.
func (p *Process) Err() error { return p.err }

// Running tells whether the program has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Stop sends SIGTERM, then SIGKILL when the program is still there after
// grace, and waits for the end.
func (p *Process) Stop(grace time.Duration) {
	p.signal(syscall.SIGCONT) // a stopped process does not see SIGTERM
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill sends SIGKILL and waits for the end.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// Pause stops the program (SIGSTOP) until Continue.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Continue lets a paused program go on.
func (p *Process) Continue() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) {
	if p.Running() {
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

// A watchdog is a shell that kills a process group when its standard input
// ends without a word, which is what happens when this test binary dies.
type watchdog struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
	once sync.Once
}

func watch(group int) (*watchdog, error) {
	cmd := exec.Command("sh", "-c", `read -r word || kill -s KILL -- "-$1"`, "watchdog", fmt.Sprint(group))
	// Its own group: an interrupt from the terminal must not end it first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &watchdog{cmd: cmd, pipe: pipe}, cmd.Start()
}

func (w *watchdog) dismiss() {
	w.once.Do(func() {
		_, _ = io.WriteString(w.pipe, "done\n")
		_ = w.pipe.Close()
		_ = w.cmd.Wait()
	})
}

// Run runs a program to its end; its output is part of the error.
func Run(args ...string) error {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", args[0], err, out)
	}
	return nil
}

//go:build unix

package main

import (
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// systemCommands are script commands that not every system has; [unix] guards them.
var systemCommands = map[string]func(*testscript.TestScript, bool, []string){
	"fifo": fifo, "interrupt": interrupt, "terminate": terminate, "hangup": hangup, "shrink": shrink, "head": head, "destroy": destroy,
}

// fifo makes a named pipe: fifo NAME
func fifo(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o600))
}

// interrupt, terminate and hangup run powerinfer, send it a signal once it has written to the stream and, if one is named, made FILE, hold it to the shell's exit
// status for that signal, and leave what it wrote in the files out and err: interrupt stdout|stderr[:FILE] ARGS...
func interrupt(ts *testscript.TestScript, _ bool, args []string) { end(ts, syscall.SIGINT, args) }
func terminate(ts *testscript.TestScript, _ bool, args []string) { end(ts, syscall.SIGTERM, args) }
func hangup(ts *testscript.TestScript, _ bool, args []string) {
	if signal.Ignored(syscall.SIGHUP) { // under nohup, programs go on
		return
	}
	end(ts, syscall.SIGHUP, args)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func end(ts *testscript.TestScript, by syscall.Signal, args []string) {
	p := start(ts, args[1:])
	watched, other := p.out, p.err
	if strings.HasPrefix(args[0], "stderr") {
		watched, other = p.err, p.out
	}
	first := make([]byte, 1)
	_, err := io.ReadFull(watched, first)
	ts.Check(err)
	if _, file, ok := strings.Cut(args[0], ":"); ok {
		for until := time.Now().Add(time.Minute); !exists(ts.MkAbs(file)) && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
	}
	ts.Check(p.Process.Signal(by))
	rest := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(other)
		rest <- b
	}()
	seen, err := io.ReadAll(watched)
	ts.Check(err)
	texts := [][]byte{append(first, seen...), <-rest}
	_ = p.Wait()
	if got := p.ProcessState.ExitCode(); got != statusSignal+int(by) {
		ts.Fatalf("exit status %d after signal %d: %s", got, by, texts)
	}
	if strings.HasPrefix(args[0], "stderr") {
		texts[0], texts[1] = texts[1], texts[0]
	}
	save(ts, "out", texts[0])
	save(ts, "err", texts[1])
}

// destroy runs powerinfer and kills it, so that it cannot end in order, once FILE has so many lines: destroy FILE LINES ARGS...
func destroy(ts *testscript.TestScript, _ bool, args []string) {
	file, least := ts.MkAbs(args[0]), args[1]
	lines, err := strconv.Atoi(least)
	ts.Check(err)
	p := start(ts, args[2:])
	go func() { _, _ = io.Copy(io.Discard, p.out) }()
	said := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(p.err)
		said <- b
	}()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if data, err := os.ReadFile(file); err == nil && strings.Count(string(data), "\n") >= lines {
			break
		}
	}
	_ = p.Process.Kill()
	text := <-said
	_ = p.Wait()
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		ts.Fatalf("it ended before it was killed, by %v: %s", p.ProcessState, text)
	}
}

// shrink runs powerinfer, cuts a file to a page once the program has written something, and holds it to exit status 1 and leaves its
// standard error in the file err: shrink FILE ARGS...
func shrink(ts *testscript.TestScript, _ bool, args []string) {
	p := start(ts, args[1:])
	_, err := io.ReadFull(p.out, make([]byte, 1))
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), 4096))
	go func() { _, _ = io.Copy(io.Discard, p.out) }()
	said, err := io.ReadAll(p.err)
	ts.Check(err)
	_ = p.Wait()
	save(ts, "err", said)
	if got := p.ProcessState.ExitCode(); got != statusError {
		ts.Fatalf("exit status %d: %s", got, said)
	}
}

// head runs powerinfer, reads N bytes of its output and closes the pipe; the process must end by itself and quietly:
// head N ARGS...
func head(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	p := start(ts, args[1:])
	_, err = io.ReadFull(p.out, make([]byte, n))
	ts.Check(err)
	ts.Check(p.out.Close())
	said, err := io.ReadAll(p.err)
	ts.Check(err)
	_ = p.Wait()
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signaled() && status.Signal() != syscall.SIGPIPE {
		ts.Fatalf("ended by %v", p.ProcessState)
	}
	if len(said) > 0 {
		ts.Fatalf("standard error holds %q", said)
	}
}

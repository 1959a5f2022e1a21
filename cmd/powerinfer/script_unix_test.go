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

// systemCommands are script commands that only some systems have. Scripts guard them with [unix].
var systemCommands = map[string]func(*testscript.TestScript, bool, []string){
	"fifo": fifo, "interrupt": interrupt, "terminate": terminate, "hangup": hangup, "shrink": shrink, "head": head,
}

// fifo makes a named pipe: fifo NAME
func fifo(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o600))
}

// interrupt, terminate and hangup run powerinfer and send it a signal. They wait until it has written to the stream, or
// written TEXT to it, and until FILE exists. They check for the shell's exit status of that signal, and save the output
// as out and err: interrupt stdout|stderr[=TEXT][:FILE] ARGS...
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

// startBehind starts powerinfer with the lowest priority, so that the test can act before a short run ends.
func startBehind(ts *testscript.TestScript, args []string) process {
	return start(ts, "nice", append([]string{"-n", "19", "powerinfer"}, args...))
}

func end(ts *testscript.TestScript, by syscall.Signal, args []string) {
	p := startBehind(ts, args[1:])
	after, file, made := strings.Cut(args[0], ":")
	stream, text, _ := strings.Cut(after, "=")
	watched, other := p.out, p.err
	if stream == "stderr" {
		watched, other = p.err, p.out
	}
	var first []byte
	for len(first) == 0 || !strings.Contains(string(first), text) {
		one := make([]byte, 1)
		_, err := io.ReadFull(watched, one)
		ts.Check(err)
		first = append(first, one...)
	}
	if made {
		for until := time.Now().Add(processLimit); !exists(ts.MkAbs(file)) && time.Now().Before(until); {
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
	if stream == "stderr" {
		texts[0], texts[1] = texts[1], texts[0]
	}
	save(ts, "out", texts[0])
	save(ts, "err", texts[1])
}

// shrink runs powerinfer and cuts a file to a page after its first output. powerinfer must exit with status 1; its
// standard error is saved as err: shrink FILE ARGS...
func shrink(ts *testscript.TestScript, _ bool, args []string) {
	p := start(ts, "powerinfer", args[1:])
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

// head runs powerinfer, reads N bytes of its output and closes the pipe. The process must end by itself without a
// message: head N ARGS...
func head(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	p := start(ts, "powerinfer", args[1:])
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

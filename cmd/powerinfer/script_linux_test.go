package main

import (
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

func init() { systemCommands["unlocked"] = unlocked }

// unlocked runs powerinfer without the right to lock memory, and saves its standard error as err: unlocked ARGS...
func unlocked(ts *testscript.TestScript, _ bool, args []string) {
	path, err := exec.LookPath("powerinfer")
	ts.Check(err)
	type result struct {
		stderr string
		status int
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, together with its missing capability
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_IPC_LOCK, 0, 0, 0)
		var text strings.Builder
		cmd := exec.Command("sh", append([]string{"-c", `ulimit -l 0 && exec "$0" "$@"`, path}, args...)...)
		cmd.Stderr, cmd.Env = &text, append(os.Environ(), "LLAMA_ARG_THREADS=2")
		_ = cmd.Run()
		done <- result{text.String(), cmd.ProcessState.ExitCode()}
	}()
	r := <-done
	if r.status != statusError {
		ts.Fatalf("exit status %d: %s", r.status, r.stderr)
	}
	save(ts, "err", []byte(r.stderr))
}
